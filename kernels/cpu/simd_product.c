// simd_product.c: small matrix products on operands that lie in cache, as they lie: nothing is packed.
//
// c[m, n] (+)= sum over k of a(m, k) b[k, n]; a has any strides, b and c are contiguous along n. A tile of c of
// TILE_ROWS x TILE_VECTORS vectors stays in registers while k runs: for each k, the vectors of b are loaded and
// one element of a is broadcast for each row. Every element of c is summed in order of k.
#include "kernels/cpu/simd_real.h"

#if defined(__AVX512F__)
#define VECTOR_BITS 512
enum { TILE_ROWS = 8, TILE_VECTORS = 2 };
#elif defined(__AVX__)
#define VECTOR_BITS 256
enum { TILE_ROWS = 6, TILE_VECTORS = 2 };
#else
#define VECTOR_BITS 128
enum { TILE_ROWS = 6, TILE_VECTORS = 2 };
#endif
#define WIDTH (VECTOR_BITS / SIMD_REAL_BITS)
enum { CACHED_BYTES = 24 << 10 };  // of the first cache, for b

typedef Real Vector __attribute__((vector_size(VECTOR_BITS / 8)));
typedef Real Unaligned __attribute__((vector_size(VECTOR_BITS / 8), aligned(sizeof(Real)), may_alias));

#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

// One tile; rows and vectors are constants where this is inlined.
static inline __attribute__((always_inline)) void tile(const SmallProduct *p, int rows, int vectors, int64_t row,
                                                       int64_t column) {
  const Real *a = (const Real *)p->a + row * p->a_row, *b = (const Real *)p->b + column;
  Real *c = (Real *)p->c + row * p->c_row + column;
  Vector sum[TILE_ROWS][TILE_VECTORS];
  UNROLL
  for (int i = 0; i < rows; i++) {
    UNROLL
    for (int v = 0; v < vectors; v++) {
      sum[i][v] = (Vector){0};
    }
  }
  for (int64_t k = 0; k < p->k; k++) {
    Vector line[TILE_VECTORS];
    UNROLL
    for (int v = 0; v < vectors; v++) {
      line[v] = *(const Unaligned *)(b + k * p->b_row + v * WIDTH);
    }
    UNROLL
    for (int i = 0; i < rows; i++) {
      const Real x = a[i * p->a_row + k * p->a_k];
      UNROLL
      for (int v = 0; v < vectors; v++) {
        sum[i][v] += x * line[v];
      }
    }
  }
  UNROLL
  for (int i = 0; i < rows; i++) {
    UNROLL
    for (int v = 0; v < vectors; v++) {
      Unaligned *to = (Unaligned *)(c + i * p->c_row + v * WIDTH);
      if (p->add) {
        sum[i][v] += *to;
      }
      *to = sum[i][v];
    }
  }
}

// Rows [begin, end) of `vectors` vectors of columns.
static inline __attribute__((always_inline)) void strip(const SmallProduct *p, int vectors, int64_t column,
                                                        int64_t begin, int64_t end) {
  int64_t row = begin;
  for (; row + TILE_ROWS <= end; row += TILE_ROWS) {
    tile(p, TILE_ROWS, vectors, row, column);
  }
  for (; row + 2 <= end; row += 2) {
    tile(p, 2, vectors, row, column);
  }
  if (row < end) {
    tile(p, 1, vectors, row, column);
  }
}

static void strips(const SmallProduct *p, int64_t begin, int64_t end) {
  int64_t column = 0;
  for (; column + TILE_VECTORS * WIDTH <= p->n; column += TILE_VECTORS * WIDTH) {
    strip(p, TILE_VECTORS, column, begin, end);
  }
  for (; column + WIDTH <= p->n; column += WIDTH) {
    strip(p, 1, column, begin, end);
  }
}

// Columns that do not fill a vector.
static void rest(const SmallProduct *p, int64_t begin) {
  for (int64_t row = 0; row < p->m; row++) {
    for (int64_t column = begin; column < p->n; column++) {
      const Real *a = (const Real *)p->a + row * p->a_row, *b = (const Real *)p->b + column;
      Real *c = (Real *)p->c + row * p->c_row + column, sum = 0;
      for (int64_t k = 0; k < p->k; k++) {
        sum += a[k * p->a_k] * b[k * p->b_row];
      }
      *c = p->add ? *c + sum : sum;
    }
  }
}

// A small b stays in the first cache while rows go by; of a larger one, a strip of columns does.
void SIMD_REAL_NAME(simd_product)(const SmallProduct *p) {
  if (p->k * p->n * (int64_t)sizeof(Real) > CACHED_BYTES) {
    strips(p, 0, p->m);
  } else {
    for (int64_t row = 0; row < p->m; row += TILE_ROWS) {
      strips(p, row, row + TILE_ROWS < p->m ? row + TILE_ROWS : p->m);
    }
  }
  rest(p, p->n / WIDTH * WIDTH);
}

#define ZIP_2(a, b) __builtin_shufflevector(a, b, 0, 2), __builtin_shufflevector(a, b, 1, 3)
#define ZIP_4(a, b) __builtin_shufflevector(a, b, 0, 4, 1, 5), __builtin_shufflevector(a, b, 2, 6, 3, 7)
#define ZIP_8(a, b) \
  __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11), __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#define ZIP_16(a, b)                                                                     \
  __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23), \
      __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#if WIDTH == 2
#define ZIP ZIP_2
enum { STAGES = 1 };
#elif WIDTH == 4
#define ZIP ZIP_4
enum { STAGES = 2 };
#elif WIDTH == 8
#define ZIP ZIP_8
enum { STAGES = 3 };
#else
#define ZIP ZIP_16
enum { STAGES = 4 };
#endif

// WIDTH x WIDTH elements. Zipping the first half of the vectors with the second, log2(WIDTH) times, transposes.
static void transpose_square(Real *to, int64_t to_row, const Real *from, int64_t from_row) {
  Vector x[WIDTH];
  UNROLL
  for (int i = 0; i < WIDTH; i++) {
    x[i] = *(const Unaligned *)(from + i * from_row);
  }
  UNROLL
  for (int stage = 0; stage < STAGES; stage++) {
    Vector y[WIDTH];
    UNROLL
    for (int i = 0; i < WIDTH / 2; i++) {
      const Vector zipped[2] = {ZIP(x[i], x[i + WIDTH / 2])};
      y[2 * i] = zipped[0];
      y[2 * i + 1] = zipped[1];
    }
    UNROLL
    for (int i = 0; i < WIDTH; i++) {
      x[i] = y[i];
    }
  }
  UNROLL
  for (int i = 0; i < WIDTH; i++) {
    *(Unaligned *)(to + i * to_row) = x[i];
  }
}

void SIMD_REAL_NAME(simd_transpose)(void *to, int64_t to_row, const void *from, int64_t from_row, int64_t rows,
                                    int64_t columns) {
  const Real *x = from;
  Real *y = to;
  const int64_t full_rows = rows / WIDTH * WIDTH, full_columns = columns / WIDTH * WIDTH;
  for (int64_t r = 0; r < full_rows; r += WIDTH) {
    for (int64_t c = 0; c < full_columns; c += WIDTH) {
      transpose_square(y + c * to_row + r, to_row, x + r * from_row + c, from_row);
    }
  }
  for (int64_t r = 0; r < rows; r++) {
    for (int64_t c = r < full_rows ? full_columns : 0; c < columns; c++) {
      y[c * to_row + r] = x[r * from_row + c];
    }
  }
}
