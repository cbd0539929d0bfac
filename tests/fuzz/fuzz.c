// fuzz.c: changes texts at random and gives them to the compiler, each in a process of its own; keeps, small, what
// fails.
//
//   fuzz [--seconds N] [--count N] [--seed N] [--limit SECONDS] [--out DIR] TEXT|DIR...    hunts
//   fuzz --check TEXT|DIR...                                                               tries these texts as they
//   are fuzz --shrink TEXT                                                                     prints a smaller one
//
// --limit: processor time for one layout of a text. Exit status 1: something failed.
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/file.h"
#include "tests/fuzz/mutate.h"
#include "tests/fuzz/shrink.h"
#include "tests/fuzz/trial.h"

enum { TEXT_MOST = 40000, TEXTS_MOST = 20000, FAILURES_MOST = 400, SHRINK_SECONDS = 60, KIND_SLOTS = 1 << 16 };

typedef struct {
  char *text;
  size_t length;
  const char *name;  // of the file it is, or NULL
  bool compiles;     // at least one of its layouts
} Text;

typedef struct {
  double seconds;
  long count;
  uint64_t seed;
  const char *out;
  bool check, shrink;
} Flags;

static Text texts[TEXTS_MOST];
static int text_count;
static uint64_t kinds[KIND_SLOTS];
static char failures[FAILURES_MOST][256];
static int failure_times[FAILURES_MOST], failure_count;
static long tried, compiled;

static void add_text(char *text, size_t length, const char *name) {
  if (text_count < TEXTS_MOST && length < TEXT_MOST) {
    texts[text_count++] = (Text){text, length, name, false};
  }
}

static int by_name(const struct dirent **a, const struct dirent **b) {
  return strcmp((*a)->d_name, (*b)->d_name);
}

static bool read_texts(const char *path) {
  struct stat status;
  FileError error;
  if (stat(path, &status) == 0 && S_ISDIR(status.st_mode)) {
    struct dirent **entries = NULL;
    int count = scandir(path, &entries, NULL, by_name);
    for (int i = 0; i < count; i++) {
      const char *name = entries[i]->d_name, *dot = strrchr(name, '.');
      char whole[4096];
      snprintf(whole, sizeof whole, "%s/%s", path, name);
      if (dot && strcmp(dot, ".mdl") == 0 && !read_texts(whole)) {
        return false;
      }
      free(entries[i]);
    }
    free(entries);
    return true;
  }
  size_t length = 0;
  char *text = file_read(path, &length, &error);
  if (!text) {
    fprintf(stderr, "fuzz: %s\n", error.text);
    return false;
  }
  add_text(text, length, strdup(path));
  return true;
}

// Whether the text did something that no text before it did.
static bool is_new(const TargetReport *report) {
  bool found = false;
  for (int i = 0; i < report->kind_count; i++) {
    uint64_t *slot = &kinds[report->kinds[i] % KIND_SLOTS];
    found |= *slot != report->kinds[i];
    *slot = report->kinds[i];
  }
  return found;
}

// The number of a failure that is new, or -1.
static int new_failure(const char *signature) {
  for (int i = 0; i < failure_count; i++) {
    if (strcmp(failures[i], signature) == 0) {
      failure_times[i]++;
      return -1;
    }
  }
  if (failure_count == FAILURES_MOST) {
    return -1;
  }
  snprintf(failures[failure_count], sizeof failures[0], "%s", signature);
  failure_times[failure_count] = 1;
  return failure_count++;
}

static void keep(const Flags *flags, int number, char *text, size_t length, const char *doing) {
  char path[4096], where[200];
  snprintf(where, sizeof where, "%s", doing);
  printf("failure %d: %s (%s)\n", number, failures[number], where);
  fflush(stdout);
  if (!flags->out) {
    return;
  }
  length = shrink(text, length, failures[number], SHRINK_SECONDS);
  snprintf(path, sizeof path, "%s/fuzz-%llu-%d.mdl", flags->out, (unsigned long long)flags->seed, number);
  FILE *file = fopen(path, "w");
  if (!file) {
    perror(path);
    exit(2);
  }
  fprintf(file, "// %s: %s\n", where, failures[number]);
  fwrite(text, 1, length, file);
  fclose(file);
}

// Whether at least one layout gave a plan.
static bool try_text(const Flags *flags, char *text, size_t length, const char *name) {
  Trial trial = trial_run(text, length);
  char doing[160];
  tried++;
  compiled += (long)trial.report->compiled;
  snprintf(doing, sizeof doing, "%s", trial.report->doing);
  if (!trial.failed) {
    if (is_new(trial.report) && !name && length < TEXT_MOST) {
      char *copy = malloc(length + 1);
      if (copy) {
        memcpy(copy, text, length);
        add_text(copy, length, NULL);
        texts[text_count - 1].compiles = trial.report->compiled > 0;
      }
    }
    return trial.report->compiled > 0;
  }
  if (name) {
    printf("%s: ", name);
  }
  int number = new_failure(trial.signature);
  if (number >= 0) {
    keep(flags, number, text, length, doing);
  } else if (name) {
    printf("%s (%s)\n", trial.signature, doing);
  }
  return false;
}

static uint64_t next(uint64_t *state) {  // xorshift
  *state ^= *state << 13;
  *state ^= *state >> 7;
  *state ^= *state << 17;
  return *state;
}

// Nine times of ten one that compiles; of these half of the time one of the given texts, else one found on the way.
static const Text *choose(uint64_t *state, int given) {
  const Text *text = NULL;
  for (int i = 0; i < 40; i++) {
    text = &texts[next(state) % (uint64_t)(next(state) & 1 ? given : text_count)];
    if (text->compiles || next(state) % 200 == 0) {
      break;
    }
  }
  return text;
}

static void hunt(const Flags *flags) {
  static char text[TEXT_MOST * 2];
  uint64_t state = flags->seed * 0x9e3779b97f4a7c15u + 1;
  struct timespec start, now;
  clock_gettime(CLOCK_MONOTONIC, &start);
  int given = text_count;
  for (long i = 0; flags->count == 0 || i < flags->count; i++) {
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (flags->seconds > 0 && (double)(now.tv_sec - start.tv_sec) >= flags->seconds) {
      break;
    }
    const Text *base = choose(&state, given), *other = &texts[next(&state) % (uint64_t)text_count];
    size_t length = mutate(next(&state), base->text, base->length, other->text, other->length, text, sizeof text);
    try_text(flags, text, length, NULL);
  }
}

static bool read_flags(int argc, char **argv, Flags *flags, double *limit) {
  for (int i = 1; i < argc; i++) {
    const char *word = argv[i], *value = i + 1 < argc ? argv[i + 1] : "";
    if (strcmp(word, "--check") == 0) {
      flags->check = true;
    } else if (strcmp(word, "--shrink") == 0) {
      flags->shrink = true;
    } else if (strncmp(word, "--", 2) == 0) {
      i++;
      if (strcmp(word, "--seconds") == 0) {
        flags->seconds = strtod(value, NULL);
      } else if (strcmp(word, "--count") == 0) {
        flags->count = strtol(value, NULL, 10);
      } else if (strcmp(word, "--seed") == 0) {
        flags->seed = strtoull(value, NULL, 10);
      } else if (strcmp(word, "--limit") == 0) {
        *limit = strtod(value, NULL);
      } else if (strcmp(word, "--out") == 0) {
        flags->out = value;
      } else {
        return false;
      }
    } else if (!read_texts(word)) {
      return false;
    }
  }
  return text_count > 0;
}

int main(int argc, char **argv) {
  Flags flags = {.seed = 1};
  double limit = 5;
  if (!read_flags(argc, argv, &flags, &limit) || !trial_prepare(limit)) {
    fprintf(stderr,
            "usage: fuzz [--check|--shrink] [--seconds N] [--count N] [--seed N] [--limit SECONDS] [--out DIR] "
            "TEXT|DIR...\n");
    return 2;
  }
  if (flags.shrink) {
    Trial trial = trial_run(texts[0].text, texts[0].length);
    if (trial.failed) {
      char signature[256];
      snprintf(signature, sizeof signature, "%s", trial.signature);
      fprintf(stderr, "%s (%s)\n", signature, trial.report->doing);
      size_t length = shrink(texts[0].text, texts[0].length, signature, 30 * SHRINK_SECONDS);
      fwrite(texts[0].text, 1, length, stdout);
    }
    return trial.failed ? 0 : 1;
  }
  int given = text_count;
  for (int i = 0; i < given; i++) {
    texts[i].compiles = try_text(&flags, texts[i].text, texts[i].length, texts[i].name);
  }
  if (!flags.check) {
    hunt(&flags);
  }
  for (int i = 0; i < failure_count && !flags.check; i++) {
    printf("%6d times: %s\n", failure_times[i], failures[i]);
  }
  printf("%ld texts, %ld plans, %d distinct failures\n", tried, compiled, failure_count);
  return failure_count > 0;
}
