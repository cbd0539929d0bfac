// validation.h: the loss over each of the sources that a recipe validates with.
#ifndef MDL_RUNTIME_VALIDATION_H
#define MDL_RUNTIME_VALIDATION_H

#include "runtime/evaluate.h"

typedef struct {                     // zero-initialise
  int count;                         // 0: there is nothing to validate with
  const char *name[DATA_SETS_MOST];  // "": the recipe gives none
  const Data *data[DATA_SETS_MOST];
  Feed *feed[DATA_SETS_MOST];
  Evaluation result[DATA_SETS_MOST];
} Validation;

bool validation_open(Validation *validation, const PlanSet *set, const Data *data, Error *error);
void validation_close(Validation *validation);
// Batches of an evaluation, which are of one microbatch each, for so many of the recipe's; 0 is no limit.
int64_t validation_limit(const Plan *plan, int64_t batches);
// evaluate_run of each, `limit` batches of each; `all` is what they are together: the mean of their losses, each
// counted once but for those without an answer in these batches (tokens 0), and sums. `shown`, where it is not NULL,
// gets the means of outputs, of the sources that have any (evaluate_has).
bool validation_run(Validation *validation, Session *session, int64_t limit, ShownList *shown, Evaluation *all,
                    Error *error);
// Does one of the windows that these would read have an answer? Where a model counts all targets, every window does.
bool validation_answers(const Validation *validation, int64_t limit, bool *any, Error *error);

#endif
