// api_internal.h: what the files behind mdl.h share.
#ifndef MDL_RUNTIME_API_INTERNAL_H
#define MDL_RUNTIME_API_INTERNAL_H

#include "base/numeric.h"
#include "compiler/plan/options.h"
#include "runtime/mdl.h"
#include "runtime/session.h"

struct MdlPlan {
  Arena *arena;
  PlanSet *set;
  double compile_seconds;
  CompileOptions *text;  // what it was compiled from, in the arena; NULL: it was read from a file
  bool left_code;        // its file has machine code, which is not in `set`
};

// Is an option that counts something from 0 to `most`?
bool api_count(const char *name, int64_t number, int64_t most, Error *error);

// The status of a call, its message copied to the caller.
MdlStatus api_result(bool done, const Error *from, MdlError *to);

#endif
