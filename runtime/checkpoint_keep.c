// checkpoint_keep.c: which checkpoints there are, which are kept, and which is gone on with.
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/checkpoint.h"
#include "runtime/checkpoint_files.h"

int64_t checkpoint_step_of_name(const char *name) {
  if (strncmp(name, "step-", 5) != 0 || strspn(name + 5, "0123456789") != strlen(name + 5)) {
    return -1;
  }
  const size_t digits = strlen(name + 5);
  const bool other = digits < 8 || digits > 18 || (digits > 8 && name[5] == '0');  // than this program writes
  return other ? -1 : strtoll(name + 5, NULL, 10);
}

static int newest_first(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return x > y ? -1 : x < y;
}

// The steps in the order of the directory; *steps is freed by the caller, whatever happens.
static bool steps_read(DIR *open, const char *directory, int64_t **steps, int *count, Error *error) {
  int capacity = 0;
  for (;;) {
    errno = 0;
    struct dirent *entry = readdir(open);
    if (!entry) {
      // An error here is not the end of the directory: the newest checkpoint may not have been listed.
      return errno == 0 || io_failed("read", directory, error);
    }
    int64_t step = checkpoint_step_of_name(entry->d_name);
    if (step < 0) {
      continue;
    }
    if (*count == capacity) {
      capacity = capacity ? capacity * 2 : 16;
      int64_t *longer = realloc(*steps, sizeof **steps * (size_t)capacity);
      if (!longer) {
        return error_set(error, 3, "no memory for the checkpoints of %s", directory);
      }
      *steps = longer;
    }
    (*steps)[(*count)++] = step;
  }
}

bool checkpoint_steps(const char *directory, int64_t **steps, int *count, Error *error) {
  DIR *open = opendir(directory);
  *steps = NULL;
  *count = 0;
  if (!open) {
    return errno == ENOENT || io_failed("read", directory, error);
  }
  const bool done = steps_read(open, directory, steps, count, error);
  closedir(open);
  if (!done) {
    free(*steps);
    *steps = NULL;
    *count = 0;
  } else if (*count) {
    qsort(*steps, (size_t)*count, sizeof **steps, newest_first);
  }
  return done;
}

// A checkpoint that had to make room for another of its step (io_exchange): it has its name back, if the other is not
// there.
static void aside_clean(const char *directory, const char *name) {
  char aside[IO_PATH_MAX], stem[32], path[IO_PATH_MAX];
  Error ignored;
  const size_t length = strlen(name), end = strlen(IO_ASIDE_ENDING);
  if (length <= end || length - end >= sizeof stem || strcmp(name + length - end, IO_ASIDE_ENDING) != 0) {
    return;
  }
  memcpy(stem, name, length - end);
  stem[length - end] = '\0';
  if (checkpoint_step_of_name(stem) < 0 || !io_path(aside, &ignored, "%s/%s", directory, name) ||
      !io_path(path, &ignored, "%s/%s", directory, stem)) {
    return;
  }
  if (io_absent(path)) {
    rename(aside, path);
  } else if (io_named(path)) {
    io_remove_tree(aside);
  }
}

void checkpoint_clean(const char *directory) {
  DIR *open = opendir(directory);
  for (struct dirent *entry; open && (entry = readdir(open));) {
    char path[IO_PATH_MAX];
    Error ignored;
    aside_clean(directory, entry->d_name);
    if (strncmp(entry->d_name, "saving-", 7) == 0 && io_path(path, &ignored, "%s/%s", directory, entry->d_name)) {
      io_remove_tree(path);
    }
  }
  if (open) {
    closedir(open);
  }
}

static bool step_path(const char *directory, int64_t step, char path[IO_PATH_MAX], Error *error) {
  return io_path(path, error, "%s/step-%08lld", directory, (long long)step);
}

// A directory loses its committed name first, and the disk knows it before anything in it is removed, so that no half
// of it is ever found.
static bool step_remove(const char *directory, int64_t step, Error *error) {
  char from[IO_PATH_MAX], to[IO_PATH_MAX];
  if (!step_path(directory, step, from, error) ||
      !io_path(to, error, "%s/saving-old-%08lld", directory, (long long)step)) {
    return false;
  }
  if (rename(from, to) != 0) {
    return errno == ENOENT || io_failed("remove", from, error);
  }
  return io_sync_directory(NULL, directory, error) &&
         (io_remove_tree(to) || io_absent(to) || io_failed("remove", to, error));
}

typedef enum { SEEN_GOOD, SEEN_BAD, SEEN_NOT } Seen;  // what a manifest says; NOT: it could not be read this time

static Seen step_seen(const char *directory, int64_t step, CheckpointFacts *facts) {
  char path[IO_PATH_MAX];
  Error error = {0};
  if (!step_path(directory, step, path, &error) || !checkpoint_facts(path, facts, &error)) {
    return facts->damaged ? SEEN_BAD : SEEN_NOT;
  }
  return checkpoint_is_good(facts) ? SEEN_GOOD : SEEN_BAD;
}

// Can its validation loss be the lowest? Bad steps before it whose updates were left out changed no parameter.
static bool is_evaluated(Seen seen, const CheckpointFacts *facts) {
  return seen != SEEN_NOT && !facts->damaged && !facts->not_finite[0] && !isnan(facts->val_loss);
}

// Was it to be kept when it was saved? Of what cannot be read nobody knows.
static bool step_kept(const char *directory, int64_t step) {
  CheckpointFacts facts = {0};
  return step_seen(directory, step, &facts) == SEEN_NOT || facts.kept;
}

bool checkpoint_is_good(const CheckpointFacts *facts) {
  return !facts->not_finite[0] && facts->bad_steps == 0;
}

// Can the validation loss be compared with others of these windows? Of checkpoints that do not say of which theirs is,
// those behind `from` have the same.
static bool of_windows(const CheckpointFacts *facts, uint64_t validated_with, int64_t from) {
  return validated_with == 0 ||
         (facts->validated_with != 0 ? facts->validated_with == validated_with : facts->step > from);
}

typedef struct {
  Seen seen;
  bool evaluated;
  uint64_t windows;  // that val_loss is of; 0: not known
  double val_loss;   // NaN: none
} Look;

// Is its validation loss the least, of equal ones the newest, of those of the same windows? Where a run goes on with
// others, what was the best before cannot be compared with what comes, and is worth no less.
static bool is_best(const Look *look, int count, int at) {
  bool best = look[at].evaluated;
  for (int i = 0; i < count && best; i++) {
    const bool rival = look[i].evaluated && look[i].windows == look[at].windows;
    best = !rival || !(look[i].val_loss < look[at].val_loss || (i < at && look[i].val_loss <= look[at].val_loss));
  }
  return best;
}

// Those after `newest`, which a resumed run has not come to again, stay: they are replaced, or grow old.
bool checkpoint_rotate(const char *directory, const CheckpointKeep *keep, int64_t newest, Error *error) {
  int64_t *steps, good = -1;
  int count, kept = 0;
  if (!keep || keep->newest < 1) {
    return true;
  }
  if (!checkpoint_steps(directory, &steps, &count, error)) {
    return false;
  }
  Look *look = malloc(sizeof *look * ((size_t)count + 1));
  bool done = look || error_set(error, 3, "no memory");
  for (int i = 0; look && i < count; i++) {
    CheckpointFacts facts = {.val_loss = NAN};
    const bool needed = steps[i] <= newest && (keep->best || good < 0);
    const Seen seen = needed ? step_seen(directory, steps[i], &facts) : SEEN_BAD;
    const bool since = steps[i] > keep->validated_from;
    look[i] = (Look){seen, needed && is_evaluated(seen, &facts),
                     facts.validated_with ? facts.validated_with
                     : since              ? keep->validated_with
                                          : 0,
                     facts.val_loss};
    good = good < 0 && seen == SEEN_GOOD ? steps[i] : good;
  }
  for (int i = 0; look && i < count; i++) {
    const bool later = steps[i] > newest, recent = !later && kept < keep->newest;
    kept += recent;
    const bool stays = later || recent || look[i].seen == SEEN_NOT || steps[i] == good ||
                       (keep->best && is_best(look, count, i)) || (keep->every > 0 && steps[i] % keep->every == 0);
    if (!stays && !step_kept(directory, steps[i])) {
      done &= step_remove(directory, steps[i], error);
    }
  }
  free(look);
  free(steps);
  return done;
}

bool checkpoint_best(const char *directory, uint64_t validated_with, int64_t validated_from, double *least,
                     Error *error) {
  int64_t *steps;
  int count;
  *least = INFINITY;
  if (!checkpoint_steps(directory, &steps, &count, error)) {
    return false;
  }
  for (int i = 0; i < count; i++) {
    CheckpointFacts facts = {.val_loss = NAN};
    const Seen seen = step_seen(directory, steps[i], &facts);
    if (is_evaluated(seen, &facts) && of_windows(&facts, validated_with, validated_from) && facts.val_loss < *least) {
      *least = facts.val_loss;
    }
  }
  free(steps);
  return true;
}

bool checkpoint_newest_good(const char *directory, int64_t *step, Error *error) {
  int64_t *steps;
  int count;
  *step = -1;
  if (!checkpoint_steps(directory, &steps, &count, error)) {
    return false;
  }
  for (int i = 0; i < count && *step < 0; i++) {
    CheckpointFacts facts = {0};
    *step = step_seen(directory, steps[i], &facts) == SEEN_GOOD ? steps[i] : -1;
  }
  free(steps);
  return true;
}

bool checkpoint_newest(const char *directory, char path[IO_PATH_MAX], bool *found, Error *error) {
  int64_t *steps;
  int count, at = 0;
  if (!checkpoint_steps(directory, &steps, &count, error)) {
    return false;
  }
  *found = count > 0;
  for (int i = 0; i < count; i++) {  // one of numbers that are not finite is of no use
    CheckpointFacts facts = {0};
    if (step_seen(directory, steps[i], &facts) != SEEN_BAD || facts.damaged || !facts.not_finite[0]) {
      at = i;
      break;
    }
  }
  bool done = !*found || step_path(directory, steps[at], path, error);
  free(steps);
  return done;
}

// Damaged ones get another name, under which nobody looks for them, but nothing is removed.
static void damaged_aside(const char *directory, const int64_t *steps, const bool *damaged, int count, Buffer *notes) {
  for (int i = 0; i < count; i++) {
    char from[IO_PATH_MAX], to[IO_PATH_MAX];
    Error error;
    if (!damaged[i] || !step_path(directory, steps[i], from, &error)) {
      continue;
    }
    bool done = false;
    for (int n = 0; n < 100 && !done; n++) {
      done = (n == 0 ? io_path(to, &error, "%s/damaged-%08lld", directory, (long long)steps[i])
                     : io_path(to, &error, "%s/damaged-%08lld-%d", directory, (long long)steps[i], n)) &&
             rename(from, to) == 0;
    }
    buffer_format(notes, done ? "it is kept as %s\n" : "it stays where it is, %s\n", done ? to : from);
  }
}

bool checkpoint_resume(Session *session, const char *directory, char path[IO_PATH_MAX], bool *found,
                       CheckpointFacts *facts, Buffer *notes, Error *error) {
  int64_t *steps;
  int count, at = 0;
  *found = false;
  if (!checkpoint_steps(directory, &steps, &count, error)) {
    return false;
  }
  bool *damaged = calloc((size_t)count + 1, sizeof *damaged);
  bool done = damaged || error_set(error, 3, "no memory for the checkpoints of %s", directory);
  for (; done && at < count && !*found; at++) {
    done = step_path(directory, steps[at], path, error);
    if (!done) {
      break;
    }
    const bool read = checkpoint_facts(path, facts, error);
    if (read && facts->not_finite[0]) {
      buffer_format(notes, "the checkpoint %s holds numbers in '%s' that are not finite\n", path, facts->not_finite);
    } else if (read && checkpoint_load(session, path, true, facts, error)) {
      *found = true;
    } else if (facts->damaged) {
      damaged[at] = true;
      buffer_format(notes, "%s\n", error->text);
    } else {
      done = false;
    }
  }
  if (done && *found) {
    damaged_aside(directory, steps, damaged, count, notes);
  } else if (done && count > 0) {
    done = error_set(error, 1, "no checkpoint in %s can be gone on with: %s", directory,
                     notes->failed || !notes->text ? "no memory to say why" : notes->text);
    error->text[strcspn(error->text, "\n")] = '\0';
  }
  free(damaged);
  free(steps);
  return done;
}
