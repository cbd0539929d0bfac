// mdlc.c: the program mdlc: tables of its commands, each a few calls of the compiler.
#include <errno.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/options.h"
#include "base/units.h"
#include "compiler/command.h"
#include "compiler/plan/artefact.h"
#include "compiler/report/error_page.h"
#include "compiler/report/explain.h"
#include "kernels/cuda/ahead.h"
#include "kernels/cuda/listing.h"
#include "kernels/cuda/target.h"
#include "lang/ast.h"
#include "lang/unit.h"
#include "lsp/server.h"

#ifndef MDL_VERSION
#define MDL_VERSION "0.1.0"
#endif

#define GROUP(title, table) \
  { title, table, sizeof table / sizeof *table, 0 }
#define GROUPS(table) .groups = table, .group_count = sizeof table / sizeof *table

typedef struct {
  CommandFlags compile;
  const char *out, *target, *after, *program, *svg;
  int64_t rank;
  bool check, full, json, kernels, stdio, quiet;
} Values;

static double seconds_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static CompileOptions values_options(const Values *values, const char *file) {
  CompileOptions options = command_compile_options(&values->compile, file);
  options.after = values->after;
  options.rank = values->rank;
  return options;
}

static const char stdin_name[] = "<stdin>";

// The text that "-" stands for: imports in it are looked for in the working directory. False: it could not be read.
static bool check_stdin(Arena *arena, OpenText *open) {
  size_t length = 0;
  FileError error;
  char *text = file_read_stream(STDIN_FILENO, stdin_name, &length, &error);
  if (text) {
    *open = (OpenText){stdin_name, arena_copy(arena, text, length + 1), length};
  } else {
    fprintf(stderr, "mdlc check: %s\n", error.text);
  }
  free(text);
  return text != NULL;
}

static int check_main(Arena *arena, const void *values, const OptionList *arguments) {
  const Values *check = values;
  int status = STATUS_DONE;
  for (int i = 0; i < arguments->count; i++) {
    Diag *diag = diag_create(arena);
    OpenText open = {NULL, NULL, 0};
    CompileOptions options = values_options(check, arguments->at[i]);
    if (strcmp(arguments->at[i], "-") == 0) {
      if (!check_stdin(arena, &open)) {
        return STATUS_INPUT;
      }
      options.file = stdin_name;
      options.open = &open;
      options.open_count = 1;
    }
    bool good = compile_check(arena, diag, &options);
    if (check->json) {
      if (!diag_print_lines(diag, stdout)) {
        fprintf(stderr, "mdlc check: no memory for the lines of --json\n");
        diag->no_memory = true;
      }
    } else if (!check->quiet) {
      command_show(&check->compile, diag, stderr);
    }
    status = good && diag->errors == 0 && !diag->no_memory ? status : command_status(diag);
  }
  return status;
}

// A line that is overwritten, on a terminal alone.
static void compile_progress(void *context, const char *target, int done, int count) {
  (void)context;
  fprintf(stderr, "\rcompiling kernels for %s %d/%d%s", target, done, count, done == count ? "\r\033[K" : "");
  fflush(stderr);
}

// Puts the code of all kernels into the plans, and says how much that is.
static bool compile_kernels(Arena *arena, PlanSet *set, const char *const *targets, int count) {
  const CudaAhead options = {.cache = "", .progress = isatty(STDERR_FILENO) ? compile_progress : NULL};
  const char *why = NULL;
  if (count > 0 && !cuda_ahead(arena, set, targets, count, &options, &why)) {
    fprintf(stderr, "mdlc compile: %s\n", why);
    return false;
  }
  return true;
}

typedef struct {
  const Plan *plan;
  const char *out;
  int64_t instructions, peak;
  double seconds, kernel_seconds;
} CompileSaying;

static json_t *compile_json(void *context) {
  const CompileSaying *of = context;
  const Plan *plan = of->plan;
  json_t *targets = json_array();
  for (int t = 0; t < plan->target_count; t++) {
    const PlanTarget *target = &plan->targets[t];
    json_array_append_new(targets, json_pack("{s:s, s:i, s:f}", "target", target->target, "kernels", target->count,
                                             "bytes", (double)plan_target_bytes(target)));
  }
  return json_pack("{s:o, s:I, s:I, s:f, s:f, s:o}", "plan", json_text(of->out), "instructions",
                   (json_int_t)of->instructions, "peak_bytes", (json_int_t)of->peak, "seconds", of->seconds,
                   "kernel_seconds", of->kernel_seconds, "targets", targets);
}

static void compile_tell_kernels(const Plan *plan, double seconds) {
  char size[UNITS_MAX];
  for (int t = 0; t < plan->target_count; t++) {
    const PlanTarget *target = &plan->targets[t];
    printf("%s: %d kernels, %s, by %s\n", target->target, target->count, units_bytes(size, plan_target_bytes(target)),
           target->compiler);
  }
  if (plan->target_count > 0) {
    printf("kernels compiled in %.3f s\n", seconds);
  }
}

// What is made may not take the place of a text that it is made from. Says so.
static bool takes_text(const Diag *diag, const char *command, const char *option, const char *out) {
  for (int i = 0; i < diag->sources.count; i++) {
    const char *text = diag->sources.at[i].path;
    if (file_same(text, out)) {
      fprintf(stderr, "mdlc %s: %s is read, and %s %s would overwrite it; give another name to what is made\n", command,
              text, option, out);
      return true;
    }
  }
  return false;
}

static int compile_main(Arena *arena, const void *values, const OptionList *arguments) {
  const Values *compile = values;
  const char *targets[CUDA_AHEAD_TARGETS];
  if (!compile->out) {
    fprintf(stderr, "mdlc compile: -o PLAN.mdlx is missing: where should the plan go?\n");
    return STATUS_USAGE;
  }
  const char *wrong = NULL;
  const int count = compile->target ? cuda_targets_read(arena, compile->target, targets, &wrong) : 0;
  if (count < 0) {
    fprintf(stderr, "mdlc compile: --target: %s\n", wrong);
    return STATUS_USAGE;
  }
  Diag *diag = diag_create(arena);
  PlanSet *set = NULL;
  const char *why = NULL;
  CompileOptions options = values_options(compile, arguments->at[0]);
  double start = seconds_now();
  bool good = compile_plans(arena, diag, &options, &set);
  double seconds = seconds_now() - start;
  command_show(&compile->compile, diag, stderr);
  if (good && takes_text(diag, "compile", "-o", compile->out)) {
    return STATUS_USAGE;
  }
  start = seconds_now();
  if (!good || !compile_kernels(arena, set, targets, count)) {
    return command_status(diag);
  }
  const double kernel_seconds = seconds_now() - start;
  if (!artefact_write(arena, set, compile->out, &why)) {
    fprintf(stderr, "mdlc: %s\n", why);
    return strncmp(why, "no memory", 9) == 0 ? STATUS_MEMORY : STATUS_INPUT;
  }
  int64_t instructions = 0, peak = 0;  // of all stages; of the stage that has most
  for (int s = 0; s < set->count; s++) {
    const Plan *plan = set->plans[s];
    int64_t bytes = 0;
    for (int i = 0; i < plan->segment_count; i++) {
      instructions += plan->segments[i].count;
    }
    for (int i = 0; i < ARENA_CLASS_COUNT; i++) {
      bytes += i == ARENA_OFFLOAD ? 0 : plan->arena_bytes[i];
    }
    peak = bytes > peak ? bytes : peak;
  }
  CompileSaying saying = {set->plans[0], compile->out, instructions, peak, seconds, kernel_seconds};
  if (compile->json && !json_line(stdout, "mdlc compile", compile_json, &saying)) {
    return STATUS_MEMORY;
  }
  if (compile->json || compile->quiet) {
    return STATUS_DONE;
  }
  char size[UNITS_MAX], memory[UNITS_MAX];
  struct stat file;
  const bool known = stat(compile->out, &file) == 0 && S_ISREG(file.st_mode);  // not what went into a pipe
  printf("%s: %s%s%lld instructions, peak memory %s, compiled in %.3f s\n", compile->out,
         known ? units_bytes(size, (double)file.st_size) : "", known ? ", " : "", (long long)instructions,
         units_bytes(memory, (double)peak), seconds);
  compile_tell_kernels(set->plans[0], kernel_seconds);
  return STATUS_DONE;
}

static int text_starved(const char *command) {
  fprintf(stderr, "mdlc %s: no memory for its text\n", command);
  return STATUS_MEMORY;
}

// The CUDA C of the plan of one rank.
static bool print_kernels(Arena *arena, Diag *diag, const CompileOptions *options, const char *target, Buffer *out,
                          const char **why) {
  PlanSet *set = NULL;
  const Plan *plan = compile_plans(arena, diag, options, &set) ? compile_of_rank(diag, set, options->rank) : NULL;
  return plan && cuda_listing(arena, plan, options->program, target, out, why);
}

static int print_main(Arena *arena, const void *values, const OptionList *arguments) {
  const Values *print = values;
  Diag *diag = diag_create(arena);
  Buffer text = {0};
  CompileOptions options = values_options(print, arguments->at[0]);
  for (int i = 0; print->program && i < PROGRAM_COUNT; i++) {
    if (strcmp(program_kind_name((ProgramKind)i), print->program) == 0) {
      options.program = (ProgramKind)i;
      options.decode = program_block((ProgramKind)i) > 0;
    }
  }
  if (print->kernels ? print->after && strcmp(print->after, "lower") != 0 : print->target != NULL) {
    fprintf(stderr, "mdlc print: %s\n",
            print->kernels ? "--kernels is for --after lower: there are none before" : "--target is for --kernels");
    return STATUS_USAGE;
  }
  const char *why = NULL;
  bool good = print->kernels
                  ? print_kernels(arena, diag, &options, print->target ? print->target : "sm_90a", &text, &why)
                  : compile_print(arena, diag, &options, &text);
  command_show(&print->compile, diag, stderr);
  if (why) {
    fprintf(stderr, "mdlc print: --target: %s\n", why);
    return STATUS_USAGE;
  }
  if (good && text.text) {
    fputs(text.text, stdout);
  }
  bool failed = text.failed;
  buffer_free(&text);
  return failed ? text_starved("print") : good ? STATUS_DONE : command_status(diag);
}

typedef enum { RENDER_TEXT, RENDER_JSON, RENDER_PICTURE } Render;

// Running out of memory makes the text fail.
static void explain_render(const Explain *explain, Render render, Buffer *out) {
  jmp_buf escape;
  if (setjmp(escape)) {
    out->failed = true;
  } else {
    arena_set_escape(explain->arena, &escape);
    if (render == RENDER_TEXT) {
      explain_print(explain, out);
    } else if (render == RENDER_JSON) {
      explain_json(explain, out);
    } else {
      explain_svg(explain, out);
    }
  }
  arena_set_escape(explain->arena, NULL);
}

static int write_svg(const Explain *explain, const char *path) {
  Buffer picture = {0};
  FileError error = {.text = "no memory"};
  explain_render(explain, RENDER_PICTURE, &picture);
  bool good = !picture.failed && file_write_atomic(path, picture.text, picture.length, &error);
  if (!good) {
    fprintf(stderr, "mdlc explain: %s\n", error.text);
  }
  const bool starved = picture.failed || error.code == ENOMEM;
  buffer_free(&picture);
  return good ? STATUS_DONE : starved ? STATUS_MEMORY : STATUS_INPUT;
}

static int explain_main(Arena *arena, const void *values, const OptionList *arguments) {
  const Values *flags = values;
  if (error_page_asked(arguments->at[0]) && access(arguments->at[0], F_OK) != 0) {
    return error_page_print(arguments->at[0], stdout) ? STATUS_DONE : STATUS_INPUT;
  }
  Diag *diag = diag_create(arena);
  PlanSet *set = NULL;
  Buffer text = {0};
  CompileView view = {0};
  CompileOptions options = values_options(flags, arguments->at[0]);
  options.view = &view;
  bool good = compile_plans(arena, diag, &options, &set);
  command_show(&flags->compile, diag, stderr);
  if (!good) {
    return command_status(diag);
  }
  if (flags->svg && takes_text(diag, "explain", "--svg", flags->svg)) {
    return STATUS_USAGE;
  }
  Explain explain = {.arena = arena, .diag = diag, .set = set, .view = &view, .full = flags->full};
  explain_render(&explain, flags->json ? RENDER_JSON : RENDER_TEXT, &text);
  if (!text.failed) {
    fputs(text.text, stdout);
  }
  bool failed = text.failed;
  buffer_free(&text);
  return failed ? text_starved("explain") : flags->svg ? write_svg(&explain, flags->svg) : STATUS_DONE;
}

// Formats one file: in place, or from stdin to stdout for "-". *changed tells whether the text was another.
static int fmt_file(Arena *arena, const Values *values, const char *path, bool *changed) {
  bool standard = strcmp(path, "-") == 0;
  size_t length = 0;
  FileError error = {.text = "no memory"};
  char *text = standard ? file_read_stream(STDIN_FILENO, stdin_name, &length, &error)
                        : file_read_text(path, false, &length, &error);
  if (!text) {
    fprintf(stderr, "mdlc fmt: %s\n", error.text);
    return STATUS_INPUT;
  }
  Diag *diag = diag_create(arena);
  CommentList comments = {0};
  const char *copy = arena_copy(arena, text, length + 1);
  free(text);
  int file = diag_add_source(diag, standard ? stdin_name : path, copy, length);
  Ast *tree = parse_file(arena, names_create(arena), diag, file, &comments);
  command_show(&values->compile, diag, stderr);
  if (diag->errors > 0 || !tree) {
    return STATUS_INPUT;
  }
  const char *formatted = format_file(arena, diag, tree, &comments);
  *changed = strcmp(formatted, copy) != 0;
  if (standard && !values->check) {
    fputs(formatted, stdout);
  } else if (*changed && !values->check && !file_write_atomic(path, formatted, strlen(formatted), &error)) {
    fprintf(stderr, "mdlc fmt: %s\n", error.text);
    return STATUS_INPUT;
  }
  return STATUS_DONE;
}

static int fmt_main(Arena *arena, const void *values, const OptionList *arguments) {
  const Values *fmt = values;
  int status = STATUS_DONE;
  for (int i = 0; i < arguments->count; i++) {
    bool changed = false;
    int result = fmt_file(arena, fmt, arguments->at[i], &changed);
    status = result != STATUS_DONE ? result : status;
    if (fmt->check && changed) {
      printf("%s\n", arguments->at[i]);
      status = STATUS_INPUT;
    }
  }
  return status;
}

static int lsp_main(Arena *arena, const void *values, const OptionList *arguments) {
  (void)arena;
  (void)values;
  (void)arguments;
  if (isatty(STDIN_FILENO)) {
    fprintf(stderr,
            "mdlc lsp: an editor starts this and speaks the Language Server Protocol with it on stdin and stdout; "
            "docs/editors says how\n");
  }
  return lsp_serve(STDIN_FILENO, STDOUT_FILENO, MDL_VERSION);
}

static const Option compile_options[] = {
    {"out", 'o', OPTION_TEXT, "PLAN.mdlx", offsetof(Values, out), 0, "where the plan goes"},
    {"target", 0, OPTION_TEXT, "TARGET,...", offsetof(Values, target), 0,
     "GPUs for which kernels are compiled as well: " CUDA_TARGET_NAMES ", or cpu: none (default: cpu)"},
    {"quiet", 'q', OPTION_FLAG, NULL, offsetof(Values, quiet), 0, "say nothing on stdout"},
    {"json", 0, OPTION_FLAG, NULL, offsetof(Values, json), 0,
     "one JSON object on stdout instead: instructions, memory, kernels"},
};
static const Option check_options[] = {
    {"quiet", 'q', OPTION_FLAG, NULL, offsetof(Values, quiet), 0, "say nothing: the exit status is the result"},
    {"json", 0, OPTION_FLAG, NULL, offsetof(Values, json), 0,
     "one JSON object a line on stdout instead: each error and warning"},
};
static const Option print_options[] = {
    {"after", 0, OPTION_TEXT, "PASS", offsetof(Values, after), 0,
     "the pass after which to print; `list` names the passes"},
    {"program", 0, OPTION_CHOICE,
     "initialise|train|evaluate|generate|refresh|train_cold|train_2|train_2_cold|train_3|train_3_cold|train_4|train_4_"
     "cold|prefill|decode",
     offsetof(Values, program), 0, "which program to print (default: train)"},
    {"rank", 0, OPTION_INTEGER, "N", offsetof(Values, rank), 0, "whose stage of the pipeline to print (default: 0)"},
    {"kernels", 0, OPTION_FLAG, NULL, offsetof(Values, kernels), 0,
     "after `lower`: the CUDA C of each kernel instead, with the lines it came from"},
    {"target", 0, OPTION_TEXT, "TARGET", offsetof(Values, target), 0,
     "the GPU that --kernels is for: " CUDA_TARGET_NAMES " (default: sm_90a)"},
};
static const Option explain_options[] = {
    {"full", 0, OPTION_FLAG, NULL, offsetof(Values, full), 0,
     "a line for each parameter and stage, also where they are alike"},
    {"json", 0, OPTION_FLAG, NULL, offsetof(Values, json), 0, "one JSON object instead, for scripts"},
    {"svg", 0, OPTION_TEXT, "FILE", offsetof(Values, svg), 0,
     "also draw the memory of a training step, and the schedule of a pipeline"},
};
static const Option fmt_options[] = {
    {"check", 0, OPTION_FLAG, NULL, offsetof(Values, check), 0,
     "change nothing; list the files that would change, and exit with 1 if there are any"},
    {"diagnostics", 0, OPTION_CHOICE, "text|json", offsetof(Values, compile.diagnostics), 0,
     "how errors in the text are shown on stderr (default: text)"},
};
static const Option lsp_options[] = {
    {"stdio", 0, OPTION_FLAG, NULL, offsetof(Values, stdio), 0, "speak on stdin and stdout, as it does anyway"},
};

static const OptionGroup check_groups[] = {GROUP("Options", check_options), COMMAND_GROUP(Values, compile)};
static const OptionGroup compile_groups[] = {GROUP("Options", compile_options), COMMAND_GROUP(Values, compile)};
static const OptionGroup print_groups[] = {GROUP("Options", print_options), COMMAND_GROUP(Values, compile)};
static const OptionGroup explain_groups[] = {GROUP("Options", explain_options), COMMAND_GROUP(Values, compile)};
static const OptionGroup fmt_groups[] = {GROUP("Options", fmt_options)};
static const OptionGroup lsp_groups[] = {GROUP("Options", lsp_options)};

static const Command commands[] = {
    {.name = "check",
     .arguments = "FILE...",
     .summary = "reports everything that is wrong with the texts; - is stdin",
     .least = 1,
     .most = -1,
     GROUPS(check_groups),
     .size = sizeof(Values),
     .run = check_main},
    {.name = "compile",
     .arguments = "FILE",
     .summary = "compiles a text into a plan, ahead of time",
     .least = 1,
     .most = 1,
     GROUPS(compile_groups),
     .size = sizeof(Values),
     .run = compile_main},
    {.name = "print",
     .arguments = "FILE",
     .summary = "the graph as text, after a pass of the compiler",
     .least = 1,
     .most = 1,
     GROUPS(print_groups),
     .size = sizeof(Values),
     .run = print_main},
    {.name = "explain",
     .arguments = "FILE|CODE",
     .summary = "who holds what, who sends what, and what it takes; of an error code, such as E022, an example",
     .least = 1,
     .most = 1,
     GROUPS(explain_groups),
     .size = sizeof(Values),
     .run = explain_main},
    {.name = "fmt",
     .arguments = "FILE...",
     .summary = "formats texts in place; - formats stdin to stdout",
     .least = 1,
     .most = -1,
     GROUPS(fmt_groups),
     .size = sizeof(Values),
     .run = fmt_main},
    {.name = "lsp",
     .arguments = "[--stdio]",
     .summary = "a language server on stdin and stdout, for editors",
     .least = 0,
     .most = 0,
     GROUPS(lsp_groups),
     .size = sizeof(Values),
     .run = lsp_main},
};

int main(int argc, char **argv) {
  const Program program = {.name = "mdlc",
                           .version = MDL_VERSION,
                           .summary = "compiles models written in .mdl",
                           .commands = commands,
                           .count = sizeof commands / sizeof *commands,
                           .details = "Exit status: 0 done, 1 the input is wrong, 2 usage, 3 out of memory.",
                           .pages = true,
                           .other = "mdl",
                           .others = "train|eval|generate|ablate|diff|convert|data|inspect|verify",
                           .on_file = "check"};
  return options_main(&program, argc, argv);
}
