// stdlib.h: the standard library's text, embedded in the binary by the build.
#ifndef MDL_LANG_STDLIB_H
#define MDL_LANG_STDLIB_H

#include <stddef.h>

typedef struct {
  const char *name;  // "nn" for stdlib/nn.mdl
  const char *text;
  size_t length;
} StdlibFile;

extern const StdlibFile stdlib_files[];  // ends with a NULL name

#endif
