// json.h: what JSON of ours has in common: one object a line for `--json`, numbers that may be no numbers, any text.
#ifndef MDL_BASE_JSON_H
#define MDL_BASE_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

json_t *json_text(const char *text);  // bytes that are not UTF-8 become U+FFFD, each of them; NULL: null
json_t *json_bytes(const char *text, size_t length);
json_t *json_finite(double number);       // NaN and infinities: null
bool json_line(FILE *out, json_t *line);  // prints the object in one line and drops it; false: out of memory

#endif
