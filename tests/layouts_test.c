// layouts_test.c: what a program computes does not depend on its layout.
//
// For each file in tests/layouts (or given), under each of its layouts, in fp64, on virtual ranks: first values to the
// bit, two training steps (outputs, gradients, new parameters and optimizer state) and an evaluation are those of one
// rank. Of files with more than four layouts every fourth runs, under sanitizers of all every sixteenth; all with
// TESTS_LONG=1. Then the same under a sample of all combinations of layouts that the file says it can take
// (layouts_combine.h). Layouts that pad run once more with NaN in the padding. Layouts of a pipeline alone must give
// the bits of one rank in fp32 too, and each layout those that it gives with `overlap = false`, whatever is in parts
// and in another order otherwise.
//
// LAYOUTS_PRECISION=bf16 LAYOUTS_TOLERANCE=0.1 compares in another precision (and leaves the bits alone).
// LAYOUTS_CHUNK_BYTES=1 has logits in parts of their rows (CompileOptions.chunk_bytes), but for what is expected.
// LAYOUTS_ALL=1 runs all combinations, LAYOUTS_SEED another sample, LAYOUTS_SAMPLE so many of each file; LAYOUT=NAME
// runs one layout alone. Layouts that do not compile fail; with LAYOUTS_DRAWN=1 they are just not legal, unless the
// compiler found its own fault. Each layout runs in a process of its own.
#include <dirent.h>
#include <stdio.h>
#include <sys/wait.h>

#include "base/file.h"
#include "tests/effort.h"
#include "tests/layouts_combine.h"
#include "tests/layouts_outcome.h"

enum { SAMPLE = 2, SHORT_SAMPLE = 1, LONG_SAMPLE = 200, FEW = 4, SECONDS = 120, NOT_LEGAL = 2, MOST_FILES = 8192 };

typedef struct {
  const char *path;
  char *text;
  Outcome expected;
  int chosen, passed, refused, failed;
  int64_t seen, all;  // combinations so far, and in all
  double worst;
} Trial;

static bool flag(const char *name) {
  const char *value = getenv(name);
  return value && *value && strcmp(value, "0") != 0;
}

static CompileOptions options_for(const char *layout, const char *precision) {
  const char *parts = getenv("LAYOUTS_CHUNK_BYTES");
  return (CompileOptions){.layout = layout,
                          .precision = precision,
                          .gradients = true,
                          .idle_rules = flag("LAYOUTS_DRAWN"),
                          .chunk_bytes = parts && strcmp(layout, "single") != 0 ? atoll(parts) : 0};
}

static int64_t number_of(const char *name, int64_t otherwise) {
  const char *value = getenv(name);
  return value && *value ? atoll(value) : otherwise;
}

static const char *precision_asked(void) {
  const char *value = getenv("LAYOUTS_PRECISION");
  return value && *value ? value : "fp64";
}

static double tolerance_asked(void) {
  const char *value = getenv("LAYOUTS_TOLERANCE");
  return value && *value ? atof(value) : 1e-9;
}

static char *read_text(const char *path) {
  FileError error;
  size_t length = 0;
  char *text = file_read(path, &length, &error);
  if (!text) {
    layout_fail("%s", error.text);
  }
  return text;
}

static void run_layout(LayoutRun *run, const char *what, Arena *arena, Outcome *outcome) {
  outcome_run(run, what, 30, arena, outcome);
}

// A file that is the program and one more layout; the caller unlinks it.
static void write_with(const char *text, const char *layout, char path[32]) {
  strcpy(path, "/tmp/layouts_XXXXXX");
  int handle = mkstemp(path);
  FILE *file = handle < 0 ? NULL : fdopen(handle, "w");
  if (!file) {
    layout_fail("cannot make a file in /tmp");
  }
  fprintf(file, "%s\n%s", text, layout);
  fclose(file);
}

// --- in the process of one layout ---

// Where a layout says a word, or NULL.
static const char *layout_word(const char *text, const char *layout, const char *word) {
  char head[96];
  snprintf(head, sizeof head, "layout %s {", layout);
  const char *at = strstr(text, head), *end = at ? strchr(at, '}') : NULL, *found = at ? strstr(at, word) : NULL;
  return found && found < end ? found : NULL;
}

// `recompute ...;` of a layout, since what is computed again may be computed otherwise.
static void recompute_of(const char *text, const char *layout, char *said, size_t size) {
  const char *again = layout_word(text, layout, "recompute");
  said[0] = '\0';
  if (again) {
    snprintf(said, size, "%.*s", (int)(strchr(again, ';') - again + 1), again);
  }
}

static bool pipeline_alone(const Plan *plan) {
  return plan->pipeline >= 0 && plan->stages > 1 && plan_ranks(plan) == plan->mesh[plan->pipeline].size;
}

// A pipeline only orders what one rank computes: nothing may come out otherwise, not even rounding.
static void check_bits(const char *file, const char *layout, int microbatches, Arena *arena) {
  char *text = read_text(file), again[512], said[512], path[32];
  recompute_of(text, layout, again, sizeof again);
  write_with(text, arena_format(arena, "layout one_rank { microbatches = %d; %s }\n", microbatches, again), path);
  Outcome expected = {0}, found = {0};
  CompileOptions alone = options_for("one_rank", "fp32"), staged = options_for(layout, "fp32");
  LayoutRun *one = layout_compile(path, &alone, stdout), *many = layout_compile(file, &staged, stdout);
  unlink(path);
  if (!one || !many) {
    layout_fail("  %s does not compile in fp32", layout);
  }
  run_layout(one, "one rank", arena, &expected);
  run_layout(many, layout, arena, &found);
  if (!outcome_same(&expected, &found, 0, false, said, sizeof said)) {
    layout_fail("  %s is not to the bit what one rank computes: %s", layout, said);
  }
  free(text);
}

static bool stands_beside(const PlanSet *set) {
  bool any = false;
  for (int p = 0; p < set->count; p++) {
    for (int s = 0; s < set->plans[p]->segment_count; s++) {
      for (int i = 0; i < set->plans[p]->segments[s].count; i++) {
        any |= set->plans[p]->segments[s].instructions[i].aside;
      }
    }
  }
  return any;
}

// What stands beside arithmetic is only ordered otherwise: nothing may come out otherwise. Products stay whole here,
// since the library makes rows of few otherwise than those of many.
static bool check_alone(const char *file, const char *layout, Arena *arena) {
  char *text = read_text(file), head[96], said[512], path[32];
  CompileOptions options = options_for(layout, "fp32");
  options.part_rows = INT64_MAX;
  LayoutRun *beside = layout_compile(file, &options, stdout);
  snprintf(head, sizeof head, "layout %s {", layout);
  const char *at = strstr(text, head);
  if (!beside || !at || !stands_beside(beside->set) || layout_word(text, layout, "overlap")) {
    free(text);
    return false;
  }
  const int before = (int)(at - text + (int)strlen(head));
  write_with("", arena_format(arena, "%.*s overlap = false; %s", before, text, text + before), path);
  LayoutRun *alone = layout_compile(path, &options, stdout);
  unlink(path);
  if (!alone || stands_beside(alone->set)) {
    layout_fail("  %s is no layout without overlap", layout);
  }
  Outcome expected = {0}, found = {0};
  run_layout(alone, "without overlap", arena, &expected);
  run_layout(beside, layout, arena, &found);
  if (!outcome_same(&expected, &found, 0, false, said, sizeof said)) {
    layout_fail("  %s is not to the bit what it is with overlap = false: %s", layout, said);
  }
  free(text);
  return true;
}

// Nothing that padding holds comes into what is real: with NaN wherever it may be anything the outcome is the same.
static void check_poisoned(const Trial *trial, const char *file, const char *layout, Arena *arena) {
  char *text = read_text(file), said[512];
  CompileOptions options = options_for(layout, precision_asked());
  options.poison = true;
  const bool pads = layout_word(text, layout, "pad)") != NULL;
  LayoutRun *run = pads ? layout_compile(file, &options, stdout) : NULL;
  free(text);
  if (!pads) {
    return;
  }
  if (!run) {
    layout_fail("  %s does not compile with poison in its padding", layout);
  }
  Outcome found = {0}, expected = trial->expected;
  run_layout(run, layout, arena, &found);
  if (!outcome_same(&expected, &found, tolerance_asked(), false, said, sizeof said)) {
    layout_fail("  %s, with poison in its padding, is not what one rank computes: %s", layout, said);
  }
}

// The exit status. `file` has the layout.
static int child(Trial *trial, const char *file, const char *layout) {
  CompileOptions options = options_for(layout, precision_asked());
  char *diagnostics = NULL, said[512];
  size_t length = 0;
  FILE *to = open_memstream(&diagnostics, &length);
  LayoutRun *run = layout_compile(file, &options, to);
  fclose(to);
  if (!run) {
    bool legal = !flag("LAYOUTS_DRAWN") || strstr(diagnostics, "E099");
    const char *code = strstr(diagnostics, "error[");
    printf(legal ? "  %s does not compile\n%s" : "  %s is not legal: %.11s\n", layout,
           legal  ? diagnostics
           : code ? code
                  : "");
    return legal ? 1 : NOT_LEGAL;
  }
  Outcome found = {0};
  Arena *arena = arena_create();
  const Plan *plan = run->set->plans[0];
  bool bits =
      pipeline_alone(plan) && !flag("LAYOUTS_DRAWN") && !flag("LAYOUTS_NO_BITS") && !getenv("LAYOUTS_PRECISION");
  int microbatches = plan->programs[PROGRAM_TRAIN].slots;
  run_layout(run, layout, arena, &found);
  if (!outcome_same(&trial->expected, &found, tolerance_asked(), false, said, sizeof said)) {
    layout_fail("  %s is not what one rank computes: %s", layout, said);
  }
  check_poisoned(trial, file, layout, arena);
  if (bits) {
    check_bits(file, layout, microbatches, arena);
  }
  const bool same = !flag("LAYOUTS_DRAWN") && !flag("LAYOUTS_NO_BITS") && !getenv("LAYOUTS_PRECISION") &&
                    check_alone(file, layout, arena);
  printf("  %-28s %.1e%s%s\n", layout, trial->expected.worst, bits ? ", fp32 to the bit" : "",
         same ? ", without overlap the same" : "");
  arena_destroy(arena);
  free(diagnostics);
  return 0;
}

// --- all layouts of a program ---

// What one rank gives; evaluations are of one microbatch, so there is one for each number of microbatches.
static void expect(Trial *trial, Arena *arena) {
  CompileOptions options = options_for("single", precision_asked());
  LayoutRun *run = layout_compile(trial->path, &options, stdout);
  if (!run) {
    layout_fail("%s does not compile", trial->path);
  }
  run_layout(run, trial->path, arena, &trial->expected);
  for (int slots = 2; slots <= 12; slots++) {  // those that cut the batch
    char path[32];
    Error error = {0};
    write_with(trial->text, arena_format(arena, "layout one_rank { microbatches = %d; }\n", slots), path);
    options = options_for("one_rank", precision_asked());
    run = layout_compile(path, &options, NULL);
    unlink(path);
    if (run && !layout_open(run, 30, &error)) {
      layout_fail("%s: %s", trial->path, error.text);
    }
    if (run) {
      outcome_evaluate(run, trial->path, arena, &trial->expected);
      layout_close(run);
    }
  }
}

static void try_layout(Trial *trial, const char *file, const char *layout, const char *text) {
  fflush(NULL);
  trial->chosen++;
  pid_t pid = fork();
  if (pid < 0) {
    layout_fail("fork failed");
  }
  if (pid == 0) {
    layout_child = true;
    alarm(SECONDS);
    int status = child(trial, file, layout);
    fflush(NULL);
    _exit(status);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  trial->passed += code == 0;
  trial->refused += code == NOT_LEGAL;
  if (code != 0 && code != NOT_LEGAL) {
    trial->failed++;
    printf("FAIL %s, layout %s%s\n%s", trial->path, layout, code < 0 ? ": crashed" : "", text);
  }
}

static void count_combination(void *context, const CombinedLayout *layout) {
  (void)layout;
  ((Trial *)context)->all++;
}

static void try_combination(void *context, const CombinedLayout *layout) {
  Trial *trial = context;
  const char *only = getenv("LAYOUT");
  const int sample = effort_long() ? LONG_SAMPLE : effort_short() ? SHORT_SAMPLE : SAMPLE;
  double part = (double)number_of("LAYOUTS_SAMPLE", sample) / (double)trial->all;
  const char *base = strrchr(trial->path, '/');
  char key[256];  // another sample for each file
  snprintf(key, sizeof key, "%s %s", base ? base + 1 : trial->path, layout->name);
  bool chosen = flag("LAYOUTS_ALL") || drawn(key, 0, (uint64_t)number_of("LAYOUTS_SEED", 1)) < part;
  if (only ? strcmp(only, layout->name) != 0 : !chosen) {
    return;
  }
  char path[32];
  write_with(trial->text, layout->text, path);
  try_layout(trial, path, layout->name, layout->text);
  unlink(path);
}

static size_t count_layouts(const char *text) {
  size_t count = 0;
  for (const char *at = text; (at = strstr(at, "\nlayout ")) != NULL; at++) {
    count++;
  }
  return count;
}

static void try_all(Trial *trial) {
  char layout[64];
  const char *only = getenv("LAYOUT");
  size_t number = 0;
  const bool all = only || effort_long() || flag("LAYOUTS_DRAWN") || flag("LAYOUTS_ALL");
  const size_t every = all ? 1 : effort_short() ? 16 : count_layouts(trial->text) > FEW ? 4 : 1;
  for (const char *at = trial->text; (at = strstr(at, "\nlayout ")) != NULL; at++) {
    const bool named = sscanf(at, "\nlayout %63[A-Za-z0-9_]", layout) == 1;
    const bool left_out = number++ % every != 0;
    if (named && !left_out && (!only || strcmp(only, layout) == 0)) {
      try_layout(trial, trial->path, layout, "");
    }
  }
  Combine have = {0};
  if (combine_read(trial->text, &have) && !flag("LAYOUTS_DRAWN")) {
    combine_all(&have, count_combination, trial);
    combine_all(&have, try_combination, trial);
  }
}

static void test_file(void **state) {
  Trial trial = {.path = *state, .text = read_text(*state)};
  Arena *arena = arena_create();
  printf("%s\n", trial.path);
  expect(&trial, arena);
  try_all(&trial);
  printf("%s: %d layouts (of %lld combinations): %d pass, %d not legal, %d fail\n", trial.path, trial.chosen,
         (long long)trial.all, trial.passed, trial.refused, trial.failed);
  free(trial.text);
  arena_destroy(arena);
  if (trial.failed) {
    fail_msg("%s: %d layouts fail", trial.path, trial.failed);
  }
}

static int by_name(const void *a, const void *b) {
  return strcmp(((const struct CMUnitTest *)a)->name, ((const struct CMUnitTest *)b)->name);
}

static int list_files(const char *directory, struct CMUnitTest *tests) {
  int count = 0;
  DIR *open = opendir(directory);
  if (!open) {
    tests[0] = (struct CMUnitTest){directory, test_file, NULL, NULL, (void *)(uintptr_t)directory};
    return 1;
  }
  for (struct dirent *entry; (entry = readdir(open)) != NULL && count < MOST_FILES;) {
    size_t length = strlen(entry->d_name);
    if (length < 5 || strcmp(entry->d_name + length - 4, ".mdl") != 0) {
      continue;
    }
    char *path = malloc(strlen(directory) + length + 2);
    sprintf(path, "%s/%s", directory, entry->d_name);
    tests[count++] = (struct CMUnitTest){path, test_file, NULL, NULL, path};
  }
  closedir(open);
  qsort(tests, (size_t)count, sizeof *tests, by_name);
  return count;
}

int main(int argc, char **argv) {
  static struct CMUnitTest tests[MOST_FILES];
  if (list_files(argc > 1 ? argv[1] : MDL_SOURCE_DIR "/tests/layouts", tests) == 0) {
    fprintf(stderr, "layouts_test: no programs\n");
    return 1;
  }
  return cmocka_run_group_tests(tests, NULL, NULL);
}
