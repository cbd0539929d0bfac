// files.h: the files that a pattern names, as `data tokens("shards/*.bin")` does.
#ifndef MDL_RUNTIME_DATA_FILES_H
#define MDL_RUNTIME_DATA_FILES_H

#include <limits.h>

#include "runtime/device.h"

enum { FILES_MOST = 4096 };

typedef struct {
  char placed[PATH_MAX];  // the pattern, from the root on
  int count;
  bool none;  // nothing fits, which is the error
  char **at;  // paths in the order of their bytes
} Files;

// Is it a pattern, with * ? or [ in it, and not the name of a file that is there?
bool files_pattern(const char *path, const char *base);

// The files of a pattern, in the working directory or else beside the text (`base`); *files is freed also after errors.
// `what` names them for errors.
bool files_find(const char *what, const char *pattern, const char *base, Files *files, Error *error);
void files_free(Files *files);

// The same pattern from the root on. False: nothing fits it.
bool files_place(const char *pattern, const char *base, char placed[PATH_MAX]);

#endif
