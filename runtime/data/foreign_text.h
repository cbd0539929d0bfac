// foreign_text.h: files that are given as text and are obviously something else.
#ifndef MDL_RUNTIME_DATA_FOREIGN_TEXT_H
#define MDL_RUNTIME_DATA_FOREIGN_TEXT_H

#include "runtime/device.h"

// False, with an error that says what an open file is and what to write, if it begins as packed files, files of tokens,
// Parquet and archives do. Nothing is said of its name.
bool foreign_text_check(int fd, const char *path, int64_t bytes, Error *error);

#endif
