// text.c: text in an arena, and the prelude of all generated texts.
#include "kernels/cuda/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void text_reserve(CudaText *text, size_t more) {
  if (text->length + more + 1 <= text->capacity) {
    return;
  }
  size_t capacity = text->capacity ? text->capacity : 4096;
  while (capacity < text->length + more + 1) {
    capacity *= 2;
  }
  char *to = arena_alloc(text->arena, capacity);
  memcpy(to, text->text ? text->text : "", text->length);
  text->text = to;
  text->capacity = capacity;
}

void cuda_text(CudaText *text, const char *format, ...) {
  va_list arguments, again;
  va_start(arguments, format);
  va_copy(again, arguments);
  const int length = vsnprintf(NULL, 0, format, arguments);
  va_end(arguments);
  if (length > 0) {
    text_reserve(text, (size_t)length);
    vsnprintf(text->text + text->length, (size_t)length + 1, format, again);
    text->length += (size_t)length;
  }
  va_end(again);
}

void cuda_literal(CudaText *text, ElementType type, double number) {
  const float narrow = (float)number;
  uint64_t wide_bits;
  uint32_t bits;
  memcpy(&bits, &narrow, sizeof bits);
  memcpy(&wide_bits, &number, sizeof wide_bits);
  if (type == TYPE_F32) {
    if (isfinite(narrow)) {
      cuda_text(text, "%af", (double)narrow);
    } else {
      cuda_text(text, "float_of_bits(0x%08" PRIx32 "u)", bits);
    }
  } else if (isfinite(number)) {
    cuda_text(text, "%a", number);
  } else {
    cuda_text(text, "double_of_bits(0x%016" PRIx64 "ull)", wide_bits);
  }
}

// What differs between CUDA and its emulation, which defines all of this itself.
static const char prelude_target[] =
    "#ifndef EMULATED\n"
    "#define DEVICE static __device__ __forceinline__\n"
    "#define KERNEL(name, threads) extern \"C\" __global__ void __launch_bounds__(threads) name\n"
    "#define KERNEL_BLOCKS(name, threads, blocks) \\\n"
    "  extern \"C\" __global__ void __launch_bounds__(threads, blocks) name\n"
    "#define SHARED_MEMORY extern __shared__ __align__(16) unsigned char dynamic_shared[]\n"
    "DEVICE float float_of_bits(unsigned x) { return __uint_as_float(x); }\n"
    "DEVICE unsigned bits_of_float(float x) { return __float_as_uint(x); }\n"
    "DEVICE double double_of_bits(unsigned long long x) { return __longlong_as_double((long long)x); }\n"
    "DEVICE unsigned long long bits_of_double(double x) { return (unsigned long long)__double_as_longlong(x); }\n"
    "DEVICE unsigned multiply_high(unsigned a, unsigned b) { return __umulhi(a, b); }\n"
    "DEVICE unsigned bf16_pair(float low, float high) {\n"
    "  unsigned y;\n"
    "  asm(\"cvt.rn.bf16x2.f32 %0, %1, %2;\" : \"=r\"(y) : \"f\"(high), \"f\"(low));\n"
    "  return y;\n"
    "}\n"
    "DEVICE unsigned f16_pair(float low, float high) {\n"
    "  unsigned y;\n"
    "  asm(\"cvt.rn.f16x2.f32 %0, %1, %2;\" : \"=r\"(y) : \"f\"(high), \"f\"(low));\n"
    "  return y;\n"
    "}\n"
    "DEVICE float f16_widen(unsigned x) {\n"
    "  float y;\n"
    "  asm(\"cvt.f32.f16 %0, %1;\" : \"=f\"(y) : \"h\"((unsigned short)x));\n"
    "  return y;\n"
    "}\n"
    "DEVICE float reciprocal_fast(float x) {\n"
    "  float y;\n"
    "  asm(\"rcp.approx.ftz.f32 %0, %1;\" : \"=f\"(y) : \"f\"(x));\n"
    "  return y;\n"
    "}\n"
    "DEVICE float exp2_fast(float x) {\n"
    "  float y;\n"
    "  asm(\"ex2.approx.ftz.f32 %0, %1;\" : \"=f\"(y) : \"f\"(x));\n"
    "  return y;\n"
    "}\n"
    "DEVICE float larger_f32(float a, float b) {\n"
    "  float y;\n"
    "  asm(\"max.NaN.f32 %0, %1, %2;\" : \"=f\"(y) : \"f\"(a), \"f\"(b));\n"
    "  return y;\n"
    "}\n"
    "DEVICE float smaller_f32(float a, float b) {\n"
    "  float y;\n"
    "  asm(\"min.NaN.f32 %0, %1, %2;\" : \"=f\"(y) : \"f\"(a), \"f\"(b));\n"
    "  return y;\n"
    "}\n"
    "DEVICE void copy_ahead16(void *shared, const void *from) {\n"
    "  asm volatile(\"cp.async.cg.shared.global [%0], [%1], 16;\" "
    "::\"r\"((unsigned)__cvta_generic_to_shared(shared)),\n"
    "               \"l\"(from)\n"
    "               : \"memory\");\n"
    "}\n"
    "DEVICE void copy_ahead_part(void *shared, const void *from, int bytes) {\n"
    "  asm volatile(\"cp.async.cg.shared.global [%0], [%1], 16, %2;\" "
    "::\"r\"((unsigned)__cvta_generic_to_shared(shared)),\n"
    "               \"l\"(from), \"r\"(bytes < 0 ? 0 : bytes < 16 ? bytes : 16)\n"
    "               : \"memory\");\n"
    "}\n"
    "DEVICE void copy_ahead4(void *shared, const void *from) {\n"
    "  asm volatile(\"cp.async.ca.shared.global [%0], [%1], 4;\" "
    "::\"r\"((unsigned)__cvta_generic_to_shared(shared)),\n"
    "               \"l\"(from)\n"
    "               : \"memory\");\n"
    "}\n"
    "DEVICE void copies_close(void) { asm volatile(\"cp.async.commit_group;\" ::: \"memory\"); }\n"
    "#define COPIES_WAIT(later) asm volatile(\"cp.async.wait_group \" #later \";\" ::: \"memory\")\n"
    "DEVICE void group_barrier(unsigned group, int threads) {\n"
    "  asm volatile(\"bar.sync %0, %1;\" ::\"r\"(group + 1u), \"r\"(threads) : \"memory\");\n"
    "}\n"
    "DEVICE float shuffle_f32(float x, int with) { return __shfl_xor_sync(0xffffffffu, x, with); }\n"
    "DEVICE double shuffle_f64(double x, int with) { return __shfl_xor_sync(0xffffffffu, x, with); }\n"
    "#endif\n";

static const char prelude_memory[] =
    "DEVICE void load16(unsigned *w, const void *from) {\n"
    "  const uint4 x = *(const uint4 *)from;\n"
    "  w[0] = x.x;\n"
    "  w[1] = x.y;\n"
    "  w[2] = x.z;\n"
    "  w[3] = x.w;\n"
    "}\n"
    "DEVICE void load8(unsigned *w, const void *from) {\n"
    "  const uint2 x = *(const uint2 *)from;\n"
    "  w[0] = x.x;\n"
    "  w[1] = x.y;\n"
    "}\n"
    "DEVICE void load4(unsigned *w, const void *from) { w[0] = *(const unsigned *)from; }\n"
    "DEVICE void load2(unsigned *w, const void *from) { w[0] = *(const unsigned short *)from; }\n"
    "DEVICE void store16(void *to, const unsigned *w) { *(uint4 *)to = make_uint4(w[0], w[1], w[2], w[3]); }\n"
    "DEVICE void store8(void *to, const unsigned *w) { *(uint2 *)to = make_uint2(w[0], w[1]); }\n"
    "DEVICE void store4(void *to, const unsigned *w) { *(unsigned *)to = w[0]; }\n"
    "DEVICE void store2(void *to, const unsigned *w) { *(unsigned short *)to = (unsigned short)w[0]; }\n";

// insertN puts the element `at` of a vector, of N bytes, into words that were 0 there.
static const char prelude_insert[] =
    "DEVICE void insert2(unsigned *w, int at, const void *from) {\n"
    "  w[at >> 1] |= (unsigned)*(const unsigned short *)from << ((at & 1) * 16);\n"
    "}\n"
    "DEVICE void insert4(unsigned *w, int at, const void *from) { w[at] = *(const unsigned *)from; }\n"
    "DEVICE void insert8(unsigned *w, int at, const void *from) { load8(w + 2 * at, from); }\n";

static const char prelude_elements[] =
    "DEVICE float get_f32(const unsigned *w, int at) { return float_of_bits(w[at]); }\n"
    "DEVICE int get_int(const unsigned *w, int at) { return (int)w[at]; }\n"
    "DEVICE float get_bf16(const unsigned *w, int at) {\n"
    "  return float_of_bits((at & 1) ? w[at >> 1] & 0xffff0000u : w[at >> 1] << 16);\n"
    "}\n"
    "DEVICE float get_f16(const unsigned *w, int at) {\n"
    "  return f16_widen((at & 1) ? w[at >> 1] >> 16 : w[at >> 1] & 0xffffu);\n"
    "}\n"
    "DEVICE double get_f64(const unsigned *w, int at) {\n"
    "  return double_of_bits((unsigned long long)w[2 * at + 1] << 32 | w[2 * at]);\n"
    "}\n"
    "DEVICE void put_f32(unsigned *w, const float *x, int count) {\n"
    "#pragma unroll\n"
    "  for (int i = 0; i < count; i++) w[i] = bits_of_float(x[i]);\n"
    "}\n"
    "DEVICE void put_int(unsigned *w, const int *x, int count) {\n"
    "#pragma unroll\n"
    "  for (int i = 0; i < count; i++) w[i] = (unsigned)x[i];\n"
    "}\n"
    "DEVICE void put_bf16(unsigned *w, const float *x, int count) {\n"
    "#pragma unroll\n"
    "  for (int i = 0; i < count; i += 2) w[i >> 1] = bf16_pair(x[i], i + 1 < count ? x[i + 1] : 0.0f);\n"
    "}\n"
    "DEVICE void put_f16(unsigned *w, const float *x, int count) {\n"
    "#pragma unroll\n"
    "  for (int i = 0; i < count; i += 2) w[i >> 1] = f16_pair(x[i], i + 1 < count ? x[i + 1] : 0.0f);\n"
    "}\n"
    "DEVICE void put_f64(unsigned *w, const double *x, int count) {\n"
    "#pragma unroll\n"
    "  for (int i = 0; i < count; i++) {\n"
    "    w[2 * i] = (unsigned)bits_of_double(x[i]);\n"
    "    w[2 * i + 1] = (unsigned)(bits_of_double(x[i]) >> 32);\n"
    "  }\n"
    "}\n"
    "#define get_index get_int\n"
    "#define get_bool get_int\n"
    "#define put_index put_int\n"
    "#define put_bool put_int\n";

static const char prelude_single[] =
    "DEVICE float read_f32(const void *from) { return *(const float *)from; }\n"
    "DEVICE double read_f64(const void *from) { return *(const double *)from; }\n"
    "DEVICE int read_int(const void *from) { return *(const int *)from; }\n"
    "DEVICE float read_bf16(const void *from) { return float_of_bits((unsigned)*(const unsigned short *)from << 16); "
    "}\n"
    "DEVICE float read_f16(const void *from) { return f16_widen(*(const unsigned short *)from); }\n"
    "DEVICE void write_f32(void *to, float x) { *(float *)to = x; }\n"
    "DEVICE void write_f64(void *to, double x) { *(double *)to = x; }\n"
    "DEVICE void write_int(void *to, int x) { *(int *)to = x; }\n"
    "DEVICE void write_bf16(void *to, float x) { *(unsigned short *)to = (unsigned short)bf16_pair(x, 0.0f); }\n"
    "DEVICE void write_f16(void *to, float x) { *(unsigned short *)to = (unsigned short)f16_pair(x, 0.0f); }\n"
    "#define read_index read_int\n"
    "#define read_bool read_int\n"
    "#define write_index write_int\n"
    "#define write_bool write_int\n";

void cuda_prelude(CudaText *text, int slots) {
  cuda_text(text, "%s%s%s%s%s", prelude_target, prelude_memory, prelude_insert, prelude_elements, prelude_single);
  cuda_text(text, "typedef struct {\n  unsigned long long at[%d];\n} Slots;\n", slots);
}
