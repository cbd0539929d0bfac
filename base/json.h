// json.h: what JSON of ours has in common: one object a line for `--json`, numbers that may be no numbers, any text.
#ifndef MDL_BASE_JSON_H
#define MDL_BASE_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/buffer.h"
#include "base/json_guard.h"

json_t *json_text(const char *text);  // bytes that are not UTF-8 become U+FFFD, each of them; NULL: null
json_t *json_bytes(const char *text, size_t length);
json_t *json_finite(double number);  // NaN and infinities: null
// As few digits as give the number back: a number of f32 in f32, others in f64. NaN and infinities: null.
const char *json_shortest(char text[32], double number);
// Adds what jansson has made with JSON_REAL_PRECISION(17), its real numbers in as few digits; false: out of memory.
bool json_shorten(const char *text, Buffer *out);
// Prints what `make` makes, in guarded work, in one line. False: out of memory, which is said on stderr behind
// `command`.
bool json_line(FILE *out, const char *command, JsonMake *make, void *context);

#endif
