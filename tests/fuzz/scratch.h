// scratch.h: files that readers want, in memory (memory_files.h).
#ifndef MDL_TESTS_FUZZ_SCRATCH_H
#define MDL_TESTS_FUZZ_SCRATCH_H

#include <stddef.h>

#include "runtime/io.h"

// The path of a file or directory of this name, for as long as the process lives.
const char *scratch_path(const char *name);

// Puts these bytes in the place of what the file had, and returns its path.
const char *scratch_file(const char *name, const void *bytes, size_t length);

void scratch_remove(const char *name);

// For what writes a directory at once: makes one that is none in memory. The other takes the files of one in there as
// those of `name`, and removes what scratch_begin made.
const char *scratch_begin(void);
void scratch_adopt(const char *from, const char *name);

// Aborts unless `error` says why something was not done, with one of the exit statuses that there are.
void scratch_answered(bool done, const Error *error);

// As text, NUL-terminated, on the heap.
char *scratch_text(const void *bytes, size_t length);

#endif
