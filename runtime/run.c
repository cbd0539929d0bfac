// run.c: making, finding and locking run directories.
#include "runtime/run.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/utf8.h"
#include "compiler/plan/artefact.h"
#include "lang/placed.h"
#include "runtime/checkpoint.h"
#include "runtime/convert/source.h"
#include "runtime/data/data.h"
#include "runtime/hub.h"

enum { TUNING_MAX = 16 << 20 };  // bytes of a record

bool run_file(const Run *run, const char *name, char path[IO_PATH_MAX], Error *error) {
  return io_path(path, error, "%s/%s", run->path, name);
}

static bool run_lock(Run *run, Error *error) {
  IoLock lock;
  const bool done = io_lock(run->path, &run->lock, &lock, error);
  run->unlocked = lock == IO_LOCK_NONE;
  run->owner = getpid();
  return done &&
         (lock != IO_LOCK_TAKEN ||
          error_set(error, 1,
                    "%s is being trained already, by another process or a trainer of this one that is not closed; "
                    "wait for it or choose another --out",
                    run->path));
}

// The next name of a directory, or NULL: *done is false, with `error` set, if there may be more.
static const char *name_next(DIR *directory, const char *path, bool *done, Error *error) {
  errno = 0;
  const struct dirent *entry = readdir(directory);
  *done = entry || errno == 0 || io_failed("read", path, error);
  return entry ? entry->d_name : NULL;
}

// Nothing is in it, or it is not there.
static bool directory_is_empty(const char *path, bool *empty, Error *error) {
  DIR *directory = opendir(path);
  bool done = directory || errno == ENOENT || io_failed("read", path, error);
  int count = 0;
  while (directory && count <= 2 && name_next(directory, path, &done, error)) {
    count++;
  }
  if (directory) {
    closedir(directory);
  }
  *empty = count <= 2;
  return done;
}

// A model's name becomes a directory's, which nothing may lead out of runs/.
static bool name_holds(const char *model, Error *error) {
  return (*model && *model != '.' && !strchr(model, '/')) ||
         error_set(error, 1, "the model's name '%.80s' can name no run directory; give one with --out", model);
}

static bool run_fresh(Run *run, const char *model, Error *error) {
  if (!name_holds(model, error) || !io_make_path("runs", error)) {
    return false;
  }
  for (int n = 1;; n++) {
    if (!io_path(run->path, error, "runs/%s-%d", model, n)) {
      return false;
    }
    if (mkdir(run->path, 0777) == 0) {
      return io_sync_directory(NULL, "runs", error);
    }
    if (errno != EEXIST) {
      return io_failed("create the run directory", run->path, error);
    }
  }
}

bool run_create(Run *run, const char *out, const char *model, Error *error) {
  bool empty = true;
  *run = (Run){.lock = -1, .found = out && !io_absent(out)};
  if (out && !*out) {
    return error_set(error, 1, "the name of the run directory is empty");
  }
  if (!out) {
    if (!run_fresh(run, model, error)) {
      return false;
    }
  } else if (!io_path(run->path, error, "%s", out) || !io_make_path(out, error) ||
             !directory_is_empty(out, &empty, error)) {
    return false;
  } else if (!empty) {
    char plan[IO_PATH_MAX], word[IO_PATH_MAX];
    Error ignored;
    bool run_there = io_path(plan, &ignored, "%s/plan.mdlx", out) && io_is_file(plan);
    return error_set(error, 1, "the directory %s is not empty; give another --out%s%s%s", out,
                     run_there ? ", or continue the run in it: mdl train " : "",
                     run_there ? buffer_word(word, sizeof word, out) : "", run_there ? " --resume" : "");
  }
  // The names on the way to a checkpoint must be on the disk before it is: that of `checkpoints` is flushed when the
  // plan is written (run_write_plan).
  return io_path(run->checkpoints, error, "%s/checkpoints", run->path) && run_lock(run, error) &&
         io_make_directory(NULL, run->checkpoints, error);
}

void run_abandon(const Run *run) {
  static const char *const written[] = {"plan.mdlx", "resolved.mdl"};
  for (size_t i = 0; i < sizeof written / sizeof *written; i++) {
    char path[IO_PATH_MAX];
    Error ignored;
    if (run_file(run, written[i], path, &ignored)) {
      unlink(path);
    }
  }
  if (rmdir(run->checkpoints) == 0 && !run->found) {
    rmdir(run->path);
  }
}

bool run_settle(Run *run, Error *error) {
  char here[IO_PATH_MAX], settled[IO_PATH_MAX];
  if (run->path[0] == '/') {
    return true;
  }
  if (!getcwd(here, sizeof here)) {
    return io_failed("read", "the name of the working directory", error);
  }
  return io_path(settled, error, "%s/%s", here, run->path) && io_path(run->path, error, "%s", settled) &&
         io_path(run->checkpoints, error, "%s/checkpoints", settled);
}

static bool run_find(Run *run, const char *path, Error *error) {
  *run = (Run){.lock = -1};
  if (!io_path(run->path, error, "%s", path) || !io_path(run->checkpoints, error, "%s/checkpoints", path)) {
    return false;
  }
  struct stat info;
  const bool known = stat(path, &info) == 0;
  if (!known && errno != ENOENT && errno != ENOTDIR) {
    return io_failed("read", path, error);
  }
  if (known && S_ISREG(info.st_mode)) {
    return error_set(error, 1, "%s is a file and no run directory; mdl train makes one", path);
  }
  char hint[HUB_HINT_MAX];
  return (known && S_ISDIR(info.st_mode)) ||
         error_set(
             error, 1, "there is no run directory %s%s", path,
             strchr(path, '/') ? hub_hint(path, "`mdl convert ", " -o RUN` makes a run of that", NULL, hint) : "");
}

static bool run_newest(Run *run, Error *error) {
  bool found;
  const bool done = checkpoint_newest(run->checkpoints, run->checkpoint, &found, error);
  run->identity = done && found ? io_identity(run->checkpoint) : 0;
  return done;
}

static bool has_file(const char *directory, const char *name) {
  char path[IO_PATH_MAX];
  Error ignored;
  return io_path(path, &ignored, "%s/%s", directory, name) && io_is_file(path);
}

const char *run_hint(const char *path, char hint[RUN_HINT_MAX]) {
  *hint = '\0';
  if (has_file(path, "config.json") || has_file(path, "adapter_config.json")) {
    snprintf(hint, RUN_HINT_MAX, "; it holds weights of others: `mdl convert %.500s -o RUN` makes a run of them", path);
    return hint;
  }
  DIR *directory = opendir(path);
  for (struct dirent *entry; directory && !*hint && (entry = readdir(directory));) {
    char below[IO_PATH_MAX];
    Error ignored;
    if (*entry->d_name != '.' && io_path(below, &ignored, "%s/%s", path, entry->d_name) &&
        has_file(below, "plan.mdlx")) {
      snprintf(hint, RUN_HINT_MAX, "; it holds runs, such as %.500s", below);
    }
  }
  if (directory) {
    closedir(directory);
  }
  return hint;
}

bool run_open(Run *run, const char *path, Error *error) {
  return run_find(run, path, error) && run_newest(run, error);
}

bool run_newer(Run *run) {
  char was[IO_PATH_MAX];
  Error ignored;
  const uint64_t before = run->identity, now = io_identity(run->checkpoint);
  if (!run->checkpoint[0] || (!io_absent(run->checkpoint) && (now == 0 || now == before))) {
    return false;
  }
  memcpy(was, run->checkpoint, sizeof was);
  return run_newest(run, &ignored) && run->checkpoint[0] &&
         (strcmp(run->checkpoint, was) != 0 || run->identity != before);
}

static bool run_latest(char path[IO_PATH_MAX], const char *model, Error *error) {
  if (!name_holds(model, error)) {
    return false;
  }
  DIR *directory = opendir("runs");
  bool done = directory || errno == ENOENT || io_failed("read", "runs", error);
  long best = -1;
  size_t length = strlen(model);
  for (const char *name; directory && (name = name_next(directory, "runs", &done, error));) {
    char *end = NULL;
    if (strncmp(name, model, length) == 0 && name[length] == '-') {
      long n = strtol(name + length + 1, &end, 10);
      best = *end == '\0' && n > best ? n : best;
    }
  }
  if (directory) {
    closedir(directory);
  }
  if (!done) {
    return false;
  }
  if (best < 0) {
    return error_set(error, 1, "there is no run runs/%s-<n> to go on with; name its directory with --out", model);
  }
  return io_path(path, error, "runs/%s-%ld", model, best);
}

static bool run_find_to_resume(Run *run, const char *out, const char *model, Error *error) {
  char path[IO_PATH_MAX];
  *run = (Run){.lock = -1};
  if (!(out ? io_path(path, error, "%s", out) : run_latest(path, model, error))) {
    return false;
  }
  if (io_absent(path)) {
    return error_set(error, 1,
                     "there is no run directory %s to go on with; leave --resume or --restart out to begin one", path);
  }
  return run_find(run, path, error);
}

bool run_read_tuning(const char *out, const char *model, char **text, Error *error) {
  char path[IO_PATH_MAX];
  size_t size;
  Run run;
  *text = NULL;
  if (!run_find_to_resume(&run, out, model, error) || !run_newest(&run, error)) {
    return false;
  }
  const char *const folders[] = {run.checkpoint, run.path};
  for (int i = 0; i < 2 && !*text; i++) {
    if (!io_path(path, error, "%s/%s", folders[i], CHECKPOINT_TUNING) ||
        (*folders[i] && io_is_file(path) && !io_read_file(path, TUNING_MAX, text, &size, error))) {
      return false;
    }
  }
  return true;
}

// Plans whose writing was killed.
static void plan_clean(const Run *run) {
  static const char *const begins[] = {"plan.mdlx" FILE_BESIDE, RUN_NEXT_PLAN FILE_BESIDE};
  DIR *open = opendir(run->path);
  for (struct dirent *entry; open && (entry = readdir(open));) {
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++) {
      char path[IO_PATH_MAX];
      Error ignored;
      const size_t length = strlen(begins[i]);
      const bool is = strncmp(entry->d_name, begins[i], length) == 0 && strlen(entry->d_name + length) == 6 &&
                      strspn(entry->d_name + length, "0123456789abcdef") == 6;
      if (is && run_file(run, entry->d_name, path, &ignored)) {
        unlink(path);
      }
    }
  }
  if (open) {
    closedir(open);
  }
}

bool run_resume(Run *run, const char *out, const char *model, Error *error) {
  // Another process that still trained there would save newer ones until the lock is taken.
  if (!run_find_to_resume(run, out, model, error) || !run_lock(run, error) || !run_no_links(run, error) ||
      !run_newest(run, error)) {
    return false;
  }
  checkpoint_clean(run->checkpoints);
  plan_clean(run);
  return run_settle_next(run, error);
}

bool run_write_tuning(const Run *run, const char *text, Error *error) {
  char path[IO_PATH_MAX];
  return run_file(run, CHECKPOINT_TUNING, path, error) && io_replace_file(NULL, path, text, strlen(text), error);
}

static const char *from_anywhere(Arena *arena, const char *path) {
  char found[PATH_MAX];  // which takes no memory that could be missing
  return path && realpath(*path ? path : ".", found) ? arena_format(arena, "%s", found) : path;
}

// What --data names: a file, or a pattern, which stays one.
static const char *given_from_anywhere(Arena *arena, const char *given) {
  char here[PATH_MAX];
  const char *file = from_anywhere(arena, given);
  return *file != '/' && getcwd(here, sizeof here) ? arena_format(arena, "%s/%s", here, file) : file;
}

// The same plans, which know the files of the run by absolute paths.
static PlanSet *set_placed(Arena *arena, const PlanSet *set, const char *data, const char *given) {
  PlanSet *placed = arena_copy(arena, set, sizeof *set);
  const Plan *first = set->plans[0];
  const char *resolved = first->resolved ? resolved_placed(arena, first->resolved, first->run.data_base) : NULL;
  placed->plans = ARENA_ARRAY(arena, Plan *, set->count + 1);
  for (int i = 0; i < set->count; i++) {
    Plan *plan = arena_copy(arena, set->plans[i], sizeof *plan);
    PlanRun *of = &plan->run;
    plan->resolved = resolved;
    const bool file =
        of->tokenizer && strcmp(of->tokenizer, TOKENIZER_BYTES) != 0 && strcmp(of->tokenizer, TOKENIZER_NONE) != 0;
    of->data_path = data ? from_anywhere(arena, data) : of->data_path;
    of->data_base = from_anywhere(arena, of->data_base);
    of->data_given = given ? given_from_anywhere(arena, given) : of->data_given;
    char tokenizer[PATH_MAX];
    if (file && data_place(of->tokenizer, of->data_base, tokenizer)) {
      of->tokenizer = arena_format(arena, "%s", tokenizer);
    }
    placed->plans[i] = plan;
  }
  return placed;
}

static void file_put(Buffer *text, const char *option, const char *path) {
  char string[2 * PATH_MAX + 2];
  const size_t length = strlen(path);
  bool plain = utf8_valid((const uint8_t *)path, length) == length;
  for (size_t i = 0; i < length; i++) {
    plain &= ((unsigned char)path[i] >= ' ' && path[i] != 0x7f) || path[i] == '\n' || path[i] == '\t';
  }
  buffer_format(text, " %s %s", option,
                plain ? buffer_string(string, sizeof string, path) : "FILE, whose name no text can hold");
}

const char *run_weights(Arena *arena, const SourceOptions *from, bool save_trained, uint64_t print) {
  Buffer text = {0};
  const char *const option[] = {"--from", "--adapters", "--mapping"};
  const char *const path[] = {from->path, from->adapters, from->mapping};
  buffer_format(&text, RUN_WEIGHTS_HASH "%016llx\n" RUN_BEGUN_WITH, (unsigned long long)print);
  for (int i = 0; i < 3; i++) {
    if (path[i]) {
      file_put(&text, option[i], from_anywhere(arena, path[i]));
    }
  }
  buffer_text(&text, from->partial ? " --partial" : "");
  buffer_text(&text, save_trained ? " --save-trained" : "");
  const char *lines = text.failed ? NULL : arena_copy(arena, text.text, text.length + 1);
  buffer_free(&text);
  return lines;
}

const char *run_weights_before(Arena *arena, const char *resolved) {
  const char *hash = "";
  int length = 0;
  for (const char *line = resolved; line; line = strchr(line, '\n')) {
    line += *line == '\n';
    if (strncmp(line, RUN_WEIGHTS_HASH, strlen(RUN_WEIGHTS_HASH)) == 0) {
      hash = line;
      length = (int)strcspn(line, "\n") + 1;
    } else if (strncmp(line, RUN_BEGUN_WITH, strlen(RUN_BEGUN_WITH)) == 0) {
      return arena_format(arena, "%.*s%.*s", length, hash, (int)strcspn(line, "\n"), line);
    }
  }
  return NULL;
}

// The text of the plan, and behind it, so that its lines keep their numbers, what options named. NULL: no memory.
static const char *text_with_options(Arena *arena, const Plan *plan, const char *weights) {
  const char *given = plan->run.data_given;
  Buffer text = {0};
  buffer_text(&text, plan->resolved ? plan->resolved : "");
  buffer_text(&text, weights || given ? "\n" : "");
  if (weights) {
    buffer_format(&text, "%s\n", weights);
  }
  if (given) {
    buffer_text(&text, "// Data of the run:");
    file_put(&text, "--data", given);
    buffer_text(&text, "\n");
  }
  const char *made = text.failed ? NULL : arena_format(arena, "%s", text.text ? text.text : "");
  buffer_free(&text);
  return made;
}

bool run_plan(Arena *arena, const Run *run, const PlanSet *set, const RunFiles *files, RunPlan *plan, Error *error) {
  char path[IO_PATH_MAX];
  if (!run_file(run, "plan.mdlx", path, error)) {
    return false;
  }
  if (access(path, F_OK) == 0 && !io_is_file(path)) {  // a pipe would be written to, and waited for
    return error_set(error, 1, "cannot write %s: it is not a file", path);
  }
  plan->placed = set_placed(arena, set, files->data, files->given);
  plan->text = text_with_options(arena, plan->placed->plans[0], files->weights);
  return plan->text || error_set(error, 3, "no memory");
}

bool run_has_plan(const Run *run) {
  char plan[IO_PATH_MAX], text[IO_PATH_MAX];
  Error ignored;
  return run_file(run, "plan.mdlx", plan, &ignored) && run_file(run, "resolved.mdl", text, &ignored) &&
         io_is_file(plan) && io_is_file(text);
}

bool run_replaces_plan(const Run *run, Error *error) {
  static const char *const names[] = {"resolved.mdl", "plan.mdlx"};
  bool done = true;
  for (int i = 0; i < 2 && done; i++) {
    char path[IO_PATH_MAX], *text;
    size_t size;
    done = run_file(run, names[i], path, error) && io_read_file(path, SIZE_MAX / 4, &text, &size, error);
    if (done) {
      done = io_replace_file(NULL, path, text, size, error);
      free(text);
    }
  }
  return done;
}

bool run_write_plan(const Run *run, const RunPlan *plan, Error *error) {
  char path[IO_PATH_MAX];
  const char *why = NULL;
  if (!run_file(run, "resolved.mdl", path, error) ||
      !io_replace_file(NULL, path, plan->text, strlen(plan->text), error) || !run_file(run, "plan.mdlx", path, error)) {
    return false;
  }
  Arena *arena = arena_create();
  if (!arena) {
    return error_set(error, 3, "no memory");
  }
  const bool done = artefact_write(arena, plan->placed, path, &why) || error_set_plan(error, why);
  arena_destroy(arena);
  return done;
}

// A process that was forked meanwhile has the lock too, and would keep it: it is given up for both, but not by that
// one.
void run_close(Run *run) {
  if (run->path[0] && run->lock >= 0) {
    if (run->owner == getpid()) {
      flock(run->lock, LOCK_UN);
    }
    close(run->lock);
  }
  *run = (Run){.lock = -1};
}
