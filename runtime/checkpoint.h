// checkpoint.h: the persistent state of a run as a directory that is either whole or not there.
//
//   step-00000500/model.safetensors      parameters and state of the model, by logical name, in written order
//                 optimizer.safetensors  state of the optimizer; what generate and eval do not need
//                 tuning.txt             what the devices chose by measuring; none of CPUs
//                 manifest.json          step, seed, hashes, sizes, names of axes; and a hash of all this
//
// Tensors are whole in it, whatever the layout: what was saved under one is loaded under any other. Files of tensors
// have up to 2 GiB, or one tensor: where there is more, it is in model-00001-of-00003.safetensors and so on, which are
// written at the same time, since a file is written by one thread at a time. All of them are open at once, so that
// where there would be more than 128 of a kind they are larger.
//
// Saving writes a directory of another name, flushes everything in it and renames it, so that a crash at any moment
// leaves the older checkpoints as they were. Loading verifies sizes and hashes before it touches the device.
#ifndef MDL_RUNTIME_CHECKPOINT_H
#define MDL_RUNTIME_CHECKPOINT_H

#include "runtime/io.h"
#include "runtime/states.h"
#include "runtime/trained.h"

// Of version 1 manifests have no hash of their own. Of version 3 there are several files of tensors of a kind; where
// there is one of each, version 2 is written.
enum { CHECKPOINT_VERSION = 3, CHECKPOINT_WHOLE = 2, CHECKPOINT_OLDEST = 1 };
#define CHECKPOINT_TUNING "tuning.txt"

typedef struct {  // what a manifest says besides files and tensors
  int64_t step, tokens, skipped;
  int64_t batch;          // the last that was trained on; without `skip` the step
  int64_t data_bytes;     // of the data file
  int64_t metrics_bytes;  // of metrics.jsonl when this was saved
  int64_t bad_steps;      // in a row, up to this one: the loss was not finite or the update was not made
  int64_t version;        // of the manifest, when it is read
  uint64_t seed, program_hash, state_hash;
  uint64_t text_hash;                                   // of resolved.mdl as this is of (run_text_hash); 0: not known
  uint64_t data_hash, tokenizer_hash, validation_hash;  // fingerprints (data/fingerprint.h); 0: not known, or none
  Trained trained;          // the data that it was trained on up to this step; empty: not known
  double val_loss;          // of an evaluation at this step; NaN: there was none
  uint64_t validated_with;  // the number of the windows it is of (trained_windows); 0: not known
  int64_t validated_from;   // behind this step all validation losses are of those
  bool kept;                // it is of a step that was to be kept, whatever is asked for later
  bool keeps_best;          // the run was asked to keep the one of the lowest validation loss, here or before
  // The first parameter, or state of the optimizer, that holds a number which is not finite; empty: none does. Saving
  // looks, and fills this in.
  char not_finite[96];
  // Of saving: why an older one that was to be removed is still there; empty: none is.
  char stays[256];
  const struct Frozen *frozen;  // of saving: parameters that are left out (frozen.h); NULL: none
  bool spike_losses;            // of reading: it has those that `spike` judges by
  bool damaged;  // reading failed since the checkpoint is not what was saved; not since memory or the disk failed
} CheckpointFacts;

typedef struct {            // what stays when a checkpoint was saved; the newest good one always does
  int newest;               // so many; 0: all
  int64_t every;            // and those of steps that are a multiple of this, or were of another before; 0: no others
  bool best;                // and the finite one of the lowest validation loss, of each windows that losses are of
  uint64_t validated_with;  // the windows of checkpoints that do not say of which theirs is
  int64_t validated_from;   // behind this step; those before are of others
} CheckpointKeep;

// Saves as `directory`/step-NNNNNNNN, then removes what `keep` (NULL: all stay) does not ask for.
bool checkpoint_save(Io *io, Session *session, const char *directory, CheckpointFacts *facts,
                     const CheckpointKeep *keep, Error *error);

// The same from what the ranks held at some moment, and what their devices had chosen (session_record). Of any thread.
bool checkpoint_save_from(Io *io, const StateReader *reader, const Buffer *tuning, const char *directory,
                          CheckpointFacts *facts, const CheckpointKeep *keep, Error *error);

typedef struct {
  double val_loss;
  uint64_t validated_with;  // as CheckpointFacts has them
  int64_t validated_from;
} CheckpointLoss;

// The validation loss of a checkpoint that was saved before it was evaluated: its manifest is replaced, in one step,
// and its tensors and all else that it says stay as they are. *amended false, and the result true: it has one already.
bool checkpoint_amend(Io *io, const char *path, const CheckpointLoss *loss, bool *amended, Error *error);

// Where the weights of a checkpoint without a session come from, one whole tensor after the other, dense.
typedef struct {
  void *context;
  bool (*read)(void *context, const PlanState *state, void *dense, Error *error);
} CheckpointSource;

// The same without state of the optimizer, which begins anew in a run that is resumed from there.
bool checkpoint_save_weights(const PlanSet *set, const CheckpointSource *source, const char *directory,
                             CheckpointFacts *facts, Error *error);

// All numbers are finite, and the steps before it were no bad ones.
bool checkpoint_is_good(const CheckpointFacts *facts);

// The newest in `directory` but for those of numbers that are not finite, unless all are. *found is false, and the
// result true, if there is none.
bool checkpoint_newest_good(const char *directory, int64_t *step, Error *error);  // -1: none is
bool checkpoint_newest(const char *directory, char path[IO_PATH_MAX], bool *found, Error *error);

// The lowest validation loss of the finite ones, as CheckpointKeep has it; infinite: none was evaluated.
bool checkpoint_best(const char *directory, uint64_t validated_with, int64_t validated_from, double *least,
                     Error *error);

// Loads the newest that is whole and finite. `notes`: a line for each that was passed over; damaged ones are renamed to
// damaged-NNNNNNNN. False too where there are some and none will do.
bool checkpoint_resume(Session *session, const char *directory, char path[IO_PATH_MAX], bool *found,
                       CheckpointFacts *facts, Buffer *notes, Error *error);

// Loads into the session. Without `optimizer`, only what the model needs. Of weights alone, the session is initialised
// first where `optimizer` is asked for. An error names everything that does not fit.
bool checkpoint_load(Session *session, const char *path, bool optimizer, CheckpointFacts *facts, Error *error);

// Where the parameters are that a checkpoint leaves out; *frozen NULL: it holds all.
bool checkpoint_frozen(Arena *arena, const char *path, struct Frozen **frozen, Error *error);

bool checkpoint_facts(const char *path, CheckpointFacts *facts, Error *error);

// Reads all of it: sizes, hashes, and names and shapes against the manifest. Needs no plan.
bool checkpoint_verify(const char *path, CheckpointFacts *facts, Error *error);

// Removes what interrupted saves left behind; a checkpoint that one had put aside for another of its step has its name
// back, if that is not there.
void checkpoint_clean(const char *directory);

#endif
