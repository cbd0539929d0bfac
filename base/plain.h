// plain.h: text that comes from files, without what a terminal would obey.
#ifndef MDL_BASE_PLAIN_H
#define MDL_BASE_PLAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

// How many bytes at `text` are a control character, which is neither the end of a line nor a tab; 0: none stands there.
size_t plain_control(const char *text);
void plain_put(FILE *out, const char *text);  // control characters as \xNN
void plain_mask(char *text);                  // control characters as `?`, in place

#endif
