// utf8.h: where text is UTF-8 and where it is not.
#ifndef MDL_BASE_UTF8_H
#define MDL_BASE_UTF8_H

#include <stddef.h>
#include <stdint.h>

// The length of the character that begins here; 0: none does. -1: one begins, of which the end is missing.
int utf8_character(const uint8_t *text, size_t length);
// How many bytes from the beginning are whole characters.
size_t utf8_valid(const uint8_t *text, size_t length);

#endif
