// cuda_ahead_test.c: kernels made before there is a GPU: the same on all ranks, each once, and found again in the plan.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka.h wants the four above first.
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/compile.h"
#include "compiler/plan/artefact.h"
#include "kernels/cuda/ahead.h"
#include "kernels/cuda/compile.h"
#include "kernels/cuda/instruction.h"
#include "runtime/io.h"

// NVRTC keeps memory of threads that have ended, at which the search for leaks stumbles.
int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void) {
  return 1;
}

static PlanSet *compiled(Arena *arena, const char *file, const char *recipe, const char *layout) {
  Diag *diag = diag_create(arena);
  PlanSet *set = NULL;
  const char *sizes[] = {"vocab=256", "embed=64", "kv_heads=2", "group=2", "hd=16", "ffn=96", "layers=4"};
  const bool llama = strstr(file, "llama") != NULL;
  const CompileOptions options = {.file = file,
                                  .recipe = recipe,
                                  .layout = layout,
                                  .set = sizes,
                                  .set_count = llama ? (int)(sizeof sizes / sizeof *sizes) : 0,
                                  .program = PROGRAM_TRAIN};
  if (!compile_plans(arena, diag, &options, &set)) {
    diag_print(diag, stderr, false);
    fail_msg("%s did not compile", file);
  }
  return set;
}

static void test_targets(void **state) {
  (void)state;
  Arena *arena = arena_create();
  const char *targets[CUDA_AHEAD_TARGETS], *why = NULL;
  assert_int_equal(cuda_targets_read(arena, "sm_90a,cpu,compute_80,sm_90a", targets, &why), 2);
  assert_string_equal(targets[0], "sm_90a");
  assert_string_equal(targets[1], "compute_80");
  assert_int_equal(cuda_targets_read(arena, "cpu", targets, &why), 0);
  assert_int_equal(cuda_targets_read(arena, "sm_90a,,", targets, &why), -1);
  assert_int_equal(cuda_targets_read(arena, "sm_90", targets, &why), -1);
  assert_non_null(strstr(why, "'sm_90' is none of cpu, sm_80"));
  assert_int_equal(cuda_target_serves("sm_90a", 9, 0), 3);
  assert_int_equal(cuda_target_serves("sm_90a", 10, 0), 0);
  assert_int_equal(cuda_target_serves("sm_90a", 9, 1), 0);
  assert_int_equal(cuda_target_serves("sm_80", 8, 0), 3);
  assert_int_equal(cuda_target_serves("sm_80", 8, 9), 2);
  assert_int_equal(cuda_target_serves("sm_86", 8, 0), 0);
  assert_int_equal(cuda_target_serves("sm_80", 9, 0), 0);
  assert_int_equal(cuda_target_serves("compute_80", 12, 0), 1);
  assert_int_equal(cuda_target_serves("compute_80", 7, 5), 0);
  assert_int_equal(cuda_target_serves("", 9, 0), 0);
  arena_destroy(arena);
}

// No rank has less than what is said, and one rank of the plan has no more.
static void test_alignment(void **state) {
  (void)state;
  PlanTerm terms[] = {{{0}}, {{6, 48, 0}}, {{0, 8, 0}}, {{0, 0, 4}}};
  Plan plan = {.mesh_count = 3,
               .mesh = {{"pp", 4}, {"dp", 2}, {"one", 1}},
               .pipeline = 0,
               .stages = 4,
               .stage = 2,
               .term_count = 4,
               .terms = terms};
  assert_int_equal(cuda_place_alignment(&plan, &(Place){.offset = 256}), 16);
  assert_int_equal(cuda_place_alignment(&plan, &(Place){.offset = 256, .slot_stride = 4}), 4);
  assert_int_equal(cuda_place_alignment(&plan, &(Place){.offset = 256, .lane_stride = 2}), 2);
  assert_int_equal(cuda_place_alignment(&plan, &(Place){.term = 1}), 4);   // of stage 2 alone: 12 + 48 c
  assert_int_equal(cuda_place_alignment(&plan, &(Place){.term = 2}), 8);   // of the second rank
  assert_int_equal(cuda_place_alignment(&plan, &(Place){.term = 3}), 16);  // an axis of one rank
}

// Layers share their kernels, initialisation too, which differs in the keys of random numbers alone.
static void test_each_once(void **state) {
  (void)state;
  Arena *arena = arena_create();
  const Plan *plan = compiled(arena, MDL_SOURCE_DIR "/models/llama.mdl", "small", NULL)->plans[0];
  CudaTarget target;
  assert_true(cuda_target_find("sm_90a", &target));
  CudaKernels *kernels = cuda_kernels_create(plan, target, arena), *others = cuda_kernels_create(plan, target, arena);
  const CudaKernel *layer[2] = {NULL, NULL};
  int drawn = 0;
  for (int s = 0; s < plan->segment_count; s++) {
    for (int i = 0; i < plan->segments[s].count; i++) {
      const Instruction *instruction = &plan->segments[s].instructions[i];
      const char *why = NULL;
      if (!cuda_instruction_generates(instruction->kind)) {
        assert_null(cuda_instruction(kernels, instruction, &why));
        continue;
      }
      const CudaKernel *made = cuda_instruction(kernels, instruction, &why);
      const CudaKernel *again = cuda_instruction(others, instruction, &why);
      assert_non_null(made);
      assert_ptr_equal(made, cuda_instruction(kernels, instruction, &why));
      assert_string_equal(made->text, again->text);
      for (int l = 0; l < 2 && instruction->name; l++) {
        if (strcmp(instruction->name, l ? "layers.2.down.w.group" : "layers.1.down.w.group") == 0) {
          layer[l] = made;
        }
      }
      drawn += made->number_count > 0;
    }
  }
  assert_true(drawn > 8);
  assert_true(layer[0] && layer[1]);
  assert_string_equal(layer[0]->text, layer[1]->text);
  assert_true(layer[0]->number_count > 0);
  assert_int_not_equal(layer[0]->number[0], layer[1]->number[0]);
  arena_destroy(arena);
}

// Every text for a chip like the target is in the file.
static void test_found_again(void **state) {
  (void)state;
  Arena *arena = arena_create();
  char message[256], directory[] = "/tmp/mdl-ahead-XXXXXX", path[64];
  const char *targets[] = {"sm_90a"}, *why = NULL;
  CudaCompiler *compiler = NULL;
  if (!cuda_compiler_open("sm_90a", NULL, &compiler, message, sizeof message)) {
    print_message("skipped: %s\n", message);
    arena_destroy(arena);
    skip();
  }
  cuda_compiler_close(compiler);
  assert_non_null(mkdtemp(directory));
  snprintf(path, sizeof path, "%s/plan.mdlx", directory);
  PlanSet *set = compiled(arena, MDL_SOURCE_DIR "/tests/ir/dot.mdl", NULL, NULL);
  const CudaAhead options = {.cache = directory};
  if (!cuda_ahead(arena, set, targets, 1, &options, &why) || !artefact_write(arena, set, path, &why) ||
      !(set = artefact_read(arena, path, &why))) {
    fail_msg("%s", why);
  }
  const Plan *plan = set->plans[0];
  CudaTarget own;
  assert_true(cuda_target_find("sm_90a", &own));
  CudaKernels *kernels = cuda_kernels_create(plan, own, arena);
  int found = 0;
  for (int s = 0; s < plan->segment_count; s++) {
    for (int i = 0; i < plan->segments[s].count; i++) {
      const Instruction *instruction = &plan->segments[s].instructions[i];
      if (cuda_instruction_generates(instruction->kind)) {
        const CudaKernel *kernel = cuda_instruction(kernels, instruction, &why);
        assert_non_null(plan_code(&plan->targets[0], cuda_text_hash(kernel->text)));
        found++;
      }
    }
  }
  assert_true(found >= plan->targets[0].count && plan->targets[0].count > 5);
  const char *spoiled = arena_format(arena, "%s ", "x");
  assert_null(plan_code(&plan->targets[0], cuda_text_hash(spoiled)));
  io_remove_tree(directory);
  arena_destroy(arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_targets),
      cmocka_unit_test(test_alignment),
      cmocka_unit_test(test_each_once),
      cmocka_unit_test(test_found_again),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
