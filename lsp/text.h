// text.h: places in texts as editors count them, and files as editors name them.
//
// An editor counts lines from 0 and, within a line, UTF-16 code units or bytes; the compiler counts bytes of the text.
#ifndef MDL_LSP_TEXT_H
#define MDL_LSP_TEXT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"

typedef enum { ENCODING_UTF16, ENCODING_UTF8 } Encoding;

typedef struct {
  size_t line, character;
} Position;

// The byte at a position; one behind the end of its line is that end, one behind the text the end of the text.
size_t text_offset(const char *text, size_t length, Position position, Encoding encoding);
Position text_position(const char *text, size_t length, size_t offset, Encoding encoding);

json_t *position_json(Position position);
bool position_read(const json_t *json, Position *position);  // false: it is none
json_t *range_json(const char *text, size_t length, size_t begin, size_t end, Encoding encoding);

// The same for many places of one text, each without a look at all in front of it.
typedef struct Places Places;
Places *places_create(Arena *arena, const char *text, size_t length, Encoding encoding);
json_t *places_range(const Places *places, size_t begin, size_t end);

// The name at a byte or just behind it: letters, digits, `_` and `'`, with a `@` in front. False: there is none.
bool text_word(const char *text, size_t length, size_t offset, size_t *begin, size_t *end);

// The path of a file: URI, in the arena; NULL for what is no file.
const char *uri_path(Arena *arena, const char *uri);
const char *path_uri(Arena *arena, const char *path);  // of an absolute path

// Puts U+FFFD, one code unit as well, for each half of a UTF-16 pair that stands alone in the strings of a JSON text,
// of which no UTF-8 can be made. `json` ends with a zero behind `length`. False: there was none.
bool text_whole_pairs(char *json, size_t length);

#endif
