// attention_captured.cu: the gradient of one tensor that scores capture, of 16-bit elements on tensor cores.
//
// `scores::derived` is what the gradient of a score is multiplied by for that tensor. BY_KEY: blocks of keys go over
// their queries and sum over those, group after group; else blocks of queries go over the keys they see and sum over
// those, or, BY_PAIR, keep them apart and go over all lines that share them. Whoever owns a sum adds it up in the order
// of its tiles, in memory by the same thread each time. Products are made again: two, without a third.

// Over the 4 lanes that share a row; the sum then begins anew.
__device__ __forceinline__ float sum_end(float &sum) {
  float all = sum;
  all += __shfl_xor_sync(0xffffffffu, all, 1);
  all += __shfl_xor_sync(0xffffffffu, all, 2);
  sum = 0.0f;
  return all;
}

#if BY_KEY
// As keys_step of attention_grad.cu.
__device__ __forceinline__ void captured_step(float (&sums)[KEY_BLOCKS][2], const u16 *k, const u16 *v, const u16 *tile,
                                              int step, const Keys &keys, int first, int queries, const ScoreAt &score,
                                              int query) {
  const u16 *const q = tile + step * ROW_K, *const d_o = tile + QUERY_TILE * ROW_K + step * ROW_V;
  const float *const numbers = (const float *)(tile + QUERY_TILE * (ROW_K + ROW_V)) + step;
  float s[KEY_BLOCKS][QUERY_STEP / 8][4], d[KEY_BLOCKS][QUERY_STEP / 8][4], slopes[KEY_BLOCKS][QUERY_STEP / 8][4];
  clear(s);
  clear(d);
  product_rows<KEY_BLOCKS, QUERY_STEP, DEPTH_PAD, ROW_K, ROW_K>(s, k, q);
  slopes_make<true>(s, slopes, score, {query, first + keys.lead, keys.key, keys.key + keys.lead});
  key_powers(s, numbers, keys, first, queries);
  slopes_take(s, slopes);
  product_rows<KEY_BLOCKS, QUERY_STEP, VALUE_PAD, ROW_V, ROW_V>(d, v, d_o);
#pragma unroll
  for (int n = 0; n < QUERY_STEP / 8; n++) {
    const float2 both = *(const float2 *)(numbers + QUERY_TILE + n * 8 + (int)threadIdx.x % 4 * 2);
#pragma unroll
    for (int e = 0; e < 4; e++) {
#pragma unroll
      for (int m = 0; m < KEY_BLOCKS; m++) {
        sums[m][e / 2] += s[m][n][e] * (d[m][n][e] - (e % 2 ? both.y : both.x));
      }
    }
  }
}

// keys: of the warp.
__device__ __forceinline__ void captured_store(const Slots &slots, const Where &where, int group, const Keys &keys,
                                               float (&sums)[KEY_BLOCKS][2]) {
  const int lane = (int)threadIdx.x % 32;
#pragma unroll
  for (int m = 0; m < KEY_BLOCKS; m++) {
#pragma unroll
    for (int half = 0; half < 2; half++) {
      const int key = keys.key + m * 16 + half * 8 + lane / 4;
      const float sum = sum_end(sums[m][half]);
      if (lane % 4 == 0 && key < keys.end) {
        *CAPTURED_AT(float, slots, where, group, key, 0) = sum;
      }
    }
  }
}

extern "C" __global__ void __launch_bounds__(KEY_THREADS, KEY_BLOCKS_PER_UNIT) attention_captured(Slots slots) {
  u16 *const tile_k = (u16 *)shared_memory, *const tile_v = tile_k + KEY_ROWS * ROW_K;
  u16 *const stages = tile_v + KEY_ROWS * ROW_V;
  const int row = (int)threadIdx.x / 32 * KEY_BLOCKS * 16;
  const bool whole = all_whole(slots);
  Where where;
  Keys keys = where_keys<KEY_ROWS>(slots, where);
  const Walk walk = walk_of(slots, keys, KEY_ROWS);
  QueryTile next = tile_first(walk, 0);
  float sums[KEY_BLOCKS][2];
  fill(sums, 0.0f);
  tile_load<KEY_ROWS, DEPTH_PAD, DEPTH, ROW_K, KEY_THREADS>(tile_k, KEY_AT((const u16 *)slots.at[1], K, keys.key),
                                                            K_KEY, keys.limit - keys.key, whole);
  tile_load<KEY_ROWS, VALUE_PAD, VALUE_DEPTH, ROW_V, KEY_THREADS>(tile_v, KEY_AT((const u16 *)slots.at[2], V, keys.key),
                                                                  V_KEY, keys.limit - keys.key, whole);
  if (walk.count > 0) {
    queries_load(slots, where, next, stages, whole);
  }
  keys.key += row;  // from here on those of the warp
  for (int group = 0; group < GROUPS && walk.count == 0; group++) {
    captured_store(slots, where, group, keys, sums);
  }
  for (int i = 0; i < walk.count; i++) {
    const QueryTile now = next;
    const int first = (now.part ? walk.first_1 : walk.first_0) + now.inside;
    const u16 *const tile = stages + i % 2 * STAGE;
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
        captured_step(sums, tile_k + row * ROW_K, tile_v + row * ROW_V, tile, step, keys, first + step,
                      rows_of(now) - step, score, now.part * PART_QUERIES + now.inside + step);
      }
    }
    if (i + 1 == walk.count || next.group != now.group) {
      captured_store(slots, where, now.group, keys, sums);
    }
  }
}

#else

// What a line of queries adds, as attention_dq of attention_grad.cu has it: to sums, or to its pairs in memory.
__device__ __forceinline__ void captured_line(const Slots &slots, const Where &where, Keys keys,
                                              float (&sums)[QUERY_BLOCKS][2]) {
  u16 *const tile_q = (u16 *)shared_memory, *const tile_d = tile_q + QUERY_ROWS * ROW_K;
  u16 *const stages = tile_d + QUERY_ROWS * ROW_V;
  const int lane = (int)threadIdx.x % 32, row = (int)threadIdx.x / 32 * QUERY_BLOCKS * 16;
  const bool whole = all_whole(slots);
  const u16 *k = KEY_AT((const u16 *)slots.at[1], K, 0), *v = KEY_AT((const u16 *)slots.at[2], V, 0);
  const ScoreAt score = score_at(slots, where.batch, where.head, where.group);
  float shift[QUERY_BLOCKS][2], delta[QUERY_BLOCKS][2];
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
  __syncthreads();  // nothing reads tiles of the line before
  tile_load<QUERY_ROWS, DEPTH_PAD, DEPTH, ROW_K, QUERY_THREADS>(tile_q, QUERY_AT((const u16 *)slots.at[0], Q, 0),
                                                                Q_QUERY, where.rows, whole);
  tile_load<QUERY_ROWS, VALUE_PAD, VALUE_DEPTH, ROW_V, QUERY_THREADS>(tile_d, QUERY_AT((const u16 *)slots.at[5], DO, 0),
                                                                      DO_QUERY, where.rows, whole);
  keys_load(k, v, keys, stages, whole);
  for (int i = 0; keys.key < keys.end; keys = keys_next<KEY_TILE>(slots, where, keys), i++) {
    const int position = where.position - keys.lead + row;
    const u16 *const tile_k = stages + i % 2 * KEY_STAGE;
    float s[QUERY_BLOCKS][KEY_TILE / 8][4], d[QUERY_BLOCKS][KEY_TILE / 8][4], slopes[QUERY_BLOCKS][KEY_TILE / 8][4];
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
    slopes_make<false>(s, slopes, score, {where.query + row, where.position + row, keys.key, keys.key + keys.lead});
    query_gradient(s, d, shift, delta, position, keys);
    elements_each<false>(s, [&](int m, int n, int e, int query, int key) {
      const float made = s[m][n][e] * slopes[m][n][e];
      if (!BY_PAIR) {
        sums[m][e / 2] += made;
      } else if (row + query < where.rows && keys.key + key < keys.end) {
        *CAPTURED_AT(float, slots, where, where.group, keys.key + key, where.query + row + query) += made;
      }
    });
  }
  copies_wait();
}

extern "C" __global__ void __launch_bounds__(QUERY_THREADS, QUERY_BLOCKS_PER_UNIT) attention_captured(Slots slots) {
  const int lane = (int)threadIdx.x % 32, row = (int)threadIdx.x / 32 * QUERY_BLOCKS * 16;
  Where where = where_queries<QUERY_ROWS>(slots);
  const Keys keys = keys_first(slots, where);  // the same of all lines
  float sums[QUERY_BLOCKS][2];
  if ((MORE && keys.key >= keys.end) || !line_is_first(where)) {
    return;
  }
  fill(sums, 0.0f);
  if (BY_PAIR) {
    pairs_clear<float, QUERY_THREADS>(slots, where);
    do {
      captured_line(slots, where, keys, sums);
    } while (line_next(where));
    return;
  }
  captured_line(slots, where, keys, sums);
#pragma unroll
  for (int m = 0; m < QUERY_BLOCKS; m++) {
#pragma unroll
    for (int half = 0; half < 2; half++) {
      const int at = row + m * 16 + half * 8 + lane / 4;
      const float sum = sum_end(sums[m][half]);
      if (lane % 4 == 0 && at < where.rows) {
        float *const to = CAPTURED_AT(float, slots, where, where.group, 0, where.query + at);
        *to = MORE ? *to + sum : sum;
      }
    }
  }
}
#endif
