// selector_test.c: what a selector selects: labels, words, paths, classes; how specific it is; which unit it means.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka.h wants the four above first.
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "compiler/spec/selector.h"

// model lm {
//   repeat layers {                       layers.3
//     h = rms_norm(x over embed);         layers.3.h
//     o = attention(h);                   layers.3.o, and there softmax(s), which has no name
//     g = silu(a) * b @gate;              layers.3.g, twice: the call of silu and the variable
//     u = mlp(h, name = ffn);             layers.3.ffn, and there `up = ...`
//   }
// }
enum { ROOT, ROUND, NORM, ATTENTION, SOFTMAX, SILU, MLP, SCOPES };

static const struct {
  const char *function, *path;
  int parent, index;
  const char *variable;
} scopes[SCOPES] = {
    [ROOT] = {"lm", "", -1, -1, NULL},
    [ROUND] = {"layers", "layers.3", ROOT, 3, NULL},
    [NORM] = {"rms_norm", "layers.3.h", ROUND, -1, NULL},
    [ATTENTION] = {"attention", "layers.3.o", ROUND, -1, NULL},
    [SOFTMAX] = {"softmax", "layers.3.o", ATTENTION, -1, NULL},
    [SILU] = {"silu", "layers.3.g", ROUND, -1, NULL},
    [MLP] = {"mlp", "layers.3.ffn", ROUND, -1, "layers.3.u"},
};

static Graph *draw_scopes(Arena *arena) {
  Names *names = names_create(arena);
  Graph *graph = graph_create(arena, names, diag_create(arena), name_of(names, "lm"));
  for (int i = 1; i < SCOPES; i++) {
    ScopeId made = graph_scope(graph, scopes[i].parent, name_of(names, scopes[i].function),
                               name_of(names, scopes[i].path), scopes[i].index);
    assert_int_equal(made, i);
    graph->scopes.at[i].variable = scopes[i].variable ? name_of(names, scopes[i].variable) : NULL;
  }
  return graph;
}

enum { TENSOR, VALUE, NAMELESS };

static const struct {
  int scope, kind;
  const char *name, *label, *selected, *others;  // selectors that select it, and some that do not
} places[] = {
    {NORM, TENSOR, "layers.3.h.scale", NULL,
     "* layers layers.3 layers.* *.3 3 h layers.*.h layers.*.*.scale h.scale scale rms_norm norm lm layers.3.h.scale",
     "layer layers.4 layers.h layers.*.q 3.scale h.scale.x scale.h norms rms bias @scale @h q.*"},
    {MLP, TENSOR, "layers.3.ffn.up.b", NULL, "bias b up.b mlp ffn layers.*.ffn *.ffn.*.b u layers.*.u",
     "norm up.w bias.b layers.up u.up u.b layers.u"},
    {ROUND, VALUE, "g", "gate", "@gate g layers.3.g layers.*.g layers *.g * layers.* lm",
     "@g gate @gates layers.2.g silu norm bias layers.g g.layers"},
    {SILU, NAMELESS, NULL, NULL, "g silu layers.*.g layers 3.g", "@gate gelu layers.*.h gate"},
    {SILU, VALUE, "y", NULL, "y g.y layers.*.g.y layers.*.g silu layers.*.*.y", "layers.*.y y.g @y 3.y"},
    {SOFTMAX, NAMELESS, NULL, NULL, "softmax attention o layers.3.o",
     "norm o.softmax layers.*.softmax attention.softmax"},
    {ROOT, VALUE, "x", "resid", "x @resid * lm", "layers layers.* layers.3.x *.x @x norm bias"},
    {ROOT, VALUE, "b", NULL, "b", "bias"},
    {ROOT, NAMELESS, NULL, NULL, "* lm", "layers x @resid *.*"},
};

static void check_place(const Graph *graph, size_t at, const char *selectors, bool selected) {
  char text[512];
  snprintf(text, sizeof text, "%s", selectors);
  SelectorPlace place = {.scope = places[at].scope};
  Name name = places[at].name ? name_of(graph->names, places[at].name) : NULL;
  place.tensor = places[at].kind == TENSOR ? name : NULL;
  place.value = places[at].kind == VALUE ? name : NULL;
  place.label = places[at].label;
  for (const char *word = strtok(text, " "); word; word = strtok(NULL, " ")) {
    if (selector_matches(graph, name_of(graph->names, word), place) != selected) {
      fail_msg("'%s' %s '%s' in %s", word, selected ? "does not select" : "selects", name ? name : "a value",
               scopes[places[at].scope].path);
    }
  }
}

static void test_matches(void **state) {
  (void)state;
  Arena *arena = arena_create();
  const Graph *graph = draw_scopes(arena);
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    check_place(graph, i, places[i].selected, true);
    check_place(graph, i, places[i].others, false);
  }
  arena_destroy(arena);
}

// The longer path before the shorter, a path before a word, a label before all.
static void test_ranks(void **state) {
  (void)state;
  static const char *const rising[] = {"layers", "layers.*", "layers.3.q", "layers.3.q.w", "@resid"};
  Arena *arena = arena_create();
  Names *names = names_create(arena);
  assert_int_equal(selector_rank(NULL), 0);
  assert_int_equal(selector_rank(name_of(names, "*")), selector_rank(name_of(names, "layers")));
  for (size_t i = 1; i < sizeof rising / sizeof *rising; i++) {
    assert_true(selector_rank(name_of(names, rising[i - 1])) < selector_rank(name_of(names, rising[i])));
  }
  assert_int_equal(selector_rank(name_of(names, "@resid")), SELECTOR_RANK_LABEL);
  arena_destroy(arena);
}

static void test_units(void **state) {
  (void)state;
  static const struct {
    const char *selector;
    int scope, unit;
    bool call;
  } cases[] = {
      {"layers", SOFTMAX, ROUND, false},
      {"layers.*", MLP, ROUND, false},
      {"layers.3", ROUND, ROUND, false},
      {"*", SILU, ROUND, false},
      {"*", ROOT, -1, false},
      {"softmax", SOFTMAX, SOFTMAX, false},
      {"attention", SOFTMAX, ATTENTION, false},
      {"layers.*.o", SOFTMAX, ATTENTION, true},
      {"o", ATTENTION, ATTENTION, true},
      {"g", SILU, SILU, true},
      {"silu", SILU, SILU, false},
      {"norm", NORM, NORM, false},
      {"ffn", MLP, MLP, true},
      {"mlp", MLP, MLP, false},
      {"@gate", SILU, -1, false},
      {"layers.4", MLP, -1, false},
      {"lm", MLP, ROOT, false},
  };
  Arena *arena = arena_create();
  const Graph *graph = draw_scopes(arena);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    Name selector = name_of(graph->names, cases[i].selector);
    ScopeId unit = selector_unit(graph, selector, cases[i].scope);
    if (unit != cases[i].unit || (unit >= 0 && selector_means_call(graph, selector, unit) != cases[i].call)) {
      fail_msg("'%s' in scope %d means scope %d", cases[i].selector, cases[i].scope, unit);
    }
  }
  arena_destroy(arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_matches),
      cmocka_unit_test(test_ranks),
      cmocka_unit_test(test_units),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
