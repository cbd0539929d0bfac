// attention_hopper_keys.cu: consumers of the gradient of attention on sm_90a that have 64 keys each: all of their dk and
// dv, while both fit the registers.
//
// Accumulators p and ds are operands of dv and dk as they are. Scores are of QUERY_STEP queries at a time: 32 where dk
// and dv take more than 128 registers of a thread. With BUFFERS == 1 ds is written anew when all of dq is made of it.
static_assert(KEY_TILE == CONSUMERS * 64, "a block is what all consumers have");
typedef float Deep[1][DEPTH_PAD / 8][4];
typedef float Values[1][VALUE_PAD / 8][4];
constexpr int STEPS = QUERY_TILE / QUERY_STEP;

__device__ __forceinline__ void products_of_values(Scores &d, SharedAddress v, SharedAddress d_o, int step) {
  products_begin();
  rows_multiply<VALUE_PAD, KEY_TILE, QUERY_TILE>(d[0], v, d_o + step * STEP_BYTES);
  products_close();
}

// What is in flight fits the registers: of dv, dk, s, d and dq, and p and ds as operands, at most 224.
__device__ __forceinline__ void multiply_all(const Slots &slots, SharedAddress shared, Where where, Keys keys,
                                             const Walk &walk) {
  const int thread = (int)threadIdx.x - COPIERS, mine = thread / 128, warp = thread / 32;
  const bool tells = threadIdx.x % 32 == 0;
  Deep dk;
  Values dv;
  clear(dk);
  clear(dv);
  int here = tile_come(shared, 0);
  if (MORE_KEYS && here >= walk.count) {
    return;
  }
  if (here < walk.count) {
    keys_come(shared, keys);
  }
  keys.key += warp * 16;  // of the warp
  if (here < walk.count) {
    Scores s, d;
    scores_begin(s, shared, shared + mine * 64 * LINE, 0, 0, true);
    products_wait<0>();
    products_hold(s[0]);
#pragma unroll 1
    for (int i = 0; (HIDING ? here : i) < walk.count; i++) {
      KEEP_IN_LOOP(shared);
      const int stage = i % STAGES, at = HIDING ? here : i;
      const SharedAddress k = shared + mine * 64 * LINE, v = shared + V_BEGIN + mine * 64 * LINE;
      const SharedAddress q = shared + Q_BEGIN + stage * Q_BYTES, d_o = shared + D_BEGIN + stage * D_BYTES;
      const SharedAddress numbers = shared + NUMBERS + 2 * stage * NUMBER_BYTES;
      const SharedAddress ds = shared + S_BEGIN + i % BUFFERS * S_BYTES;
      const QueryTile tile = walk_tile(walk, at);
      Half<CHUNKS_K> dq;
      phase_wait(phase_of(shared, D_FULL + stage), i / STAGES % 2);
      products_of_values(d, v, d_o, 0);
#pragma unroll
      for (int step = 0; step < STEPS; step++) {
        u32 p[QUERY_STEP / 16][4], g[QUERY_STEP / 16][4];
        const SharedAddress of_step = numbers + step * QUERY_STEP * 4;
        powers_make(s, p, of_step, keys, walk, tile, step, slope_of<float>(slots, where, tile.group),
                    score_at(slots, where.batch, where.head, tile.group));
        products_begin();
        columns_multiply<QUERY_STEP, QUERY_TILE>(dv[0], p, d_o + step * STEP_BYTES);
        products_close();
        products_wait<1>();
        products_hold(d[0]);
        gradients_make(d, s, of_step + NUMBER_BYTES);
        fragments_of<QUERY_STEP>(g, d[0]);
        if (BUFFERS == 1 && step == 0 && i > 0) {
          phase_wait(phase_of(shared, DQ_FULL), (i - 1) % 2);
        }
        fragments_share(ds + warp * 16 * LINE, g, step);
        shared_publish();
        products_begin();
        columns_multiply<QUERY_STEP, QUERY_TILE>(dk[0], g, q + step * STEP_BYTES);
        products_close();
        if (step + 1 < STEPS) {
          scores_begin(s, shared, k, i, step + 1, false);
          products_of_values(d, v, d_o, step + 1);
          products_wait<1>();
          products_hold(s[0]);
          products_hold(dv[0]);
          products_hold(dk[0]);
        }
      }
      turn_sync(1, MULTIPLIERS);  // ds is there
      products_begin();
      if (STEPS > 1) {
        whole_multiply<1, KEY_TILE, KEY_TILE>(dq, ds, shared, mine, false);
      } else {
        half_multiply<1, KEY_TILE, KEY_TILE>(dq, ds, shared, mine, false);
      }
      products_close();
      products_wait<1>();
      products_hold(dv[0]);
      products_hold(dk[0]);
      if (tells) {
        phase_arrive(phase_of(shared, Q_EMPTY + stage));
        phase_arrive(phase_of(shared, D_EMPTY + stage));
      }
      const int next = tile_come(shared, i + 1);
      if (STEPS > 1) {
        const SharedAddress to = queries_place(shared, i, mine);
        products_wait<0>();
        products_hold(dq.whole[0]);
        whole_share(to, dq, mine);
        products_begin();
        middle_multiply<1, KEY_TILE, KEY_TILE>(dq, ds, shared, mine, false);
        products_close();
        scores_begin(s, shared, k, i + 1, 0, next < walk.count);
        products_wait<1>();
        products_hold(dq.half[0]);
        middle_share(to, dq, mine);
        queries_tell(shared, i);
      } else {
        scores_begin(s, shared, k, i + 1, 0, next < walk.count);
        products_wait<1>();
        half_hold(dq);
        queries_share(shared, dq, i, mine);
      }
      products_wait<0>();
      products_hold(s[0]);
      here = next;
    }
  }
  const float scale[1][2] = {{SCALE, SCALE}}, one[1][2] = {{1.0f, 1.0f}};
  const int rows = keys.end - keys.key;
  result_store<DEPTH_PAD, DEPTH, MORE_KEYS>(KEY_AT((Made *)slots.at[7], DK, keys.key), DK_KEY, dk, scale, one, rows);
  result_store<VALUE_PAD, VALUE_DEPTH, MORE_KEYS>(KEY_AT((Made *)slots.at[8], DV, keys.key), DV_KEY, dv, one, one,
                                                  rows);
}
