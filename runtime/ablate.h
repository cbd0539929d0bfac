// ablate.h: one text under every combination of layouts, precisions, recipes and settings: one table, one picture.
//
// Rows that differ in layout and precision alone must give the same losses but for rounding; those that do not are
// marked. Rows that do not compile or fail stay in the table with what is wrong. On GPUs a row is trained by a process
// for each rank, as train does it, and rows of more ranks than there are GPUs are not run.
#ifndef MDL_RUNTIME_ABLATE_H
#define MDL_RUNTIME_ABLATE_H

#include "runtime/choices.h"
#include "runtime/data/data.h"
#include "runtime/io.h"
#include "runtime/log.h"

typedef struct {
  CompileOptions base;
  const char *const *words;  // NAME=VALUE,...
  int word_count;
  int64_t seeds;  // every combination from the seeds 1 to this; 0: from that of the recipe
  int64_t steps;
  double tolerance;  // relative, after step 1; a tenth of it at step 1. 0: the default
  const char *out;   // directory; NULL: the first free runs/ablate-N
  const char *data;  // NULL: what the recipe names
  int threads;       // of all ranks together; 0: all cores
  double deadline_seconds;
  bool dry;  // what the plans say alone: nothing is run
  FILE *screen;
  FILE *lines;         // where the records of all rows are printed at the end; NULL: nowhere
  FILE *notes;         // where warnings and notes of rows are said at the end, each once; NULL: nowhere
  const char *device;  // see backend_choose_all
  // Instead of `device`, for tests; and how many of them there are.
  const Backend *backend;
  int devices;
} AblateOptions;

typedef enum {
  ROW_WAITS,    // not reached
  ROW_PLANNED,  // compiled, and nothing else is asked for
  ROW_DONE,
  ROW_STOPPED,
  ROW_FAILED,
  ROW_ILLEGAL,  // of a sweep of the layout: the text does not allow this size
  ROW_ABSENT,   // more ranks than devices
} RowState;

typedef enum {
  VERDICT_NONE,     // nothing to compare with
  VERDICT_SAME,     // within the tolerance
  VERDICT_DIFFERS,  // beyond it
  VERDICT_SHOWN,    // another computation: the difference is shown and not judged
} Verdict;

typedef struct {  // a number that an evaluation has beside its loss
  const char *name;
  double value;
} AblateOutput;

// What a row and the one that it is compared with are computed in.
typedef enum { PRECISIONS_SAME, PRECISIONS_REALS, PRECISIONS_COARSE, PRECISIONS_COUNT } Precisions;

typedef struct {              // what a validation loss is of
  int64_t windows, sequence;  // of all sources together; tokens of a window
  double held_out;            // of the data, from its end; 0: sources of their own
  uint64_t number;            // that is the same where the windows are (trained_windows)
} AblateWindows;

typedef struct {
  int pick[CHOICES_MAX];
  const char *name;  // "layout=tp2 batch=8"
  CompileOptions options;
  RowState state;
  const char *problem;  // why it was not run or failed, one line; else NULL
  int note_count;
  const char **notes;          // "warning: ..." of its text and "note: ..." of its data
  int64_t ranks, steps;        // steps that were made
  int64_t schedule;            // steps of its recipe
  double *loss;                // [steps]
  ElementType real, coarsest;  // see plan.h
  int stages, microbatches;
  double wire;                      // bytes that a rank sends in a step, rings assumed: the most of any stage
  double memory;                    // bytes of all arenas of a rank: the most of any stage
  double bubble;                    // predicted idle share; NaN: no pipeline
  double seconds, compile_seconds;  // of a step after the first, the median; of compiling
  double tokens, flops;             // of a step, of all ranks together
  double validation;                // loss after the last step; NaN: there is none
  int output_count;                 // losses of validation sources with names, and outputs of the text, then
  AblateOutput *outputs;
  double taken;       // bytes that a rank took for the plan: the most of any; NaN: not known
  double beside;      // bytes that it took beside the plan, of drivers and libraries
  double peak_flops;  // of a device, a second; NaN: not known
  double exposed;     // seconds of a step in communication that nothing hides, mean of ranks; NaN
  int against;        // row that it is compared with, or -1
  Verdict verdict;
  double last, most;  // relative difference of the last loss; of the worst mean of losses up to a step
  int64_t most_step;  // the last of that mean
  double most_loss, most_other;
  double first_tolerance, tolerance;
  Precisions precisions;  // that these are for
  double parameters;      // count
  bool bounded;           // a capacity of the layout leaves out what the text computes
  bool validates;         // it has a loss of validation, finite or not
  AblateWindows windows;  // of that
  LossUnit unit;          // of its loss
  const char *data;       // what it reads and in which tokens
  int rank;               // of its group; 0: none
} AblateRow;

typedef struct {  // rows that differ in their seed alone
  int row, seeds;
  double mean, spread;  // of their validation losses, or else of their last losses; the standard deviation, or NaN
  bool near;            // behind the best by less than twice the standard error
} AblateGroup;

typedef struct {
  Arena *arena;
  const AblateOptions *options;
  Choices choices;
  int count;
  AblateRow *rows;
  const Backend *backend;  // NULL: dry
  int devices;             // 0: ranks are threads of this process
  char device[96];         // what it is called, once a row has opened it
  char directory[IO_PATH_MAX];
  int lock;         // on the directory that was named; -1: none
  int group_count;  // the best first; 0: nothing to rank
  AblateGroup *groups;
  bool validated;      // groups are ranked by validation losses
  bool incomparable;   // rows read different data or tokens, or have sums over other batches
  bool other_windows;  // they are ranked by validation losses of other windows of the same data
  bool more_terms;     // losses of some rows have other terms than the cross entropy
  Log log;
} Ablate;

typedef struct {
  int rows, good, differ, failed;  // good: done, or legal where nothing is run
  bool interrupted;
} AblateResult;

bool ablate_run(const AblateOptions *options, AblateResult *result, Error *error);

// --- between its files ---

typedef enum { LOSSES_MEANS, LOSSES_SUMS, LOSSES_PLAIN, LOSSES_BOTH } AblateLosses;
AblateLosses ablate_losses(const Ablate *ablate);  // of rows that have some

// What the plans say: ranks, bytes, bubble.
void ablate_measure(Arena *arena, const PlanSet *set, AblateRow *row);
void ablate_row(Ablate *ablate, AblateRow *row);         // compiles and runs it
void ablate_compare(Ablate *ablate);                     // fills against, verdict, last, most
void ablate_rank(Ablate *ablate);                        // fills groups, and ranks of rows
void ablate_ranking(const Ablate *ablate, Buffer *out);  // their table

// Keep what the compiler warns of in a row, and what its data is probably not meant to be. `masks`: the model reads
// which tokens are of answers.
void ablate_doubt_text(Ablate *ablate, AblateRow *row, const Diag *diag);
bool ablate_doubt_data(Ablate *ablate, AblateRow *row, const Data *data, bool masks, Error *error);
void ablate_doubts(const Ablate *ablate);  // says each once, with the rows it is of where others have it not

// The losses up to step `end` that are compared as their mean: those of the steps behind this one, a sixteenth.
static inline int64_t ablate_mean_begin(int64_t end) {
  return end - 1 - end / 16;
}

void ablate_table(const Ablate *ablate, Buffer *out);            // with ANSI colours
void ablate_notes(const Ablate *ablate, Buffer *out);            // what stands below it
bool ablate_record(const Ablate *ablate, int row, Buffer *out);  // one line of JSON; false: no memory
void ablate_chart(const Ablate *ablate, Buffer *out);            // SVG

#endif
