// waits_test.c: instructions that touch the same bytes are ordered, in every run that the waits of a plan allow.
//
// The oracle knows nothing of how waits are found: it takes the bytes that each run of an instruction touches on one
// rank, and follows queues and waits by clocks. Then each wait is left out in turn, and the oracle must see it.
// Collectives stand beside arithmetic where lower_beside.c says: buckets in the order of the backward, gathers ahead.
#include "tests/layouts_run.h"

#include <cmocka.h>
#include <string.h>

#include "base/mix.h"
#include "compiler/plan/operands.h"
#include "compiler/plan/waits.h"
#include "runtime/cpu/order.h"

enum { MOST_RUNS = 6000, MOST_OPERANDS = 16 };

typedef struct {
  int64_t low, high;
  ArenaClass arena;
  bool writes;
} Bytes;

typedef struct {  // what a run of an instruction touches, and what of each queue has ended before it begins
  int count;
  Bytes at[MOST_OPERANDS];
  int number;  // of its queue
  int ended[PLAN_MAX_QUEUES];
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
  int last[PLAN_MAX_QUEUES] = {-1, -1, -1, -1}, numbers[PLAN_MAX_QUEUES] = {0}, count = 0;
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
      for (int q = 0; q < PLAN_MAX_QUEUES && !(i == without && w == left_out); q++) {
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
  int plans, beside, waits, left_out, seen;
} Sums;

static void check_orders(const Trial *trial, Arena *arena) {
  for (uint64_t seed = 1; seed < 4; seed++) {
    const PlanInstances drawn = order_draw(arena, trial->plan, PROGRAM_TRAIN, seed);
    int *place = ARENA_ARRAY(arena, int, trial->all.count + 1);
    assert_int_equal(drawn.count, trial->all.count);
    for (int i = 0; i < drawn.count; i++) {
      const PlanInstance *at = &drawn.at[i];
      int first = 0;
      while (trial->all.at[first].call != at->call || trial->all.at[first].instruction != at->instruction) {
        first++;
      }
      place[first] = i;
    }
    for (int i = 0; i < trial->all.count; i++) {
      for (int j = 0; j < i; j++) {
        assert_true(place[j] < place[i] || !touch(&trial->run[i], &trial->run[j]));
      }
    }
  }
}

static void check_plan(const Plan *plan, int64_t rank, bool drawn, Sums *sums) {
  Arena *arena = arena_create();
  int coordinate[PLAN_MAX_MESH] = {0};
  Trial trial = {.plan = plan, .waits = plan_waits(arena, plan)};
  plan_coordinates(plan, rank, coordinate);
  trial.all = plan_instances(arena, plan, trial.waits, PROGRAM_TRAIN);
  if (trial.all.count > MOST_RUNS || trial.waits->queue_count == 1) {
    arena_destroy(arena);
    return;
  }
  trial.run = ARENA_ARRAY(arena, Run, trial.all.count + 1);
  for (int i = 0; i < trial.all.count; i++) {
    find_bytes(plan, &trial.all.at[i], coordinate, &trial.run[i]);
    sums->beside += trial.all.at[i].queue > 0;
  }
  sums->plans++;
  assert_int_equal(unordered(&trial, -1, -1), 0);
  if (drawn) {
    check_orders(&trial, arena);
  }
  for (int i = 0; i < trial.all.count; i++) {
    for (int w = 0; w < trial.all.at[i].wait_count; w++) {
      sums->waits++;
      if (sums->waits % 7 == 0 && (unordered(&trial, -1, -1), matters(&trial, i, w))) {
        sums->left_out++;
        sums->seen += unordered(&trial, i, w) > 0;
      }
    }
  }
  arena_destroy(arena);
}

static void check_layout(const char *file, const char *layout, const char *precision, Sums *sums) {
  const CompileOptions options = {.layout = layout, .precision = precision};
  LayoutRun *run = layout_compile(file, &options, stderr);
  assert_non_null(run);
  for (int s = 0; s < run->set->count; s++) {
    const int64_t ranks = plan_ranks(run->set->plans[s]);
    check_plan(run->set->plans[s], 0, s == 0, sums);
    check_plan(run->set->plans[s], ranks - 1, false, sums);
  }
  arena_destroy(run->arena);
}

static void test_bytes_are_ordered(void **state) {
  (void)state;
  static const char *const layouts[] = {"dp4",    "z1",   "z2",      "z3",          "tp2",
                                        "tp2_sp", "ring", "ulysses", "interleaved", "d3"};
  Sums sums = {0};
  for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
    check_layout("examples/layouts.mdl", layouts[i], i % 2 ? "bf16" : "fp32", &sums);
  }
  printf("%d plans, %d collectives beside arithmetic, %d waits; of %d left out %d seen\n", sums.plans, sums.beside,
         sums.waits, sums.left_out, sums.seen);
  assert_true(sums.plans > 10 && sums.beside > 50 && sums.waits > 100);
  assert_true(sums.left_out > 10 && sums.seen >= sums.left_out * 0.97);
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
    assert_true(train->instructions[i].aside && memcmp(&sum->from, &sum->to, sizeof sum->from) == 0);
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
  assert_int_equal(gathers, 2);
  assert_true(narrow > 8 * wide);
  arena_destroy(run->arena);
}

static void test_overlap_can_be_off(void **state) {
  (void)state;
  static const char text[] =
      "import std.nn; model m { axis batch, seq = 4, embed = 8, vocab = 16, layers = 3;\n"
      "  input tokens: index(vocab)[batch, seq]; param t: [vocab, embed] ~ normal(0.5); x = t[tokens];\n"
      "  repeat layers { x = x + linear(tanh(x) over embed to embed')[embed' -> embed]; } loss = mean(x * x); }\n"
      "recipe r { model m(); batch = 4; optimizer sgd(lr = 0.1); }\n"
      "layout on { mesh dp = 2; batch -> dp; }\n"
      "layout off { mesh dp = 2; batch -> dp; overlap = false; }\n";
  for (int off = 0; off < 2; off++) {
    const CompileOptions options = {.layout = off ? "off" : "on", .bucket_bytes = 64};
    LayoutRun *run = layout_compile_text(text, &options);
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
      cmocka_unit_test(test_gathers_are_ahead),
      cmocka_unit_test(test_overlap_can_be_off),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
