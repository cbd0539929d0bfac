// plan_whole.h: the plan of plan_sample.h with one instruction more of each kind that it lacks, on two stages of two
// ranks.
#ifndef MDL_TESTS_PLAN_WHOLE_H
#define MDL_TESTS_PLAN_WHOLE_H

#include "tests/plan_sample.h"

// Where they are in the first segment.
enum {
  AT_LARGE = INSTRUCTIONS,
  AT_SEEDED,
  AT_CAPTURED,
  AT_FOLD,
  AT_PIECE,
  AT_COLLECTIVE,
  AT_SEND,
  AT_RECEIVE,
  AT_SCALED,
  WHOLE_INSTRUCTIONS,
};

// A score is the dot product of query and key plus what is captured of both.
static inline Kernel *score_kernel(Arena *arena) {
  static const PortKind kinds[] = {PORT_INPUT, PORT_INPUT, PORT_STRIDES, PORT_STRIDES, PORT_OUTPUT, PORT_INPUT};
  Kernel *kernel = ARENA_NEW(arena, Kernel);
  *kernel = (Kernel){.dim_count = SCORE_DIMS,
                     .inner_count = 1,
                     .size = {2, 2, 2, 4, 4},
                     .real = TYPE_F32,
                     .port_count = 6,
                     .code_count = 4};
  kernel->port = ARENA_ARRAY(arena, KernelPort, 6);
  for (int i = 0; i < 6; i++) {
    kernel->port[i] = (KernelPort){.kind = kinds[i], .type = TYPE_F32, .stride = {64, 32, 16, 4, 1}};
  }
  const int64_t pairs[] = {0, 0, 0, 1, 4};
  memcpy(kernel->port[5].stride, pairs, sizeof pairs);
  kernel->code = ARENA_ARRAY(arena, KernelInstruction, 4);
  kernel->code[0] = (KernelInstruction){KERNEL_LOAD, LEVEL_FULL, false, -1, -1, -1, 0, 0, 0};
  kernel->code[1] = (KernelInstruction){KERNEL_LOAD, LEVEL_FULL, false, -1, -1, -1, 5, 0, 0};
  kernel->code[2] = (KernelInstruction){KERNEL_ADD, LEVEL_FULL, false, 0, 1, -1, -1, 0, 0};
  kernel->code[3] = (KernelInstruction){KERNEL_STORE, LEVEL_FULL, false, 2, -1, -1, 4, 0, 0};
  return kernel;
}

// Attention with all that the sample's has not: the sample's own is ring attention with biases.
static inline void attentions_add(Arena *arena, Plan *plan) {
  const Attention *plain = &plan->segments[0].instructions[6].as.attention;
  Attention *large = &instruction_of(plan, AT_LARGE, INSTRUCTION_ATTENTION)->as.attention;
  *large = *plain;
  large->large = true;
  large->lost = transient;
  Attention *seeded = &instruction_of(plan, AT_SEEDED, INSTRUCTION_ATTENTION_GRAD)->as.attention;
  *seeded = *plain;
  seeded->seeded = true;
  seeded->d_statistics = transient;
  Attention *captured = &instruction_of(plan, AT_CAPTURED, INSTRUCTION_ATTENTION_CAPTURED)->as.attention;
  *captured = *plain;
  captured->biased = captured->more = false;
  captured->scale = 1;
  captured->score = captured->score_gradient = 2;
  captured->score_place = ARENA_ARRAY(arena, Place, 6);
  captured->score_gradient_place = ARENA_ARRAY(arena, Place, 6);
  captured->score_place[5] = captured->score_gradient_place[5] = captured->d_captured = transient;
  captured->by = CAPTURED_BY_PAIR;
  captured->stride_captured[3] = 1;
  captured->stride_captured[4] = 4;
}

// The sample with one instruction more of each kind that it lacks, on two ranks of two stages each.
static inline Plan *whole_plan(Arena *arena) {
  Plan *plan = sample_plan(arena);
  PlanSegment *segment = &plan->segments[0];
  Instruction *all = ARENA_ARRAY(arena, Instruction, WHOLE_INSTRUCTIONS);
  memcpy(all, segment->instructions, sizeof *all * INSTRUCTIONS);
  segment->instructions = all;
  segment->count = WHOLE_INSTRUCTIONS;
  plan->mesh_count = 2;
  plan->mesh[0] = (PlanMesh){"p", 2};
  plan->mesh[1] = (PlanMesh){"d", 2};
  plan->pipeline = 0;
  plan->stages = 2;
  Kernel **kernels = ARENA_ARRAY(arena, Kernel *, 2);
  kernels[0] = plan->kernels[0];
  kernels[1] = score_kernel(arena);
  plan->kernels = kernels;
  plan->kernel_count = 2;
  attentions_add(arena, plan);
  Window *fold = &instruction_of(plan, AT_FOLD, INSTRUCTION_FOLD)->as.window;
  *fold = all[4].as.window;
  instruction_of(plan, AT_PIECE, INSTRUCTION_PIECE)->as.piece =
      (Piece){.type = TYPE_F32,
              .first = 4,
              .count = 12,
              .piece = 8,
              .mesh_count = 1,
              .mesh = {1},
              .from = transient,
              .to = {.arena = ARENA_TRANSIENT, .offset = 256}};
  instruction_of(plan, AT_COLLECTIVE, INSTRUCTION_COLLECTIVE)->as.collective =
      (Collective){.kind = COLLECTIVE_ALL_GATHER,
                   .type = TYPE_F32,
                   .mesh = 2,
                   .ranks = 2,
                   .count = 8,
                   .from = transient,
                   .to = {.arena = ARENA_TRANSIENT, .offset = 256}};
  for (int i = 0; i < 2; i++) {
    instruction_of(plan, AT_SEND + i, i ? INSTRUCTION_RECEIVE : INSTRUCTION_SEND)->as.transfer =
        (Transfer){.type = TYPE_F32, .channel = i, .peer = 1, .count = 8, .place = transient};
  }
  Gemm *scaled = &instruction_of(plan, AT_SCALED, INSTRUCTION_GEMM)->as.gemm;
  *scaled = (Gemm){.type = TYPE_E4M3,
                   .type_b = TYPE_E4M3,
                   .type_c = TYPE_F32,
                   .m = 4,
                   .n = 8,
                   .k = 16,
                   .lda = 16,
                   .ldb = 8,
                   .ldc = 8};
  scaled->a = scaled->b = scaled->c = scaled->scale_a = scaled->scale_b = transient;
  return plan;
}

#endif
