// map.c: open addressing with linear probing.
#include "base/map.h"

Map map_create(Arena *arena) {
  Map map = {.arena = arena};
  return map;
}

uint64_t map_hash(uint64_t hash, uint64_t word) {
  hash ^= word + 0x9e3779b97f4a7c15u + (hash << 6) + (hash >> 2);
  hash = (hash ^ (hash >> 30)) * 0xbf58476d1ce4e5b9u;
  hash = (hash ^ (hash >> 27)) * 0x94d049bb133111ebu;
  return hash ^ (hash >> 31);
}

static size_t map_slot(const Map *map, uint64_t key) {
  size_t at = map_hash(0, key) & (map->capacity - 1);
  while (map->keys[at] && map->keys[at] != key + 1) {
    at = (at + 1) & (map->capacity - 1);
  }
  return at;
}

static void map_grow(Map *map) {
  Map grown = {.arena = map->arena, .capacity = map->capacity ? map->capacity * 2 : 16, .count = map->count};
  grown.keys = ARENA_ARRAY(map->arena, uint64_t, grown.capacity);
  grown.values = ARENA_ARRAY(map->arena, int64_t, grown.capacity);
  for (size_t i = 0; i < map->capacity; i++) {
    if (map->keys[i]) {
      size_t at = map_slot(&grown, map->keys[i] - 1);
      grown.keys[at] = map->keys[i];
      grown.values[at] = map->values[i];
    }
  }
  *map = grown;
}

void map_put(Map *map, uint64_t key, int64_t value) {
  if (map->count * 2 >= map->capacity) {
    map_grow(map);
  }
  size_t at = map_slot(map, key);
  map->count += map->keys[at] == 0;
  map->keys[at] = key + 1;
  map->values[at] = value;
}

bool map_get(const Map *map, uint64_t key, int64_t *value) {
  if (map->capacity == 0) {
    return false;
  }
  size_t at = map_slot(map, key);
  if (!map->keys[at]) {
    return false;
  }
  *value = map->values[at];
  return true;
}

int64_t map_get_or(const Map *map, uint64_t key, int64_t otherwise) {
  map_get(map, key, &otherwise);
  return otherwise;
}
