// inspect.c: looks at what a path is and says what is in it.
#include "runtime/inspect.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "compiler/plan/artefact.h"
#include "runtime/checkpoint_files.h"
#include "runtime/frozen.h"
#include "runtime/log.h"
#include "runtime/metrics.h"
#include "runtime/run.h"
#include "runtime/safetensors.h"

static bool inspect_artefact(const char *path, Buffer *out, Error *error) {
  const char *why = NULL;
  Arena *arena = arena_create();
  PlanSet *set = arena ? artefact_read(arena, path, &why) : NULL;
  if (set) {
    buffer_format(out, "%s: %s\n", path, set->count > 1 ? "the plans of all stages" : "a plan");
    inspect_plans(set, out);
  } else {
    error_set_plan(error, arena ? why : "no memory");
  }
  arena_destroy(arena);
  return set != NULL;
}

static void inspect_tensors(const Safetensors *file, Buffer *out) {
  char bytes[32];
  for (int i = 0; i < safetensors_count(file); i++) {
    const SafetensorsTensor *tensor = safetensors_at(file, i);
    buffer_format(out, "  %10s  %s %s[", units_bytes(bytes, (double)(tensor->end - tensor->begin)), tensor->name,
                  tensor->dtype);
    for (int a = 0; a < tensor->axis_count; a++) {
      buffer_format(out, "%s%lld", a ? ", " : "", (long long)tensor->size[a]);
    }
    buffer_text(out, "]\n");
  }
}

static bool inspect_safetensors(const char *path, Buffer *out, Error *error) {
  Safetensors *file;
  char bytes[32];
  if (!safetensors_open(path, &file, error)) {
    return false;
  }
  double elements = 0, total = 0;
  for (int i = 0; i < safetensors_count(file); i++) {
    const SafetensorsTensor *tensor = safetensors_at(file, i);
    double size = (double)(tensor->end - tensor->begin);
    total += size;
    elements += size * 8 / (double)safetensors_dtype_bits(tensor->dtype);
  }
  char count[32];
  buffer_format(out, "%s: %d tensor%s, %s elements, %s\n", path, safetensors_count(file),
                safetensors_count(file) == 1 ? "" : "s", units_count(count, elements), units_bytes(bytes, total));
  inspect_tensors(file, out);
  safetensors_close(file);
  return true;
}

static bool inspect_checkpoint(const char *path, Buffer *out, Error *error) {
  CheckpointFacts facts;
  char tokens[32];
  int parts[CHECKPOINT_FILE_COUNT];
  if (!checkpoint_facts(path, &facts, error) || !checkpoint_parts(path, parts, error)) {
    return false;
  }
  buffer_format(out, "%s: a checkpoint after step %lld, %s tokens, %lld steps skipped, seed %llu, state %016llx\n",
                path, (long long)facts.step, units_count(tokens, (double)facts.tokens), (long long)facts.skipped,
                (unsigned long long)facts.seed, (unsigned long long)facts.state_hash);
  bool done = true;
  for (int f = 0; f < CHECKPOINT_FILE_COUNT; f++) {
    for (int part = 1; done && part <= parts[f]; part++) {
      char file[IO_PATH_MAX], name[CHECKPOINT_NAME_MAX];
      checkpoint_part_name(&checkpoint_files[f], part, parts[f], name);
      done = io_path(file, error, "%s/%s", path, name) && inspect_safetensors(file, out, error);
    }
  }
  return done;
}

// What a checkpoint of adapters alone leaves out, and where that is; nothing of one that cannot be read.
static void inspect_left_out(const char *checkpoint, Buffer *out) {
  Arena *arena = arena_create();
  Frozen *frozen = NULL;
  Error ignored;
  if (arena && checkpoint_frozen(arena, checkpoint, &frozen, &ignored) && frozen) {
    buffer_format(out, "it leaves out %d frozen parameters, which are those of %s\n", frozen->tensors.count,
                  frozen->from);
  }
  arena_destroy(arena);
}

static bool inspect_run(const char *path, Buffer *out, Error *error) {
  Run run;
  char file[IO_PATH_MAX];
  MetricsPoint *points = NULL;
  int64_t count = 0;
  if (!run_open(&run, path, error)) {
    return false;
  }
  buffer_format(out, "%s: a run\n", path);
  if (!run_file(&run, "metrics.jsonl", file, error)) {
    return false;
  }
  if (!io_absent(file) && !metrics_read(file, &points, &count, error)) {
    return false;
  }
  double validation = NAN;
  for (int64_t i = 0; i < count; i++) {
    validation = isfinite(points[i].val_loss) ? points[i].val_loss : validation;
  }
  if (count > 0) {
    buffer_format(out, "step %.0f: loss %.4f", points[count - 1].step, points[count - 1].loss);
    if (isfinite(validation)) {
      buffer_format(out, ", newest validation loss %.4f", validation);
    }
    buffer_text(out, "\n");
  }
  free(points);
  if (run.checkpoint[0]) {
    buffer_format(out, "newest checkpoint %s\n", run.checkpoint);
    inspect_left_out(run.checkpoint, out);
  } else {
    buffer_text(out, "no checkpoint yet\n");
  }
  buffer_text(out, "\n");
  return run_own(run.path, "plan.mdlx", file, error) && inspect_artefact(file, out, error);
}

static bool inspect_directory(const char *path, Buffer *out, Error *error) {
  char hint[RUN_HINT_MAX];
  bool checkpoint, run;
  if (!io_find_in(path, "manifest.json", &checkpoint, error) || !io_find_in(path, "plan.mdlx", &run, error)) {
    return false;
  }
  return checkpoint ? inspect_checkpoint(path, out, error)
         : run      ? inspect_run(path, out, error)
               : error_set(error, 1, "the directory %s is neither a run (plan.mdlx) nor a checkpoint (manifest.json)%s",
                           path, run_hint(path, hint));
}

bool inspect_path(const char *path, Buffer *out, Error *error) {
  size_t length = strlen(path);
  bool file;
  if (!io_find_file(path, &file, error)) {
    return false;
  }
  if (io_is_directory(path)) {
    return inspect_directory(path, out, error);
  }
  if (!file) {
    return error_set(error, 1, "there is no file %s", path);
  }
  if (artefact_is(path)) {
    return inspect_artefact(path, out, error);
  }
  if (length > 12 && strcmp(path + length - 12, ".safetensors") == 0) {
    return inspect_safetensors(path, out, error);
  }
  return error_set(error, 1, "%s is neither a plan (.mdlx), a checkpoint, a .safetensors file nor a run", path);
}
