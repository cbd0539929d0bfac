// buffer.h: text built piece by piece, on the heap.
//
// Zero-initialise. `failed` is set when memory ran out; further writes are ignored.
#ifndef MDL_BASE_BUFFER_H
#define MDL_BASE_BUFFER_H

#include <stdbool.h>
#include <stddef.h>

typedef struct {
  char *text;  // NUL-terminated once anything was written
  size_t length, capacity;
  bool failed;
} Buffer;

bool buffer_reserve(Buffer *buffer, size_t extra);  // so many bytes more need no further memory; false: failed
void buffer_bytes(Buffer *buffer, const void *bytes, size_t length);
void buffer_text(Buffer *buffer, const char *text);
void buffer_format(Buffer *buffer, const char *format, ...) __attribute__((format(printf, 2, 3)));
void buffer_repeat(Buffer *buffer, char c, int count);
void buffer_xml(Buffer *buffer, const char *text);    // with entities for &, < and >; NULL: nothing
void buffer_shell(Buffer *buffer, const char *word);  // a path as a word of the shell: in quotes where it needs them
// The same in `to`, which is returned; `word` as it is where it has no room there.
const char *buffer_word(char *to, size_t size, const char *word);
// A path or a name as a string of the language, in its quotes; as it is where it has no room.
const char *buffer_string(char *to, size_t size, const char *text);
void buffer_free(Buffer *buffer);  // leaves it empty and usable

#endif
