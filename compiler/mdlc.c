// mdlc.c: the program mdlc: tables of its commands, each a few calls of the compiler.
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/file.h"
#include "base/options.h"
#include "base/units.h"
#include "compiler/artefact.h"
#include "compiler/command.h"
#include "compiler/explain.h"
#include "lang/ast.h"

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
  bool check, full, json;
} Values;

static double seconds_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static CompileOptions values_options(const Values *values, const char *file) {
  CompileOptions options = command_compile_options(&values->compile, file);
  options.target = values->target ? values->target : options.target;
  options.after = values->after;
  options.rank = values->rank;
  return options;
}

static int check_main(Arena *arena, const void *values, const OptionList *arguments) {
  const Values *check = values;
  int status = STATUS_DONE;
  for (int i = 0; i < arguments->count; i++) {
    Diag *diag = diag_create(arena);
    CompileOptions options = values_options(check, arguments->at[i]);
    bool good = compile_check(arena, diag, &options);
    command_show(&check->compile, diag, stderr);
    status = good && diag->errors == 0 ? status : STATUS_INPUT;
  }
  return status;
}

static int compile_main(Arena *arena, const void *values, const OptionList *arguments) {
  const Values *compile = values;
  if (!compile->out) {
    fprintf(stderr, "mdlc compile: -o PLAN.mdlx is missing: where should the plan go?\n");
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
  if (!good) {
    return STATUS_INPUT;
  }
  if (!artefact_write(arena, set, compile->out, &why)) {
    fprintf(stderr, "mdlc: %s\n", why);
    return STATUS_INPUT;
  }
  int64_t instructions = 0, peak = 0;  // of all stages; of the stage that has most
  for (int s = 0; s < set->count; s++) {
    const Plan *plan = set->plans[s];
    int64_t bytes = 0;
    for (int i = 0; i < plan->segment_count; i++) {
      instructions += plan->segments[i].count;
    }
    for (int i = 0; i < ARENA_CLASS_COUNT; i++) {
      bytes += plan->arena_bytes[i];
    }
    peak = bytes > peak ? bytes : peak;
  }
  char size[UNITS_MAX], memory[UNITS_MAX];
  FILE *file = fopen(compile->out, "rbe");
  long length = file && fseek(file, 0, SEEK_END) == 0 ? ftell(file) : 0;
  if (file) {
    fclose(file);
  }
  printf("%s: %s, %lld instructions, peak memory %s, compiled in %.3f s\n", compile->out,
         units_bytes(size, (double)length), (long long)instructions, units_bytes(memory, (double)peak), seconds);
  return STATUS_DONE;
}

static int print_main(Arena *arena, const void *values, const OptionList *arguments) {
  const Values *print = values;
  Diag *diag = diag_create(arena);
  Buffer text = {0};
  CompileOptions options = values_options(print, arguments->at[0]);
  for (int i = 0; print->program && i < PROGRAM_COUNT; i++) {
    if (strcmp(program_kind_name((ProgramKind)i), print->program) == 0) {
      options.program = (ProgramKind)i;
    }
  }
  bool good = compile_print(arena, diag, &options, &text);
  command_show(&print->compile, diag, stderr);
  if (good && text.text) {
    fputs(text.text, stdout);
  }
  bool failed = text.failed;
  buffer_free(&text);
  return failed ? STATUS_MEMORY : good ? STATUS_DONE : STATUS_INPUT;
}

typedef enum { RENDER_TEXT, RENDER_JSON, RENDER_PICTURE } Render;

// False: there is no picture. Running out of memory makes the text fail.
static bool explain_render(const Explain *explain, Render render, Buffer *out) {
  jmp_buf escape;
  if (setjmp(escape)) {
    out->failed = true;
  } else {
    arena_set_escape(explain->arena, &escape);
    if (render == RENDER_TEXT) {
      explain_print(explain, out);
    } else if (render == RENDER_JSON) {
      explain_json(explain, out);
    } else if (!explain_svg(explain, out)) {
      arena_set_escape(explain->arena, NULL);
      return false;
    }
  }
  arena_set_escape(explain->arena, NULL);
  return true;
}

static int write_svg(const Explain *explain, const char *path) {
  Buffer picture = {0};
  FileError error = {"no memory"};
  if (!explain_render(explain, RENDER_PICTURE, &picture)) {
    fprintf(stderr, "mdlc explain: --svg draws the schedule of a pipeline, and this layout has none\n");
    return STATUS_INPUT;
  }
  bool good = !picture.failed && file_write_atomic(path, picture.text, picture.length, &error);
  if (!good) {
    fprintf(stderr, "mdlc explain: %s\n", error.text);
  }
  buffer_free(&picture);
  return good ? STATUS_DONE : STATUS_INPUT;
}

static int explain_main(Arena *arena, const void *values, const OptionList *arguments) {
  const Values *flags = values;
  Diag *diag = diag_create(arena);
  PlanSet *set = NULL;
  Buffer text = {0};
  CompileView view = {0};
  CompileOptions options = values_options(flags, arguments->at[0]);
  options.view = &view;
  bool good = compile_plans(arena, diag, &options, &set);
  command_show(&flags->compile, diag, stderr);
  if (!good) {
    return STATUS_INPUT;
  }
  Explain explain = {.arena = arena, .diag = diag, .set = set, .view = &view, .full = flags->full};
  explain_render(&explain, flags->json ? RENDER_JSON : RENDER_TEXT, &text);
  if (!text.failed) {
    fputs(text.text, stdout);
  }
  bool failed = text.failed;
  buffer_free(&text);
  return failed ? STATUS_MEMORY : flags->svg ? write_svg(&explain, flags->svg) : STATUS_DONE;
}

// All of stdin, on the heap.
static char *stdin_read(size_t *length) {
  Buffer text = {0};
  char piece[4096];
  buffer_text(&text, "");
  for (size_t got; (got = fread(piece, 1, sizeof piece, stdin)) > 0;) {
    buffer_bytes(&text, piece, got);
  }
  *length = text.length;
  if (text.failed) {
    buffer_free(&text);
  }
  return text.text;
}

// Formats one file: in place, or from stdin to stdout for "-". *changed tells whether the text was another.
static int fmt_file(Arena *arena, const Values *values, const char *path, bool *changed) {
  bool standard = strcmp(path, "-") == 0;
  size_t length = 0;
  FileError error = {"no memory"};
  char *text = standard ? stdin_read(&length) : file_read(path, &length, &error);
  if (!text) {
    fprintf(stderr, "mdlc fmt: %s\n", error.text);
    return STATUS_INPUT;
  }
  Diag *diag = diag_create(arena);
  CommentList comments = {0};
  const char *copy = arena_copy(arena, text, length + 1);
  free(text);
  int file = diag_add_source(diag, standard ? "<stdin>" : path, copy, length);
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

static const Option compile_options[] = {
    {"out", 'o', OPTION_TEXT, "PLAN.mdlx", offsetof(Values, out), 0, "where the plan goes"},
    {"target", 0, OPTION_CHOICE, "cpu", offsetof(Values, target), 0, "what it is for (default: cpu)"},
};
static const Option print_options[] = {
    {"after", 0, OPTION_TEXT, "PASS", offsetof(Values, after), 0,
     "the pass after which to print; `list` names the passes"},
    {"program", 0, OPTION_CHOICE, "initialise|train|evaluate|generate|refresh", offsetof(Values, program), 0,
     "which program to print (default: train)"},
    {"rank", 0, OPTION_INTEGER, "N", offsetof(Values, rank), 0, "whose stage of the pipeline to print (default: 0)"},
};
static const Option explain_options[] = {
    {"full", 0, OPTION_FLAG, NULL, offsetof(Values, full), 0,
     "a line for each parameter and stage, also where they are alike"},
    {"json", 0, OPTION_FLAG, NULL, offsetof(Values, json), 0, "one JSON object instead, for scripts"},
    {"svg", 0, OPTION_TEXT, "FILE", offsetof(Values, svg), 0, "also draw the schedule of the pipeline and its memory"},
};
static const Option fmt_options[] = {
    {"check", 0, OPTION_FLAG, NULL, offsetof(Values, check), 0,
     "change nothing; list the files that would change, and exit with 1 if there are any"},
    {"diagnostics", 0, OPTION_CHOICE, "text|json", offsetof(Values, compile.diagnostics), 0,
     "how errors in the text are shown on stderr (default: text)"},
};

static const OptionGroup check_groups[] = {COMMAND_GROUP(Values, compile)};
static const OptionGroup compile_groups[] = {GROUP("Options", compile_options), COMMAND_GROUP(Values, compile)};
static const OptionGroup print_groups[] = {GROUP("Options", print_options), COMMAND_GROUP(Values, compile)};
static const OptionGroup explain_groups[] = {GROUP("Options", explain_options), COMMAND_GROUP(Values, compile)};
static const OptionGroup fmt_groups[] = {GROUP("Options", fmt_options)};

static const Command commands[] = {
    {.name = "check",
     .arguments = "FILE...",
     .summary = "reports everything that is wrong with the texts",
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
     .arguments = "FILE",
     .summary = "who holds what, who sends what, and what it takes",
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
};

int main(int argc, char **argv) {
  const Program program = {.name = "mdlc",
                           .version = MDL_VERSION,
                           .summary = "compiles models written in .mdl",
                           .commands = commands,
                           .count = sizeof commands / sizeof *commands,
                           .details = "Exit status: 0 done, 1 the input is wrong, 2 usage, 3 out of memory."};
  return options_main(&program, argc, argv);
}
