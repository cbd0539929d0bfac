// names.c: the intern table and did-you-mean.
#include "base/names.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct Names {
  Arena *arena;
  Name *slots;
  size_t capacity, count;  // capacity is a power of two
};

Names *names_create(Arena *arena) {
  Names *names = ARENA_NEW(arena, Names);
  names->arena = arena;
  names->capacity = 256;
  names->slots = ARENA_ARRAY(arena, Name, names->capacity);
  return names;
}

static uint64_t hash_bytes(const char *bytes, size_t length) {
  uint64_t hash = 14695981039346656037u;  // FNV-1a
  for (size_t i = 0; i < length; i++) {
    hash = (hash ^ (unsigned char)bytes[i]) * 1099511628211u;
  }
  return hash;
}

static void names_grow(Names *names) {
  size_t capacity = names->capacity * 2;
  Name *slots = ARENA_ARRAY(names->arena, Name, capacity);
  for (size_t i = 0; i < names->capacity; i++) {
    if (names->slots[i]) {
      size_t at = hash_bytes(names->slots[i], strlen(names->slots[i])) & (capacity - 1);
      while (slots[at]) {
        at = (at + 1) & (capacity - 1);
      }
      slots[at] = names->slots[i];
    }
  }
  names->slots = slots;
  names->capacity = capacity;
}

Name name_of_bytes(Names *names, const char *bytes, size_t length) {
  size_t at = hash_bytes(bytes, length) & (names->capacity - 1);
  for (; names->slots[at]; at = (at + 1) & (names->capacity - 1)) {
    if (strncmp(names->slots[at], bytes, length) == 0 && names->slots[at][length] == '\0') {
      return names->slots[at];
    }
  }
  char *copy = arena_alloc(names->arena, length + 1);
  memcpy(copy, bytes, length);
  names->slots[at] = copy;
  if (++names->count * 2 > names->capacity) {
    names_grow(names);
  }
  return copy;
}

Name name_of(Names *names, const char *text) {
  return name_of_bytes(names, text, strlen(text));
}

Name name_format(Names *names, const char *format, ...) {
  char small[512];
  va_list args;
  va_start(args, format);
  int length = vsnprintf(small, sizeof small, format, args);
  va_end(args);
  if ((size_t)length < sizeof small) {
    return name_of_bytes(names, small, (size_t)length);
  }
  char *large = arena_alloc(names->arena, (size_t)length + 1);
  va_start(args, format);
  vsnprintf(large, (size_t)length + 1, format, args);
  va_end(args);
  return name_of_bytes(names, large, (size_t)length);
}

int text_distance(const char *a, const char *b, int limit) {
  enum { MAX = 63 };
  size_t n = strlen(a), m = strlen(b);
  if (n > MAX || m > MAX) {
    return limit + 1;
  }
  int row[3][MAX + 1];
  for (size_t j = 0; j <= m; j++) {
    row[0][j] = (int)j;
  }
  for (size_t i = 1; i <= n; i++) {
    int *now = row[i % 3], *last = row[(i + 2) % 3], *before = row[(i + 1) % 3];
    now[0] = (int)i;
    for (size_t j = 1; j <= m; j++) {
      int best = last[j - 1] + (a[i - 1] != b[j - 1]);
      best = last[j] + 1 < best ? last[j] + 1 : best;
      best = now[j - 1] + 1 < best ? now[j - 1] + 1 : best;
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && before[j - 2] + 1 < best) {
        best = before[j - 2] + 1;
      }
      now[j] = best;
    }
  }
  int distance = row[n % 3][m];
  return distance > limit ? limit + 1 : distance;
}

const char *text_closest(const char *wanted, const char *const *candidates, int count) {
  size_t length = strlen(wanted);
  int limit = length <= 2 ? 1 : length <= 5 ? 2 : 3;
  if (length <= 1) {
    return NULL;
  }
  const char *closest = NULL;
  int best = limit + 1;
  for (int i = 0; i < count; i++) {
    int distance = text_distance(wanted, candidates[i], limit);
    if (distance < best && distance < (int)length) {
      best = distance;
      closest = candidates[i];
    }
  }
  return closest;
}
