// array.h: growable arrays that live in an arena.
//
//   ARRAY(int) numbers = {0};
//   array_push(arena, &numbers, 7);
//   for (int i = 0; i < numbers.count; i++) use(numbers.at[i]);
//
// Growing copies; pointers into `at` are valid until the next push.
#ifndef MDL_BASE_ARRAY_H
#define MDL_BASE_ARRAY_H

#include "base/arena.h"

#define ARRAY(Type)      \
  struct {               \
    Type *at;            \
    int count, capacity; \
  }

#define array_push(arena, array, ...)                                                                    \
  ((array)->count == (array)->capacity                                                                   \
       ? (void)((array)->at = array_grow((arena), (array)->at, sizeof *(array)->at, &(array)->capacity)) \
       : (void)0,                                                                                        \
   (array)->at[(array)->count++] = (__VA_ARGS__))

// Doubles *capacity and returns a copy of `data` with room for it.
void *array_grow(Arena *arena, const void *data, size_t element_size, int *capacity);

#endif
