// elements.h: element number `at` of an array of any element type, as a number, for tests.
#ifndef MDL_TESTS_ELEMENTS_H
#define MDL_TESTS_ELEMENTS_H

#include "runtime/element.h"

static inline double element_at(ElementType type, const void *memory, int64_t at) {
  return element_get(type, (const char *)memory + at * element_type_bytes(type));
}

static inline void element_set_at(ElementType type, void *memory, int64_t at, double value) {
  element_put(type, (char *)memory + at * element_type_bytes(type), value);
}

#endif
