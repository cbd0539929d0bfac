// restore.c: plan and checkpoint of a run.
#include "runtime/restore.h"

#include <string.h>

#include "compiler/artefact.h"
#include "runtime/run.h"

// The run that a checkpoint directory is in: two levels up.
static bool run_of_checkpoint(const char *path, char run[IO_PATH_MAX], Error *error) {
  return io_path(run, error, "%s/../..", path);
}

static bool is_checkpoint(const char *path) {
  char manifest[IO_PATH_MAX];
  Error ignored;
  return io_path(manifest, &ignored, "%s/manifest.json", path) && io_is_file(manifest);
}

static bool restore_find(const char *path, char plan[IO_PATH_MAX], char checkpoint[IO_PATH_MAX], Error *error) {
  char directory[IO_PATH_MAX];
  Run run;
  bool direct = is_checkpoint(path);
  if (!(direct ? run_of_checkpoint(path, directory, error) : io_path(directory, error, "%s", path)) ||
      !run_open(&run, directory, error) || !io_path(plan, error, "%s/plan.mdlx", directory)) {
    return false;
  }
  if (!io_is_file(plan)) {
    return error_set(error, 1, "%s is no run directory: it holds no plan.mdlx", directory);
  }
  if (!direct && !run.checkpoint[0]) {
    return error_set(error, 1, "the run %s has no checkpoint yet", path);
  }
  return io_path(checkpoint, error, "%s", direct ? path : run.checkpoint);
}

bool restore_open(Restored *restored, const char *path, const Backend *backend, int threads, ProgramKind program,
                  Error *error) {
  char plan[IO_PATH_MAX], checkpoint[IO_PATH_MAX];
  const char *why = NULL;
  *restored = (Restored){0};
  if (!restore_find(path, plan, checkpoint, error)) {
    return false;
  }
  restored->arena = arena_create();
  if (!restored->arena) {
    return error_set(error, 3, "no memory");
  }
  restored->plan = artefact_read(restored->arena, plan, &why);
  if (!restored->plan) {
    return error_set(error, 1, "%s", why);
  }
  if (restored->plan->programs[program].call_count == 0) {
    const char *hint = program == PROGRAM_GENERATE ? "; its model needs `output logits;`" : "";
    return error_set(error, 1, "the plan %s has no %s program%s", plan, program_kind_name(program), hint);
  }
  return session_open(&restored->session, restored->plan, backend, threads, error) &&
         checkpoint_load(&restored->session, checkpoint, false, &restored->facts, error);
}

void restore_close(Restored *restored) {
  session_close(&restored->session);
  arena_destroy(restored->arena);
  *restored = (Restored){0};
}
