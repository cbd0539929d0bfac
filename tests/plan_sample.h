// plan_sample.h: a plan with an instruction of each kind, which is right until somebody spoils it.
#ifndef MDL_TESTS_PLAN_SAMPLE_H
#define MDL_TESTS_PLAN_SAMPLE_H

#include <string.h>

#include "compiler/plan/plan.h"
#include "tests/toy.h"

enum { INSTRUCTIONS = 15 };

// y = x + 1, elementwise over 4 rows of 8.
static inline Kernel *sample_kernel(Arena *arena) {
  Kernel *kernel = ARENA_NEW(arena, Kernel);
  *kernel =
      (Kernel){.dim_count = 2, .inner_count = 1, .size = {4, 8}, .real = TYPE_F32, .port_count = 2, .code_count = 4};
  kernel->port = ARENA_ARRAY(arena, KernelPort, 2);
  kernel->port[0] = (KernelPort){.kind = PORT_INPUT, .type = TYPE_F32, .stride = {8, 1}};
  kernel->port[1] = (KernelPort){.kind = PORT_OUTPUT, .type = TYPE_F32, .stride = {8, 1}};
  kernel->code = ARENA_ARRAY(arena, KernelInstruction, 4);
  kernel->code[0] = (KernelInstruction){KERNEL_LOAD, LEVEL_FULL, false, -1, -1, -1, 0, 0, 0};
  kernel->code[1] = (KernelInstruction){KERNEL_CONST, LEVEL_SCALAR, false, -1, -1, -1, -1, 1.0, 0};
  kernel->code[2] = (KernelInstruction){KERNEL_ADD, LEVEL_FULL, false, 0, 1, -1, -1, 0, 0};
  kernel->code[3] = (KernelInstruction){KERNEL_STORE, LEVEL_FULL, false, 2, -1, -1, 1, 0, 0};
  return kernel;
}

static inline Instruction *instruction_of(Plan *plan, int index, InstructionKind kind) {
  Instruction *instruction = &plan->segments[0].instructions[index];
  *instruction = (Instruction){.kind = kind, .span = {0, 2, 7}, .name = "layers.0.x", .flops = 1e3, .bytes = 64};
  return instruction;
}

static const Place transient = {.arena = ARENA_TRANSIENT};

static inline Place transient_at(int64_t offset) {
  return (Place){.arena = ARENA_TRANSIENT, .offset = offset};
}

static inline void attention_set(Attention *a) {
  *a = (Attention){.type = TYPE_F32,
                   .causal = true,
                   .scale = 0.5,
                   .parts = 2,
                   .origin = {4, 24},
                   .more = true,
                   .key_parts = 2,
                   .key_origin = {8, 20},
                   .key_end = 30,
                   .biased = true,
                   .slopes = transient,
                   .batch = 2,
                   .queries = 4,
                   .keys = 4,
                   .heads = 2,
                   .groups = 2,
                   .depth = 8,
                   .value_depth = 8};
  const int64_t query[4] = {128, 32, 16, 8}, key[3] = {64, 16, 8};
  int64_t *const queries[] = {a->stride_q, a->stride_o, a->stride_dq, a->stride_do};
  int64_t *const keys[] = {a->stride_k, a->stride_v, a->stride_dk, a->stride_dv};
  for (int i = 0; i < 4; i++) {
    memcpy(queries[i], query, sizeof query);
    memcpy(keys[i], key, sizeof key);
  }
}

static inline void gemms_set(Plan *plan) {
  Gemm *gemm = &instruction_of(plan, 1, INSTRUCTION_GEMM)->as.gemm;
  *gemm = (Gemm){.type = TYPE_F32,
                 .type_b = TYPE_F32,
                 .type_c = TYPE_F32,
                 .transpose_b = true,
                 .m = 4,
                 .n = 8,
                 .k = 16,
                 .lda = 16,
                 .ldb = 16,
                 .ldc = 8};
  gemm->batch_count = 1;
  gemm->batch[0] = 2;
  gemm->stride_a[0] = 64;
  gemm->stride_c[0] = 32;
  gemm->a = gemm->b = gemm->c = transient;
  Gemm *biased = &instruction_of(plan, 9, INSTRUCTION_GEMM)->as.gemm;
  *biased = *gemm;
  biased->batch_count = 0;
  biased->epilogue = EPILOGUE_BIAS;
  biased->bias = (Place){.arena = ARENA_TRANSIENT, .offset = 512};
}

// 10 positions of 3 indices in 16 rows; products of them with 3 matrices, and back; rows summed two by two.
static inline void experts_set(Plan *plan) {
  Order *order = &instruction_of(plan, 11, INSTRUCTION_ORDER)->as.order;
  *order = (Order){.count = 10, .extent = 3, .block = 2, .capacity = 16};
  order->index = transient;
  order->place = transient_at(64);
  order->from = transient_at(128);
  order->chosen = transient_at(256);
  for (int i = 12; i < 14; i++) {
    const bool sums = i == 13;
    Grouped *grouped = &instruction_of(plan, i, sums ? INSTRUCTION_GROUPED_SUM : INSTRUCTION_GROUPED)->as.grouped;
    *grouped = (Grouped){.type = TYPE_F32,
                         .type_c = TYPE_F32,
                         .transpose_b = !sums,
                         .rows = 16,
                         .block = 2,
                         .extent = 3,
                         .m = sums ? 4 : 1,
                         .n = 8,
                         .k = sums ? 1 : 4,
                         .lda = 4,
                         .ldb = sums ? 8 : 4,
                         .ldc = 8,
                         .stride = 32};
    grouped->a = grouped->b = grouped->c = grouped->chosen = transient;
  }
  Take *take = &instruction_of(plan, 14, INSTRUCTION_TAKE)->as.take;
  *take = (Take){.type = TYPE_F32,
                 .type_out = TYPE_F32,
                 .dim_count = 3,
                 .summed = 1,
                 .size = {5, 8, 2},
                 .stride_x = {0, 1, 0},
                 .stride_index = {2, 0, 1},
                 .stride_out = {8, 1, 0},
                 .extent = 16,
                 .stride_axis = 8};
  take->x = transient;
  take->index = transient_at(1024);
  take->out = transient_at(1280);
}

// The toy plan with an instruction of each kind.
static inline Plan *sample_plan(Arena *arena) {
  Plan *plan = toy_plan(arena, "text", 4, 8, 2, true);
  plan->source_count = 1;
  plan->sources = ARENA_NEW(arena, Source);
  plan->sources[0] = (Source){"a.mdl", "model toy {}\n", 13, false};
  plan->kernel_count = 1;
  plan->kernels = ARENA_NEW(arena, Kernel *);
  plan->kernels[0] = sample_kernel(arena);
  plan->arena_bytes[ARENA_TRANSIENT] = 4096;
  plan->segments[0].count = INSTRUCTIONS;
  plan->segments[0].instructions = ARENA_ARRAY(arena, Instruction, INSTRUCTIONS);
  KernelCall *call = &instruction_of(plan, 0, INSTRUCTION_KERNEL)->as.kernel;
  call->place = ARENA_ARRAY(arena, Place, 2);
  call->place[0] = (Place){.arena = ARENA_TRANSIENT, .slot_stride = 64};
  call->place[1] = (Place){.arena = ARENA_TRANSIENT, .offset = 256};
  gemms_set(plan);
  experts_set(plan);
  static const PlanRange parts[] = {{0, 100}, {128, 28}};
  Squares *squares = &instruction_of(plan, 10, INSTRUCTION_SQUARES)->as.squares;
  *squares = (Squares){.type = TYPE_F32, .part_count = 2, .from = transient, .to = transient};
  squares->part = arena_copy(arena, parts, sizeof parts);
  squares->to.offset = 1024;
  for (int i = 2; i < 4; i++) {
    Take *take = &instruction_of(plan, i, i == 2 ? INSTRUCTION_TAKE : INSTRUCTION_PUT)->as.take;
    *take = (Take){.type = TYPE_F32,
                   .type_out = TYPE_F32,
                   .dim_count = 2,
                   .size = {4, 8},
                   .stride_x = {0, 1},
                   .stride_index = {1, 0},
                   .stride_out = {8, 1},
                   .extent = 16,
                   .stride_axis = 8,
                   .x_elements = 128};
    take->parts = i == 2 ? 4 : 0;
    take->x = transient;
    take->index = transient_at(1024);
    take->out = transient_at(1280);
    take->chosen = transient_at(1536);
  }
  Window *window = &instruction_of(plan, 4, INSTRUCTION_WINDOW)->as.window;
  *window = (Window){.type = TYPE_F32,
                     .dim_count = 2,
                     .windowed = 0,
                     .size = {4, 8},
                     .stride_x = {8, 1},
                     .stride_out = {32, 4},
                     .taps = 4,
                     .stride_tap = 1};
  window->x = transient;
  window->out = transient_at(1024);
  for (int i = 5; i < 7; i++) {
    Attention *attention =
        &instruction_of(plan, i, i == 5 ? INSTRUCTION_ATTENTION : INSTRUCTION_ATTENTION_GRAD)->as.attention;
    attention_set(attention);
    attention->q = attention->k = attention->v = attention->o = attention->statistics = transient;
    attention->d_o = attention->dq = attention->dk = attention->dv = transient;
  }
  plan->arena_bytes[ARENA_OFFLOAD] = 256;
  for (int i = 7; i < 9; i++) {
    const InstructionKind kind = (InstructionKind)(INSTRUCTION_OFFLOAD + i - 7);
    instruction_of(plan, i, kind)->as.offload =
        (Offload){.bytes = 128, .device = transient, .host = {.arena = ARENA_OFFLOAD, .offset = 64}};
  }
  plan->programs[PROGRAM_TRAIN].values = ARENA_ARRAY(arena, PlanValue, 1);
  plan->programs[PROGRAM_TRAIN].values[0] = (PlanValue){"layers.*.x", {0, 6, 9}, 1024, 2};
  plan->programs[PROGRAM_TRAIN].value_count = 1;
  return plan;
}

// Code for two targets, that of two texts each: an ELF header with nothing behind it, and PTX.
static inline void targets_set(Arena *arena, Plan *plan) {
  plan->target_count = 2;
  plan->targets = ARENA_ARRAY(arena, PlanTarget, 2);
  for (int t = 0; t < 2; t++) {
    PlanTarget *target = &plan->targets[t];
    *target = (PlanTarget){.target = t ? "compute_80" : "sm_90a",
                           .compiler = "NVRTC 13.0",
                           .multiprocessors = 132,
                           .shared_bytes = 232448,
                           .count = 2};
    target->codes = ARENA_ARRAY(arena, PlanCode, 2);
    for (int i = 0; i < 2; i++) {
      uint8_t *code = arena_alloc(arena, 64);
      memcpy(code,
             t ? ".version 9.0"
               : "\x7f"
                 "ELF\2\1",
             t ? 12 : 6);
      target->codes[i] = (PlanCode){.text = (uint64_t)(7 + i) << 60, .code = code, .bytes = t ? 13 : 64};
    }
  }
}

#endif
