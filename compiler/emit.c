// emit.c: segments, calls and the map of state of a plan.
#include "compiler/emit.h"

#include <string.h>

static int add_segment(Plan *plan, Arena *arena, const char *name, const InstructionList *list) {
  PlanSegment *segments = ARENA_ARRAY(arena, PlanSegment, plan->segment_count + 1);
  if (plan->segment_count) {
    memcpy(segments, plan->segments, sizeof *segments * (size_t)plan->segment_count);
  }
  segments[plan->segment_count] = (PlanSegment){name, list->count, list->at};
  plan->segments = segments;
  return plan->segment_count++;
}

static double flops_of(const InstructionList *list) {
  double flops = 0;
  for (int i = 0; i < list->count; i++) {
    bool matrix = list->at[i].kind == INSTRUCTION_GEMM || list->at[i].kind == INSTRUCTION_ATTENTION ||
                  list->at[i].kind == INSTRUCTION_ATTENTION_GRAD;
    flops += matrix ? list->at[i].flops : 0;
  }
  return flops;
}

void emit_program(Plan *plan, Lower *l, int64_t transient_bytes) {
  Arena *arena = l->c->arena;
  PlanProgram *program = &plan->programs[l->c->program];
  const char *name = program_kind_name(l->c->program);
  int slots = l->body.count ? l->graph->slots : 0;
  program->calls = ARENA_ARRAY(arena, PlanCall, slots + 1);
  if (slots) {
    int body = add_segment(plan, arena, "microbatch", &l->body);
    for (int i = 0; i < slots; i++) {
      program->calls[program->call_count++] = (PlanCall){.segment = body, .slot = i, .first = i == 0};
    }
  }
  int top = add_segment(plan, arena, slots ? "apply" : name, &l->top);
  program->calls[program->call_count++] = (PlanCall){.segment = top, .slot = 0, .first = true};
  program->slots = slots ? slots : 1;
  program->input_count = l->inputs.count;
  program->inputs = l->inputs.at;
  program->output_count = l->outputs.count;
  program->outputs = l->outputs.at;
  program->transient_bytes = transient_bytes;
  program->flops = flops_of(&l->body) * (slots ? slots : 1) + flops_of(&l->top);
  int64_t *bytes = plan->arena_bytes;
  bytes[ARENA_TRANSIENT] = transient_bytes > bytes[ARENA_TRANSIENT] ? transient_bytes : bytes[ARENA_TRANSIENT];
  bytes[ARENA_HOST] = l->host_bytes > bytes[ARENA_HOST] ? l->host_bytes : bytes[ARENA_HOST];
  bytes[ARENA_PERSISTENT] = l->states->bytes;
}

static PlanState state_of(Lower *l, const Persistent *persistent) {
  PlanState state = {.name = persistent->name, .type = persistent->type, .axis_count = persistent->shape.count};
  state.role = persistent->role == ROLE_PARAMETER         ? STATE_PARAMETER
               : persistent->role == ROLE_OPTIMIZER_STATE ? STATE_OPTIMIZER
                                                          : STATE_MODEL;
  int64_t at = map_get_or(&l->states->by_name, map_key(persistent->name), -1);
  state.offset = l->states->places.at[at].offset;
  Shape order = graph_shape(l->graph, persistent->value);
  int64_t stride = 1;
  for (int i = order.count - 1; i >= 0; i--) {
    state.stride[shape_find(&persistent->shape, order.axis[i])] = stride;
    stride *= l->graph->axes.at[order.axis[i]].size;
  }
  for (int i = 0; i < persistent->shape.count; i++) {
    state.axis[i] = l->graph->axes.at[persistent->shape.axis[i]].name;
    state.size[i] = l->graph->axes.at[persistent->shape.axis[i]].size;
  }
  return state;
}

void emit_states(Plan *plan, Lower *l) {
  const Graph *graph = l->graph;
  plan->states = ARENA_ARRAY(l->c->arena, PlanState, graph->persistent.count + 1);
  uint64_t hash = 0;
  for (int i = 0; i < graph->persistent.count; i++) {
    const Persistent *persistent = &graph->persistent.at[i];
    PlanState state = state_of(l, persistent);
    plan->states[plan->state_count++] = state;
    double elements = 1;
    for (const char *c = state.name; *c; c++) {
      hash = map_hash(hash, (unsigned char)*c);
    }
    for (int j = 0; j < state.axis_count; j++) {
      hash = map_hash(hash, (uint64_t)state.size[j]);
      elements *= (double)state.size[j];
    }
    hash = map_hash(hash, (uint64_t)state.type);
    plan->run.parameters += persistent->role == ROLE_PARAMETER ? elements : 0;
  }
  plan->state_hash = hash;
}
