// attention_walk.cu: the tiles of queries that see a block of keys, for both gradients of 16-bit elements.
constexpr int QUERY_TILES = (PART_QUERIES + QUERY_TILE - 1) / QUERY_TILE;  // of one part

// Of both parts: the number that its first query sees last, and the first and the end of the tiles that see the keys;
// how many they are, of all groups.
struct Walk {
  int first_0, first_1, begin_0, begin_1, end_0, end_1, count;
  const u32 *known;  // of the keys, in the row of the first tile; nullptr: there is no table
};

__device__ __forceinline__ int walk_begin(int first, const Keys &keys) {
  const int ahead = keys.key - first;
  if (KEY_END && keys.key >= keys.limit) {
    return QUERY_TILES;
  }
  return !CAUSAL || ahead < 0 ? 0 : ahead < PART_QUERIES ? ahead / QUERY_TILE : QUERY_TILES;
}

// Behind the last tile that sees any of `rows` keys.
__device__ __forceinline__ int walk_end(int first, const Keys &keys, int rows, int begin) {
  const int after = (keys.key + rows - 1 + WINDOW - 1 - first) / QUERY_TILE + 1;
  const int end = !WINDOW || after > QUERY_TILES ? QUERY_TILES : after;
  return end > begin ? end : begin;
}

__device__ __forceinline__ Walk walk_of(const Slots &slots, const Keys &keys, int rows) {
  Walk walk;
  walk.known = nullptr;
  walk.first_0 = (int)slots.at[ORIGINS] - keys.lead;
  walk.first_1 = (int)slots.at[ORIGINS + 1] - keys.lead;
  walk.begin_0 = walk_begin(walk.first_0, keys);
  walk.begin_1 = PARTS > 1 ? walk_begin(walk.first_1, keys) : QUERY_TILES;
  walk.end_0 = walk_end(walk.first_0, keys, rows, walk.begin_0);
  walk.end_1 = walk_end(walk.first_1, keys, rows, walk.begin_1);
  walk.count = GROUPS * (walk.end_0 - walk.begin_0 + walk.end_1 - walk.begin_1);
  return walk;
}
