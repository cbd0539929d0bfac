// checkpoint_write.h: the files of a checkpoint, written by several threads together; shared by saving only.
//
// A thread takes the next tensor, puts it together, writes it at its place in its file, and waits for its turn to add
// it to the file's hash. So the bytes are the same however many threads there are, and whatever their pace.
#ifndef MDL_RUNTIME_CHECKPOINT_WRITE_H
#define MDL_RUNTIME_CHECKPOINT_WRITE_H

#include "runtime/checkpoint_files.h"

typedef struct {
  char name[CHECKPOINT_NAME_MAX];
  int64_t bytes;
  char hash[17];
} Written;

typedef struct {  // files that are written, for the manifest; freed by checkpoint_written_free
  Written *at;
  int count, parts;  // parts: of those, that are one of several
} WrittenList;

void checkpoint_written_free(WrittenList *files);

typedef struct {  // what is saved: the state of all ranks, or weights that come from elsewhere
  const PlanSet *set;
  const CheckpointSource *source;  // NULL: the ranks. Without state of the optimizer
  const StateReader *reader;       // of the ranks
  const Buffer *tuning;            // what devices chose by measuring, if they did
} Saved;

// Makes the files of tensors and of the tuning in a directory, flushes each, and lists them. Of tensors it says in
// facts->not_finite which is the first that holds a number that is not finite. A reader that is not concurrent is read
// from by the calling thread alone.
bool checkpoint_write(Io *io, const Saved *saved, const States *states, const char *directory, CheckpointFacts *facts,
                      WrittenList *files, Error *error);

#endif
