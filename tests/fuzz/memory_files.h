// memory_files.h: files of a process that are memory, so that an input of a reader costs no call of the system.
//
// Calls of the C library that name a path below MEMORY_FILES, or a file that was opened there, are answered here: the
// linker wraps them (MDL_READERS_WRAPPED in tests/CMakeLists.txt). Directories are there when a file in them is.
// One thread at a time.
#ifndef MDL_TESTS_FUZZ_MEMORY_FILES_H
#define MDL_TESTS_FUZZ_MEMORY_FILES_H

#include <stdbool.h>
#include <stddef.h>

#define MEMORY_FILES "/memory-files"

// Puts these bytes in the place of what the file had; it is made if it is not there.
void memory_file_put(const char *path, const void *bytes, size_t length);

void memory_file_remove(const char *path);  // if it is there

// While it is on, the working directory has no files: what an input names must not depend on where a soak is begun.
void memory_files_alone(bool on);

int memory_files_open(void);  // how many are open: none, after an input

#endif
