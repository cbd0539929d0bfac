// attention_hopper_columns.cu: consumers of the gradient of attention on sm_90a that have half of the columns of dk, dv
// and dq each, of all keys of a block: where heads are so deep that registers do not hold more.
//
// Each makes the scores of half of the queries of a tile; p and ds of both go through shared memory. At a depth of 256
// that has one place for q and do each: dk is made first, so that the next q comes while dv and dq are made.
static_assert(KEY_TILE == 64 && QUERY_STEP * CONSUMERS == QUERY_TILE && BUFFERS == 1, "what accumulators are made for");

template <int CHUNKS>
__device__ __forceinline__ void half_clear(Half<CHUNKS> &x) {
  clear(x.whole);
  clear(x.half);
}

// REAL: columns that there are of all.
template <int REAL, int CHUNKS>
__device__ __forceinline__ void half_store(Made *to, i64 stride, const Half<CHUNKS> &x, int mine, float factor, int rows) {
  typedef Half<CHUNKS> Of;
  const float scale[1][2] = {{factor, factor}}, one[1][2] = {{1.0f, 1.0f}};
  if constexpr (Of::WHOLE > 0) {
    if (mine) {
      result_store<Of::WHOLE, REAL - Of::LATER, MORE_KEYS>(to + Of::LATER, stride, x.whole, scale, one, rows);
    } else {
      result_store<Of::WHOLE, REAL, MORE_KEYS>(to, stride, x.whole, scale, one, rows);
    }
  }
  if constexpr (Of::HALF > 0) {
    if (mine) {
      result_store<Of::HALF, REAL - Of::MIDDLE - 32, MORE_KEYS>(to + Of::MIDDLE + 32, stride, x.half, scale, one, rows);
    } else {
      result_store<Of::HALF, REAL - Of::MIDDLE, MORE_KEYS>(to + Of::MIDDLE, stride, x.half, scale, one, rows);
    }
  }
}

// What is in flight fits the registers: of dv, dk, dq and s, at most 208.
__device__ __forceinline__ void multiply_all(const Slots &slots, SharedAddress shared, Where where, Keys keys,
                                             const Walk &walk) {
  const int thread = (int)threadIdx.x - COPIERS, mine = thread / 128, row = thread % 128 / 32 * 16;
  const bool tells = threadIdx.x % 32 == 0;
  Half<CHUNKS_K> dk;
  Half<CHUNKS_V> dv;
  half_clear(dk);
  half_clear(dv);
  int here = tile_come(shared, 0);
  if (MORE_KEYS && here >= walk.count) {
    return;
  }
  if (here < walk.count) {
    keys_come(shared, keys);
  }
  keys.key += row;  // of the warp
  if (here < walk.count) {
    Scores s;
    scores_begin(s, shared, shared, 0, mine, true);
    products_wait<0>();
    products_hold(s[0]);
#pragma unroll 1
    for (int i = 0; (HIDING ? here : i) < walk.count; i++) {
      KEEP_IN_LOOP(shared);
      const int stage = i % STAGES, at = HIDING ? here : i;
      const SharedAddress q = shared + Q_BEGIN + stage * Q_BYTES, d_o = shared + D_BEGIN + stage * D_BYTES;
      const SharedAddress numbers = shared + NUMBERS + 2 * stage * NUMBER_BYTES + mine * QUERY_STEP * 4;
      const SharedAddress ds = shared + S_BEGIN, p = ds + S_BYTES;
      const QueryTile tile = walk_tile(walk, at);
      u32 fragments[QUERY_STEP / 16][4];
      Scores d;
      Half<CHUNKS_K> dq;
      phase_wait(phase_of(shared, D_FULL + stage), i / STAGES % 2);
      products_begin();
      rows_multiply<VALUE_PAD, KEY_TILE, QUERY_TILE>(d[0], shared + V_BEGIN, d_o + mine * STEP_BYTES);
      products_close();
      powers_make(s, fragments, numbers, keys, walk, tile, mine, slope_of<float>(slots, where, tile.group),
                  score_at(slots, where.batch, where.head, tile.group));
      if (i > 0) {
        phase_wait(phase_of(shared, DQ_FULL), (i - 1) % 2);  // nobody reads p and ds
      }
      fragments_share(p + row * LINE, fragments, mine);
      products_wait<0>();
      products_hold(d[0]);
      gradients_make(d, s, numbers + NUMBER_BYTES);
      fragments_of<QUERY_STEP>(fragments, d[0]);
      fragments_share(ds + row * LINE, fragments, mine);
      shared_publish();
      turn_sync(1, MULTIPLIERS);  // p and ds are there
      products_begin();
      half_multiply<0, QUERY_TILE, QUERY_TILE>(dk, ds, q, mine, true);
      products_close();
      half_multiply<0, QUERY_TILE, QUERY_TILE>(dv, p, d_o, mine, true);
      products_close();
      half_multiply<1, KEY_TILE, KEY_TILE>(dq, ds, shared, mine, false);
      products_close();
      products_wait<2>();
      half_hold(dk);
      if (tells) {
        phase_arrive(phase_of(shared, Q_EMPTY + stage));
      }
      products_wait<1>();
      half_hold(dv);
      if (tells) {
        phase_arrive(phase_of(shared, D_EMPTY + stage));
      }
      const int next = tile_come(shared, i + 1);
      scores_begin(s, shared, shared, i + 1, mine, next < walk.count);
      products_wait<1>();
      half_hold(dq);
      queries_share(shared, dq, i, mine);
      products_wait<0>();
      products_hold(s[0]);
      here = next;
    }
  }
  const int rows = keys.end - keys.key;
  half_store<DEPTH>(KEY_AT((Made *)slots.at[7], DK, keys.key), DK_KEY, dk, mine, SCALE, rows);
  half_store<VALUE_DEPTH>(KEY_AT((Made *)slots.at[8], DV, keys.key), DV_KEY, dv, mine, 1.0f, rows);
}
