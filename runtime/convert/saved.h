// saved.h: the weights of a checkpoint of a run, one whole tensor after the other; with adapters merged, if wanted.
#ifndef MDL_RUNTIME_CONVERT_SAVED_H
#define MDL_RUNTIME_CONVERT_SAVED_H

#include "runtime/convert/adapters.h"
#include "runtime/convert/source.h"
#include "runtime/frozen.h"

typedef struct {
  Arena *arena;
  char run[IO_PATH_MAX], checkpoint[IO_PATH_MAX];
  json_t *manifest;
  Safetensors *file;
  ModelNumbers numbers;  // of the text of the run, or of the model whose adapters are merged
  Weights weights;       // that can be read: f32, or f64 where they are stored so; without adapters that are merged
  Weights stored;        // all that there are
  Frozen *frozen;        // where those are that the checkpoint leaves out; NULL: it holds all
  Weights left_out;
  SourceOptions trunk_options;
  WeightSource *trunk;  // of these
  Adapters adapters;    // that are merged
} Saved;

typedef struct {
  const char *from;   // a run, whose newest checkpoint is taken, or a checkpoint in one
  const char *trunk;  // where the parameters are that it leaves out; NULL: where it says
  bool alone;         // these are not wanted
} SavedOptions;

bool saved_open(Arena *arena, const SavedOptions *options, Saved *saved, Error *error);
void saved_close(Saved *saved);  // also of one that was only zeroed

// The directory of what came with the weights, as the tokenizer: of the run, else of those that its frozen parameters
// are of. False: there is none.
bool saved_kept(const Saved *saved, char path[IO_PATH_MAX]);

// The name of a parameter that is a factor of an adapter; NULL: there is none.
const char *saved_adapter(const Saved *saved, const Mapping *mapping);

// From here on weights are those of the model without adapters.
bool saved_merge(Saved *saved, const Mapping *mapping, Error *error);

// The whole parameter, dense in written order.
bool saved_read(Saved *saved, const Weight *weight, void *dense, Error *error);

#endif
