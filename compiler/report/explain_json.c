// explain_json.c: what explain says, for scripts.
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/json_guard.h"
#include "compiler/report/explain_part.h"

static json_t *mesh_names(const Plan *plan, const int *mesh, int count) {
  json_t *names = json_array();
  for (int i = 0; i < count; i++) {
    json_array_append_new(names, json_string(plan->mesh[mesh[i]].name));
  }
  return names;
}

static json_t *mesh_bits(const Plan *plan, uint32_t bits) {
  int mesh[PLAN_MAX_MESH], count = 0;
  for (int m = 0; m < plan->mesh_count; m++) {
    if (bits >> m & 1) {
      mesh[count++] = m;
    }
  }
  return mesh_names(plan, mesh, count);
}

static void set_text(json_t *object, const char *key, const char *text) {
  json_object_set_new(object, key, json_text(text && *text ? text : NULL));
}

static json_t *state_json(const Plan *plan, const PlanState *state) {
  static const char *const roles[] = {"parameter", "optimizer", "model", "copy"};
  json_t *object = json_object(), *axes = json_array();
  int64_t whole = element_type_bytes(state->type), here = whole;
  for (int i = 0; i < state->axis_count; i++) {
    const PlanCut *cut = &state->cut[i];
    json_t *axis = json_object();
    json_object_set_new(axis, "name", json_string(state->axis[i]));
    json_object_set_new(axis, "size", json_integer(state->size[i]));
    json_object_set_new(axis, "over", mesh_names(plan, cut->mesh, cut->count));
    json_array_append_new(axes, axis);
    whole *= state->size[i];
    here *= cut->count ? cut->local : state->size[i];
  }
  json_object_set_new(object, "name", json_string(state->name));
  json_object_set_new(object, "role", json_string(roles[state->role]));
  json_object_set_new(object, "type", json_string(element_type_name(state->type)));
  json_object_set_new(object, "axes", axes);
  json_object_set_new(object, "stored_over", mesh_names(plan, state->flat_mesh, state->flat_count));
  json_object_set_new(object, "stage", json_integer(plan->stage));
  json_object_set_new(object, "frozen", json_boolean(state->frozen));
  json_object_set_new(object, "owner", json_boolean(state->owner));
  json_object_set_new(object, "bytes", json_integer(whole));
  double part = (double)here / (double)plan_parts(plan, state->flat_mesh, state->flat_count);
  json_object_set_new(object, "rank_bytes", json_real(part));
  return object;
}

static json_t *traffic_json(const Explain *explain, const Traffic *traffic) {
  const Instruction *instruction = traffic->instruction;
  json_t *object = json_object();
  json_object_set_new(object, "phase", json_string(traffic_phase_name(traffic->phase)));
  json_object_set_new(object, "kind", json_string(traffic_kind(traffic)));
  json_object_set_new(object, "over", mesh_bits(explain_first(explain), traffic->mesh));
  json_object_set_new(object, "ranks", json_integer(traffic->ranks));
  json_object_set_new(object, "stage", json_integer(traffic->stage));
  json_object_set_new(object, "calls", json_integer(traffic->calls));
  json_object_set_new(object, "bytes", json_real(traffic->payload));
  json_object_set_new(object, "sent", json_real(traffic->wire));
  set_text(object, "path", traffic->path);
  set_text(object, "why", instruction->why);
  set_text(object, "at", explain_line(explain, instruction->span));
  set_text(object, "rule", explain_line(explain, instruction->rule));
  return object;
}

static json_t *need_json(const Explain *explain, int stage) {
  static const char *const names[NEED_COUNT] = {"parameters", "state",   "copies", "gradients", "saved",
                                                "shared",     "working", "host",   "offloaded"};
  Need need = explain_need(explain, stage);
  json_t *object = json_object();
  json_object_set_new(object, "stage", json_integer(stage));
  for (int i = 0; i < NEED_COUNT; i++) {
    json_object_set_new(object, names[i], json_real(need.part[i]));
  }
  json_object_set_new(object, "total", json_real(need.total));
  json_object_set_new(object, "flops", json_real(explain->set->plans[stage]->programs[PROGRAM_TRAIN].flops));
  return object;
}

static json_t *splits_json(const Explain *explain) {
  const Splits splits = explain_splits_of(explain);
  json_t *object = json_object();
  json_object_set_new(object, "products", json_integer(splits.products));
  json_object_set_new(object, "sums", json_integer(splits.sums));
  json_object_set_new(object, "bucket_sums", json_integer(splits.bucket_sums));
  json_object_set_new(object, "buckets", json_integer(splits.buckets));
  return object;
}

static json_t *exposed_json(double seconds, double exposed) {
  json_t *object = json_object();
  json_object_set_new(object, "seconds", json_real(seconds));
  json_object_set_new(object, "exposed", json_real(exposed));
  return object;
}

static json_t *exposures_json(const Explain *explain) {
  Exposure *of = ARENA_ARRAY(explain->arena, Exposure, explain->set->count);
  json_t *stages = json_array();
  explain_exposures(explain, of);
  for (int s = 0; s < explain->set->count; s++) {
    json_t *object = exposed_json(of[s].seconds, of[s].exposed), *over = json_array();
    for (int m = 0; m < of[s].count; m++) {
      const ExposedMesh *at = &of[s].mesh[m];
      json_t *mesh = exposed_json(at->seconds, at->exposed);
      json_object_set_new(mesh, "over", mesh_bits(explain_first(explain), at->mesh));
      json_object_set_new(mesh, "sent", json_real(at->bytes));
      json_array_append_new(over, mesh);
    }
    json_object_set_new(object, "stage", json_integer(s));
    json_object_set_new(object, "step", json_real(of[s].step));
    json_object_set_new(object, "meshes", over);
    json_array_append_new(stages, object);
  }
  return stages;
}

static json_t *work_json(const Explain *explain, const TrafficList *traffic) {
  const Work work = explain_work(explain->set);
  json_t *object = json_object(), *sent = json_object();
  json_object_set_new(object, "instructions", json_integer(work.instructions));
  json_object_set_new(object, "products", json_integer(work.products));
  json_object_set_new(object, "batched", json_integer(work.batched));
  json_object_set_new(object, "split", json_integer(work.split));
  json_object_set_new(object, "separate", json_integer(work.separate));
  json_object_set_new(object, "least_m", json_integer(work.m));
  json_object_set_new(object, "least_n", json_integer(work.n));
  json_object_set_new(object, "least_k", json_integer(work.k));
  json_object_set_new(object, "copies", json_integer(work.copies));
  json_object_set_new(object, "copied", json_real(work.copied));
  json_object_set_new(object, "moved", json_real(work.moved));
  json_object_set_new(object, "ideal", json_real(work.ideal));
  for (int i = 0; i < traffic->count; i++) {
    const Traffic *at = &traffic->at[i];
    const char *mesh = explain_mesh(explain->arena, explain_first(explain), at->mesh);
    double known = json_real_value(json_object_get(sent, mesh));
    json_object_set_new(sent, mesh, json_real(known + at->wire * at->calls));
  }
  json_object_set_new(object, "sent", sent);
  return object;
}

static json_t *phases_json(const Plan *plan) {
  json_t *phases = json_array();
  for (int i = 0; i < plan->phase_count; i++) {
    const PlanPhase *phase = &plan->phases[i];
    json_t *object = json_object();
    set_text(object, "precision", phase->precision);
    json_object_set_new(object, "from", json_integer(phase->first));
    set_text(object, "program", program_kind_name(plan_train_program(phase->policy, false)));
    json_array_append_new(phases, object);
  }
  return phases;
}

static json_t *explained(void *context) {
  const Explain *explain = context;
  const Plan *plan = explain_first(explain);
  json_t *root = json_object(), *mesh = json_array(), *states = json_array(), *sent = json_array(),
         *memory = json_array();
  set_text(root, "model", plan->run.model);
  set_text(root, "recipe", plan->run.recipe);
  set_text(root, "layout", plan->run.layout);
  set_text(root, "precision", plan->run.precision);
  json_object_set_new(root, "phases", phases_json(plan));
  json_object_set_new(root, "ranks", json_integer(plan_ranks(plan)));
  json_object_set_new(root, "microbatches", json_integer(plan->programs[PROGRAM_TRAIN].slots));
  for (int m = 0; m < plan->mesh_count; m++) {
    json_t *axis = json_object();
    json_object_set_new(axis, "name", json_string(plan->mesh[m].name));
    json_object_set_new(axis, "size", json_integer(plan->mesh[m].size));
    json_array_append_new(mesh, axis);
  }
  for (int s = 0; s < explain->set->count; s++) {
    for (int i = 0; i < explain->set->plans[s]->state_count; i++) {
      json_array_append_new(states, state_json(explain->set->plans[s], &explain->set->plans[s]->states[i]));
    }
    json_array_append_new(memory, need_json(explain, s));
  }
  TrafficList traffic = traffic_collect(explain->arena, explain->set, explain->view);
  for (int i = 0; i < traffic.count; i++) {
    json_array_append_new(sent, traffic_json(explain, &traffic.at[i]));
  }
  json_object_set_new(root, "mesh", mesh);
  json_object_set_new(root, "tensors", states);
  json_object_set_new(root, "traffic", sent);
  json_object_set_new(root, "memory", memory);
  json_object_set_new(root, "exposure", exposures_json(explain));
  json_object_set_new(root, "splits", splits_json(explain));
  json_object_set_new(root, "work", work_json(explain, &traffic));
  return root;
}

void explain_json(const Explain *explain, Buffer *out) {
  char *text = json_made(explained, (void *)explain, JSON_INDENT(1));
  out->failed |= !text;
  buffer_format(out, "%s\n", text ? text : "");
  json_guard_free(text);
}
