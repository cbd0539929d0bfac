// mdl.h: the C interface of libmdl: from a text to a trained model.
//
//   MdlError error;
//   MdlPlan *plan;
//   if (mdl_compile("tiny.mdl", &(MdlCompileOptions){.diagnostics = stderr}, &plan, &error) ||
//       mdl_train(plan, &(MdlTrainOptions){MDL_TRAIN_DEFAULTS}, NULL, &error)) {
//     fprintf(stderr, "%s\n", error.text);
//   }
//
// Functions that can fail return a status, MDL_DONE being 0, and then fill `error` (which may be NULL). Handles are
// opaque; what is made with an _open or a compile function is released with the function named there. Options that are
// zero or NULL mean the default said beside them. Calls on different handles may be made from different threads, except
// that mdl_train handles SIGINT and SIGTERM of the process while it runs.
#ifndef MDL_RUNTIME_MDL_H
#define MDL_RUNTIME_MDL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef enum {
  MDL_DONE = 0,
  MDL_INPUT = 1,          // a file, a text or data is wrong
  MDL_USAGE = 2,          // options that do not go together
  MDL_MEMORY = 3,         // out of memory
  MDL_DIVERGED = 4,       // training diverged
  MDL_RANK = 5,           // a rank was lost
  MDL_INTERRUPTED = 130,  // stopped by the user, after saving
} MdlStatus;

typedef struct {
  MdlStatus status;
  char text[1024];  // what was asked, what was found, what to do
} MdlError;

typedef struct MdlPlan MdlPlan;  // what one rank does, all of it decided; immutable

typedef struct {
  const char *recipe, *layout, *precision;  // NULL: as the text says
  const char *const *set;                   // "name=value"
  int set_count;
  FILE *diagnostics;  // where errors and warnings of the text go; NULL: nowhere
  bool diagnostics_json;
} MdlCompileOptions;

// Released with mdl_plan_close.
MdlStatus mdl_compile(const char *file, const MdlCompileOptions *options, MdlPlan **plan, MdlError *error);
MdlStatus mdl_plan_open(const char *path, MdlPlan **plan, MdlError *error);  // a .mdlx file
MdlStatus mdl_plan_write(const MdlPlan *plan, const char *path, MdlError *error);
void mdl_plan_close(MdlPlan *plan);
bool mdl_plan_is(const char *path);  // is this file a .mdlx?
bool mdl_run_is(const char *path);   // is this a run directory?

typedef struct {
  const char *device;  // NULL: "auto"
  const char *out;     // run directory; NULL: a fresh runs/<model>-<n>, or when resuming the newest of them
  const char *data;    // NULL: as the recipe says
  bool resume;         // continue from the newest checkpoint in the run directory
  bool profile;        // report the time in each kind of instruction
  int64_t steps, save_every, eval_every, log_every;  // negative: as the recipe says; 0: only at the end
  int64_t keep;                                      // newest checkpoints to keep; 0: all
  int64_t threads;                                   // 0: all cores
  FILE *screen;                                      // progress for people; NULL: none
} MdlTrainOptions;

#define MDL_TRAIN_DEFAULTS .steps = -1, .save_every = -1, .eval_every = -1, .log_every = -1, .keep = 3

typedef struct {
  char run[4096];  // the run directory
  int64_t step;
  double loss, val_loss;  // of the last step; NaN: none
} MdlTrainResult;

// Returns MDL_INTERRUPTED when the user stopped it; everything is saved then.
MdlStatus mdl_train(const MdlPlan *plan, const MdlTrainOptions *options, MdlTrainResult *result, MdlError *error);

typedef struct {
  const char *device;  // NULL: "auto"
  const char *data;    // all of this file; NULL: the validation part of the run's data
  int64_t batches;     // at most; 0: all
  int64_t threads;
} MdlEvaluateOptions;

typedef struct {
  double loss, perplexity, bits_per_byte;  // loss in nats per token
  int64_t step, windows, tokens;
  double seconds;
} MdlEvaluation;

// `run`: a run directory, whose newest checkpoint is taken, or a checkpoint in one.
MdlStatus mdl_evaluate(const char *run, const MdlEvaluateOptions *options, MdlEvaluation *result, MdlError *error);

typedef struct {
  const char *device;  // NULL: "auto"
  const char *prompt;  // NULL or "": a line's beginning
  int64_t tokens;      // how many to make
  double temperature;  // 0: always the likeliest
  int64_t top_k;       // choose among the likeliest k only; 0: among all
  uint64_t seed;
  int64_t threads;
} MdlGenerateOptions;

// Calls `text` with what was made, whole UTF-8 characters where it is UTF-8; false from it stops. The same seed, prompt
// and checkpoint give the same text.
MdlStatus mdl_generate(const char *run, const MdlGenerateOptions *options,
                       bool (*text)(void *context, const char *bytes, size_t length), void *context, MdlError *error);

// What a plan, a checkpoint, a .safetensors file or a run holds, in words.
MdlStatus mdl_inspect(const char *path, FILE *out, MdlError *error);

const char *mdl_version(void);

#endif
