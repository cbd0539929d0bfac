// artefact.h: the plans of all stages as one file, .mdlx.
//
// Sealed bytes (sealed.h) with the magic "MDLX\r\n\x1a\n" and the version PLAN_VERSION. The payload is the plans, field
// by field, strings as u32 length + bytes. No pointers, no padding. Kernels are written once for all plans, and the
// texts of a plan only where they are not those of the first. What was compiled for GPUs ahead of time stands at the
// end, once for all plans.
#ifndef MDL_COMPILER_PLAN_ARTEFACT_H
#define MDL_COMPILER_PLAN_ARTEFACT_H

#include "base/buffer.h"
#include "compiler/plan/plan.h"

// Writes atomically (temporary file, fsync, rename). On failure returns false and sets *why to arena text.
bool artefact_write(Arena *arena, const PlanSet *set, const char *path, const char **why);

// The same to a buffer that is empty before; false: no memory.
bool artefact_write_bytes(Arena *arena, const PlanSet *set, Buffer *out);

// Reads and checks everything: magic, version, length, hash, and with plan_set_verify that every index and count inside
// is in range, so that plans that load cannot crash the runtime. On failure returns NULL and sets *why to one sentence
// that names the cause. Sources come back with path and text.
PlanSet *artefact_read(Arena *arena, const char *path, const char **why);
// The same of bytes in memory; `what` names them in *why.
PlanSet *artefact_read_bytes(Arena *arena, const void *bytes, size_t length, const char *what, const char **why);

// Leaves out the machine code that was compiled for GPUs, which nothing here can check: its kernels are then made of
// the plan itself. Returns whether there was any.
bool artefact_leave_code(PlanSet *set);

// The plan of one stage as the same bytes in memory, with its kernels, names and sources: all that a rank needs to run
// it. Written to a buffer that is empty before; false: no memory. Read with the same checks, but for those of several
// stages against each other; `what` names the bytes in *why.
bool artefact_write_stage(Arena *arena, const Plan *plan, Buffer *out);
const Plan *artefact_read_stage(Arena *arena, const void *bytes, size_t length, const char *what, const char **why);

// True if the file begins with the magic.
bool artefact_is(const char *path);

#endif
