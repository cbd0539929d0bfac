// train_command.c: options of `mdl train`, and what it says when it is done.
#include "runtime/train_command.h"

#include <signal.h>
#include <string.h>
#include <sys/stat.h>

#include "base/json.h"
#include "runtime/convert_command.h"
#include "runtime/eval_command.h"
#include "runtime/run.h"

MdlCompileOptions mdl_options_of(const CommandFlags *flags) {
  return (MdlCompileOptions){.recipe = flags->recipe,
                             .layout = flags->layout,
                             .precision = flags->precision,
                             .set = flags->set.at,
                             .set_count = flags->set.count,
                             .watched = flags->watched.at,
                             .watch_count = flags->watched.count,
                             .diagnostics = stderr,
                             .diagnostics_json = flags->diagnostics && strcmp(flags->diagnostics, "json") == 0};
}

static int train_report(const MdlError *error) {
  if (error->status != MDL_DONE) {
    fprintf(stderr, "mdl: %s\n", error->text);
  }
  return (int)error->status;
}

static const Option train_options[] = {
    {"device", 0, OPTION_TEXT, "cpu|cuda|auto", offsetof(TrainValues, device), 0, "where to train (default: auto)"},
    {"threads", 0, OPTION_INTEGER, "N", offsetof(TrainValues, threads), 0, "processor threads (default: all cores)"},
    {"steps", 0, OPTION_INTEGER, "N", offsetof(TrainValues, steps), 1,
     "stop after step N; learning rate schedules stay as the text says"},
    {"out", 'o', OPTION_TEXT, "DIR", offsetof(TrainValues, out), 0,
     "the run directory (default: a fresh runs/MODEL-N)"},
    {"resume", 0, OPTION_FLAG, NULL, offsetof(TrainValues, resume), 0,
     "continue from the newest checkpoint of the run directory; without --out, of the newest runs/MODEL-N"},
    {"restart", 0, OPTION_FLAG, NULL, offsetof(TrainValues, restart), 0,
     "begin with step 1 in the directory of a run; its checkpoints and metrics are moved to before-N in it"},
    {"from", 0, OPTION_TEXT, "DIR", offsetof(TrainValues, from), 0,
     "begin with the weights of DIR: a run, a checkpoint, a directory of Hugging Face, or adapters alone"},
    {"adapters", 0, OPTION_TEXT, "DIR", offsetof(TrainValues, adapters), 0,
     "with --from: and with these adapters: a run that saved what it trained alone, or a directory of PEFT"},
    {"partial", 0, OPTION_FLAG, NULL, offsetof(TrainValues, partial), 0,
     "with --from: parameters that DIR lacks keep their first values, and what the model lacks is left out"},
    {"save-trained", 0, OPTION_FLAG, NULL, offsetof(TrainValues, save_trained), 0,
     "with --from: checkpoints hold what is trained alone; frozen parameters stay in DIR, and are looked for there"},
    TRUNK_OPTION(TrainValues),
    {"mapping", 0, OPTION_TEXT, "FILE.hf", offsetof(TrainValues, mapping), 0,
     "with --from: how a directory of Hugging Face names weights (default: beside FILE, else of those built in)"},
    {"data", 0, OPTION_TEXT, "FILE", offsetof(TrainValues, data), 0, "other data than the recipe names"},
    {"save-every", 0, OPTION_INTEGER, "N", offsetof(TrainValues, save_every), 0,
     "steps between checkpoints; 0: only at the end"},
    {"eval-every", 0, OPTION_INTEGER, "N", offsetof(TrainValues, eval_every), 0,
     "steps between evaluations; 0: only at the end"},
    {"patience", 0, OPTION_INTEGER, "N", offsetof(TrainValues, patience), 1,
     "stop, with status 0, where N evaluations in a row are no better than the best before them"},
    {"log-every", 0, OPTION_INTEGER, "N", offsetof(TrainValues, log_every), 1, "steps between lines of metrics"},
    {"keep", 0, OPTION_INTEGER, "N", offsetof(TrainValues, keep), 0,
     "how many of the newest checkpoints to keep (default: 3; 0: all); the newest good one always stays"},
    {"keep-every", 0, OPTION_INTEGER, "N", offsetof(TrainValues, keep_every), 0,
     "keep those of steps that are a multiple of N too"},
    {"keep-best", 0, OPTION_FLAG, NULL, offsetof(TrainValues, keep_best), 0,
     "keep the one of the lowest validation loss too, and save when an evaluation finds a lower one"},
    {"sync-save", 0, OPTION_FLAG, NULL, offsetof(TrainValues, sync_save), 0,
     "wait while a checkpoint is written (default: a copy is written while training goes on)"},
    {"blame", 0, OPTION_FLAG, NULL, offsetof(TrainValues, blame), 0,
     "run a step that is not finite once more, and name the first value that is not, its operation and its line"},
    {"check", 0, OPTION_INTEGER, "N", offsetof(TrainValues, check), 1,
     "run one step in N twice on the same data; where bits differ the run ends with status 6, and the rank is named"},
    {"deadline", 0, OPTION_NUMBER, "SECONDS", offsetof(TrainValues, deadline), 0,
     "how long a rank waits for another before the run ends with status 5 (default: 60; 0: for ever)"},
    TRUST_OPTION(TrainValues),
    {"profile", 0, OPTION_INTEGER, "N", offsetof(TrainValues, profile), 0,
     "time N steps instruction by instruction: a table, and profile.json for Perfetto in the run's directory"},
    QUIET_OPTION(TrainValues),
    JSON_OPTION(TrainValues, "the lines of metrics.jsonl, then how the run ended"),
};

const TrainValues train_defaults = {
    .steps = -1, .save_every = -1, .eval_every = -1, .log_every = -1, .keep = 3, .deadline = 60};

const OptionGroup train_groups[TRAIN_GROUP_COUNT] = {
    {"Options", train_options, sizeof train_options / sizeof *train_options, 0}, COMMAND_GROUP(TrainValues, compile)};

static bool is_directory(const char *path) {
  struct stat info;
  return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

// A run whose plan cannot be used may still have the text of it.
static void text_hint(const char *run) {
  char text[4096];
  struct stat info;
  char from[4096], out[4096];
  if (snprintf(text, sizeof text, "%s/resolved.mdl", run) < (int)sizeof text && stat(text, &info) == 0 &&
      S_ISREG(info.st_mode)) {
    fprintf(stderr,
            "mdl train: the text of the run is there: `mdl train %s --out %s --resume` compiles it and goes on\n",
            buffer_word(from, sizeof from, text), buffer_word(out, sizeof out, run));
  }
}

// The plan of a FILE, a PLAN.mdlx or a run directory. `out` becomes the run's directory in the last case.
static int train_plan(const TrainValues *values, const char *input, MdlPlan **plan, const char **out) {
  MdlError error;
  char path[4096];
  const size_t length = strlen(input);
  const bool run = mdl_run_is(input), named = length >= 5 && strcmp(input + length - 5, ".mdlx") == 0;
  Error unseen = {0};
  bool seen;
  if (!run && is_directory(input) && !io_find_in(input, "plan.mdlx", &seen, &unseen)) {
    fprintf(stderr, "mdl train: %s\n", unseen.text);
    return unseen.status == 3 ? STATUS_MEMORY : STATUS_INPUT;
  }
  if (!run && is_directory(input)) {
    char hint[RUN_HINT_MAX];
    fprintf(stderr, "mdl train: the directory %s is no run: it holds no plan.mdlx%s\n", input, run_hint(input, hint));
    return STATUS_INPUT;
  }
  if (!run && !named && !mdl_plan_is(input)) {
    MdlCompileOptions options = mdl_options_of(&values->compile);
    MdlStatus status = mdl_compile(input, &options, plan, &error);
    return status == MDL_INPUT ? STATUS_INPUT
           : status            ? train_report(&error)
                               : STATUS_DONE;  // errors of the text are shown
  }
  const char *option = command_text_only(&values->compile);
  if (option) {
    fprintf(stderr, "mdl train: %s is compiled already: %s needs the text; give the .mdl file\n", input, option);
    return STATUS_USAGE;
  }
  if (run && !values->resume && !values->restart) {
    fprintf(stderr, "mdl train: %s is a run; give --resume to continue it, or --restart to begin anew\n", input);
    return STATUS_USAGE;
  }
  if (run && values->out) {
    fprintf(stderr, "mdl train: %s is a run and is continued there; leave --out away\n", input);
    return STATUS_USAGE;
  }
  if (snprintf(path, sizeof path, "%s%s", input, run ? "/plan.mdlx" : "") >= (int)sizeof path) {
    fprintf(stderr, "mdl train: the path is too long: %s\n", input);
    return STATUS_INPUT;
  }
  *out = run ? input : *out;
  if ((values->trust ? mdl_plan_open_trusted : mdl_plan_open)(path, plan, &error)) {
    const int status = train_report(&error);
    if (run && status == STATUS_INPUT) {
      text_hint(input);
    }
    return status;
  }
  if (mdl_plan_left_code(*plan)) {
    fprintf(stderr,
            "mdl train: the machine code in %s is not run: a GPU's kernels are compiled again; --trust runs it\n",
            path);
  }
  return STATUS_DONE;
}

static bool train_options_fit(const TrainValues *train) {
  const char *why = NULL;
  if (train->from && train->resume) {
    why = "--from begins a run and --resume goes on with one; leave one of them out";
  } else if (!train->from && (train->partial || train->save_trained || train->mapping || train->adapters)) {
    why = "--adapters, --partial, --save-trained and --mapping say how weights are taken --from DIR; give that";
  } else if (train->trunk && !train->resume) {
    why = "--trunk says where frozen parameters are of a run that is gone on with; give --resume";
  }
  if (why) {
    fprintf(stderr, "mdl train: %s\n", why);
  }
  return !why;
}

typedef struct {
  const MdlTrainResult *result;
  bool interrupted;
} TrainSaying;

static json_t *train_json(void *context) {
  const TrainSaying *saying = context;
  return json_pack("{s:o, s:I, s:o, s:o, s:b}", "run", json_text(saying->result->run), "step",
                   (json_int_t)saying->result->step, "loss", json_finite(saying->result->loss), "val_loss",
                   json_finite(saying->result->val_loss), "interrupted", (int)saying->interrupted);
}

int train_main(Arena *arena, const void *values, const OptionList *arguments) {
  const TrainValues *train = values;
  MdlPlan *plan = NULL;
  const char *out = train->out;
  if (!train_options_fit(train)) {
    return STATUS_USAGE;
  }
  signal(SIGPIPE, SIG_IGN);  // training goes on without a reader
  int status = train_plan(train, arguments->at[0], &plan, &out);
  if (status != STATUS_DONE) {
    return status;
  }
  MdlError error;
  MdlTrainOptions options = {
      .device = train->device,
      .out = out,
      .data = train->data,
      .resume = train->resume,
      .restart = train->restart,
      .keep_every = train->keep_every,
      .keep_best = train->keep_best,
      .sync_save = train->sync_save,
      .blame = train->blame,
      .check = train->check,
      .from = train->from,
      .adapters = train->adapters,
      .trunk = train->trunk,
      .mapping = train->mapping || !train->from ? train->mapping : convert_beside(arena, arguments->at[0]),
      .partial = train->partial,
      .save_trained = train->save_trained,
      .profile = train->profile,
      .steps = train->steps,
      .save_every = train->save_every,
      .eval_every = train->eval_every,
      .log_every = train->log_every,
      .keep = train->keep,
      .patience = train->patience,
      .threads = train->threads,
      .deadline_seconds = train->deadline,
      .screen = train->quiet || train->json ? NULL : stdout,
      .lines = train->json ? stdout : NULL};
  MdlTrainResult result;
  MdlStatus done = mdl_train(plan, &options, &result, &error);
  mdl_plan_close(plan);
  train_report(&error);
  TrainSaying saying = {&result, done == MDL_INTERRUPTED};
  if (train->json && (done == MDL_DONE || done == MDL_INTERRUPTED) &&
      !json_line(stdout, "mdl train", train_json, &saying)) {
    return STATUS_MEMORY;
  }
  return (int)done;
}
