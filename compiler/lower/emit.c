// emit.c: segments, calls and the map of state of a plan.
#include "compiler/lower/emit.h"

#include <string.h>

#include "base/mix.h"

static int add_segment(Plan *plan, Arena *arena, const LowerSegment *from) {
  PlanSegment *segments = ARENA_ARRAY(arena, PlanSegment, plan->segment_count + 1);
  if (plan->segment_count) {
    memcpy(segments, plan->segments, sizeof *segments * (size_t)plan->segment_count);
  }
  segments[plan->segment_count] =
      (PlanSegment){.name = from->name,
                    .kind = from->kind,
                    .chunk = from->chunk,
                    .count = from->list.count,
                    .instructions = arena_copy(arena, from->list.at, sizeof(Instruction) * (size_t)from->list.count)};
  plan->segments = segments;
  return plan->segment_count++;
}

static double flops_of(const PlanSegment *segment) {
  double flops = 0;
  for (int i = 0; i < segment->count; i++) {
    const Instruction *instruction = &segment->instructions[i];
    bool matrix = instruction_multiplies(instruction) || instruction_attends(instruction);
    flops += matrix ? instruction->flops : 0;
  }
  return flops;
}

static int find_segment(const Lower *l, SegmentKind kind, int chunk) {
  for (int i = 0; i < l->segments.count; i++) {
    if (l->segments.at[i]->kind == kind && l->segments.at[i]->chunk == chunk) {
      return i;
    }
  }
  return -1;
}

// The calls of a pipeline's stage, in the order of its schedule; how many.
static int schedule_calls(const Lower *l, PlanCall *calls) {
  static const SegmentKind kinds[] = {SEGMENT_FORWARD, SEGMENT_BACKWARD, SEGMENT_WEIGHTS};
  const ActionList *actions = &l->schedule->action[l->c->stage];
  int count = 0;
  for (int i = 0; i < actions->count; i++) {
    const Action *action = &actions->at[i];
    int segment = find_segment(l, kinds[action->kind], action->chunk);
    if (segment >= 0) {
      calls[count++] = (PlanCall){.segment = segment,
                                  .slot = action->microbatch,
                                  .lane = action->microbatch % l->lanes[action->chunk],
                                  .first = action->microbatch == 0};
    }
  }
  return count;
}

// Segments of microbatches stand between the one before them, which a program may have, and the last.
static int microbatches(const Lower *l, int *before) {
  *before = l->segments.count > 0 && l->segments.at[0]->kind == SEGMENT_PREPARE;
  return l->segments.count > 1 + *before ? l->graph->slots : 0;
}

int emit_calls(const Lower *l, Arena *arena, PlanCall **calls) {
  int before, count = 0;
  const int slots = microbatches(l, &before);
  const bool scheduled = l->schedule && slots;
  PlanCall *all = ARENA_ARRAY(arena, PlanCall, (scheduled ? l->schedule->action[l->c->stage].count : slots) + 2);
  if (before) {
    all[count++] = (PlanCall){.segment = 0, .slot = 0, .first = true};
  }
  if (scheduled) {
    count += schedule_calls(l, &all[count]);
  }
  for (int i = 0; i < slots && !scheduled; i++) {
    all[count++] = (PlanCall){.segment = before, .slot = i, .first = i == 0};
  }
  all[count++] = (PlanCall){.segment = l->segments.count - 1, .slot = 0, .first = true};
  *calls = all;
  return count;
}

void emit_program(Plan *plan, Lower *l, ProgramKind kind) {
  Arena *arena = l->keep;
  PlanProgram *program = &plan->programs[kind];
  const int first = plan->segment_count;
  int before;
  memory_resolve(l);
  largest_values(l, program);
  for (int i = 0; i < l->segments.count; i++) {
    add_segment(plan, arena, l->segments.at[i]);
  }
  program->call_count = emit_calls(l, arena, &program->calls);
  for (int i = 0; i < program->call_count; i++) {
    program->calls[i].segment += first;
    program->flops += flops_of(&plan->segments[program->calls[i].segment]);
  }
  program->slots = microbatches(l, &before) ? l->graph->slots : 1;
  program->input_count = l->inputs.count;
  program->inputs = arena_copy(arena, l->inputs.at, sizeof *l->inputs.at * (size_t)l->inputs.count);
  program->output_count = l->outputs.count;
  program->outputs = arena_copy(arena, l->outputs.at, sizeof *l->outputs.at * (size_t)l->outputs.count);
  program->transient_bytes = l->transient_bytes;
  int64_t *bytes = plan->arena_bytes;
  bytes[ARENA_TRANSIENT] = l->transient_bytes > bytes[ARENA_TRANSIENT] ? l->transient_bytes : bytes[ARENA_TRANSIENT];
  bytes[ARENA_HOST] = l->host_bytes > bytes[ARENA_HOST] ? l->host_bytes : bytes[ARENA_HOST];
  bytes[ARENA_OFFLOAD] = l->offload_bytes > bytes[ARENA_OFFLOAD] ? l->offload_bytes : bytes[ARENA_OFFLOAD];
  bytes[ARENA_PERSISTENT] = l->states->bytes;
}

static PlanState state_of(Lower *l, const Persistent *persistent) {
  PlanState state = {.name = persistent->name, .type = persistent->type, .axis_count = persistent->shape.count};
  state.role = persistent->role == ROLE_PARAMETER         ? STATE_PARAMETER
               : persistent->role == ROLE_OPTIMIZER_STATE ? STATE_OPTIMIZER
               : persistent->role == ROLE_COPY            ? STATE_COPY
                                                          : STATE_MODEL;
  const StatePlace *place = state_place(l, persistent->name);
  state.offset = place->offset;
  state.flat_first = place->flat_first;
  state.flat_piece = place->flat_piece;
  for (int m = 0; m < PLAN_MAX_MESH; m++) {
    if (place->flat_mesh >> m & 1) {
      state.flat_mesh[state.flat_count++] = m;
    }
  }
  Shape order = graph_shape(l->graph, persistent->value), local = persistent_shape(persistent);
  int64_t stride = 1;
  for (int i = order.count - 1; i >= 0; i--) {
    state.stride[shape_find(&local, order.axis[i])] = stride;
    stride *= l->graph->axes.at[order.axis[i]].size;
  }
  for (int i = 0; i < persistent->shape.count; i++) {
    state.axis[i] = l->graph->axes.at[persistent->shape.axis[i]].name;
    state.size[i] = l->graph->axes.at[persistent->shape.axis[i]].size;
    state.cut[i] = cut_of(l, local.axis[i]);
  }
  state.frozen = state.role == STATE_PARAMETER && persistent->group < 0;
  state.owner = !persistent->copy;
  return state;
}

// Does another training step keep a tensor as the plan has it?
static bool states_alike(const PlanState *a, const PlanState *b) {
  bool same = a->role == b->role && a->type == b->type && a->axis_count == b->axis_count && a->offset == b->offset &&
              a->flat_first == b->flat_first && a->flat_piece == b->flat_piece && a->flat_count == b->flat_count &&
              memcmp(a->flat_mesh, b->flat_mesh, sizeof *a->flat_mesh * (size_t)a->flat_count) == 0 &&
              a->frozen == b->frozen && a->owner == b->owner;
  for (int i = 0; same && i < a->axis_count; i++) {
    same = strcmp(a->axis[i], b->axis[i]) == 0 && a->size[i] == b->size[i] && a->stride[i] == b->stride[i] &&
           a->cut[i].count == b->cut[i].count && a->cut[i].local == b->cut[i].local &&
           a->cut[i].zigzag == b->cut[i].zigzag &&
           memcmp(a->cut[i].mesh, b->cut[i].mesh, sizeof *a->cut[i].mesh * (size_t)a->cut[i].count) == 0;
  }
  return same;
}

// Its part of the hash of the map of state, whatever the order in which a layout or a precision makes them; its size.
static uint64_t state_hash(const PlanState *state, double *elements) {
  uint64_t hash = 0;
  *elements = 1;
  for (const char *c = state->name; *c; c++) {
    hash = mix_word(hash, (unsigned char)*c);
  }
  for (int j = 0; j < state->axis_count; j++) {
    hash = mix_word(hash, (uint64_t)state->size[j]);
    *elements *= (double)state->size[j];
  }
  return mix_word(hash, (uint64_t)state->type);
}

const char *emit_states(Plan *plan, Lower *l) {
  const Graph *graph = l->graph;
  const int before = plan->state_count;
  int met = 0, lasting = 0;  // of those of the plan
  for (int i = 0; i < before; i++) {
    lasting += !plan_state_is_history(&plan->states[i]);
  }
  PlanState *states = ARENA_ARRAY(l->keep, PlanState, before + graph->persistent.count + 1);
  if (before > 0) {
    memcpy(states, plan->states, sizeof *states * (size_t)before);
  }
  plan->states = states;
  for (int i = 0; i < graph->persistent.count; i++) {
    const Persistent *persistent = &graph->persistent.at[i];
    if (persistent->elsewhere) {
      continue;
    }
    const PlanState state = state_of(l, persistent);
    const int known = before > 0 ? plan_find_state(plan, state.name) : -1;
    if (known >= 0 ? !states_alike(&plan->states[known], &state) : before > 0 && !plan_state_is_history(&state)) {
      return state.name;
    }
    if (known >= 0) {
      met += !plan_state_is_history(&state);
      continue;
    }
    plan->states[plan->state_count++] = state;
    if (persistent->role != ROLE_COPY) {
      double elements;
      plan->state_hash += state_hash(&state, &elements);
      plan->run.parameters += persistent->role == ROLE_PARAMETER ? elements : 0;
    }
  }
  return before > 0 && met < lasting ? "copies of parameters" : NULL;
}
