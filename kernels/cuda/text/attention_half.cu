// attention_half.cu: attention of 16-bit elements on tensor cores, forward.
//
// A block has QUERY_TILE queries of one (batch, head, group), QUERY_BLOCKS x 16 of them for each warp, and goes over
// the keys they see in tiles of KEY_TILE (attention_softmax.cu). v is on its way while scores are made, the next k while they are multiplied by v. The longest blocks come first.
// MORE: what was made of these keys is joined at the end to what o and the statistics have seen of others.
// Shared: q [QUERY_TILE][ROW_Q], k [KEY_TILE][ROW_K], v [KEY_TILE][ROW_V].
constexpr int THREADS = QUERY_WARPS * 32, QUERY_TILE = QUERY_WARPS * QUERY_BLOCKS * 16;
constexpr int ROW_Q = ROW_K > ROW_V ? ROW_K : ROW_V;  // o takes the place of q at the end

// The scale is negative: POWER is not.
__device__ __forceinline__ void negate(Scores &s) {
#pragma unroll
  for (int m = 0; m < QUERY_BLOCKS; m++) {
#pragma unroll
    for (int n = 0; n < KEY_TILE / 8; n++) {
#pragma unroll
      for (int e = 0; e < 4; e++) {
        s[m][n][e] = -s[m][n][e];
      }
    }
  }
}

extern "C" __global__ void __launch_bounds__(THREADS, QUERY_BLOCKS_PER_UNIT) attention_forward(Slots slots) {
  u16 *const tile_q = (u16 *)shared_memory, *const tile_k = tile_q + QUERY_TILE * ROW_Q;
  u16 *const tile_v = tile_k + KEY_TILE * ROW_K;
  const int row = (int)threadIdx.x / 32 * QUERY_BLOCKS * 16;
  const Where where = where_queries<QUERY_TILE>(slots);
  const bool whole = all_whole(slots);
  const float slope = slope_of<float>(slots, where, where.group);
  const ScoreAt score = score_at(slots, where.batch, where.head, where.group);
  const u16 *k = KEY_AT((const u16 *)slots.at[1], K, 0), *v = KEY_AT((const u16 *)slots.at[2], V, 0);
  Keys keys = keys_first(slots, where);
  Sums o;
  Running running;
  Factors factor, kept;
  if (MORE && keys.key >= keys.end) {
    return;
  }
  clear(o);
  running_begin(running);
  tile_load<QUERY_TILE, DEPTH_PAD, DEPTH, ROW_Q, THREADS>(tile_q, QUERY_AT((const u16 *)slots.at[0], Q, 0), Q_QUERY,
                                                          where.rows, whole);
  tile_load<KEY_TILE, DEPTH_PAD, DEPTH, ROW_K, THREADS>(tile_k, k + keys.key * K_KEY, K_KEY, keys.limit - keys.key,
                                                        whole);
  for (; keys.key < keys.end; keys = keys_next<KEY_TILE>(slots, where, keys)) {
    const int position = where.position - keys.lead + row;
    Scores s;
    u32 p[QUERY_BLOCKS][KEY_TILE / 16][4];
    const bool sees = !CAUSAL || keys.key < position + QUERY_BLOCKS * 16;  // any of the keys, by any row of the warp
    copies_wait();
    __syncthreads();  // k is here, and nothing reads the last v
    tile_load<KEY_TILE, VALUE_PAD, VALUE_DEPTH, ROW_V, THREADS>(tile_v, v + keys.key * V_KEY, V_KEY,
                                                                keys.limit - keys.key, whole);
    if (sees) {
      clear(s);
      product_rows<QUERY_BLOCKS, KEY_TILE, DEPTH_PAD, ROW_Q, ROW_K>(s, tile_q + row * ROW_Q, tile_k);
      if (SCORED) {
        scores_make<false>(s, score, {where.query + row, where.position + row, keys.key, keys.key + keys.lead});
      } else if (BIASED) {
        biases_add<QUERY_BLOCKS, KEY_TILE, false>(s, slope, keys.key - position);
      } else if (NEGATIVE) {
        negate(s);
      }
      if (keys.key + KEY_TILE > keys.limit || (CAUSAL && keys.key + KEY_TILE - 1 > position)) {
        mask<QUERY_BLOCKS, KEY_TILE>(s, -INFINITE, position, keys);
      }
      if (softmax_make(s, running, factor)) {
        sums_scale(o, factor);
      }
#pragma unroll
      for (int m = 0; m < QUERY_BLOCKS; m++) {
        fragments_of<KEY_TILE>(p[m], s[m]);
      }
    }
    copies_wait();
    __syncthreads();  // v is here, and nothing reads this k
    const Keys next = keys_next<KEY_TILE>(slots, where, keys);
    if (next.key < next.end) {
      tile_load<KEY_TILE, DEPTH_PAD, DEPTH, ROW_K, THREADS>(tile_k, k + next.key * K_KEY, K_KEY, next.limit - next.key,
                                                            whole);
    }
    if (sees) {
      product_columns<QUERY_BLOCKS, KEY_TILE, VALUE_PAD, ROW_V>(o, p, tile_v);
    }
  }
  if (RING || SCORED) {  // there may have been no keys
    copies_wait();
    __syncthreads();
  }
  statistics_store(slots, where, running, row, factor, kept);
  sums_store<QUERY_BLOCKS, VALUE_PAD, VALUE_DEPTH, ROW_Q, MORE>(
      QUERY_AT((Made *)slots.at[3], O, row), O_QUERY, tile_q + row * ROW_Q, o, factor, kept, where.rows - row, whole);
}
