// verify_path.c: sizes, hashes, names and numbers of checkpoints, in words.
#include "runtime/verify_path.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/checkpoint_files.h"
#include "runtime/frozen.h"
#include "runtime/metrics.h"
#include "runtime/run.h"

// Frozen parameters that a checkpoint leaves out, and that are no longer where it says: it is whole, and of no use.
static void say_trunk_lost(const char *path, Buffer *out) {
  Arena *arena = arena_create();
  Frozen *frozen = NULL;
  Error ignored = {0};
  if (arena && checkpoint_frozen(arena, path, &frozen, &ignored) && frozen && io_absent(frozen->from)) {
    buffer_format(out, "; the %d frozen parameters that it leaves out are no longer in %s: --trunk DIR says where",
                  frozen->tensors.count, frozen->from);
  }
  arena_destroy(arena);
}

static bool one_verify(const char *path, Buffer *out, int64_t *damaged, bool *good, Error *error) {
  CheckpointFacts facts;
  const bool whole = checkpoint_verify(path, &facts, error);
  *good = whole && checkpoint_is_good(&facts);
  if (!whole && !facts.damaged) {
    return false;
  }
  if (!whole) {
    ++*damaged;
    buffer_format(out, "DAMAGED  %s\n", error->text);
    return true;
  }
  buffer_format(out, "%s  %s: whole", *good ? "good   " : "BAD    ", path);
  if (facts.version < 2) {
    buffer_text(out, ", but for the manifest, which has no hash (version 1)");
  }
  if (facts.not_finite[0]) {
    buffer_format(out, "; '%s' holds numbers that are not finite", facts.not_finite);
  } else if (facts.bad_steps > 0) {
    buffer_format(out, "; saved after %lld bad steps in a row", (long long)facts.bad_steps);
  }
  if (isfinite(facts.val_loss)) {
    buffer_format(out, "; validation loss %.4f", facts.val_loss);
  }
  say_trunk_lost(path, out);
  buffer_text(out, "\n");
  return true;
}

static bool metrics_verify(const Run *run, Buffer *out, Error *error) {
  char path[IO_PATH_MAX];
  MetricsPoint *points = NULL;
  int64_t count = 0, bad = 0;
  if (!run_file(run, "metrics.jsonl", path, error)) {
    return false;
  }
  if (io_absent(path)) {
    buffer_format(out, "         %s is not there\n", path);
    return true;
  }
  if (!metrics_read_counting(path, &points, &count, &bad, error)) {
    return false;
  }
  if (bad > 0) {
    buffer_format(out, "         %s: %lld lines are none of metrics\n", path, (long long)bad);
  }
  free(points);
  return true;
}

// What --resume put aside.
static void aside_list(const Run *run, Buffer *out) {
  DIR *open = opendir(run->checkpoints);
  for (struct dirent *entry; open && (entry = readdir(open));) {
    if (strncmp(entry->d_name, "damaged-", 8) == 0) {
      buffer_format(out, "         %s/%s was found damaged before, and is not used\n", run->checkpoints, entry->d_name);
    }
  }
  if (open) {
    closedir(open);
  }
}

enum { TRIES = 3 };  // of a checkpoint in whose place another one was put while it was read

// One of a run, which a process that trains there may remove meanwhile: *gone.
static bool step_verify(const char *path, Buffer *out, int64_t *damaged, bool *good, bool *gone, Error *error) {
  const size_t said = out->length;
  const int64_t before = *damaged;
  bool done = false, other = true;
  for (int i = 0; i < TRIES && other; i++) {
    const uint64_t identity = io_identity(path);
    *damaged = before;
    out->length = said;
    done = one_verify(path, out, damaged, good, error);
    other = (!done || *damaged > before) && io_identity(path) != identity;
  }
  *gone = (!done || *damaged > before) && io_absent(path) && !io_is_link(path);
  if (!*gone) {
    return done;
  }
  *damaged = before;
  out->length = said;
  buffer_format(out, "         %s was removed while it was read, as training removes old ones\n", path);
  return true;
}

// One that cannot be read does not keep the others from being looked at.
static bool run_verify(const Run *run, Buffer *out, int64_t *damaged, Error *error) {
  int64_t *steps, good_step = -1;
  int count, removed = 0, unread = 0;
  if (!checkpoint_steps(run->checkpoints, &steps, &count, error)) {
    return false;
  }
  for (int i = 0; i < count; i++) {
    char path[IO_PATH_MAX];
    bool good = false, gone = false;
    Error why = {0};
    if (!io_path(path, &why, "%s/step-%08lld", run->checkpoints, (long long)steps[i]) ||
        !step_verify(path, out, damaged, &good, &gone, &why)) {
      *error = unread++ == 0 || why.status == 3 ? why : *error;
      if (why.status == 3) {
        break;
      }
      buffer_format(out, "UNREAD   %s\n", why.text);
    }
    removed += gone;
    good_step = good && good_step < 0 ? steps[i] : good_step;
  }
  free(steps);
  count -= removed;
  if (unread > 0) {
    return false;
  }
  aside_list(run, out);
  if (!metrics_verify(run, out, error)) {
    return false;
  }
  if (count + removed == 0) {
    Buffer says = {0};
    const bool read = run_unseen(run, &says, error), unseen = says.length > 0;
    if (read && unseen) {
      error_set(error, 1, "%s?", says.text);
    }
    buffer_free(&says);
    if (!read || unseen) {
      return false;
    }
  }
  if (count == 0) {
    buffer_format(out, "%s holds no checkpoint\n", run->checkpoints);
  } else if (good_step >= 0) {
    buffer_format(out, "%d checkpoint%s, %lld damaged; --resume goes on from step %lld or later\n", count,
                  count == 1 ? "" : "s", (long long)*damaged, (long long)good_step);
  } else {
    buffer_format(out, "%d checkpoint%s, %lld damaged; none is good\n", count, count == 1 ? "" : "s",
                  (long long)*damaged);
  }
  return true;
}

bool verify_path(const char *path, Buffer *out, int64_t *damaged, Error *error) {
  char file[IO_PATH_MAX];
  Run run;
  bool good;
  *damaged = 0;
  if (!io_path(file, error, "%s/manifest.json", path)) {
    return false;
  }
  const bool maybe = !io_absent(file);
  if (!io_path(file, error, "%s/plan.mdlx", path)) {
    return false;
  }
  if (maybe && !io_is_file(file)) {
    return one_verify(path, out, damaged, &good, error);
  }
  if (!run_open(&run, path, error)) {
    return false;
  }
  bool is_run = true;
  if (io_absent(file) && !io_is_directory(run.checkpoints)) {
    char hint[RUN_HINT_MAX];
    is_run = error_set(error, 1, "%s is neither a run nor a checkpoint%s", path, run_hint(path, hint));
  }
  const bool done = is_run && run_verify(&run, out, damaged, error);
  run_close(&run);
  return done;
}
