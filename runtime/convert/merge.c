// merge.c: makes a run of the model without adapters from one of a model with them.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/compile.h"
#include "runtime/checkpoint.h"
#include "runtime/convert/convert.h"
#include "runtime/convert/saved.h"
#include "runtime/convert/source.h"
#include "runtime/run.h"
#include "runtime/trained_of.h"

typedef struct {
  Arena *arena;
  const MergeOptions *options;
  Merged *result;
  Saved saved;
  Mapping mapping;
  PlanSet *set;
  Run run;
} Merge;

// The one that was named, else the first in the binary that names adapters of the model.
static bool merge_mapping(Merge *m, Error *error) {
  Mapping *all;
  int count;
  if (m->options->mapping) {
    return mapping_open(m->arena, m->options->mapping, &m->mapping, error);
  }
  if (!mapping_all(m->arena, &all, &count, error)) {
    return false;
  }
  for (int i = 0; i < count; i++) {
    if (strcmp(all[i].model, m->saved.numbers.model) == 0 && all[i].adapters.count > 0) {
      m->mapping = all[i];
      return true;
    }
  }
  return error_set(error, 1, "there is no mapping that names adapters of the model '%s'; give one with --mapping FILE",
                   m->saved.numbers.model);
}

// The text of the run, with the constants of the plain model.
static bool merge_compile(Merge *m, const ModelNumbers *before, Error *error) {
  Diag *diag = diag_create(m->arena);
  const char **set = ARENA_ARRAY(m->arena, const char *, before->count + 1);
  int count = 0;
  for (int i = 0; i < before->count; i++) {
    const double now = m->saved.numbers.at[i].value;
    if (now < before->at[i].value || now > before->at[i].value) {
      set[count++] = before->at[i].truth
                         ? arena_format(m->arena, "%s=%s", before->at[i].name, now > 0 ? "true" : "false")
                         : arena_format(m->arena, "%s=%.17g", before->at[i].name, now);
    }
  }
  char text[IO_PATH_MAX];
  if (!run_own(m->saved.run, "resolved.mdl", text, error)) {
    return false;
  }
  const CompileOptions options = {
      .file = arena_format(m->arena, "%s", text), .set = set, .set_count = count, .trains_all = true};
  return compile_plans(m->arena, diag, &options, &m->set) ||
         error_set(error, 1, "%s does not compile without adapters, %s: %.300s", options.file,
                   count ? set[0] : "which changes nothing", diag->all.count ? diag->all.at[0].message : "no memory");
}

static const Weight *merge_find(const Merge *m, const char *name) {
  for (int w = 0; w < m->saved.weights.count; w++) {
    if (strcmp(m->saved.weights.at[w].name, name) == 0) {
      return &m->saved.weights.at[w];
    }
  }
  return NULL;
}

static bool same_shape(const PlanState *state, const Weight *weight) {
  bool same = weight && weight->axis_count == state->axis_count;
  for (int a = 0; same && a < state->axis_count; a++) {
    same = weight->size[a] == state->size[a];
  }
  return same;
}

// Every parameter of the plain model is there, and nothing else is.
static bool merge_compare(const Merge *m, Error *error) {
  States states;
  if (!states_open(m->set, &states, error)) {
    return false;
  }
  bool done = true;
  int parameters = 0;
  for (int i = 0; done && i < states.count; i++) {
    const PlanState *state = states.at[i].state;
    if (state->role == STATE_PARAMETER) {
      parameters++;
      done = same_shape(state, merge_find(m, state->name)) ||
             error_set(error, 1, "the model without adapters has '%.100s', which the checkpoint does not, or not alike",
                       state->name);
    }
  }
  states_close(&states);
  return done && (parameters == m->saved.weights.count ||
                  error_set(error, 1, "%s: of the %d parameters that are no adapters the model without them has %d",
                            m->mapping.path, m->saved.weights.count, parameters));
}

static bool read_weight(void *context, const PlanState *state, void *dense, Error *error) {
  Merge *m = context;
  const Weight *weight = merge_find(m, state->name);
  if (!weight) {
    memset(dense, 0, (size_t)state_bytes(state));  // a history of scales: nothing is known yet
    return true;
  }
  if (weight->type == state->type) {
    return saved_read(&m->saved, weight, dense, error);
  }
  char *whole = malloc((size_t)(weight_count(weight) * element_type_bytes(weight->type)) + 1);
  const bool done = (whole || error_set(error, 3, "no memory to write '%.100s'", weight->name)) &&
                    saved_read(&m->saved, weight, whole, error) &&
                    elements_fit(weight->name, weight->type, whole, state->type, dense, weight_count(weight), error);
  free(whole);
  return done;
}

// What came with the weights that training began with, if this run has it.
static bool merge_kept(Merge *m, Error *error) {
  char from[IO_PATH_MAX], to[IO_PATH_MAX];
  bool tokenizer;
  return !saved_kept(&m->saved, from) || (run_file(&m->run, CONVERT_KEPT, to, error) && io_make_path(to, error) &&
                                          convert_copy_kept(from, to, true, &tokenizer, error));
}

static bool merge_write(Merge *m, Error *error) {
  const CheckpointSource source = {m, read_weight};
  CheckpointFacts facts = {
      .seed = m->set->plans[0]->run.seed, .state_hash = m->set->plans[0]->state_hash, .val_loss = NAN};
  const char *trunk = m->saved.frozen ? m->saved.frozen->from : NULL;
  RunPlan plan;
  return merge_kept(m, error) && trained_of_weights(m->saved.checkpoint, &facts.trained, error) &&
         (!trunk || trained_of_weights(trunk, &facts.trained, error)) &&
         checkpoint_save_weights(m->set, &source, m->run.checkpoints, &facts, error) &&
         io_sync_directory(NULL, m->run.path, error) &&
         run_plan(m->arena, &m->run, m->set, &(RunFiles){0}, &plan, error) && run_write_plan(&m->run, &plan, error);
}

bool convert_merge(Arena *arena, const MergeOptions *options, Merged *result, Error *error) {
  Merge *m = ARENA_NEW(arena, Merge);
  *result = (Merged){0};
  *m = (Merge){.arena = arena, .options = options, .result = result, .run.lock = -1};
  const SavedOptions saved = {.from = options->from, .trunk = options->trunk};
  bool done = saved_open(arena, &saved, &m->saved, error) && merge_mapping(m, error);
  const ModelNumbers before = m->saved.numbers;
  done =
      done && saved_merge(&m->saved, &m->mapping, error) && merge_compile(m, &before, error) && merge_compare(m, error);
  const bool created = done && run_create(&m->run, options->out, m->saved.numbers.model, error);
  done = created && merge_write(m, error);
  if (done) {
    snprintf(result->run, sizeof result->run, "%s", m->run.path);
    result->mapping = m->mapping.path;
    result->model = m->saved.numbers.model;
    result->parameters = m->set->plans[0]->run.parameters;
    result->adapters = m->saved.adapters.count;
    result->step = (int64_t)json_integer_value(json_object_get(m->saved.manifest, "step"));
  } else if (created) {
    io_remove_tree(m->run.path);  // it was empty
  }
  saved_close(&m->saved);
  run_close(&m->run);
  return done;
}
