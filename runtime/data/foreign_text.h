// foreign_text.h: files that are given as text and are obviously something else.
#ifndef MDL_RUNTIME_DATA_FOREIGN_TEXT_H
#define MDL_RUNTIME_DATA_FOREIGN_TEXT_H

#include "runtime/device.h"

enum { FOREIGN_TEXT_LOOK = 264 };  // bytes from the beginning that are looked at

// False, with an error that says what a file is and what to write, if it begins as packed files, files of tokens,
// Parquet and archives do. Nothing is said of its name. `packs`: what stands here was unpacked, if it could be.
bool foreign_text_check(const char *path, const char *text, size_t length, bool packs, Error *error);

#endif
