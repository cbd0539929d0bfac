// step_outputs.h: the outputs of a training step, which an evaluation that comes after it does not change.
//
// Programs have their inputs and outputs in the same memory: what one leaves there, the next one overwrites. Around an
// evaluation the outputs of the step are kept, and put back where they lie in the memory of this process, so that
// whoever looks at them there finds them again; elsewhere they are read from the copy until the next step.
#ifndef MDL_RUNTIME_STEP_OUTPUTS_H
#define MDL_RUNTIME_STEP_OUTPUTS_H

#include "runtime/session.h"

typedef struct {
  int count;
  struct StepOutput *at;
  bool keeps;  // the copy holds those of the newest step
} StepOutputs;

// Memory for a copy of all outputs of PROGRAM_TRAIN.
bool step_outputs_open(StepOutputs *outputs, const Session *session, Error *error);
void step_outputs_close(StepOutputs *outputs);  // also of one that was only zeroed

// The newest training step is done, and nothing was run since.
bool step_outputs_keep(StepOutputs *outputs, Session *session, Error *error);
// Another program was run, or has failed.
void step_outputs_restore(const StepOutputs *outputs, const Session *session);
// The next step begins.
void step_outputs_drop(StepOutputs *outputs);

// Reads plan_output_bytes of an output of PROGRAM_TRAIN, as they lie there.
bool step_outputs_read(const StepOutputs *outputs, Session *session, const char *name, void *to, Error *error);

#endif
