// json_guard.c: the allocator of the JSON library, which leaves guarded work where it gets nothing.
#include "base/json_guard.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>

typedef struct {
  jmp_buf escape;
  // Blocks that the work has got and not given back: each at the first free slot from its home on. Whole trees are
  // given back in any order.
  void **slot;
  size_t count, capacity;  // capacity: a power of 2
} Guard;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static json_malloc_t allocate;  // what the library used before
static json_free_t release;
static _Thread_local Guard *guard;  // NULL: the library is used without

static size_t home_of(const void *memory, size_t capacity) {
  return (size_t)(((uint64_t)(uintptr_t)memory * 0x9e3779b97f4a7c15u) >> 32) & (capacity - 1);
}

static void slot_put(void **slot, size_t capacity, void *memory) {
  size_t at = home_of(memory, capacity);
  while (slot[at]) {
    at = (at + 1) & (capacity - 1);
  }
  slot[at] = memory;
}

// Room for one more block: no more than half of the slots are taken.
static bool guard_grow(Guard *of) {
  if (of->count < of->capacity / 2) {
    return true;
  }
  const size_t capacity = of->capacity > 0 ? of->capacity * 2 : 512;
  void **more = calloc(capacity, sizeof *more);
  if (!more) {
    return false;
  }
  for (size_t i = 0; i < of->capacity; i++) {
    if (of->slot[i]) {
      slot_put(more, capacity, of->slot[i]);
    }
  }
  free(of->slot);
  of->slot = more;
  of->capacity = capacity;
  return true;
}

// Those behind it move up, unless that is before their homes.
static void guard_forget(Guard *of, const void *memory) {
  const size_t mask = of->capacity - 1;
  size_t hole = of->capacity > 0 ? home_of(memory, of->capacity) : 0;
  while (of->capacity > 0 && of->slot[hole] && of->slot[hole] != memory) {
    hole = (hole + 1) & mask;
  }
  if (of->capacity == 0 || !of->slot[hole]) {
    return;  // it is of before
  }
  for (size_t next = (hole + 1) & mask; of->slot[next]; next = (next + 1) & mask) {
    if (((next - home_of(of->slot[next], of->capacity)) & mask) >= ((next - hole) & mask)) {
      of->slot[hole] = of->slot[next];
      hole = next;
    }
  }
  of->slot[hole] = NULL;
  of->count--;
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
    slot_put(of->slot, of->capacity, memory);
    of->count++;
  }
  return memory;
}

static void guarded_release(void *memory) {
  if (guard && memory) {
    guard_forget(guard, memory);
  }
  release(memory);
}

static void install(void) {
  json_get_alloc_funcs(&allocate, &release);
  json_set_alloc_funcs(guarded_allocate, guarded_release);
}

bool json_guarded(void (*work)(void *context), void *context) {
  Guard of = {.slot = NULL};
  pthread_once(&once, install);
  guard = &of;
  const bool starved = setjmp(of.escape) != 0;
  if (!starved) {
    work(context);
  }
  guard = NULL;
  for (size_t i = 0; starved && i < of.capacity; i++) {
    release(of.slot[i]);
  }
  free(of.slot);
  return !starved;
}

void json_guard_free(void *text) {
  if (text) {  // else the guard may not be there yet
    guarded_release(text);
  }
}

typedef struct {
  JsonMake *make;
  void *context;
  size_t flags;
  char *text;
} Making;

static void made_work(void *context) {
  Making *making = context;
  json_t *value = making->make(making->context);
  making->text = value ? json_dumps(value, making->flags) : NULL;
  json_decref(value);
}

char *json_made(JsonMake *make, void *context, size_t flags) {
  Making making = {.make = make, .context = context, .flags = flags};
  return json_guarded(made_work, &making) ? making.text : NULL;
}

typedef struct {
  const json_t *value;
  size_t flags;
  char *text;
} Dumping;

static void dump_work(void *context) {
  Dumping *dumping = context;
  dumping->text = json_dumps(dumping->value, dumping->flags);
}

char *json_dumped(json_t *value, size_t flags) {
  Dumping dumping = {.value = value, .flags = flags};
  if (guard) {
    dump_work(&dumping);
    return dumping.text;
  }
  return value && json_guarded(dump_work, &dumping) ? dumping.text : NULL;
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
