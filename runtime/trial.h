// trial.h: a text compiled and trained for a few steps on its data, without a run directory.
#ifndef MDL_RUNTIME_TRIAL_H
#define MDL_RUNTIME_TRIAL_H

#include "base/diag.h"
#include "compiler/compile.h"
#include "runtime/feed.h"

typedef struct {
  Arena *arena;  // of everything the compiler made; NULL before trial_compile
  Diag *diag;
  PlanSet *set;
  Session session;
  Data *data;
  Feed *feed;
} Trial;

// On failure the error is the first one of the text: "file:line: E021: what is wrong".
bool trial_compile(Trial *trial, const CompileOptions *options, Error *error);

// Opens data and session and runs the program `initialise`. `data` NULL: what the recipe names.
bool trial_open(Trial *trial, const char *data, int threads, double deadline_seconds, Error *error);

bool trial_step(Trial *trial, int64_t step, double *loss, Error *error);
void trial_close(Trial *trial);  // also of one that was only zeroed

// The first error of a Diag as one line; "" without one.
void trial_problem(const Diag *diag, char text[ERROR_MAX]);

// "small.mdl:13" of a span; the name of the file alone, without its directories. "" for SPAN_NONE.
const char *trial_line(Arena *arena, const Diag *diag, Span span);

#endif
