// artefact.h: the plans of all stages as one file, .mdlx.
//
// Layout (little-endian): 8 bytes "MDLX\r\n\x1a\n"; u32 PLAN_VERSION; u32 0; u64 payload bytes; u64 XXH3-64 of the
// payload; payload. The payload is the plans, field by field, strings as u32 length + bytes. No pointers, no padding.
// Kernels are written once for all plans, and the texts of a plan only where they are not those of the first.
// What was compiled for GPUs ahead of time stands at the end, once for all plans.
#ifndef MDL_COMPILER_PLAN_ARTEFACT_H
#define MDL_COMPILER_PLAN_ARTEFACT_H

#include "compiler/plan/plan.h"

// Writes atomically (temporary file, fsync, rename). On failure returns false and sets *why to arena text.
bool artefact_write(Arena *arena, const PlanSet *set, const char *path, const char **why);

// Reads and checks everything: magic, version, length, hash, and with plan_set_verify that every index and count inside
// is in range, so that plans that load cannot crash the runtime. On failure returns NULL and sets *why to one sentence
// that names the cause. Sources come back with path and text.
PlanSet *artefact_read(Arena *arena, const char *path, const char **why);

// True if the file begins with the magic.
bool artefact_is(const char *path);

#endif
