// explain_traffic.c: collects collectives and messages from plans.
#include "compiler/report/explain_traffic.h"

#include <string.h>

#include "compiler/plan/exposure.h"

const char *traffic_phase_name(TrafficPhase phase) {
  static const char *const names[] = {"forward", "backward", "gradients", "update"};
  return (unsigned)phase < PHASE_COUNT ? names[phase] : "?";
}

const char *traffic_kind(const Traffic *traffic) {
  const Instruction *instruction = traffic->instruction;
  return instruction->kind == INSTRUCTION_COLLECTIVE ? collective_kind_name(instruction->as.collective.kind) : "send";
}

static void measure(const Plan *plan, Traffic *traffic) {
  const Instruction *instruction = traffic->instruction;
  traffic->mesh = instruction_mesh(plan, instruction);
  traffic->wire = instruction_sends(instruction);
  if (instruction->kind == INSTRUCTION_SEND) {
    traffic->ranks = 2;
    traffic->payload = traffic->wire;
    return;
  }
  const Collective *collective = &instruction->as.collective;
  double bytes = (double)(collective->count * element_type_bytes(collective->type));
  traffic->ranks = collective->ranks;
  bool one = collective->kind == COLLECTIVE_ALL_REDUCE || collective->kind == COLLECTIVE_ROTATE;
  traffic->payload = one ? bytes : bytes * collective->ranks;
}

static void collect_segment(Arena *arena, const Plan *plan, const ViewSegment *view, int at, int calls,
                            TrafficList *all) {
  const PlanSegment *segment = &plan->segments[at];
  for (int i = 0; i < segment->count; i++) {
    const Instruction *instruction = &segment->instructions[i];
    Traffic traffic = {.stage = plan->stage, .calls = calls, .instruction = instruction, .path = ""};
    if (instruction->kind == INSTRUCTION_COLLECTIVE && instruction->number < view->collectives.count) {
      const ViewCollective *known = &view->collectives.at[instruction->number];
      traffic.phase = known->phase;
      traffic.path = known->path;
      traffic.pack = known->pack;
    } else if (instruction->kind == INSTRUCTION_SEND) {
      bool forward = segment->kind == SEGMENT_FORWARD || segment->kind == SEGMENT_PREPARE;
      traffic.phase = forward ? PHASE_FORWARD : segment->kind == SEGMENT_APPLY ? PHASE_UPDATE : PHASE_BACKWARD;
    } else {
      continue;
    }
    measure(plan, &traffic);
    array_push(arena, all, traffic);
  }
}

TrafficList traffic_collect(Arena *arena, const PlanSet *set, const CompileView *view) {
  TrafficList all = {0};
  for (int s = 0; s < set->count && s < view->stages.count; s++) {
    const Plan *plan = set->plans[s];
    const ViewStage *stage = &view->stages.at[s];
    for (int i = 0; i < stage->segment_count; i++) {
      const int segment = stage->first_segment + i;
      collect_segment(arena, plan, &stage->segments[i], segment, plan_calls(plan, PROGRAM_TRAIN, segment), &all);
    }
  }
  return all;
}
