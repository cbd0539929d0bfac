// names.h: interned strings. Two equal names are the same pointer.
#ifndef MDL_BASE_NAMES_H
#define MDL_BASE_NAMES_H

#include "base/arena.h"

typedef const char *Name;  // NUL-terminated, interned in a Names table; compare with ==

typedef struct Names Names;

Names *names_create(Arena *arena);
Name name_of(Names *names, const char *text);
Name name_of_bytes(Names *names, const char *bytes, size_t length);
Name name_format(Names *names, const char *format, ...) __attribute__((format(printf, 2, 3)));

// Edit distance with transpositions, for did-you-mean; stops counting at `limit`.
int text_distance(const char *a, const char *b, int limit);

// The candidate closest to `wanted` if it is close enough to be a typing slip, else NULL.
const char *text_closest(const char *wanted, const char *const *candidates, int count);

#endif
