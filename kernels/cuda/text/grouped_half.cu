// grouped_half.cu: GROUPED and GROUPED_SUM of 16-bit elements on tensor cores, by mma.sync.
//
// A thread block makes a tile of c, TILE_M rows that share a matrix by 128 columns; each of its eight warps has a half
// of the rows and a fourth of the columns. Operands come STAGES ahead, TILE_K of k at a time, as they lie in memory; those
// whose rows in memory are of k are turned on their way to the tensor cores. Shared: STAGES of a, then b.
constexpr int TILE_N = 128, TILE_K = 32, THREADS = 256;
constexpr int HEIGHT = SUMS ? M : ROWS, LINES = (HEIGHT + TILE_M - 1) / TILE_M, TILES_N = (N + TILE_N - 1) / TILE_N;
constexpr bool COLUMNS_A = SUMS, COLUMNS_B = SUMS || !TURNED;  // k is that of rows in memory
// Elements from row to row of a tile: eight rows at one column lie in different banks.
constexpr int ROW_A = (COLUMNS_A ? TILE_M : TILE_K) + 8, ROW_B = (COLUMNS_B ? TILE_N : TILE_K) + 8;
constexpr int A_ELEMENTS = (COLUMNS_A ? TILE_K : TILE_M) * ROW_A, B_ELEMENTS = (COLUMNS_B ? TILE_K : TILE_N) * ROW_B;
constexpr int STAGE = A_ELEMENTS + B_ELEMENTS, UP = TILE_M / 32, ACROSS = TILE_N / 4 / 16;  // fragments of a warp

struct Place {
  i64 a, b, c;  // first elements: of the operands for k = 0
  int row, column, depth;
};

// depth 0: no matrix, or none of its rows.
__device__ __forceinline__ Place place_of(const Slots &slots) {
  const int tile = (int)blockIdx.x;
  const Corner corner = corner_in<LINES, TILES_N, 16>(tile % (LINES * TILES_N));
  Place place;
  place.row = corner.line * TILE_M;
  place.column = corner.column * TILE_N;
#if SUMS
  const Work work = works_of(slots)[tile / (LINES * TILES_N)];
  const i64 first = (i64)work.begin * BLOCK;
  place.depth = work.count * BLOCK;
  place.a = first * LDA;
  place.b = first * LDB;
  place.c = (i64)work.matrix * STRIDE;
#else
  const int matrix = matrix_of(slots, place.row / BLOCK);
  place.depth = matrix >= 0 ? K : 0;
  place.a = 0;
  place.b = (i64)matrix * STRIDE;
  place.c = 0;
#endif
  return place;
}

// TILE_K of k of WIDTH lines of an operand, later; what lies outside is 0. columns: k is that of rows in memory.
template <int WIDTH, int ROW, bool COLUMNS>
__device__ __forceinline__ void operand_load(SharedAddress to, const u16 *from, i64 ld, int k, int depth, int at,
                                             int end) {
  constexpr int LONG = (COLUMNS ? WIDTH : TILE_K) / 8, COUNT = WIDTH * TILE_K / 8;
#pragma unroll
  for (int i = 0; i < COUNT / THREADS; i++) {
    const int number = i * THREADS + (int)threadIdx.x, row = number / LONG, column = number % LONG * 8;
    const int deep = k + (COLUMNS ? row : column), wide = at + (COLUMNS ? column : row);
    const bool inside = deep < depth && wide < end;
    const i64 place = COLUMNS ? deep * ld + wide : wide * ld + deep;
    copy_later_16(to + (row * ROW + column) * 2, from + (inside ? place : 0), inside ? 16 : 0);
  }
}

__device__ __forceinline__ void stage_load(const Slots &slots, SharedAddress shared, const Place &place, int step) {
  const SharedAddress a = shared + step % STAGES * STAGE * 2, b = a + A_ELEMENTS * 2;
  if (step * TILE_K < place.depth) {
    operand_load<TILE_M, ROW_A, COLUMNS_A>(a, (const u16 *)slots.at[0] + place.a, LDA, step * TILE_K, place.depth,
                                           place.row, HEIGHT);
    operand_load<TILE_N, ROW_B, COLUMNS_B>(b, (const u16 *)slots.at[1] + place.b, LDB, step * TILE_K, place.depth,
                                           place.column, N);
  }
  copies_close();
}

typedef float Sums[UP][2 * ACROSS][4];

__device__ __forceinline__ void stage_multiply(Sums &c, SharedAddress a, SharedAddress b) {
#pragma unroll
  for (int k = 0; k < TILE_K / 16; k++) {
    u32 left[UP][4];
#pragma unroll
    for (int m = 0; m < UP; m++) {
      if constexpr (COLUMNS_A) {
        matrices_load_transposed(left[m], a + (k * 16 * ROW_A + m * 16) * 2);
      } else {
        matrices_load(left[m], a + (m * 16 * ROW_A + k * 16) * 2);
      }
    }
#pragma unroll
    for (int n = 0; n < ACROSS; n++) {
      u32 right[4];
      if constexpr (COLUMNS_B) {
        matrices_load_transposed(right, b + (k * 16 * ROW_B + n * 16) * 2);
      } else {
        matrices_load(right, b + (n * 16 * ROW_B + k * 16) * 2);
      }
#pragma unroll
      for (int m = 0; m < UP; m++) {
        Element::product(c[m][2 * n], left[m], right[0], right[1]);
        Element::product(c[m][2 * n + 1], left[m], right[2], right[3]);
      }
    }
  }
}

// Two elements of a row.
template <bool ADD>
__device__ __forceinline__ void pair_store(const Slots &slots, i64 at, float low, float high) {
#if C_F32
  float2 *const to = (float2 *)((float *)slots.at[2] + at);
  *to = ADD ? float2{to->x + low, to->y + high} : float2{low, high};
#else
  u32 *const to = (u32 *)((u16 *)slots.at[2] + at);
  float before = 0, after = 0;
  if (ADD) {
    Element::both(*to, before, after);
  }
  *to = Element::pack(before + low, after + high);
#endif
}

template <bool ADD>
__device__ __forceinline__ void sums_store(const Slots &slots, const Sums &c, i64 first, int row, int column) {
#pragma unroll
  for (int m = 0; m < UP; m++) {
#pragma unroll
    for (int half = 0; half < 2; half++) {
      const int line = row + m * 16 + half * 8;
#pragma unroll
      for (int n = 0; n < 2 * ACROSS; n++) {
        if (line < HEIGHT && column + n * 8 < N) {
          pair_store<ADD>(slots, first + (i64)line * LDC + column + n * 8, c[m][n][2 * half], c[m][n][2 * half + 1]);
        }
      }
    }
  }
}

extern "C" __global__ void __launch_bounds__(THREADS, 2) grouped(Slots slots) {
  const SharedAddress shared = shared_address(shared_memory);
  const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
  const int up = warp / 4 * (TILE_M / 2), across = warp % 4 * (TILE_N / 4);  // of the warp in the tile
  // Turned on the way, the rows that lanes name are those of the other operand.
  const SharedAddress in_a = shared + up * (COLUMNS_A ? 1 : ROW_A) * 2;
  const SharedAddress in_b = shared + (A_ELEMENTS + across * (COLUMNS_B ? 1 : ROW_B)) * 2;
  const SharedAddress a = COLUMNS_A ? address_b<ROW_A>(in_a) : address_a<ROW_A>(in_a);
  const SharedAddress b = COLUMNS_B ? address_a<ROW_B>(in_b) : address_b<ROW_B>(in_b);
  const Place place = place_of(slots);
  const int steps = (place.depth + TILE_K - 1) / TILE_K;
  const bool add = adds(slots);
  Sums c;
#pragma unroll
  for (int m = 0; m < UP; m++) {
#pragma unroll
    for (int n = 0; n < 2 * ACROSS; n++) {
#pragma unroll
      for (int e = 0; e < 4; e++) {
        c[m][n][e] = 0.0f;
      }
    }
  }
  if ((add || LEAVES) && steps == 0) {
    return;
  }
  for (int step = 0; step < STAGES - 1; step++) {
    stage_load(slots, shared, place, step);
  }
  for (int step = 0; step < steps; step++) {
    copies_come<STAGES - 2>();
    __syncthreads();  // this step is here, and nothing reads the one before
    stage_load(slots, shared, place, step + STAGES - 1);
    const u32 stage = step % STAGES * STAGE * 2;
    stage_multiply(c, a + stage, b + stage);
  }
  const int row = place.row + up + lane / 4, column = place.column + across + lane % 4 * 2;
  if (add) {
    sums_store<true>(slots, c, place.c, row, column);
  } else {
    sums_store<false>(slots, c, place.c, row, column);
  }
}
