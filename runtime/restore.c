// restore.c: plan and checkpoint of a run.
#include "runtime/restore.h"

#include <string.h>

#include "compiler/compile.h"
#include "compiler/plan/artefact.h"
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
    return error_set(error, 1, "%s is neither a run (plan.mdlx) nor a checkpoint (manifest.json)", directory);
  }
  if (!direct && !run.checkpoint[0]) {
    return error_set(error, 1, "the run %s has no checkpoint yet", path);
  }
  return io_path(checkpoint, error, "%s", direct ? path : run.checkpoint);
}

// The plan of the run's text for one rank: checkpoints know logical names only, so it can use those of any layout.
static bool restore_compile(Restored *restored, const char *plan, Error *error) {
  char text[IO_PATH_MAX];
  if (!io_path(text, error, "%.*sresolved.mdl", (int)(strlen(plan) - strlen("plan.mdlx")), plan)) {
    return false;
  }
  if (!io_is_file(text)) {
    return error_set(error, 1, "cannot read %s: it is not there, or not a file", text);
  }
  const PlanRun was = restored->set->plans[0]->run;
  const CompileOptions options = {.file = text, .layout = "single"};
  Diag *diag = diag_create(restored->arena);
  if (!compile_plans(restored->arena, diag, &options, &restored->set)) {
    const char *why = diag->all.count ? diag->all.at[0].message : "no memory";
    return error_set(error, 1, "%s, the text of a run of several ranks, does not compile for one: %s", text, why);
  }
  PlanRun *run = &restored->set->plans[0]->run;
  run->data_path = was.data_path;
  run->data_base = was.data_base;
  return true;
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
  restored->set = artefact_read(restored->arena, plan, &why);
  if (!restored->set) {
    return error_set(error, 1, "%s", why);
  }
  if (plan_ranks(restored->set->plans[0]) > 1 && !restore_compile(restored, plan, error)) {
    return false;
  }
  restored->plan = restored->set->plans[0];
  if (restored->plan->programs[program].call_count == 0) {
    const char *missing = restored->plan->programs[program].missing;
    const char *hint = program == PROGRAM_GENERATE ? "; its model needs `output logits;`" : "";
    return missing ? error_set(error, 1, "the plan %s has no %s program: %s", plan, program_kind_name(program), missing)
                   : error_set(error, 1, "the plan %s has no %s program%s", plan, program_kind_name(program), hint);
  }
  const SessionOptions options = {.threads = threads, .deadline_seconds = RANKS_DEADLINE_SECONDS};
  return session_open_ranks(&restored->session, restored->set, backend, &options, error) &&
         checkpoint_load(&restored->session, checkpoint, false, &restored->facts, error);
}

void restore_close(Restored *restored) {
  session_close(&restored->session);
  arena_destroy(restored->arena);
  *restored = (Restored){0};
}
