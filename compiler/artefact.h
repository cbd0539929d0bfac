// artefact.h: a plan as one file, .mdlx.
//
// Layout (little-endian): 8 bytes "MDLX\r\n\x1a\n"; u32 PLAN_VERSION; u32 0; u64 payload bytes; u64 XXH3-64 of the
// payload; payload. The payload is the plan, field by field, strings as u32 length + bytes. No pointers, no padding.
#ifndef MDL_COMPILER_ARTEFACT_H
#define MDL_COMPILER_ARTEFACT_H

#include "compiler/plan.h"

// Writes atomically (temporary file, fsync, rename). On failure returns false and sets *why to arena text.
bool artefact_write(Arena *arena, const Plan *plan, const char *path, const char **why);

// Reads and checks everything: magic, version, length, hash, and that every index and count inside is in range
// (kernels verified, places inside their arenas), so that a plan that loads cannot crash the runtime. On failure
// returns NULL and sets *why to one sentence that names the cause. Sources come back with path and text.
Plan *artefact_read(Arena *arena, const char *path, const char **why);

// True if the file begins with the magic.
bool artefact_is(const char *path);

#endif
