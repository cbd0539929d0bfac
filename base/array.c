// array.c: growth of arena arrays.
#include "base/array.h"

#include <string.h>

void *array_grow(Arena *arena, const void *data, size_t element_size, int *capacity) {
  int wanted = *capacity ? *capacity * 2 : 8;
  void *grown = arena_alloc(arena, element_size * (size_t)wanted);
  if (*capacity) {
    memcpy(grown, data, element_size * (size_t)*capacity);
  }
  *capacity = wanted;
  return grown;
}
