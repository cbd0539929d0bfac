// diff_saved.c: two runs, checkpoints or .safetensors files: their tensors by name, and the losses of two runs.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/checkpoint_files.h"
#include "runtime/diff.h"
#include "runtime/element.h"
#include "runtime/metrics.h"
#include "runtime/run.h"
#include "runtime/safetensors.h"

typedef struct {
  const char *path;
  char metrics[IO_PATH_MAX];     // of a run; empty: none
  char checkpoint[IO_PATH_MAX];  // empty: `path` is a file of tensors
  bool has[CHECKPOINT_FILE_COUNT];
  int64_t step;  // -1: not known
} Saved;

static bool saved_checkpoint(Saved *saved, const char *path, Error *error) {
  CheckpointFacts facts;
  if (!checkpoint_facts(path, &facts, error)) {
    return false;
  }
  int parts[CHECKPOINT_FILE_COUNT];
  saved->step = facts.step;
  if (!checkpoint_parts(path, parts, error)) {
    return false;
  }
  for (int i = 0; i < CHECKPOINT_FILE_COUNT; i++) {
    saved->has[i] = parts[i] > 0;
  }
  return io_path(saved->checkpoint, error, "%s", path);
}

static bool saved_open(Saved *saved, const char *path, Error *error) {
  Run run;
  bool found;
  *saved = (Saved){.path = path, .step = -1};
  if (!io_find_file(path, &found, error)) {
    return false;
  }
  if (!io_is_directory(path)) {
    const char *dot = strrchr(path, '.');
    if (found && (!dot || strcmp(dot, ".safetensors") != 0)) {
      return error_set(error, 2, "%s is not a run, a checkpoint or a .safetensors file", path);
    }
    saved->has[0] = true;
    return found || error_set(error, 1, "there is no file or directory %s", path);
  }
  if (!io_find_in(path, "manifest.json", &found, error)) {
    return false;
  }
  if (found) {
    return saved_checkpoint(saved, path, error);
  }
  if (!run_open(&run, path, error)) {
    return false;
  }
  bool done = run.checkpoint[0] ? saved_checkpoint(saved, run.checkpoint, error)
                                : error_set(error, 1, "%s is not a run or has no checkpoint yet", path);
  done = done && run_file(&run, "metrics.jsonl", saved->metrics, error);
  run_close(&run);
  if (done && !io_is_file(saved->metrics)) {
    saved->metrics[0] = '\0';
  }
  return done;
}

// --- tensors ---

static bool type_of(const char *dtype, ElementType *type) {
  static const struct {
    const char *dtype;
    ElementType type;
  } types[] = {{"F64", TYPE_F64}, {"F32", TYPE_F32}, {"BF16", TYPE_BF16}, {"F16", TYPE_F16}, {"I32", TYPE_INT}};
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
    if (strcmp(dtype, types[i].dtype) == 0) {
      *type = types[i].type;
      return true;
    }
  }
  return false;
}

static bool tensor_read(Arena *arena, const Safetensors *file, const SafetensorsTensor *of, DiffTensor *tensor,
                        Error *error) {
  *tensor = (DiffTensor){.name = of->name, .axis_count = of->axis_count, .count = 1};
  if (!type_of(of->dtype, &tensor->type)) {
    return error_set(error, 1, "'%s' is of type %s, which is not compared", of->name, of->dtype);
  }
  for (int i = 0; i < of->axis_count; i++) {
    tensor->size[i] = of->size[i];
    tensor->count *= of->size[i];
  }
  char *bytes = arena_alloc(arena, (size_t)(of->end - of->begin) + 8);
  tensor->data = ARENA_ARRAY(arena, double, tensor->count + 1);
  if (!safetensors_read(file, of, bytes, error)) {
    return false;
  }
  for (int64_t i = 0; i < tensor->count; i++) {
    tensor->data[i] = element_get(tensor->type, bytes + i * element_type_bytes(tensor->type));
  }
  return true;
}

static bool same_shape(const SafetensorsTensor *a, const SafetensorsTensor *b) {
  return a->axis_count == b->axis_count && memcmp(a->size, b->size, sizeof *a->size * (size_t)a->axis_count) == 0;
}

// *go_on: nothing beyond its budget so far, or everything is to be shown.
static bool pair_compare(Diff *diff, Arena *arena, Safetensors *const file[2], const SafetensorsTensor *a,
                         double growth, bool *go_on, Error *error) {
  const SafetensorsTensor *b = safetensors_find(file[1], a->name);
  DiffTensor left, right;
  *go_on = true;
  if (!b || !same_shape(a, b)) {
    diff_other(diff, a->name, b ? "has another shape" : "is in the first alone");
    *go_on = diff->options->all;
    return true;
  }
  Arena *scratch = arena_create();
  if (!scratch) {
    return error_set(error, 3, "no memory");
  }
  bool done = tensor_read(scratch, file[0], a, &left, error) && tensor_read(scratch, file[1], b, &right, error);
  if (done) {
    const DiffFacts facts = {.what = arena_format(arena, "%s", a->name), .line = "", .growth = growth};
    *go_on = diff_tensors(diff, &left, &right, &facts);
  }
  arena_destroy(scratch);
  return done;
}

static bool tensors_open(const Saved *saved, int file, Safetensors **opened, Error *error) {
  return saved->checkpoint[0] ? checkpoint_open(saved->checkpoint, file, opened, error)
                              : safetensors_open(saved->path, opened, error);
}

static bool files_compare(Diff *diff, Arena *arena, const Saved saved[2], int which, double growth, bool *go_on,
                          Error *error) {
  Safetensors *file[2] = {NULL, NULL};
  bool done = tensors_open(&saved[0], which, &file[0], error) && tensors_open(&saved[1], which, &file[1], error);
  for (int i = 0; done && *go_on && i < safetensors_count(file[0]); i++) {
    done = pair_compare(diff, arena, file, safetensors_at(file[0], i), growth, go_on, error);
  }
  for (int i = 0; done && *go_on && i < safetensors_count(file[1]); i++) {
    const char *name = safetensors_at(file[1], i)->name;
    if (!safetensors_find(file[0], name)) {
      diff_other(diff, name, "is in the second alone");
      *go_on = diff->options->all;
    }
  }
  for (int side = 0; side < 2; side++) {
    if (file[side]) {
      safetensors_close(file[side]);
    }
  }
  return done;
}

// --- losses ---

// Of a step whose evaluation was made up for there may be two lines, of which one does not say the loss.
static const MetricsPoint *point_of(const MetricsPoint *points, int64_t count, double step) {
  for (int64_t i = 0; i < count; i++) {
    if (points[i].step == step && !points[i].unknown) {
      return &points[i];
    }
  }
  return NULL;
}

// The first logged step at which the losses are not the same, and whether that is more than rounding.
static void losses_compare(Diff *diff, const MetricsPoint *const points[2], const int64_t *count) {
  FILE *out = diff->options->out;
  int64_t both = 0;
  bool told = false;
  for (int64_t i = 0; i < count[0]; i++) {
    const MetricsPoint *a = &points[0][i], *b = point_of(points[1], count[1], a->step);
    if (!b || a->unknown) {
      continue;
    }
    both++;
    const bool nans = isnan(a->loss) && isnan(b->loss);
    if (a->loss == b->loss || nans) {
      continue;
    }
    const double error = fabs(a->loss - b->loss) / fmax(fabs(a->loss), fabs(b->loss));
    const bool beyond = !(error <= diff_budget(diff, TYPE_F32, TYPE_F32, diff_growth_of_runs(a->step)));
    diff->beyond += beyond;
    if (beyond || !told) {
      fprintf(out, "the losses differ%s at step %.0f: %.9g and %.9g, %.1e apart\n",
              beyond ? " beyond rounding first" : " in rounding first", a->step, a->loss, b->loss, error);
      told = true;
    }
    if (beyond) {
      return;
    }
  }
  if (both > 0 && diff->beyond == 0) {
    fprintf(out, "the losses of %lld step%s are compared: no difference beyond the budgets\n", (long long)both,
            both == 1 ? "" : "s");
  }
}

static bool metrics_compare(Diff *diff, const Saved saved[2], Error *error) {
  MetricsPoint *points[2] = {NULL, NULL};
  int64_t count[2] = {0, 0};
  bool done = metrics_read(saved[0].metrics, &points[0], &count[0], error) &&
              metrics_read(saved[1].metrics, &points[1], &count[1], error);
  if (done) {
    losses_compare(diff, (const MetricsPoint *const *)points, count);
  }
  free(points[0]);
  free(points[1]);
  return done;
}

bool diff_saved(Diff *diff, const char *const path[2], Error *error) {
  Saved saved[2];
  Arena *arena = arena_create();
  if (!arena) {
    return error_set(error, 3, "no memory");
  }
  bool done = saved_open(&saved[0], path[0], error) && saved_open(&saved[1], path[1], error);
  bool go_on = true;
  const double growth = done ? diff_growth_of_runs((double)saved[0].step) : 1;
  if (done && saved[0].step != saved[1].step && saved[0].step >= 0 && saved[1].step >= 0) {
    fprintf(diff->options->out, "%s is of step %lld, %s of step %lld\n", path[0], (long long)saved[0].step, path[1],
            (long long)saved[1].step);
  }
  if (done && saved[0].metrics[0] && saved[1].metrics[0]) {
    done = metrics_compare(diff, saved, error);
  }
  const int of_losses = diff->beyond;  // the tensors have a first difference of their own
  diff->beyond = 0;
  for (int i = 0; done && go_on && i < CHECKPOINT_FILE_COUNT; i++) {
    if (saved[0].has[i] && saved[1].has[i]) {
      done = files_compare(diff, arena, saved, i, growth, &go_on, error);
    } else if (saved[0].has[i] || saved[1].has[i]) {
      diff_other(diff, checkpoint_files[i].name, "is in one of them alone");
    }
  }
  if (done) {
    diff_end(diff);
  }
  diff->beyond += of_losses;
  arena_destroy(arena);
  return done;
}
