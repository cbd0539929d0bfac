// inspect_plan.c: the plans of all stages in words: mesh, memory, programs, instructions, states.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "compiler/plan/waits.h"
#include "runtime/inspect.h"
#include "runtime/session.h"

enum { LARGEST = 10, TERMS = 8, MESH_TEXT = 128 };

static const char *word(const char *text) {
  return text && *text ? text : "-";
}

static const char *plural(int64_t count) {
  return count == 1 ? "" : "s";
}

// "dp x tp": the mesh axes of a set of bits.
static const char *mesh_text(const Plan *plan, uint32_t mesh, char text[MESH_TEXT]) {
  int length = 0;
  text[0] = '\0';
  for (int i = 0; i < plan->mesh_count && length < MESH_TEXT; i++) {
    if (mesh >> i & 1) {
      length += snprintf(text + length, (size_t)(MESH_TEXT - length), "%s%s", length ? " x " : "", plan->mesh[i].name);
    }
  }
  return text;
}

static uint32_t mesh_bits(int count, const int *mesh) {
  uint32_t bits = 0;
  for (int i = 0; i < count; i++) {
    bits |= 1u << mesh[i];
  }
  return bits;
}

static void inspect_mesh(const PlanSet *set, Buffer *out) {
  const Plan *plan = set->plans[0];
  int64_t ranks = plan_ranks(plan), each = ranks / set->count;
  buffer_text(out, plan->mesh_count > 0 ? "mesh " : "one rank");
  for (int i = 0; i < plan->mesh_count; i++) {
    buffer_format(out, "%s%s %lld", i ? " x " : "", plan->mesh[i].name, (long long)plan->mesh[i].size);
  }
  if (plan->mesh_count > 0) {
    buffer_format(out, ": %lld rank%s", (long long)ranks, plural(ranks));
  }
  if (set->count > 1) {
    buffer_format(out, "; %d stages along %s, each of %lld rank%s", set->count, plan->mesh[plan->pipeline].name,
                  (long long)each, plural(each));
  }
  buffer_text(out, "\n");
}

// A list for one stage, a table for several.
static void inspect_memory(const PlanSet *set, Buffer *out) {
  static const char *const arenas[] = {"persistent", "transient", "host", "offload"};
  char bytes[UNITS_MAX];
  bool table = set->count > 1;
  buffer_text(out, "\nmemory of one rank\n");
  if (table) {
    buffer_format(out, "  %-8s %14s %14s %14s %14s %14s\n", "stage", arenas[0], arenas[1], arenas[2], arenas[3], "all");
  }
  for (int s = 0; s < set->count; s++) {
    const int64_t *size = set->plans[s]->arena_bytes;
    double all = 0;
    if (table) {
      buffer_format(out, "  %-8d", s);
    }
    for (int i = 0; i < ARENA_CLASS_COUNT; i++) {
      units_bytes(bytes, (double)size[i]);
      all += (double)size[i];
      if (table) {
        buffer_format(out, " %14s", size[i] ? bytes : "-");
      } else if (size[i] > 0) {
        buffer_format(out, "  %-14s %s\n", arenas[i], bytes);
      }
    }
    if (table) {
      buffer_format(out, " %14s\n", units_bytes(bytes, all));
    }
  }
}

static void inspect_axes(const Plan *plan, int count, const char *const *axis, const int64_t *size, const PlanCut *cut,
                         Buffer *out) {
  char over[MESH_TEXT];
  buffer_text(out, "[");
  for (int a = 0; a < count; a++) {
    buffer_format(out, "%s%s %lld", a ? ", " : "", axis[a], (long long)size[a]);
    if (cut && cut[a].count > 0) {
      buffer_format(out, " over %s%s", mesh_text(plan, mesh_bits(cut[a].count, cut[a].mesh), over),
                    cut[a].zigzag ? " in a zigzag" : "");
    }
  }
  buffer_text(out, "]");
}

static void inspect_ends(const Plan *plan, ProgramKind kind, Buffer *out) {
  const PlanProgram *program = &plan->programs[kind];
  char stage[32] = "";
  if (plan->stages > 1) {
    snprintf(stage, sizeof stage, "stage %-2d ", plan->stage);
  }
  for (int i = 0; i < program->input_count; i++) {
    const PlanInput *input = &program->inputs[i];
    buffer_format(out, "  %-10s %sinput  %s %s", program_kind_name(kind), stage, input->name,
                  element_type_name(input->type));
    inspect_axes(plan, input->axis_count, input->axis, input->size, input->cut, out);
    buffer_text(out, "\n");
  }
  for (int i = 0; i < program->output_count; i++) {
    const PlanOutput *output = &program->outputs[i];
    buffer_format(out, "  %-10s %soutput %s %s", program_kind_name(kind), stage, output->name,
                  element_type_name(output->type));
    inspect_axes(plan, output->axis_count, output->axis, output->size, NULL, out);
    buffer_text(out, "\n");
  }
}

static void inspect_programs(const PlanSet *set, Buffer *out) {
  char flops[UNITS_MAX], bytes[UNITS_MAX];
  if (set->plans[0]->run.skip_count > 0) {
    buffer_text(out, "\n");
    plan_skip_text(&set->plans[0]->run, out);
    buffer_text(out, "\n");
  }
  for (int i = 0; i < set->plans[0]->phase_count; i++) {
    const PlanPhase *phase = &set->plans[0]->phases[i];
    buffer_format(out, "%sfrom step %lld on %s trains in %s\n", i ? "" : "\n", (long long)phase->first,
                  program_kind_name(plan_train_program(phase->policy, false)), phase->precision);
  }
  buffer_format(out, "\nprogram     %s  calls  instructions  slots  flops of one run  transient memory\n",
                set->count > 1 ? "  stage" : "");
  for (int p = 0; p < PROGRAM_COUNT; p++) {
    for (int s = 0; s < set->count; s++) {
      const PlanProgram *program = &set->plans[s]->programs[p];
      int64_t instructions = plan_instructions(set->plans[s], (ProgramKind)p);
      if (program->call_count > 0) {
        buffer_format(out, "%-12s", program_kind_name((ProgramKind)p));
        if (set->count > 1) {
          buffer_format(out, " %6d", s);
        }
        buffer_format(out, " %6d %13lld %6d  %16s  %s\n", program->call_count, (long long)instructions, program->slots,
                      units_count(flops, program->flops), units_bytes(bytes, (double)program->transient_bytes));
      }
    }
  }
  for (int p = 0; p < PROGRAM_COUNT; p++) {
    for (int s = 0; s < set->count; s++) {
      inspect_ends(set->plans[s], (ProgramKind)p, out);
    }
  }
}

typedef struct {
  int64_t count;
  double flops, bytes;
} Total;

static void inspect_instructions(const PlanSet *set, Buffer *out) {
  char flops[UNITS_MAX], bytes[UNITS_MAX];
  Total total[INSTRUCTION_KIND_COUNT] = {{0}};
  int segments = 0, kernels = 0;
  for (int s = 0; s < set->count; s++) {
    const Plan *plan = set->plans[s];
    segments += plan->segment_count;
    kernels += plan->kernel_count;
    for (int i = 0; i < plan->segment_count; i++) {
      for (int j = 0; j < plan->segments[i].count; j++) {
        const Instruction *instruction = &plan->segments[i].instructions[j];
        total[instruction->kind].count++;
        total[instruction->kind].flops += instruction->flops;
        total[instruction->kind].bytes += instruction->bytes;
      }
    }
  }
  buffer_format(out, "\nsegments %d, kernels %d%s\ninstruction       count   flops   bytes moved\n", segments, kernels,
                set->count > 1 ? ", all stages together" : "");
  for (int kind = 0; kind < INSTRUCTION_KIND_COUNT; kind++) {
    if (total[kind].count > 0) {
      buffer_format(out, "%-16s %6lld  %6s   %s\n", instruction_kind_name((InstructionKind)kind),
                    (long long)total[kind].count, units_count(flops, total[kind].flops),
                    units_bytes(bytes, total[kind].bytes));
    }
  }
}

static void inspect_targets(const PlanSet *set, Buffer *out) {
  const Plan *plan = set->plans[0];
  char size[UNITS_MAX];
  for (int t = 0; t < plan->target_count; t++) {
    const PlanTarget *target = &plan->targets[t];
    buffer_format(out, "%s%-12s %4d kernel%s  %10s  by %s\n", t == 0 ? "\ncompiled ahead of time for\n  " : "  ",
                  target->target, target->count, plural(target->count), units_bytes(size, plan_target_bytes(target)),
                  target->compiler);
  }
}

// What one run of a program sends: a line for each kind of collective over each group, and for each neighbour.
typedef struct {
  const char *name;
  uint32_t mesh;
  int peer;  // of messages; -1: a collective
  int64_t count;
  double bytes;  // of the larger of what is given and what is got
} Traffic;

enum { TRAFFIC = 64 };

static void traffic_add(Traffic *traffic, int *count, Traffic one) {
  int at = 0;
  while (at < *count &&
         (traffic[at].name != one.name || traffic[at].mesh != one.mesh || traffic[at].peer != one.peer)) {
    at++;
  }
  if (at == *count && *count < TRAFFIC) {
    traffic[(*count)++] = (Traffic){.name = one.name, .mesh = one.mesh, .peer = one.peer};
  }
  if (at < *count) {
    traffic[at].count += one.count;
    traffic[at].bytes += one.bytes;
  }
}

static int traffic_of(const Plan *plan, ProgramKind kind, int *calls, Traffic *traffic) {
  const PlanProgram *program = &plan->programs[kind];
  int count = 0;
  memset(calls, 0, sizeof *calls * (size_t)plan->segment_count);
  for (int i = 0; i < program->call_count; i++) {
    calls[program->calls[i].segment]++;
  }
  for (int s = 0; s < plan->segment_count; s++) {
    for (int i = 0; calls[s] > 0 && i < plan->segments[s].count; i++) {
      const Instruction *at = &plan->segments[s].instructions[i];
      if (at->kind == INSTRUCTION_COLLECTIVE) {
        const Collective *c = &at->as.collective;
        bool one = c->kind == COLLECTIVE_ALL_REDUCE || c->kind == COLLECTIVE_ROTATE;
        double elements = (double)c->count * (one ? 1 : c->ranks);
        traffic_add(traffic, &count,
                    (Traffic){collective_kind_name(c->kind), c->mesh, -1, calls[s],
                              elements * (double)element_type_bytes(c->type) * calls[s]});
      } else if (at->kind == INSTRUCTION_SEND || at->kind == INSTRUCTION_RECEIVE) {
        const Transfer *t = &at->as.transfer;
        traffic_add(traffic, &count,
                    (Traffic){at->kind == INSTRUCTION_SEND ? "to stage" : "from stage", 0, t->peer, calls[s],
                              (double)(t->count * element_type_bytes(t->type)) * calls[s]});
      }
    }
  }
  return count;
}

static void inspect_traffic(const PlanSet *set, Buffer *out) {
  char bytes[UNITS_MAX], over[MESH_TEXT];
  Traffic traffic[TRAFFIC];
  bool begun = false;
  for (int p = 0; p < PROGRAM_COUNT; p++) {
    for (int s = 0; s < set->count; s++) {
      const Plan *plan = set->plans[s];
      int *calls = calloc((size_t)plan->segment_count + 1, sizeof *calls);
      int count = calls ? traffic_of(plan, (ProgramKind)p, calls, traffic) : 0;
      for (int i = 0; i < count; i++) {
        if (!begun) {
          buffer_text(out, "\nbetween ranks, in one run of each rank: how often, how many bytes\n");
          begun = true;
        }
        buffer_format(out, "  %-10s ", program_kind_name((ProgramKind)p));
        if (set->count > 1) {
          buffer_format(out, "stage %-2d ", s);
        }
        if (traffic[i].peer >= 0) {
          snprintf(over, sizeof over, "%d", traffic[i].peer);
        } else {
          mesh_text(plan, traffic[i].mesh, over);
        }
        buffer_format(out, "%-14s %s %-10s %6lld  %10s\n", traffic[i].name, traffic[i].peer >= 0 ? "    " : "over",
                      over, (long long)traffic[i].count, units_bytes(bytes, traffic[i].bytes));
      }
      free(calls);
    }
  }
}

// Queues of the training step beside that of arithmetic.
static void inspect_queues(const PlanSet *set, Buffer *out) {
  bool begun = false;
  for (int s = 0; s < set->count; s++) {
    Arena *arena = arena_create();
    const Plan *plan = set->plans[s];
    const PlanWaits *waits = arena ? plan_waits(arena, plan) : NULL;
    const PlanInstances all = waits ? plan_instances(arena, plan, waits, PROGRAM_TRAIN) : (PlanInstances){0};
    for (int q = 1; waits && q < waits->queue_count; q++) {
      char name[QUEUE_NAME_MAX];
      int64_t count = 0;
      for (int i = 0; i < all.count; i++) {
        count += all.at[i].queue == q;
      }
      if (count > 0) {
        plan_queue_name(plan, waits, q, name);
        buffer_text(out, begun ? "" : "\nbeside arithmetic in a training step: queues, and how many instructions\n");
        buffer_text(out, "  ");
        if (set->count > 1) {
          buffer_format(out, "stage %-2d ", s);
        }
        buffer_format(out, "%-36s %6lld\n", name, (long long)count);
        begun = true;
      }
    }
    if (arena) {
      arena_destroy(arena);
    }
  }
}

static void inspect_terms(const PlanSet *set, Buffer *out) {
  const Plan *plan = set->plans[0];
  if (plan->term_count > 1) {
    buffer_format(out, "\n%d number%s that depend%s on the rank%s\n", plan->term_count - 1,
                  plural(plan->term_count - 1), plan->term_count == 2 ? "s" : "", set->count > 1 ? ", on stage 0" : "");
  }
  for (int t = 1; t < plan->term_count && t <= TERMS; t++) {
    const char *sign = "";
    buffer_format(out, "  %4d  ", t);
    for (int i = 0; i < plan->mesh_count; i++) {
      if (plan->terms[t].stride[i] != 0) {
        buffer_format(out, "%s%lld %s", sign, (long long)plan->terms[t].stride[i], plan->mesh[i].name);
        sign = " + ";
      }
    }
    buffer_text(out, "\n");
  }
}

typedef struct {
  const Plan *plan;
  const PlanState *state;
} Held;

static double state_elements(const PlanState *state) {
  double elements = 1;
  for (int i = 0; i < state->axis_count; i++) {
    elements *= (double)state->size[i];
  }
  return elements;
}

static double state_bytes(const PlanState *state) {
  return state_elements(state) * (double)element_type_bytes(state->type);
}

// On one rank; of what is cut as a part of an arena, the mean.
static double rank_bytes(const Held *held) {
  const PlanState *state = held->state;
  double bytes = (double)element_type_bytes(state->type);
  for (int i = 0; i < state->axis_count; i++) {
    bytes *= (double)(state->cut[i].count > 0 ? state->cut[i].local : state->size[i]);
  }
  return state->flat_piece > 0 ? bytes / (double)plan_parts(held->plan, state->flat_mesh, state->flat_count) : bytes;
}

static int by_name(const void *a, const void *b) {
  const Held *x = a, *y = b;
  int order = strcmp(x->state->name, y->state->name);
  return order ? order : x->plan->stage - y->plan->stage;
}

static int by_bytes(const void *a, const void *b) {
  const Held *x = a, *y = b;
  double first = state_bytes(x->state), second = state_bytes(y->state);
  return first > second ? -1 : first < second ? 1 : by_name(a, b);
}

// The states of all stages, each once, on the heap.
static Held *states_of(const PlanSet *set, int *count) {
  int most = 0, all = 0;
  for (int s = 0; s < set->count; s++) {
    most += set->plans[s]->state_count;
  }
  Held *held = calloc((size_t)most + 1, sizeof *held);
  for (int s = 0; held && s < set->count; s++) {
    for (int i = 0; i < set->plans[s]->state_count; i++) {
      held[all++] = (Held){set->plans[s], &set->plans[s]->states[i]};
    }
  }
  *count = 0;
  if (held) {
    qsort(held, (size_t)all, sizeof *held, by_name);
  }
  for (int i = 0; i < all; i++) {
    if (*count == 0 || strcmp(held[*count - 1].state->name, held[i].state->name) != 0) {
      held[(*count)++] = held[i];
    }
  }
  return held;
}

static void inspect_frozen(const Held *held, int count, Buffer *out) {
  char bytes[UNITS_MAX];
  double sum = 0;
  int tensors = 0;
  for (int i = 0; i < count; i++) {
    sum += held[i].state->frozen ? state_bytes(held[i].state) : 0;
    tensors += held[i].state->frozen;
  }
  if (tensors > 0) {
    buffer_format(out, "%-16s %5d tensor%s, %s\n", "of these frozen", tensors, plural(tensors),
                  units_bytes(bytes, sum));
  }
}

static void inspect_roles(const Held *held, int count, Buffer *out) {
  static const char *const roles[] = {"parameters", "optimizer state", "model state", "copies"};
  char bytes[UNITS_MAX];
  buffer_text(out, "\n");
  for (int role = 0; role <= STATE_COPY; role++) {
    double sum = 0;
    int tensors = 0;
    for (int i = 0; i < count; i++) {
      if ((int)held[i].state->role == role) {
        sum += state_bytes(held[i].state);
        tensors++;
      }
    }
    if (tensors > 0) {
      buffer_format(out, "%-16s %5d tensor%s, %s\n", roles[role], tensors, plural(tensors), units_bytes(bytes, sum));
    }
    if (role == STATE_PARAMETER) {
      inspect_frozen(held, count, out);
    }
  }
}

static void inspect_states(const PlanSet *set, Buffer *out) {
  char bytes[UNITS_MAX], over[MESH_TEXT];
  int count = 0;
  Held *held = states_of(set, &count);
  if (held && count > 0) {
    inspect_roles(held, count, out);
    qsort(held, (size_t)count, sizeof *held, by_bytes);
    buffer_text(out, "the largest\n");
  }
  for (int i = 0; i < count && i < LARGEST; i++) {
    const PlanState *state = held[i].state;
    const Plan *plan = held[i].plan;
    buffer_format(out, "  %10s  %s %s", units_bytes(bytes, state_bytes(state)), state->name,
                  element_type_name(state->type));
    inspect_axes(plan, state->axis_count, state->axis, state->size, state->cut, out);
    if (state->flat_piece > 0) {
      buffer_format(out, ", in even pieces over %s",
                    mesh_text(plan, mesh_bits(state->flat_count, state->flat_mesh), over));
    }
    if (rank_bytes(&held[i]) != state_bytes(state)) {
      buffer_format(out, ": %s on a rank", units_bytes(bytes, rank_bytes(&held[i])));
    }
    buffer_text(out, "\n");
  }
  free(held);
}

void inspect_plans(const PlanSet *set, Buffer *out) {
  const Plan *plan = set->plans[0];
  const PlanRun *run = &plan->run;
  char count[UNITS_MAX];
  buffer_format(out, "model %s, recipe %s, layout %s, precision %s, optimizer %s\n", word(run->model),
                word(run->recipe), word(run->layout), word(run->precision), word(run->optimizer));
  buffer_format(out, "%s parameters; batch %lld of %lld tokens, %lld steps, seed %llu; state %016llx\n",
                units_count(count, session_parameters(set)), (long long)run->batch, (long long)run->sequence,
                (long long)run->steps, (unsigned long long)run->seed, (unsigned long long)plan->state_hash);
  buffer_format(out, "data %s ", word(run->data_kind));
  for (const char *c = word(run->data_path); *c; c++) {  // a mix has lines
    buffer_format(out, "%c", *c == '\t' ? ' ' : *c == '\n' ? ';' : *c);
  }
  buffer_format(out, ", tokenizer %s\n", word(run->tokenizer));
  inspect_mesh(set, out);
  inspect_memory(set, out);
  inspect_programs(set, out);
  inspect_instructions(set, out);
  inspect_targets(set, out);
  inspect_traffic(set, out);
  inspect_queues(set, out);
  inspect_terms(set, out);
  inspect_states(set, out);
}
