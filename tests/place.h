// place.h: a directory of its own for each test of what a run writes, with a text to train on.
#ifndef MDL_TESTS_PLACE_H
#define MDL_TESTS_PLACE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka.h wants the four above first.
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "runtime/io.h"

typedef struct {
  char directory[256], text[300];
  Arena *arena;
} World;

static inline void path_in(const World *world, char path[IO_PATH_MAX], const char *name) {
  Error error;
  assert_true(io_path(path, &error, "%s/%s", world->directory, name));
}

static inline void put_in(const World *world, const char *name, const void *bytes, size_t length) {
  char path[IO_PATH_MAX];
  path_in(world, path, name);
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  assert_int_equal(fwrite(bytes, 1, length, file), length);
  assert_int_equal(fclose(file), 0);
}

static inline bool there(const World *world, const char *name) {
  char path[IO_PATH_MAX];
  path_in(world, path, name);
  return access(path, F_OK) == 0;
}

static inline void expect_words(const char *text, const char *words) {
  if (!strstr(text, words)) {
    fail_msg("expected '%s' in: %s", words, text);
  }
}

static inline int world_open_in(const char *directory, void **state) {
  World *world = calloc(1, sizeof *world);
  snprintf(world->directory, sizeof world->directory, "%s/mdl-test-XXXXXX", directory);
  assert_non_null(mkdtemp(world->directory));
  world->arena = arena_create();
  snprintf(world->text, sizeof world->text, "%s/text", world->directory);
  FILE *file = fopen(world->text, "w");
  uint32_t x = 1;
  for (int i = 0; i < 20000; i++) {
    x = x * 1664525u + 1013904223u;
    fputc("the quick brown fox, \n"[(x >> 24) % 22], file);
  }
  fclose(file);
  *state = world;
  return 0;
}

static inline int world_open(void **state) {
  return world_open_in("/tmp", state);
}

static inline int world_close(void **state) {
  World *world = *state;
  io_remove_tree(world->directory);
  arena_destroy(world->arena);
  free(world);
  return 0;
}

#endif
