// recompute_test.c: what `recompute` selects is computed again instead of being kept, and nothing else changes.
//
// For a model of equal layers it is known to the byte how much less is kept and which instructions are added. Under
// many layouts, two steps and an evaluation must give the bits that they give without `recompute`, and a pipeline those
// of one rank. In fp32 products that are computed again without others that share an operand may be rounded otherwise.
#include <stdio.h>

#include "tests/layouts_outcome.h"

enum { DEADLINE = 30, LAYERS = 12, BATCH = 4, SEQ = 16, EMBED = 64, FFN = 256 };

static const char deep[] =
    "import std.nn;\n"
    "model deep {\n"
    "  axis batch = %d, seq = %d, vocab = 8, embed = %d, ffn = %d, layers = %d;\n"
    "  input tokens, targets: index(vocab)[batch, seq];\n"
    "  param table: [vocab, embed] ~ normal(0.02);\n"
    "  x = table[tokens];\n"
    "  repeat layers {\n"
    "    h = rms_norm(x over embed);\n"
    "    u = linear(h over embed to ffn);\n"
    "    g = %s @wide;\n"
    "    x = x + linear(g over ffn to embed, name = down);\n"
    "  }\n"
    "  loss = mean(cross_entropy(dot(x, table over embed), targets over vocab));\n"
    "}\n"
    "recipe r { model deep(); optimizer adamw(lr = 0.01); precision %s; layout mine; }\n"
    "layout mine { %s }\n";

typedef struct {
  int64_t kept;  // bytes between the instructions of a step at most
  int count[INSTRUCTION_KIND_COUNT];
} Figures;

static Figures figures_of(const char *wide, const char *precision, const char *settings) {
  char text[sizeof deep + 512];
  snprintf(text, sizeof text, deep, BATCH, SEQ, EMBED, FFN, LAYERS, wide, precision, settings);
  LayoutRun *run = layout_compile_text(text, &(CompileOptions){0});
  const Plan *plan = run->set->plans[0];
  Figures figures = {.kept = plan->arena_bytes[ARENA_TRANSIENT]};
  for (int s = 0; s < plan->segment_count; s++) {
    for (int i = 0; i < plan->segments[s].count; i++) {
      figures.count[plan->segments[s].instructions[i].kind]++;
    }
  }
  arena_destroy(run->arena);
  return figures;
}

// Each layer keeps u and g, which have the size of the widest axis, and x and h, which are narrow. Only one layer's
// copies, and one value more, are there at a time.
static void check_figures(const char *precision, int bytes, const char *settings, int values, int products) {
  const Figures all = figures_of("gelu(u)", precision, ""), some = figures_of("gelu(u)", precision, settings);
  const int64_t value = (int64_t)BATCH * SEQ * FFN * bytes, less = all.kept - some.kept;
  if (less < value * (values * (LAYERS - 1) - 1) || less > value * values * LAYERS) {
    fail_msg("%s, %s: %lld bytes less, for values of %lld", precision, settings, (long long)less, (long long)value);
  }
  if (some.count[INSTRUCTION_GEMM] != all.count[INSTRUCTION_GEMM] + products * LAYERS) {
    fail_msg("%s, %s: %d products, without it %d", precision, settings, some.count[INSTRUCTION_GEMM],
             all.count[INSTRUCTION_GEMM]);
  }
  if (values > products && some.count[INSTRUCTION_KERNEL] != all.count[INSTRUCTION_KERNEL] + LAYERS) {
    fail_msg("%s, %s: %d kernels, without it %d", precision, settings, some.count[INSTRUCTION_KERNEL],
             all.count[INSTRUCTION_KERNEL]);
  }
}

static void what_is_selected_is_not_kept(void **state) {
  (void)state;
  static const struct {
    const char *settings;
    int values, products;
  } cases[] = {
      {"recompute layers.*.g;", 1, 0},        {"recompute g;", 1, 0},          {"recompute @wide;", 1, 0},
      {"recompute layers.*.u;", 1, 1},        {"recompute layers.*.*;", 2, 2}, {"recompute layers.*.u, g;", 2, 1},
      {"recompute layers.*.u, @wide;", 2, 1},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    check_figures("fp32", 4, cases[i].settings, cases[i].values, cases[i].products);
    check_figures("fp64", 8, cases[i].settings, cases[i].values, cases[i].products);
  }
}

// The backward draws the random numbers of the forward again: a layer with dropout keeps what one without it does, and
// is as many instructions.
static void what_is_drawn_is_not_kept(void **state) {
  (void)state;
  static const char *const settings[] = {"", "recompute g;"};
  for (int i = 0; i < 2; i++) {
    const Figures without = figures_of("gelu(u)", "fp32", settings[i]);
    const Figures with = figures_of("dropout(gelu(u))", "fp32", settings[i]);
    print_message("%lld bytes kept, %lld with dropout; %d kernels, %d with it\n", (long long)without.kept,
                  (long long)with.kept, without.count[INSTRUCTION_KERNEL], with.count[INSTRUCTION_KERNEL]);
    assert_true(with.kept - without.kept < (int64_t)BATCH * SEQ * FFN * 4);
    assert_int_equal(with.count[INSTRUCTION_KERNEL], without.count[INSTRUCTION_KERNEL]);
  }
}

// --- numbers ---

typedef struct {
  const char *file, *settings, *again;
  double rounding;  // in fp32, where a product is computed again without those that are fused with it in the forward
} Pair;

// Without overlap where products beside collectives may be cut by rows, of which libraries may sum fewer otherwise.
static const Pair pairs[] = {
    {"gpt2.mdl", "", "recompute layers.*.u;", 0},
    {"gpt2.mdl", "", "recompute layers.*.h, layers.*.u, @resid;", 0},
    {"gpt2.mdl", "microbatches = 4;", "recompute layers.*.q, o;", 1e-5},
    {"gpt2.mdl", "mesh tp = 2; heads, ffn, vocab -> tp; @resid: seq -> tp; overlap = false;",
     "recompute layers.*.u, layers.*.h;", 0},
    {"gpt2.mdl", "mesh pp = 2; layers -> pp; microbatches = 4;", "recompute layers.*.u, layers.*.o;", 0},
    {"gpt2.mdl", "mesh pp = 2; layers -> pp; microbatches = 4; schedule zero_bubble;", "recompute x, u;", 0},
    {"gpt2.mdl", "offload layers;", "recompute layers.*.u, norm;", 0},
    {"dropout.mdl", "", "recompute layers.*.*;", 1e-5},
    {"llama.mdl", "", "recompute layers.*.mlp.gate, layers.*.mlp.up;", 1e-5},
    {"llama.mdl", "", "recompute layers.*.*;", 1e-5},
    {"llama.mdl", "", "recompute *;", 1e-5},
    {"llama.mdl", "mesh dp = 2; batch -> dp; param, grad, state -> dp;", "recompute mlp, layers.1.q;", 1e-5},
    {"llama.mdl", "mesh cp = 2; seq -> cp(zigzag); attention: key -> cp(ring);", "recompute layers.*.o;", 0},
    {"llama.mdl", "mesh pp = 2, tp = 2; layers -> pp; kv_heads, ffn, vocab -> tp; microbatches = 2;",
     "recompute h, layers.*.v;", 0},
};

static void same_bits(void **state) {
  (void)state;
  static const char *const precisions[] = {"fp64", "fp32"};
  for (size_t i = 0; i < 2 * (sizeof pairs / sizeof *pairs); i++) {
    const Pair *pair = &pairs[i / 2];
    char said[512];
    Arena *arena = arena_create();
    Outcome without = {0}, with = {0};
    const char *folder = MDL_SOURCE_DIR "/tests/layouts", *precision = precisions[i % 2];
    const char *settings = arena_format(arena, "%s %s", pair->settings, pair->again);
    outcome_run(layout_compile_more(folder, pair->file, pair->settings, precision), pair->file, DEADLINE, arena,
                &without);
    outcome_run(layout_compile_more(folder, pair->file, settings, precision), pair->file, DEADLINE, arena, &with);
    if (!outcome_same(&without, &with, i % 2 ? pair->rounding : 0, false, said, sizeof said)) {
      fail_msg("%s, %s: %s: %s", pair->file, precision, settings, said);
    }
    arena_destroy(arena);
  }
}

// A pipeline is to the bit what one rank computes with as many microbatches, whatever each of them computes again.
static void those_of_one_rank(void **state) {
  (void)state;
  static const char *const again[] = {"recompute layers.*.u;", "recompute layers.*.h, u, @resid;",
                                      "recompute layers.*.o, norm;"};
  const char *folder = MDL_SOURCE_DIR "/tests/layouts";
  for (size_t i = 0; i < sizeof again / sizeof *again; i++) {
    char said[512];
    Arena *arena = arena_create();
    Outcome one = {0}, stages = {0};
    const char *settings = arena_format(arena, "mesh pp = 2; layers -> pp; microbatches = 4; %s", again[i]);
    outcome_run(layout_compile_more(folder, "gpt2.mdl", "microbatches = 4;", "fp32"), "one", DEADLINE, arena, &one);
    outcome_run(layout_compile_more(folder, "gpt2.mdl", settings, "fp32"), "stages", DEADLINE, arena, &stages);
    if (!outcome_same(&one, &stages, 0, false, said, sizeof said)) {
      fail_msg("%s: %s", settings, said);
    }
    arena_destroy(arena);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_is_selected_is_not_kept),
      cmocka_unit_test(what_is_drawn_is_not_kept),
      cmocka_unit_test(same_bits),
      cmocka_unit_test(those_of_one_rank),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
