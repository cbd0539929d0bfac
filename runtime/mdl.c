// mdl.c: the program mdl: tables of its commands, each a thin layer over mdl.h.
#include "runtime/mdl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/options.h"
#include "base/plain.h"
#include "compiler/command.h"
#include "runtime/convert_command.h"
#include "runtime/crew.h"
#include "runtime/data_command.h"
#include "runtime/eval_command.h"
#include "runtime/train_command.h"

#define GROUP(title, table) \
  { title, table, sizeof table / sizeof *table, 0 }
#define GROUPS(table) .groups = table, .group_count = sizeof table / sizeof *table

static int report(const MdlError *error) {
  if (error->status != MDL_DONE) {
    fprintf(stderr, "mdl: %s\n", error->text);
  }
  return (int)error->status;
}

typedef struct {
  OptionList prompts, stops;
  const char *file, *device, *tokenizer;
  int64_t tokens, top_k, seed, threads;
  double temperature, top_p;
  const char *system;
  const char *trunk;
  bool whole, json, trust, chat;
} GenerateValues;

static const Option generate_options[] = {
    {"prompt", 'p', OPTION_LIST, "TEXT", offsetof(GenerateValues, prompts), 0,
     "the beginning (default: the start of a line); given again, one more text"},
    {"prompts", 0, OPTION_TEXT, "FILE", offsetof(GenerateValues, file), 0, "a text for each line of FILE as well"},
    {"tokens", 'n', OPTION_INTEGER, "N", offsetof(GenerateValues, tokens), 0, "how many to make (default: 256)"},
    {"temperature", 't', OPTION_NUMBER, "T", offsetof(GenerateValues, temperature), 0,
     "0: always the likeliest; 1: as the model says (default: 0.8)"},
    {"top-k", 0, OPTION_INTEGER, "K", offsetof(GenerateValues, top_k), 0,
     "choose among the K likeliest only (default: 0, all)"},
    {"top-p", 0, OPTION_NUMBER, "P", offsetof(GenerateValues, top_p), 0,
     "choose among the fewest that together have probability P only, above 0 to 1 (default: 1, all)"},
    {"stop", 0, OPTION_LIST, "TEXT", offsetof(GenerateValues, stops), 0,
     "end where TEXT would stand; may be given again"},
    {"chat", 0, OPTION_FLAG, NULL, offsetof(GenerateValues, chat), 0,
     "prompts are questions of a conversation, written as the run's data has them; the answer is printed alone"},
    {"system", 0, OPTION_TEXT, "TEXT", offsetof(GenerateValues, system), 0,
     "with --chat: what a message of the role system says ahead of each question"},
    {"seed", 0, OPTION_INTEGER, "S", offsetof(GenerateValues, seed), 0, "another S, another text (default: 1)"},
    {"device", 0, OPTION_TEXT, "cpu|cuda|auto", offsetof(GenerateValues, device), 0, "where to run (default: auto)"},
    {"threads", 0, OPTION_INTEGER, "N", offsetof(GenerateValues, threads), 0, "processor threads (default: all cores)"},
    {"tokenizer", 0, OPTION_TEXT, "FILE", offsetof(GenerateValues, tokenizer), 0,
     "which text tokens are: a tokenizer.json, a rank file of tiktoken, a .model of SentencePiece, or `bytes` "
     "(default: as the run's data)"},
    {"whole", 0, OPTION_FLAG, NULL, offsetof(GenerateValues, whole), 0,
     "make every token from the whole text again, and keep no keys and values"},
    TRUNK_OPTION(GenerateValues),
    TRUST_OPTION(GenerateValues),
    JSON_OPTION(GenerateValues, "`prompt` and `text` of each"),
};

static const GenerateValues generate_defaults = {.tokens = 256, .temperature = 0.8, .top_p = 1, .seed = 1};

typedef struct {
  FILE *out;
  int begun;  // texts so far
  bool json, chat;
  bool starved;        // no memory for a text, which was said
  const char *prompt;  // of the newest, and its text, where they are printed as JSON
  Buffer text;
} Printer;

static json_t *generate_json(void *context) {
  const Printer *printer = context;
  return printer->text.failed
             ? NULL
             : json_pack("{s:o, s:o}", "prompt", json_text(printer->prompt), "text",
                         json_bytes(printer->text.text ? printer->text.text : "", printer->text.length));
}

// Prints the text that is whole now.
static bool generate_flush(Printer *printer) {
  if (!printer->json || printer->begun == 0) {
    return true;
  }
  const bool done = json_line(printer->out, "mdl generate", generate_json, printer);
  printer->starved |= !done;
  buffer_free(&printer->text);
  return done;
}

static bool generate_print(void *context, const char *bytes, size_t length) {
  FILE *out = ((Printer *)context)->out;
  if (((Printer *)context)->json) {
    buffer_bytes(&((Printer *)context)->text, bytes, length);
    return true;
  }
  return fwrite(bytes, 1, length, out) == length && fflush(out) == 0;
}

// Between texts there is an empty line.
static bool generate_begin(void *context, const char *prompt) {
  Printer *printer = context;
  if (printer->json) {
    const bool done = generate_flush(printer);
    printer->begun++;
    printer->prompt = prompt ? prompt : "";
    return done;
  }
  return (printer->begun++ == 0 || fputs("\n\n", printer->out) >= 0) &&
         (!prompt || printer->chat || fputs(prompt, printer->out) >= 0);
}

// Adds the lines of a file, but for empty ones.
static bool generate_prompts(Arena *arena, const char *path, OptionList *prompts) {
  FileError error;
  size_t length;
  char *text = file_read_text(path, false, &length, &error);
  if (!text) {
    fprintf(stderr, "mdl: %s\n", error.text);
    return false;
  }
  if (memchr(text, 0, length)) {  // what is behind one would be left out without a word
    fprintf(stderr, "mdl: %s holds zero bytes: it is no text with a prompt in each line\n", path);
    free(text);
    return false;
  }
  const char **all = ARENA_ARRAY(arena, const char *, (size_t)prompts->count + length + 1);
  int count = prompts->count;
  for (int i = 0; i < count; i++) {
    all[i] = prompts->at[i];
  }
  for (const char *line = text; *line;) {
    const size_t size = strcspn(line, "\r\n");
    if (size > 0) {
      all[count++] = arena_format(arena, "%.*s", (int)size, line);
    }
    line += size + (line[size] != 0);
  }
  free(text);
  *prompts = (OptionList){all, count};
  return count > 0 || (fprintf(stderr, "mdl: %s has no line to go on with\n", path), false);
}

static int generate_main(Arena *arena, const void *values, const OptionList *arguments) {
  const GenerateValues *generate = values;
  OptionList prompts = generate->prompts;
  Printer printer = {.out = stdout, .json = generate->json, .chat = generate->chat};
  MdlError error;
  if (!(generate->top_p > 0 && generate->top_p <= 1)) {
    fprintf(stderr, "mdl generate: --top-p is a probability above 0 and at most 1 (the default: among all), not %g\n",
            generate->top_p);
    return STATUS_USAGE;
  }
  for (int i = 0; i < generate->stops.count; i++) {
    if (!*generate->stops.at[i]) {
      fprintf(stderr, "mdl generate: --stop needs a text: an empty one would end what is made before it begins\n");
      return STATUS_USAGE;
    }
  }
  if (generate->system && !generate->chat) {
    fprintf(stderr, "mdl generate: --system is for --chat\n");
    return STATUS_USAGE;
  }
  if (generate->chat && prompts.count == 0 && !generate->file) {
    fprintf(stderr, "mdl generate: --chat needs a question: --prompt TEXT or --prompts FILE\n");
    return STATUS_USAGE;
  }
  if (generate->file && !generate_prompts(arena, generate->file, &prompts)) {
    return STATUS_INPUT;
  }
  MdlGenerateOptions options = {.device = generate->device,
                                .prompts = prompts.at,
                                .prompt_count = prompts.count,
                                .tokens = generate->tokens,
                                .temperature = generate->temperature,
                                .top_k = generate->top_k,
                                .top_p = generate->top_p,
                                .stops = generate->stops.at,
                                .stop_count = generate->stops.count,
                                .tokenizer = generate->tokenizer,
                                .whole = generate->whole,
                                .trust = generate->trust,
                                .trunk = generate->trunk,
                                .chat = generate->chat,
                                .system = generate->system,
                                .notes = stderr,
                                .begin = generate_begin,
                                .seed = (uint64_t)generate->seed,
                                .threads = generate->threads};
  if (mdl_generate(arguments->at[0], &options, generate_print, &printer, &error)) {
    buffer_free(&printer.text);
    return report(&error);
  }
  if (printer.json) {
    return !printer.starved && generate_flush(&printer) ? STATUS_DONE : STATUS_MEMORY;
  }
  fputs("\n", stdout);
  return STATUS_DONE;
}

typedef struct {
  CommandFlags compile;
  const char *out, *data, *device;
  int64_t steps, seeds, threads;
  double tolerance, deadline;
  bool dry, quiet, json;
} AblateValues;

static const Option ablate_options[] = {
    {"dry", 0, OPTION_FLAG, NULL, offsetof(AblateValues, dry), 0,
     "run nothing: which combinations compile, their ranks, memory and traffic"},
    {"steps", 0, OPTION_INTEGER, "N", offsetof(AblateValues, steps), 1, "steps of each combination (default: 20)"},
    {"seeds", 0, OPTION_INTEGER, "N", offsetof(AblateValues, seeds), 1,
     "each combination from the seeds 1 to N, ranked by the mean of their losses"},
    {"tolerance", 0, OPTION_NUMBER, "X", offsetof(AblateValues, tolerance), 0,
     "how far losses may be apart, relative; a tenth of it at step 1 (default: 1e-4)"},
    {"out", 'o', OPTION_TEXT, "DIR", offsetof(AblateValues, out), 0,
     "where ablate.svg and ablate.jsonl go (default: a fresh runs/ablate-N)"},
    {"data", 0, OPTION_TEXT, "FILE", offsetof(AblateValues, data), 0, "other data than the recipe names"},
    {"device", 0, OPTION_TEXT, "cpu|cuda|auto", offsetof(AblateValues, device), 0,
     "where to run (default: auto: GPUs if there are any)"},
    {"threads", 0, OPTION_INTEGER, "N", offsetof(AblateValues, threads), 0, "processor threads (default: all cores)"},
    {"deadline", 0, OPTION_NUMBER, "SECONDS", offsetof(AblateValues, deadline), 0,
     "how long a rank waits for another (default: 60; 0: for ever)"},
    QUIET_OPTION(AblateValues),
    JSON_OPTION(AblateValues, "the lines of ablate.jsonl, at the end"),
};

static const AblateValues ablate_defaults = {.steps = 20, .deadline = 60};

static int ablate_main(Arena *arena, const void *values, const OptionList *arguments) {
  (void)arena;
  const AblateValues *ablate = values;
  MdlError error;
  MdlAblateResult result;
  MdlAblateOptions options = {.compile = mdl_options_of(&ablate->compile),
                              .words = arguments->at + 1,
                              .word_count = arguments->count - 1,
                              .seeds = ablate->seeds,
                              .steps = ablate->steps,
                              .tolerance = ablate->tolerance,
                              .out = ablate->out,
                              .data = ablate->data,
                              .device = ablate->device,
                              .threads = ablate->threads,
                              .deadline_seconds = ablate->deadline,
                              .dry = ablate->dry,
                              .screen = ablate->quiet || ablate->json ? NULL : stdout,
                              .lines = ablate->json ? stdout : NULL,
                              .notes = stderr};
  MdlStatus status = mdl_ablate(arguments->at[0], &options, &result, &error);
  report(&error);
  return status ? (int)status : result.differ + result.failed > 0 || result.good == 0 ? STATUS_INPUT : STATUS_DONE;
}

typedef struct {
  CommandFlags compile;
  const char *data;
  int64_t step, steps, threads;
  bool all, exact;
  double budget;
  double deadline;
} DiffValues;

static const Option diff_options[] = {
    {"step", 0, OPTION_INTEGER, "N", offsetof(DiffValues, step), 1,
     "begin with step N, which both begin with what the first has after N - 1 (default: 1)"},
    {"steps", 0, OPTION_INTEGER, "N", offsetof(DiffValues, steps), 1,
     "compare N steps, each from what the first has after the one before (default: 1)"},
    {"all", 0, OPTION_FLAG, NULL, offsetof(DiffValues, all), 0, "show every value and how much of its budget it uses"},
    {"exact", 0, OPTION_FLAG, NULL, offsetof(DiffValues, exact), 0, "allow no rounding: everything to the bit"},
    {"budget", 0, OPTION_NUMBER, "X", offsetof(DiffValues, budget), 0, "allow X times the usual rounding (default: 1)"},
    {"data", 0, OPTION_TEXT, "FILE", offsetof(DiffValues, data), 0, "other data than the recipe names"},
    {"threads", 0, OPTION_INTEGER, "N", offsetof(DiffValues, threads), 0, "processor threads (default: all cores)"},
    {"deadline", 0, OPTION_NUMBER, "SECONDS", offsetof(DiffValues, deadline), 0,
     "how long a rank waits for another (default: 60; 0: for ever)"},
};

static const DiffValues diff_defaults = {.step = 1, .steps = 1, .deadline = 60};

// 0: the same, 1: different, 2: they cannot be compared.
static int diff_main(Arena *arena, const void *values, const OptionList *arguments) {
  (void)arena;
  const DiffValues *diff = values;
  MdlError error;
  bool differ = false;
  MdlDiffOptions options = {.compile = mdl_options_of(&diff->compile),
                            .words = arguments->at,
                            .word_count = arguments->count,
                            .step = diff->step,
                            .steps = diff->steps,
                            .all = diff->all,
                            .exact = diff->exact,
                            .budget = diff->budget,
                            .data = diff->data,
                            .threads = diff->threads,
                            .deadline_seconds = diff->deadline,
                            .out = stdout};
  MdlStatus status = mdl_diff(&options, &differ, &error);
  report(&error);
  return status == MDL_INPUT ? STATUS_USAGE : status ? (int)status : differ;
}

static int verify_main(Arena *arena, const void *values, const OptionList *arguments) {
  (void)arena, (void)values;
  MdlError error;
  int64_t damaged = 0;
  MdlStatus status = mdl_verify(arguments->at[0], stdout, &damaged, &error);
  return status ? report(&error) : damaged > 0 ? STATUS_INPUT : STATUS_DONE;
}

static int inspect_main(Arena *arena, const void *values, const OptionList *arguments) {
  (void)arena, (void)values;
  MdlError error;
  return mdl_inspect(arguments->at[0], stdout, &error) ? report(&error) : STATUS_DONE;
}

static const OptionGroup ablate_groups[] = {GROUP("Options", ablate_options), COMMAND_GROUP(AblateValues, compile)};
static const OptionGroup diff_groups[] = {GROUP("Options", diff_options), COMMAND_GROUP(DiffValues, compile)};
static const OptionGroup eval_groups[] = {GROUP("Options", eval_options)};
static const OptionGroup generate_groups[] = {GROUP("Options", generate_options)};

static const Command commands[] = {
    {.name = "train",
     .arguments = "FILE|PLAN.mdlx|RUN",
     .summary = "trains the model of a text, or of a compiled plan, or goes on with a run",
     .details = "Ctrl-C finishes the step, saves and stops with status 130; a second one, half a second later or more, "
                "stops\nat once. SIGTERM, SIGHUP, SIGUSR1 and SIGXCPU do as Ctrl-C.",
     .least = 1,
     .most = 1,
     .groups = train_groups,
     .group_count = TRAIN_GROUP_COUNT,
     .size = sizeof(TrainValues),
     .defaults = &train_defaults,
     .talks = true,
     .run = train_main},
    {.name = "eval",
     .arguments = "RUN",
     .summary = "loss, perplexity and bits per byte of a run's newest checkpoint",
     .details = "RUN is a run directory or one of its checkpoints.",
     .least = 1,
     .most = 1,
     GROUPS(eval_groups),
     .size = sizeof(EvalValues),
     .run = eval_main},
    {.name = "generate",
     .arguments = "RUN",
     .summary = "text from a run's newest checkpoint",
     .details =
         "RUN is a run directory or one of its checkpoints. The prompt and what follows go to stdout as they are made.",
     .least = 1,
     .most = 1,
     GROUPS(generate_groups),
     .size = sizeof(GenerateValues),
     .defaults = &generate_defaults,
     .run = generate_main},
    {.name = "ablate",
     .arguments = "FILE NAME=A,B,... ...",
     .summary =
         "trains every combination of layouts, precisions, recipes and settings a little: one table, one picture",
     .details =
         "NAME is layout, precision, recipe, or what --set takes: layout=tp mesh.tp=1,2,4 microbatches=4,8 are "
         "all "
         "six\n"
         "sizes of one layout; those that the text does not allow are listed. Rows that differ in layout or precision\n"
         "alone must have the same losses but for rounding; those that do not are marked, and the exit status is 1.",
     .least = 1,
     .most = -1,
     GROUPS(ablate_groups),
     .size = sizeof(AblateValues),
     .defaults = &ablate_defaults,
     .run = ablate_main},
    {.name = "diff",
     .arguments = "A B | FILE NAME=A,B ...",
     .summary = "the first value in which two layouts, texts, runs or checkpoints differ beyond rounding",
     .details =
         "mdl diff FILE layout=single,tp2 compiles both, runs one step and compares the values of the forward, the\n"
         "loss, gradients and new parameters; a few steps as they are trained; an evaluation. Two runs, checkpoints or "
         ".safetensors files: their tensors by name,\n"
         "and the losses. Exit status: 0 the same, 1 different, 2 they cannot be compared.",
     .least = 1,
     .most = -1,
     GROUPS(diff_groups),
     .size = sizeof(DiffValues),
     .defaults = &diff_defaults,
     .run = diff_main},
    {.name = "convert",
     .arguments = "DIR|RUN",
     .summary = "a run from a directory of Hugging Face, or with --to hf such a directory from a run",
     .details =
         "mdl convert DIR -o RUN makes a run at step 0, which generate, eval and train --resume take; mdl convert RUN\n"
         "--to hf -o DIR writes config.json, model.safetensors and the tokenizer. What either form cannot say is an "
         "error.",
     .least = 1,
     .most = 1,
     .groups = convert_groups,
     .group_count = CONVERT_GROUP_COUNT,
     .size = sizeof(ConvertValues),
     .run = convert_main},
    {.name = "data",
     .arguments = "encode|train-tokenizer FILE...",
     .summary = "tokenizers and files of tokens",
     .details =
         "mdl data encode FILE... -o TOKENS makes a file of tokens from text or JSON lines, mdl data "
         "train-tokenizer\nFILE... -o TOKENIZER a tokenizer.json from text; --help behind either lists its options.",
     .commands = data_commands,
     .command_count = DATA_COMMAND_COUNT},
    {.name = "verify",
     .arguments = "RUN",
     .summary = "reads all checkpoints of a run and says which are whole and good",
     .details = "RUN is a run directory or one of its checkpoints. Exit status: 0 all are whole, 1 one is not.",
     .least = 1,
     .most = 1,
     .run = verify_main},
    {.name = "inspect",
     .arguments = "PATH",
     .summary = "a plan, a checkpoint, a .safetensors file or a run, in words",
     .least = 1,
     .most = 1,
     .run = inspect_main},
};

// As many files as the system allows at once, for the files of a pattern: shells give 1024.
static void allow_files(void) {
  enum { MOST = 1 << 16 };
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < MOST && limit.rlim_cur < limit.rlim_max) {
    limit.rlim_cur = limit.rlim_max < MOST ? limit.rlim_max : MOST;
    setrlimit(RLIMIT_NOFILE, &limit);
  }
}

int main(int argc, char **argv) {
  allow_files();
  const Program program = {
      .name = "mdl",
      .version = mdl_version(),
      .summary = "trains large models from a page of text",
      .commands = commands,
      .count = sizeof commands / sizeof *commands,
      .details =
          "Exit status: 0 done, 1 the input is wrong, 2 usage, 3 out of memory, 4 training "
          "diverged,\n5 a rank was lost, 6 a repeated step gave other bits, 130 interrupted after saving.",
      .pages = true,
      .other = "mdlc",
      .others = "check|compile|explain|print|fmt|lsp",
      .on_file = "train"};
  const int status = options_main(&program, argc, argv);
  if (crew_gave_up()) {  // it may use what libraries free when a program ends
    fflush(NULL);
    _exit(status);
  }
  return status;
}
