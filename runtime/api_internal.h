// api_internal.h: what the files behind mdl.h share.
#ifndef MDL_RUNTIME_API_INTERNAL_H
#define MDL_RUNTIME_API_INTERNAL_H

#include "base/buffer.h"
#include "base/numeric.h"
#include "compiler/plan/options.h"
#include "runtime/mdl.h"
#include "runtime/session.h"

struct MdlPlan {
  Arena *arena;
  PlanSet *set;
  double compile_seconds;
  CompileOptions *text;  // what it was compiled from, in the arena; NULL: it was read from a file
  const Diag *diag;      // what was said of that text; NULL too
  bool left_code;        // its file has machine code, which is not in `set`
};

// Is an option that counts something from 0 to `most`?
bool api_count(const char *name, int64_t number, int64_t most, Error *error);

// Is it a time to wait for, or 0?
bool api_seconds(double seconds, Error *error);

// Is there what a call cannot do without? `name` is what it is called in mdl.h.
bool api_given(const char *name, const void *given, Error *error);

// Has a list that is said to have so many texts these?
bool api_list(const char *name, const char *const *list, int count, Error *error);

// The lists of the options of compiling.
bool api_compile_lists(const MdlCompileOptions *options, Error *error);

// A line of its own for each note, and none where nothing was made. Frees them.
void api_notes(FILE *out, bool done, Buffer *notes);

// The status of a call, its message copied to the caller.
MdlStatus api_result(bool done, const Error *from, MdlError *to);

#endif
