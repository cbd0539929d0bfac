// diff_side.h: one side of a comparison of texts: what was compiled and trained, read as dense tensors.
#ifndef MDL_RUNTIME_DIFF_SIDE_H
#define MDL_RUNTIME_DIFF_SIDE_H

#include "runtime/diff.h"
#include "runtime/states.h"

typedef struct {
  Trial trial;
  States states;
  CompiledValues values;  // that are outputs; empty of a plan that is trained
  int number;             // 0 or 1
} Side;

// Compiles, opens and initialises; `values`: with the outputs that are compared. False: nothing to be compared.
bool side_open(Side *side, Arena *arena, const CompileOptions *compile, bool values, const DiffOptions *options,
               Error *error);
void side_close(Side *side);  // also of one that was only zeroed

// *found is false if no rank has it; *odd is a rank that has something else than the first that has it, or -1.
bool side_output(Arena *arena, Side *side, ProgramKind program, const char *name, DiffTensor *tensor, bool *found,
                 int64_t *odd, Error *error);
// *odd is a rank that holds something else than the one that is read, or -1.
bool side_state(Arena *arena, Side *side, const LogicalState *state, DiffTensor *tensor, int64_t *odd, Error *error);
bool side_set_state(Arena *scratch, Side *side, const LogicalState *state, const DiffTensor *tensor, Error *error);

// What is computed by way of a coarser format is no better than that.
void side_set_digits(const Side *side, DiffTensor *tensor);

// Gives both the same axes and sizes. slots: of a value, the microbatches of each side: one of several is a sum over
// them, so that of fewer becomes it. Other differences of size are none of these.
bool diff_make_alike(Arena *arena, DiffTensor *a, DiffTensor *b, const int slots[2]);

#endif
