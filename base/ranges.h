// ranges.h: whom numbers belong to, kept as ranges: bytes of a memory and who has written them, say.
//
// A Ranges lives in an arena. Its ranges are in order and do not overlap; neighbours of one owner are one range.
#ifndef MDL_BASE_RANGES_H
#define MDL_BASE_RANGES_H

#include "base/array.h"

typedef struct {
  int64_t first, end;  // [first, end)
  int owner;
} Range;

typedef ARRAY(Range) Ranges;

// The first range that ends behind a number; `count` if there is none.
int ranges_find(const Ranges *ranges, int64_t number);

// Gives [first, end) to `owner`, whoever had it.
void ranges_put(Arena *arena, Ranges *ranges, int64_t first, int64_t end, int owner);

#endif
