// map.c: open addressing with linear probing.
#include "base/map.h"

#include <string.h>
#include <xxhash.h>

Map map_create(Arena *arena) {
  Map map = {.arena = arena};
  return map;
}

Map map_copy(const Map *map, Arena *arena) {
  Map copy = {.arena = arena, .capacity = map->capacity, .count = map->count};
  copy.slots = arena_copy(arena, map->slots, sizeof *map->slots * map->capacity);
  return copy;
}

static uint64_t word_hash(uint64_t word) {  // ids are close together: all bits of them decide on the slot
  word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9u;
  word = (word ^ (word >> 27)) * 0x94d049bb133111ebu;
  return word ^ (word >> 31);
}

static uint64_t slot_hash(const MapSlot *slot) {
  return slot->key ? slot->word : word_hash(slot->word);
}

static bool slot_equal(const MapSlot *a, const MapSlot *b) {
  return a->word == b->word && a->bytes == b->bytes && (!a->key) == (!b->key) &&
         (!a->key || memcmp(a->key, b->key, a->bytes) == 0);
}

static size_t slot_find(const Map *map, const MapSlot *wanted) {
  size_t at = slot_hash(wanted) & (map->capacity - 1);
  while (map->slots[at].used && !slot_equal(&map->slots[at], wanted)) {
    at = (at + 1) & (map->capacity - 1);
  }
  return at;
}

static void map_grow(Map *map) {
  Map grown = {.arena = map->arena, .capacity = map->capacity ? map->capacity * 2 : 16, .count = map->count};
  grown.slots = ARENA_ARRAY(map->arena, MapSlot, grown.capacity);
  for (size_t i = 0; i < map->capacity; i++) {
    if (map->slots[i].used) {
      grown.slots[slot_find(&grown, &map->slots[i])] = map->slots[i];
    }
  }
  *map = grown;
}

static void slot_put(Map *map, MapSlot slot) {
  if (map->count * 2 >= map->capacity) {
    map_grow(map);
  }
  size_t at = slot_find(map, &slot);
  if (map->slots[at].used) {
    map->slots[at].value = slot.value;
    return;
  }
  map->count++;
  slot.used = true;
  slot.key = slot.key ? arena_copy(map->arena, slot.key, slot.bytes) : NULL;
  map->slots[at] = slot;
}

static bool slot_get(const Map *map, const MapSlot *wanted, int64_t *value) {
  if (map->capacity == 0) {
    return false;
  }
  size_t at = slot_find(map, wanted);
  if (map->slots[at].used) {
    *value = map->slots[at].value;
  }
  return map->slots[at].used;
}

static MapSlot slot_of_bytes(const void *key, size_t bytes) {
  return (MapSlot){.word = XXH3_64bits(key, bytes), .key = key, .bytes = (uint32_t)bytes};
}

void map_put(Map *map, uint64_t key, int64_t value) {
  slot_put(map, (MapSlot){.word = key, .value = value});
}

bool map_get(const Map *map, uint64_t key, int64_t *value) {
  MapSlot wanted = {.word = key};
  return slot_get(map, &wanted, value);
}

int64_t map_get_or(const Map *map, uint64_t key, int64_t otherwise) {
  map_get(map, key, &otherwise);
  return otherwise;
}

void map_put_bytes(Map *map, const void *key, size_t bytes, int64_t value) {
  MapSlot slot = slot_of_bytes(key, bytes);
  slot.value = value;
  slot_put(map, slot);
}

bool map_get_bytes(const Map *map, const void *key, size_t bytes, int64_t *value) {
  MapSlot wanted = slot_of_bytes(key, bytes);
  return slot_get(map, &wanted, value);
}

int64_t map_get_bytes_or(const Map *map, const void *key, size_t bytes, int64_t otherwise) {
  map_get_bytes(map, key, bytes, &otherwise);
  return otherwise;
}
