// evaluate.h: the loss over validation data.
#ifndef MDL_RUNTIME_EVALUATE_H
#define MDL_RUNTIME_EVALUATE_H

#include "runtime/feed.h"
#include "runtime/shown.h"

typedef struct {
  double loss;  // NaN if there was nothing to evaluate
  LossUnit unit;
  int64_t batches, windows, tokens;  // tokens: targets that count
  int64_t bytes;                     // of text, of these tokens; -1: not known
  double seconds;
} Evaluation;

// Runs the evaluation program over validation windows from the first on: those of `limit` full batches, or all with 0.
// Windows that fill no batch count once each: the rest of it is masked where the model has a mask, else repeats them.
// Stops early, without error, when the user asks to stop.
// `shown`, where it is not NULL, gets the means of outputs of that program: as the loss, of batches by their windows.
bool evaluate_run(Session *session, Feed *feed, const Data *data, int64_t limit, ShownList *shown, Evaluation *result,
                  Error *error);
bool evaluate_has(const Shown *shown);  // had it a number in one of the batches?

// "nats per token", "a sum over the tokens of a batch", "without a unit" or "nats per token and other terms".
const char *evaluate_unit(LossUnit unit);

LossUnit evaluate_unit_of(const PlanSet *set);  // of what evaluations of these plans have

// NaN: the loss is not in nats per token, or nobody knows the text of the tokens.
double evaluate_bits_per_byte(const Evaluation *evaluation);

#endif
