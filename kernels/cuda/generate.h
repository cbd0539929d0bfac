// generate.h: a fused kernel (compiler/kernel.h) as CUDA C.
//
// Sizes, strides and constants are written into the text; ports are addresses (kernel.h says how they are passed). A
// kernel becomes one launch for each set of dims that its outputs vary on, after the template that fits:
//   flat    no reductions along rows or columns: every element by itself, in vectors of 16 bytes where memory allows
//   row     row reductions: some threads of a warp, a warp or a block for each row, the row in registers if it fits,
//           else in shared memory or read again; column sums beside them in registers over many rows
//   column  column reductions alone: threads walk down the rows
// and, where columns or totals are reduced, one more launch that adds up what the blocks found, in their order. Results
// depend on sizes and the target alone.
#ifndef MDL_KERNELS_CUDA_GENERATE_H
#define MDL_KERNELS_CUDA_GENERATE_H

#include "base/arena.h"
#include "compiler/kernel.h"
#include "kernels/cuda/kernel.h"

// Choices that are forced, to compare their speed; 0: what the rules choose.
typedef struct {
  int threads;      // rows: of each row
  int rows;         // rows: of a block
  int stages;       // rows: how many are fetched ahead; -1: none
  int once;         // rows: 1 keeps what all rows share in registers, -1 does not
  int blocks;       // of a multiprocessor, for rows and columns
  int unroll;       // vectors in flight of a thread, where all elements do not lie in registers
  int width;        // columns: threads across
  bool persistent;  // rows: a block goes through many
  bool again;       // rows: not in registers
} CudaForm;

typedef struct {  // of the GPU
  int multiprocessors;
  int shared_bytes;      // that one block can have
  const CudaForm *form;  // NULL: the rules choose
} CudaTarget;

// alignment[p]: a power of two up to 16 that divides the address of port p in all calls. On false `why` is a static
// text that says what is not covered.
bool cuda_generate(const Kernel *kernel, const int *alignment, const CudaTarget *target, Arena *arena, CudaKernel *made,
                   const char **why);

#endif
