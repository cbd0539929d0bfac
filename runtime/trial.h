// trial.h: a text compiled and trained for a few steps on its data, without a run directory.
#ifndef MDL_RUNTIME_TRIAL_H
#define MDL_RUNTIME_TRIAL_H

#include "base/diag.h"
#include "compiler/compile.h"
#include "runtime/validation.h"

typedef struct {
  Arena *arena;  // of everything the compiler made; NULL before trial_compile
  Diag *diag;
  PlanSet *set;
  Session session;
  Data *data;
  Feed *feed;
  Validation validation;
} Trial;

typedef struct {
  const char *data;        // NULL: what the recipe names
  const Backend *backend;  // NULL: the CPU. One that wants processes has one for each rank, also for a single one
  int threads;             // of all ranks together; 0: all cores
  double deadline_seconds;
  bool validates;  // also opens what trial_validate needs
} TrialOptions;

// On failure the error is the first one of the text: "file:line: E021: what is wrong".
bool trial_compile(Trial *trial, const CompileOptions *options, Error *error);

// Opens data and session and runs the program `initialise`.
bool trial_open(Trial *trial, const TrialOptions *options, Error *error);

// A step and its loss; or in two parts, as session_submit and session_wait are.
bool trial_step(Trial *trial, int64_t step, double *loss, Error *error);
bool trial_submit(Trial *trial, int64_t step, Error *error);
bool trial_collect(Trial *trial, int behind, double *loss, Error *error);
// The loss of the validation windows that `mdl train` evaluates; NaN: there are none. `shown`, where it is not NULL,
// gets the means of outputs; closed by the caller.
bool trial_validate(Trial *trial, ShownList *shown, double *loss, Error *error);
void trial_close(Trial *trial);  // also of one that was only zeroed

// What is said of a text, or the first error of it, as one line: "file:line: E021: what is wrong; what helps"; ""
// without.
void trial_said(const Diag *diag, const Diagnostic *said, char text[ERROR_MAX]);
void trial_problem(const Diag *diag, char text[ERROR_MAX]);

// "small.mdl:13" of a span; the name of the file alone, without its directories. "" for SPAN_NONE.
const char *trial_line(Arena *arena, const Diag *diag, Span span);

#endif
