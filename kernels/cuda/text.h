// text.h: how the generators of this folder write CUDA C, and what every text begins with.
//
// The texts keep to what C and CUDA C++ have in common, so that a C compiler with a small header in place of CUDA can
// compile and run them too (tests/cuda_emulator.h): no templates, no references, no overloading.
#ifndef MDL_KERNELS_CUDA_TEXT_H
#define MDL_KERNELS_CUDA_TEXT_H

#include "base/arena.h"
#include "compiler/ir/types.h"

typedef struct {
  Arena *arena;
  char *text;  // NUL-terminated
  size_t length, capacity;
} CudaText;

void cuda_text(CudaText *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

// What a text begins with:
//   DEVICE                     before a function of the device
//   KERNEL(name, threads)      instead of `extern "C" __global__ void __launch_bounds__(threads) name`
//   Slots                      the struct of kernel.h, with `slots` of them
//   load16, load8, load4, load2(unsigned *words, const void *from) and store16, ...: one access of so many bytes; words
//                              hold memory as it lies, a lone 16-bit element in the low half
//   get_TYPE(const unsigned *words, int at), for f64, f32, f16, bf16, int, index, bool: an element of such words
//   put_TYPE(unsigned *words, const V *values, int count): the contrary, for `count` elements
//   read_TYPE(const void *from), write_TYPE(void *to, value): one element in memory
// Values of f16 and bf16 are floats; stores round to the nearest even.
void cuda_prelude(CudaText *text, int slots);

// A finite number as a literal of the type (f32 or f64), infinities and NaN as their bits.
void cuda_literal(CudaText *text, ElementType type, double number);

#endif
