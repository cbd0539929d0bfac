// pass_manager_test.c: every pass has what it needs in every program, none runs without it, and each can be printed.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka.h wants the four above first.
#include <cmocka.h>
#include <string.h>

#include "compiler/compile.h"
#include "compiler/pass_list.h"

static uint32_t facts_after(int programs, uint32_t known) {
  for (int i = 0; i < PASS_COUNT; i++) {
    if (listed_passes[i].programs & programs) {
      if (listed_passes[i].needs & ~known) {
        fail_msg("%s needs what no pass before it gives", listed_passes[i].name);
      }
      known |= listed_passes[i].gives;
    }
  }
  return known;
}

static void every_program_gives_what_it_needs(void **state) {
  (void)state;
  uint32_t needed = 0;
  const uint32_t step = facts_after(EACH | TRAIN, 0);
  facts_after(EACH, step & STATES);
  facts_after(EACH | DECODE, step & STATES);
  facts_after(REFRESH, step);
  for (int i = 0; i < PASS_COUNT; i++) {
    needed |= listed_passes[i].needs;
  }
  for (int i = 0; i < FACT_COUNT; i++) {
    if (!(step >> i & 1)) {
      fail_msg("no pass gives %s", listed_facts[i].name);
    }
    if (!(needed >> i & 1) && listed_facts[i].what != listed_facts[FACT_NUMBER_INSTRUCTIONS].what) {
      fail_msg("no pass needs %s", listed_facts[i].name);
    }
  }
}

// The pass that gives a fact first.
static const char *giver(uint32_t fact) {
  for (int i = 0; i < PASS_COUNT; i++) {
    if (listed_passes[i].gives & fact) {
      return listed_passes[i].name;
    }
  }
  return "";
}

static void no_pass_runs_without_what_it_needs(void **state) {
  (void)state;
  int refused = 0;
  for (int i = 0; i < PASS_COUNT; i++) {
    for (int f = 0; f < FACT_COUNT; f++) {
      const uint32_t fact = 1u << f;
      if (!(listed_passes[i].needs & fact)) {
        continue;
      }
      Arena *arena = arena_create();
      char text[512];
      Compilation c = {.arena = arena, .diag = diag_create(arena), .facts = ~fact};
      Lower l = {.c = &c};
      assert_false(passes_run_one(&c, &l, listed_passes[i].name));
      snprintf(text, sizeof text, "the pass '%s' needs what '%s' gives, which has not run: %s", listed_passes[i].name,
               giver(fact), listed_facts[f].what);
      assert_int_equal(c.diag->errors, 1);
      assert_int_equal(c.diag->all.at[0].code, E099);
      assert_string_equal(c.diag->all.at[0].message, text);
      arena_destroy(arena);
      refused++;
    }
  }
  assert_true(refused > PASS_COUNT);
}

// A watcher undoes what a pass has given.
typedef struct {
  const char *pass;
  void (*spoil)(Graph *graph);
} Spoiler;

// As if no policy of precision had been asked.
static void spoil_types(Graph *graph) {
  for (int i = 0; i < graph->values.count; i++) {
    Value *value = graph_value(graph, i);
    value->type = element_type_floating(value->type) ? TYPE_REAL : value->type;
  }
  for (int i = 0; i < graph->persistent.count; i++) {
    Persistent *tensor = &graph->persistent.at[i];
    tensor->type = element_type_floating(tensor->type) ? TYPE_REAL : tensor->type;
  }
}

// An operation beside the kernels, behind the first parameter.
static void spoil_kernel(Graph *graph) {
  NodeList *nodes = &graph->regions.at[0].nodes;
  int at = 0;
  while (graph_node(graph, nodes->at[at])->op != OP_PARAM) {
    at++;
  }
  graph->region = 0;
  graph_op1(graph, OP_NEG, graph_node(graph, nodes->at[at])->first_result);
  const NodeId made = nodes->at[nodes->count - 1];
  memmove(nodes->at + at + 2, nodes->at + at + 1, sizeof made * (size_t)(nodes->count - at - 2));
  nodes->at[at + 1] = made;
}

// A value of 8 bits lies with its axes the other way round.
static void spoil_order(Graph *graph) {
  for (int i = 0; i < graph->values.count; i++) {
    Shape *shape = &graph_value(graph, i)->shape;
    const Node *node = graph_producer(graph, i), *quantise = graph_quantise(graph, i);
    if (node && node->op == OP_GROUP && quantise && quantise->axes.count < shape->count) {
      const AxisId first = shape->axis[0];
      shape->axis[0] = shape->axis[shape->count - 1];
      shape->axis[shape->count - 1] = first;
      return;
    }
  }
}

static void spoil(void *context, Compilation *c, const char *pass) {
  const Spoiler *spoiler = context;
  if (c->program == PROGRAM_TRAIN && strcmp(pass, spoiler->pass) == 0) {
    spoiler->spoil(c->graph);
  }
}

static void what_a_pass_gave_still_holds(void **state) {
  (void)state;
  static const struct {
    Spoiler spoiler;
    const char *text, *precision;
  } cases[] = {
      {{"arrange", spoil_order},
       "after the pass 'arrange' it is not so that the order of the axes of a value is that of its memory, what "
       "products "
       "of 8 bits sum over being last: there is 'group'",
       "fp8_current"},
      {{"arrange", spoil_order}, NULL, "bf16"},
      {{"arrange", spoil_kernel},
       "after the pass 'arrange' it is not so that elementwise operations and reductions are in kernels: there "
       "is 'neg'",
       "fp32"},
      {{"stage", spoil_types},
       "after the pass 'stage' it is not so that every value has the type in which it is kept: there is ",
       "fp32"},
      {{"simplify", spoil_types}, NULL, "fp32"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    Arena *arena = arena_create();
    Diag *diag = diag_create(arena);
    Plan *plan = NULL;
    PassWatch watch = {spoil, (void *)(uintptr_t)&cases[i].spoiler};
    CompileOptions options = {.file = MDL_SOURCE_DIR "/tests/layouts/llama.mdl",
                              .layout = "dp2",
                              .precision = cases[i].precision,
                              .watch = &watch};
    const bool good = compile_plan(arena, diag, &options, &plan);
    assert_int_equal(good, cases[i].text == NULL);
    if (!good) {
      const Diagnostic *last = &diag->all.at[diag->all.count - 1];  // behind warnings of the text
      assert_int_equal(last->code, E099);
      if (strncmp(last->message, cases[i].text, strlen(cases[i].text)) != 0) {
        fail_msg("%s", last->message);
      }
    }
    arena_destroy(arena);
  }
}

static size_t printed(const char *after, ProgramKind program, const char *layout) {
  Arena *arena = arena_create();
  Diag *diag = diag_create(arena);
  Buffer out = {0};
  CompileOptions options = {.file = MDL_SOURCE_DIR "/tests/layouts/llama.mdl",
                            .layout = layout,
                            .precision = "bf16",
                            .program = program,
                            .after = after};
  if (!compile_print(arena, diag, &options, &out)) {
    fail_msg("%s: %s", after, diag->all.count ? diag->all.at[0].message : "fails");
  }
  const size_t length = out.length;
  buffer_free(&out);
  arena_destroy(arena);
  return length;
}

static void each_pass_can_be_printed(void **state) {
  (void)state;
  const char *names[PASS_NAMES_MAX];
  const int count = passes_names(names);
  assert_int_equal(count, PASS_COUNT);
  for (int i = 0; i < count; i++) {
    const int programs = listed_passes[i].programs;
    assert_true(!(programs & (EACH | TRAIN)) || printed(names[i], PROGRAM_TRAIN, "pp2") > 0);
    assert_true(!(programs & EACH) || printed(names[i], PROGRAM_EVALUATE, "tp2") > 0);
    assert_true(!(programs & DECODE) || printed(names[i], PROGRAM_DECODE, "single") > 0);
    assert_true(!(programs & REFRESH) || printed(names[i], PROGRAM_REFRESH, "dp2") > 0);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_program_gives_what_it_needs),
      cmocka_unit_test(no_pass_runs_without_what_it_needs),
      cmocka_unit_test(what_a_pass_gave_still_holds),
      cmocka_unit_test(each_pass_can_be_printed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
