// run_beginning.h: the weights that a run began with, for one that was ended before anything of it was saved.
#ifndef MDL_RUNTIME_RUN_BEGINNING_H
#define MDL_RUNTIME_RUN_BEGINNING_H

#include "base/arena.h"
#include "runtime/convert/source.h"

typedef struct RunBeginning {
  SourceOptions from;
  bool save_trained;
  uint64_t print;  // of weights_print; 0: not known, as of programs before
} RunBeginning;

// A hash of names, sizes and samples of what the weights are in; never 0.
bool weights_print(const SourceOptions *from, uint64_t *print, Error *error);

// What a comment of run_weights says, read back. *began false, and the result true: the run began without. An error: no
// text holds the name of a directory.
bool run_beginning(Arena *arena, const char *resolved, RunBeginning *beginning, bool *began, Error *error);
// Are the weights there, and those of then? Else the error says what to do about the run `path`.
bool run_beginning_holds(const RunBeginning *beginning, const char *path, Error *error);

#endif
