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
// zero or NULL mean the default said beside them, and `options` that are NULL are all of these. A result may be NULL
// where the call does more than tell it; anything else that is NULL and needed is MDL_USAGE. Calls on different handles
// may be made from different threads, except that mdl_train handles SIGINT, SIGTERM, SIGHUP, SIGUSR1 and SIGXCPU of the
// process while it runs: one ends all that run at that moment. On several GPUs each rank is a process of its own: with
// libmdl.a the calling program once more, which does not come to its main; with libmdl.so the program mdl that is
// installed with it. docs/api.md has an example.
#ifndef MDL_RUNTIME_MDL_H
#define MDL_RUNTIME_MDL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef enum {
  MDL_DONE = 0,
  MDL_INPUT = 1,          // a file, a text or data is wrong
  MDL_USAGE = 2,          // options that do not go together
  MDL_MEMORY = 3,         // out of memory
  MDL_DIVERGED = 4,       // training diverged
  MDL_RANK = 5,           // a rank was lost
  MDL_DIFFERS = 6,        // a step that was repeated gave other bits
  MDL_INTERRUPTED = 130,  // stopped by the user, after saving
} MdlStatus;

typedef struct {
  MdlStatus status;
  char text[1024];  // what was asked, what was found, what to do
} MdlError;

typedef struct MdlPlan MdlPlan;  // what every rank does, all of it decided; immutable

// What is wrong with a text, or looks so. All of it belongs to the library and is good during the call that shows it.
typedef struct {
  const char *severity;  // "error", "warning", "note"
  const char *code;      // "E021"; `mdlc explain E021` shows an example
  const char *file;      // NULL: no place in a text, and the four below are 0
  int line, column;      // from 1; a column is a character
  int end_line, end_column;
  const char *message;
  const char *label, *help;  // beside the place; the fix; or NULL
} MdlDiagnostic;

typedef struct {
  const char *recipe, *layout, *precision;  // NULL: as the text says
  const char *const *set;                   // "name=value"
  int set_count;
  const char *const
      *watched;  // names of parameters whose gradients and updates are outputs, as of the recipe's `watch`
  int watch_count;
  FILE *diagnostics;  // where errors and warnings of the text go; NULL: nowhere
  bool diagnostics_json;
  // NULL: `file` is read. Else the text itself: `file` is what it is called, and what it imports and its data are
  // looked for from the directory of `file`.
  const char *text;
  // Called for each error and warning, in the order of their places, before the function returns; NULL: nobody is.
  void (*diagnostic)(void *context, const MdlDiagnostic *diagnostic);
  void *context;
} MdlCompileOptions;

// MDL_INPUT where the text has errors: they went to `diagnostics` and `diagnostic`. The options are needed during the
// call alone. Released with mdl_plan_close.
MdlStatus mdl_compile(const char *file, const MdlCompileOptions *options, MdlPlan **plan, MdlError *error);
// A .mdlx file, checked so that it may come from anybody (docs/trust.md): its machine code for GPUs is left out, and
// its kernels are compiled again where it is run. mdl_plan_open_trusted keeps the code: for plans of one's own.
MdlStatus mdl_plan_open(const char *path, MdlPlan **plan, MdlError *error);
MdlStatus mdl_plan_open_trusted(const char *path, MdlPlan **plan, MdlError *error);
bool mdl_plan_left_code(const MdlPlan *plan);  // was any left out?
MdlStatus mdl_plan_write(const MdlPlan *plan, const char *path, MdlError *error);
void mdl_plan_close(MdlPlan *plan);
bool mdl_plan_is(const char *path);  // is this file a .mdlx?
bool mdl_run_is(const char *path);   // is this a run directory?

// A run that is being trained, with all that its devices hold.
typedef struct MdlTrainer MdlTrainer;

typedef struct {
  int64_t step, steps;         // that is done, from 1; of the whole run
  int64_t tokens;              // that the run has been trained on
  int64_t skipped;             // steps whose update was not made, since gradients were not finite
  double loss, grad_norm, lr;  // of this step: loss in nats per token; NaN: the text has none
  double val_loss;             // NaN: there was no evaluation behind this step; infinite: one that gave no number
  double seconds_per_step;     // mean since the last line of the log
} MdlStep;

typedef struct {
  const char *device;  // NULL: "auto"
  const char *out;     // run directory; NULL: a fresh runs/<model>-<n>, or when resuming the newest of them
  const char *data;    // NULL: as the recipe says
  bool resume;         // continue from the newest checkpoint in the run directory
  bool restart;        // begin with step 1 in a run directory; what is there is set aside
  const char *from;    // begin with the weights of this run, checkpoint or directory of Hugging Face; NULL: fresh ones
  const char *adapters;  // and with these: of a run that saved what it trained alone, or a directory of PEFT; or NULL
  const char *trunk;     // where frozen parameters are that a run left out, which goes on; NULL: where they were
  const char *mapping;   // how a directory of Hugging Face names them: a file; NULL: the one that comes with mdl
  bool partial;          // what is missing keeps its first values, and what is left over is left out
  bool save_trained;     // with `from`: checkpoints hold what is trained alone, frozen parameters stay there
  int64_t profile;       // steps of which a trace and a table of times are made; 0: none
  int64_t steps;         // the last one, from 1 on; negative: as the recipe says
  int64_t save_every, eval_every, log_every;  // negative: as the recipe says; 0: at the end alone, lines at step 1 too
  int64_t keep;                               // newest checkpoints to keep; 0: all
  int64_t keep_every;                         // and those of steps that are a multiple of it; 0: no others
  bool keep_best;                             // and the one of the lowest validation loss
  bool sync_save;                             // training waits while a checkpoint is written
  bool blame;               // run the first bad step of several in a row again, and say which value is not finite first
  int64_t check;            // run one step of so many twice and compare bits; 0: none
  int64_t patience;         // end where so many evaluations in a row are no better than the best; 0: never
  int64_t threads;          // of all ranks together; 0: all cores
  double deadline_seconds;  // for which a rank waits for another; 0: for ever
  FILE *screen;             // progress for people; NULL: none
  FILE *lines;              // where each line of metrics.jsonl is printed as well; NULL: nowhere
  // Of mdl_train: called behind each step, when its evaluation is done and its checkpoint begun; in it, values can be
  // looked at. False from it ends the run, which is saved and can be resumed. NULL: nobody is called, and on a GPU
  // steps are begun while those before them run.
  bool (*step)(void *context, MdlTrainer *trainer, const MdlStep *step);
  void *context;
} MdlTrainOptions;

#define MDL_TRAIN_DEFAULTS \
  .steps = -1, .save_every = -1, .eval_every = -1, .log_every = -1, .keep = 3, .deadline_seconds = 60

typedef struct {
  char run[4096];  // the run directory
  int64_t step;
  double loss, val_loss;  // of the last step; NaN: none
} MdlTrainResult;

// Returns MDL_INTERRUPTED when the user stopped it; everything is saved then. `result` may be NULL.
MdlStatus mdl_train(const MdlPlan *plan, const MdlTrainOptions *options, MdlTrainResult *result, MdlError *error);

// The same a step at a time, for loops of one's own: open, step until there is none, finish, close. No signal is
// handled. The plan must outlive the trainer; of the options only `screen` and `lines` are needed beyond the call, and
// `step` is not called. After a failed step, values can be looked at and the trainer closed, no more.
MdlStatus mdl_trainer_open(const MdlPlan *plan, const MdlTrainOptions *options, MdlTrainer **trainer, MdlError *error);
// Trains one more step, with its evaluation and checkpoint where they are due. *more is false, and nothing is done,
// where all steps are.
MdlStatus mdl_trainer_step(MdlTrainer *trainer, MdlStep *step, bool *more, MdlError *error);
// A checkpoint of the newest step, where there is none yet.
MdlStatus mdl_trainer_save(MdlTrainer *trainer, MdlError *error);
// Ends the run, saved where it is not yet, and lets go of its directory. Values stay where they are until
// mdl_trainer_close. `result` may be NULL.
MdlStatus mdl_trainer_finish(MdlTrainer *trainer, MdlTrainResult *result, MdlError *error);
void mdl_trainer_close(MdlTrainer *trainer);  // without mdl_trainer_finish nothing more is saved; NULL is nothing
// The run directory, absolute, so that the working directory may change; good until mdl_trainer_finish.
const char *mdl_trainer_run(const MdlTrainer *trainer);

typedef enum {
  MDL_VALUE_PARAMETER,
  MDL_VALUE_OPTIMIZER,  // state of the optimizer
  MDL_VALUE_STATE,      // other state of the model
  // Of the newest step: loss, grad_norm, lr, skipped, outputs of the text. Before the first one of this trainer,
  // also of a run that is resumed, `data` holds nothing yet, and mdl_trainer_read is MDL_USAGE.
  MDL_VALUE_OUTPUT,
} MdlValueKind;

enum { MDL_MAX_AXES = 16 };

// A tensor with a name. Texts are good until mdl_trainer_close.
typedef struct {
  const char *name;  // layers.0.q.w, adamw.m.layers.0.q.w, loss
  MdlValueKind kind;
  const char *type;  // of an element: f64, f32, bf16, f16, e4m3, e5m2; int, index and bool are int32_t
  size_t element_bytes;
  int axis_count;
  const char *axis[MDL_MAX_AXES];  // names, in the order of the text
  int64_t size[MDL_MAX_AXES];
  int64_t stride[MDL_MAX_AXES];  // of `data`, in elements
  // Where it lies, whole, in the memory of this process: good until mdl_trainer_close, to be read only, and changed by
  // the next step. NULL: on a GPU, in another process, or in pieces on several ranks; mdl_trainer_read copies it.
  const void *data;
} MdlValue;

int mdl_trainer_value_count(const MdlTrainer *trainer);
// The index-th of them, parameters and states by name, then outputs. false: there are not so many.
bool mdl_trainer_value_at(MdlTrainer *trainer, int index, MdlValue *value);
MdlStatus mdl_trainer_value(MdlTrainer *trainer, const char *name, MdlValue *value, MdlError *error);
// Copies all of it to `to`, dense, the last axis innermost. `bytes`: what there is room for, which must be its size.
MdlStatus mdl_trainer_read(MdlTrainer *trainer, const char *name, void *to, size_t bytes, MdlError *error);

// Reads all checkpoints of a run, or one checkpoint, and says of each whether it is whole and good, a line each.
// *damaged: how many are not whole. Where one cannot be read, the others have their lines all the same.
MdlStatus mdl_verify(const char *path, FILE *out, int64_t *damaged, MdlError *error);

typedef struct {
  const char *device;  // NULL: "auto"
  const char *data;    // all of this file; NULL: the validation part of the run's data, or its validation sources
  int64_t batches;     // at most; 0: all
  int64_t threads;
  bool trust;         // run the machine code for GPUs that the run's plan has
  const char *trunk;  // where frozen parameters are that the run left out; NULL: where they were
  // Called for each output of the text that is a single number, and for each number of one of up to 64 along one axis,
  // as `name.0` and so on, once the evaluation is done; NULL: nobody is told. The name lasts until the call returns.
  void (*output)(void *context, const char *name, double value);
  void *context;
  FILE *notes;  // where doubts about `data` go, such as that it is hardly text; NULL: nowhere
} MdlEvaluateOptions;

typedef struct {
  // Where the loss is not in nats per token, since it is a sum, not made of logarithms or has other terms, the others
  // are NaN; bits_per_byte also where no tokenizer is known.
  double loss, perplexity, bits_per_byte;
  int64_t step, windows, tokens;
  double seconds;
  char data[4096];  // the file that is read; of several the first, and how many more
  double held_out;  // its last part, which the run does not train on now; 0: all of it, whatever the run has read
  int set_count;    // of validation sources that the recipe names; then the above are of all, `loss` the mean of theirs
  struct {
    char name[64], data[4096];   // a single one may have no name
    double loss, bits_per_byte;  // NaN where none of its tokens counted
    int64_t windows, all_windows, tokens;
    bool trained;  // as below
  } sets[8];
  // It, or one of its files, is what the run was trained on, now or before it went on with other data or another part
  // held out: of `data` but for the part that the run holds out; where it holds one out, of that part.
  bool trained;
  bool changed;   // the run's data is not what the weights were trained on, so what was read may, or may not, be
  char unit[48];  // of the loss: "nats per token", "a sum over the tokens of a batch", "without a unit", "nats per
                  // token and other terms"
  int64_t all_windows;  // of the data, where `batches` is no limit; `windows` of them were read
} MdlEvaluation;

// `run`: a run directory, whose newest checkpoint is taken, or a checkpoint in one.
MdlStatus mdl_evaluate(const char *run, const MdlEvaluateOptions *options, MdlEvaluation *result, MdlError *error);

typedef struct {
  const char *device;          // NULL: "auto"
  const char *prompt;          // NULL or "": a line's beginning
  const char *const *prompts;  // where there are some, each is gone on with, one after the other, in place of `prompt`
  int prompt_count;
  int64_t tokens;            // how many to make
  double temperature;        // 0: always the likeliest
  int64_t top_k;             // choose among the likeliest k only; 0: among all
  double top_p;              // among the fewest that have this share of the probability; 0 or 1: among all
  const char *const *stops;  // the text ends where one of these would stand
  int stop_count;
  const char *tokenizer;                             // a file; NULL: that of the run's data
  bool whole;                                        // every token is made from the whole text again
  FILE *notes;                                       // told why that is so, where it need not have been; NULL: nobody
  bool (*begin)(void *context, const char *prompt);  // called ahead of the text of each; false from it stops; or NULL
  uint64_t seed;
  int64_t threads;
  bool trust;  // run the machine code for GPUs that the run's plan has
  // Prompts are questions of a conversation, written as the run's data has them, and the texts are answers.
  bool chat;
  const char *system;  // what a message of the role system says ahead of a question, with `chat`; NULL: none
  const char *trunk;   // where frozen parameters are that the run left out; NULL: where they were
} MdlGenerateOptions;

// Calls `text` with what was made, whole UTF-8 characters where it is UTF-8; false from it stops. The same seed, prompt
// and checkpoint give the same text.
MdlStatus mdl_generate(const char *run, const MdlGenerateOptions *options,
                       bool (*text)(void *context, const char *bytes, size_t length), void *context, MdlError *error);

// Compiles a text under every combination of NAME=VALUE,... words and trains each a few steps: one table on `screen`.
typedef struct {
  MdlCompileOptions compile;  // what all combinations share; its diagnostics and text are not used
  const char *const *words;   // "layout=tp2,pp2", "batch=4,8"
  int word_count;
  int64_t seeds;  // every combination from the seeds 1 to this; 0: from that of the recipe
  int64_t steps;
  double tolerance;    // of the relative difference of losses after step 1; 0: as docs/cli.md says
  const char *out;     // directory of ablate.svg and ablate.jsonl; NULL: a fresh runs/ablate-N
  const char *data;    // NULL: as the recipe says
  const char *device;  // "cpu", "cuda"; NULL or "auto": GPUs if there are any
  int64_t threads;
  double deadline_seconds;
  bool dry;  // compile all, run nothing
  FILE *screen;
  FILE *lines;  // where the lines of ablate.jsonl are printed at the end; NULL: nowhere
  FILE *notes;  // where warnings of the text and notes on the data are said at the end, each once; NULL: nowhere
} MdlAblateOptions;

typedef struct {
  int rows, good;      // combinations; those that were trained, or where nothing is run, compiled
  int differ, failed;  // those with other losses than they must have; that did not compile or run
} MdlAblateResult;

// Returns MDL_INTERRUPTED when the user stopped it; what there is was shown and written then.
MdlStatus mdl_ablate(const char *file, const MdlAblateOptions *options, MdlAblateResult *result, MdlError *error);

// Finds the first value in which two things differ beyond rounding. `words`: two runs, checkpoints or .safetensors
// files; or one or two texts and NAME=VALUE,... words, of which the first value is that of one side and the second of
// the other.
typedef struct {
  MdlCompileOptions compile;  // what both share; its diagnostics and text are not used
  const char *const *words;
  int word_count;
  int64_t step;      // of training, from 1: the first that is compared
  int64_t steps;     // how many are; 0: one
  bool all, exact;   // show every value; allow no rounding
  double budget;     // so many times the usual rounding; 0: once
  const char *data;  // NULL: as the recipe says
  int64_t threads;
  double deadline_seconds;
  FILE *out;
} MdlDiffOptions;

MdlStatus mdl_diff(const MdlDiffOptions *options, bool *differ, MdlError *error);

// What a plan, a checkpoint, a .safetensors file or a run holds, in words.
MdlStatus mdl_inspect(const char *path, FILE *out, MdlError *error);

typedef struct {
  const char *const *files;  // text, or with `field` JSON lines; packed or not; "-" is standard input
  int file_count;
  const char *field;      // of each line's object, which is a document; NULL: a file is one
  const char *out;        // the file that is made
  const char *tokenizer;  // a file; NULL or "bytes": tokens are bytes
  const char *type;       // "u16", "u32"; NULL: the narrower one that holds all tokens
  bool raw;               // without a header
  FILE *screen;           // progress; NULL: none
  bool chat;              // files are lines of conversations; `out`.mask tells of each token whether it is of an answer
  const char *chat_template;  // how these are written; NULL: as the tokenizer's tokens say
  FILE *notes;                // told of text that is hardly any, and of messages that others call answers; NULL: nobody
} MdlEncodeOptions;

typedef struct {
  int64_t bytes, text_bytes, documents, tokens;
  const char *type;
  bool ends;  // a token ends each document
  double seconds;
} MdlEncoded;

// Makes a file of tokens, whole or not at all.
MdlStatus mdl_encode(const MdlEncodeOptions *options, MdlEncoded *result, MdlError *error);

typedef struct {
  const char *const *files;
  int file_count;
  const char *field, *out;  // as above; `out` is a tokenizer.json
  const char *pattern;      // how text is cut: "gpt2", "llama3", "qwen"; NULL: "llama3"
  int64_t vocabulary;       // tokens; at least 258
  FILE *screen;
  FILE *notes;  // told of text that is hardly any; NULL: nobody
} MdlTokenizerOptions;

typedef struct {
  int64_t bytes, text_bytes, documents, pieces, tokens;
  double seconds;
} MdlTokenizerResult;

// Trains a tokenizer by byte pair encoding. The same text gives the same one.
MdlStatus mdl_train_tokenizer(const MdlTokenizerOptions *options, MdlTokenizerResult *result, MdlError *error);

// Between runs and directories of Hugging Face (docs/convert.md).
typedef struct {
  const char *from;           // a directory of Hugging Face
  const char *out;            // run directory; NULL: a fresh runs/<model>-<n>
  const char *model;          // a text of one's own; NULL: the one that comes with mdl, with a recipe that is made
  const char *mapping;        // a file; NULL: the one beside `model`, else the one that comes with mdl
  const char *data;           // of that recipe; NULL: train.txt
  const char *adapters;       // put over the weights: a directory of PEFT; or NULL
  MdlCompileOptions compile;  // of the text
} MdlImportOptions;

typedef struct {
  char run[4096], mapping[256], model[64];
  char note[1024];  // why its tokenizer is not used; or ""
  double parameters;
  int64_t sequence, longest;  // positions of the recipe; that config.json allows, 0: it does not say
  bool tokenizer;
  char begin[64];  // the token that transformers puts ahead of a text, and nothing here; ""
} MdlImported;

MdlStatus mdl_import(const MdlImportOptions *options, MdlImported *result, MdlError *error);

typedef struct {
  const char *from;     // a run, whose newest checkpoint is taken, or a checkpoint in one
  const char *out;      // the directory that is made
  const char *mapping;  // a file; NULL: the one that fits of those that come with mdl
  const char *dtype;    // "f32", "bf16", "f16"; NULL: f32
  int64_t shard_bytes;  // of a file of weights; 0: 5 GB
  bool merge;           // adapters are added to the weights beside them
  bool peft;            // a directory of PEFT is made, of adapters alone
  const char *trunk;    // where frozen parameters are that the run left out; NULL: where they were
} MdlExportOptions;

typedef struct {
  char type[64], mapping[256];
  int tensors, files;
  int64_t bytes, step;
  bool tokenizer;
  bool base;           // of PEFT: the configuration names the directory of the model
  bool own_tokenizer;  // it is that of the data of the run, and came with no weights
  int not_finite;      // tensors with numbers that are NaN or infinite
} MdlExported;

typedef struct {
  const char *from;     // a run of a model with adapters, or a checkpoint in one
  const char *out;      // run directory; NULL: a fresh runs/<model>-<n>
  const char *mapping;  // a file; NULL: the one that comes with mdl
  const char *trunk;    // where frozen parameters are that the run left out; NULL: where they were
} MdlMergeOptions;

typedef struct {
  char run[4096], mapping[256], model[64];
  double parameters;
  int adapters;  // that were added to weights
  int64_t step;
} MdlMerged;

MdlStatus mdl_merge(const MdlMergeOptions *options, MdlMerged *result, MdlError *error);

MdlStatus mdl_export(const MdlExportOptions *options, MdlExported *result, MdlError *error);

const char *mdl_version(void);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
