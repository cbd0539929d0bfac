// checkpoint_files.h: which states are in which file of a checkpoint; shared by saving and loading only.
#ifndef MDL_RUNTIME_CHECKPOINT_FILES_H
#define MDL_RUNTIME_CHECKPOINT_FILES_H

#include <jansson.h>

#include "runtime/checkpoint.h"
#include "runtime/safetensors.h"

enum { CHECKPOINT_FILE_COUNT = 2 };

typedef struct {
  const char *name;
  bool holds[3];   // by StateRole
  bool optimizer;  // only training needs it
} CheckpointFile;

extern const CheckpointFile checkpoint_files[CHECKPOINT_FILE_COUNT];

// Its name; of part `part` of several, from 1: model-00001-of-00003.safetensors.
enum { CHECKPOINT_NAME_MAX = 64, CHECKPOINT_PARTS_MAX = 99999 };
void checkpoint_part_name(const CheckpointFile *file, int part, int parts, char name[CHECKPOINT_NAME_MAX]);
// Of a checkpoint: in how many parts a file is; 0: it has none.
bool checkpoint_parts(const char *path, int parts[CHECKPOINT_FILE_COUNT], Error *error);
// All parts of checkpoint_files[file] as one, as they are.
bool checkpoint_open(const char *path, int file, Safetensors **opened, Error *error);

const char *checkpoint_role_name(StateRole role);

int64_t checkpoint_step_of_name(const char *name);  // the number of a committed checkpoint's directory, or -1

// The steps of all committed checkpoints, newest first, on the heap.
bool checkpoint_steps(const char *directory, int64_t **steps, int *count, Error *error);
// Removes what `keep` does not ask for, when the checkpoint of step `newest` was saved. False: something could not be
// removed, and the error says why.
bool checkpoint_rotate(const char *directory, const CheckpointKeep *keep, int64_t newest, Error *error);
// Of largest numbers, for scales of values of 8 bits: a run in another precision has none, or others.
bool checkpoint_is_history(const char *name);
// State that begins with zeros, where nothing is known yet, in a run that had none: histories, and losses to judge by.
bool checkpoint_begins_anew(const char *name);

#define CHECKPOINT_WEIGHTS_ALONE "weights_alone"  // in the manifest: true where there is no optimizer.safetensors
#define CHECKPOINT_MANIFEST_HASH "manifest_xxh3_64"

// Of everything that a manifest says, but for the hash itself: of its values, not of the blanks between them. False: no
// memory.
bool checkpoint_manifest_hash(json_t *root, char hex[17]);
bool checkpoint_manifest_hash_within(json_t *root, char hex[17]);  // within guarded work
// The manifest, whose hash and version hold; freed with json_decref.
bool checkpoint_manifest(const char *path, json_t **root, Error *error);

// The file of parameters and state of the model, verified; *manifest (NULL: not wanted) is freed with json_decref.
bool checkpoint_open_weights(const char *path, Safetensors **file, json_t **manifest, Error *error);

#endif
