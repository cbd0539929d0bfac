// elements.h: element number `at` of an array of any element type, as a number, and slopes of attention, for tests.
#ifndef MDL_TESTS_ELEMENTS_H
#define MDL_TESTS_ELEMENTS_H

#include "runtime/element.h"

static inline double element_at(ElementType type, const void *memory, int64_t at) {
  return element_get(type, (const char *)memory + at * element_type_bytes(type));
}

static inline void element_set_at(ElementType type, void *memory, int64_t at, double value) {
  element_put(type, (char *)memory + at * element_type_bytes(type), value);
}

// Slopes of linear biases of that many heads, in memory of its own: some the other way, some none.
static inline void *elements_slopes(int64_t heads, ElementType type) {
  void *slopes = malloc((size_t)(heads * element_type_bytes(type)));
  for (int64_t i = 0; i < heads; i++) {
    element_set_at(type, slopes, i, i % 4 == 2 ? 0 : (i % 4 == 1 ? -1.0 : 1.0) / (double)(8 << i % 7));
  }
  return slopes;
}

#endif
