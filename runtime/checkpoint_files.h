// checkpoint_files.h: which states are in which file of a checkpoint; shared by saving and loading only.
#ifndef MDL_RUNTIME_CHECKPOINT_FILES_H
#define MDL_RUNTIME_CHECKPOINT_FILES_H

#include "runtime/checkpoint.h"

enum { CHECKPOINT_FILE_COUNT = 2 };

typedef struct {
  const char *name;
  bool holds[3];   // by StateRole
  bool optimizer;  // only training needs it
} CheckpointFile;

extern const CheckpointFile checkpoint_files[CHECKPOINT_FILE_COUNT];

const char *checkpoint_role_name(StateRole role);

#endif
