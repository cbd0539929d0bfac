// strided.c: see strided.h.
#include "compiler/plan/strided.h"

bool strided_repeat(Strided *strided, int64_t size, int64_t stride) {
  if (size <= 1 || stride == 0) {
    return true;
  }
  if (strided->count == STRIDED_DIMS) {
    return false;
  }
  strided->first += stride < 0 ? (size - 1) * stride : 0;
  stride = stride < 0 ? -stride : stride;
  int at = strided->count++;
  for (; at > 0 && strided->dim[at - 1].stride < stride; at--) {
    strided->dim[at] = strided->dim[at - 1];
  }
  strided->dim[at] = (StridedDim){size, stride};
  return true;
}

void strided_close(Strided *strided) {
  while (strided->count > 0 && strided->dim[strided->count - 1].stride <= strided->run) {
    const StridedDim *dim = &strided->dim[--strided->count];
    strided->run += (dim->size - 1) * dim->stride;
  }
}

// Bytes from the first to the last of what dimensions from this one on lead to.
static int64_t span(const Strided *strided, int dim) {
  int64_t bytes = strided->run;
  for (int d = dim; d < strided->count; d++) {
    bytes += (strided->dim[d].size - 1) * strided->dim[d].stride;
  }
  return bytes;
}

// Of what dimensions from `dim` on lead to, if the first byte is at `from`.
static bool meets(const Strided *strided, int dim, int64_t from, int64_t first, int64_t end) {
  if (from >= end || from + span(strided, dim) <= first) {
    return false;
  }
  if (dim == strided->count || from >= first) {
    return true;
  }
  // All that begin before `first` and reach it; the next one, if it begins before `end`, has its first byte inside.
  const StridedDim *at = &strided->dim[dim];
  const int64_t inner = span(strided, dim + 1), before = (first - from + at->stride - 1) / at->stride;
  if (before < at->size && from + before * at->stride < end) {
    return true;
  }
  bool found = false;
  for (int64_t i = before < at->size ? before - 1 : at->size - 1; i >= 0 && !found; i--) {
    if (from + i * at->stride + inner <= first) {
      break;
    }
    found = meets(strided, dim + 1, from + i * at->stride, first, end);
  }
  return found;
}

bool strided_meets(const Strided *strided, int64_t first, int64_t end) {
  return first < end && meets(strided, 0, strided->first, first, end);
}
