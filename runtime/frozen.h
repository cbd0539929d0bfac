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
  bool mixed;                  // while it is noted: they are in several directories
  ARRAY(FrozenTensor) tensors;
} Frozen;

// Is this what it was? `hashed`: f32, or f64 in a run of f64.
bool frozen_is(const FrozenTensor *was, ElementType hashed, ElementType type, const void *elements, int64_t count);
// The error that a checkpoint's frozen parameters are not where it says, in `from`, and what to do.
bool frozen_lost(const char *checkpoint, const char *from, const Error *why, Error *error);

const FrozenTensor *frozen_find(const Frozen *frozen, const char *name);  // `frozen` NULL: there is none

// Puts the weights over the parameters of a session that was initialised, and notes which of them are frozen. Those
// that the weights lack keep their first values, and checkpoints hold them. All others are in one directory.
bool frozen_begin(Arena *arena, Session *session, const struct SourceOptions *options, Frozen **frozen, Buffer *notes,
                  Error *error);
// The same weights again, each frozen one as it was, from session->trunk if that is given.
bool frozen_load(Session *session, const char *checkpoint, Frozen *frozen, Error *error);
// They are in another directory now, `trunk`, or where that checkpoint says that all of them are; `trunk` NULL:
// they are not. An error where there are none.
bool frozen_moved(Frozen *frozen, const char *trunk, Error *error);
// Can a manifest name the directory, and the mapping? Else nothing could be saved. NULL: nothing is left out.
bool frozen_named(const Frozen *frozen, Error *error);

json_t *frozen_describe(const Frozen *frozen);
// What a manifest says. *frozen NULL: it leaves out nothing. False: it says something else.
bool frozen_read(Arena *arena, const json_t *manifest, Frozen **frozen);

#endif
