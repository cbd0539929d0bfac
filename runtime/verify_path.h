// verify_path.h: `mdl verify`: all checkpoints of a run, read and judged.
#ifndef MDL_RUNTIME_VERIFY_PATH_H
#define MDL_RUNTIME_VERIFY_PATH_H

#include "base/buffer.h"
#include "runtime/device.h"

// A run directory, or a checkpoint. A line for each checkpoint; *damaged: how many are not what was saved. False where
// something could not be read for another reason.
bool verify_path(const char *path, Buffer *out, int64_t *damaged, Error *error);

#endif
