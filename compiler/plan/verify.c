// verify.c: the states, inputs, programs, queues and kernels of one plan, and all of its instructions.
#include "compiler/plan/verify.h"

#include <string.h>

#include "compiler/plan/check.h"

static bool kernels_hold(PlanCheck *v) {
  for (int i = 0; i < v->plan->kernel_count; i++) {
    v->what = arena_format(v->arena, "kernel %d", i);
    const char *why = kernel_verify(v->plan->kernels[i]);
    if (why) {
      return check_fail(v, why);
    }
  }
  return true;
}

// A state that is cut as a part of an arena: `last` is its last element there, counted from its first.
static bool flat_holds(PlanCheck *v, const PlanState *state, int64_t last, uint32_t *used) {
  int64_t end;
  if (!check_mesh_axes(v, state->flat_count, state->flat_mesh, used)) {
    return false;
  }
  if (state->flat_first < 0 || __builtin_add_overflow(state->flat_first, last, &end) ||
      !parts_reach(plan_parts(v->plan, state->flat_mesh, state->flat_count), state->flat_piece, end + 1)) {
    return check_fail(v, "lies outside the arena that is cut into pieces");
  }
  return check_dense(v, (Place){.arena = ARENA_PERSISTENT, .offset = state->offset}, state->flat_piece, state->type);
}

static bool state_holds(PlanCheck *v, const PlanState *state) {
  uint32_t used = 0;
  int64_t local[PLAN_MAX_AXES];
  Extent extent = {0};
  if (!check_sizes(v, state->size, state->axis_count) ||
      !check_cuts(v, state->cut, state->size, state->axis_count, &used, local)) {
    return false;
  }
  for (int a = 0; a < state->axis_count; a++) {
    if (state->stride[a] < 0 || (state->stride[a] == 0 && local[a] > 1)) {
      return check_fail(v, "has two elements in one place");
    }
    extent_add(&extent, local[a], state->stride[a]);
  }
  if (state->flat_piece != 0) {
    return extent.overflow ? check_fail(v, "lies outside its arena") : flat_holds(v, state, extent.last, &used);
  }
  if (state->flat_count != 0) {
    return check_fail(v, "is cut over mesh axes into no pieces");
  }
  Place place = {.arena = ARENA_PERSISTENT, .offset = state->offset};
  return check_place(v, place, extent, element_type_bytes(state->type));
}

static bool states_hold(PlanCheck *v) {
  bool good = true;
  for (int i = 0; good && i < v->plan->state_count; i++) {
    v->what = v->plan->states[i].name;
    good = state_holds(v, &v->plan->states[i]);
  }
  return good;
}

static bool input_holds(PlanCheck *v, const PlanInput *input) {
  Extent extent = {0};
  int64_t elements = 1, local[PLAN_MAX_AXES];
  uint32_t used = 0;
  if (!check_sizes(v, input->size, input->axis_count) ||
      !check_cuts(v, input->cut, input->size, input->axis_count, &used, local)) {
    return false;
  }
  for (int a = 0; a < input->axis_count; a++) {
    extent.overflow |= __builtin_mul_overflow(elements, local[a], &elements);
  }
  if (extent.overflow || elements > PLAN_MOST_BYTES / (v->slots > 0 ? v->slots : 1)) {
    return check_fail(v, "has more elements than there can be");
  }
  extent.last = elements - 1;
  return check_place(v, input->place, extent, element_type_bytes(input->type));
}

static bool program_holds(PlanCheck *v, const PlanProgram *program) {
  v->slots = program->slots;
  const int least = program->call_count > 0 ? 1 : 0;
  if (program->slots < least || program->slots > PLAN_MOST_SLOTS) {
    return check_fail(v, program->slots < least ? "has no slots" : "has more slots than a plan may have");
  }
  if (program->transient_bytes > v->plan->arena_bytes[ARENA_TRANSIENT]) {
    return check_fail(v, "needs more transient memory than there is");
  }
  for (int i = 0; i < program->input_count; i++) {
    v->what = program->inputs[i].name;
    if (!input_holds(v, &program->inputs[i])) {
      return false;
    }
  }
  for (int i = 0; i < program->output_count; i++) {
    const PlanOutput *output = &program->outputs[i];
    v->what = output->name;
    if (output->place.arena != ARENA_HOST) {
      return check_fail(v, "is an output, and not where the host reads it");
    }
    if (!check_sizes(v, output->size, output->axis_count) ||
        !check_strided(v, output->place, output->type, output->axis_count, output->size, output->stride)) {
      return false;
    }
  }
  return true;
}

// Each segment is checked once, with the highest slot and lane that any call gives it.
static bool segments_hold(PlanCheck *v) {
  const Plan *plan = v->plan;
  int *slots = ARENA_ARRAY(v->arena, int, plan->segment_count + 1);
  int *lanes = ARENA_ARRAY(v->arena, int, plan->segment_count + 1);
  for (int p = 0; p < PROGRAM_COUNT; p++) {
    const PlanProgram *program = &plan->programs[p];
    v->what = program_kind_name((ProgramKind)p);
    for (int i = 0; i < program->call_count; i++) {
      const PlanCall *call = &program->calls[i];
      if (call->segment < 0 || call->segment >= plan->segment_count || call->slot < 0 || call->slot >= program->slots) {
        return check_fail(v, "calls a segment or a slot that is not there");
      }
      if (call->lane < 0 || call->lane >= program->slots) {
        return check_fail(v, "calls a lane that is not there");
      }
      slots[call->segment] = call->slot + 1 > slots[call->segment] ? call->slot + 1 : slots[call->segment];
      lanes[call->segment] = call->lane + 1 > lanes[call->segment] ? call->lane + 1 : lanes[call->segment];
    }
  }
  for (int s = 0; s < plan->segment_count; s++) {
    const PlanSegment *segment = &plan->segments[s];
    v->what = segment->name;
    v->slots = slots[s] > 0 ? slots[s] : 1;
    v->lanes = lanes[s] > 0 ? lanes[s] : 1;
    if (segment->chunk < 0 || segment->chunk >= PLAN_MOST_CHUNKS) {
      return check_fail(v, "is of an impossible chunk");
    }
    for (int i = 0; i < segment->count; i++) {
      v->instruction = &segment->instructions[i];
      if (!check_instruction(v, v->instruction)) {
        return false;
      }
    }
    v->instruction = NULL;
  }
  return true;
}

// --- queues ---

// In one program a communicator has one queue.
static bool queues_hold(PlanCheck *v, const PlanProgram *program) {
  enum { UNKNOWN, WITH_ARITHMETIC, BESIDE };
  uint8_t known[1 << PLAN_MAX_MESH] = {UNKNOWN};
  int count = 0;
  bool *called = ARENA_ARRAY(v->arena, bool, v->plan->segment_count + 1);
  for (int c = 0; c < program->call_count; c++) {
    called[program->calls[c].segment] = true;
  }
  for (int s = 0; s < v->plan->segment_count; s++) {
    for (int i = 0; called[s] && i < v->plan->segments[s].count; i++) {
      const Instruction *instruction = &v->plan->segments[s].instructions[i];
      const uint32_t over = instruction->as.collective.mesh;
      v->what = instruction->name ? instruction->name : instruction_kind_name(instruction->kind);
      if (instruction->kind != INSTRUCTION_COLLECTIVE) {
        if (instruction->aside) {
          return check_fail(v, "is no collective, and runs beside arithmetic");
        }
        continue;
      }
      const uint8_t queue = instruction->aside ? BESIDE : WITH_ARITHMETIC;
      count += queue == BESIDE && known[over] == UNKNOWN;
      if (count > PLAN_MAX_ASIDE) {
        return check_fail(v, "is of more communicators that run beside arithmetic than there may be");
      }
      if (known[over] != UNKNOWN && known[over] != queue) {
        return check_fail(v, "is on another queue than others of its communicator");
      }
      known[over] = queue;
    }
  }
  return true;
}

// Those that no place uses are computed too.
static bool terms_hold(PlanCheck *v) {
  static const PlanTerm nothing;
  if (v->plan->term_count < 1 || memcmp(&v->plan->terms[0], &nothing, sizeof nothing) != 0) {
    return check_fail(v, "has no first term that is 0");
  }
  for (int i = 0; i < v->plan->term_count; i++) {
    int64_t all = 0;
    for (int m = 0; m < v->plan->mesh_count; m++) {
      int64_t reach;
      if (__builtin_mul_overflow(v->plan->terms[i].stride[m], v->plan->mesh[m].size, &reach) ||
          reach > PLAN_MOST_BYTES || reach < -PLAN_MOST_BYTES ||
          (all += reach < 0 ? -reach : reach) > PLAN_MOST_BYTES) {
        return check_fail(v, "has a term beyond what can be counted");
      }
    }
  }
  return true;
}

static bool mesh_holds(PlanCheck *v) {
  const Plan *plan = v->plan;
  int64_t ranks = 1;
  if (plan->mesh_count < 0 || plan->mesh_count > PLAN_MAX_MESH) {
    return check_fail(v, "has an impossible mesh");
  }
  for (int i = 0; i < plan->mesh_count; i++) {
    for (int j = 0; j < i; j++) {
      if (strcmp(plan->mesh[i].name, plan->mesh[j].name) == 0) {
        return check_fail(v, "has two mesh axes of one name");
      }
    }
    if (plan->mesh[i].size < 1 || plan->mesh[i].size > PLAN_MOST_RANKS ||
        (ranks *= plan->mesh[i].size) > PLAN_MOST_RANKS) {
      return check_fail(v, "has an impossible mesh");
    }
  }
  if (plan->pipeline < -1 || plan->pipeline >= plan->mesh_count) {
    return check_fail(v, "has its pipeline along a mesh axis that is not there");
  }
  if (plan->stages != (plan->pipeline < 0 ? 1 : plan->mesh[plan->pipeline].size) || plan->stage < 0 ||
      plan->stage >= plan->stages) {
    return check_fail(v, "is of a stage that is not there");
  }
  return terms_hold(v);
}

// The tables of an ELF file end inside of it, so that a driver that believes its header stays inside.
static bool is_elf(const uint8_t *code, size_t bytes) {
  uint64_t offset[2];           // of the programs' table, and of the sections'
  uint16_t each[2], number[2];  // bytes and count of their entries
  if (bytes < 64 || memcmp(code,
                           "\x7f"
                           "ELF\2\1",
                           6) != 0) {
    return false;
  }
  memcpy(offset, code + 32, sizeof offset);
  for (int i = 0; i < 2; i++) {
    memcpy(&each[i], code + 54 + 4 * i, sizeof each[i]);
    memcpy(&number[i], code + 56 + 4 * i, sizeof number[i]);
    if (offset[i] > bytes || (uint64_t)each[i] * number[i] > bytes - offset[i]) {
      return false;
    }
  }
  return true;
}

static bool targets_hold(PlanCheck *v) {
  for (int t = 0; t < v->plan->target_count; t++) {
    const PlanTarget *target = &v->plan->targets[t];
    const bool text = strncmp(target->target, "compute_", 8) == 0;
    v->what = target->target;
    if (target->multiprocessors < 1 || target->shared_bytes < 1) {
      return check_fail(v, "is a kind of GPU with nothing in it");
    }
    for (int i = 0; i < target->count; i++) {
      const PlanCode *code = &target->codes[i];
      if (i > 0 && target->codes[i - 1].text >= code->text) {
        return check_fail(v, "has its kernels in no order");
      }
      if (text ? code->bytes < 1 || code->code[code->bytes - 1] != 0 : !is_elf(code->code, code->bytes)) {
        return check_fail(v, "has a kernel that is neither machine code nor text");
      }
    }
  }
  return true;
}

const char *plan_verify(Arena *arena, const Plan *plan) {
  PlanCheck v = {.arena = arena, .plan = plan, .slots = 1, .lanes = 1, .what = "plan"};
  for (int i = 0; i < ARENA_CLASS_COUNT; i++) {
    if (plan->arena_bytes[i] < 0 || plan->arena_bytes[i] > PLAN_MOST_BYTES) {
      check_fail(&v, "has an arena of impossible size");
      return v.why;
    }
  }
  bool good = mesh_holds(&v) && check_names(&v) && check_run(&v) && kernels_hold(&v) && states_hold(&v) &&
              check_states_apart(&v);
  for (int i = 0; good && i < PROGRAM_COUNT; i++) {
    v.what = program_kind_name((ProgramKind)i);
    good = program_holds(&v, &plan->programs[i]);
  }
  good = good && check_steps(&v) && segments_hold(&v);
  for (int i = 0; good && i < PROGRAM_COUNT; i++) {
    good = queues_hold(&v, &plan->programs[i]);
  }
  good = good && targets_hold(&v);
  return good ? NULL : v.why;
}
