// attention_plain.cu: attention and its gradient by multiply-add, for any storage format and depth.
//
// Blocks of 256 threads, 16 x 16, work on 64 rows by 64 columns; thread (y, x) has rows 4y.. and columns 4x.. of every
// tile. Shared: two tiles of a contraction, [CHUNK][LINE] each, or one of [64][LINE], and the probabilities, transposed
// [64][LINE]. Probabilities are not rounded.
constexpr int SIDE = 64, CHUNK = 32, LINE = SIDE + 4, THREADS = 256;
constexpr int DEPTH_TILES = (DEPTH + SIDE - 1) / SIDE, VALUE_TILES = (VALUE_DEPTH + SIDE - 1) / SIDE;
constexpr int PART_TILES = (PART_QUERIES + SIDE - 1) / SIDE, ROWS_ALL = BATCH * HEADS * GROUPS;
typedef Format::Memory Memory;
typedef Format::Real Real;
typedef Real Tile[4][4];

struct __align__(4 * sizeof(Real)) Four {
  Real at[4];
};

struct Matrix {  // rows in memory, those from `rows` on taken as 0
  const Memory *at;
  i64 stride;
  int rows;
};

__device__ __forceinline__ Real get(const Matrix &matrix, int row, int column, int width) {
  return row < matrix.rows && column < width ? Format::load(matrix.at[row * matrix.stride + column]) : (Real)0;
}

__device__ __forceinline__ Real *shared_left() {
  return (Real *)shared_memory;
}

__device__ __forceinline__ Real *shared_right() {
  return shared_left() + CHUNK * LINE;
}

__device__ __forceinline__ Real *shared_weights() {
  return shared_left() + SIDE * LINE;
}

__device__ __forceinline__ int thread_row() {
  return (int)threadIdx.x / 16 * 4;
}

__device__ __forceinline__ int thread_column() {
  return (int)threadIdx.x % 16 * 4;
}

template <int COUNT>
__device__ __forceinline__ void clear(Tile (&tile)[COUNT]) {
#pragma unroll
  for (int n = 0; n < COUNT; n++) {
#pragma unroll
    for (int i = 0; i < 16; i++) {
      tile[n][i / 4][i % 4] = 0;
    }
  }
}

__device__ __forceinline__ void multiply(Tile &sum, const Real *left, const Real *right, int steps) {
#pragma unroll 8
  for (int k = 0; k < steps; k++) {
    const Four a = *(const Four *)(left + k * LINE + thread_row());
    const Four b = *(const Four *)(right + k * LINE + thread_column());
#pragma unroll
    for (int i = 0; i < 4; i++) {
#pragma unroll
      for (int j = 0; j < 4; j++) {
        sum[i][j] += a.at[i] * b.at[j];
      }
    }
  }
}

// sum[row][column] = the dot product of row `row` of a and row `column` of b.
__device__ __forceinline__ void dots(Tile &sum, const Matrix &a, const Matrix &b, int width) {
#pragma unroll
  for (int i = 0; i < 16; i++) {
    sum[i / 4][i % 4] = 0;
  }
#pragma unroll 1
  for (int begin = 0; begin < width; begin += CHUNK) {
    __syncthreads();
#pragma unroll
    for (int i = 0; i < SIDE * CHUNK / THREADS; i++) {
      const int at = i * THREADS + (int)threadIdx.x, row = at / CHUNK, k = at % CHUNK;
      shared_left()[k * LINE + row] = get(a, row, begin + k, width);
      shared_right()[k * LINE + row] = get(b, row, begin + k, width);
    }
    __syncthreads();
    multiply(sum, shared_left(), shared_right(), CHUNK);
  }
}

// What dots left, for weighted_sum.
__device__ __forceinline__ void weights_put(const Tile &weights) {
  __syncthreads();
#pragma unroll
  for (int j = 0; j < 4; j++) {
    Four four;
#pragma unroll
    for (int i = 0; i < 4; i++) {
      four.at[i] = weights[i][j];
    }
    *(Four *)(shared_weights() + (thread_column() + j) * LINE + thread_row()) = four;
  }
}

// sum[row][.] += sum over columns of weights[row][column] times row `column` of x.
template <int TILES>
__device__ __forceinline__ void weighted_sum(Tile (&sum)[TILES], const Matrix &x, int width) {
#pragma unroll
  for (int n = 0; n < TILES; n++) {
    __syncthreads();
#pragma unroll
    for (int i = 0; i < SIDE * SIDE / THREADS; i++) {
      const int at = i * THREADS + (int)threadIdx.x, row = at / SIDE, column = at % SIDE;
      shared_left()[row * LINE + column] = get(x, row, n * SIDE + column, width);
    }
    __syncthreads();
    multiply(sum[n], shared_weights(), shared_left(), SIDE);
  }
}

template <int TILES>
__device__ __forceinline__ void store(const Tile (&tile)[TILES], Memory *to, i64 stride, int rows, int width,
                                      const Real (&factor)[4]) {
#pragma unroll
  for (int n = 0; n < TILES; n++) {
#pragma unroll
    for (int i = 0; i < 4; i++) {
#pragma unroll
      for (int j = 0; j < 4; j++) {
        const int row = thread_row() + i, column = n * SIDE + thread_column() + j;
        if (row < rows && column < width) {
          to[row * stride + column] = Format::store(tile[n][i][j] * factor[i]);
        }
      }
    }
  }
}

// Over the 16 threads that share rows.
__device__ __forceinline__ Real row_sum(Real x) {
#pragma unroll
  for (int by = 8; by > 0; by /= 2) {
    x += __shfl_xor_sync(0xffffffffu, x, by);
  }
  return x;
}

__device__ __forceinline__ Real row_max(Real x) {
#pragma unroll
  for (int by = 8; by > 0; by /= 2) {
    const Real other = __shfl_xor_sync(0xffffffffu, x, by);
    x = x > other ? x : other;
  }
  return x;
}

// Queries [query, query + rows) of one (batch, head, group), of which the first is at `position`.
struct Where {
  int batch, head, group, query, rows, position;
};

__device__ __forceinline__ void queries_seek(Where &where, int tile, u64 origin0, u64 origin1) {
  const int part = tile / PART_TILES, inside = tile % PART_TILES * SIDE;
  where.query = part * PART_QUERIES + inside;
  where.rows = PART_QUERIES - inside < SIDE ? PART_QUERIES - inside : SIDE;
  where.position = (int)(part ? origin1 : origin0) + inside;
}

__device__ __forceinline__ Where where_queries(u64 origin0, u64 origin1) {
  const int line = (int)(blockIdx.x % ROWS_ALL), tile = PARTS * PART_TILES - 1 - (int)(blockIdx.x / ROWS_ALL);
  Where where;
  where.group = line % GROUPS;
  where.head = line / GROUPS % HEADS;
  where.batch = line / GROUPS / HEADS;
  queries_seek(where, tile, origin0, origin1);
  return where;
}

__device__ __forceinline__ i64 line_of(const Where &where) {
  return (((i64)where.batch * HEADS + where.head) * GROUPS + where.group) * QUERIES + where.query;
}

#define QUERY_AT(base, NAME)                                                                               \
  ((Memory *)(base) + where.batch * NAME##_BATCH + where.query * NAME##_QUERY + where.head * NAME##_HEAD + \
   where.group * NAME##_GROUP)
#define KEY_AT(base, NAME, key) \
  ((Memory *)(base) + where.batch * NAME##_BATCH + (key)*NAME##_KEY + where.head * NAME##_HEAD)

__device__ __forceinline__ bool seen(const Where &where, int row, int key) {
  return key < KEYS && row < where.rows && (!CAUSAL || key <= where.position + row);
}

__device__ __forceinline__ int keys_end(const Where &where) {
  return CAUSAL && where.position + where.rows < KEYS ? where.position + where.rows : KEYS;
}

#if !GRADIENT
extern "C" __global__ void __launch_bounds__(THREADS) attention_forward(Slots slots) {
  const Where where = where_queries(slots.at[5], slots.at[6]);
  const Matrix q = {QUERY_AT(slots.at[0], Q), Q_QUERY, where.rows};
  const int end = keys_end(where);
  Tile o[VALUE_TILES];
  Real high[4], sum[4], inverse[4];
  clear(o);
#pragma unroll
  for (int i = 0; i < 4; i++) {
    high[i] = -(Real)INFINITE;
    sum[i] = 0;
  }
  for (int key = 0; key < end; key += SIDE) {
    Tile s;
    dots(s, q, {KEY_AT(slots.at[1], K, key), K_KEY, KEYS - key}, DEPTH);
#pragma unroll
    for (int i = 0; i < 4; i++) {
      Real now = high[i], factor, added = 0;
#pragma unroll
      for (int j = 0; j < 4; j++) {
        // A row past the end sees what the last one does.
        const int row = thread_row() + i < where.rows ? thread_row() + i : where.rows - 1;
        s[i][j] = seen(where, row, key + thread_column() + j) ? s[i][j] * (Real)SCALE : -(Real)INFINITE;
        now = now > s[i][j] ? now : s[i][j];
      }
      now = row_max(now);
      factor = exp(high[i] - now);
      high[i] = now;
#pragma unroll
      for (int j = 0; j < 4; j++) {
        s[i][j] = exp(s[i][j] - now);
        added += s[i][j];
      }
      sum[i] = sum[i] * factor + added;
#pragma unroll
      for (int n = 0; n < VALUE_TILES; n++) {
#pragma unroll
        for (int j = 0; j < 4; j++) {
          o[n][i][j] *= factor;
        }
      }
    }
    weights_put(s);
    weighted_sum(o, {KEY_AT(slots.at[2], V, key), V_KEY, KEYS - key}, VALUE_DEPTH);
  }
#pragma unroll
  for (int i = 0; i < 4; i++) {
    const Real all = row_sum(sum[i]);
    inverse[i] = 1 / all;
    if (thread_column() == 0 && thread_row() + i < where.rows) {
      ((Real *)slots.at[4])[line_of(where) + thread_row() + i] = high[i] + log(all);
    }
  }
  store(o, QUERY_AT(slots.at[3], O), O_QUERY, where.rows, VALUE_DEPTH, inverse);
}

#else

// A warp for each row.
extern "C" __global__ void __launch_bounds__(THREADS) attention_delta(Slots slots) {
  const u32 at = blockIdx.x * (THREADS / 32) + threadIdx.x / 32;
  if (at >= (u32)ROWS_ALL * QUERIES) {
    return;
  }
  Where where;
  where.query = (int)(at % QUERIES);
  where.group = (int)(at / QUERIES % GROUPS);
  where.head = (int)(at / QUERIES / GROUPS % HEADS);
  where.batch = (int)(at / QUERIES / GROUPS / HEADS);
  const Memory *o = QUERY_AT(slots.at[3], O), *d = QUERY_AT(slots.at[5], DO);
  Real sum = 0;
  for (int c = (int)threadIdx.x % 32; c < VALUE_DEPTH; c += 32) {
    sum += Format::load(o[c]) * Format::load(d[c]);
  }
  sum = row_sum(sum);
  sum += __shfl_xor_sync(0xffffffffu, sum, 16);
  if (threadIdx.x % 32 == 0) {
    ((Real *)slots.at[SCRATCH])[at] = sum;
  }
}

// s[row][column] becomes p. `rows_are_keys`: rows are keys from `key` on and columns are queries, else the other way.
template <bool ROWS_ARE_KEYS>
__device__ __forceinline__ void powers(const Slots &slots, const Where &where, int key, Tile &s) {
  const Real *statistics = (const Real *)slots.at[4] + line_of(where);
#pragma unroll
  for (int i = 0; i < 4; i++) {
#pragma unroll
    for (int j = 0; j < 4; j++) {
      const int row = thread_row() + i, column = thread_column() + j;
      const int query = ROWS_ARE_KEYS ? column : row, at = key + (ROWS_ARE_KEYS ? row : column);
      s[i][j] = seen(where, query, at) ? exp(s[i][j] * (Real)SCALE - statistics[query]) : (Real)0;
    }
  }
}

template <bool ROWS_ARE_KEYS>
__device__ __forceinline__ void gradients(const Slots &slots, const Where &where, const Tile &p, Tile &d) {
  const Real *delta = (const Real *)slots.at[SCRATCH] + line_of(where);
#pragma unroll
  for (int i = 0; i < 4; i++) {
#pragma unroll
    for (int j = 0; j < 4; j++) {
      const int query = ROWS_ARE_KEYS ? thread_column() + j : thread_row() + i;
      d[i][j] = query < where.rows ? p[i][j] * (d[i][j] - delta[query]) : (Real)0;
    }
  }
}

// DV, DK: both at once if their sums fit the registers.
template <bool DV, bool DK>
__device__ __forceinline__ void keys_backward(const Slots &slots) {
  Where where;
  where.head = (int)(blockIdx.x % HEADS);
  where.batch = (int)(blockIdx.x / HEADS % BATCH);
  const int key = (int)(blockIdx.x / HEADS / BATCH) * SIDE;
  const Matrix k = {KEY_AT(slots.at[1], K, key), K_KEY, KEYS - key};
  const Matrix v = {KEY_AT(slots.at[2], V, key), V_KEY, KEYS - key};
  const Real scale[4] = {SCALE, SCALE, SCALE, SCALE}, one[4] = {1, 1, 1, 1};
  Tile dk[DK ? DEPTH_TILES : 1], dv[DV ? VALUE_TILES : 1];
  clear(dk);
  clear(dv);
  for (where.group = 0; where.group < GROUPS; where.group++) {
    for (int tile = 0; tile < PARTS * PART_TILES; tile++) {
      Tile s, d;
      queries_seek(where, tile, slots.at[9], slots.at[10]);
      if (CAUSAL && where.position + where.rows <= key) {
        continue;
      }
      const Matrix q = {QUERY_AT(slots.at[0], Q), Q_QUERY, where.rows};
      const Matrix d_o = {QUERY_AT(slots.at[5], DO), DO_QUERY, where.rows};
      dots(s, k, q, DEPTH);
      powers<true>(slots, where, key, s);
      if constexpr (DV) {
        weights_put(s);
        weighted_sum(dv, d_o, VALUE_DEPTH);
      }
      if constexpr (DK) {
        dots(d, v, d_o, VALUE_DEPTH);
        gradients<true>(slots, where, s, d);
        weights_put(d);
        weighted_sum(dk, q, DEPTH);
      }
    }
  }
  if constexpr (DK) {
    store(dk, KEY_AT(slots.at[7], DK, key), DK_KEY, KEYS - key, DEPTH, scale);
  }
  if constexpr (DV) {
    store(dv, KEY_AT(slots.at[8], DV, key), DV_KEY, KEYS - key, VALUE_DEPTH, one);
  }
}

#if KEYS_TOGETHER
extern "C" __global__ void __launch_bounds__(THREADS) attention_keys(Slots slots) {
  keys_backward<true, true>(slots);
}
#else
extern "C" __global__ void __launch_bounds__(THREADS) attention_dv(Slots slots) {
  keys_backward<true, false>(slots);
}

extern "C" __global__ void __launch_bounds__(THREADS) attention_dk(Slots slots) {
  keys_backward<false, true>(slots);
}
#endif

extern "C" __global__ void __launch_bounds__(THREADS) attention_dq(Slots slots) {
  const Where where = where_queries(slots.at[9], slots.at[10]);
  const Matrix q = {QUERY_AT(slots.at[0], Q), Q_QUERY, where.rows};
  const Matrix d_o = {QUERY_AT(slots.at[5], DO), DO_QUERY, where.rows};
  const Real scale[4] = {SCALE, SCALE, SCALE, SCALE};
  const int end = keys_end(where);
  Tile dq[DEPTH_TILES];
  clear(dq);
  for (int key = 0; key < end; key += SIDE) {
    const Matrix k = {KEY_AT(slots.at[1], K, key), K_KEY, KEYS - key};
    Tile s, d;
    dots(s, q, k, DEPTH);
    powers<false>(slots, where, key, s);
    dots(d, d_o, {KEY_AT(slots.at[2], V, key), V_KEY, KEYS - key}, VALUE_DEPTH);
    gradients<false>(slots, where, s, d);
    weights_put(d);
    weighted_sum(dq, k, DEPTH);
  }
  store(dq, QUERY_AT(slots.at[6], DQ), DQ_QUERY, where.rows, DEPTH, scale);
}
#endif
