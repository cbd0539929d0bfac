// fp8_pieces_test.c: parameters of which ranks store pieces travel in 8 bits where products in 8 bits are all that
// reads them, and those products are as many as on one rank.
#include "tests/layouts_outcome.h"

#include "compiler/plan/plan.h"

#define LAYOUTS MDL_SOURCE_DIR "/examples/layouts.mdl"

// Of a layer: q, k, v, out, gate, up, down.
enum { LAYERS = 8, EMBED = 64, HEADS = 64, KEYS = 32, FFN = 192, VOCAB = 256, RANKS = 4 };
enum { LAYER = 2 * EMBED * HEADS + 2 * EMBED * KEYS + 3 * EMBED * FFN };

typedef struct {
  int64_t eight, sixteen, wide;  // elements that a rank has once they are gathered, by their format
  int products;                  // in 8 bits
} Travel;

static void count(Travel *travel, const Instruction *instruction) {
  const Collective *c = &instruction->as.collective;
  if (instruction->kind == INSTRUCTION_GEMM) {
    travel->products += gemm_scaled(&instruction->as.gemm);
  } else if (instruction->kind == INSTRUCTION_COLLECTIVE && c->kind == COLLECTIVE_ALL_GATHER) {
    const int64_t elements = c->count * c->ranks, bytes = element_type_bytes(c->type);
    *(bytes == 1 ? &travel->eight : bytes == 2 ? &travel->sixteen : &travel->wide) += elements;
  }
}

static Travel travel_of(const char *layout, const char *precision) {
  const CompileOptions options = {.layout = layout, .precision = precision};
  LayoutRun *run = layout_compile(LAYOUTS, &options, stdout);
  assert_non_null(run);
  const Plan *plan = run->set->plans[0];
  const PlanProgram *train = &plan->programs[PROGRAM_TRAIN];
  Travel travel = {0};
  for (int i = 0; i < train->call_count; i++) {
    const PlanSegment *segment = &plan->segments[train->calls[i].segment];
    for (int j = 0; j < segment->count; j++) {
      count(&travel, &segment->instructions[j]);
    }
  }
  arena_destroy(run->arena);
  return travel;
}

static void test_gathers(void **state) {
  (void)state;
  static const char *const policies[] = {"fp8_current", "fp8_hybrid"};
  for (int p = 0; p < 2; p++) {
    const Travel one = travel_of(NULL, policies[p]), z1 = travel_of("z1", policies[p]),
                 z3 = travel_of("z3", policies[p]);
    assert_int_equal(z1.eight, (int64_t)LAYERS * LAYER);
    assert_int_equal(z3.eight, 2 * (int64_t)LAYERS * LAYER);        // the backward gathers again
    assert_in_range(z1.sixteen, EMBED * VOCAB, 2 * EMBED * VOCAB);  // tables and head
    assert_in_range(z1.wide, EMBED * (2 * LAYERS + 1), EMBED * (2 * LAYERS + 1) + RANKS);
    assert_int_equal(z1.products, one.products);
    assert_int_equal(z3.products, one.products);
  }
}

// What is read otherwise too, or only in 16 bits, travels as it did.
static void test_others(void **state) {
  (void)state;
  const Travel wide = travel_of("z1", "bf16"), blocks = travel_of("z1", "fp8_block");
  assert_int_equal(wide.eight, 0);
  assert_true(wide.sixteen >= (int64_t)LAYERS * LAYER);
  assert_true(blocks.sixteen >= (int64_t)LAYERS * LAYER);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_gathers), cmocka_unit_test(test_others)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
