// writer.c: constants and embedded texts, put together.
#include "kernels/cuda/writer.h"

#include <assert.h>
#include <inttypes.h>
#include <limits.h>

#include "kernels/cuda/embedded.h"

void writer_begin(Buffer *text, int ports) {
  writer_target(text);
  writer_slots(text, ports);
}

void writer_target(Buffer *text) {
  buffer_format(text, "%s\n%s", cuda_text_target, cuda_text_intrinsics);
}

void writer_slots(Buffer *text, int ports) {
  buffer_format(text, "\nstruct Slots {\n  u64 at[%d];\n};\n\n", ports + 2);
  writer_size(text, "SCRATCH", ports);
  writer_size(text, "FLAGS", ports + 1);
}

void writer_size(Buffer *text, const char *name, int64_t value) {
  buffer_format(text, "constexpr %s %s = %" PRId64 ";\n", value > INT_MAX ? "i64" : "int", name, value);
}

void writer_stride(Buffer *text, const char *name, int64_t value) {
  buffer_format(text, "constexpr i64 %s = %" PRId64 ";\n", name, value);
}

void writer_real(Buffer *text, const char *name, double value) {
  buffer_format(text, "constexpr double %s = %.17e;\n", name, value);
}

void writer_float(Buffer *text, const char *name, double value) {
  buffer_format(text, "constexpr float %s = %.9ef;\n", name, value);
}

void writer_format(Buffer *text, const char *name, ElementType type) {
  static const char *const formats[ELEMENT_TYPE_COUNT] = {
      [TYPE_F64] = "F64", [TYPE_F32] = "F32", [TYPE_F16] = "F16",   [TYPE_BF16] = "BF16", [TYPE_E4M3] = "I8",
      [TYPE_E5M2] = "I8", [TYPE_INT] = "I32", [TYPE_INDEX] = "I32", [TYPE_BOOL] = "I32"};
  assert(formats[type]);
  buffer_format(text, "typedef %s %s;\n", formats[type], name);
}

void writer_item(Buffer *text, int64_t items) {
  // Threads of the last block count past the end.
  buffer_format(text, "typedef %s Item;\nconstexpr Item ITEMS = %" PRId64 ";\n", items < 1 << 30 ? "u32" : "u64",
                items);
}

void writer_seek(Buffer *text, const char *name, int dims, const int64_t *size, int offsets, const char *const *offset,
                 const int64_t *const *stride) {
  buffer_format(text, "\n__device__ __forceinline__ void %s(Item number", name);
  for (int o = 0; o < offsets; o++) {
    buffer_format(text, ", i64 &%s", offset[o]);
  }
  buffer_text(text, ") {\n");
  for (int o = 0; o < offsets; o++) {
    buffer_format(text, "  %s = 0;\n", offset[o]);
  }
  for (int d = dims - 1; d >= 0; d--) {
    buffer_format(text, "  const Item at%d = number", d);
    if (d > 0) {
      buffer_format(text, " %% %" PRId64 "u;\n  number /= %" PRId64 "u", size[d], size[d]);
    }
    buffer_text(text, ";\n");
    for (int o = 0; o < offsets; o++) {
      if (stride[o][d] != 0) {
        buffer_format(text, "  %s += (i64)at%d * %" PRId64 "LL;\n", offset[o], d, stride[o][d]);
      }
    }
  }
  buffer_text(text, "}\n");
}

void writer_end(Buffer *text, Arena *arena, CudaKernel *made) {
  made->text = text->failed ? NULL : arena_copy(arena, text->text, text->length + 1);
  buffer_free(text);
}

void writer_launch(CudaKernel *made, const char *function, int64_t blocks, int threads, int64_t shared_bytes) {
  assert(made->launch_count < CUDA_MAX_LAUNCHES && blocks >= 1 && blocks <= INT_MAX);
  made->launch[made->launch_count++] = (CudaLaunch){.function = function,
                                                    .grid = {(uint32_t)blocks, 1, 1},
                                                    .block = {(uint32_t)threads, 1, 1},
                                                    .shared_bytes = (uint32_t)shared_bytes};
}
