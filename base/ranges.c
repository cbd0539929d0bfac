// ranges.c: see ranges.h.
#include "base/ranges.h"

#include <string.h>

int ranges_find(const Ranges *ranges, int64_t number) {
  int low = 0, high = ranges->count;
  while (low < high) {
    const int middle = low + (high - low) / 2;
    if (ranges->at[middle].end > number) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

// Puts `count` ranges in the place of those from `from` to before `to`.
static void replace(Arena *arena, Ranges *ranges, int from, int to, const Range *by, int count) {
  while (ranges->count + count - (to - from) > ranges->capacity) {
    ranges->at = array_grow(arena, ranges->at, sizeof *ranges->at, &ranges->capacity);
  }
  if (to < ranges->count) {
    memmove(&ranges->at[from + count], &ranges->at[to], sizeof *ranges->at * (size_t)(ranges->count - to));
  }
  memcpy(&ranges->at[from], by, sizeof *by * (size_t)count);
  ranges->count += count - (to - from);
}

void ranges_put(Arena *arena, Ranges *ranges, int64_t first, int64_t end, int owner) {
  const int from = ranges_find(ranges, first);
  int to = from, begin = from, count = 0;
  Range all[3], put = {first, end, owner};
  if (first >= end) {
    return;
  }
  while (to < ranges->count && ranges->at[to].first < end) {
    to++;
  }
  if (from < to && ranges->at[from].first < first) {  // what is left of the first one
    if (ranges->at[from].owner == owner) {
      put.first = ranges->at[from].first;
    } else {
      all[count++] = (Range){ranges->at[from].first, first, ranges->at[from].owner};
    }
  } else if (from > 0 && ranges->at[from - 1].end == first && ranges->at[from - 1].owner == owner) {
    begin = from - 1;
    put.first = ranges->at[begin].first;
  }
  const Range last = to > from ? ranges->at[to - 1] : put;
  if (last.end > end && last.owner == owner) {
    put.end = last.end;
  } else if (last.end <= end && to < ranges->count && ranges->at[to].first == end && ranges->at[to].owner == owner) {
    put.end = ranges->at[to++].end;
  }
  all[count++] = put;
  if (last.end > put.end) {
    all[count++] = (Range){end, last.end, last.owner};
  }
  replace(arena, ranges, begin, to, all, count);
}
