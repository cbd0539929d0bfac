// offload_test.c: values that wait for the backward in the memory of the host: nothing but memory changes.
//
// Each pair of layouts differs in `offload` alone: two steps and an evaluation must give the same bits, in a drawn
// order of copies, messages and the rest. How much is moved and how much less memory is predicted are known for a model
// of many layers. A value that is not fetched must show. What waits for copies is in waits_test.c.
#include <stdio.h>
#include <unistd.h>

#include "compiler/plan/verify.h"
#include "tests/layouts_outcome.h"

enum { DEADLINE = 30, LAYERS = 12, BATCH = 4, SEQ = 16, EMBED = 64, WINDOW = 4 };

typedef struct {
  const char *file, *common, *offload;
  double rounding;  // in fp32, where small products are cut otherwise, of which a library's kernel may round otherwise
} Pair;

static const Pair pairs[] = {
    {"gpt2.mdl", "", "offload layers;", 0},
    {"gpt2.mdl", "recompute layers;", "offload layers;", 0},
    {"gpt2.mdl", "recompute attention;", "offload layers;", 0},
    {"gpt2.mdl", "", "offload attention;", 0},
    {"gpt2.mdl", "", "offload @resid;", 0},
    {"gpt2.mdl", "", "offload layers.*.q, layers.1, gelu;", 0},
    {"gpt2.mdl", "", "offload layers.0;", 0},
    {"gpt2.mdl", "", "offload layers.1.q, layers.0.up;", 0},
    {"gpt2.mdl", "microbatches = 2; recompute layers;", "offload layers.1;", 0},
    {"gpt2.mdl", "microbatches = 4; recompute layers;", "offload layers;", 0},
    {"gpt2.mdl", "mesh pp = 2; layers -> pp; microbatches = 4;", "offload layers;", 0},
    {"gpt2.mdl", "mesh pp = 2; layers -> pp; microbatches = 4; schedule gpipe; recompute layers;", "offload layers;",
     0},
    {"gpt2.mdl", "mesh pp = 2; layers -> pp; microbatches = 4; schedule zero_bubble;", "offload layers;", 0},
    {"gpt2.mdl", "mesh pp = 2; layers -> pp; microbatches = 4; schedule interleaved(chunks = 2);", "offload layers;",
     0},
    {"llama.mdl", "", "offload layers;", 0},
    {"llama.mdl", "recompute layers;", "offload layers;", 0},
    {"llama.mdl", "mesh dp = 2; batch -> dp; param, grad, state -> dp;", "offload layers;", 1e-5},
    {"llama.mdl", "mesh tp = 2; kv_heads, ffn, vocab -> tp; @resid: seq -> tp;", "offload layers;", 1e-5},
    {"llama.mdl", "mesh cp = 2; seq -> cp(zigzag);", "offload attention;", 1e-5},
    {"llama.mdl", "mesh cp = 2; seq -> cp(zigzag); attention: key -> cp(ring);", "offload layers;", 1e-5},
    {"moves.mdl", "", "offload layers;", 0},
    {"dropout.mdl", "", "offload layers;", 0},
    {"mqa.mdl", "", "offload attention;", 0},
};

static int64_t count_of(const PlanSet *set, InstructionKind kind) {
  int64_t count = 0;
  for (int p = 0; p < set->count; p++) {
    for (int s = 0; s < set->plans[p]->segment_count; s++) {
      for (int i = 0; i < set->plans[p]->segments[s].count; i++) {
        count += set->plans[p]->segments[s].instructions[i].kind == kind;
      }
    }
  }
  return count;
}

static LayoutRun *compile_with(Arena *arena, const char *file, const char *common, const char *offload,
                               const char *precision) {
  return layout_compile_more(MDL_SOURCE_DIR "/tests/layouts", file, arena_format(arena, "%s %s", common, offload),
                             precision);
}

static void same_bits(void **state) {
  (void)state;
  static const char *const precisions[] = {"fp64", "fp32"};
  for (size_t i = 0; i < 2 * (sizeof pairs / sizeof *pairs); i++) {
    const Pair *pair = &pairs[i / 2];
    char said[512];
    Arena *arena = arena_create();
    Outcome without = {0}, with = {0};
    LayoutRun *run = compile_with(arena, pair->file, pair->common, "", precisions[i % 2]);
    assert_int_equal(count_of(run->set, INSTRUCTION_OFFLOAD), 0);
    outcome_run(run, pair->file, DEADLINE, arena, &without);
    run = compile_with(arena, pair->file, pair->common, pair->offload, precisions[i % 2]);
    const int64_t copies = count_of(run->set, INSTRUCTION_OFFLOAD);
    assert_true(copies > 0 && count_of(run->set, INSTRUCTION_FETCH) >= copies);
    outcome_run(run, pair->file, DEADLINE, arena, &with);
    if (!outcome_same(&without, &with, i % 2 ? pair->rounding : 0, false, said, sizeof said)) {
      fail_msg("%s, %s: %s %s: %s", pair->file, precisions[i % 2], pair->common, pair->offload, said);
    }
    arena_destroy(arena);
  }
}

// --- memory ---

static const char deep[] =
    "import std.nn;\n"
    "model deep {\n"
    "  axis batch = %d, seq = %d, vocab = 8, embed = %d, ffn = 64, layers = %d;\n"
    "  input tokens, targets: index(vocab)[batch, seq];\n"
    "  param table: [vocab, embed] ~ normal(0.02);\n"
    "  x = table[tokens];\n"
    "  repeat layers {\n"
    "    h = rms_norm(x over embed);\n"
    "    x = x + linear(gelu(linear(h over embed to ffn, name = up)) over ffn to embed, name = down);\n"
    "  }\n"
    "  loss = mean(cross_entropy(dot(x, table over embed), targets over vocab));\n"
    "}\n"
    "recipe r { model deep(); optimizer adamw(lr = 0.01); }\n"
    "layout kept { %s }\n"
    "layout moved { %s offload %s; }\n";

typedef struct {
  int64_t transient, offload;
} Sizes;

static Sizes sizes_with(const char *common, const char *offload, const char *layout) {
  char text[sizeof deep + 1024];
  snprintf(text, sizeof text, deep, BATCH, SEQ, EMBED, LAYERS, common, common, offload);
  LayoutRun *run = layout_compile_text(text, &(CompileOptions){.layout = layout});
  const Plan *plan = run->set->plans[0];
  const Sizes sizes = {plan->arena_bytes[ARENA_TRANSIENT], plan->arena_bytes[ARENA_OFFLOAD]};
  arena_destroy(run->arena);
  return sizes;
}

static Sizes sizes_of(const char *common, const char *layout) {
  return sizes_with(common, "layers", layout);
}

// With everything else computed again a layer keeps its input alone: all inputs but the last layer's wait on the host,
// and on the device there are those of a few layers.
static void inputs_of_layers_are_not_on_the_device(void **state) {
  (void)state;
  const int64_t input = BATCH * SEQ * EMBED * 4;
  const Sizes kept = sizes_of("recompute layers;", "kept"), moved = sizes_of("recompute layers;", "moved");
  assert_int_equal(kept.offload, 0);
  assert_int_equal(moved.offload, (LAYERS - 1) * input);
  const int64_t less = kept.transient - moved.transient;
  if (less < (LAYERS - WINDOW) * input || less > (LAYERS - 1) * input) {
    fail_msg("%lld bytes less, for inputs of %lld", (long long)less, (long long)input);
  }
}

// Without it a layer keeps several values, of which there are then two or three layers' on the device.
static void what_layers_keep_is_not_on_the_device(void **state) {
  (void)state;
  const Sizes kept = sizes_of("", "kept"), moved = sizes_of("", "moved");
  const int64_t layer = moved.offload / LAYERS;
  assert_true(layer > 4 * BATCH * SEQ * EMBED * 4 / 2);
  const int64_t less = kept.transient - moved.transient;
  if (less < (LAYERS - WINDOW - 1) * layer || less > moved.offload) {
    fail_msg("%lld bytes less, for %lld of a layer", (long long)less, (long long)layer);
  }
}

// A layer alone moves as much as it does among all, whichever it is, but for those at the end. What it keeps is then
// away while the others are computed.
static void one_layer_moves_alone(void **state) {
  (void)state;
  const Sizes kept = sizes_of("", "kept"), all = sizes_of("", "moved");
  const int64_t layer = all.offload / LAYERS;
  for (int i = 0; i < LAYERS - 1; i++) {
    char layer_text[32];
    snprintf(layer_text, sizeof layer_text, "layers.%d", i);
    const Sizes alone = sizes_with("", layer_text, "moved");
    if (alone.offload < layer || (i < LAYERS - 2 && kept.transient - alone.transient < layer / 2)) {
      fail_msg("%s: %lld bytes moved, %lld less, of %lld", layer_text, (long long)alone.offload,
               (long long)(kept.transient - alone.transient), (long long)layer);
    }
  }
  const Sizes product = sizes_with("", "layers.3.up", "moved");
  assert_true(product.offload >= (int64_t)BATCH * SEQ * EMBED * 4);
}

static Diag *diag_with(Arena *arena, const char *common, const char *offload, bool *good) {
  char text[sizeof deep + 1024], path[] = "/tmp/offload_XXXXXX";
  snprintf(text, sizeof text, deep, BATCH, SEQ, EMBED, LAYERS, common, common, offload);
  const int handle = mkstemp(path);
  assert_true(handle >= 0 && write(handle, text, strlen(text)) == (ssize_t)strlen(text) && close(handle) == 0);
  Diag *diag = diag_create(arena);
  PlanSet *set = NULL;
  *good = compile_plans(arena, diag, &(CompileOptions){.file = path, .layout = "moved"}, &set);
  unlink(path);
  return diag;
}

// Each rule that moves nothing is said by itself: what the backward reads at once by a warning, and by an error what it
// does not read at all. What does move is silent, on whatever stage.
static void rules_without_effect_are_said(void **state) {
  (void)state;
  static const struct {
    const char *common, *offload, *said;
    Severity severity;
  } rules[] = {
      {"", "layers", NULL, SEVERITY_NOTE},
      {"", "layers.2.down", NULL, SEVERITY_NOTE},
      {"mesh pp = 2; layers -> pp; microbatches = 4;", "layers.0", NULL, SEVERITY_NOTE},
      {"mesh pp = 2; layers -> pp; microbatches = 4;", "layers.11", NULL, SEVERITY_NOTE},
      {"", "layers.11.down", "`offload layers.11.down` moves nothing: what it selects is read again before",
       SEVERITY_WARNING},
      {"", "layers, cross_entropy",
       "`offload cross_entropy` moves nothing: the backward reads nothing of what it selects", SEVERITY_ERROR},
      {"recompute layers;", "layers.3.down",
       "`offload layers.3.down` moves nothing: the backward reads nothing of what it selects", SEVERITY_ERROR},
  };
  for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
    Arena *arena = arena_create();
    bool good = false;
    const Diag *diag = diag_with(arena, rules[i].common, rules[i].offload, &good);
    const Diagnostic *first = diag->all.count ? &diag->all.at[0] : NULL;
    if (good != (rules[i].severity != SEVERITY_ERROR) || diag->all.count != (rules[i].said ? 1 : 0) ||
        (first &&
         (first->code != E045 || first->severity != rules[i].severity || !strstr(first->message, rules[i].said)))) {
      fail_msg("%s offload %s: %s", rules[i].common, rules[i].offload, first ? first->message : "nothing was said");
    }
    arena_destroy(arena);
  }
}

// Each microbatch in flight has its own memory on the host, and it is not in the figures of the device.
static void lanes_have_memory_of_their_own(void **state) {
  (void)state;
  const char common[] = "mesh pp = 2; layers -> pp; schedule gpipe, microbatches = 4; recompute layers;";
  const Sizes kept = sizes_of(common, "kept"), moved = sizes_of(common, "moved");
  const int64_t input = BATCH * SEQ * EMBED;  // f32, of a quarter of the batch
  assert_int_equal(moved.offload, 4 * (LAYERS / 2) * input);
  assert_true(kept.transient - moved.transient >= 4 * (LAYERS / 2 - 1) * input - WINDOW * input);
}

// --- what must be noticed ---

static void instruction_remove(PlanSegment *segment, int at) {
  memmove(&segment->instructions[at], &segment->instructions[at + 1],
          sizeof *segment->instructions * (size_t)(segment->count - at - 1));
  segment->count--;
}

// What is left out of copies to the host is fetched all the same.
static void copies_are_verified(void **state) {
  (void)state;
  Arena *arena = arena_create();
  LayoutRun *run = compile_with(arena, "gpt2.mdl", "", "offload layers;", "fp32");
  Plan *plan = run->set->plans[0];
  for (int s = 0; s < plan->segment_count; s++) {
    PlanSegment *segment = &plan->segments[s], whole = *segment;
    for (int i = 0; i < whole.count; i++) {
      if (whole.instructions[i].kind != INSTRUCTION_OFFLOAD) {
        continue;
      }
      segment->count = whole.count;
      segment->instructions =
          arena_copy(run->arena, whole.instructions, sizeof *whole.instructions * (size_t)whole.count);
      instruction_remove(segment, i);
      const char *why = plan_verify(run->arena, plan);
      assert_true(why && strstr(why, "fetches what was never offloaded"));
    }
    *segment = whole;
  }
  assert_null(plan_verify(run->arena, plan));
  arena_destroy(run->arena);
  arena_destroy(arena);
}

// The negative control of same_bits: a copy that does not come back.
static void a_value_that_is_not_fetched_shows(void **state) {
  (void)state;
  char said[512];
  Arena *arena = arena_create();
  Outcome without = {0}, with = {0};
  outcome_run(compile_with(arena, "gpt2.mdl", "", "", "fp32"), "kept", DEADLINE, arena, &without);
  LayoutRun *run = compile_with(arena, "gpt2.mdl", "", "offload layers;", "fp32");
  PlanSegment *segment = &run->set->plans[0]->segments[0];
  for (int i = segment->count - 1, left = 1; i >= 0 && left; i--) {
    if (segment->instructions[i].kind == INSTRUCTION_FETCH) {
      instruction_remove(segment, i);
      left--;
    }
  }
  outcome_run(run, "moved", DEADLINE, arena, &with);
  assert_false(outcome_same(&without, &with, 0, false, said, sizeof said));
  arena_destroy(arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(same_bits),
      cmocka_unit_test(inputs_of_layers_are_not_on_the_device),
      cmocka_unit_test(what_layers_keep_is_not_on_the_device),
      cmocka_unit_test(one_layer_moves_alone),
      cmocka_unit_test(rules_without_effect_are_said),
      cmocka_unit_test(lanes_have_memory_of_their_own),
      cmocka_unit_test(copies_are_verified),
      cmocka_unit_test(a_value_that_is_not_fetched_shows),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
