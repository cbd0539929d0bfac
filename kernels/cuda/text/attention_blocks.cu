// attention_blocks.cu: what is known of the scores of a tile of queries by a tile of keys before any of them is made.
//
// From intervals of positions, and of what masks read for each query or key (compiler/plan/score_masks.h): nobody sees
// the keys (HIDDEN), or masks let everything through (WHOLE). Where that hangs on data (HIDING), a launch of its own
// writes a table [batch][tile of queries][tile of keys] first: what is known, and above it how many tiles of keys before
// are not hidden.
constexpr int PART_TILES = (PART_QUERIES + QUERY_TILE - 1) / QUERY_TILE, TILES = PARTS * PART_TILES;
constexpr int PART_COLUMNS = (PART_KEYS + KEY_TILE - 1) / KEY_TILE, COLUMNS = KEY_PARTS * PART_COLUMNS;
enum { KNOWN_HIDDEN = 1, KNOWN_WHOLE = 2, KNOWN_BITS = 2 };

// The table, behind what else is in the scratch.
__device__ __forceinline__ u32 *table_of(const Slots &slots) {
  return (u32 *)(slots.at[SCRATCH] + TABLE);
}

__device__ __forceinline__ int tile_of(const Where &where) {
  return where.query / PART_QUERIES * PART_TILES + where.query % PART_QUERIES / QUERY_TILE;
}

// Of a tile of keys, which begins at a multiple of KEY_TILE in its part.
__device__ __forceinline__ int column_of(const Keys &keys) {
  return keys.part * PART_COLUMNS + (keys.key - keys.part * PART_KEYS) / KEY_TILE;
}

__device__ __forceinline__ const u32 *known_row(const Slots &slots, int batch, int tile) {
  return table_of(slots) + ((i64)batch * TILES + tile) * COLUMNS;
}

#if SCORED_TEXT
constexpr bool ONLY_MASKS = scores::ALONE;  // make scores of -infinity

__device__ __forceinline__ u32 known_of(const scores::Block &block) {
  const int made = scores::made_known(block);
  bool whole = scores::MASKED && made == scores::BLOCK_WHOLE;
#if SLOPED_TEXT
  whole = whole && scores::derived_known(block) == scores::BLOCK_WHOLE;
#endif
  return made == scores::BLOCK_HIDDEN ? KNOWN_HIDDEN : whole ? KNOWN_WHOLE : 0;
}

// Whether masks let all of these through, by positions alone.
__device__ __forceinline__ bool whole_here(int query, int queries, int key, int keys) {
  scores::Block block;
  block.query = {query, query + queries - 1};
  block.key = {key, key + keys - 1};
#pragma unroll
  for (int i = 0; i < scores::RANGED; i++) {
    block.captured[i] = scores::ANYTHING;
  }
  return known_of(block) == KNOWN_WHOLE;
}

// The intervals of what is of these keys, or of these queries, by the lanes of a warp.
template <int I>
__device__ __forceinline__ void ranges_take(const Slots &slots, scores::Block &block, bool of_keys, int batch, int first,
                                            int count) {
  if constexpr (I < scores::RANGED) {
    typedef scores::Ranged<I> Of;
    if (Of::OF_KEYS == of_keys) {
      scores::Range range = {2147483647, -2147483647 - 1};
      for (int i = (int)threadIdx.x % 32; i < count; i += 32) {
        const int value = Of::at(slots, batch, first + i);
        range = {scores::range_least(range.low, value), scores::range_most(range.high, value)};
      }
#pragma unroll
      for (int by = 16; by > 0; by /= 2) {
        range.low = scores::range_least(range.low, __shfl_xor_sync(0xffffffffu, range.low, by));
        range.high = scores::range_most(range.high, __shfl_xor_sync(0xffffffffu, range.high, by));
      }
      block.captured[I] = range;
    }
    ranges_take<I + 1>(slots, block, of_keys, batch, first, count);
  }
}

#if HIDING_TEXT
// A block for each tile of queries of each batch, a warp for each tile of keys.
extern "C" __global__ void __launch_bounds__(256) attention_blocks(Slots slots) {
  const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
  u32 *const row = table_of(slots) + (i64)blockIdx.x * COLUMNS;
  scores::Block block;
  Where where;
  where.batch = (int)blockIdx.x / TILES;
  queries_seek<QUERY_TILE>(slots, where, (int)blockIdx.x % TILES);
  block.query = {where.position, where.position + where.rows - 1};
  ranges_take<0>(slots, block, false, where.batch, where.query, where.rows);
  for (int column = warp; column < COLUMNS; column += 8) {
    const Keys seen = keys_seen(slots, where, column / PART_COLUMNS);
    const int key = seen.part * PART_KEYS + column % PART_COLUMNS * KEY_TILE;
    const int end = key + KEY_TILE < seen.limit ? key + KEY_TILE : seen.limit;
    u32 known = KNOWN_HIDDEN;
    if (key < seen.end && end > seen.key) {
      block.key = {key + seen.lead, end - 1 + seen.lead};
      ranges_take<0>(slots, block, true, where.batch, key, end - key);
      known = known_of(block);
    }
    if (lane == 0) {
      row[column] = known;
    }
  }
  __syncthreads();
  for (int first = 0, before = 0; warp == 0 && first < COLUMNS; first += 32) {
    const u32 known = first + lane < COLUMNS ? row[first + lane] : KNOWN_HIDDEN;
    const u32 seen = __ballot_sync(0xffffffffu, !(known & KNOWN_HIDDEN));
    if (first + lane < COLUMNS) {
      row[first + lane] = known | (u32)(before + __popc(seen & ((1u << lane) - 1))) << KNOWN_BITS;
    }
    before += __popc(seen);
  }
}
#endif
#else
constexpr bool ONLY_MASKS = false;

__device__ __forceinline__ bool whole_here(int, int, int, int) {
  return false;
}
#endif
