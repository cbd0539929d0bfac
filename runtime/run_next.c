// run_next.c: plan and text that a run goes on with, beside those of the checkpoint that it goes on from, until a
// checkpoint of theirs is there.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "compiler/plan/artefact.h"
#include "runtime/checkpoint.h"
#include "runtime/run.h"

enum { TEXT_MOST = 1 << 24 };  // bytes

// The plan is renamed first: as long as the text has this name, both are known to be of the newest checkpoint.
static const char *const names[] = {"plan.mdlx", "resolved.mdl"};

uint64_t run_text_hash(const char *text) {
  return XXH3_64bits(text, strlen(text)) | 1;
}

static bool next_path(const char *run, const char *name, char path[IO_PATH_MAX], Error *error) {
  return io_path(path, error, "%s/" RUN_NEXT "%s", run, name);
}

// Is the text that waits that of the newest checkpoint?
static bool next_is_due(const char *run) {
  char path[IO_PATH_MAX], checkpoints[IO_PATH_MAX], newest[IO_PATH_MAX], *text = NULL;
  size_t size;
  bool found = false;
  CheckpointFacts facts = {0};
  Error unread = {0};
  const bool due = next_path(run, "resolved.mdl", path, &unread) && io_is_file(path) &&
                   io_path(checkpoints, &unread, "%s/checkpoints", run) &&
                   checkpoint_newest(checkpoints, newest, &found, &unread) && found &&
                   checkpoint_facts(newest, &facts, &unread) && io_read_file(path, TEXT_MOST, &text, &size, &unread) &&
                   facts.text_hash == run_text_hash(text);
  free(text);
  return due;
}

bool run_own(const char *run, const char *name, char path[IO_PATH_MAX], Error *error) {
  if (!next_path(run, name, path, error)) {
    return false;
  }
  return (io_is_file(path) && next_is_due(run)) || io_path(path, error, "%s/%s", run, name);
}

bool run_write_next(const Run *run, const RunPlan *plan, Error *error) {
  char path[IO_PATH_MAX];
  const char *why = NULL;
  run_clear_next(run);
  Arena *arena = arena_create();
  if (!arena) {
    return error_set(error, 3, "no memory");
  }
  const bool done = next_path(run->path, "plan.mdlx", path, error) &&
                    (artefact_write(arena, plan->placed, path, &why) || error_set_plan(error, why)) &&
                    next_path(run->path, "resolved.mdl", path, error) &&
                    io_replace_file(NULL, path, plan->text, strlen(plan->text), error) &&
                    io_sync_directory(NULL, run->path, error);
  arena_destroy(arena);
  if (!done) {
    run_clear_next(run);
  }
  return done;
}

bool run_take_next(const Run *run, Error *error) {
  for (int i = 0; i < 2; i++) {
    char from[IO_PATH_MAX], to[IO_PATH_MAX];
    if (!next_path(run->path, names[i], from, error) || !run_file(run, names[i], to, error)) {
      return false;
    }
    if (rename(from, to) != 0 && errno != ENOENT) {
      return io_failed("rename to", to, error);
    }
  }
  return io_sync_directory(NULL, run->path, error);
}

void run_clear_next(const Run *run) {
  for (int i = 1; i >= 0; i--) {  // a plan alone is not looked at
    char path[IO_PATH_MAX];
    Error ignored;
    if (next_path(run->path, names[i], path, &ignored)) {
      unlink(path);
    }
  }
}

bool run_settle_next(const Run *run, Error *error) {
  if (next_is_due(run->path)) {
    return run_take_next(run, error);
  }
  run_clear_next(run);
  return true;
}

const char *run_own_plan(const char *plan, char path[IO_PATH_MAX]) {
  static const char name[] = "/plan.mdlx";
  char run[IO_PATH_MAX];
  Error ignored;
  const size_t length = strlen(plan), end = sizeof name - 1;
  const bool own = length > end && strcmp(plan + length - end, name) == 0 &&
                   io_path(run, &ignored, "%.*s", (int)(length - end), plan) && run_own(run, name + 1, path, &ignored);
  return own ? path : plan;
}
