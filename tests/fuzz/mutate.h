// mutate.h: other texts made of a text of .mdl: bytes, tokens, statements, and settings of layouts changed at random.
//
// The same seed and texts make the same text. What comes out is often a program still; it need not be one.
#ifndef MDL_TESTS_FUZZ_MUTATE_H
#define MDL_TESTS_FUZZ_MUTATE_H

#include <stddef.h>
#include <stdint.h>

// Writes a changed copy of `text` to `out`, at most `most` bytes, and returns its length. `other` is a text from which
// statements may come, or NULL.
size_t mutate(uint64_t seed, const char *text, size_t length, const char *other, size_t other_length, char *out,
              size_t most);

#endif
