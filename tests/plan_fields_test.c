// plan_fields_test.c: the verifier refuses each field of each kind of instruction outside of its bounds. The fields are
// those of instructions.def, so that one that is added there is tried here, or this test says that no sample has it.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka.h wants the four above first.
#include <cmocka.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "compiler/plan/check.h"
#include "compiler/plan/verify.h"
#include "tests/plan_whole.h"

enum { NAMES_MOST = 400 };

typedef struct {
  Arena *arena;
  Plan *plan;
  const char *kind;
  int tried, name_count;
  char name[NAMES_MOST][80];  // of a place, or of a kind
  bool there[NAMES_MOST];     // in one of the instructions
} Spoiler;

static void note(Spoiler *s, const char *structure, const char *field, bool there) {
  char what[80];
  int at = 0;
  snprintf(what, sizeof what, "%s.%s", structure, field);
  while (at < s->name_count && strcmp(s->name[at], what) != 0) {
    at++;
  }
  assert_true(at < NAMES_MOST);
  snprintf(s->name[at], sizeof s->name[at], "%s", what);
  s->name_count += at == s->name_count;
  s->there[at] |= there;
}

static void refused(Spoiler *s, const char *field, long long value) {
  Arena *arena = arena_create();
  const char *why = plan_verify(arena, s->plan);
  if (!why) {
    fail_msg("%s of %s may be %lld", field, s->kind, value);
  }
  s->tried++;
  arena_destroy(arena);
}

static void spoil_int(Spoiler *s, int *at, const char *field, int64_t value) {
  const int was = *at;
  *at = (int)value;
  refused(s, field, value);
  *at = was;
}

static void spoil_size(Spoiler *s, int64_t *at, const char *field, int64_t value) {
  const int64_t was = *at;
  *at = value;
  refused(s, field, value);
  *at = was;
}

static void spoil_place(Spoiler *s, Place *at, const char *field) {
  const Place was = *at;
  const int64_t end = s->plan->arena_bytes[at->arena];
  const int64_t offsets[] = {end, -PLAN_ALIGN, INT64_MAX - 255, INT64_MIN};
  spoil_int(s, &at->term, field, -1);
  spoil_int(s, &at->term, field, s->plan->term_count);
  for (size_t i = 0; i < sizeof offsets / sizeof *offsets; i++) {
    spoil_size(s, &at->offset, field, offsets[i]);
  }
  spoil_size(s, &at->slot_stride, field, PLAN_MOST_BYTES + PLAN_ALIGN);
  spoil_size(s, &at->lane_stride, field, -PLAN_MOST_BYTES - PLAN_ALIGN);
  spoil_size(s, &at->slot_stride, field, end);  // two slots
  at->arena = ARENA_CLASS_COUNT;
  refused(s, field, ARENA_CLASS_COUNT);
  *at = was;
}

#define STEP (-PLAN_MOST_BYTES)
#define is(KIND) (kind == INSTRUCTION_##KIND)
#define BOTH(x, least, most)                   \
  spoil_size(s, &(x), #x, (int64_t)(least)-1); \
  spoil_size(s, &(x), #x, (int64_t)(most) + 1);
#define STRUCT(Struct, member)                                               \
  static void spoil_##member(Spoiler *s, Struct *at, InstructionKind kind) { \
    static const char structure[] = #Struct;                                 \
    const Plan *plan = s->plan;                                              \
    (void)plan;                                                              \
    (void)structure;                                                         \
    (void)kind;
#define TYPE(x) spoil_int(s, (int *)&at->x, #x, ELEMENT_TYPE_COUNT);
#define NUMBER(x, least, most)                  \
  spoil_int(s, &at->x, #x, (int64_t)(least)-1); \
  spoil_int(s, &at->x, #x, (int64_t)(most) + 1);
#define SIZE(x, least) BOTH(at->x, least, PLAN_MOST_BYTES)
#define REAL(x)               \
  {                           \
    const double was = at->x; \
    at->x = NAN;              \
    refused(s, #x, 0);        \
    at->x = was;              \
  }
#define MESHES(x)                    \
  {                                  \
    const uint32_t was = at->x;      \
    at->x |= 1u << plan->mesh_count; \
    refused(s, #x, at->x);           \
    at->x = was;                     \
  }
#define CHOICE(x, Enum, most) spoil_int(s, (int *)&at->x, #x, most);
#define COUNT(x, most)          \
  spoil_int(s, &at->x, #x, -1); \
  spoil_int(s, &at->x, #x, (int64_t)(most) + 1);
#define SIZES(x, most, count, least)       \
  for (int i = 0; i < (count); i++) {      \
    BOTH(at->x[i], least, PLAN_MOST_BYTES) \
  }
#define TERMS(x, most, count)                      \
  for (int i = 0; i < (count); i++) {              \
    spoil_int(s, &at->x[i], #x, -1);               \
    spoil_int(s, &at->x[i], #x, plan->term_count); \
  }
#define AXES(x, most, count)                       \
  for (int i = 0; i < (count); i++) {              \
    spoil_int(s, &at->x[i], #x, -1);               \
    spoil_int(s, &at->x[i], #x, plan->mesh_count); \
  }
#define PLACE(x, size, does, present, ...) \
  note(s, structure, #x, present);         \
  if (present) {                           \
    spoil_place(s, &at->x, #x);            \
  }
#define PORTS(x)                                                    \
  for (int i = 0; i < plan->kernels[at->kernel]->port_count; i++) { \
    spoil_place(s, &at->x[i], #x);                                  \
  }
#define SCORE(x)                                                                             \
  spoil_int(s, &at->x, #x, -1);                                                              \
  spoil_int(s, &at->x, #x, plan->kernel_count + 1);                                          \
  note(s, structure, #x, at->x > 0);                                                         \
  for (int i = SCORE_CAPTURED; at->x > 0 && i < plan->kernels[at->x - 1]->port_count; i++) { \
    spoil_place(s, &at->x##_place[i], #x);                                                   \
  }
#define RANGES(x, number)                    \
  spoil_int(s, &at->number, #number, 0);     \
  for (int i = 0; i < at->number; i++) {     \
    BOTH(at->x[i].first, 0, PLAN_MOST_BYTES) \
    BOTH(at->x[i].count, 1, PLAN_MOST_BYTES) \
  }
#define END(Struct) }
#include "compiler/plan/instructions.def"

static void spoil_all(Spoiler *s, Instruction *instruction) {
  s->kind = instruction_kind_name(instruction->kind);
  switch (instruction->kind) {
#define INSTRUCTION(KIND, text, Struct, member)                    \
  case INSTRUCTION_##KIND:                                         \
    note(s, "instruction", text, true);                            \
    spoil_##member(s, &instruction->as.member, instruction->kind); \
    break;
#include "compiler/plan/instructions.def"
    case INSTRUCTION_KIND_COUNT:
      break;
  }
}

static void test_each_field_has_bounds(void **state) {
  (void)state;
  Arena *arena = arena_create();
  Spoiler *s = ARENA_NEW(arena, Spoiler);
  s->plan = whole_plan(arena);
  const char *why = plan_verify(arena, s->plan);
  if (why) {
    fail_msg("the plan is unsound before it is spoiled: %s", why);
  }
#define INSTRUCTION(KIND, text, Struct, member) note(s, "instruction", text, false);
#include "compiler/plan/instructions.def"
  for (int i = 0; i < s->plan->segments[0].count; i++) {
    spoil_all(s, &s->plan->segments[0].instructions[i]);
  }
  for (int i = 0; i < s->name_count; i++) {
    if (!s->there[i]) {
      fail_msg("no instruction of the sample has %s: add one", s->name[i]);
    }
  }
  assert_null(plan_verify(arena, s->plan));
  assert_true(s->tried > 1000);
  arena_destroy(arena);
}

// Outside of instructions, and where several fields together are too much.
static const char *spoil_together(Plan *plan, int which) {
  PlanState *wide = &plan->states[0];
  Attention *attention = &plan->segments[0].instructions[5].as.attention;
  switch (which) {
    case 0:  // 2^65 elements, all of them in 160 KiB
      wide->axis_count = 5;
      for (int a = 0; a < 5; a++) {
        wide->axis[a] = "a";
        wide->size[a] = 8192;
        wide->stride[a] = 1;
      }
      return "more elements";
    case 1:  // rows that lie in each other
      wide->stride[0] = wide->stride[1] = 1;
      return "two elements in one place";
    case 2:  // one part, and the second has no term
      attention->parts = 1;
      attention->origin_term[1] = 77777;
      return "a term that is not there";
    case 3:
      attention->key_parts = 0;
      attention->key_origin_term[0] = -1;
      return "a term that is not there";
    case 4:  // that nothing uses
      plan->terms[1].stride[1] = INT64_MAX / 2 + 1;
      return "beyond what can be counted";
    case 5:
      plan->programs[PROGRAM_TRAIN].inputs[0].place.lane_stride = INT64_MAX;
      return "too far apart";
    case 6:  // partial sums of so many columns have no count of bytes
      plan->kernels[0]->size[0] = INT64_C(1) << 48;
      return "the space is too large";
    case 7:  // all but one tap are outside
      plan->segments[0].instructions[4].as.window.size[0] = 1;
      plan->segments[0].instructions[4].as.window.stride_x[0] = PLAN_MOST_BYTES;
      plan->segments[0].instructions[4].as.window.taps = 4096;
      plan->segments[0].instructions[4].as.window.stride_tap = 0;
      return "taps beyond what can be counted";
    default:
      plan->programs[PROGRAM_TRAIN].outputs[0].place.term = 2;
      return "a term that is not there";
  }
}

static void test_fields_together(void **state) {
  (void)state;
  for (int which = 0; which < 9; which++) {
    Arena *arena = arena_create();
    Plan *plan = whole_plan(arena);
    plan->terms = ARENA_ARRAY(arena, PlanTerm, 2);
    plan->term_count = 2;
    assert_null(plan_verify(arena, plan));
    const char *wanted = spoil_together(plan, which), *why = plan_verify(arena, plan);
    if (!why || !strstr(why, wanted)) {
      fail_msg("case %d: %s", which, why ? why : "was not found");
    }
    arena_destroy(arena);
  }
}

// What is taken out of an arena and what is kept of it are no bytes of each other: they are copied in any order.
static void test_pieces_apart(void **state) {
  (void)state;
  static const int64_t kept[] = {64, 60, 4, 0};  // bytes behind where 64 are taken
  for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
    Arena *arena = arena_create();
    Plan *plan = sample_plan(arena);
    Piece *piece = &instruction_of(plan, 0, INSTRUCTION_PIECE)->as.piece;
    *piece = (Piece){.type = TYPE_F32, .count = 16, .piece = 16, .from = transient, .to = transient};
    piece->to.offset = kept[i];
    const char *why = plan_verify(arena, plan);
    if (i == 0) {
      assert_null(why);
    } else {
      assert_non_null(why);
      assert_non_null(strstr(why, "writes what it reads"));
    }
    arena_destroy(arena);
  }
}

// Lines are copied whole by these: none may end where it comes from.
static void test_lines_apart(void **state) {
  (void)state;
  static const int instructions[] = {2, 3, 4, 11, 14};
  for (size_t i = 0; i < sizeof instructions / sizeof *instructions; i++) {
    for (int64_t behind = 0; behind < 64; behind += 4) {
      Arena *arena = arena_create();
      Plan *plan = sample_plan(arena);
      Instruction *at = &plan->segments[0].instructions[instructions[i]];
      assert_null(plan_verify(arena, plan));
      *(at->kind == INSTRUCTION_ORDER    ? &at->as.order.place
        : at->kind == INSTRUCTION_WINDOW ? &at->as.window.out
                                         : &at->as.take.out) = transient_at(behind);
      const char *why = plan_verify(arena, plan);
      const bool meets = at->kind != INSTRUCTION_ORDER || behind < 40;  // ten indices
      if (meets != (why && strstr(why, "writes what it reads"))) {
        fail_msg("instruction %d, %lld bytes behind: %s", instructions[i], (long long)behind,
                 why ? why : "was not found");
      }
      arena_destroy(arena);
    }
  }
}

// What no call uses has bounds too, and a stride of a single position has none.
static void test_unused(void **state) {
  (void)state;
  Arena *arena = arena_create();
  Plan *plan = sample_plan(arena);
  plan->programs[PROGRAM_REFRESH].call_count = 0;
  plan->programs[PROGRAM_REFRESH].slots = INT_MAX;
  const char *why = plan_verify(arena, plan);
  assert_true(why && strstr(why, "more slots"));
  plan->programs[PROGRAM_REFRESH].slots = -1;
  assert_non_null(plan_verify(arena, plan));
  plan->programs[PROGRAM_REFRESH].slots = 1;
  PlanState *table = &plan->states[0];
  table->axis[2] = "one";
  table->size[2] = 1;
  table->stride[2] = INT64_MAX / 2 + 7;
  table->axis_count = 3;
  plan_verify(arena, plan);  // whatever it says, it can count
  arena_destroy(arena);
}

// The gradient of a score is not there yet when the score is made.
static void test_scores_before_gradients(void **state) {
  (void)state;
  for (int port = SCORE_DOT; port <= SCORE_GRADIENT; port++) {
    Arena *arena = arena_create();
    Plan *plan = sample_plan(arena);
    Attention *a = &plan->segments[0].instructions[5].as.attention;
    Kernel *kernel = ARENA_NEW(arena, Kernel), **kernels = ARENA_ARRAY(arena, Kernel *, 2);
    *kernel = (Kernel){.dim_count = SCORE_DIMS,
                       .inner_count = 1,
                       .size = {a->batch, a->heads, a->groups, a->keys, a->queries},
                       .real = TYPE_F32,
                       .port_count = SCORE_CAPTURED,
                       .code_count = 2};
    kernel->port = ARENA_ARRAY(arena, KernelPort, SCORE_CAPTURED);
    for (int i = 0; i < SCORE_CAPTURED; i++) {
      kernel->port[i] = (KernelPort){.kind = i < SCORE_QUERY   ? PORT_INPUT
                                             : i == SCORE_MADE ? PORT_OUTPUT
                                                               : PORT_STRIDES,
                                     .type = TYPE_F32,
                                     .stride = {0, 0, 0, 0, 1}};
    }
    kernel->code = ARENA_ARRAY(arena, KernelInstruction, 2);
    kernel->code[0] = (KernelInstruction){KERNEL_LOAD, LEVEL_FULL, false, -1, -1, -1, (int16_t)port, 0, 0};
    kernel->code[1] = (KernelInstruction){KERNEL_STORE, LEVEL_FULL, false, 0, -1, -1, SCORE_MADE, 0, 0};
    kernels[0] = plan->kernels[0];
    kernels[1] = kernel;
    plan->kernels = kernels;
    plan->kernel_count = 2;
    a->biased = false;
    a->scale = 1;
    a->score = 2;
    const char *why = plan_verify(arena, plan);
    const bool refused = why && strstr(why, "a kernel that does something else");
    if (refused != (port == SCORE_GRADIENT)) {
      fail_msg("port %d: %s", port, why ? why : "was not found");
    }
    arena_destroy(arena);
  }
}

// A program that is not there has no slots either: whoever makes room for them goes by the number.
static void test_slots_of_no_program(void **state) {
  (void)state;
  static const int slots[] = {-2, INT32_MAX};
  for (size_t i = 0; i < sizeof slots / sizeof *slots; i++) {
    Arena *arena = arena_create();
    Plan *plan = sample_plan(arena);
    int p = 0;
    while (p < PROGRAM_COUNT && plan->programs[p].call_count > 0) {
      p++;
    }
    assert_true(p < PROGRAM_COUNT);
    plan->programs[p].slots = slots[i];
    const char *why = plan_verify(arena, plan);
    assert_non_null(why);
    assert_non_null(strstr(why, "slots"));
    arena_destroy(arena);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_each_field_has_bounds),
                                     cmocka_unit_test(test_fields_together),
                                     cmocka_unit_test(test_pieces_apart),
                                     cmocka_unit_test(test_lines_apart),
                                     cmocka_unit_test(test_unused),
                                     cmocka_unit_test(test_slots_of_no_program),
                                     cmocka_unit_test(test_scores_before_gradients)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
