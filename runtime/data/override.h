// override.h: a file, or a pattern of files, in the place of what a recipe trains on, as `--data FILE` names one.
#ifndef MDL_RUNTIME_DATA_OVERRIDE_H
#define MDL_RUNTIME_DATA_OVERRIDE_H

#include "runtime/data/data.h"

// The table `options->path` with `options->file` in the place of its sources to train on; those to validate with stay.
// The file is read as the source was, where there is one, or as the source of a mix that names the same file; else as
// tokens, where it says that it is such a file, and as text where it certainly is none. What cannot be told is an
// error. The caller frees *described, also after errors.
bool override_describe(const DataOptions *options, char **described, Error *error);

#endif
