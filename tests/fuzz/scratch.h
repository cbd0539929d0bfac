// scratch.h: files that readers want, in a directory of this process: in memory, where there is such.
#ifndef MDL_TESTS_FUZZ_SCRATCH_H
#define MDL_TESTS_FUZZ_SCRATCH_H

#include <stddef.h>

#include "runtime/io.h"

// The path of a file or directory of this name, for as long as the process lives, which removes all at its end.
const char *scratch_path(const char *name);

// Puts these bytes in the place of what the file had, and returns its path.
const char *scratch_file(const char *name, const void *bytes, size_t length);

void scratch_directory(const char *name);  // makes it

// Aborts unless `error` says why something was not done, with one of the exit statuses that there are.
void scratch_answered(bool done, const Error *error);

// As text, NUL-terminated, on the heap.
char *scratch_text(const void *bytes, size_t length);

#endif
