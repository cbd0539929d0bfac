// attention_half.cu: attention of 16-bit elements on tensor cores, forward.
//
// A block has QUERY_TILE queries of one (batch, head, group), QUERY_BLOCKS x 16 of them for each warp, and goes over
// the keys they see in tiles of KEY_TILE, with the running maximum and sum of Milakov and Gimelshein 2018. v is on its
// way while scores are made, the next k while they are multiplied by v. The longest blocks come first.
// Shared: q [QUERY_TILE][ROW_Q], k [KEY_TILE][ROW_K], v [KEY_TILE][ROW_V].
constexpr int THREADS = QUERY_WARPS * 32, QUERY_TILE = QUERY_WARPS * QUERY_BLOCKS * 16;
constexpr int PART_TILES = (PART_QUERIES + QUERY_TILE - 1) / QUERY_TILE;
constexpr int ROW_Q = ROW_K > ROW_V ? ROW_K : ROW_V;  // o takes the place of q at the end

typedef float Scores[QUERY_BLOCKS][KEY_TILE / 8][4];

struct Running {  // of the rows g and g + 8 of each 16
  float high[QUERY_BLOCKS][2], sum[QUERY_BLOCKS][2];
};

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

// Keys that a query does not see, and those past the end: `row` is the position of row 0 of the warp.
__device__ __forceinline__ void mask(Scores &s, int row, int key) {
  const int lane = (int)threadIdx.x % 32;
#pragma unroll
  for (int m = 0; m < QUERY_BLOCKS; m++) {
#pragma unroll
    for (int n = 0; n < KEY_TILE / 8; n++) {
#pragma unroll
      for (int e = 0; e < 4; e++) {
        const int at = key + n * 8 + lane % 4 * 2 + e % 2, position = row + m * 16 + lane / 4 + e / 2 * 8;
        if (at >= KEYS || (CAUSAL && at > position)) {
          s[m][n][e] = -INFINITE;
        }
      }
    }
  }
}

// Scores to powers of two of their distance to the maximum. A maximum that has grown by less than 2^SLACK stays, and
// with it the scale of o and of the sums: after the first tiles few rows need a new one.
__device__ __forceinline__ void softmax(Scores &s, Running &running, float (&o)[QUERY_BLOCKS][VALUE_PAD / 8][4]) {
  constexpr float SLACK = 8.0f;
  float high[QUERY_BLOCKS][2];
  bool grown = false;
#pragma unroll
  for (int m = 0; m < QUERY_BLOCKS; m++) {
#pragma unroll
    for (int half = 0; half < 2; half++) {
      float most = running.high[m][half];
#pragma unroll
      for (int n = 0; n < KEY_TILE / 8; n++) {
        most = fmaxf(most, fmaxf(s[m][n][2 * half], s[m][n][2 * half + 1]));
      }
      most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 1));
      high[m][half] = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 2));
      grown = grown || (high[m][half] - running.high[m][half]) * POWER > SLACK;
    }
  }
  if (__any_sync(0xffffffffu, grown)) {
#pragma unroll
    for (int m = 0; m < QUERY_BLOCKS; m++) {
#pragma unroll
      for (int half = 0; half < 2; half++) {
        const float factor = exp2_fast((running.high[m][half] - high[m][half]) * POWER);
        running.high[m][half] = high[m][half];
        running.sum[m][half] *= factor;
#pragma unroll
        for (int n = 0; n < VALUE_PAD / 8; n++) {
          o[m][n][2 * half] *= factor;
          o[m][n][2 * half + 1] *= factor;
        }
      }
    }
  }
#pragma unroll
  for (int m = 0; m < QUERY_BLOCKS; m++) {
#pragma unroll
    for (int half = 0; half < 2; half++) {
      const float shift = running.high[m][half] * POWER;
      float sum = running.sum[m][half];
#pragma unroll
      for (int n = 0; n < KEY_TILE / 8; n++) {
#pragma unroll
        for (int e = 2 * half; e < 2 * half + 2; e++) {
          s[m][n][e] = exp2_fast(s[m][n][e] * POWER - shift);
          sum += s[m][n][e];
        }
      }
      running.sum[m][half] = sum;
    }
  }
}

extern "C" __global__ void __launch_bounds__(THREADS, QUERY_BLOCKS_PER_UNIT) attention_forward(Slots slots) {
  u16 *const tile_q = (u16 *)shared_memory, *const tile_k = tile_q + QUERY_TILE * ROW_Q;
  u16 *const tile_v = tile_k + KEY_TILE * ROW_K;
  const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
  const int line = (int)(blockIdx.x % (BATCH * HEADS * GROUPS));
  const int tile = PARTS * PART_TILES - 1 - (int)(blockIdx.x / (BATCH * HEADS * GROUPS));
  const int group = line % GROUPS, head = line / GROUPS % HEADS, batch = line / GROUPS / HEADS;
  const int part = tile / PART_TILES, inside = tile % PART_TILES * QUERY_TILE, query = part * PART_QUERIES + inside;
  const int rows = PART_QUERIES - inside < QUERY_TILE ? PART_QUERIES - inside : QUERY_TILE;
  const int position = (int)(part ? slots.at[6] : slots.at[5]) + inside;
  const bool whole = WHOLE && ((slots.at[0] | slots.at[1] | slots.at[2] | slots.at[3]) & 15) == 0;
  const u16 *q = (const u16 *)slots.at[0] + batch * Q_BATCH + query * Q_QUERY + head * Q_HEAD + group * Q_GROUP;
  const u16 *k = (const u16 *)slots.at[1] + batch * K_BATCH + head * K_HEAD;
  const u16 *v = (const u16 *)slots.at[2] + batch * V_BATCH + head * V_HEAD;
  const int end = CAUSAL && position + rows < KEYS ? position + rows : KEYS;
  float o[QUERY_BLOCKS][VALUE_PAD / 8][4];
  Running running;
  clear(o);
#pragma unroll
  for (int m = 0; m < QUERY_BLOCKS; m++) {
    running.high[m][0] = running.high[m][1] = -INFINITE;
    running.sum[m][0] = running.sum[m][1] = 0.0f;
  }
  tile_load<QUERY_TILE, DEPTH_PAD, DEPTH, ROW_Q, THREADS>(tile_q, q, Q_QUERY, rows, whole);
  tile_load<KEY_TILE, DEPTH_PAD, DEPTH, ROW_K, THREADS>(tile_k, k, K_KEY, KEYS, whole);
  const int row = warp * QUERY_BLOCKS * 16;
  for (int key = 0; key < end; key += KEY_TILE) {
    Scores s;
    u32 p[QUERY_BLOCKS][KEY_TILE / 16][4];
    const bool sees = !CAUSAL || key < position + row + QUERY_BLOCKS * 16;  // any of the keys, by any row of the warp
    copies_wait();
    __syncthreads();  // k is here, and nothing reads the last v
    tile_load<KEY_TILE, VALUE_PAD, VALUE_DEPTH, ROW_V, THREADS>(tile_v, v + key * V_KEY, V_KEY, KEYS - key, whole);
    if (sees) {
      clear(s);
      product_rows<QUERY_BLOCKS, KEY_TILE, DEPTH_PAD, ROW_Q, ROW_K>(s, tile_q + row * ROW_Q, tile_k);
      if (NEGATIVE) {
        negate(s);
      }
      if (key + KEY_TILE > KEYS || (CAUSAL && key + KEY_TILE - 1 > position + row)) {
        mask(s, position + row, key);
      }
      softmax(s, running, o);
#pragma unroll
      for (int m = 0; m < QUERY_BLOCKS; m++) {
        fragments_of<KEY_TILE>(p[m], s[m]);
      }
    }
    copies_wait();
    __syncthreads();  // v is here, and nothing reads this k
    if (key + KEY_TILE < end) {
      tile_load<KEY_TILE, DEPTH_PAD, DEPTH, ROW_K, THREADS>(tile_k, k + (key + KEY_TILE) * K_KEY, K_KEY,
                                                            KEYS - key - KEY_TILE, whole);
    }
    if (sees) {
      product_columns<QUERY_BLOCKS, KEY_TILE, VALUE_PAD, ROW_V>(o, p, tile_v);
    }
  }
  float *statistics = (float *)slots.at[4] + (i64)line * QUERIES + query;
#pragma unroll
  for (int m = 0; m < QUERY_BLOCKS; m++) {
    float inverse[2];
#pragma unroll
    for (int half = 0; half < 2; half++) {
      float sum = running.sum[m][half];
      sum += __shfl_xor_sync(0xffffffffu, sum, 1);
      sum += __shfl_xor_sync(0xffffffffu, sum, 2);
      inverse[half] = 1.0f / sum;
      const int at = row + m * 16 + half * 8 + lane / 4;
      if (lane % 4 == 0 && at < rows) {
        statistics[at] = (running.high[m][half] * POWER + log2f(sum)) * NATURAL;
      }
    }
    tile_put<VALUE_PAD, ROW_Q>(tile_q + (row + m * 16) * ROW_Q, o[m], inverse[0], inverse[1]);
  }
  __syncwarp();
  u16 *to = (u16 *)slots.at[3] + batch * O_BATCH + (query + row) * O_QUERY + head * O_HEAD + group * O_GROUP;
  tile_store<QUERY_BLOCKS * 16, VALUE_DEPTH, ROW_Q>(to, O_QUERY, tile_q + row * ROW_Q, rows - row, whole);
}
