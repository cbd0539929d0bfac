// map.h: a hash map from 64-bit keys (or interned pointers) to 64-bit values, in an arena.
#ifndef MDL_BASE_MAP_H
#define MDL_BASE_MAP_H

#include <stdbool.h>

#include "base/arena.h"

typedef struct {
  Arena *arena;
  uint64_t *keys;  // key + 1; 0 is empty
  int64_t *values;
  size_t capacity, count;
} Map;

Map map_create(Arena *arena);
void map_put(Map *map, uint64_t key, int64_t value);         // replaces
bool map_get(const Map *map, uint64_t key, int64_t *value);  // *value untouched when absent
int64_t map_get_or(const Map *map, uint64_t key, int64_t otherwise);
uint64_t map_hash(uint64_t hash, uint64_t word);  // mixes a word into a running hash

static inline uint64_t map_key(const void *pointer) {
  return (uint64_t)(uintptr_t)pointer;
}

#endif
