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
__device__ __forceinline__ bool all_whole(const Slots &slots) {
  return WHOLE && ((slots.at[0] | slots.at[1] | slots.at[2] | slots.at[3] | slots.at[5] | slots.at[6] | slots.at[7] |
                    slots.at[8]) &
                   15) == 0;
}

// DELTA_LANES lanes for each row.
extern "C" __global__ void __launch_bounds__(256) attention_delta(Slots slots) {
  constexpr u32 ROWS = (u32)BATCH * HEADS * GROUPS * QUERIES;
  const u32 at = blockIdx.x * (256 / DELTA_LANES) + threadIdx.x / DELTA_LANES, row = at < ROWS ? at : 0;
  const int lane = (int)threadIdx.x % DELTA_LANES;
  const bool whole = all_whole(slots);
  const int query = (int)(row % QUERIES), group = (int)(row / QUERIES % GROUPS);
  const int head = (int)(row / QUERIES / GROUPS % HEADS), batch = (int)(row / QUERIES / GROUPS / HEADS);
  const u16 *o = (const u16 *)slots.at[3] + batch * O_BATCH + query * O_QUERY + head * O_HEAD + group * O_GROUP;
  const u16 *d = (const u16 *)slots.at[5] + batch * DO_BATCH + query * DO_QUERY + head * DO_HEAD + group * DO_GROUP;
  float sum = 0.0f;
  for (int c = lane * 8; c < VALUE_DEPTH; c += DELTA_LANES * 8) {
    union {
      uint4 all;
      u16 one[8];
    } left, right;
    if (whole) {
      left.all = *(const uint4 *)(o + c);
      right.all = *(const uint4 *)(d + c);
    } else {
#pragma unroll
      for (int e = 0; e < 8; e++) {
        left.one[e] = c + e < VALUE_DEPTH ? o[c + e] : 0;
        right.one[e] = c + e < VALUE_DEPTH ? d[c + e] : 0;
      }
    }
#pragma unroll
    for (int e = 0; e < 8; e++) {
      sum += Element::real(left.one[e]) * Element::real(right.one[e]);
    }
  }
#pragma unroll
  for (int by = DELTA_LANES / 2; by > 0; by /= 2) {
    sum += __shfl_xor_sync(0xffffffffu, sum, by);
  }
  if (lane == 0 && at < ROWS) {
    ((float *)slots.at[SCRATCH])[at] = sum;
  }
}

// Rows [0, count) of numbers to shared memory, later, the others 0.
template <int ROWS, int THREADS>
__device__ __forceinline__ void numbers_load(float *to, const float *from, int count) {
  for (int at = (int)threadIdx.x; at < ROWS; at += THREADS) {
    copy_later_4(shared_address(to + at), at < count ? from + at : from, at < count ? 4 : 0);
  }
}

// --- dk and dv ---

constexpr int KEY_THREADS = KEY_WARPS * 32, KEY_ROWS = KEY_WARPS * KEY_BLOCKS * 16;
constexpr int QUERY_TILES = (PART_QUERIES + QUERY_TILE - 1) / QUERY_TILE;  // of one part
constexpr int NUMBERS = QUERY_TILE * 4;                                    // elements: statistics and delta
constexpr int STAGE = QUERY_TILE * (ROW_K + ROW_V) + NUMBERS;

// The tiles of queries that see a block of keys, in order of group, part and position. Of the two parts: the position
// of the first query and the first tile that sees the keys.
struct Walk {
  int first_0, first_1, begin_0, begin_1, count;
};

struct QueryTile {
  int group, part, inside;  // inside: the first query, of those of the part
};

__device__ __forceinline__ int walk_begin(int first, int key) {
  const int ahead = key - first;
  return !CAUSAL || ahead < 0 ? 0 : ahead / QUERY_TILE < QUERY_TILES ? ahead / QUERY_TILE : QUERY_TILES;
}

__device__ __forceinline__ Walk walk_of(const Slots &slots, int key) {
  Walk walk;
  walk.first_0 = (int)slots.at[9];
  walk.first_1 = (int)slots.at[10];
  walk.begin_0 = walk_begin(walk.first_0, key);
  walk.begin_1 = PARTS > 1 ? walk_begin(walk.first_1, key) : QUERY_TILES;
  walk.count = GROUPS * (2 * QUERY_TILES - walk.begin_0 - walk.begin_1);
  return walk;
}

// The first tile of a group that has any.
__device__ __forceinline__ QueryTile tile_first(const Walk &walk, int group) {
  QueryTile tile;
  tile.group = group;
  tile.part = PARTS > 1 && walk.begin_0 == QUERY_TILES;
  tile.inside = (tile.part ? walk.begin_1 : walk.begin_0) * QUERY_TILE;
  return tile;
}

__device__ __forceinline__ QueryTile tile_next(const Walk &walk, const QueryTile &last) {
  QueryTile tile = last;
  tile.inside += QUERY_TILE;
  if (tile.inside >= PART_QUERIES) {
    if (PARTS > 1 && tile.part == 0 && walk.begin_1 < QUERY_TILES) {
      tile.part = 1;
      tile.inside = walk.begin_1 * QUERY_TILE;
    } else {
      tile = tile_first(walk, last.group + 1);
    }
  }
  return tile;
}

__device__ __forceinline__ int rows_of(const QueryTile &tile) {
  return PART_QUERIES - tile.inside < QUERY_TILE ? PART_QUERIES - tile.inside : QUERY_TILE;
}

__device__ __forceinline__ void queries_load(const Slots &slots, int batch, int head, const QueryTile &tile, u16 *to,
                                             bool whole) {
  const int query = tile.part * PART_QUERIES + tile.inside, rows = rows_of(tile);
  const u16 *q = (const u16 *)slots.at[0] + batch * Q_BATCH + query * Q_QUERY + head * Q_HEAD + tile.group * Q_GROUP;
  const u16 *d =
      (const u16 *)slots.at[5] + batch * DO_BATCH + query * DO_QUERY + head * DO_HEAD + tile.group * DO_GROUP;
  const i64 line = (((i64)batch * HEADS + head) * GROUPS + tile.group) * QUERIES + query;
  float *const numbers = (float *)(to + QUERY_TILE * (ROW_K + ROW_V));
  tile_load<QUERY_TILE, DEPTH_PAD, DEPTH, ROW_K, KEY_THREADS>(to, q, Q_QUERY, rows, whole);
  tile_load<QUERY_TILE, VALUE_PAD, VALUE_DEPTH, ROW_V, KEY_THREADS>(to + QUERY_TILE * ROW_K, d, DO_QUERY, rows, whole);
  numbers_load<QUERY_TILE, KEY_THREADS>(numbers, (const float *)slots.at[4] + line, rows);
  numbers_load<QUERY_TILE, KEY_THREADS>(numbers + QUERY_TILE, (const float *)slots.at[SCRATCH] + line, rows);
}

// Scores, [keys][queries], to probabilities. `row`: the first key of the warp; first: position of the first query.
__device__ __forceinline__ void key_powers(float (&s)[KEY_BLOCKS][QUERY_STEP / 8][4], const float *statistics, int row,
                                           int first, int queries) {
  const int lane = (int)threadIdx.x % 32;
#pragma unroll
  for (int n = 0; n < QUERY_STEP / 8; n++) {
    const float2 both = *(const float2 *)(statistics + n * 8 + lane % 4 * 2);
#pragma unroll
    for (int e = 0; e < 2; e++) {
      const float shift = (e ? both.y : both.x) * INVERSE_NATURAL;
#pragma unroll
      for (int m = 0; m < KEY_BLOCKS; m++) {
        s[m][n][e] = exp2_fast(s[m][n][e] * POWER - shift);
        s[m][n][2 + e] = exp2_fast(s[m][n][2 + e] * POWER - shift);
      }
    }
  }
  if (queries < QUERY_STEP || (CAUSAL && row + KEY_BLOCKS * 16 - 1 > first)) {
#pragma unroll
    for (int m = 0; m < KEY_BLOCKS; m++) {
#pragma unroll
      for (int n = 0; n < QUERY_STEP / 8; n++) {
#pragma unroll
        for (int e = 0; e < 4; e++) {
          const int query = n * 8 + lane % 4 * 2 + e % 2, key = row + m * 16 + e / 2 * 8 + lane / 4;
          if (query >= queries || (CAUSAL && key > first + query)) {
            s[m][n][e] = 0.0f;
          }
        }
      }
    }
  }
}

// What QUERY_STEP queries of a tile add to dv and dk. key: the first of the warp; first: the position of the first
// query; queries: how many there are.
template <bool WITH_DV, bool WITH_DK>
__device__ __forceinline__ void keys_step(float (&dv)[KEY_BLOCKS][WITH_DV ? VALUE_PAD / 8 : 1][4],
                                          float (&dk)[KEY_BLOCKS][WITH_DK ? DEPTH_PAD / 8 : 1][4], const u16 *k,
                                          const u16 *v, const u16 *tile, int step, int key, int first, int queries) {
  const u16 *const q = tile + step * ROW_K, *const d_o = tile + QUERY_TILE * ROW_K + step * ROW_V;
  const float *const numbers = (const float *)(tile + QUERY_TILE * (ROW_K + ROW_V)) + step;
  float s[KEY_BLOCKS][QUERY_STEP / 8][4];
  u32 p[KEY_BLOCKS][QUERY_STEP / 16][4];
  clear(s);
  product_rows<KEY_BLOCKS, QUERY_STEP, DEPTH_PAD, ROW_K, ROW_K>(s, k, q);
  key_powers(s, numbers, key, first, queries);
  if constexpr (WITH_DV) {
#pragma unroll
    for (int m = 0; m < KEY_BLOCKS; m++) {
      fragments_of<QUERY_STEP>(p[m], s[m]);
    }
    product_columns<KEY_BLOCKS, QUERY_STEP, VALUE_PAD, ROW_V>(dv, p, d_o);
  }
  if constexpr (WITH_DK) {
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
  const int head = (int)(blockIdx.x % HEADS), batch = (int)(blockIdx.x / HEADS % BATCH);
  const int key = (int)(blockIdx.x / (HEADS * BATCH)) * KEY_ROWS;
  const bool whole = all_whole(slots);
  const Walk walk = walk_of(slots, key);
  QueryTile next = tile_first(walk, 0);
  float dk[KEY_BLOCKS][WITH_DK ? DEPTH_PAD / 8 : 1][4], dv[KEY_BLOCKS][WITH_DV ? VALUE_PAD / 8 : 1][4];
  clear(dk);
  clear(dv);
  tile_load<KEY_ROWS, DEPTH_PAD, DEPTH, ROW_K, KEY_THREADS>(
      tile_k, (const u16 *)slots.at[1] + batch * K_BATCH + key * K_KEY + head * K_HEAD, K_KEY, KEYS - key, whole);
  if (WITH_DK) {
    tile_load<KEY_ROWS, VALUE_PAD, VALUE_DEPTH, ROW_V, KEY_THREADS>(
        tile_v, (const u16 *)slots.at[2] + batch * V_BATCH + key * V_KEY + head * V_HEAD, V_KEY, KEYS - key, whole);
  }
  if (walk.count > 0) {
    queries_load(slots, batch, head, next, stages, whole);
  }
  for (int i = 0; i < walk.count; i++) {
    const QueryTile now = next;
    const int position = (now.part ? walk.first_1 : walk.first_0) + now.inside;
    const u16 *const tile = stages + i % 2 * STAGE;
    copies_wait();
    __syncthreads();  // this tile is here, and nothing reads the last one
    if (i + 1 < walk.count) {
      next = tile_next(walk, now);
      queries_load(slots, batch, head, next, stages + (i + 1) % 2 * STAGE, whole);
    }
#pragma unroll 1
    for (int step = 0; step < QUERY_TILE; step += QUERY_STEP) {
      if (!CAUSAL || key + row < position + step + QUERY_STEP) {  // a query of the step sees a key of the warp
        keys_step<WITH_DV, WITH_DK>(dv, dk, tile_k + row * ROW_K, tile_v + row * ROW_V, tile, step, key + row,
                                    position + step, rows_of(now) - step);
      }
    }
  }
  copies_wait();
  __syncthreads();
  if constexpr (WITH_DK) {
    u16 *to = (u16 *)slots.at[7] + batch * DK_BATCH + (key + row) * DK_KEY + head * DK_HEAD;
#pragma unroll
    for (int m = 0; m < KEY_BLOCKS; m++) {
      tile_put<DEPTH_PAD, ROW_K>(tile_k + (row + m * 16) * ROW_K, dk[m], SCALE, SCALE);
    }
    __syncwarp();
    tile_store<KEY_BLOCKS * 16, DEPTH, ROW_K>(to, DK_KEY, tile_k + row * ROW_K, KEYS - key - row, whole);
  }
  if constexpr (WITH_DV) {
    u16 *to = (u16 *)slots.at[8] + batch * DV_BATCH + (key + row) * DV_KEY + head * DV_HEAD;
#pragma unroll
    for (int m = 0; m < KEY_BLOCKS; m++) {
      tile_put<VALUE_PAD, ROW_V>(tile_v + (row + m * 16) * ROW_V, dv[m], 1.0f, 1.0f);
    }
    __syncwarp();
    tile_store<KEY_BLOCKS * 16, VALUE_DEPTH, ROW_V>(to, DV_KEY, tile_v + row * ROW_V, KEYS - key - row, whole);
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

constexpr int QUERY_THREADS = QUERY_WARPS * 32, QUERY_ROWS = QUERY_WARPS * QUERY_BLOCKS * 16;
constexpr int ROW_TILES = (PART_QUERIES + QUERY_ROWS - 1) / QUERY_ROWS;  // of one part
constexpr int KEY_STAGE = KEY_TILE * (ROW_K + ROW_V);

__device__ __forceinline__ void keys_load(const u16 *k, const u16 *v, int key, u16 *to, bool whole) {
  tile_load<KEY_TILE, DEPTH_PAD, DEPTH, ROW_K, QUERY_THREADS>(to, k + key * K_KEY, K_KEY, KEYS - key, whole);
  tile_load<KEY_TILE, VALUE_PAD, VALUE_DEPTH, ROW_V, QUERY_THREADS>(to + KEY_TILE * ROW_K, v + key * V_KEY, V_KEY,
                                                                    KEYS - key, whole);
}

// s becomes ds. `row`: the position of the first query of the warp; key: the first of the tile.
__device__ __forceinline__ void query_gradient(float (&s)[QUERY_BLOCKS][KEY_TILE / 8][4],
                                               const float (&d)[QUERY_BLOCKS][KEY_TILE / 8][4],
                                               const float (&shift)[QUERY_BLOCKS][2],
                                               const float (&delta)[QUERY_BLOCKS][2], int row, int key) {
  const int lane = (int)threadIdx.x % 32;
#pragma unroll
  for (int m = 0; m < QUERY_BLOCKS; m++) {
#pragma unroll
    for (int n = 0; n < KEY_TILE / 8; n++) {
#pragma unroll
      for (int e = 0; e < 4; e++) {
        s[m][n][e] = exp2_fast(s[m][n][e] * POWER - shift[m][e / 2]);
      }
    }
  }
  if (key + KEY_TILE > KEYS || (CAUSAL && key + KEY_TILE - 1 > row)) {
#pragma unroll
    for (int m = 0; m < QUERY_BLOCKS; m++) {
#pragma unroll
      for (int n = 0; n < KEY_TILE / 8; n++) {
#pragma unroll
        for (int e = 0; e < 4; e++) {
          const int at = key + n * 8 + lane % 4 * 2 + e % 2;
          if (at >= KEYS || (CAUSAL && at > row + m * 16 + lane / 4 + e / 2 * 8)) {
            s[m][n][e] = 0.0f;
          }
        }
      }
    }
  }
#pragma unroll
  for (int m = 0; m < QUERY_BLOCKS; m++) {
#pragma unroll
    for (int n = 0; n < KEY_TILE / 8; n++) {
#pragma unroll
      for (int e = 0; e < 4; e++) {
        s[m][n][e] *= d[m][n][e] - delta[m][e / 2];
      }
    }
  }
}

extern "C" __global__ void __launch_bounds__(QUERY_THREADS, QUERY_BLOCKS_PER_UNIT) attention_dq(Slots slots) {
  u16 *const tile_q = (u16 *)shared_memory, *const tile_d = tile_q + QUERY_ROWS * ROW_K;
  u16 *const stages = tile_d + QUERY_ROWS * ROW_V;
  const int lane = (int)threadIdx.x % 32, row = (int)threadIdx.x / 32 * QUERY_BLOCKS * 16;
  const int line = (int)(blockIdx.x % (BATCH * HEADS * GROUPS));
  const int tile = PARTS * ROW_TILES - 1 - (int)(blockIdx.x / (BATCH * HEADS * GROUPS));
  const int group = line % GROUPS, head = line / GROUPS % HEADS, batch = line / GROUPS / HEADS;
  const int part = tile / ROW_TILES, inside = tile % ROW_TILES * QUERY_ROWS, query = part * PART_QUERIES + inside;
  const int rows = PART_QUERIES - inside < QUERY_ROWS ? PART_QUERIES - inside : QUERY_ROWS;
  const int position = (int)(part ? slots.at[10] : slots.at[9]) + inside;
  const bool whole = all_whole(slots);
  const u16 *k = (const u16 *)slots.at[1] + batch * K_BATCH + head * K_HEAD;
  const u16 *v = (const u16 *)slots.at[2] + batch * V_BATCH + head * V_HEAD;
  const int end = CAUSAL && position + rows < KEYS ? position + rows : KEYS;
  float dq[QUERY_BLOCKS][DEPTH_PAD / 8][4], shift[QUERY_BLOCKS][2], delta[QUERY_BLOCKS][2];
  clear(dq);
#pragma unroll
  for (int m = 0; m < QUERY_BLOCKS; m++) {
#pragma unroll
    for (int half = 0; half < 2; half++) {
      const int at = row + m * 16 + half * 8 + lane / 4;
      const i64 number = (i64)line * QUERIES + query + at;
      shift[m][half] = at < rows ? ((const float *)slots.at[4])[number] * INVERSE_NATURAL : 0.0f;
      delta[m][half] = at < rows ? ((const float *)slots.at[SCRATCH])[number] : 0.0f;
    }
  }
  tile_load<QUERY_ROWS, DEPTH_PAD, DEPTH, ROW_K, QUERY_THREADS>(
      tile_q, (const u16 *)slots.at[0] + batch * Q_BATCH + query * Q_QUERY + head * Q_HEAD + group * Q_GROUP, Q_QUERY,
      rows, whole);
  tile_load<QUERY_ROWS, VALUE_PAD, VALUE_DEPTH, ROW_V, QUERY_THREADS>(
      tile_d, (const u16 *)slots.at[5] + batch * DO_BATCH + query * DO_QUERY + head * DO_HEAD + group * DO_GROUP,
      DO_QUERY, rows, whole);
  keys_load(k, v, 0, stages, whole);
  for (int key = 0, i = 0; key < end; key += KEY_TILE, i++) {
    const u16 *const tile_k = stages + i % 2 * KEY_STAGE;
    float s[QUERY_BLOCKS][KEY_TILE / 8][4], d[QUERY_BLOCKS][KEY_TILE / 8][4];
    u32 p[QUERY_BLOCKS][KEY_TILE / 16][4];
    copies_wait();
    __syncthreads();  // this tile is here, and nothing reads the last one
    if (key + KEY_TILE < end) {
      keys_load(k, v, key + KEY_TILE, stages + (i + 1) % 2 * KEY_STAGE, whole);
    }
    if (CAUSAL && key > position + row + QUERY_BLOCKS * 16 - 1) {
      continue;  // no query of the warp sees a key of the tile
    }
    clear(s);
    clear(d);
    product_rows<QUERY_BLOCKS, KEY_TILE, DEPTH_PAD, ROW_K, ROW_K>(s, tile_q + row * ROW_K, tile_k);
    product_rows<QUERY_BLOCKS, KEY_TILE, VALUE_PAD, ROW_V, ROW_V>(d, tile_d + row * ROW_V, tile_k + KEY_TILE * ROW_K);
    query_gradient(s, d, shift, delta, position + row, key);
#pragma unroll
    for (int m = 0; m < QUERY_BLOCKS; m++) {
      fragments_of<KEY_TILE>(p[m], s[m]);
    }
    product_columns<QUERY_BLOCKS, KEY_TILE, DEPTH_PAD, ROW_K>(dq, p, tile_k);
  }
  __syncwarp();  // no lane reads q any more
#pragma unroll
  for (int m = 0; m < QUERY_BLOCKS; m++) {
    tile_put<DEPTH_PAD, ROW_K>(tile_q + (row + m * 16) * ROW_K, dq[m], SCALE, SCALE);
  }
  __syncwarp();
  u16 *to = (u16 *)slots.at[6] + batch * DQ_BATCH + (query + row) * DQ_QUERY + head * DQ_HEAD + group * DQ_GROUP;
  tile_store<QUERY_ROWS / QUERY_WARPS, DEPTH, ROW_K>(to, DQ_QUERY, tile_q + row * ROW_K, rows - row, whole);
}
