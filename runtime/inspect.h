// inspect.h: files of this program in words.
#ifndef MDL_RUNTIME_INSPECT_H
#define MDL_RUNTIME_INSPECT_H

#include "base/buffer.h"
#include "runtime/device.h"

// A plan (.mdlx), a checkpoint directory, a .safetensors file or a run directory.
bool inspect_path(const char *path, Buffer *out, Error *error);

// Part of the above: the run, mesh, memory, programs, instructions, messages and largest states of plans.
void inspect_plans(const PlanSet *set, Buffer *out);

#endif
