// attention_place.cu: which queries and which keys a thread block has, and what of them is seen.
//
// Keys have numbers, in the order of their memory. Each of their parts is consecutive positions, `lead` ahead of the
// numbers: 0, but for the keys of another rank in a ring (RING). A query at position x sees the numbers up to x - lead.
constexpr int LINES = BATCH * HEADS * GROUPS;
constexpr int ORIGINS = SCRATCH - (RING ? 4 : 2), KEY_ORIGINS = SCRATCH - 2, SLOPES = ORIGINS - 1;  // slots

// Queries [query, query + rows) of one (batch, head, group), which has number `line`; the first is at `position`.
struct Where {
  int line, batch, head, group, query, rows, position;
};

__device__ __forceinline__ void group_seek(Where &where, int group) {
  where.group = group;
  where.line = (where.batch * HEADS + where.head) * GROUPS + group;
}

template <int TILE>
__device__ __forceinline__ void queries_seek(const Slots &slots, Where &where, int tile) {
  constexpr int TILES = (PART_QUERIES + TILE - 1) / TILE;
  const int part = tile / TILES, inside = tile % TILES * TILE;
  where.query = part * PART_QUERIES + inside;
  where.rows = PART_QUERIES - inside < TILE ? PART_QUERIES - inside : TILE;
  where.position = (int)(part ? slots.at[ORIGINS + 1] : slots.at[ORIGINS]) + inside;
}

// Those of a tile of all lines: the longest first.
template <int TILE>
__device__ __forceinline__ Where where_tile(const Slots &slots, int number) {
  constexpr int TILES = (PART_QUERIES + TILE - 1) / TILE;
  Where where;
  where.line = number % LINES;
  where.group = where.line % GROUPS;
  where.head = where.line / GROUPS % HEADS;
  where.batch = where.line / GROUPS / HEADS;
  queries_seek<TILE>(slots, where, PARTS * TILES - 1 - number / LINES);
  return where;
}

template <int TILE>
__device__ __forceinline__ Where where_queries(const Slots &slots) {  // of this thread block
  return where_tile<TILE>(slots, (int)blockIdx.x);
}

// The query of a row of statistics and delta.
__device__ __forceinline__ Where where_row(u32 row) {
  Where where;
  where.query = (int)(row % QUERIES);
  where.group = (int)(row / QUERIES % GROUPS);
  where.head = (int)(row / QUERIES / GROUPS % HEADS);
  where.batch = (int)(row / QUERIES / GROUPS / HEADS);
  return where;
}

// And the row of the first query.
__device__ __forceinline__ i64 row_of(const Where &where) {
  return (i64)where.line * QUERIES + where.query;
}

#define QUERY_AT(base, NAME, row)                                                                          \
  ((base) + where.batch * NAME##_BATCH + (where.query + (row)) * NAME##_QUERY + where.head * NAME##_HEAD + \
   where.group * NAME##_GROUP)
#define KEY_AT(base, NAME, key) ((base) + where.batch * NAME##_BATCH + (key)*NAME##_KEY + where.head * NAME##_HEAD)

// Keys of one part, from `key` on; those from `limit` on are padding, or of another part.
struct Keys {
  int part, key, end, limit, lead;
};

__device__ __forceinline__ Keys keys_of_part(const Slots &slots, int part) {
  Keys keys;
  keys.part = part;
  keys.key = part * PART_KEYS;
  keys.end = keys.limit = keys.key + PART_KEYS;
  keys.lead = RING ? (int)(part ? slots.at[KEY_ORIGINS + 1] : slots.at[KEY_ORIGINS]) - keys.key : 0;
  if (KEY_END && KEY_END - keys.lead < keys.limit) {
    keys.limit = KEY_END - keys.lead;
  }
  return keys;
}

// Those that any of the queries sees: up to `end`. WINDOW: those at least so far before a query are hidden.
__device__ __forceinline__ Keys keys_seen(const Slots &slots, const Where &where, int part) {
  Keys keys = keys_of_part(slots, part);
  const int after = where.position - keys.lead + where.rows, far = where.position - keys.lead - (WINDOW - 1);
  keys.end = CAUSAL && after < keys.limit ? after : keys.limit;
  keys.key = WINDOW && far > keys.key ? far : keys.key;
  return keys;
}

// Keys that the queries see, a tile after the other, part after part, while key < end.
__device__ __forceinline__ Keys keys_first(const Slots &slots, const Where &where) {
  const Keys keys = keys_seen(slots, where, 0);
  return KEY_PARTS > 1 && keys.key >= keys.end ? keys_seen(slots, where, 1) : keys;
}

template <int TILE>
__device__ __forceinline__ Keys keys_next(const Slots &slots, const Where &where, const Keys &last) {
  Keys keys = last;
  keys.key += TILE;
  return KEY_PARTS > 1 && keys.part == 0 && keys.key >= keys.end ? keys_seen(slots, where, 1) : keys;
}

// TILE keys, or those that are left up to `end` in memory, of one (batch, head): of this thread block.
template <int TILE>
__device__ __forceinline__ Keys where_keys(const Slots &slots, Where &where) {
  constexpr int TILES = (PART_KEYS + TILE - 1) / TILE;
  const int tile = (int)(blockIdx.x / (HEADS * BATCH)), part = KEY_PARTS > 1 ? tile / TILES : 0;
  Keys keys = keys_of_part(slots, part);
  where.head = (int)(blockIdx.x % HEADS);
  where.batch = (int)(blockIdx.x / HEADS % BATCH);
  keys.key += (tile - part * TILES) * TILE;
  return keys;
}

// No query sees any of the keys, whose positions begin with the lowest.
__device__ __forceinline__ bool keys_hidden(const Slots &slots) {
  const u64 last = slots.at[ORIGINS + PARTS - 1] + PART_QUERIES;
  return RING && CAUSAL && last <= slots.at[KEY_ORIGINS];
}

// What a head's biases grow by from key to key. 0: it has none.
template <typename Real>
__device__ __forceinline__ Real slope_of(const Slots &slots, const Where &where, int group) {
  return BIASED ? ((const Real *)slots.at[SLOPES])[where.head * GROUPS + group] : (Real)0;
}

// The statistic of a query after a block of keys whose own is `made`, and in which parts the results count: what there
// was before, by `kept`, and what the block adds, by `factor` more than until now.
template <typename Real>
__device__ __forceinline__ Real statistics_join(Real before, Real made, Real &kept, Real &factor) {
  const Real high = before > made ? before : made, old = exp(before - high), added = exp(made - high);
  kept = old / (old + added);
  factor *= added / (old + added);
  return high + log(old + added);
}

// LARGE: a statistic and what it has lost in rounding, the sum of two numbers of which one may be large.
template <typename Real>
struct Statistic {
  Real kept, lost;
};

template <typename Real>
__device__ __forceinline__ Statistic<Real> statistic_of(Real large, Real small) {
  const Real kept = large + small;
  return {kept, small + (large - kept)};
}

// As statistics_join.
template <typename Real>
__device__ __forceinline__ Statistic<Real> large_join(const Statistic<Real> &before, const Statistic<Real> &made,
                                                      Real &kept, Real &factor) {
  const Real ahead = made.kept - before.kept + (made.lost - before.lost);
  const Statistic<Real> &high = ahead > 0 ? made : before;
  kept = 1 / (1 + exp(ahead));
  factor *= 1 / (1 + exp(-ahead));
  return statistic_of(high.kept, high.lost + log(1 + exp(ahead > 0 ? -ahead : ahead)));
}

// The statistic of a row, of a maximum and of the logarithm of a sum: to memory, where one lane `writes`, joined with
// what there is.
template <typename Real>
__device__ __forceinline__ void large_store(const Slots &slots, i64 row, bool inside, bool writes, bool none, Real high,
                                            Real log_sum, Real &kept, Real &factor) {
  Real *const at = (Real *)slots.at[4] + row, *const lost = (Real *)slots.at[BEHIND] + row;
  const Statistic<Real> before = {MORE && inside ? *at : -(Real)INFINITE, MORE && inside ? *lost : (Real)0};
  Statistic<Real> made = before;
  if (MORE) {
    __syncwarp();  // all that share the row have read it
  }
  if (!none) {
    made = statistic_of(high, log_sum);
    made = MORE ? large_join(before, made, kept, factor) : made;
  }
  if (writes && inside) {
    *at = made.kept;
    *lost = made.lost;
  }
}
