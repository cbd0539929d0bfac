// attention_again.cu: what all gradients of attention of 16-bit elements begin with: delta, tiles of queries for a block
// of keys and of keys for a block of queries, and their probabilities, made again from the saved statistics.
//
// DELTA_LANES lanes for each row.
extern "C" __global__ void __launch_bounds__(256) attention_delta(Slots slots) {
  constexpr u32 ROWS = (u32)BATCH * HEADS * GROUPS * QUERIES;
  const u32 at = blockIdx.x * (256 / DELTA_LANES) + threadIdx.x / DELTA_LANES, row = at < ROWS ? at : 0;
  const int lane = (int)threadIdx.x % DELTA_LANES;
  const bool whole = all_whole(slots);
  const Where where = where_row(row);
  if (keys_hidden(slots)) {
    return;
  }
  const float sum = delta_of(slots, where, whole);
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

// --- a block of keys ---

constexpr int KEY_THREADS = KEY_WARPS * 32, KEY_ROWS = KEY_WARPS * KEY_BLOCKS * 16;
constexpr int NUMBERS = QUERY_TILE * 4;  // elements: statistics and delta
constexpr int STAGE = QUERY_TILE * (ROW_K + ROW_V) + NUMBERS;

// In order of group, part and position.
struct QueryTile {
  int group, part, inside;  // inside: the first query, of those of the part
};

// The first tile of a group that has any.
__device__ __forceinline__ QueryTile tile_first(const Walk &walk, int group) {
  QueryTile tile;
  tile.group = group;
  tile.part = PARTS > 1 && walk.begin_0 == walk.end_0;
  tile.inside = (tile.part ? walk.begin_1 : walk.begin_0) * QUERY_TILE;
  return tile;
}

__device__ __forceinline__ QueryTile tile_next(const Walk &walk, const QueryTile &last) {
  QueryTile tile = last;
  tile.inside += QUERY_TILE;
  if (tile.inside >= (tile.part ? walk.end_1 : walk.end_0) * QUERY_TILE) {
    if (PARTS > 1 && tile.part == 0 && walk.begin_1 < walk.end_1) {
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

__device__ __forceinline__ void queries_load(const Slots &slots, Where where, const QueryTile &tile, u16 *to,
                                             bool whole) {
  const int rows = rows_of(tile);
  group_seek(where, tile.group);
  where.query = tile.part * PART_QUERIES + tile.inside;
  float *const numbers = (float *)(to + QUERY_TILE * (ROW_K + ROW_V));
  tile_load<QUERY_TILE, DEPTH_PAD, DEPTH, ROW_K, KEY_THREADS>(to, QUERY_AT((const u16 *)slots.at[0], Q, 0), Q_QUERY,
                                                              rows, whole);
  tile_load<QUERY_TILE, VALUE_PAD, VALUE_DEPTH, ROW_V, KEY_THREADS>(
      to + QUERY_TILE * ROW_K, QUERY_AT((const u16 *)slots.at[5], DO, 0), DO_QUERY, rows, whole);
  numbers_load<QUERY_TILE, KEY_THREADS>(numbers, (const float *)slots.at[4] + row_of(where), rows);
  numbers_load<QUERY_TILE, KEY_THREADS>(numbers + QUERY_TILE, (const float *)slots.at[SCRATCH] + row_of(where), rows);
}

// Scores, [keys][queries], to probabilities. keys: of the warp; first: the last that the first query sees.
__device__ __forceinline__ void key_powers(float (&s)[KEY_BLOCKS][QUERY_STEP / 8][4], const float *statistics,
                                           const Keys &keys, int first, int queries) {
  const int lane = (int)threadIdx.x % 32;
#pragma unroll
  for (int n = 0; n < QUERY_STEP / 8; n++) {
    const float2 both = *(const float2 *)(statistics + n * 8 + lane % 4 * 2);
#pragma unroll
    for (int e = 0; e < 2; e++) {
      const float shift = shift_of(e ? both.y : both.x);
#pragma unroll
      for (int m = 0; m < KEY_BLOCKS; m++) {
        s[m][n][e] = power_of(s[m][n][e], shift);
        s[m][n][2 + e] = power_of(s[m][n][2 + e], shift);
      }
    }
  }
  if (queries < QUERY_STEP || (CAUSAL && keys.key + KEY_BLOCKS * 16 - 1 > first) ||
      (KEY_END && keys.key + KEY_BLOCKS * 16 > keys.limit)) {
#pragma unroll
    for (int m = 0; m < KEY_BLOCKS; m++) {
#pragma unroll
      for (int n = 0; n < QUERY_STEP / 8; n++) {
#pragma unroll
        for (int e = 0; e < 4; e++) {
          const int query = n * 8 + lane % 4 * 2 + e % 2, key = keys.key + m * 16 + e / 2 * 8 + lane / 4;
          if (query >= queries || (CAUSAL && key > first + query) || (KEY_END && key >= keys.limit)) {
            s[m][n][e] = 0.0f;
          }
        }
      }
    }
  }
}

// --- a block of queries ---

constexpr int QUERY_THREADS = QUERY_WARPS * 32, QUERY_ROWS = QUERY_WARPS * QUERY_BLOCKS * 16;
constexpr int KEY_STAGE = KEY_TILE * (ROW_K + ROW_V);

__device__ __forceinline__ void keys_load(const u16 *k, const u16 *v, const Keys &keys, u16 *to, bool whole) {
  const int count = keys.limit - keys.key;
  tile_load<KEY_TILE, DEPTH_PAD, DEPTH, ROW_K, QUERY_THREADS>(to, k + keys.key * K_KEY, K_KEY, count, whole);
  tile_load<KEY_TILE, VALUE_PAD, VALUE_DEPTH, ROW_V, QUERY_THREADS>(to + KEY_TILE * ROW_K, v + keys.key * V_KEY, V_KEY,
                                                                    count, whole);
}

// s becomes ds. position: that of the first query of the warp, as the number of the last key it sees.
__device__ __forceinline__ void query_gradient(float (&s)[QUERY_BLOCKS][KEY_TILE / 8][4],
                                               const float (&d)[QUERY_BLOCKS][KEY_TILE / 8][4],
                                               const float (&shift)[QUERY_BLOCKS][2],
                                               const float (&delta)[QUERY_BLOCKS][2], int position, const Keys &keys) {
#pragma unroll
  for (int m = 0; m < QUERY_BLOCKS; m++) {
#pragma unroll
    for (int n = 0; n < KEY_TILE / 8; n++) {
#pragma unroll
      for (int e = 0; e < 4; e++) {
        s[m][n][e] = power_of(s[m][n][e], shift[m][e / 2]);
      }
    }
  }
  if (keys.key + KEY_TILE > keys.limit || (CAUSAL && keys.key + KEY_TILE - 1 > position)) {
    mask<QUERY_BLOCKS, KEY_TILE>(s, 0.0f, position, keys);
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
