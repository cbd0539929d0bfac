// plain.h: text that comes from files, without what a terminal would obey.
#ifndef MDL_BASE_PLAIN_H
#define MDL_BASE_PLAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

// How many bytes at `text` are a control character, which is neither the end of a line nor a tab; 0: none stands there.
size_t plain_control(const char *text);
void plain_put(FILE *out, const char *text);  // control characters as \xNN
// A stream that puts what is written to it so into `out`, which stays open when it is closed. NULL: no memory.
FILE *plain_open(FILE *out);
void plain_mask(char *text);  // control characters as `?`, in place

#endif
