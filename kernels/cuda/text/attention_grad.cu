// attention_grad.cu: the gradient of attention of 16-bit elements on tensor cores, without atomics.
//
// Three steps: delta = rowsum(do o), f32, into the scratch; dk and dv by blocks of KEY_ROWS keys that go over all
// queries that see them, group after group; dq by blocks of QUERY_ROWS queries that go over the keys they see. The
// probabilities are made again from the saved statistics, p = exp(scale q.k - statistic), ds = p (do.v - delta).
// In both, the accumulators of a 16 x 16 product are the fragments of the next one: p and ds stay in registers.
//
// That is seven products where one pass over the keys would do with five and atomic additions to dq. The two more cost
// about two thirds of the dq step: of 2.9 ms 0.7 ms (H200, causal, bf16, B 2, T 4096, 32 heads on 8, depth 128: dk and
// dv 1834 us, dq 1068 us) and of 1.2 ms 0.33 ms (B 64, T 1024, 12 heads, depth 64: 703 us and 501 us). To add up dq in
// a fixed order instead, each block of 128 keys would leave an f32 part of dq: 2.2 GB written and read again in the
// first case, 0.9 GB in the second, 1.1 ms and 0.45 ms at 4 TB/s, more than is saved. ds in 16 bits, in the order of
// the fragments, is half of that at depth 128 and as much at 64; with its writing hidden behind the products it might
// save up to a fifth, for scratch that grows with the square of the length: not taken.

// --- dk and dv ---

// What QUERY_STEP queries of a tile add to dv and dk. keys: of the warp; first: the last that the first query sees;
// queries: how many there are; slope: of their head.
template <bool WITH_DV, bool WITH_DK>
__device__ __forceinline__ void keys_step(float (&dv)[KEY_BLOCKS][WITH_DV ? VALUE_PAD / 8 : 1][4],
                                          float (&dk)[KEY_BLOCKS][WITH_DK ? DEPTH_PAD / 8 : 1][4], const u16 *k,
                                          const u16 *v, const u16 *tile, int step, const Keys &keys, int first,
                                          int queries, float slope, const ScoreAt &score, int query) {
  const u16 *const q = tile + step * ROW_K, *const d_o = tile + QUERY_TILE * ROW_K + step * ROW_V;
  const float *const numbers = (const float *)(tile + QUERY_TILE * (ROW_K + ROW_V)) + step;
  float s[KEY_BLOCKS][QUERY_STEP / 8][4];
  u32 p[KEY_BLOCKS][QUERY_STEP / 16][4];
  clear(s);
  product_rows<KEY_BLOCKS, QUERY_STEP, DEPTH_PAD, ROW_K, ROW_K>(s, k, q);
  float slopes[KEY_BLOCKS][QUERY_STEP / 8][4];
  if (SCORED) {
    slopes_make<true>(s, slopes, score, {query, first + keys.lead, keys.key, keys.key + keys.lead});
  } else if (BIASED) {
    biases_add<KEY_BLOCKS, QUERY_STEP, true>(s, slope, keys.key - first);
  }
  key_powers(s, numbers, keys, first, queries);
  if constexpr (WITH_DV) {
#pragma unroll
    for (int m = 0; m < KEY_BLOCKS; m++) {
      fragments_of<QUERY_STEP>(p[m], s[m]);
    }
    product_columns<KEY_BLOCKS, QUERY_STEP, VALUE_PAD, ROW_V>(dv, p, d_o);
  }
  if constexpr (WITH_DK) {
    if (SCORED) {
      slopes_take(s, slopes);
    }
    float d[KEY_BLOCKS][QUERY_STEP / 8][4];
    clear(d);
    product_rows<KEY_BLOCKS, QUERY_STEP, VALUE_PAD, ROW_V, ROW_V>(d, v, d_o);
#pragma unroll
    for (int n = 0; n < QUERY_STEP / 8; n++) {
      const float2 both = *(const float2 *)(numbers + QUERY_TILE + n * 8 + (int)threadIdx.x % 4 * 2);
#pragma unroll
      for (int e = 0; e < 2; e++) {
        const float delta = e ? both.y : both.x;
#pragma unroll
        for (int m = 0; m < KEY_BLOCKS; m++) {
          d[m][n][e] = s[m][n][e] * (d[m][n][e] - delta);
          d[m][n][2 + e] = s[m][n][2 + e] * (d[m][n][2 + e] - delta);
        }
      }
    }
#pragma unroll
    for (int m = 0; m < KEY_BLOCKS; m++) {
      fragments_of<QUERY_STEP>(p[m], d[m]);
    }
    product_columns<KEY_BLOCKS, QUERY_STEP, DEPTH_PAD, ROW_K>(dk, p, q);
  }
}

// WITH_DV, WITH_DK: both where their accumulators fit the registers.
template <bool WITH_DV, bool WITH_DK>
__device__ __forceinline__ void keys_backward(const Slots &slots) {
  u16 *const tile_k = (u16 *)shared_memory, *const tile_v = tile_k + KEY_ROWS * ROW_K;
  u16 *const stages = tile_v + KEY_ROWS * ROW_V;
  const int row = (int)threadIdx.x / 32 * KEY_BLOCKS * 16;
  const bool whole = all_whole(slots);
  Where where;
  Keys keys = where_keys<KEY_ROWS>(slots, where);
  const Walk walk = walk_of(slots, keys, KEY_ROWS);
  QueryTile next = tile_first(walk, 0);
  float dk[KEY_BLOCKS][WITH_DK ? DEPTH_PAD / 8 : 1][4], dv[KEY_BLOCKS][WITH_DV ? VALUE_PAD / 8 : 1][4];
  float scale[KEY_BLOCKS][2], one[KEY_BLOCKS][2];
  if (MORE_KEYS && walk.count == 0) {
    return;
  }
  clear(dk);
  clear(dv);
  tile_load<KEY_ROWS, DEPTH_PAD, DEPTH, ROW_K, KEY_THREADS>(tile_k, KEY_AT((const u16 *)slots.at[1], K, keys.key),
                                                            K_KEY, keys.limit - keys.key, whole);
  if (WITH_DK) {
    tile_load<KEY_ROWS, VALUE_PAD, VALUE_DEPTH, ROW_V, KEY_THREADS>(
        tile_v, KEY_AT((const u16 *)slots.at[2], V, keys.key), V_KEY, keys.limit - keys.key, whole);
  }
  if (walk.count > 0) {
    queries_load(slots, where, next, stages, whole);
  }
  keys.key += row;  // from here on those of the warp
  for (int i = 0; i < walk.count; i++) {
    const QueryTile now = next;
    const int first = (now.part ? walk.first_1 : walk.first_0) + now.inside;
    const u16 *const tile = stages + i % 2 * STAGE;
    const float slope = slope_of<float>(slots, where, now.group);
    const ScoreAt score = score_at(slots, where.batch, where.head, now.group);
    copies_wait();
    __syncthreads();  // this tile is here, and nothing reads the last one
    if (i + 1 < walk.count) {
      next = tile_next(walk, now);
      queries_load(slots, where, next, stages + (i + 1) % 2 * STAGE, whole);
    }
#pragma unroll 1
    for (int step = 0; step < QUERY_TILE; step += QUERY_STEP) {
      if (!CAUSAL || keys.key < first + step + QUERY_STEP) {  // a query of the step sees a key of the warp
        keys_step<WITH_DV, WITH_DK>(dv, dk, tile_k + row * ROW_K, tile_v + row * ROW_V, tile, step, keys, first + step,
                                    rows_of(now) - step, slope, score, now.part * PART_QUERIES + now.inside + step);
      }
    }
  }
  copies_wait();
  __syncthreads();
  fill(scale, SCALE);
  fill(one, 1.0f);
  if constexpr (WITH_DK) {
    sums_store<KEY_BLOCKS, DEPTH_PAD, DEPTH, ROW_K, MORE_KEYS>(KEY_AT((Made *)slots.at[7], DK, keys.key), DK_KEY,
                                                               tile_k + row * ROW_K, dk, scale, one,
                                                               keys.end - keys.key, whole);
  }
  if constexpr (WITH_DV) {
    sums_store<KEY_BLOCKS, VALUE_PAD, VALUE_DEPTH, ROW_V, MORE_KEYS>(KEY_AT((Made *)slots.at[8], DV, keys.key), DV_KEY,
                                                                     tile_v + row * ROW_V, dv, one, one,
                                                                     keys.end - keys.key, whole);
  }
}

#if KEYS_TOGETHER
extern "C" __global__ void __launch_bounds__(KEY_THREADS, KEY_BLOCKS_PER_UNIT) attention_keys(Slots slots) {
  keys_backward<true, true>(slots);
}
#else
extern "C" __global__ void __launch_bounds__(KEY_THREADS, KEY_BLOCKS_PER_UNIT) attention_dv(Slots slots) {
  keys_backward<true, false>(slots);
}

extern "C" __global__ void __launch_bounds__(KEY_THREADS, KEY_BLOCKS_PER_UNIT) attention_dk(Slots slots) {
  keys_backward<false, true>(slots);
}
#endif

// --- dq ---

extern "C" __global__ void __launch_bounds__(QUERY_THREADS, QUERY_BLOCKS_PER_UNIT) attention_dq(Slots slots) {
  u16 *const tile_q = (u16 *)shared_memory, *const tile_d = tile_q + QUERY_ROWS * ROW_K;
  u16 *const stages = tile_d + QUERY_ROWS * ROW_V;
  const int lane = (int)threadIdx.x % 32, row = (int)threadIdx.x / 32 * QUERY_BLOCKS * 16;
  const Where where = where_queries<QUERY_ROWS>(slots);
  const bool whole = all_whole(slots);
  const float slope = slope_of<float>(slots, where, where.group);
  const u16 *k = KEY_AT((const u16 *)slots.at[1], K, 0), *v = KEY_AT((const u16 *)slots.at[2], V, 0);
  const ScoreAt score = score_at(slots, where.batch, where.head, where.group);
  Keys keys = keys_first(slots, where);
  float dq[QUERY_BLOCKS][DEPTH_PAD / 8][4], shift[QUERY_BLOCKS][2], delta[QUERY_BLOCKS][2];
  float scale[QUERY_BLOCKS][2], one[QUERY_BLOCKS][2];
  if (MORE && keys.key >= keys.end) {
    return;
  }
  clear(dq);
#pragma unroll
  for (int m = 0; m < QUERY_BLOCKS; m++) {
#pragma unroll
    for (int half = 0; half < 2; half++) {
      const int at = row + m * 16 + half * 8 + lane / 4;
      const i64 number = row_of(where) + at;
      shift[m][half] = at < where.rows ? shift_of(((const float *)slots.at[4])[number]) : 0.0f;
      delta[m][half] = at < where.rows ? ((const float *)slots.at[SCRATCH])[number] : 0.0f;
    }
  }
  tile_load<QUERY_ROWS, DEPTH_PAD, DEPTH, ROW_K, QUERY_THREADS>(tile_q, QUERY_AT((const u16 *)slots.at[0], Q, 0),
                                                                Q_QUERY, where.rows, whole);
  tile_load<QUERY_ROWS, VALUE_PAD, VALUE_DEPTH, ROW_V, QUERY_THREADS>(tile_d, QUERY_AT((const u16 *)slots.at[5], DO, 0),
                                                                      DO_QUERY, where.rows, whole);
  keys_load(k, v, keys, stages, whole);
  for (int i = 0; keys.key < keys.end; keys = keys_next<KEY_TILE>(slots, where, keys), i++) {
    const int position = where.position - keys.lead + row;
    const u16 *const tile_k = stages + i % 2 * KEY_STAGE;
    float s[QUERY_BLOCKS][KEY_TILE / 8][4], d[QUERY_BLOCKS][KEY_TILE / 8][4];
    u32 p[QUERY_BLOCKS][KEY_TILE / 16][4];
    copies_wait();
    __syncthreads();  // this tile is here, and nothing reads the last one
    const Keys next = keys_next<KEY_TILE>(slots, where, keys);
    if (next.key < next.end) {
      keys_load(k, v, next, stages + (i + 1) % 2 * KEY_STAGE, whole);
    }
    if (CAUSAL && keys.key > position + QUERY_BLOCKS * 16 - 1) {
      continue;  // no query of the warp sees a key of the tile
    }
    clear(s);
    clear(d);
    product_rows<QUERY_BLOCKS, KEY_TILE, DEPTH_PAD, ROW_K, ROW_K>(s, tile_q + row * ROW_K, tile_k);
    product_rows<QUERY_BLOCKS, KEY_TILE, VALUE_PAD, ROW_V, ROW_V>(d, tile_d + row * ROW_V, tile_k + KEY_TILE * ROW_K);
    float slopes[QUERY_BLOCKS][KEY_TILE / 8][4];
    if (SCORED) {
      slopes_make<false>(s, slopes, score, {where.query + row, where.position + row, keys.key, keys.key + keys.lead});
    } else if (BIASED) {
      biases_add<QUERY_BLOCKS, KEY_TILE, false>(s, slope, keys.key - position);
    }
    query_gradient(s, d, shift, delta, position, keys);
    if (SCORED) {
      slopes_take(s, slopes);
    }
#pragma unroll
    for (int m = 0; m < QUERY_BLOCKS; m++) {
      fragments_of<KEY_TILE>(p[m], s[m]);
    }
    product_columns<QUERY_BLOCKS, KEY_TILE, DEPTH_PAD, ROW_K>(dq, p, tile_k);
  }
  if (RING || SCORED) {  // there may have been no keys
    copies_wait();
    __syncthreads();
  } else {
    __syncwarp();  // no lane reads q any more
  }
  fill(scale, SCALE);
  fill(one, 1.0f);
  sums_store<QUERY_BLOCKS, DEPTH_PAD, DEPTH, ROW_K, MORE>(
      QUERY_AT((Made *)slots.at[6], DQ, row), DQ_QUERY, tile_q + row * ROW_K, dq, scale, one, where.rows - row, whole);
}
