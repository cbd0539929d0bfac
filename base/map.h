// map.h: a hash map in an arena, from words (ids, interned pointers) or strings of bytes to 64-bit values.
//
// Keys are kept and compared whole. How they are hashed is nobody's business: two keys are one only if they are equal.
#ifndef MDL_BASE_MAP_H
#define MDL_BASE_MAP_H

#include <stdbool.h>

#include "base/arena.h"

typedef struct {
  uint64_t word;    // of a key of one word; else its hash
  const void *key;  // of a key of bytes, in the arena; NULL: one word
  int64_t value;
  uint32_t bytes;  // of the key
  bool used;
} MapSlot;

typedef struct {
  Arena *arena;
  MapSlot *slots;
  size_t capacity, count;
} Map;

Map map_create(Arena *arena);
Map map_copy(const Map *map, Arena *arena);                  // keys of bytes stay where they are
void map_put(Map *map, uint64_t key, int64_t value);         // replaces
bool map_get(const Map *map, uint64_t key, int64_t *value);  // *value untouched when absent
int64_t map_get_or(const Map *map, uint64_t key, int64_t otherwise);

// The same for keys of several words: MAP_KEY(a, b, c) stands for their bytes and their number. Never for structs with
// gaps between their members.
void map_put_bytes(Map *map, const void *key, size_t bytes, int64_t value);  // copies the key
bool map_get_bytes(const Map *map, const void *key, size_t bytes, int64_t *value);
int64_t map_get_bytes_or(const Map *map, const void *key, size_t bytes, int64_t otherwise);
#define MAP_KEY(...) ((const uint64_t[]){__VA_ARGS__}), sizeof((const uint64_t[]){__VA_ARGS__})

static inline uint64_t map_key(const void *pointer) {
  return (uint64_t)(uintptr_t)pointer;
}

#endif
