// run_guard.c: what must hold before a run is gone on with: nothing in it leads elsewhere, and no checkpoint is unseen.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/checkpoint_files.h"
#include "runtime/events.h"
#include "runtime/metrics.h"
#include "runtime/run.h"

enum { LOG_LINE = 4096 };  // as long as log_line makes them: paths may be long

// What training writes or removes in the directory of a run.
static const char *const written[] = {"checkpoints",  "log.txt",     "metrics.jsonl", "metrics.jsonl.damaged",
                                      "loss.svg",     "plan.mdlx",   "resolved.mdl",  "tuning.txt",
                                      "profile.json", "profile.txt", RUN_NEXT_PLAN,   RUN_NEXT_TEXT};

bool run_no_links(const Run *run, Error *error) {
  char path[IO_PATH_MAX];
  for (size_t i = 0; i < sizeof written / sizeof *written; i++) {
    if (!run_file(run, written[i], path, error)) {
      return false;
    }
    if (io_is_link(path)) {
      return error_set(error, 1,
                       "%s is a link: what a run writes or removes stays in its directory; put what it leads to in its "
                       "place (--out itself may be a link)",
                       path);
    }
  }
  return true;
}

static bool leads_to(const char *path, const struct stat *held) {
  struct stat named;
  return stat(path, &named) == 0 && named.st_dev == held->st_dev && named.st_ino == held->st_ino;
}

bool run_follow(Run *run, bool *moved, Error *error) {
  struct stat held;
  char name[64], now[IO_PATH_MAX];
  *moved = false;
  errno = 0;
  // Where it cannot be looked at, writing tells.
  if (run->lock < 0 || fstat(run->lock, &held) != 0 || leads_to(run->path, &held) ||
      (errno != 0 && errno != ENOENT && errno != ENOTDIR)) {
    return true;
  }
  snprintf(name, sizeof name, RUN_NAMELESS "%d", run->lock);
  const ssize_t length = readlink(name, now, sizeof now - 1);
  now[length > 0 ? length : 0] = '\0';
  const char *found = leads_to(now, &held) ? now : held.st_nlink > 0 && leads_to(name, &held) ? name : NULL;
  *moved = found != NULL;
  return found ? io_path(run->path, error, "%s", found) && io_path(run->checkpoints, error, "%s/checkpoints", found)
               : error_set(
                     error, 1, "%s is no longer the directory that this run began in, which was %s", run->path,
                     held.st_nlink > 0 ? "moved, and /proc, which would say where it is, is not mounted" : "removed");
}

typedef struct {
  bool there;           // there is a log
  bool saved;           // it says that checkpoints were saved, since the run began or was restarted
  char last[LOG_LINE];  // the last line that says so
} Logged;

static bool log_read(const Run *run, Logged *logged, Error *error) {
  char path[IO_PATH_MAX], line[LOG_LINE];
  int fd;
  *logged = (Logged){0};
  if (!run_file(run, "log.txt", path, error)) {
    return false;
  }
  if (io_absent(path)) {
    return true;
  }
  if (!io_open(path, O_RDONLY, &fd, error)) {
    return false;
  }
  FILE *file = fdopen(fd, "r");
  if (!file) {
    return error_set(error, 3, "no memory to read %s", path);
  }
  bool begins = true;  // of a line, however long the one before was
  while (fgets(line, sizeof line, file)) {
    const size_t length = strlen(line);
    const bool ends = length > 0 && line[length - 1] == '\n';
    if (begins && strncmp(line, "restarted ", 10) == 0) {
      logged->saved = false;
    } else if (begins && strncmp(line, "saved ", 6) == 0) {
      logged->saved = true;
      snprintf(logged->last, sizeof logged->last, "%.*s", (int)strcspn(line + 6, " \n"), line + 6);
    }
    begins = ends;
  }
  const bool failed = ferror(file) != 0;
  fclose(file);
  logged->there = true;
  return !failed || error_set(error, 1, "cannot read %s: %s", path, strerror(EIO));
}

// The last step, and whether a save had ended before it.
static bool metrics_last(const Run *run, double *step, bool *saved, Error *error) {
  char path[IO_PATH_MAX];
  MetricsPoint *points = NULL;
  int64_t count = 0;
  *step = 0;
  *saved = false;
  if (!run_file(run, "metrics.jsonl", path, error)) {
    return false;
  }
  if (io_absent(path)) {
    return true;
  }
  if (!metrics_read(path, &points, &count, error)) {
    return false;
  }
  *step = count > 0 ? points[count - 1].step : 0;
  for (int64_t i = 0; i < count; i++) {
    *saved |= points[i].saved;
  }
  free(points);
  return true;
}

// The newest checkpoints that --restart has set aside; empty: there are none.
static void find_before(const Run *run, char path[IO_PATH_MAX]) {
  char other[IO_PATH_MAX];
  Error ignored;
  *path = '\0';
  for (int n = 1; io_path(other, &ignored, "%s/before-%d", run->path, n) && io_is_directory(other); n++) {
    char checkpoints[IO_PATH_MAX];
    int64_t *steps = NULL;
    int count = 0;
    if (io_path(checkpoints, &ignored, "%s/checkpoints", other) &&
        checkpoint_steps(checkpoints, &steps, &count, &ignored) && count > 0) {
      memcpy(path, other, strlen(other) + 1);
    }
    free(steps);
  }
}

bool run_unseen(const Run *run, Buffer *says, Error *error) {
  Logged logged;
  double step;
  bool saved;
  if (!log_read(run, &logged, error) || !metrics_last(run, &step, &saved, error)) {
    return false;
  }
  const bool absent = !io_is_directory(run->checkpoints);
  if (!(logged.saved || saved || (step > 0 && (absent || !logged.there)))) {
    return true;
  }
  buffer_format(says, "%s %s, but ", run->checkpoints, absent ? "is not there" : "holds no checkpoint");
  if (logged.saved) {
    buffer_format(says, "log.txt says that %s was saved", logged.last);
  } else {
    buffer_format(says, "metrics.jsonl has steps up to %.0f%s", step, saved ? ", and some were saved" : "");
  }
  buffer_text(says, ": is a volume not mounted");
  return !says->failed || error_set(error, 3, "no memory");
}

bool run_never_saved(const Run *run, Error *error) {
  Buffer says = {0};
  const bool read = run_unseen(run, &says, error), unseen = read && says.length > 0;
  if (unseen) {
    char before[IO_PATH_MAX];
    find_before(run, before);
    error_set(
        error, 1,
        "%s%s%s%s? Nothing was changed. Make the checkpoints visible again, or give --restart to begin with step 1",
        says.text, *before ? ", or did --restart end before it began anew, which has set aside what is in " : "",
        before, *before ? ", a run by itself" : "");
  }
  buffer_free(&says);
  if (!read || unseen) {
    return false;
  }
  if (!io_is_directory(run->checkpoints)) {  // a run that was killed while it was made
    return io_make_directory(NULL, run->checkpoints, error) && io_sync_directory(NULL, run->path, error);
  }
  return true;
}

// Moves one file or directory of a run, if it is there.
static bool move(const Run *run, const char *name, Error *error) {
  char from[IO_PATH_MAX], to[IO_PATH_MAX];
  if (!run_file(run, name, from, error) || !io_path(to, error, "%s/%s", run->before, name)) {
    return false;
  }
  return rename(from, to) == 0 || errno == ENOENT ||
         error_set(error, errno == ENOMEM ? 3 : 1, "cannot move %s to %s: %s", from, to, strerror(errno));
}

// Gives a file that is replaced later a second name there, if it is there: without its plan and its text nobody could
// use what is set aside. Where the file system has no second names it is copied.
static bool keep(const Run *run, const char *name, Error *error) {
  char from[IO_PATH_MAX], to[IO_PATH_MAX], *text;
  size_t size;
  if (!run_file(run, name, from, error) || !io_path(to, error, "%s/%s", run->before, name)) {
    return false;
  }
  if (io_absent(from) || link(from, to) == 0) {
    return true;
  }
  if (!io_read_file(from, SIZE_MAX / 4, &text, &size, error)) {
    return false;
  }
  const bool done = io_replace_file(NULL, to, text, size, error);
  free(text);
  return done;
}

// Of which there may be several.
static bool others_move(const Run *run, Error *error) {
  static const char damaged[] = "metrics.jsonl" METRICS_DAMAGED;
  DIR *open = opendir(run->path);
  bool done = open || io_failed("read", run->path, error);
  while (done) {
    errno = 0;
    const struct dirent *entry = readdir(open);
    if (!entry) {
      done = errno == 0 || io_failed("read", run->path, error);
      break;
    }
    if (strncmp(entry->d_name, EVENTS_BEGIN, sizeof EVENTS_BEGIN - 1) == 0 ||
        strncmp(entry->d_name, damaged, sizeof damaged - 1) == 0) {
      done = move(run, entry->d_name, error);
    }
  }
  if (open) {
    closedir(open);
  }
  return done;
}

static const char *const moved[] = {"metrics.jsonl", "loss.svg", "checkpoints"};
static const char *const kept[] = {"plan.mdlx", "resolved.mdl", "tuning.txt"};

// The first `count` of what was moved have their places back, and before-N is gone.
static void put_back(const Run *run, size_t count) {
  char from[IO_PATH_MAX], to[IO_PATH_MAX];
  Error ignored;
  while (count-- > 0) {
    if (io_path(from, &ignored, "%s/%s", run->before, moved[count]) &&
        io_path(to, &ignored, "%s/%s", run->path, moved[count]) && !io_absent(from)) {
      rename(from, to);
    }
  }
  for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
    if (io_path(from, &ignored, "%s/%s", run->before, kept[i])) {
      unlink(from);
    }
  }
  rmdir(run->before);
}

bool run_set_aside(Run *run, Error *error) {
  for (int n = 1;; n++) {
    if (!io_path(run->before, error, "%s/before-%d", run->path, n)) {
      return false;
    }
    if (mkdir(run->before, 0777) == 0) {
      break;
    }
    if (errno != EEXIST) {
      return io_failed("create directory", run->before, error);
    }
  }
  for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
    if (!keep(run, kept[i], error)) {
      put_back(run, 0);
      return false;
    }
  }
  // A directory that is mounted, or of a lower layer of a container, cannot be moved.
  for (size_t i = 0; i < sizeof moved / sizeof *moved; i++) {
    if (!move(run, moved[i], error)) {
      put_back(run, i);
      return false;
    }
  }
  run->checkpoint[0] = '\0';
  return others_move(run, error) && io_make_directory(NULL, run->checkpoints, error) &&
         io_sync_directory(NULL, run->before, error) && io_sync_directory(NULL, run->path, error);
}
