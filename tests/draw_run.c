// draw_run.c: many programs, each under many layouts, against one rank in fp64, as fast as can be.
//
//   draw_run [-j WORKERS] [-l LAYOUT] FILE_OR_DIRECTORY...
//
// A combination counts when a legal layout compiled, ran two training steps and an evaluation, and gave what one rank
// gives (layouts_outcome.h). A layout that does not compile is not legal, unless the compiler found its own fault
// (E099). A signal, or more than SECONDS of work, is a failure too: programs run in a few processes which are started
// again, behind the layout that ended them. The exit status is 1 when anything failed.
#include <dirent.h>
#include <malloc.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "base/file.h"
#include "kernels/cpu/blas.h"
#include "tests/draw_fibers.h"
#include "tests/layouts_outcome.h"

enum {
  SECONDS = 20,
  MOST_FILES = 65536,
  MOST_WORKERS = 64,
  MOST_LAYOUTS = 256,
  MOST_SLOTS = 64,
  CODES = 100,
  SAID = 2048
};
static const double TOLERANCE = 1e-9, NOISE = 1e-15, JITTER = 1e-14;

typedef struct {     // of one worker; the parent reads it when the worker is dead
  int file, layout;  // what it is at; layout -1: one rank
  bool told;         // of what made it give up
  char said[SAID];
} Desk;

typedef struct {  // shared by all processes
  atomic_int next;
  atomic_llong programs, unfinite, refused_programs, layouts, combinations, refused[CODES], failures;
  Desk desk[MOST_WORKERS];
} Shared;

typedef struct {
  const char *path;
  char *text;
  char name[MOST_LAYOUTS][64];
  int layouts;
  Arena *arena;
  Outcome expected;
  bool noise;              // one of its gradients is nothing but rounding
  bool known[MOST_SLOTS];  // whether `expected` has the evaluation with so many microbatches
} Program;

static char *files[MOST_FILES];
static int file_count;
static const char *only;  // layout
static Shared *shared;
static Desk *desk;

// Gradients that are outputs too are stored otherwise than in training, and logits are mostly too small to be computed
// in parts: so some layouts are run without the one or with the other. Which ones is in the name, whatever else is in
// the file.
static bool with_gradients(const char *layout) {
  return layout[strlen(layout) - 1] % 3 != 0;
}

static bool with_chunks(const char *layout) {
  return layout[strlen(layout) - 1] % 4 == 1;
}

// What `mdl diff` compiles. The values are for it to compare; here they must leave everything else as it is.
static bool with_values(const char *layout) {
  return layout[strlen(layout) - 1] % 5 == 2;
}

// NaN in padding: what is wrong without it is wrong with it too, but for masks that keep nothing out but rounding.
static bool with_poison(const char *layout) {
  return layout[strlen(layout) - 1] % 2 == 0;
}

// The only place that says how programs are compiled.
static CompileOptions options_for(const char *layout) {
  const bool alone = strcmp(layout, "single") == 0 || strcmp(layout, "one_rank") == 0;
  return (CompileOptions){.layout = layout,
                          .precision = "fp64",
                          .idle_rules = true,
                          .poison = !alone && with_poison(layout),
                          .gradients = alone || with_gradients(layout),
                          .chunk_bytes = !alone && with_chunks(layout)};
}

void __gcov_dump(void) __attribute__((weak));  // is there in builds that count what is covered

__attribute__((noreturn)) static void leave(int status) {
  if (__gcov_dump) {
    __gcov_dump();
  }
  _exit(status);
}

// --- what is said ---

static const char *layout_at(const Program *program, int layout) {
  return layout < 0 ? "single" : program->name[layout];
}

// One write, so that lines of several workers do not mix.
static void say_failure(const char *path, const char *layout, const char *text) {
  char line[SAID + 512];
  const int length = snprintf(line, sizeof line, "FAIL %s, layout %s: %.*s\n", path, layout, SAID, text);
  shared->failures++;
  if (write(STDOUT_FILENO, line, (size_t)length < sizeof line ? (size_t)length : sizeof line - 1) < 0) {
    _exit(3);
  }
}

// Called by layout_fail: ranks are in disorder, so the process goes.
static void give_up(const char *text) {
  snprintf(desk->said, sizeof desk->said, "%s", text);
  desk->told = true;
  leave(1);
}

// --- one program ---

// The first error of diagnostics, and its number.
static int error_code(const char *diagnostics, char *line, size_t size) {
  const char *at = strstr(diagnostics, "error[E");
  snprintf(line, size, "%.*s", at ? (int)strcspn(at, "\n") : 80, at ? at : diagnostics);
  const int code = at ? atoi(at + strlen("error[E")) : 0;
  return code >= 0 && code < CODES ? code : 0;
}

static LayoutRun *compile(const char *file, const char *layout, int *code, char *line, size_t size) {
  CompileOptions options = options_for(layout);
  CompiledValues values = {.arena = arena_create()};
  options.values = with_values(layout) ? &values : NULL;
  char *diagnostics = NULL;
  size_t length = 0;
  FILE *to = open_memstream(&diagnostics, &length);
  LayoutRun *run = layout_compile(file, &options, to);
  fclose(to);
  arena_destroy(values.arena);
  if (!run) {
    *code = error_code(diagnostics, line, size);
  }
  free(diagnostics);
  return run;
}

static bool outcome_finite(const Outcome *outcome) {
  for (int i = 0; i < outcome->at.count; i++) {
    if (strncmp(outcome->at.at[i].name, "skipped", strlen("skipped")) == 0) {
      continue;  // that step begins with what is no number
    }
    for (int64_t j = 0; j < outcome->at.at[i].count; j++) {
      if (!isfinite(outcome->at.at[i].data[j])) {
        return false;
      }
    }
  }
  return true;
}

// Is a gradient nothing but rounding, such as that of a sum of a softmax? Then what an optimizer makes of its sign is
// chance, and one order of sums is as good as another: nothing is compared behind the first step.
static bool outcome_noise(const Outcome *outcome) {
  for (int i = 0; i < outcome->at.count; i++) {
    const Tensor *tensor = &outcome->at.at[i];
    double most = 0;
    for (int64_t j = 0; j < tensor->count; j++) {
      most = fmax(most, fabs(tensor->data[j]));
    }
    if (strstr(tensor->name, "gradient.") && most > 0 && most < NOISE) {
      return true;
    }
  }
  return false;
}

static bool expect(Program *program) {
  char line[512];
  int code = 0;
  LayoutRun *run = compile(program->path, "single", &code, line, sizeof line);
  if (!run && code == 99) {
    say_failure(program->path, "single", line);
    return false;
  }
  if (!run) {
    shared->refused_programs++;
    printf("REFUSED %s: %s\n", program->path, line);
    fflush(stdout);
    return false;
  }
  outcome_run(run, program->path, 30, program->arena, &program->expected);
  program->known[1] = true;
  program->noise = outcome_noise(&program->expected);
  shared->unfinite += program->noise || !outcome_finite(&program->expected);
  return true;
}

// What a run gives without what has this in its name, such as " gradient.".
static Outcome outcome_without(Arena *arena, const Outcome *outcome, const char *name) {
  Outcome rest = {0};
  for (int i = 0; i < outcome->at.count; i++) {
    if (!strstr(outcome->at.at[i].name, name)) {
      array_push(arena, &rest.at, outcome->at.at[i]);
    }
  }
  return rest;
}

// What of it the other one has too.
static Outcome outcome_alike(Arena *arena, const Outcome *outcome, const Outcome *other) {
  Outcome rest = {0};
  for (int i = 0; i < outcome->at.count; i++) {
    if (outcome_find(other, outcome->at.at[i].name)) {
      array_push(arena, &rest.at, outcome->at.at[i]);
    }
  }
  return rest;
}

// What no step before has a part in.
static Outcome outcome_at_once(Arena *arena, const Outcome *outcome) {
  static const char *const later[] = {"last ", "step 2 ", "skipped "};
  Outcome rest = *outcome;
  for (size_t i = 0; i < sizeof later / sizeof *later; i++) {
    rest = outcome_without(arena, &rest, later[i]);
  }
  return rest;
}

// What of it the other one has the same but for rounding.
static Outcome outcome_agreed(Arena *arena, const Outcome *outcome, const Outcome *other) {
  char said[512];
  Outcome rest = {0};
  double gradients = 0;
  for (int i = 0; i < outcome->at.count; i++) {
    const Tensor *tensor = &outcome->at.at[i];
    gradients = strstr(tensor->name, " gradient.") ? fmax(gradients, tensor_largest(tensor)) : gradients;
  }
  double most[] = {gradients};
  for (int i = 0; i < outcome->at.count; i++) {
    const Tensor *tensor = &outcome->at.at[i], *same = outcome_find(other, tensor->name);
    const Tensor scale = {" gradient.", 1, most};  // errors are measured against the largest of all gradients too
    Outcome one = {0}, its = {0};
    array_push(arena, &one.at, *tensor);
    array_push(arena, &one.at, scale);
    array_push(arena, &its.at, *(same ? same : tensor));
    array_push(arena, &its.at, scale);
    if (same && outcome_same(&one, &its, TOLERANCE, false, said, sizeof said)) {
      array_push(arena, &rest.at, *tensor);
    }
  }
  return rest;
}

// Does all that differs hang on rounding? Where two values meet but for that, one comparison decides over all that
// comes behind it: one rank alone then gives something else of this with parameters that differ far behind the point.
// What it does not give otherwise is to be the same under the layout too.
static bool hangs_on_rounding(Program *program, const Outcome *expected, const Outcome *found) {
  char line[512], said[512];
  int code = 0;
  LayoutRun *run = compile(program->path, "single", &code, line, sizeof line);
  if (!run) {
    return false;
  }
  Arena *arena = arena_create();
  Outcome jittered = {0}, all = outcome_without(arena, expected, "first ");  // these are the same to the bit
  outcome_jitter = JITTER;
  outcome_run(run, program->path, 30, arena, &jittered);
  outcome_jitter = 0;
  all = outcome_alike(arena, &all, &jittered);
  Outcome steady = outcome_agreed(arena, &all, &jittered), of = outcome_alike(arena, found, &steady);
  const bool hangs = steady.at.count < all.at.count && outcome_same(&steady, &of, TOLERANCE, false, said, sizeof said);
  arena_destroy(arena);
  return hangs;
}

// An evaluation is of one microbatch. What one rank gives where there are so many of them.
static void expect_slots(Program *program, int slots) {
  char path[] = "/dev/shm/draw_run_XXXXXX", line[512];
  Error error = {0};
  int code = 0;
  if (slots >= MOST_SLOTS || program->known[slots]) {
    return;
  }
  program->known[slots] = true;
  const int handle = mkstemp(path);
  FILE *file = handle < 0 ? NULL : fdopen(handle, "w");
  if (!file) {
    layout_fail("cannot make a file in /dev/shm");
  }
  fprintf(file, "%s\nlayout one_rank { microbatches = %d; }\n", program->text, slots);
  fclose(file);
  LayoutRun *run = compile(path, "one_rank", &code, line, sizeof line);
  unlink(path);
  if (!run) {
    layout_fail("microbatches = %d alone: %s", slots, line);
  }
  if (!layout_open(run, 30, &error)) {
    layout_fail("microbatches = %d alone: %s", slots, error.text);
  }
  outcome_evaluate(run, program->path, program->arena, &program->expected);
  layout_close(run);
}

static void try_layout(Program *program, const char *layout) {
  char said[SAID];
  int code = 0;
  shared->layouts++;
  LayoutRun *run = compile(program->path, layout, &code, said, sizeof said);
  if (!run && code == 99) {
    say_failure(program->path, layout, said);
  } else if (!run) {
    shared->refused[code]++;
  } else {
    Arena *arena = arena_create();
    Outcome found = {0};
    expect_slots(program, run->set->plans[0]->programs[PROGRAM_TRAIN].slots);
    outcome_run(run, layout, 30, arena, &found);
    found = with_values(layout) ? outcome_without(arena, &found, " value.") : found;
    Outcome expected =
        with_gradients(layout) ? program->expected : outcome_without(arena, &program->expected, " gradient.");
    if (with_chunks(layout) && !outcome_find(&found, "step 1 out")) {  // logits that nobody has whole enter it
      expected = outcome_without(arena, &expected, "step 1 out");
      expected = outcome_without(arena, &expected, "step 2 out");
    }
    expected = program->noise ? outcome_at_once(arena, &expected) : expected;
    found = program->noise ? outcome_at_once(arena, &found) : found;
    if (outcome_same(&expected, &found, TOLERANCE, false, said, sizeof said)) {
      shared->combinations++;
    } else if (hangs_on_rounding(program, &expected, &found)) {
      shared->unfinite++;
    } else {
      say_failure(program->path, layout, said);
    }
    arena_destroy(arena);
  }
}

static void set_timer(int seconds) {
  const struct itimerval timer = {.it_value.tv_sec = seconds};
  setitimer(ITIMER_PROF, &timer, NULL);
}

static void find_layouts(Program *program) {
  for (const char *at = program->text; (at = strstr(at, "\nlayout ")) != NULL; at++) {
    if (program->layouts == MOST_LAYOUTS) {
      fprintf(stderr, "draw_run: %s has more than %d layouts; divide it\n", program->path, MOST_LAYOUTS);
      exit(2);
    }
    program->layouts += sscanf(at, "\nlayout %63[A-Za-z0-9_]", program->name[program->layouts]) == 1;
  }
}

// All layouts of a file from number `first` on; -1: none was tried before.
static void run_program(int file, int first) {
  FileError error;
  size_t length = 0;
  Program *program = calloc(1, sizeof *program);
  *program = (Program){.path = files[file], .arena = arena_create(), .text = file_read(files[file], &length, &error)};
  desk->file = file;
  desk->layout = -1;
  if (!program->text) {
    layout_fail("%s", error.text);
  }
  find_layouts(program);
  set_timer(SECONDS);
  if (expect(program)) {
    shared->programs += first < 0;
    for (int i = first < 0 ? 0 : first; i < program->layouts; i++) {
      if (!only || strcmp(only, program->name[i]) == 0) {
        desk->layout = i;
        set_timer(SECONDS);
        try_layout(program, program->name[i]);
      }
    }
  }
  arena_destroy(program->arena);
  free(program->text);
  free(program);
}

// --- processes ---

// The library is opened by every rank; here it stays open. Memory given back is used again.
static void prepare_worker(void) {
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  Blas blas;
  Error error = {0};
  if (!blas_open(&blas, 1, &error)) {
    layout_fail("%s", error.text);
  }
  layout_failed = give_up;
  fibers_begin();
}

// A process that goes on at `file` and `layout`, or with file -1 at the next file.
static pid_t start_worker(int number, int file, int layout) {
  const pid_t pid = fork();
  if (pid != 0) {
    return pid;
  }
  desk = &shared->desk[number];
  desk->told = false;
  prepare_worker();
  if (file >= 0) {
    run_program(file, layout);
  }
  while ((file = shared->next++) < file_count) {
    run_program(file, -1);
  }
  leave(0);
}

// What ended a worker. Where it goes on, or false: it is done.
static bool autopsy(int number, int status, int *file, int *layout) {
  Desk *of = &shared->desk[number];
  char text[SAID];
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
    return false;
  }
  FileError error;
  size_t length = 0;
  Program program = {.path = files[of->file], .text = file_read(files[of->file], &length, &error)};
  find_layouts(&program);
  snprintf(text, sizeof text, "%s",
           of->told              ? of->said
           : WIFSIGNALED(status) ? WTERMSIG(status) == SIGPROF ? "hangs" : strsignal(WTERMSIG(status))
                                 : "ended");
  say_failure(program.path, layout_at(&program, of->layout), text);
  *file = of->layout < 0 ? -1 : of->file;
  *layout = of->layout + 1;
  free(program.text);
  return true;
}

static void run_all(int workers) {
  pid_t pid[MOST_WORKERS];
  int left = workers, status, file, layout;
  for (int i = 0; i < workers; i++) {
    pid[i] = start_worker(i, -1, 0);
  }
  while (left > 0) {
    const pid_t ended = wait(&status);
    for (int i = 0; i < workers; i++) {
      if (pid[i] == ended && autopsy(i, status, &file, &layout)) {
        pid[i] = start_worker(i, file, layout);
      } else if (pid[i] == ended) {
        left--;
      }
    }
  }
}

// --- main ---

static int by_text(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

static void list_files(const char *path) {
  DIR *open = opendir(path);
  if (!open && file_count < MOST_FILES) {
    files[file_count++] = strdup(path);
    return;
  }
  const int first = file_count;
  for (struct dirent *entry; open && (entry = readdir(open)) != NULL && file_count < MOST_FILES;) {
    const size_t length = strlen(entry->d_name);
    if (length > 4 && strcmp(entry->d_name + length - 4, ".mdl") == 0) {
      files[file_count] = malloc(strlen(path) + length + 2);
      sprintf(files[file_count++], "%s/%s", path, entry->d_name);
    }
  }
  closedir(open);
  qsort(files + first, (size_t)(file_count - first), sizeof *files, by_text);
}

static void say_sums(double seconds) {
  long long refused = 0;
  for (int i = 0; i < CODES; i++) {
    refused += shared->refused[i];
  }
  printf("draw_run: %lld programs, %lld combinations as one rank, %lld failures; %lld of %lld layouts not legal (",
         (long long)shared->programs, (long long)shared->combinations, (long long)shared->failures, refused,
         (long long)shared->layouts);
  const char *between = "";
  for (int i = 0; i < CODES; i++) {
    if (shared->refused[i]) {
      printf("%sE%03d %lld", between, i, (long long)shared->refused[i]);
      between = ", ";
    }
  }
  printf("); %lld programs refused, %lld not finite or rounding alone; %.1f ms a layout\n",
         (long long)shared->refused_programs, (long long)shared->unfinite,
         seconds * 1e3 / (double)(shared->layouts ? shared->layouts : 1));
}

static double seconds_of_children(void) {
  struct rusage usage;
  getrusage(RUSAGE_CHILDREN, &usage);
  return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

int main(int argc, char **argv) {
  int workers = (int)sysconf(_SC_NPROCESSORS_ONLN);
  for (int option; (option = getopt(argc, argv, "j:l:")) != -1;) {
    if (option == 'j') {
      workers = atoi(optarg);
    } else if (option == 'l') {
      only = optarg;
    } else {
      return 2;
    }
  }
  for (int i = optind; i < argc; i++) {
    list_files(argv[i]);
  }
  workers = workers < 1 ? 1 : workers > MOST_WORKERS ? MOST_WORKERS : workers > file_count ? file_count : workers;
  if (file_count == 0) {
    fprintf(stderr, "draw_run: no programs\n");
    return 2;
  }
  shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) {
    fprintf(stderr, "draw_run: no memory\n");
    return 2;
  }
  run_all(workers);
  say_sums(seconds_of_children());
  return shared->failures > 0;
}
