// grouped.cu: what all kernels of GROUPED and GROUPED_SUM share: where a matrix is, and which rows it has.
//
// Ports: a, b, c, chosen. Of GROUPED_SUM the scratch is a table of the matrices (Work), that with the most rows first.
constexpr int BLOCKS = ROWS / BLOCK;

struct Work {
  int matrix, begin, count, none;  // the blocks that chose it
};

__device__ __forceinline__ bool adds(const Slots &slots) {
  return WRITE_ADDS || (WRITE_ADDS_AFTER_FIRST && !(slots.at[FLAGS] & 1));
}

// The matrix of a block of rows; -1: none.
__device__ __forceinline__ int matrix_of(const Slots &slots, int block) {
  const int matrix = ((const int *)slots.at[3])[block];
  return matrix >= 0 && matrix < EXTENT ? matrix : -1;
}

__device__ __forceinline__ Work *works_of(const Slots &slots) {
  return (Work *)slots.at[SCRATCH];
}

struct Corner {
  int line, column;  // of a tile, counted in tiles
};

// Tile `number` of a matrix of LINES x COLUMNS tiles. Bands of lines are gone through column by column, so that tiles that
// run at once share what they read.
template <int LINES, int COLUMNS, int BAND>
__device__ __forceinline__ Corner corner_in(int number) {
  const int band = number / (BAND * COLUMNS), in_band = number % (BAND * COLUMNS);
  const int rest = LINES - band * BAND, high = LINES % BAND == 0 || rest > BAND ? BAND : rest;
  return Corner{band * BAND + in_band % high, in_band / high};
}

#if SUMS
// Equal matrices keep their order, and many matrices theirs: one is little beside all then.
constexpr int TABLE_THREADS = 1024;
constexpr bool RANKED = EXTENT <= TABLE_THREADS;

extern "C" __global__ void __launch_bounds__(TABLE_THREADS) grouped_table(Slots slots) {
  Work *const works = works_of(slots), *const found = RANKED ? works + EXTENT : works;
  int *const counts = (int *)shared_memory;
  for (int i = (int)threadIdx.x; i < EXTENT; i += TABLE_THREADS) {
    found[i] = Work{i, 0, 0, 0};
  }
  __syncthreads();
  for (int i = (int)threadIdx.x; i < BLOCKS; i += TABLE_THREADS) {
    const int matrix = matrix_of(slots, i);
    if (matrix >= 0 && (i == 0 || matrix_of(slots, i - 1) != matrix)) {
      found[matrix].begin = i;
    }
    if (matrix >= 0 && (i + 1 == BLOCKS || matrix_of(slots, i + 1) != matrix)) {
      found[matrix].count = i + 1;  // the end, so far
    }
  }
  __syncthreads();
  for (int i = (int)threadIdx.x; i < EXTENT; i += TABLE_THREADS) {
    const int count = found[i].count - found[i].begin;
    found[i].count = count > 0 ? count : 0;
  }
  if (!RANKED) {
    return;
  }
  const int mine = (int)threadIdx.x;
  const int own = mine < EXTENT ? found[mine].count : 0;
  counts[mine] = mine < EXTENT ? own : -1;
  __syncthreads();
  int before = 0;
  for (int i = 0; i < EXTENT; i++) {
    before += counts[i] > own || (counts[i] == own && i < mine);
  }
  if (mine < EXTENT) {
    works[before] = found[mine];
  }
}
#endif
