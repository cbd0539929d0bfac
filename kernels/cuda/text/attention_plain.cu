// attention_plain.cu: attention and its gradient by multiply-add, for any storage format and depth.
//
// Blocks of 256 threads, 16 x 16, work on 64 rows by 64 columns; thread (y, x) has rows 4y.. and columns 4x.. of every
// tile. Shared: two tiles of a contraction, [CHUNK][LINE] each, or one of [64][LINE], and the probabilities, transposed
// [64][LINE]. Probabilities are not rounded.
constexpr int SIDE = 64, CHUNK = 32, LINE = SIDE + 4, THREADS = 256;
constexpr int DEPTH_TILES = (DEPTH + SIDE - 1) / SIDE, VALUE_TILES = (VALUE_DEPTH + SIDE - 1) / SIDE;
constexpr int QUERY_TILES = PARTS * ((PART_QUERIES + SIDE - 1) / SIDE);
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

template <bool ADD, int TILES>
__device__ __forceinline__ void store(const Tile (&tile)[TILES], Memory *to, i64 stride, int rows, int width,
                                      const Real (&factor)[4], const Real (&kept)[4]) {
#pragma unroll
  for (int n = 0; n < TILES; n++) {
#pragma unroll
    for (int i = 0; i < 4; i++) {
#pragma unroll
      for (int j = 0; j < 4; j++) {
        const int row = thread_row() + i, column = n * SIDE + thread_column() + j;
        if (row < rows && column < width) {
          Memory *const at = to + row * stride + column;
          *at =
              Format::store(ADD ? Format::load(*at) * kept[i] + tile[n][i][j] * factor[i] : tile[n][i][j] * factor[i]);
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

__device__ __forceinline__ Matrix matrix_q(const Slots &slots, const Where &where) {
  return {QUERY_AT((const Memory *)slots.at[0], Q, 0), Q_QUERY, where.rows};
}

__device__ __forceinline__ Matrix matrix_k(const Slots &slots, const Where &where, const Keys &keys) {
  return {KEY_AT((const Memory *)slots.at[1], K, keys.key), K_KEY, keys.limit - keys.key};
}

__device__ __forceinline__ Matrix matrix_v(const Slots &slots, const Where &where, const Keys &keys) {
  return {KEY_AT((const Memory *)slots.at[2], V, keys.key), V_KEY, keys.limit - keys.key};
}

// Whether row `row` of the queries sees key `key` of the tile.
__device__ __forceinline__ bool seen(const Where &where, const Keys &keys, int row, int key) {
  return keys.key + key < keys.limit && row < where.rows &&
         (!CAUSAL || keys.key + key <= where.position - keys.lead + row);
}

__device__ __forceinline__ ScorePlace place_of(const Where &where, const Keys &keys) {
  return {where.query, where.position, keys.key, keys.key + keys.lead};
}

// The score of a row of the queries and a key of the tile whose dot product is `dot`. slope: of the head.
__device__ __forceinline__ Real score(const Where &where, const Keys &keys, int row, int key, Real dot, Real slope,
                                      const ScoreAt &at) {
  if (SCORED) {
    return score_made(at, dot, place_of(where, keys), row, key);
  }
  const int ahead = keys.key + key - (where.position - keys.lead + row);
  return BIASED ? dot * (Real)SCALE + slope * (Real)ahead : dot * (Real)SCALE;
}

#if !BACKWARD
extern "C" __global__ void __launch_bounds__(THREADS) attention_forward(Slots slots) {
  const Where where = where_queries<SIDE>(slots);
  const Matrix q = matrix_q(slots, where);
  const Real slope = slope_of<Real>(slots, where, where.group);
  const ScoreAt at = score_at(slots, where.batch, where.head, where.group);
  Keys keys = keys_first(slots, where);
  Tile o[VALUE_TILES];
  Real high[4], sum[4], factor[4], kept[4];
  if (MORE && keys.key >= keys.end) {
    return;
  }
  clear(o);
#pragma unroll
  for (int i = 0; i < 4; i++) {
    high[i] = RING || SCORED ? (Real)LOWEST : -(Real)INFINITE;
    sum[i] = 0;
  }
  for (; keys.key < keys.end; keys = keys_next<SIDE>(slots, where, keys)) {
    Tile s;
    dots(s, q, matrix_k(slots, where, keys), DEPTH);
#pragma unroll
    for (int i = 0; i < 4; i++) {
      Real now = high[i], factor, added = 0;
#pragma unroll
      for (int j = 0; j < 4; j++) {
        // A row past the end sees what the last one does.
        const int row = thread_row() + i < where.rows ? thread_row() + i : where.rows - 1;
        const int key = thread_column() + j;
        s[i][j] = seen(where, keys, row, key) ? score(where, keys, row, key, s[i][j], slope, at) : -(Real)INFINITE;
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
    weighted_sum(o, matrix_v(slots, where, keys), VALUE_DEPTH);
  }
#pragma unroll
  for (int i = 0; i < 4; i++) {
    const Real all = row_sum(sum[i]);
    const bool none = (RING || SCORED) && all == 0;
    const bool inside = thread_row() + i < where.rows;
    factor[i] = none ? (Real)0 : 1 / all;
    kept[i] = 1;
    if constexpr (LARGE) {
      large_store(slots, row_of(where) + thread_row() + i, inside, thread_column() == 0, none, high[i], log(all), kept[i],
                  factor[i]);
      continue;
    }
    Real *const statistic = (Real *)slots.at[4] + row_of(where) + thread_row() + i;
    const Real before = MORE && inside ? *statistic : -(Real)INFINITE;
    Real made = none ? before : high[i] + log(all);
    if (MORE) {
      __syncwarp();  // all that share the row have read it
      made = none ? made : statistics_join(before, made, kept[i], factor[i]);
    }
    if (thread_column() == 0 && inside) {
      *statistic = made;
    }
  }
  store<MORE>(o, QUERY_AT((Memory *)slots.at[3], O, 0), O_QUERY, where.rows, VALUE_DEPTH, factor, kept);
}

#else

// A warp for each row.
extern "C" __global__ void __launch_bounds__(THREADS) attention_delta(Slots slots) {
  const u32 at = blockIdx.x * (THREADS / 32) + threadIdx.x / 32;
  if (at >= (u32)LINES * QUERIES || keys_hidden(slots)) {
    return;
  }
  const Where where = where_row(at);
  const Memory *o = QUERY_AT((const Memory *)slots.at[3], O, 0), *d = QUERY_AT((const Memory *)slots.at[5], DO, 0);
  Real sum = 0;
  for (int c = (int)threadIdx.x % 32; c < VALUE_DEPTH; c += 32) {
    sum += Format::load(o[c]) * Format::load(d[c]);
  }
  sum = row_sum(sum);
  sum += __shfl_xor_sync(0xffffffffu, sum, 16);
  if (threadIdx.x % 32 == 0) {
    ((Real *)slots.at[SCRATCH])[at] = SEEDED ? sum - ((const Real *)slots.at[BEHIND])[at] : sum;
  }
}

__device__ __forceinline__ Matrix matrix_d(const Slots &slots, const Where &where) {
  return {QUERY_AT((const Memory *)slots.at[5], DO, 0), DO_QUERY, where.rows};
}

// s[row][column] becomes p, and slopes what gradients of scores are multiplied by. ROWS_ARE_KEYS: rows are keys and columns are queries, else the other way.
template <bool ROWS_ARE_KEYS>
__device__ __forceinline__ void powers(const Slots &slots, const Where &where, const Keys &keys, Tile &s,
                                       Tile &slopes) {
  const ScoreAt at = score_at(slots, where.batch, where.head, where.group);
  const Real *statistics = (const Real *)slots.at[4] + row_of(where), slope = slope_of<Real>(slots, where, where.group);
#pragma unroll
  for (int i = 0; i < 4; i++) {
#pragma unroll
    for (int j = 0; j < 4; j++) {
      const int row = thread_row() + i, column = thread_column() + j;
      const int query = ROWS_ARE_KEYS ? column : row, key = ROWS_ARE_KEYS ? row : column;
      const Real dot = s[i][j];
      const bool sees = seen(where, keys, query, key) && (!SCORED || statistics[query] != -(Real)INFINITE);
      s[i][j] = sees ? exp(score(where, keys, query, key, dot, slope, at) - statistics[query]) : (Real)0;
      if (SCORED) {
        slopes[i][j] = score_slope(at, dot, place_of(where, keys), query, key, s[i][j] == 0);
      }
    }
  }
}

template <bool ROWS_ARE_KEYS>
__device__ __forceinline__ void gradients(const Slots &slots, const Where &where, const Tile &p, const Tile &slopes,
                                          Tile &d) {
  const Real *delta = (const Real *)slots.at[SCRATCH] + row_of(where);
#pragma unroll
  for (int i = 0; i < 4; i++) {
#pragma unroll
    for (int j = 0; j < 4; j++) {
      const int query = ROWS_ARE_KEYS ? thread_column() + j : thread_row() + i;
      d[i][j] = query < where.rows ? p[i][j] * (d[i][j] - delta[query]) : (Real)0;
      if (SCORED) {
        d[i][j] *= slopes[i][j];
      }
    }
  }
}

// Whether any of the queries may see any of a tile of keys.
__device__ __forceinline__ bool keys_meet(const Where &where, const Keys &keys) {
  const bool far = WINDOW && where.position - keys.lead >= keys.key + SIDE - 1 + WINDOW;
  return !far && !(CAUSAL && where.position - keys.lead + where.rows <= keys.key) &&
         !(KEY_END && keys.limit <= keys.key);
}

#if BACKWARD == 2
// --- the gradient of one tensor that scores capture: see attention_captured.cu ---

// sums[row] += over columns of d[row][column].
__device__ __forceinline__ void sums_add(Real (&sums)[4], const Tile &d) {
#pragma unroll
  for (int i = 0; i < 16; i++) {
    sums[i / 4] += d[i / 4][i % 4];
  }
}

// Of `count` keys or queries; the sums then begin anew.
__device__ __forceinline__ void sums_store(const Slots &slots, const Where &where, Real (&sums)[4], int key, int query,
                                           int count) {
#pragma unroll
  for (int i = 0; i < 4; i++) {
    const Real sum = row_sum(sums[i]);
    const int at = thread_row() + i;
    sums[i] = 0;
    if (thread_column() == 0 && at < count) {
      Real *const to = CAPTURED_AT(Real, slots, where, where.group, key + at, query + at);
      *to = MORE ? *to + sum : sum;
    }
  }
}

#if BY_KEY
extern "C" __global__ void __launch_bounds__(THREADS) attention_captured(Slots slots) {
  Where where;
  const Keys keys = where_keys<SIDE>(slots, where);
  const Matrix k = matrix_k(slots, where, keys), v = matrix_v(slots, where, keys);
  Real sums[4] = {0, 0, 0, 0};
  for (int group = 0; group < GROUPS; group++) {
    group_seek(where, group);
    for (int tile = 0; tile < QUERY_TILES; tile++) {
      Tile s, d, slopes;
      queries_seek<SIDE>(slots, where, tile);
      if (!keys_meet(where, keys)) {
        continue;
      }
      dots(s, k, matrix_q(slots, where), DEPTH);
      powers<true>(slots, where, keys, s, slopes);
      dots(d, v, matrix_d(slots, where), VALUE_DEPTH);
      gradients<true>(slots, where, s, slopes, d);
      sums_add(sums, d);
    }
    sums_store(slots, where, sums, keys.key, 0, keys.end - keys.key);
  }
}
#else
// What a line of queries adds: to sums, or to its pairs in memory.
__device__ __forceinline__ void captured_line(const Slots &slots, const Where &where, Keys keys, Real (&sums)[4]) {
  const Matrix q = matrix_q(slots, where), d_o = matrix_d(slots, where);
  for (; keys.key < keys.end; keys = keys_next<SIDE>(slots, where, keys)) {
    Tile s, d, slopes;
    dots(s, q, matrix_k(slots, where, keys), DEPTH);
    powers<false>(slots, where, keys, s, slopes);
    dots(d, d_o, matrix_v(slots, where, keys), VALUE_DEPTH);
    gradients<false>(slots, where, s, slopes, d);
    if (!BY_PAIR) {
      sums_add(sums, d);
      continue;
    }
#pragma unroll
    for (int i = 0; i < 16; i++) {
      const int row = thread_row() + i / 4, key = keys.key + thread_column() + i % 4;
      if (row < where.rows && key < keys.end) {
        *CAPTURED_AT(Real, slots, where, where.group, key, where.query + row) += d[i / 4][i % 4];
      }
    }
  }
}

extern "C" __global__ void __launch_bounds__(THREADS) attention_captured(Slots slots) {
  Where where = where_queries<SIDE>(slots);
  const Keys keys = keys_first(slots, where);  // the same of all lines
  Real sums[4] = {0, 0, 0, 0};
  if ((MORE && keys.key >= keys.end) || !line_is_first(where)) {
    return;
  }
  if (BY_PAIR) {
    pairs_clear<Real, THREADS>(slots, where);
    do {
      captured_line(slots, where, keys, sums);
    } while (line_next(where));
    return;
  }
  captured_line(slots, where, keys, sums);
  sums_store(slots, where, sums, 0, where.query, where.rows);
}
#endif

#else

// DV, DK: both at once if their sums fit the registers.
template <bool DV, bool DK>
__device__ __forceinline__ void keys_backward(const Slots &slots) {
  Where where;
  const Keys keys = where_keys<SIDE>(slots, where);
  const Matrix k = matrix_k(slots, where, keys), v = matrix_v(slots, where, keys);
  const Real scale[4] = {SCALE, SCALE, SCALE, SCALE}, one[4] = {1, 1, 1, 1};
  Tile dk[DK ? DEPTH_TILES : 1], dv[DV ? VALUE_TILES : 1];
  bool any = !MORE_KEYS;
  clear(dk);
  clear(dv);
  for (int group = 0; group < GROUPS; group++) {
    group_seek(where, group);
    for (int tile = 0; tile < QUERY_TILES; tile++) {
      Tile s, d, slopes;
      queries_seek<SIDE>(slots, where, tile);
      if (!keys_meet(where, keys)) {
        continue;
      }
      const Matrix q = matrix_q(slots, where), d_o = matrix_d(slots, where);
      any = true;
      dots(s, k, q, DEPTH);
      powers<true>(slots, where, keys, s, slopes);
      if constexpr (DV) {
        weights_put(s);
        weighted_sum(dv, d_o, VALUE_DEPTH);
      }
      if constexpr (DK) {
        dots(d, v, d_o, VALUE_DEPTH);
        gradients<true>(slots, where, s, slopes, d);
        weights_put(d);
        weighted_sum(dk, q, DEPTH);
      }
    }
  }
  const int rows = any ? keys.end - keys.key : 0;
  if constexpr (DK) {
    store<MORE_KEYS>(dk, KEY_AT((Memory *)slots.at[7], DK, keys.key), DK_KEY, rows, DEPTH, scale, one);
  }
  if constexpr (DV) {
    store<MORE_KEYS>(dv, KEY_AT((Memory *)slots.at[8], DV, keys.key), DV_KEY, rows, VALUE_DEPTH, one, one);
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
  const Where where = where_queries<SIDE>(slots);
  const Matrix q = matrix_q(slots, where), d_o = matrix_d(slots, where);
  const Real scale[4] = {SCALE, SCALE, SCALE, SCALE}, one[4] = {1, 1, 1, 1};
  Keys keys = keys_first(slots, where);
  Tile dq[DEPTH_TILES];
  if (MORE && keys.key >= keys.end) {
    return;
  }
  clear(dq);
  for (; keys.key < keys.end; keys = keys_next<SIDE>(slots, where, keys)) {
    const Matrix k = matrix_k(slots, where, keys);
    Tile s, d, slopes;
    dots(s, q, k, DEPTH);
    powers<false>(slots, where, keys, s, slopes);
    dots(d, d_o, matrix_v(slots, where, keys), VALUE_DEPTH);
    gradients<false>(slots, where, s, slopes, d);
    weights_put(d);
    weighted_sum(dq, k, DEPTH);
  }
  store<MORE>(dq, QUERY_AT((Memory *)slots.at[6], DQ, 0), DQ_QUERY, where.rows, DEPTH, scale, one);
}
#endif
#endif
