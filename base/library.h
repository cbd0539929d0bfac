// library.h: shared libraries that are opened while the program runs, and their functions by name.
//
// A program that only may need a library (a driver, a vendor's BLAS) opens it here, so that it starts on machines that
// do not have it and can say what is missing. Where the system's loader does not find it, the folders named in the
// environment variable MDL_LIBRARY_PATH (with : between them) are tried.
#ifndef MDL_BASE_LIBRARY_H
#define MDL_BASE_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

typedef struct {
  const char *name;  // of the function
  size_t offset;     // of its pointer in the table
  bool optional;     // stays NULL where the library lacks it
} LibrarySymbol;

// Opens the first of `names` (NULL ends them) that there is and fills the function pointers of `table`. The handle is
// kept open until the process ends if it is not closed. On failure fills `message` with which library or function is
// missing, and why, and returns false.
bool library_open(const char *const *names, const LibrarySymbol *symbols, int count, void *table, void **handle,
                  char *message, size_t message_size);
void library_close(void *handle);  // NULL: nothing

#endif
