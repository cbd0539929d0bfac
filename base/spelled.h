// spelled.h: numbers as other languages and people spell them, and how they are written here.
#ifndef MDL_BASE_SPELLED_H
#define MDL_BASE_SPELLED_H

#include <stdbool.h>
#include <stddef.h>

enum { SPELLED_MAX = 96 };

// What to write in place of 0x100, 1_000, 1,000, 0,5, 32k, 4GB, 2.5M, 1e-3f; `whole`: of 1e3 and 4.0 too, where a whole
// number is wanted. A sentence for a help, in `to`; NULL: the text is no such number.
const char *spelled_number(const char *text, size_t length, bool whole, char to[SPELLED_MAX]);

#endif
