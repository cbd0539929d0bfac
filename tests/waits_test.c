// waits_test.c: instructions that touch the same bytes are ordered, in every run that the waits of a plan allow.
//
// The oracle knows nothing of how waits are found: it takes the bytes that each run of an instruction touches on one
// rank, and follows queues and waits by clocks. Then each wait is left out in turn, and the oracle must see it.
// Messages and copies to the host have queues as collectives do. Collectives stand beside arithmetic where
// lower_beside.c says: buckets in the order of the backward, gathers ahead.
#include "tests/layouts_outcome.h"

#include <cmocka.h>
#include <string.h>

#include "base/mix.h"
#include "compiler/plan/operands.h"
#include "compiler/plan/waits.h"
#include "runtime/cpu/order.h"

enum { MOST_RUNS = 6000, MOST_OPERANDS = 16, MOST_QUEUES = 128 };

typedef struct {
  int64_t low, high;
  ArenaClass arena;
  bool writes;
} Bytes;

typedef struct {  // what a run of an instruction touches, and what of each queue has ended before it begins
  int count;
  Bytes at[MOST_OPERANDS];
  int number;  // of its queue
  int ended[MOST_QUEUES];
} Run;

typedef struct {
  const Plan *plan;
  PlanWaits *waits;
  PlanInstances all;
  Run *run;
} Trial;

static void find_bytes(const Plan *plan, const PlanInstance *instance, const int *coordinate, Run *run) {
  const PlanCall *call = &plan->programs[PROGRAM_TRAIN].calls[instance->call];
  Operands operands;
  instruction_touches(plan, &plan->segments[call->segment].instructions[instance->instruction], &operands);
  for (int i = 0; i < operands.count && run->count < MOST_OPERANDS; i++) {
    const Operand *operand = &operands.at[i];
    const int64_t begin = operand->place->offset + plan_term(plan, operand->place->term, coordinate) +
                          call->slot * operand->place->slot_stride + call->lane * operand->place->lane_stride;
    if (operand->memory) {
      run->at[run->count++] =
          (Bytes){begin + operand->extent.first * operand->bytes, begin + (operand->extent.last + 1) * operand->bytes,
                  operand->place->arena, (operand->access & WRITES) != 0};
    }
  }
}

static bool touch(const Run *a, const Run *b) {
  for (int i = 0; i < a->count; i++) {
    for (int j = 0; j < b->count; j++) {
      const Bytes *x = &a->at[i], *y = &b->at[j];
      if ((x->writes || y->writes) && x->arena == y->arena && x->low < y->high && y->low < x->high) {
        return true;
      }
    }
  }
  return false;
}

// Pairs of two queues that touch the same bytes, one writing, and of which neither ends before the other begins. What
// `without` waits for as its `left_out`-th is left out.
static int unordered(Trial *trial, int without, int left_out) {
  int last[MOST_QUEUES], numbers[MOST_QUEUES] = {0}, count = 0;
  memset(last, -1, sizeof last);
  for (int i = 0; i < trial->all.count; i++) {
    const PlanInstance *at = &trial->all.at[i];
    Run *run = &trial->run[i];
    memset(run->ended, 0, sizeof run->ended);
    if (last[at->queue] >= 0) {
      memcpy(run->ended, trial->run[last[at->queue]].ended, sizeof run->ended);
    }
    run->ended[at->queue] = numbers[at->queue];
    run->number = ++numbers[at->queue];
    last[at->queue] = i;
    for (int w = 0; w < at->wait_count; w++) {
      const Run *other = &trial->run[at->wait[w]];
      for (int q = 0; q < MOST_QUEUES && !(i == without && w == left_out); q++) {
        const int ended = trial->all.at[at->wait[w]].queue == q ? other->number : other->ended[q];
        run->ended[q] = ended > run->ended[q] ? ended : run->ended[q];
      }
    }
  }
  for (int i = 0; i < trial->all.count; i++) {
    for (int j = 0; j < i; j++) {
      const int queue = trial->all.at[j].queue;
      count += trial->all.at[i].queue != queue && trial->run[i].ended[queue] < trial->run[j].number &&
               touch(&trial->run[i], &trial->run[j]);
    }
  }
  return count;
}

// Does the wait order anything that no other does? Clocks with and without it tell.
static bool matters(const Trial *trial, int i, int w) {
  const PlanInstance *at = &trial->all.at[i];
  const Run *run = &trial->run[i];
  const int target = at->wait[w], queue = trial->all.at[target].queue;
  int else_ended = 0;
  for (int j = i - 1; j >= 0; j--) {
    if (trial->all.at[j].queue == at->queue) {
      else_ended = trial->run[j].ended[queue];
      break;
    }
  }
  for (int other = 0; other < at->wait_count; other++) {
    const Run *waited = &trial->run[at->wait[other]];
    const int ended = trial->all.at[at->wait[other]].queue == queue ? waited->number : waited->ended[queue];
    else_ended = other != w && ended > else_ended ? ended : else_ended;
  }
  return else_ended < trial->run[target].number && run->count > 0;
}

typedef struct {
  int plans, beside[INSTRUCTION_KIND_COUNT], waits, left_out[INSTRUCTION_KIND_COUNT], seen[INSTRUCTION_KIND_COUNT];
} Sums;

static void check_orders(const Trial *trial, const PlanSet *set, Arena *arena) {
  for (uint64_t seed = 1; seed < 4; seed++) {
    const int *drawn = order_draw(arena, set, trial->plan->stage, PROGRAM_TRAIN, seed);
    int *place = ARENA_ARRAY(arena, int, trial->all.count + 1);
    assert_non_null(drawn);
    memset(place, -1, sizeof *place * (size_t)trial->all.count);
    for (int i = 0; i < trial->all.count; i++) {
      assert_int_equal(place[drawn[i]], -1);
      place[drawn[i]] = i;
    }
    for (int i = 0; i < trial->all.count; i++) {
      for (int j = 0; j < i; j++) {
        assert_true(place[j] < place[i] || !touch(&trial->run[i], &trial->run[j]));
      }
    }
  }
}

static InstructionKind kind_of(const Trial *trial, int run) {
  const PlanInstance *at = &trial->all.at[run];
  const int segment = trial->plan->programs[PROGRAM_TRAIN].calls[at->call].segment;
  return trial->plan->segments[segment].instructions[at->instruction].kind;
}

// A wait is counted where it is between arithmetic and something beside it, by the kind of the latter. That of a
// RECEIVE for all arithmetic before it keeps it from beginning early, and orders bytes only now and then.
static void check_left_out(Trial *trial, Sums *sums) {
  for (int i = 0; i < trial->all.count; i++) {
    for (int w = 0; w < trial->all.at[i].wait_count; w++) {
      const int target = trial->all.at[i].wait[w], queue = trial->all.at[target].queue;
      const InstructionKind kind = kind_of(trial, trial->all.at[i].queue ? i : target);
      sums->waits++;
      if (sums->waits % 7 == 0 && !(kind_of(trial, i) == INSTRUCTION_RECEIVE && queue == 0) &&
          (unordered(trial, -1, -1), matters(trial, i, w))) {
        sums->left_out[kind]++;
        sums->seen[kind] += unordered(trial, i, w) > 0;
      }
    }
  }
}

static void check_plan(const PlanSet *set, int stage, int64_t rank, bool drawn, Sums *sums) {
  Arena *arena = arena_create();
  const Plan *plan = set->plans[stage];
  int coordinate[PLAN_MAX_MESH] = {0};
  Trial trial = {.plan = plan, .waits = plan_waits(arena, plan)};
  plan_coordinates(plan, rank, coordinate);
  trial.all = plan_instances(arena, plan, trial.waits, PROGRAM_TRAIN);
  if (trial.all.count > MOST_RUNS || trial.waits->queue_count == 1) {
    arena_destroy(arena);
    return;
  }
  assert_true(trial.waits->queue_count <= MOST_QUEUES);
  trial.run = ARENA_ARRAY(arena, Run, trial.all.count + 1);
  for (int i = 0; i < trial.all.count; i++) {
    find_bytes(plan, &trial.all.at[i], coordinate, &trial.run[i]);
    sums->beside[kind_of(&trial, i)] += trial.all.at[i].queue > 0;
  }
  sums->plans++;
  assert_int_equal(unordered(&trial, -1, -1), 0);
  if (drawn) {
    check_orders(&trial, set, arena);
  }
  check_left_out(&trial, sums);
  arena_destroy(arena);
}

static void check_set(const PlanSet *set, Sums *sums) {
  for (int s = 0; s < set->count; s++) {
    const int64_t each = plan_ranks(set->plans[s]) / set->count;
    for (int64_t rank = 0, found = 0; rank < plan_ranks(set->plans[s]); rank++) {
      found += plan_of_rank(set, rank) == set->plans[s];
      if (plan_of_rank(set, rank) == set->plans[s] && (found == 1 || found == each)) {
        check_plan(set, s, rank, found == 1, sums);
      }
    }
  }
}

static void test_bytes_are_ordered(void **state) {
  (void)state;
  static const char *const layouts[] = {"dp4",    "z1",   "z2",      "z3",          "tp2",
                                        "tp2_sp", "ring", "ulysses", "interleaved", "d3"};
  static const char *const more[] = {
      "offload layers;",
      "offload layers; microbatches = 2; mesh dp = 2; batch -> dp;",
      "mesh pp = 2; layers -> pp; microbatches = 4;",
      "mesh pp = 2, dp = 2; layers -> pp; batch -> dp; microbatches = 2; schedule zero_bubble;",
      "mesh pp = 2; layers -> pp; microbatches = 4; schedule interleaved(chunks = 2); offload layers;",
  };
  static const InstructionKind kinds[] = {INSTRUCTION_COLLECTIVE, INSTRUCTION_SEND, INSTRUCTION_RECEIVE,
                                          INSTRUCTION_OFFLOAD, INSTRUCTION_FETCH};
  Sums sums = {0};
  for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
    const CompileOptions options = {.layout = layouts[i], .precision = i % 2 ? "bf16" : "fp32"};
    LayoutRun *run = layout_compile("examples/layouts.mdl", &options, stderr);
    assert_non_null(run);
    check_set(run->set, &sums);
    arena_destroy(run->arena);
  }
  for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
    LayoutRun *run = layout_compile_more(MDL_SOURCE_DIR "/tests/layouts", "gpt2.mdl", more[i], "fp32");
    assert_non_null(run);
    check_set(run->set, &sums);
    arena_destroy(run->arena);
  }
  printf("%d plans, %d waits\n", sums.plans, sums.waits);
  assert_true(sums.plans > 20 && sums.waits > 500);
  for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
    const int left_out = sums.left_out[kinds[k]], seen = sums.seen[kinds[k]];
    printf("%s: %d beside arithmetic; of %d waits left out %d seen\n", instruction_kind_name(kinds[k]),
           sums.beside[kinds[k]], left_out, seen);
    assert_true(sums.beside[kinds[k]] > 50 && left_out > 5);
    assert_true(seen >= left_out * 0.9);  // waits are those of all ranks, and touch nothing on some
  }
}

// --- where collectives stand ---

static LayoutRun *compile_example(const char *layout, const char *precision, const PlanSegment **train) {
  const CompileOptions options = {.layout = layout, .precision = precision};
  LayoutRun *run = layout_compile("examples/layouts.mdl", &options, stderr);
  assert_non_null(run);
  const Plan *plan = run->set->plans[0];
  *train = &plan->segments[plan->programs[PROGRAM_TRAIN].calls[0].segment];
  return run;
}

static bool is_over(const Instruction *instruction, CollectiveKind kind) {
  return instruction->kind == INSTRUCTION_COLLECTIVE && instruction->as.collective.kind == kind;
}

// Several buckets, in place, side by side in one arena, each waiting for a later instruction than the one before it.
static void test_buckets_follow_the_backward(void **state) {
  (void)state;
  const PlanSegment *train;
  LayoutRun *run = compile_example("dp4", "fp32", &train);
  Arena *arena = run->arena;
  const PlanWaits *waits = plan_waits(arena, run->set->plans[0]);
  const int segment = (int)(train - run->set->plans[0]->segments);
  int buckets = 0, last = -1;
  int64_t elements = 0, low = INT64_MAX, high = 0;
  for (int i = 0; i < train->count; i++) {
    const Collective *sum = &train->instructions[i].as.collective;
    if (!is_over(&train->instructions[i], COLLECTIVE_ALL_REDUCE) || sum->count == 1) {
      continue;
    }
    const PlanWaitList *list = &waits->of[segment][i];
    assert_true(train->instructions[i].aside && place_same(&sum->from, &sum->to));
    assert_int_equal(list->count, 1);
    assert_true(list->at[0].which == WAIT_THIS_CALL && list->at[0].instruction > last);
    last = list->at[0].instruction;
    low = sum->from.offset < low ? sum->from.offset : low;
    high = sum->from.offset + sum->count * 4 > high ? sum->from.offset + sum->count * 4 : high;
    elements += sum->count;
    buckets++;
  }
  assert_true(buckets > 4);
  assert_int_equal(high - low, elements * 4);
  arena_destroy(arena);
}

// Squares of each bucket wait for its sum alone, and stand in the order of the sums; all parameters are in them once.
static void test_squares_follow_their_buckets(void **state) {
  (void)state;
  const PlanSegment *train;
  LayoutRun *run = compile_example("dp4", "fp32", &train);
  const Plan *plan = run->set->plans[0];
  const PlanWaits *waits = plan_waits(run->arena, plan);
  const int segment = (int)(train - plan->segments);
  int64_t elements = 0;
  int squares = 0, parts = 0, last = -1;
  for (int i = 0; i < train->count; i++) {
    const Squares *at = &train->instructions[i].as.squares;
    const PlanWaitList *list = &waits->of[segment][i];
    if (train->instructions[i].kind != INSTRUCTION_SQUARES) {
      continue;
    }
    assert_int_equal(list->count, 1);
    assert_true(list->at[0].which == WAIT_THIS_CALL && list->at[0].instruction > last);
    last = list->at[0].instruction;
    for (int p = 0; p < at->part_count; p++) {
      elements += at->part[p].count;
    }
    parts += at->part_count;
    squares++;
  }
  assert_true(squares > 4 && parts > squares);
  assert_true((double)elements == plan->run.parameters);
  arena_destroy(run->arena);
}

// Under ZeRO-3 the second layer is gathered before the first is multiplied, and what products read in 16 bits alone.
static void test_gathers_are_ahead(void **state) {
  (void)state;
  const PlanSegment *train;
  LayoutRun *run = compile_example("z3", "bf16", &train);
  int gathers = 0;
  int64_t narrow = 0, wide = 0;
  for (int i = 0; i < train->count; i++) {
    const Collective *gather = &train->instructions[i].as.collective;
    if (is_over(&train->instructions[i], COLLECTIVE_ALL_GATHER)) {
      *(gather->type == TYPE_BF16 ? &narrow : &wide) += gather->count;
    }
    if (train->instructions[i].kind == INSTRUCTION_GEMM && gathers == 0) {
      for (int j = 0; j < i; j++) {
        gathers += is_over(&train->instructions[j], COLLECTIVE_ALL_GATHER) &&
                   train->instructions[j].as.collective.type == TYPE_BF16;
      }
    }
  }
  assert_int_equal(gathers, 3);  // the table, and two layers
  assert_true(narrow > 8 * wide);
  arena_destroy(run->arena);
}

// Of a collective: the last instruction of the segment that it waits for, or -1.
static int waits_for(const PlanWaits *waits, int segment, int at, int in) {
  const PlanWaitList *list = &waits->of[segment][at];
  int last = -1;
  for (int i = 0; i < list->count; i++) {
    last = list->at[i].segment == in && list->at[i].instruction > last ? list->at[i].instruction : last;
  }
  return last;
}

typedef struct {
  int gathers, scatters;
  int products[2];  // behind the last gather, and behind the first scatter
} Standing;

// All beside arithmetic; a scatter waits for what is made behind that for which the one before it waits.
static Standing standing_of(const PlanSegment *segment, const PlanWaits *waits, int at, int in) {
  Standing found = {0};
  int last = -1;
  for (int i = 0; i < segment->count; i++) {
    const Instruction *instruction = &segment->instructions[i];
    found.products[0] += instruction->kind == INSTRUCTION_GEMM;
    found.products[1] += instruction->kind == INSTRUCTION_GEMM && found.scatters > 0;
    if (is_over(instruction, COLLECTIVE_ALL_GATHER)) {
      assert_true(instruction->aside);
      found.gathers++;
      found.products[0] = 0;
    } else if (is_over(instruction, COLLECTIVE_REDUCE_SCATTER)) {
      const int made = waits_for(waits, at, i, in);
      assert_true(instruction->aside && made > last);
      last = made;
      found.scatters++;
    }
  }
  return found;
}

// Under ZeRO-1 a layer is gathered while the one before it is computed, and kept for the backward; its gradients are
// scattered while those of the layer before it are made.
static void test_zero_1_stands_beside(void **state) {
  (void)state;
  const PlanSegment *train;
  LayoutRun *run = compile_example("z1", "bf16", &train);
  const PlanWaits *waits = plan_waits(run->arena, run->set->plans[0]);
  const int segment = (int)(train - run->set->plans[0]->segments);
  int products = 0;
  for (int i = 0; i < train->count; i++) {
    products += train->instructions[i].kind == INSTRUCTION_GEMM;
  }
  const Standing found = standing_of(train, waits, segment, segment);
  print_message("%d gathers, %d scatters, %d products, %d behind all gathers, %d behind a scatter\n", found.gathers,
                found.scatters, products, found.products[0], found.products[1]);
  assert_true(found.gathers > 10 && found.scatters >= found.gathers);  // some in parts
  assert_true(found.products[0] > products * 2 / 3);                   // the backward gathers nothing
  assert_true(found.products[1] > products / 2);                       // most of it stands behind the first scatter
  arena_destroy(run->arena);
}

// With microbatches all layers are gathered before them: the first product waits for its own alone. Gradients are
// scattered after them, those of the last layer first: while the last microbatch makes the others.
static void test_zero_1_with_microbatches(void **state) {
  (void)state;
  const CompileOptions options = {.layout = "z1", .precision = "bf16", .microbatches = 2};
  LayoutRun *run = layout_compile("examples/layouts.mdl", &options, stderr);
  assert_non_null(run);
  const Plan *plan = run->set->plans[0];
  const PlanWaits *waits = plan_waits(run->arena, plan);
  const PlanProgram *train = &plan->programs[PROGRAM_TRAIN];
  const int prepare = train->calls[0].segment, body = train->calls[1].segment, apply = train->calls[3].segment;
  assert_true(train->call_count == 4 && plan->segments[prepare].kind == SEGMENT_PREPARE);
  const Standing before = standing_of(&plan->segments[prepare], waits, prepare, prepare);
  const Standing within = standing_of(&plan->segments[body], waits, body, body);
  const Standing after = standing_of(&plan->segments[apply], waits, apply, body);
  assert_true(before.gathers > 10 && before.gathers == plan->segments[prepare].count && after.scatters > 10);
  assert_true(within.gathers + within.scatters + after.gathers == 0);
  int last = -1, products = 0;
  for (int i = 0; i < plan->segments[body].count && products < 4; i++) {
    const int gather = waits_for(waits, body, i, prepare);
    products += plan->segments[body].instructions[i].kind == INSTRUCTION_GEMM;
    last = gather > last ? gather : last;
  }
  assert_true(last >= 0 && last < 4);
  arena_destroy(run->arena);
}

static const char linear_layers[] =
    "import std.nn; model m { axis batch, seq = 4, embed = 8, vocab = 16, layers = 3;\n"
    "  input tokens: index(vocab)[batch, seq]; param t: [vocab, embed] ~ normal(0.5); x = t[tokens];\n"
    "  repeat layers { x = x + linear(tanh(x) over embed to embed')[embed' -> embed]; } loss = mean(x * x); }\n"
    "recipe r { model m(); batch = 4; optimizer sgd(lr = 0.1); }\n"
    "recipe two { model m(); batch = 4; optimizer sgd(lr = 0.1); optimizer layers.0.*: sgd(lr = 0.2); }\n"
    "layout on { mesh dp = 2; batch -> dp; }\n"
    "layout off { mesh dp = 2; batch -> dp; overlap = false; }\n"
    "layout twice { mesh dp = 2, cp = 2; batch -> dp; seq -> cp; state -> dp; }\n";

// Sums of gradients after microbatches stand in the order in which the last microbatch makes what they sum, and wait
// for that alone. The gradients of the first layer have memory of their own, and are made before the table's, which
// lies together with those of the other layers.
static void test_buckets_with_microbatches(void **state) {
  (void)state;
  const CompileOptions options = {.recipe = "two", .layout = "on", .bucket_bytes = 64, .microbatches = 2};
  LayoutRun *run = layout_compile_text(linear_layers, &options);
  const Plan *plan = run->set->plans[0];
  const PlanWaits *waits = plan_waits(run->arena, plan);
  const PlanProgram *train = &plan->programs[PROGRAM_TRAIN];
  const int body = train->calls[train->call_count - 2].segment, apply = train->calls[train->call_count - 1].segment;
  int sums = 0, last = -1;
  for (int i = 0; i < plan->segments[apply].count; i++) {
    const Instruction *at = &plan->segments[apply].instructions[i];
    if (is_over(at, COLLECTIVE_ALL_REDUCE) && at->as.collective.count > 1) {
      const int made = waits_for(waits, apply, i, body);
      assert_true(at->aside && made > last);
      last = made;
      sums++;
    }
  }
  assert_int_equal(sums, 4);
  arena_destroy(run->arena);
}

// What is scattered over one axis and summed over another is summed when it has been scattered: before products of
// layers whose gradients come later.
static void test_sums_of_what_is_scattered(void **state) {
  (void)state;
  for (int microbatches = 1; microbatches <= 2; microbatches++) {
    const CompileOptions options = {.recipe = "r", .layout = "twice", .bucket_bytes = 64, .microbatches = microbatches};
    LayoutRun *run = layout_compile_text(linear_layers, &options);
    const Plan *plan = run->set->plans[0];
    const PlanProgram *train = &plan->programs[PROGRAM_TRAIN];
    const PlanSegment *segment = &plan->segments[train->calls[microbatches == 1 ? 0 : train->call_count - 1].segment];
    int products = 0, scatters = 0, sums = 0;
    for (int i = 0; i < segment->count; i++) {  // those behind the first sum
      const Instruction *at = &segment->instructions[i];
      products += sums > 0 && at->kind == INSTRUCTION_GEMM;
      scatters += sums > 0 && is_over(at, COLLECTIVE_REDUCE_SCATTER);
      sums += is_over(at, COLLECTIVE_ALL_REDUCE) && at->as.collective.count > 1;
    }
    print_message("%d sums, %d scatters and %d products behind the first\n", sums, scatters, products);
    assert_true(sums >= 4 && scatters >= 3 && (microbatches > 1 || products >= 8));
    arena_destroy(run->arena);
  }
}

static void test_overlap_can_be_off(void **state) {
  (void)state;
  for (int off = 0; off < 2; off++) {
    const CompileOptions options = {.recipe = "r", .layout = off ? "off" : "on", .bucket_bytes = 64};
    LayoutRun *run = layout_compile_text(linear_layers, &options);
    int aside = 0, sums = 0;
    for (int s = 0; s < run->set->plans[0]->segment_count; s++) {
      for (int i = 0; i < run->set->plans[0]->segments[s].count; i++) {
        const Instruction *at = &run->set->plans[0]->segments[s].instructions[i];
        aside += at->aside;
        sums += is_over(at, COLLECTIVE_ALL_REDUCE) && at->as.collective.count > 1;
      }
    }
    print_message("%d beside, %d sums\n", aside, sums);
    assert_true(off ? aside == 0 && sums == 1 : aside > 0 && sums > 1);
    arena_destroy(run->arena);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_bytes_are_ordered),
      cmocka_unit_test(test_buckets_follow_the_backward),
      cmocka_unit_test(test_squares_follow_their_buckets),
      cmocka_unit_test(test_gathers_are_ahead),
      cmocka_unit_test(test_zero_1_stands_beside),
      cmocka_unit_test(test_zero_1_with_microbatches),
      cmocka_unit_test(test_buckets_with_microbatches),
      cmocka_unit_test(test_sums_of_what_is_scattered),
      cmocka_unit_test(test_overlap_can_be_off),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
