// attention_pairs.cu: where the gradient of a captured tensor lies, and which lines of queries share its pairs.
#define CAPTURED_AT(Type, slots, where, group, key, query)                                                      \
  ((Type *)(slots).at[6] + (where).batch * DC_BATCH + (where).head * DC_HEAD + (group)*DC_GROUP + (key)*DC_KEY + \
   (query)*DC_QUERY)

// Lines that the tensor does not tell apart are those of the first of them.
__device__ __forceinline__ bool line_is_first(const Where &where) {
  return !BY_PAIR || ((DC_BATCH || where.batch == 0) && (DC_HEAD || where.head == 0) && (DC_GROUP || where.group == 0));
}

// The next of them, in order; false: there is none.
__device__ __forceinline__ bool line_next(Where &where) {
  bool more = true;
  if (!DC_GROUP && where.group + 1 < GROUPS) {
    where.group++;
  } else if (!DC_HEAD && where.head + 1 < HEADS) {
    where.group = DC_GROUP ? where.group : 0;
    where.head++;
  } else if (!DC_BATCH && where.batch + 1 < BATCH) {
    where.group = DC_GROUP ? where.group : 0;
    where.head = DC_HEAD ? where.head : 0;
    where.batch++;
  } else {
    more = false;
  }
  where.line = (where.batch * HEADS + where.head) * GROUPS + where.group;
  return more;
}

// All pairs of the queries become 0, those that nobody sees too.
template <typename Real, int THREADS>
__device__ __forceinline__ void pairs_clear(const Slots &slots, const Where &where) {
  for (int at = (int)threadIdx.x; at < where.rows * KEYS; at += THREADS) {
    *CAPTURED_AT(Real, slots, where, where.group, at % KEYS, where.query + at / KEYS) = 0;
  }
  __syncthreads();
}
