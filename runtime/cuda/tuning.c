// tuning.c: reads and writes tuning records.
#include "runtime/cuda/tuning.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/array.h"
#include "kernels/cuda/compile.h"

enum { LINE_MAX_BYTES = 2048, ALGORITHM_MAX = 256 };

typedef struct {
  const char *problem, *algorithm;  // the latter in hexadecimal
  double microseconds;
  bool used, added;  // by what is open now
} Entry;

struct Tuning {
  Arena *arena;
  const char *holds_for, *path;
  ARRAY(Entry) entries;
  bool named, changed;  // named: by MDL_TUNING
};

static const char *record_path(Arena *arena, const char *holds_for, const char *set) {
  char folder[1024];
  if (set && *set) {
    return arena_format(arena, "%s", set);
  }
  if (!cuda_cache_folder("", folder, sizeof folder)) {
    return "";
  }
  return arena_format(arena, "%s/tuning-%016" PRIx64 ".txt", folder, (uint64_t)XXH64(holds_for, strlen(holds_for), 0));
}

static uint64_t check_of(const char *problem, const char *algorithm) {
  return XXH64(algorithm, strlen(algorithm), XXH64(problem, strlen(problem), 0));
}

// `problem<TAB>microseconds<TAB>hexadecimal<TAB>check`; a line whose check is another is damaged and left out:
// libraries must not see its algorithm.
static void line_take(Tuning *tuning, char *line) {
  char *time = strchr(line, '\t');
  char *algorithm = time ? strchr(time + 1, '\t') : NULL;
  char *check = algorithm ? strchr(algorithm + 1, '\t') : NULL;
  if (!check) {
    return;
  }
  *time = *algorithm = *check = '\0';
  if (strtoull(check + 1, NULL, 16) != check_of(line, algorithm + 1)) {
    return;
  }
  const Entry entry = {arena_format(tuning->arena, "%s", line), arena_format(tuning->arena, "%s", algorithm + 1),
                       strtod(time + 1, NULL), false, false};
  array_push(tuning->arena, &tuning->entries, entry);
}

// Lines of a text that is as a file is.
static void text_take(Tuning *tuning, const char *text) {
  for (int number = 0; *text; number++) {
    const size_t length = strcspn(text, "\n");
    char *line = arena_format(tuning->arena, "%.*s", (int)length, text);
    if (number == 0 && strcmp(line, tuning->holds_for) != 0) {
      return;
    }
    if (number > 0) {
      line_take(tuning, line);
    }
    text += length + (text[length] == '\n');
  }
}

static void file_take(Tuning *tuning) {
  char line[LINE_MAX_BYTES];
  FILE *file = *tuning->path ? fopen(tuning->path, "r") : NULL;
  for (int number = 0; file && fgets(line, sizeof line, file); number++) {
    line[strcspn(line, "\n")] = '\0';
    if (number == 0 && strcmp(line, tuning->holds_for) != 0) {
      break;
    }
    if (number > 0) {
      line_take(tuning, line);
    }
  }
  if (file) {
    fclose(file);
  }
}

Tuning *tuning_open(Arena *arena, const char *holds_for, const char *of_run) {
  Tuning *tuning = ARENA_NEW(arena, Tuning);
  const char *set = getenv("MDL_TUNING");
  *tuning = (Tuning){
      .arena = arena, .holds_for = holds_for, .path = record_path(arena, holds_for, set), .named = set && *set};
  file_take(tuning);
  text_take(tuning, of_run ? of_run : "");
  return tuning;
}

const char *tuning_path(const Tuning *tuning) {
  return tuning->path;
}

static bool hex_read(const char *text, void *data, size_t bytes) {
  unsigned char *to = data;
  if (strlen(text) != 2 * bytes) {
    return false;
  }
  for (size_t i = 0; i < bytes; i++) {
    unsigned byte = 0;
    if (sscanf(text + 2 * i, "%2x", &byte) != 1) {
      return false;
    }
    to[i] = (unsigned char)byte;
  }
  return true;
}

static Entry *newest_of(const Tuning *tuning, const char *problem) {
  for (int i = tuning->entries.count - 1; i >= 0; i--) {
    if (strcmp(tuning->entries.at[i].problem, problem) == 0) {
      return &tuning->entries.at[i];
    }
  }
  return NULL;
}

bool tuning_find(Tuning *tuning, const char *problem, void *algorithm, size_t bytes) {
  Entry *entry = newest_of(tuning, problem);
  if (entry) {
    entry->used = true;
  }
  return entry && hex_read(entry->algorithm, algorithm, bytes);
}

void tuning_add(Tuning *tuning, const char *problem, const void *algorithm, size_t bytes, double microseconds) {
  char hex[2 * ALGORITHM_MAX + 1] = "";
  const unsigned char *from = algorithm;
  for (size_t i = 0; i < bytes && i < ALGORITHM_MAX; i++) {
    snprintf(hex + 2 * i, 3, "%02x", from[i]);
  }
  const Entry entry = {arena_format(tuning->arena, "%s", problem), arena_format(tuning->arena, "%s", hex), microseconds,
                       true, true};
  array_push(tuning->arena, &tuning->entries, entry);
  tuning->changed = true;
}

static void entry_text(const Entry *entry, Buffer *out) {
  buffer_format(out, "%s\t%.2f\t%s\t%016" PRIx64 "\n", entry->problem, entry->microseconds, entry->algorithm,
                check_of(entry->problem, entry->algorithm));
}

void tuning_text(const Tuning *tuning, Buffer *out) {
  buffer_format(out, "%s\n", tuning->holds_for);
  for (int i = 0; i < tuning->entries.count; i++) {
    if (tuning->entries.at[i].used) {
      entry_text(&tuning->entries.at[i], out);
    }
  }
}

// Waits until no other process writes the file, for a few seconds: one that was stopped holds up nobody. -1: there is
// no lock to wait for.
static int file_lock(const Tuning *tuning) {
  enum { TRIES = 500 };
  const struct timespec pause = {.tv_nsec = 10000000};
  const char *path = arena_format(tuning->arena, "%s.lock", tuning->path);
  const int lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  for (int i = 0; lock >= 0 && i < TRIES && flock(lock, LOCK_EX | LOCK_NB) != 0; i++) {
    if (errno != EWOULDBLOCK && errno != EINTR) {
      break;
    }
    nanosleep(&pause, NULL);
  }
  return lock;
}

// Everything that the file has, and what it lacks of ours. True if ours changed.
static bool join(Tuning *tuning, Tuning *file) {
  bool adopted = false;
  for (int i = 0; i < tuning->entries.count; i++) {
    Entry *entry = &tuning->entries.at[i];
    const Entry *there = newest_of(file, entry->problem);
    if (!there || strlen(there->algorithm) != strlen(entry->algorithm)) {  // none, or of another library
      array_push(file->arena, &file->entries, *entry);
    } else if (entry->added && strcmp(there->algorithm, entry->algorithm) != 0) {
      entry->algorithm = there->algorithm;
      entry->microseconds = there->microseconds;
      adopted = true;
    }
  }
  return adopted;
}

static bool file_write(const Tuning *tuning) {
  const char *beside = arena_format(tuning->arena, "%s.%ld", tuning->path, (long)getpid());
  Buffer text = {0};
  buffer_format(&text, "%s\n", tuning->holds_for);
  for (int i = 0; i < tuning->entries.count; i++) {
    entry_text(&tuning->entries.at[i], &text);
  }
  FILE *file = text.failed ? NULL : fopen(beside, "w");
  bool good = file && fwrite(text.text, 1, text.length, file) == text.length;
  good = file && fclose(file) == 0 && good && rename(beside, tuning->path) == 0;
  buffer_free(&text);
  if (!good) {
    const int reason = errno;
    unlink(beside);
    errno = reason;
  }
  return good;
}

bool tuning_keep(Tuning *tuning, bool *adopted, char *message, size_t size) {
  *adopted = false;
  if (!tuning->changed || !*tuning->path) {
    return true;
  }
  const int lock = file_lock(tuning);
  Tuning file = {.arena = tuning->arena, .holds_for = tuning->holds_for, .path = tuning->path};
  file_take(&file);
  *adopted = join(tuning, &file);
  const bool good = file_write(&file);
  if (!good) {
    snprintf(message, size, "cannot write the tuning record %s, which MDL_TUNING names: %s", tuning->path,
             strerror(errno));
  }
  if (lock >= 0) {
    close(lock);
  }
  tuning->changed = !good;
  return good || !tuning->named;
}
