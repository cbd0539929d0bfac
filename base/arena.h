// arena.h: memory that is freed all at once; one arena per compilation.
//
// arena_alloc never returns NULL. When memory runs out it jumps to the arena's
// escape point if one is set (compile_* entry points set it), else ends the process
// with status 3. After an escape there is a little left for an error message.
// Memory is zeroed and aligned to 16 bytes.
#ifndef MDL_BASE_ARENA_H
#define MDL_BASE_ARENA_H

#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct Arena Arena;

Arena *arena_create(void);  // NULL when out of memory
void arena_destroy(Arena *arena);
// The arena that this lies in is never freed, whoever destroys it: a thread that nobody can end has it. For a few.
void arena_keep(const void *inside);
void *arena_alloc(Arena *arena, size_t size);
void *arena_copy(Arena *arena, const void *data, size_t size);
char *arena_format(Arena *arena, const char *format, ...) __attribute__((format(printf, 2, 3)));
size_t arena_used(const Arena *arena);  // bytes taken from the system

// Memory for a while, zeroed: given back, or freed with the arena when an escape leaves those who would give it back.
void *arena_borrow(Arena *arena, size_t size);
void arena_return(void *memory);

// More than this is as if there were no more; 0: no limit.
void arena_set_limit(Arena *arena, size_t bytes);
bool arena_over_limit(const Arena *arena);  // whether that was why

// For memory that was wanted elsewhere than in the arena: goes to the escape point, as above.
void arena_exhausted(Arena *arena);

// Where to go when memory runs out; NULL removes it. The caller owns `escape`.
void arena_set_escape(Arena *arena, jmp_buf *escape);

// Test hook: the n-th system allocation from now fails (0: never).
void arena_fail_after(Arena *arena, int n);

#define ARENA_BORROW(arena, Type, count) ((Type *)arena_borrow((arena), sizeof(Type) * (size_t)(count)))
#define ARENA_NEW(arena, Type) ((Type *)arena_alloc((arena), sizeof(Type)))
#define ARENA_ARRAY(arena, Type, count) ((Type *)arena_alloc((arena), sizeof(Type) * (size_t)(count)))

#endif
