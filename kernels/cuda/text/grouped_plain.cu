// grouped_plain.cu: GROUPED and GROUPED_SUM of any type, wherever operands lie, by multiply-add.
//
// A thread block makes a tile of c, TILE_M rows that share a matrix by 64 columns; a thread has UP rows, 16 apart, of
// four columns. Shared: a [TILE_K][TILE_M], b [TILE_K][64], in what is computed with.
typedef Format::Real Real;
constexpr int TILE_N = 64, TILE_K = 16, THREADS = 256, UP = (TILE_M + 15) / 16, EACH = 4;
constexpr int HEIGHT = SUMS ? M : ROWS, LINES = (HEIGHT + TILE_M - 1) / TILE_M, TILES_N = (N + TILE_N - 1) / TILE_N;
constexpr bool COLUMNS_A = SUMS, COLUMNS_B = SUMS || !TURNED;  // k is that of rows in memory
constexpr int ROW_A = TILE_M + 1, ROW_B = TILE_N + 4;

struct __align__(sizeof(Real) * EACH) Four {
  Real at[EACH];
};

struct Place {
  i64 a, b, c;  // first elements: of the operands for k = 0
  int row, column, depth;
};

// False: no matrix.
__device__ __forceinline__ bool place_of(const Slots &slots, Place &place) {
  const int tile = (int)blockIdx.x;
  const Corner corner = corner_in<LINES, TILES_N, 16>(tile % (LINES * TILES_N));
  place.row = corner.line * TILE_M;
  place.column = corner.column * TILE_N;
#if SUMS
  const Work work = works_of(slots)[tile / (LINES * TILES_N)];
  const i64 first = (i64)work.begin * BLOCK;
  place.depth = work.count * BLOCK;
  place.a = first * LDA;
  place.b = first * LDB;
  place.c = (i64)work.matrix * STRIDE;
  return work.count > 0;
#else
  const int matrix = matrix_of(slots, place.row / BLOCK);
  place.depth = K;
  place.a = 0;
  place.b = (i64)matrix * STRIDE;
  place.c = 0;
  return matrix >= 0;
#endif
}

// TILE_K x WIDTH of an operand; what lies outside is 0. columns: k is that of rows in memory.
template <int WIDTH, int ROW, bool COLUMNS>
__device__ __forceinline__ void operand_load(Real *to, const void *from, i64 first, i64 ld, int k, int depth, int at,
                                             int end) {
  for (int i = (int)threadIdx.x; i < TILE_K * WIDTH; i += THREADS) {
    const int deep = COLUMNS ? i / WIDTH : i % TILE_K, wide = COLUMNS ? i % WIDTH : i / TILE_K;
    const i64 line = COLUMNS ? k + deep : at + wide, place = COLUMNS ? at + wide : k + deep;
    const bool inside = k + deep < depth && at + wide < end;
    to[deep * ROW + wide] =
        inside ? (Real)Format::load(((const Format::Memory *)from)[first + line * ld + place]) : (Real)0;
  }
}

extern "C" __global__ void __launch_bounds__(THREADS) grouped(Slots slots) {
  Real *const b = (Real *)shared_memory, *const a = b + TILE_K * ROW_B;
  const int across = (int)threadIdx.x % 16, down = (int)threadIdx.x / 16;
  const bool add = adds(slots);
  Place place;
  const bool there = place_of(slots, place);
  Real sum[UP][EACH];
#pragma unroll
  for (int u = 0; u < UP; u++) {
#pragma unroll
    for (int e = 0; e < EACH; e++) {
      sum[u][e] = 0;
    }
  }
  if (!there && (add || LEAVES)) {
    return;
  }
  for (int k = 0; there && k < place.depth; k += TILE_K) {
    operand_load<TILE_M, ROW_A, COLUMNS_A>(a, (const void *)slots.at[0], place.a, LDA, k, place.depth, place.row,
                                           HEIGHT);
    operand_load<TILE_N, ROW_B, COLUMNS_B>(b, (const void *)slots.at[1], place.b, LDB, k, place.depth, place.column, N);
    __syncthreads();
#pragma unroll
    for (int deep = 0; deep < TILE_K; deep++) {
      const Four right = *(const Four *)(b + deep * ROW_B + across * EACH);
#pragma unroll
      for (int u = 0; u < UP; u++) {
        const Real left = TILE_M % 16 == 0 || down + u * 16 < TILE_M ? a[deep * ROW_A + down + u * 16] : (Real)0;
#pragma unroll
        for (int e = 0; e < EACH; e++) {
          sum[u][e] += left * right.at[e];
        }
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int u = 0; u < UP; u++) {
#pragma unroll
    for (int e = 0; e < EACH; e++) {
      const int within = down + u * 16, row = place.row + within, column = place.column + across * EACH + e;
      if (within < TILE_M && row < HEIGHT && column < N) {
        FormatC::Memory *const at = (FormatC::Memory *)slots.at[2] + place.c + (i64)row * LDC + column;
        *at = FormatC::store((FormatC::Real)(add ? (Real)FormatC::load(*at) + sum[u][e] : sum[u][e]));
      }
    }
  }
}
