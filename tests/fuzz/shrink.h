// shrink.h: a text that fails, made small.
#ifndef MDL_TESTS_FUZZ_SHRINK_H
#define MDL_TESTS_FUZZ_SHRINK_H

#include <stddef.h>

// Takes lines, statements and words away from `text` as long as it fails with the same signature; for `seconds`
// at most. Returns the new length.
size_t shrink(char *text, size_t length, const char *signature, double seconds);

#endif
