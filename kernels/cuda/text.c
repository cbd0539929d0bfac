// text.c: text in an arena, and the prelude of all generated texts.
#include "kernels/cuda/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "kernels/cuda/embedded.h"

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
      cuda_text(text, "bits_float(0x%08" PRIx32 "u)", bits);
    }
  } else if (isfinite(number)) {
    cuda_text(text, "%a", number);
  } else {
    cuda_text(text, "bits_double(0x%016" PRIx64 "ull)", wide_bits);
  }
}

void cuda_prelude(CudaText *text, int slots) {
  cuda_text(text, "%s\n%s\n", cuda_text_target, cuda_text_elements);
  cuda_text(text, "typedef struct {\n  unsigned long long at[%d];\n} Slots;\n", slots);
}
