// diff.h: the first value, in the order of the program, in which two layouts, texts, runs or checkpoints differ.
//
// The error of a tensor is its largest difference, relative to its largest element. Its budget is 16 eps times a
// growth, eps being that of the coarsest format in which either keeps or multiplies numbers. Within a step, growth is 1
// + log2 depth: depth is the number of operations on the longest way to the value, twice that of the loss for gradients
// and what is updated with them. Rounding of sums in another order stays far below that; a wrong term does not. For
// runs and checkpoints growth is 4 (1 + steps), at most 5000: training amplifies rounding.
//
// Gradients are measured against the largest of their tensor, or a hundredth of the largest of all, whichever is more.
// Elements of updated tensors may also differ by 4 times the share of their change that their gradient's budget is of
// their gradient, and are left out where that is all of it: optimizers divide by the size of the gradient.
#ifndef MDL_RUNTIME_DIFF_H
#define MDL_RUNTIME_DIFF_H

#include <stdio.h>

#include "runtime/choices.h"
#include "runtime/trial.h"

typedef struct {
  CompileOptions base;
  const char *const *words;  // one or two texts and NAME=VALUE,... words; or two runs, checkpoints, .safetensors files
  int word_count;
  int64_t step;      // the first that is compared
  int64_t steps;     // how many
  bool all, exact;   // show every value; budgets of 0
  double budget;     // so many times the usual ones; 0: once
  const char *data;  // NULL: what the recipe names
  int threads;
  double deadline_seconds;
  FILE *out;
  // For tests, which make them wrong: sees the plans of a side before they are run. NULL: nothing does.
  void (*spoil)(void *context, int side, bool values, PlanSet *set);
  void *context;
} DiffOptions;

// *differ: there is a difference beyond the budgets.
bool diff_run(const DiffOptions *options, bool *differ, Error *error);

// --- between its files ---

typedef struct {
  const char *name;
  ElementType type;
  int axis_count;
  const char *axis[PLAN_MAX_AXES];  // NULL: not known
  int64_t size[PLAN_MAX_AXES];
  int64_t count;
  double *data;  // dense in this order
} DiffTensor;

enum { DIFF_NAMES_SHOWN = 4 };

typedef struct {
  int count;
  const char *name[DIFF_NAMES_SHOWN];  // the first of them
} DiffNames;

typedef struct {
  const DiffOptions *options;
  const char *label[2];
  const char *when;   // " at step 2": where in the comparison it is; "" where there is but one place
  const char *scope;  // what was compared, in words; NULL: no more than what is counted
  const char *worst_name;
  double worst;  // in budgets, of those within
  int compared, beyond, same;
  int odd;           // of those beyond: values of which ranks have different ones
  bool not_trained;  // what is beyond is not so in the plan that is trained
  int64_t elements;
  DiffNames more;                       // states that differ too
  DiffNames alone[2], neither, unlike;  // not compared: of one side alone; of none, though asked for; of other axes
} Diff;

typedef struct {
  const char *what, *line;  // "value layers.0.h"; "small.mdl:13" or ""
  double growth, scale;     // scale: at least this is the largest element
  const double *slack;      // by element: how much more it may differ; NULL: nothing
} DiffFacts;

double diff_eps(ElementType a, ElementType b);  // of the coarser
double diff_budget(const Diff *diff, ElementType a, ElementType b, double growth);
double diff_growth(double depth);
double diff_growth_of_runs(double steps);
double diff_largest(const DiffTensor *tensor);

// Compares, shows with --all, and shows the first beyond its budget. False: it is beyond, and no more is asked for.
bool diff_tensors(Diff *diff, const DiffTensor *a, const DiffTensor *b, const DiffFacts *facts);
void diff_other(Diff *diff, const char *name, const char *why);       // not comparable: a difference
void diff_odd(Diff *diff, const char *name, int side, int64_t rank);  // ranks of one side do not agree: a difference
void diff_heading(const Diff *diff, const char *what);                // of what --all shows
void diff_name(DiffNames *names, const char *name);
void diff_end(const Diff *diff);

bool diff_texts(Diff *diff, const CompileOptions options[2], Error *error);
bool diff_saved(Diff *diff, const char *const path[2], Error *error);

#endif
