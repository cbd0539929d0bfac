// checkpoint.h: the persistent state of a run as a directory that is either whole or not there.
//
//   step-00000500/model.safetensors      parameters and state of the model, by logical name, in written order
//                 optimizer.safetensors  state of the optimizer; what generate and eval do not need
//                 tuning.txt             what the devices chose by measuring; none of CPUs
//                 manifest.json          step, seed, hashes, sizes, names of axes; and a hash of all this
//
// Tensors are whole in it, whatever the layout: what was saved under one is loaded under any other.
//
// Saving writes a directory of another name, flushes everything in it and renames it, so that a crash at any moment
// leaves the older checkpoints as they were. Loading verifies sizes and hashes before it touches the device.
#ifndef MDL_RUNTIME_CHECKPOINT_H
#define MDL_RUNTIME_CHECKPOINT_H

#include "runtime/io.h"
#include "runtime/session.h"

// Of version 1 manifests have no hash of their own.
enum { CHECKPOINT_VERSION = 2, CHECKPOINT_OLDEST = 1 };
#define CHECKPOINT_TUNING "tuning.txt"

typedef struct {  // what a manifest says besides files and tensors
  int64_t step, tokens, skipped;
  int64_t batch;          // the last that was trained on; without `skip` the step
  int64_t data_bytes;     // of the data file
  int64_t metrics_bytes;  // of metrics.jsonl when this was saved
  uint64_t seed, program_hash, state_hash;
} CheckpointFacts;

// Saves as `directory`/step-NNNNNNNN, then removes the oldest so that `keep` are left (0: keeps all).
bool checkpoint_save(Io *io, Session *session, const char *directory, const CheckpointFacts *facts, int keep,
                     Error *error);

// Where the weights of a checkpoint without a session come from, one whole tensor after the other, dense.
typedef struct {
  void *context;
  bool (*read)(void *context, const PlanState *state, void *dense, Error *error);
} CheckpointSource;

// The same without state of the optimizer, which begins anew in a run that is resumed from there.
bool checkpoint_save_weights(const PlanSet *set, const CheckpointSource *source, const char *directory,
                             const CheckpointFacts *facts, Error *error);

// The newest in `directory`. *found is false, and the result true, if there is none.
bool checkpoint_newest(const char *directory, char path[IO_PATH_MAX], bool *found, Error *error);

// Loads into the session. Without `optimizer`, only what the model needs. Of weights alone, the session is initialised
// first where `optimizer` is asked for. An error names everything that does not fit.
bool checkpoint_load(Session *session, const char *path, bool optimizer, CheckpointFacts *facts, Error *error);

bool checkpoint_facts(const char *path, CheckpointFacts *facts, Error *error);

// Removes what interrupted saves left behind.
void checkpoint_clean(const char *directory);

#endif
