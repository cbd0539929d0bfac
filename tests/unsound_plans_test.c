// unsound_plans_test.c: plans with numbers that no plan may have are refused, each with a sentence.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka.h wants the four above first.
#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "compiler/plan/verify.h"
#include "tests/plan_sample.h"

// What a driver would read past the end, and what would not be found.
static void test_unsound_code(void **state) {
  (void)state;
  static const char *const wanted[] = {"neither machine code nor text", "neither machine code nor text",
                                       "neither machine code nor text", "no order", "nothing in it"};
  for (int which = 0; which < 5; which++) {
    Arena *arena = arena_create();
    Plan *plan = sample_plan(arena);
    targets_set(arena, plan);
    PlanTarget *cubins = &plan->targets[0], *texts = &plan->targets[1];
    switch (which) {
      case 0:
        texts->codes[1].bytes = 12;  // without its end
        break;
      case 1:
        cubins->codes[1].bytes = 63;
        break;
      case 2:
        ((uint8_t *)cubins->codes[0].code)[58] = 64;  // bytes of a section's header
        ((uint8_t *)cubins->codes[0].code)[60] = 2;
        break;
      case 3:
        cubins->codes[1].text = cubins->codes[0].text;
        break;
      default:
        texts->multiprocessors = 0;
    }
    const char *why = plan_verify(arena, plan);
    assert_non_null(why);
    assert_non_null(strstr(why, wanted[which]));
    arena_destroy(arena);
  }
}

static void spoil_attention(Attention *attention, int which) {
  switch (which) {
    case 0:
      attention->parts = 3;
      break;
    case 1:
      attention->origin_term[1] = 1;
      break;
    case 2:
      attention->origin[0] = INT64_MAX;
      break;
    case 3:
      attention->key_parts = 3;
      break;
    case 4:
      attention->key_origin_term[1] = 1;
      break;
    case 5:
      attention->key_end = -1;
      break;
    case 6:
      attention->ring_step = 1;
      break;
    case 7:
      attention->ring = 1;
      break;
    case 8:
      attention->keys = 3;
      break;
    case 9:
      attention->queries = 3;
      break;
    case 10:
      attention->score = -1;
      break;
    case 11:
      attention->score = 2;  // of one kernel
      break;
    case 12:
      attention->score = 1;  // which is none of scores
      break;
    default:
      attention->window = 2;  // of no scores
  }
}

// Each case spoils one thing in a sound plan.
static void spoil(Plan *plan, int which) {
  Instruction *at = plan->segments[0].instructions;
  switch (which) {
    case 0:
      at[0].as.kernel.place[0].offset = 4096 - 64;
      break;
    case 1:
      at[0].as.kernel.place[0].slot_stride = 4096;
      break;
    case 2:
      at[0].as.kernel.kernel = 1;
      break;
    case 3:
      at[1].as.gemm.ldc = 7;
      break;
    case 4:
      at[1].as.gemm.batch[0] = INT64_MAX / 2;
      break;
    case 5:
      at[1].as.gemm.m = 0;
      break;
    case 6:
      at[2].as.take.extent = 4096;
      break;
    case 7:
      at[3].as.take.x_elements = 2000;
      break;
    case 8:
      at[4].as.window.windowed = 2;
      break;
    case 9:
      at[4].as.window.taps = 1000;
      break;
    case 10:
      at[5].as.attention.stride_k[1] = -1;
      break;
    case 11:
      at[6].as.attention.dv.offset = 4096;
      break;
    case 12:
      at[6].as.attention.groups = INT64_MAX;
      break;
    case 13:
      at[0].span.end = 14;
      break;
    case 14:
      plan->programs[PROGRAM_TRAIN].calls[1].slot = 2;
      break;
    case 15:
      plan->programs[PROGRAM_TRAIN].calls[1].segment = -1;
      break;
    case 16:
      plan->states[1].offset += 4;
      break;
    case 17:
      plan->states[1].stride[0] = 0;
      break;
    case 18:
      plan->programs[PROGRAM_TRAIN].inputs[0].place.slot_stride = INT64_MAX;
      break;
    case 19:
      plan->programs[PROGRAM_GENERATE].outputs[0].stride[0] = 1 << 20;
      break;
    case 20:
      plan->kernels[0]->code[2].a = 2;
      break;
    case 21:
      at[2].as.take.out.offset = 2;
      break;
    case 22:
      plan->programs[PROGRAM_TRAIN].transient_bytes = 4097;
      break;
    case 23:
      at[2].as.take.index.offset = -4;
      break;
    default:
      spoil_attention(&at[5].as.attention, which - 24);
  }
}

// The types of two instructions that do not go together; biases.
static void spoil_types(Plan *plan, int which) {
  Gemm *gemm = &plan->segments[0].instructions[1].as.gemm, *biased = &plan->segments[0].instructions[9].as.gemm;
  Squares *squares = &plan->segments[0].instructions[10].as.squares;
  switch (which) {
    case 0:
      gemm->type_c = TYPE_BF16;
      break;
    case 1:
      gemm->type = gemm->type_b = gemm->type_c = TYPE_BF16;
      gemm->tf32 = true;
      break;
    case 2:
      plan->segments[0].instructions[2].as.take.type_out = TYPE_INT;
      break;
    case 4:
      biased->bias.offset = 4096 - 16;
      break;
    case 5:
      biased->write = WRITE_ADD;
      break;
    case 17:
      gemm->type_b = TYPE_BF16;
      break;
    case 18:
      gemm->type = gemm->type_b = TYPE_E5M2;
      break;
    case 19:
      gemm->type = gemm->type_c = TYPE_E4M3;
      gemm->type_b = TYPE_E5M2;
      break;
    case 20:
      gemm->type = gemm->type_b = TYPE_E4M3;
      gemm->scale_b = (Place){.arena = ARENA_TRANSIENT, .offset = 4096};
      break;
    case 21:
      gemm->fast = true;
      break;
    case 7:
      plan->programs[PROGRAM_GENERATE].outputs[0].place.arena = ARENA_TRANSIENT;
      break;
    case 6:
      gemm->epilogue = EPILOGUE_BIAS;  // of a batch
      break;
    case 8:
      plan->segments[0].instructions[8].as.offload.host.offset = 0;  // where nothing was offloaded to
      break;
    case 9:
      plan->segments[0].instructions[7].as.offload.device.arena = ARENA_OFFLOAD;
      break;
    case 10:
      plan->segments[0].instructions[7].as.offload.bytes = 0;
      break;
    case 11:
      gemm->a.arena = ARENA_OFFLOAD;  // which only copies use
      break;
    case 12:
      squares->part[0].count = 1025;  // of 1024 in the arena
      break;
    case 13:
      squares->part[1].first = -1;
      break;
    case 14:
      squares->part[1].count = INT64_MAX;
      break;
    case 15:
      squares->part_count = 0;
      break;
    case 16:
      squares->type = TYPE_BF16;
      break;
    default:
      plan->segments[0].instructions[5].as.attention.type = TYPE_BF16;  // to which a block of a ring adds
  }
}

static const char *spoil_take(Take *take, Take *put, int which) {
  switch (which) {
    case 21:
      take->summed = 4;
      return "impossible";
    case 22:
      take->summed = -1;
      return "impossible";
    case 23:
      take->summed = 2;
      return "that its result has";
    case 24:
      take->type = take->type_out = TYPE_INT;
      return "where that cannot be";
    default:
      put->summed = 1;
      return "where that cannot be";
  }
}

// Blocks that are left out.
static const char *spoil_blocks(Instruction *at, int which) {
  Grouped *grouped = &at[12].as.grouped, *sums = &at[13].as.grouped;
  switch (which) {
    case 26:
      grouped->leaves = true;
      grouped->write = WRITE_ADD;
      return "does not store them";
    case 27:
      sums->leaves = true;
      return "does not store them";
    case 28:
      at[3].as.take.parts = 2;
      return "is not made of";
    case 29:
      at[2].as.take.parts = 3;
      return "is not made of";
    case 30:
      at[2].as.take.parts = 4;
      at[2].as.take.chosen = (Place){.arena = ARENA_TRANSIENT, .offset = 4096 - 8};
      return "outside its arena";
    default:
      return spoil_take(&at[14].as.take, &at[3].as.take, which);
  }
}

// Orders, products of chosen matrices, takes that sum: one thing each, and the word that says so.
static const char *spoil_experts(Plan *plan, int which) {
  Instruction *at = plan->segments[0].instructions;
  Order *order = &at[11].as.order;
  Grouped *grouped = &at[12].as.grouped, *sums = &at[13].as.grouped;
  switch (which) {
    case 0:
      order->block = 0;
      return "impossible";
    case 1:
      order->capacity = 15;
      return "no whole blocks";
    case 2:
      order->capacity = (int64_t)INT32_MAX + 1;
      return "no whole blocks";
    case 3:
      order->count = 1025;  // of 1024 in the arena
      return "outside its arena";
    case 4:
      order->extent = 0;
      return "impossible";
    case 5:
      order->extent = (int64_t)1 << 40;
      return "an index can count";
    case 6:
      grouped->block = 3;
      return "no whole blocks";
    case 7:
      grouped->block = INT64_MIN;
      return "impossible";
    case 8:
      grouped->type_c = TYPE_BF16;
      return "cannot give";
    case 9:
      grouped->type = TYPE_E4M3;
      return "8 bits";
    case 10:
      grouped->lda = 3;
      return "shorter than its rows";
    case 11:
      grouped->ldb = 3;
      return "shorter than its rows";
    case 12:
      sums->ldc = 7;
      return "shorter than its rows";
    case 13:
      grouped->stride = 31;
      return "lie in each other";
    case 14:
      sums->stride = 8;
      return "lie in each other";
    case 15:
      grouped->extent = 33;  // 33 * 32 of 1024
      return "outside its arena";
    case 16:
      grouped->m = 2;
      return "does not use";
    case 17:
      sums->transpose_b = true;
      return "does not use";
    case 18:
      sums->stride = INT64_MAX / 2;
      return "impossible";
    case 19:
      grouped->chosen.offset = 4096 - 4;
      return "outside its arena";
    case 20:
      sums->n = INT64_MAX / 4;
      return "impossible";
    default:
      return spoil_blocks(at, which);
  }
}

static void test_unsound_experts(void **state) {
  (void)state;
  for (int which = 0; which < 31; which++) {
    Arena *arena = arena_create();
    Plan *plan = sample_plan(arena);
    const char *wanted = spoil_experts(plan, which), *why = plan_verify(arena, plan);
    if (!why || !strstr(why, wanted)) {
      fail_msg("case %d: %s", which, why ? why : "was not found");
    }
    arena_destroy(arena);
  }
}

static void test_unsound_plans(void **state) {
  (void)state;
  for (int which = 0; which <= 59; which++) {
    Arena *arena = arena_create();
    Plan *plan = sample_plan(arena);
    assert_null(plan_verify(arena, plan));
    (which > 37 ? spoil_types : spoil)(plan, which > 37 ? which - 38 : which);
    const char *why = plan_verify(arena, plan);
    if (!why) {
      fail_msg("case %d was not found", which);
    }
    assert_true(strlen(why) > 10);
    arena_destroy(arena);
  }
}

// Sizes along which nothing has a stride: inside every arena, and more than can be counted.
static void spoil_strideless(Plan *plan, int which) {
  Instruction *at = plan->segments[0].instructions;
  Take *take = &at[which == 1 ? 3 : 2].as.take;
  Window *window = &at[4].as.window;
  Attention *attention = &at[5].as.attention;
  Gemm *gemm = &at[1].as.gemm;
  const int64_t many = INT64_C(1) << 32;
  switch (which) {
    case 0:
    case 1:
      for (int d = 0; d < 2; d++) {
        take->size[d] = many;
        take->stride_x[d] = take->stride_index[d] = take->stride_out[d] = 0;
      }
      break;
    case 2:
      window->size[0] = window->size[1] = many;
      memset(window->stride_x, 0, sizeof window->stride_x);
      memset(window->stride_out, 0, sizeof window->stride_out);
      break;
    case 3:
      window->size[0] = many;
      window->stride_x[0] = window->stride_out[0] = window->stride_tap = 0;
      window->taps = many;
      break;
    case 4:
      gemm->batch_count = 2;
      gemm->batch[0] = gemm->batch[1] = many;
      memset(gemm->stride_a, 0, sizeof gemm->stride_a);
      memset(gemm->stride_b, 0, sizeof gemm->stride_b);
      memset(gemm->stride_c, 0, sizeof gemm->stride_c);
      break;
    case 5:
      attention->keys = INT64_C(1) << 56;
      attention->stride_k[1] = attention->stride_v[1] = 0;
      break;
    case 6:
      for (int i = 0; i < plan->programs[PROGRAM_TRAIN].input_count; i++) {
        plan->programs[PROGRAM_TRAIN].inputs[i].place.slot_stride = 0;
      }
      plan->programs[PROGRAM_TRAIN].slots = 1 << 24;
      break;
    default:
      plan->states[0].size[0] = plan->states[0].size[1] = INT64_C(1) << 40;
  }
}

static void test_strideless(void **state) {
  (void)state;
  static const char *const wanted[] = {"more elements", "more elements", "more elements",   "more elements",
                                       "more elements", "more elements", "more slots than", "more elements"};
  for (int which = 0; which < 8; which++) {
    Arena *arena = arena_create();
    Plan *plan = sample_plan(arena);
    spoil_strideless(plan, which);
    const char *why = plan_verify(arena, plan);
    if (!why || !strstr(why, wanted[which])) {
      fail_msg("case %d: %s", which, why ? why : "was not found");
    }
    arena_destroy(arena);
  }
}

static void spoil_names(Plan *plan, int which) {
  PlanRun *run = &plan->run;
  switch (which) {
    case 19:
      run->model = "../pwned";
      break;
    case 20:
      run->model = "";
      break;
    case 21:
      run->model = "2m";
      break;
    case 22:
      run->recipe = "a b";
      break;
    case 23:
      plan->phase_count = 1;
      plan->phases[0] = (PlanPhase){.first = 1, .precision = "bf16\",\"loss\":0,\""};
      break;
    case 24:
      plan->states[1].name = "adamw..m";
      break;
    case 25:
      plan->states[1].name = "adamw.\033[31m";
      break;
    case 26:
      plan->states[0].axis[1] = "a\033[31m";
      break;
    case 27:
      plan->programs[PROGRAM_TRAIN].inputs[0].name = "tokens.";
      break;
    case 28:
      plan->programs[PROGRAM_TRAIN].outputs[0].name = "lo\nss";
      break;
    default:
      run->precision = "bf16\033[31m";
  }
}

static void spoil_run(Plan *plan, PlanRange *skip, int which) {
  PlanRun *run = &plan->run;
  switch (which) {
    case 0:
      plan->real = TYPE_E4M3;
      break;
    case 1:
      plan->real = TYPE_BF16;
      break;
    case 2:
      plan->real = TYPE_F64;  // the sample attends in f32
      break;
    case 3:
      plan->segments[0].instructions[5].as.attention.type = TYPE_F64;
      break;
    case 4:
      run->validation_fraction = 1;
      break;
    case 5:
      run->validation_fraction = INFINITY;
      break;
    case 6:
      run->validation_fraction = -0.5;
      break;
    case 7:
      run->validation_fraction = NAN;
      break;
    case 8:
      run->parameters = NAN;
      break;
    case 9:
      run->steps = -1;
      break;
    case 10:
      run->steps = INT64_MAX;
      break;
    case 11:
      run->eval_every = -1;
      break;
    case 12:
      run->save_every = INT64_MAX;
      break;
    case 13:
      run->log_every = INT64_MIN;
      break;
    case 14:
      run->eval_batches = INT64_C(1) << 62;
      break;
    case 15:
      run->batch = INT64_C(1) << 40;
      run->sequence = INT64_C(1) << 40;
      break;
    case 16:
      run->sequence = -1;
      break;
    case 17:
      skip[1].first = 4;
      break;
    case 18:
      skip[1].count = INT64_MAX;
      break;
    default:
      spoil_names(plan, which);
  }
}

static void test_unsound_runs(void **state) {
  (void)state;
  for (int which = 0; which <= 29; which++) {
    Arena *arena = arena_create();
    Plan *plan = sample_plan(arena);
    PlanRange skip[] = {{2, 3}, {5, 1}};
    plan->run.skip = skip;
    plan->run.skip_count = 2;
    assert_null(plan_verify(arena, plan));
    spoil_run(plan, skip, which);
    const char *why = plan_verify(arena, plan);
    const char *wanted = which < 2                    ? "neither f32 nor f64"
                         : which < 4                  ? "the statistics"
                         : which < 8                  ? "for validation"
                         : which < 9                  ? "number of parameters"
                         : which < 15                 ? "a count of steps"
                         : which < 17                 ? "an impossible batch"
                         : which < 19                 ? "passes over batches"
                         : which == 26 || which == 29 ? "cannot be printed"
                                                      : "is no name";
    if (!why || !strstr(why, wanted)) {
      fail_msg("case %d: %s", which, why ? why : "was not found");
    }
    arena_destroy(arena);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_unsound_code), cmocka_unit_test(test_unsound_plans), cmocka_unit_test(test_unsound_experts),
      cmocka_unit_test(test_strideless),   cmocka_unit_test(test_unsound_runs),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
