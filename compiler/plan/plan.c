// plan.c: names and look-ups of plans.
#include "compiler/plan/plan.h"

#include <stdio.h>
#include <string.h>

int plan_find_state(const Plan *plan, const char *name) {
  for (int i = 0; i < plan->state_count; i++) {
    if (strcmp(plan->states[i].name, name) == 0) {
      return i;
    }
  }
  return -1;
}

int plan_calls(const Plan *plan, ProgramKind kind, int segment) {
  int calls = 0;
  for (int i = 0; i < plan->programs[kind].call_count; i++) {
    calls += plan->programs[kind].calls[i].segment == segment;
  }
  return calls;
}

int64_t plan_instructions(const Plan *plan, ProgramKind kind) {
  const PlanProgram *program = &plan->programs[kind];
  int64_t instructions = 0;
  for (int i = 0; i < program->call_count; i++) {
    instructions += plan->segments[program->calls[i].segment].count;
  }
  return instructions;
}

const char *collective_kind_name(CollectiveKind kind) {
  static const char *const names[] = {"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "rotate"};
  return (unsigned)kind < COLLECTIVE_KIND_COUNT ? names[kind] : "?";
}

// --- ranks ---

int64_t plan_input_bytes(const PlanInput *input) {
  int64_t elements = 1;
  for (int i = 0; i < input->axis_count; i++) {
    elements *= input->cut[i].count ? input->cut[i].local : input->size[i];
  }
  return elements * element_type_bytes(input->type);
}

int64_t plan_output_bytes(const PlanOutput *output) {
  int64_t reach = 1;
  for (int i = 0; i < output->axis_count; i++) {
    reach += (output->size[i] - 1) * output->stride[i];
  }
  return reach * element_type_bytes(output->type);
}

int64_t plan_inputs_end(const Plan *plan) {
  int64_t last = 0;
  for (int p = 0; p < PROGRAM_COUNT; p++) {
    const PlanProgram *program = &plan->programs[p];
    for (int i = 0; i < program->input_count; i++) {
      const PlanInput *input = &program->inputs[i];
      const int64_t slots = input->place.slot_stride ? program->slots : 1;
      const int64_t end = input->place.offset + (slots - 1) * input->place.slot_stride + plan_input_bytes(input);
      last = end > last ? end : last;
    }
  }
  return last;
}

int64_t plan_ranks(const Plan *plan) {
  int64_t ranks = 1;
  for (int i = 0; i < plan->mesh_count; i++) {
    ranks *= plan->mesh[i].size;
  }
  return ranks;
}

void plan_coordinates(const Plan *plan, int64_t rank, int *coordinate) {
  for (int i = plan->mesh_count - 1; i >= 0; i--) {
    coordinate[i] = (int)(rank % plan->mesh[i].size);
    rank /= plan->mesh[i].size;
  }
}

int64_t plan_rank(const Plan *plan, const int *coordinate) {
  int64_t rank = 0;
  for (int i = 0; i < plan->mesh_count; i++) {
    rank = rank * plan->mesh[i].size + coordinate[i];
  }
  return rank;
}

int64_t plan_term(const Plan *plan, int term, const int *coordinate) {
  int64_t value = 0;
  for (int i = 0; term > 0 && i < plan->mesh_count; i++) {
    value += plan->terms[term].stride[i] * coordinate[i];
  }
  return value;
}

int64_t plan_parts(const Plan *plan, const int *mesh, int count) {
  int64_t parts = 1;
  for (int i = 0; i < count; i++) {
    parts *= plan->mesh[mesh[i]].size;
  }
  return parts;
}

int64_t plan_part(const Plan *plan, const int *mesh, int count, const int *coordinate) {
  int64_t part = 0;
  for (int i = 0; i < count; i++) {
    part = part * plan->mesh[mesh[i]].size + coordinate[mesh[i]];
  }
  return part;
}

void plan_before(const Plan *plan, uint32_t mesh, int steps, const int *coordinate, int *before) {
  int axes[PLAN_MAX_MESH], count = 0;
  for (int i = 0; i < plan->mesh_count; i++) {
    before[i] = coordinate[i];
    if (mesh >> i & 1) {
      axes[count++] = i;
    }
  }
  int64_t ranks = plan_parts(plan, axes, count);
  int64_t part = (plan_part(plan, axes, count, coordinate) + ranks - steps % ranks) % ranks;
  for (int i = count - 1; i >= 0; i--) {
    before[axes[i]] = (int)(part % plan->mesh[axes[i]].size);
    part /= plan->mesh[axes[i]].size;
  }
}

int64_t plan_position(const Plan *plan, const PlanCut *cut, const int *coordinate, int64_t local) {
  if (cut->count == 0) {
    return local;
  }
  if (!cut->zigzag) {
    return plan_part(plan, cut->mesh, cut->count, coordinate) * cut->local + local;
  }
  int64_t minor = plan_part(plan, cut->mesh + 1, cut->count - 1, coordinate) * cut->local + local;
  int64_t ranks = plan->mesh[cut->mesh[0]].size, at = coordinate[cut->mesh[0]];
  int64_t half = plan_parts(plan, cut->mesh + 1, cut->count - 1) * cut->local / 2;
  return minor < half ? at * half + minor : (2 * ranks - 1 - at) * half + (minor - half);
}

const Plan *plan_of_rank(const PlanSet *set, int64_t rank) {
  const Plan *first = set->plans[0];
  int coordinate[PLAN_MAX_MESH] = {0};
  plan_coordinates(first, rank, coordinate);
  return set->plans[first->pipeline >= 0 && set->count > 1 ? coordinate[first->pipeline] : 0];
}

bool plan_is_of(const Plan *plan, int64_t rank) {
  int coordinate[PLAN_MAX_MESH] = {0};
  plan_coordinates(plan, rank, coordinate);
  return plan->pipeline < 0 || coordinate[plan->pipeline] == plan->stage;
}

void plan_source(const Plan *plan, Span span, char *text, size_t size) {
  text[0] = '\0';
  if (span.file < 0 || span.file >= plan->source_count) {
    return;
  }
  const Source *source = &plan->sources[span.file];
  int line = 1;
  for (uint32_t i = 0; i < span.begin && i < source->length; i++) {
    line += source->text[i] == '\n';
  }
  snprintf(text, size, "%s:%d", source->path, line);
}

double plan_target_bytes(const PlanTarget *target) {
  double bytes = 0;
  for (int i = 0; i < target->count; i++) {
    bytes += (double)target->codes[i].bytes;
  }
  return bytes;
}

const PlanCode *plan_code(const PlanTarget *target, uint64_t text) {
  int from = 0, to = target->count;
  while (from < to) {
    const int middle = from + (to - from) / 2;
    if (target->codes[middle].text < text) {
      from = middle + 1;
    } else {
      to = middle;
    }
  }
  return from < target->count && target->codes[from].text == text ? &target->codes[from] : NULL;
}

bool plan_state_is_history(const PlanState *state) {
  return state->role == STATE_OPTIMIZER && strncmp(state->name, "fp8.", 4) == 0;
}

int64_t plan_batch_after(const PlanRun *run, int64_t batch, int64_t count) {
  int64_t found = batch + count;
  for (int i = 0; i < run->skip_count && run->skip[i].first <= found; i++) {
    const int64_t end = run->skip[i].first + run->skip[i].count, first = run->skip[i].first;
    const int64_t from = first > batch + 1 ? first : batch + 1;
    found += end > from ? end - from : 0;
  }
  return found;
}

void plan_skip_text(const PlanRun *run, Buffer *out) {
  int64_t all = 0;
  buffer_text(out, "batches ");
  for (int i = 0; i < run->skip_count; i++) {
    const PlanRange *range = &run->skip[i];
    all += range->count;
    buffer_format(out, "%s%lld", i ? ", " : "", (long long)range->first);
    if (range->count > 1) {
      buffer_format(out, " .. %lld", (long long)(range->first + range->count - 1));
    }
  }
  buffer_format(out, ": %lld %s passed over", (long long)all, all == 1 ? "is" : "are");
}

ProgramKind plan_train_program(int policy, bool cold) {
  return policy == 0 ? (cold ? PROGRAM_TRAIN_COLD : PROGRAM_TRAIN)
                     : (ProgramKind)(PROGRAM_TRAIN_2 + 2 * (policy - 1) + cold);
}

int program_policy(ProgramKind kind) {
  for (int policy = 0; policy < PLAN_MAX_POLICIES; policy++) {
    if (kind == plan_train_program(policy, false) || kind == plan_train_program(policy, true)) {
      return policy;
    }
  }
  return -1;
}

int64_t program_block(ProgramKind kind) {
  return kind == PROGRAM_PREFILL ? PLAN_BLOCK : kind == PROGRAM_DECODE;
}

bool program_is_cold(ProgramKind kind) {
  const int policy = program_policy(kind);
  return policy >= 0 && kind == plan_train_program(policy, true);
}

const PlanPhase *plan_phase(const Plan *plan, int64_t step) {
  const PlanPhase *phase = plan->phase_count > 0 ? &plan->phases[0] : NULL;
  for (int i = 1; i < plan->phase_count && step >= plan->phases[i].first; i++) {
    phase = &plan->phases[i];
  }
  return phase;
}

const char *program_kind_name(ProgramKind kind) {
  static const char *const names[] = {"initialise", "train",        "evaluate",     "generate", "refresh",
                                      "train_cold", "train_2",      "train_2_cold", "train_3",  "train_3_cold",
                                      "train_4",    "train_4_cold", "prefill",      "decode"};
  return (unsigned)kind < PROGRAM_COUNT ? names[kind] : "?";
}

bool instruction_is_shared(const Instruction *instruction) {
  return instruction->kind == INSTRUCTION_COLLECTIVE || instruction->kind == INSTRUCTION_SEND ||
         instruction->kind == INSTRUCTION_RECEIVE;
}

bool instruction_computes(const Instruction *instruction) {
  return !instruction_is_shared(instruction) && instruction->kind != INSTRUCTION_OFFLOAD &&
         instruction->kind != INSTRUCTION_FETCH;
}

bool instruction_multiplies(const Instruction *instruction) {
  return instruction->kind == INSTRUCTION_GEMM || instruction->kind == INSTRUCTION_GROUPED ||
         instruction->kind == INSTRUCTION_GROUPED_SUM;
}

bool instruction_attends(const Instruction *instruction) {
  return instruction->kind == INSTRUCTION_ATTENTION || instruction->kind == INSTRUCTION_ATTENTION_GRAD ||
         instruction->kind == INSTRUCTION_ATTENTION_CAPTURED;
}

const char *instruction_kind_name(InstructionKind kind) {
  static const char *const names[] = {
#define INSTRUCTION(KIND, text, Struct, member) text,
#include "compiler/plan/instructions.def"
  };
  return (unsigned)kind < INSTRUCTION_KIND_COUNT ? names[kind] : "?";
}

const char *plan_weighing_name(PlanWeighing weighing) {
  static const char *const names[] = {[WEIGH_SAMPLES] = "samples",
                                      [WEIGH_BATCHES] = "batches",
                                      [WEIGH_ANSWERS] = "answers",
                                      [WEIGH_COUNTED] = "counted"};
  return names[weighing];
}

bool plan_is_terms(const char *output) {
  const char *last = strrchr(output, '.');
  bool is = false;
  for (int w = 0; last && w < WEIGHINGS; w++) {
    is |= strcmp(last + 1, plan_weighing_name((PlanWeighing)w)) == 0;
  }
  return is;
}
