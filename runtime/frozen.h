// frozen.h: parameters that no update changes, in checkpoints that leave them out: where they are, and what they were.
//
// A manifest names the weights that training began with, and says of each parameter that it leaves out its axes and a
// hash of its values: {"from": PATH, "mapping": PATH, "tensors": {NAME: {"axes", "shape", "xxh3_64"}}}.
#ifndef MDL_RUNTIME_FROZEN_H
#define MDL_RUNTIME_FROZEN_H

#include <jansson.h>

#include "runtime/session.h"

#define FROZEN_KEY "frozen"  // in the manifest

struct SourceOptions;

typedef struct {
  const char *name;
  int axis_count;
  const char *axis[PLAN_MAX_AXES];
  int64_t size[PLAN_MAX_AXES];
  uint64_t hash;  // of its elements as f32, or as f64 in a run of f64
  bool seen;
} FrozenTensor;

typedef struct Frozen {
  Arena *arena;
  const char *from, *mapping;  // absolute; mapping NULL: the one in the binary that fits
  ARRAY(FrozenTensor) tensors;
} Frozen;

const FrozenTensor *frozen_find(const Frozen *frozen, const char *name);  // `frozen` NULL: there is none

// Puts the weights over the parameters of a session that was initialised, and notes which of them are frozen: all of
// these must be there.
bool frozen_begin(Arena *arena, Session *session, const struct SourceOptions *options, Frozen **frozen, Buffer *notes,
                  Error *error);
// The same weights again, each frozen one as it was.
bool frozen_load(Session *session, Frozen *frozen, Error *error);

json_t *frozen_describe(const Frozen *frozen);
// What a manifest says. *frozen NULL: it leaves out nothing. False: it says something else.
bool frozen_read(Arena *arena, const json_t *manifest, Frozen **frozen);

#endif
