// trained_of.h: what weights were trained on, by their checkpoint and the text of its run.
#ifndef MDL_RUNTIME_TRAINED_OF_H
#define MDL_RUNTIME_TRAINED_OF_H

#include "runtime/checkpoint.h"

// Is this what is in a run's resolved.mdl when it saves checkpoints of this program? Behind a text stand names of files
// that options gave.
bool trained_text(const char *text, uint64_t program_hash);

// Adds what a checkpoint was trained on. Where it knows its last data alone, as those of programs before, all of that
// but for what `text` holds out; NULL: nobody knows its text.
void trained_of(const CheckpointFacts *facts, const char *text, Trained *trained);

// The same of a run, whose newest checkpoint is taken, or of a checkpoint in one, with frozen parameters that it leaves
// out. Directories of Hugging Face and of PEFT say nothing of it. An error: what is there cannot be read.
bool trained_of_weights(const char *path, Trained *trained, Error *error);

#endif
