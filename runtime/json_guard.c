// json_guard.c: the allocator of the JSON library, which leaves guarded work where it gets nothing.
#include "runtime/json_guard.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdlib.h>

typedef struct {
  jmp_buf escape;
  void **block;  // that the work has got and not given back
  size_t count, capacity;
} Guard;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static json_malloc_t allocate;  // what the library used before
static json_free_t release;
static _Thread_local Guard *guard;  // NULL: the library is used without

// Room for one more block.
static bool guard_grow(Guard *of) {
  if (of->count < of->capacity) {
    return true;
  }
  const size_t capacity = of->capacity > 0 ? of->capacity * 2 : 256;
  void **longer = realloc(of->block, sizeof *longer * capacity);
  if (!longer) {
    return false;
  }
  of->block = longer;
  of->capacity = capacity;
  return true;
}

static void *guarded_allocate(size_t size) {
  Guard *of = guard;
  if (!of) {
    return allocate(size);
  }
  void *memory = guard_grow(of) ? allocate(size) : NULL;
  if (!memory && size > 0) {
    longjmp(of->escape, 1);
  }
  if (memory) {
    of->block[of->count++] = memory;
  }
  return memory;
}

// Most of what is freed was got a moment ago.
static void guarded_release(void *memory) {
  Guard *of = guard;
  for (size_t i = of && memory ? of->count : 0; i > 0; i--) {
    if (of->block[i - 1] == memory) {
      of->block[i - 1] = of->block[--of->count];
      break;
    }
  }
  release(memory);
}

static void install(void) {
  json_get_alloc_funcs(&allocate, &release);
  json_set_alloc_funcs(guarded_allocate, guarded_release);
}

bool json_guarded(void (*work)(void *context), void *context) {
  Guard of = {.block = NULL};
  pthread_once(&once, install);
  guard = &of;
  const bool starved = setjmp(of.escape) != 0;
  if (!starved) {
    work(context);
  }
  guard = NULL;
  for (size_t i = 0; starved && i < of.count; i++) {
    release(of.block[i]);
  }
  free(of.block);
  return !starved;
}

void json_guard_free(void *text) {
  guarded_release(text);
}

typedef struct {
  const char *text;
  size_t size, flags;
  json_error_t *why;
  json_t *root;
} Reading;

static void read_work(void *context) {
  Reading *reading = context;
  reading->root = json_loadb(reading->text, reading->size, reading->flags, reading->why);
}

json_t *json_read(const char *text, size_t size, size_t flags, json_error_t *why, bool *starved) {
  Reading reading = {.text = text, .size = size, .flags = flags, .why = why};
  *starved = !json_guarded(read_work, &reading);
  return *starved ? NULL : reading.root;
}
