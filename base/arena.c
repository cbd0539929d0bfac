// arena.c: chunked bump allocation.
#include "base/arena.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// AddressSanitizer sees what reads or writes between two objects of a chunk; to it a large chunk costs more than its
// use.
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ARENA_GUARDED
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define ARENA_GUARDED
#endif
#ifdef ARENA_GUARDED
#include <sanitizer/asan_interface.h>
enum { ARENA_CHUNK = 1 << 16, ARENA_ALIGN = 16, ARENA_GUARD = 16 };
#else
#define ASAN_POISON_MEMORY_REGION(memory, size) ((void)(memory), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(memory, size) ((void)(memory), (void)(size))
enum { ARENA_CHUNK = 1 << 20, ARENA_ALIGN = 16, ARENA_GUARD = 0 };
#endif

typedef struct Chunk {
  struct Chunk *next;
  size_t size, used;
  bool zeroed;  // all of it: a chunk of one large object, of which the system has zeros that cost nothing until used
} Chunk;

typedef struct Loan {
  struct Loan *next, **link;  // the next one, and what points to this one
} Loan;

enum { LOAN_HEADER = (sizeof(Loan) + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN };

enum { KEPT_MOST = 256 };
static atomic_int kept_count;
static atomic_uintptr_t kept[KEPT_MOST];  // what arena_keep was given

struct Arena {
  Chunk *chunks;
  Loan *loans;
  Chunk *spare;  // for what is said after memory ran out
  size_t total, limit;
  bool over_limit;
  jmp_buf *escape;
  int fail_after;
};

Arena *arena_create(void) {
  return calloc(1, sizeof(Arena));
}

void arena_keep(const void *inside) {
  const int at = atomic_fetch_add(&kept_count, 1);
  if (at < KEPT_MOST) {
    atomic_store(&kept[at], (uintptr_t)inside);
  }
}

static bool is_kept(const Arena *arena) {
  const int count = atomic_load(&kept_count);
  bool found = count > KEPT_MOST;  // there is no knowing
  for (const Chunk *chunk = arena->chunks; chunk && count > 0 && !found; chunk = chunk->next) {
    for (int i = 0; i < count && !found; i++) {
      const uintptr_t at = atomic_load(&kept[i]);
      found = at >= (uintptr_t)chunk && at - (uintptr_t)chunk < chunk->size;
    }
  }
  return found;
}

void arena_destroy(Arena *arena) {
  if (!arena || is_kept(arena)) {
    return;
  }
  for (Chunk *chunk = arena->chunks; chunk;) {
    Chunk *next = chunk->next;
    free(chunk);
    chunk = next;
  }
  for (Loan *loan = arena->loans; loan;) {
    Loan *next = loan->next;
    free(loan);
    loan = next;
  }
  free(arena->spare);
  free(arena);
}

void arena_exhausted(Arena *arena) {
  if (arena->escape) {
    longjmp(*arena->escape, 1);
  }
  fputs("mdl: out of memory\n", stderr);
  _Exit(3);
}

static Chunk *chunk_create(Arena *arena, size_t size) {
  size_t header = (sizeof(Chunk) + ARENA_ALIGN - 1) & ~(size_t)(ARENA_ALIGN - 1);
  size_t capacity = size > ARENA_CHUNK ? size : ARENA_CHUNK;
  Chunk *chunk = NULL;
  arena->over_limit = arena->limit > 0 && (capacity > arena->limit || arena->total > arena->limit - capacity);
  if (!arena->over_limit && capacity <= SIZE_MAX - header && !(arena->fail_after > 0 && --arena->fail_after == 0)) {
    chunk = size > ARENA_CHUNK ? calloc(1, header + capacity) : malloc(header + capacity);
  }
  if (!chunk && !arena->escape && arena->spare && capacity == ARENA_CHUNK) {
    chunk = arena->spare;
    arena->spare = NULL;
  }
  if (!chunk) {
    arena_exhausted(arena);
    return NULL;
  }
  *chunk = (Chunk){.next = arena->chunks, .size = header + capacity, .used = header, .zeroed = size > ARENA_CHUNK};
  arena->chunks = chunk;
  arena->total += chunk->size;
  ASAN_POISON_MEMORY_REGION((char *)chunk + header, capacity);
  return chunk;
}

void *arena_alloc(Arena *arena, size_t size) {
  const size_t wanted = size;
  if (size > SIZE_MAX - ARENA_CHUNK) {  // what was no size: nothing may wrap round to a few bytes
    arena_exhausted(arena);
    return NULL;
  }
  size = ((size + ARENA_ALIGN - 1) & ~(size_t)(ARENA_ALIGN - 1)) + ARENA_GUARD;
  Chunk *chunk = arena->chunks;
  if (!chunk || chunk->size - chunk->used < size) {
    chunk = chunk_create(arena, size);
  }
  void *memory = (char *)chunk + chunk->used;
  chunk->used += size;
  ASAN_UNPOISON_MEMORY_REGION(memory, wanted);
  return chunk->zeroed ? memory : memset(memory, 0, wanted);
}

void *arena_copy(Arena *arena, const void *data, size_t size) {
  void *memory = arena_alloc(arena, size ? size : 1);
  if (size) {
    memcpy(memory, data, size);
  }
  return memory;
}

void *arena_borrow(Arena *arena, size_t size) {
  Loan *loan = size <= SIZE_MAX - LOAN_HEADER ? calloc(1, LOAN_HEADER + size) : NULL;
  if (!loan) {
    arena_exhausted(arena);
    return NULL;
  }
  *loan = (Loan){arena->loans, &arena->loans};
  if (loan->next) {
    loan->next->link = &loan->next;
  }
  arena->loans = loan;
  return (char *)loan + LOAN_HEADER;
}

void arena_return(void *memory) {
  Loan *loan = (void *)((char *)memory - LOAN_HEADER);
  *loan->link = loan->next;
  if (loan->next) {
    loan->next->link = loan->link;
  }
  free(loan);
}

char *arena_format(Arena *arena, const char *format, ...) {
  va_list args, again;
  va_start(args, format);
  va_copy(again, args);
  int length = vsnprintf(NULL, 0, format, args);
  char *text = arena_alloc(arena, (size_t)length + 1);
  vsnprintf(text, (size_t)length + 1, format, again);
  va_end(again);
  va_end(args);
  return text;
}

size_t arena_used(const Arena *arena) {
  return arena->total;
}

void arena_set_limit(Arena *arena, size_t bytes) {
  arena->limit = bytes;
}

bool arena_over_limit(const Arena *arena) {
  return arena->over_limit;
}

void arena_set_escape(Arena *arena, jmp_buf *escape) {
  if (escape && !arena->spare) {
    arena->spare = calloc(1, sizeof(Chunk) + ARENA_ALIGN + ARENA_CHUNK);
  }
  arena->escape = escape;
}

void arena_fail_after(Arena *arena, int n) {
  arena->fail_after = n;
}
