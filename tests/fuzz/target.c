// target.c: one text through the formatter, `check`, and the whole compiler under each of its layouts.
#include "tests/fuzz/target.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

#include "base/file.h"
#include "compiler/compile.h"
#include "compiler/report/explain.h"
#include "lang/unit.h"
#include "tests/fuzz/choices.h"

static void add_kind(TargetReport *report, uint64_t kind) {
  for (int i = 0; i < report->kind_count; i++) {
    if (report->kinds[i] == kind) {
      return;
    }
  }
  if (report->kind_count < TARGET_KINDS) {
    report->kinds[report->kind_count++] = kind;
  }
}

// Of a message without what stands in quotes and without numbers.
static uint64_t hash_message(ErrorCode code, const char *message) {
  uint64_t hash = 14695981039346656037u + (uint64_t)code;
  bool quoted = false;
  for (const char *at = message; *at; at++) {
    quoted ^= *at == '\'' || *at == '`';
    if (!quoted && (*at < '0' || *at > '9')) {
      hash = (hash ^ (unsigned char)*at) * 1099511628211u;
    }
  }
  return hash;
}

static double processor_seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void set_alarm(const TargetReport *report, double seconds) {
  if (report->alarm) {
    struct itimerval timer = {.it_value = {(time_t)seconds, (suseconds_t)((seconds - (double)(time_t)seconds) * 1e6)}};
    setitimer(ITIMER_PROF, &timer, NULL);
  }
}

static void find_wrong(TargetReport *report, const Diag *diag, double seconds) {
  for (int i = 0; i < diag->all.count; i++) {
    const Diagnostic *d = &diag->all.at[i];
    add_kind(report, hash_message(d->code, d->message));
    const bool memory =
        d->code == E090 && strstr(d->message, "compiling takes too much memory");  // for so small a text
    if ((d->code == E099 || memory) && !report->wrong) {
      report->wrong = true;
      snprintf(report->said, sizeof report->said, "%s: %s %s", report->doing, error_code_name(d->code), d->message);
    }
  }
  if (seconds > report->seconds && !report->wrong) {
    report->wrong = true;
    snprintf(report->said, sizeof report->said, "%s: slow", report->doing);
  }
}

// What is shown of errors, as text and as JSON.
static void show(const Diag *diag) {
  char *text = NULL;
  size_t length = 0;
  FILE *to = open_memstream(&text, &length);
  if (to) {
    diag_print(diag, to, false);
    diag_print_json(diag, to);
    fclose(to);
  }
  free(text);
}

static void plan_kinds(TargetReport *report, const PlanSet *set) {
  for (int s = 0; s < set->count; s++) {
    const Plan *plan = set->plans[s];
    for (int i = 0; i < plan->segment_count; i++) {
      uint64_t kinds = 0;
      for (int j = 0; j < plan->segments[i].count; j++) {
        kinds |= 1ull << plan->segments[i].instructions[j].kind;
      }
      add_kind(report, kinds * 8191 + 1);
    }
  }
}

static void explain(Arena *arena, const Diag *diag, const PlanSet *set, const CompileView *view) {
  Explain explain = {.arena = arena, .diag = diag, .set = set, .view = view, .full = true};
  Buffer text = {0};
  explain_print(&explain, &text);
  explain_json(&explain, &text);
  buffer_free(&text);
}

static void compile_one(const char *path, const char *recipe, const char *layout, TargetReport *report) {
  snprintf(report->doing, sizeof report->doing, "recipe %.60s, layout %.60s", recipe ? recipe : "-",
           layout ? layout : "-");
  Arena *arena = arena_create();
  Diag *diag = diag_create(arena);
  CompileView view = {0};
  CompileOptions options = {.file = path, .recipe = recipe, .layout = layout, .program = PROGRAM_TRAIN, .view = &view};
  PlanSet *set = NULL;
  double start = processor_seconds();
  set_alarm(report, report->seconds);
  if (compile_plans(arena, diag, &options, &set)) {
    report->compiled++;
    plan_kinds(report, set);
    explain(arena, diag, set, &view);
  }
  set_alarm(report, 0);
  find_wrong(report, diag, processor_seconds() - start);
  arena_destroy(arena);
}

static void check(const char *path, TargetReport *report) {
  snprintf(report->doing, sizeof report->doing, "check");
  Arena *arena = arena_create();
  Diag *diag = diag_create(arena);
  CompileOptions options = {.file = path};
  double start = processor_seconds();
  set_alarm(report, report->seconds);
  compile_check(arena, diag, &options);
  show(diag);
  set_alarm(report, 0);
  find_wrong(report, diag, processor_seconds() - start);
  arena_destroy(arena);
}

static void format(const char *path, TargetReport *report) {
  snprintf(report->doing, sizeof report->doing, "fmt");
  FileError error;
  size_t length = 0;
  char *text = file_read(path, &length, &error);
  if (!text) {
    return;
  }
  Arena *arena = arena_create();
  Diag *diag = diag_create(arena);
  CommentList comments = {0};
  int file = diag_add_source(diag, path, text, length);
  const Ast *tree = parse_file(arena, names_create(arena), diag, file, &comments);
  if (diag->errors == 0) {
    const char *formatted = format_file(arena, diag, tree, &comments);
    int again = diag_add_source(diag, path, formatted, strlen(formatted));
    parse_file(arena, names_create(arena), diag, again, &comments);
    if (diag->errors > 0) {
      report->wrong = true;
      snprintf(report->said, sizeof report->said, "fmt: what is formatted cannot be read");
    }
  }
  arena_destroy(arena);
  free(text);
}

void target_text(const char *path, TargetReport *report) {
  Choices choices;
  format(path, report);
  check(path, report);
  choices_find(path, &choices);
  for (int r = 0; r < (choices.recipe_count ? choices.recipe_count : 1) && !report->wrong; r++) {
    compile_one(path, choices.recipes[r], NULL, report);
    for (int l = 0; l < choices.layout_count && r == 0 && !report->wrong; l++) {
      compile_one(path, choices.recipes[r], choices.layouts[l], report);
    }
  }
  choices_free(&choices);
}
