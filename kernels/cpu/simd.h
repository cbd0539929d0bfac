// simd.h: loops over short arrays, compiled once for each instruction set and chosen when a device opens.
//
// The simd_*.c files see SIMD_NAME(x), which puts the name of the instruction set behind x. A call works on a block
// of rows that lies in cache. All loops give the same result for an element wherever it stands in a row.
#ifndef MDL_KERNELS_CPU_SIMD_H
#define MDL_KERNELS_CPU_SIMD_H

#include "compiler/ir/kernel.h"

typedef struct {
  void *out;
  const void *operand[3];
  int64_t rows, columns;          // of the result
  int64_t out_stride, stride[3];  // elements from row to row
  unsigned single;                // bit i: operand i is one value for the whole row
} VectorCall;

typedef void (*VectorFn)(const VectorCall *call);

typedef struct {
  uint64_t key;
  uint32_t step;
} RandomKey;

// c[m, n] = sum over k of a(m, k) b[k, n], added to c if `add`; b and c are contiguous along n.
typedef struct {
  const void *a, *b;
  void *c;
  int64_t m, n, k, a_row, a_k, b_row, c_row;
  bool add;
} SmallProduct;

enum { ATTENTION_QUERIES = 64 };

// Scores of a block of queries, [key][ATTENTION_QUERIES]; the last queries may be padding. Line k is of the key
// `ahead` + k counted from the block's first query; if causal, a query does not see the keys after it.
typedef struct {
  void *scores;
  int64_t keys, ahead;
  bool causal;
  double scale, slope;  // slope: 0 without biases
} AttentionBlock;

// Functions for one real type; `x` arrays are of that type unless said otherwise.
typedef struct {
  VectorFn op[KERNEL_OP_COUNT];  // elementwise operations; NULL for all others
  // Of one row. Sums use many accumulators and double precision between blocks of 1024 elements.
  double (*sum)(const void *x, int64_t n);
  double (*max)(const void *x, int64_t n);  // NaN if any is NaN
  double (*min)(const void *x, int64_t n);
  // Add a block of rows to column results. `lost` is the compensation of the sum, as long as `total`.
  void (*column_sum)(void *total, void *lost, const void *x, int64_t rows, int64_t stride, int64_t n);
  void (*column_max)(void *total, const void *x, int64_t rows, int64_t stride, int64_t n);
  void (*column_min)(void *total, const void *x, int64_t rows, int64_t stride, int64_t n);
  // Between memory of an element type and reals; stride in elements of the memory.
  void (*load[ELEMENT_TYPE_COUNT])(void *x, const void *memory, int64_t stride, int64_t n);
  void (*store[ELEMENT_TYPE_COUNT])(void *memory, int64_t stride, const void *x, int64_t n);
  void (*add[ELEMENT_TYPE_COUNT])(void *memory, int64_t stride, const void *x, int64_t n);
  void (*product)(const SmallProduct *product);
  void (*transpose)(void *to, int64_t to_row, const void *from, int64_t from_row, int64_t rows, int64_t columns);
  // Of attention, each array of ATTENTION_QUERIES. Softmax: scores become p = e^(score scale + bias - max) against the
  // running maximum, where bias = slope (position of the key - position of the query); sum and maximum go on, shrink is
  // what earlier results are to be multiplied by. Gradient: scores become p = e^(score scale + bias - shift), gradient
  // (do v) becomes p (gradient - delta) scale.
  void (*attention_softmax)(const AttentionBlock *block, void *max, void *sum, void *shrink);
  void (*attention_gradient)(const AttentionBlock *block, void *gradient, const void *shift, const void *delta);
  void (*scale_row)(void *x, int64_t n, double factor);
  double (*dot)(const void *a, const void *b, int64_t n);
  // Random numbers of the indices index, index + stride, ...; see random.h.
  void (*uniform)(void *x, RandomKey key, int64_t index, int64_t stride, int64_t n);
  void (*normal)(void *x, RandomKey key, int64_t index, int64_t stride, int64_t n);
} SimdReal;

// Functions for 32-bit integers.
typedef struct {
  VectorFn op[KERNEL_OP_COUNT];
  void (*load)(int32_t *x, const int32_t *memory, int64_t stride, int64_t n);
  void (*store)(int32_t *memory, int64_t stride, const int32_t *x, int64_t n);
  void (*add)(int32_t *memory, int64_t stride, const int32_t *x, int64_t n);
  void (*iota)(int32_t *x, int64_t first, int64_t stride, int64_t n);
} SimdInteger;

typedef struct {
  const char *name;
  const SimdReal *f32, *f64;
  const SimdInteger *integer;
} Simd;

const Simd *simd_select(void);   // the best for this processor
const Simd *simd_at(int index);  // all that this processor can run; NULL past the end

#define SIMD_PASTE2(x, isa) x##_##isa
#define SIMD_PASTE(x, isa) SIMD_PASTE2(x, isa)
#define SIMD_NAME(x) SIMD_PASTE(x, SIMD_ISA)

// Before a loop whose iterations do not depend on each other; arrays may be the same but not overlap otherwise.
#if defined(__clang__)
#define SIMD_LOOP _Pragma("clang loop vectorize(assume_safety)")
#else
#define SIMD_LOOP _Pragma("GCC ivdep")
#endif

#endif
