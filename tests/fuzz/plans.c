// plans.c: changes the numbers of compiled plans at random, gives them a right hash, and runs on the CPU what the
// verifier accepts: it must end, in results or in words.
//
//   fuzz_plans [--seconds N | --count N] [--seed N] [--out DIR] TEXT|DIR...    hunts, with plans of these texts
//   fuzz_plans --replay FILE...                                    runs what was found
//
// Accepted changes stay, so that plans become ever stranger. Meant for a build with MDL_SANITIZE. A process tries, and
// another one watches it: what ends the first by a signal or a sanitizer, or after more than a few seconds of processor
// time, lies in DIR as a plan, with what was said. Exit status 1: something was found.
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "compiler/compile.h"
#include "compiler/plan/artefact.h"
#include "runtime/io.h"
#include "tests/fuzz/choices.h"
#include "tests/fuzz/plan_fields.h"
#include "tests/fuzz/plan_play.h"
#include "tests/splitmix.h"

enum {
  PATHS_MOST = 1000,
  PLAN_MOST = 400000,
  PLAN_USUAL = 80000,
  TRIES = 400,
  ROUND_STARTS = 6,
  RUN_EACH = 4,
  LIMIT_SECONDS = 20,
  FOUND_MOST = 100
};
static const double work_most = 1e7;

typedef struct {  // memory of both processes
  long tried, accepted, executed, refused, large, plans;
  uint64_t kinds;  // of instructions that were executed
  char doing[16], text[200];
  size_t length;
  uint8_t plan[PLAN_MOST + 64];
} Shared;

typedef struct {
  double seconds;
  long count;  // of tries; 0: as many as there is time for
  uint64_t seed;
  const char *out;
  bool replay;
} Flags;

static char *paths[PATHS_MOST];
static int path_count;
static Shared *shared;
static char directory[64];

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static uint64_t draw(uint64_t *state, uint64_t below) {
  return splitmix64(state) % below;
}

static int by_name(const struct dirent **a, const struct dirent **b) {
  return strcmp((*a)->d_name, (*b)->d_name);
}

static void add_paths(const char *path, bool any) {
  struct dirent **entries = NULL;
  const int count = any ? -1 : scandir(path, &entries, NULL, by_name);
  if (count < 0 && path_count < PATHS_MOST) {
    paths[path_count++] = strdup(path);
  }
  for (int i = 0; i < count; i++) {
    const char *dot = strrchr(entries[i]->d_name, '.');
    if (dot && strcmp(dot, ".mdl") == 0 && path_count < PATHS_MOST) {
      char whole[4096];
      snprintf(whole, sizeof whole, "%s/%s", path, entries[i]->d_name);
      paths[path_count++] = strdup(whole);
    }
    free(entries[i]);
  }
  free(entries);
}

// --- of the process that tries ---

static void limit(bool on) {
  const struct itimerval timer = {.it_value = {on ? LIMIT_SECONDS : 0, 0}};
  setitimer(ITIMER_PROF, &timer, NULL);
}

// A plan of one of the texts under one of its layouts, in shared->plan. False: none.
static bool plan_make(uint64_t *state) {
  const char *path = paths[draw(state, (uint64_t)path_count)];
  Choices choices;
  Arena *arena = arena_create();
  PlanSet *set = NULL;
  Buffer bytes = {0};
  choices_find(path, &choices);
  CompileOptions options = {
      .file = path, .bucket_bytes = 1024, .part_rows = draw(state, 2) ? 2 : 0, .decode = draw(state, 3) == 0};
  options.recipe = choices.recipe_count ? choices.recipes[draw(state, (uint64_t)choices.recipe_count)] : NULL;
  const uint64_t layout = choices.layout_count ? draw(state, (uint64_t)choices.layout_count + 1) : 0;
  options.layout = layout ? choices.layouts[layout - 1] : NULL;
  Diag *diag = diag_create(arena);
  const size_t most = draw(state, 4) ? PLAN_USUAL : PLAN_MOST;
  bool made = compile_plans(arena, diag, &options, &set) && artefact_write_bytes(arena, set, &bytes) &&
              bytes.length <= most && play_work(set) < work_most && play_bytes(set) < 8e6 &&
              plan_ranks(set->plans[0]) <= 8;
  if (made) {
    memcpy(shared->plan, bytes.text, bytes.length);
    shared->length = bytes.length;
    snprintf(shared->text, sizeof shared->text, "%.120s, layout %.60s", path, options.layout ? options.layout : "-");
    shared->plans++;
  }
  buffer_free(&bytes);
  arena_destroy(arena);
  choices_free(&choices);
  return made;
}

static void count_kinds(const PlanSet *set) {
  for (int s = 0; s < set->count; s++) {
    for (int i = 0; i < set->plans[s]->segment_count; i++) {
      for (int k = 0; k < set->plans[s]->segments[i].count; k++) {
        shared->kinds |= 1ull << set->plans[s]->segments[i].instructions[k].kind;
      }
    }
  }
}

static void play(const PlanSet *set, uint64_t seed) {
  snprintf(shared->doing, sizeof shared->doing, "run");
  limit(true);
  if (play_work(set) > work_most) {
    shared->large++;
    limit(false);
    return;
  }
  switch (play_plan(set, seed, directory)) {
    case PLAY_DONE:
      shared->executed++;
      count_kinds(set);
      break;
    case PLAY_REFUSED:
      shared->refused++;
      break;
    case PLAY_LARGE:
      shared->large++;
  }
  limit(false);
}

// Is shared->plan a plan? Then it is run, if it is wanted.
static bool try_plan(uint64_t *state, bool run) {
  const char *why = NULL;
  Arena *arena = arena_create();
  arena_set_limit(arena, (size_t)512 << 20);
  snprintf(shared->doing, sizeof shared->doing, "read");
  limit(true);
  const PlanSet *set = artefact_read_bytes(arena, shared->plan, shared->length, "it", &why);
  limit(false);
  if (!set && !why) {
    abort();
  }
  shared->tried++;
  if (set) {
    shared->accepted++;
    if (run) {
      play(set, draw(state, UINT64_MAX));
    }
  }
  arena_destroy(arena);
  return set != NULL;
}

// Is there to be one more try?
static bool goes_on(const Flags *flags, double end) {
  return flags->count > 0 ? shared->tried < flags->count : now() < end;
}

static void one_start(const Flags *flags, uint64_t *state, double end) {
  static uint8_t good[PLAN_MOST + 64];
  if (!plan_make(state)) {
    return;
  }
  size_t length = shared->length;
  memcpy(good, shared->plan, length);
  Fields fields = fields_find(good, length);
  for (int t = 0, kept = 0; t < TRIES && goes_on(flags, end); t++) {
    bool moved;
    shared->length = fields_change(&fields, draw(state, UINT64_MAX), shared->plan, length, PLAN_MOST, &moved);
    if (try_plan(state, (kept + 1) % RUN_EACH == 0)) {
      kept++;
      length = shared->length;
      memcpy(good, shared->plan, length);
      if (moved) {
        fields = fields_find(good, length);
      }
    } else {
      memcpy(shared->plan, good, length);
    }
  }
}

static void quiet(const char *log) {
  const int to = open(log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  dup2(to, 1);
  dup2(to, 2);
  close(to);
}

// --- of the one that watches ---

// The line of a sanitizer's report that says where.
static void summary(const char *log, char *out, size_t size, int status) {
  char line[1000];
  FILE *file = fopen(log, "r");
  snprintf(out, size, WIFSIGNALED(status) ? "signal %d" : "status %d",
           WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
  while (file && fgets(line, sizeof line, file)) {
    if (strstr(line, "SUMMARY: ") || strstr(line, "runtime error: ")) {
      line[strcspn(line, "\n")] = '\0';
      snprintf(out, size, "%.*s", (int)size - 1, line);
    }
  }
  if (file) {
    fclose(file);
  }
}

static bool is_new(const char *what) {
  static char found[FOUND_MOST][300];
  static int count;
  for (int i = 0; i < count; i++) {
    if (strcmp(found[i], what) == 0) {
      return false;
    }
  }
  snprintf(found[count], sizeof found[0], "%.299s", what);
  count += count < FOUND_MOST - 1;
  return true;
}

static void keep(const Flags *flags, int number, const char *log, const char *what) {
  char path[4096];
  FileError error;
  printf("found %d: %s (%s, %s)\n", number, what, shared->doing, shared->text);
  fflush(stdout);
  if (flags->out) {
    snprintf(path, sizeof path, "%s/plan-%llu-%d.mdlx", flags->out, (unsigned long long)flags->seed, number);
    file_write_atomic(path, (const char *)shared->plan, shared->length, &error);
    snprintf(path, sizeof path, "%s/plan-%llu-%d.log", flags->out, (unsigned long long)flags->seed, number);
    size_t length = 0;
    char *text = file_read(log, &length, &error);
    if (text) {
      file_write_atomic(path, text, length, &error);
    }
    free(text);
  }
}

static int hunt(const Flags *flags) {
  char log[100], what[300];
  const double begin = now(), end = begin + flags->seconds;
  int found = 0;
  snprintf(log, sizeof log, "%s/log", directory);
  for (uint64_t round = 0; goes_on(flags, end); round++) {
    fflush(NULL);
    const pid_t pid = fork();
    if (pid < 0) {
      perror("fork");
      return 2;
    }
    if (pid == 0) {
      uint64_t state = flags->seed * 1000003 + round * 0x2545f4914f6cdd1du;
      quiet(log);
      play_prepare();
      for (int i = 0; i < ROUND_STARTS && goes_on(flags, end); i++) {
        one_start(flags, &state, end);
      }
      _exit(0);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
      summary(log, what, sizeof what, status);
      if (is_new(what)) {
        keep(flags, found++, log, what);
      }
    }
    printf("%.0f s: %ld plans, %ld tries, %ld accepted, %ld executed\n", now() - begin, shared->plans, shared->tried,
           shared->accepted, shared->executed);
    fflush(stdout);
  }
  return found;
}

static int replay(void) {
  for (int i = 0; i < path_count; i++) {
    size_t length = 0;
    FileError error;
    const char *why = NULL;
    Arena *arena = arena_create();
    char *bytes = file_read(paths[i], &length, &error);
    const PlanSet *set = bytes ? artefact_read_bytes(arena, bytes, length, paths[i], &why) : NULL;
    if (set) {
      for (uint64_t seed = 0; seed < 8; seed++) {
        play(set, seed);
      }
    }
    printf("%s\n", set ? "played" : why ? why : error.text);
    free(bytes);
    arena_destroy(arena);
  }
  return 0;
}

static bool read_flags(int argc, char **argv, Flags *flags) {
  for (int i = 1; i < argc; i++) {
    const char *word = argv[i], *value = i + 1 < argc ? argv[i + 1] : "";
    if (strcmp(word, "--replay") == 0) {
      flags->replay = true;
    } else if (strncmp(word, "--", 2) != 0) {
      add_paths(word, flags->replay);
    } else {
      i++;
      if (strcmp(word, "--seconds") == 0) {
        flags->seconds = strtod(value, NULL);
      } else if (strcmp(word, "--count") == 0) {
        flags->count = strtol(value, NULL, 10);
      } else if (strcmp(word, "--seed") == 0) {
        flags->seed = strtoull(value, NULL, 10);
      } else if (strcmp(word, "--out") == 0) {
        flags->out = value;
      } else {
        return false;
      }
    }
  }
  return path_count > 0;
}

int main(int argc, char **argv) {
  Flags flags = {.seconds = 10, .seed = 1};
  shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  snprintf(directory, sizeof directory, "%s/mdl-plans-%d", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp",
           (int)getpid());
  if (shared == MAP_FAILED || !read_flags(argc, argv, &flags) || mkdir(directory, 0700) != 0) {
    fprintf(stderr,
            "usage: fuzz_plans [--seconds N | --count N] [--seed N] [--out DIR] TEXT|DIR... | --replay FILE...\n");
    return 2;
  }
  const int found = flags.replay ? replay() : hunt(&flags);
  int kinds = 0;
  for (int i = 0; i < INSTRUCTION_KIND_COUNT; i++) {
    kinds += (int)(shared->kinds >> i & 1);
  }
  io_remove_tree(directory);
  if (!flags.replay) {
    printf(
        "%ld plans of %d texts, %ld tries, %ld accepted, %ld executed (of %d of %d kinds of instructions), %ld refused "
        "by the device, %ld too large to run, %d distinct failures\n",
        shared->plans, path_count, shared->tried, shared->accepted, shared->executed, kinds, INSTRUCTION_KIND_COUNT,
        shared->refused, shared->large, found);
  }
  return found > 0;
}
