// writer.h: putting a text together: constants of one instruction, then embedded texts.
#ifndef MDL_KERNELS_CUDA_WRITER_H
#define MDL_KERNELS_CUDA_WRITER_H

#include <stdint.h>

#include "base/arena.h"
#include "base/buffer.h"
#include "compiler/ir/types.h"
#include "kernels/cuda/kernel.h"

// A text begins with the target and the intrinsics, and then the slots of a kernel with `ports` ports.
void writer_begin(Buffer *text, int ports);
void writer_target(Buffer *text);
void writer_slots(Buffer *text, int ports);
void writer_size(Buffer *text, const char *name, int64_t value);       // constexpr int, or long long if it is too large
void writer_stride(Buffer *text, const char *name, int64_t value);     // constexpr long long
void writer_real(Buffer *text, const char *name, double value);        // constexpr double
void writer_float(Buffer *text, const char *name, double value);       // constexpr float
void writer_format(Buffer *text, const char *name, ElementType type);  // typedef of a format of formats.cu
// A device function `name`(number, i64 &offset...): the coordinates of item `number` of a space of `dims` dims (the
// last is the fastest) times the strides stride[offset][dim], summed, for each of `offsets` names. The type of numbers
// is Item (writer_item).
void writer_seek(Buffer *text, const char *name, int dims, const int64_t *size, int offsets, const char *const *offset,
                 const int64_t *const *stride);
void writer_item(Buffer *text, int64_t items);  // constexpr ITEMS, and Item, an unsigned type that holds it
// The text moves to the arena; *made gets it.
void writer_end(Buffer *text, Arena *arena, CudaKernel *made);

void writer_launch(CudaKernel *made, const char *function, int64_t blocks, int threads, int64_t shared_bytes);

static inline int64_t divide_up(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

#endif
