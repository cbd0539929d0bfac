// find.h: where the files of a recipe are: in the working directory, or else beside the text.
#ifndef MDL_RUNTIME_DATA_FIND_H
#define MDL_RUNTIME_DATA_FIND_H

#include <limits.h>

#include "runtime/device.h"

// What a file is called in errors, which advise by it.
#define DATA_FILE "data file"
#define VALIDATION_FILE "validation file"
#define TOKENIZER_FILE "tokenizer"

// The path, or base/path where it is relative and not there. What has another path than that may still not be there.
bool find_file(const char *what, const char *path, const char *base, char found[PATH_MAX], Error *error);

// The error of a file that could not be opened, by errno; false.
bool find_unreadable(const char *what, const char *path, Error *error);

// Do two names stand for the same file, or pattern of files? A run knows its own by absolute paths.
bool find_same(const char *a, const char *b, const char *base);

#endif
