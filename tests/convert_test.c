// convert_test.c: formulas, mapping texts, and where elements go, against plain loops.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka.h wants the four above first.
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/convert/adapters.h"

static Arena *arena;

static int setup(void **state) {
  (void)state;
  arena = arena_create();
  return arena ? 0 : -1;
}

static int teardown(void **state) {
  (void)state;
  arena_destroy(arena);
  return 0;
}

// --- formulas ---

static bool find(void *context, const char *name, Value *value, Error *error) {
  (void)context;
  *value = (Value){.kind = VALUE_NONE};
  if (strcmp(name, "six") == 0 || strcmp(name, "rope.six") == 0) {
    *value = (Value){.kind = VALUE_NUMBER, .number = 6};
  } else if (strcmp(name, "word") == 0) {
    *value = (Value){.kind = VALUE_TEXT, .text = "silu"};
  } else if (strcmp(name, "wrong") == 0) {
    return error_set(error, 1, "there is no 'wrong'");
  }
  return true;
}

static const FormulaNames *names(void) {
  static FormulaNames made;
  made = (FormulaNames){NULL, find, arena};
  return &made;
}

static const struct {
  const char *formula, *value;
} formulas[] = {{"six", "6"},
                {"2 + 3 * six / 2 - -1", "12"},
                {"(2 + 3) * six", "30"},
                {"lacks or 7", "7"},
                {"lacks or rope.six or 7", "6"},
                {"lacks * 2 or six / 4", "1.5"},
                {"lacks", "null"},
                {"1e-6", "1e-06"},
                {"not lacks", "true"},
                {"six == 6", "true"},
                {"six != 6", "false"},
                {"word == \"silu\"", "true"},
                {"word == \"gelu\"", "false"},
                {"six == inf", "false"},
                {"inf == inf", "true"},
                {"word", "\"silu\""},
                {"six if six < inf else none", "6"},
                {"six if six > inf else none", "null"},
                {"1 if lacks else 2 if six == 5 else 3", "3"},
                {"truest or order", "null"},
                {"true", "true"},
                {"false or 3", "false"},
                {"lacks or lacks or 3", "3"},
                {"not six", "false"},
                {"not word", "false"},
                {"2 - -lacks", "null"},
                {"six * lacks", "null"},
                {"lacks - six", "null"},
                {"true + 1", "2"},
                {"-true", "-1"},
                {"1 < word", "false"},
                {"word > 1", "false"},
                {"six > 5", "true"},
                {"lacks == none", "true"},
                {"lacks == word", "false"},
                {"word == 6", "false"},
                {"word != word", "false"},
                {"six == true", "false"},
                {"1 == 1 + 1e-12", "true"},
                {"1 == 1 + 1e-6", "false"},
                {"inf == -inf", "false"},
                {"1 / 3", "0.3333333333333333"},
                {"0.1 + 0.2", "0.30000000000000004"},
                {"six if word else 1", "6"}};

static void test_formulas(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof formulas / sizeof *formulas; i++) {
    Value value;
    Error error = {0};
    assert_true(formula_evaluate(formulas[i].formula, names(), &value, &error));
    assert_string_equal(value_text(arena, &value), formulas[i].value);
  }
  static const char *const wrong[] = {"",
                                      "six +",
                                      "(six",
                                      "six six",
                                      "\"open",
                                      "1 if six",
                                      "wrong",
                                      "word * 2",
                                      "[six]",
                                      "six ==",
                                      "&",
                                      "-word",
                                      "2 * word",
                                      "word - 1",
                                      "six)",
                                      "not",
                                      "1 or",
                                      "1 if (",
                                      "(wrong)",
                                      "not wrong",
                                      "-wrong",
                                      "2 * wrong",
                                      "wrong / 2",
                                      "2 + wrong",
                                      "1 < wrong",
                                      "wrong > 1",
                                      "six or wrong",
                                      "1 if wrong else 2",
                                      "1 if 2 else wrong"};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    Value value;
    Error error = {0};
    assert_false(formula_evaluate(wrong[i], names(), &value, &error));
    assert_int_equal(error.status, 1);
  }
  char deep[400];
  Value value;
  Error error = {0};
  memset(deep, '(', sizeof deep - 1);
  deep[sizeof deep - 1] = '\0';
  assert_false(formula_evaluate(deep, names(), &value, &error));
  static char chain[1 << 20];  // deeper than any stack is
  for (size_t at = 0; at + 12 < sizeof chain; at += 12) {
    memcpy(chain + at, "1 if 0 else ", 12);
  }
  error = (Error){0};
  assert_false(formula_evaluate(chain, names(), &value, &error));
}

static void note_name(void *context, const char *name) {
  Buffer *noted = context;
  buffer_format(noted, "%s ", name);
}

static void test_names_of_formulas(void **state) {
  (void)state;
  static const char *const cases[][2] = {
      {"a.b or \"text c\" if not d1 else 1e5 * (e - true)", "a.b d1 e "}, {"a == \"open b", "a "}, {"none or inf", ""}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    Buffer noted = {0};
    buffer_text(&noted, "");
    formula_names(arena, cases[i][0], note_name, &noted);
    assert_string_equal(noted.text, cases[i][1]);
    buffer_free(&noted);
  }
}

// --- mapping texts ---

#define HEAD "model m\ntype \"t\"\nclass C\n"

static void test_mapping_errors(void **state) {
  (void)state;
  static const struct {
    const char *text, *said;
  } cases[] = {
      {"model m\n", "no mapping"},
      {HEAD "model n\n", "x.hf:4: this is said twice"},
      {HEAD "tensr a [b] = c\n", "x.hf:4: a line begins with"},
      {HEAD "tensor a b = c\n", "x.hf:4: `tensor NAME"},
      {HEAD "tensor a [b, ] = c\n", "a dimension names no axis"},
      {HEAD "tensor a [b] = \n", "a parameter is missing"},
      {HEAD "tensor a [b] = c, d\n", "`parts` stands once"},
      {HEAD "tensor a [b parts] = c\n", "`parts` stands once"},
      {HEAD "read x\n", "`NAME = FORMULA` is expected"},
      {HEAD "write x = // nothing\n", "a formula is missing"},
      {HEAD "write a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q.r = 1\n", "x.hf:4: a name has at most 16 dots"},
      {HEAD "skip a when b\n", "`skip NAME if FORMULA`"},
      {HEAD "skip a if\n", "a formula is missing"},
      {HEAD "skip a like\n", "the tensor that it is like is missing"},
      {HEAD "skip a like b when c\n", "`skip NAME if FORMULA`"},
      {HEAD "tensor a.{b [c] = d\n", "a { in a name is followed"},
      {HEAD "tensor a [c] = d.{}\n", "a { in a name is followed"},
      {HEAD "tensor a{b}{b}{b}{b}{b} [c] = d\n", "at most 4 axes in { }"},
      {"model m\nclass C\ntensor a [b] = c\n", "says no model, type, class or tensor"},
      {"model m\ntype t\ntensor a [b] = c\n", "says no model, type, class or tensor"},
      {"type t\nclass C\ntensor a [b] = c\n", "says no model, type, class or tensor"},
      {HEAD, "says no model, type, class or tensor"},
      {"model\n", "one word is expected"},
      {"model m n\n", "one word is expected"},
      {HEAD "need\n", "one word is expected"},
      {HEAD "write a == b\n", "`NAME = FORMULA` is expected"},
      {HEAD "only \n", "a formula is missing"},
      {HEAD "tensor\n", "`tensor NAME"},
      {HEAD "tensor a [b]\n", "`tensor NAME"},
      {HEAD "tensor a b] = c\n", "`tensor NAME"},
      {HEAD "tensor a [b = c\n", "`tensor NAME"},
      {HEAD "tensor a ]b[ = c\n", "`tensor NAME"},
      {HEAD "tensor a [b = c]\n", "`tensor NAME"},
      {HEAD "tensor a [b b b b b b b b b b b b b b b b b] = c\n", "at most 16 axes"},
      {HEAD "tensor a [parts b] = c, c, c, c, c, c, c, c, c\n", "at most 8 parameters"},
      {HEAD "tensor a [parts b] = c, , d\n", "a parameter is missing"},
      {HEAD "tensor a [b] = c.{d\n", "a { in a name is followed"},
      {HEAD "skip\n", "`skip NAME` or `skip NAME if FORMULA`"},
      {HEAD "adapter\n", "`adapter PARAMETER"},
      {HEAD "adapter *.w\n", "`adapter PARAMETER"},
      {HEAD "adapter *.w is *.a, *.b\n", "`adapter PARAMETER"},
      {HEAD "adapter *.w = *.a\n", "`adapter PARAMETER"},
      {HEAD "adapter *.w = *.a,\n", "`adapter PARAMETER"},
      {HEAD "adapter *.w = *.a, *.b to x\n", "`adapter PARAMETER"},
      {HEAD "adapter *.w = *.a, *.b by\n", "`adapter PARAMETER"},
      {HEAD "adapter w = *.a, *.b\n", "`adapter PARAMETER"},
      {HEAD "adapter *.w = *.*, *.b\n", "`adapter PARAMETER"},
      {HEAD "adapter *.w = *. a, *.b\n", "`adapter PARAMETER"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    Mapping mapping;
    Error error = {0};
    assert_false(mapping_parse(arena, "x.hf", cases[i].text, &mapping, &error));
    if (!strstr(error.text, cases[i].said)) {
      fail_msg("'%s' is not in: %s", cases[i].said, error.text);
    }
  }
}

static void test_built_in(void **state) {
  (void)state;
  Mapping *all;
  int count;
  Error error = {0};
  assert_true(mapping_all(arena, &all, &count, &error));
  assert_true(count >= 6);
  for (int i = 0; i < count; i++) {
    assert_non_null(model_file(arena_format(arena, "%s.mdl", all[i].model)));
  }
  assert_null(model_file("none.mdl"));
}

// --- elements ---

static Weight weight_of(const char *name, int count, const char *const *axes, const int64_t *size) {
  Weight weight = {.name = name, .type = TYPE_F32, .axis_count = count};
  for (int i = 0; i < count; i++) {
    weight.axis[i] = axes[i];
    weight.size[i] = size[i];
  }
  return weight;
}

enum { EMBED = 3, HEADS = 2, HD = 4, EXPERTS = 2, FFN = 5 };

static const ModelNumber numbers_at[] = {{.name = "embed", .value = EMBED, .axis = true},
                                         {.name = "experts", .value = EXPERTS, .axis = true},
                                         {.name = "layers", .value = 1, .axis = true}};
static const ModelNumbers numbers = {"m", 3, (ModelNumber *)numbers_at};

static Weights weights_all(void) {
  Weights weights = {0};
  static const char *const square[] = {"embed", "heads", "hd"}, *const mixture[] = {"experts", "embed", "ffn"};
  const int64_t square_size[] = {EMBED, HEADS, HD}, mixture_size[] = {EXPERTS, EMBED, FFN};
  array_push(arena, &weights, weight_of("layers.0.q.w", 3, square, square_size));
  array_push(arena, &weights, weight_of("layers.0.k.w", 3, square, square_size));
  array_push(arena, &weights, weight_of("layers.0.up", 3, mixture, mixture_size));
  return weights;
}

static bool make(const char *lines, const Weights *weights, Pairs *pairs, Error *error) {
  Mapping mapping;
  *error = (Error){0};
  assert_true(mapping_parse(arena, "x.hf", arena_format(arena, HEAD "%s", lines), &mapping, error));
  return pairs_make(arena, &mapping, &numbers, weights, pairs, NULL, error);
}

#define UP "tensor e.{layers}.{experts} [ffn, embed] = layers.{layers}.up\n"

// Queries and keys of a head beside each other, halves of hd beside each other, [out, in]; experts apart.
static void test_elements(void **state) {
  (void)state;
  const Weights weights = weights_all();
  Pairs pairs;
  Error error;
  assert_true(
      make("tensor a.{layers} [heads parts interleaved(hd), embed] = layers.{layers}.q.w, layers.{layers}.k.w\n" UP,
           &weights, &pairs, &error));
  assert_int_equal(pairs.count, 3);
  const Pair *pair = &pairs.at[0];
  assert_string_equal(pair->name, "a.0");
  assert_int_equal(pair->axis_count, 2);
  assert_int_equal(pair->size[0], HEADS * 2 * HD);
  assert_int_equal(pair->size[1], EMBED);
  float tensor[HEADS][2][HD][EMBED], part[2][EMBED][HEADS][HD] = {0}, again[HEADS][2][HD][EMBED] = {0};
  for (int i = 0; i < HEADS * 2 * HD * EMBED; i++) {
    ((float *)tensor)[i] = (float)i;
  }
  for (int p = 0; p < 2; p++) {
    pair_take(pair, p, 4, tensor, part[p]);
    pair_give(pair, p, 4, part[p], again);
    for (int e = 0; e < EMBED; e++) {
      for (int h = 0; h < HEADS; h++) {
        for (int d = 0; d < HD; d++) {
          const int there = d < HD / 2 ? 2 * d : 2 * (d - HD / 2) + 1;
          assert_float_equal(part[p][e][h][d], tensor[h][p][there][e], 0);
        }
      }
    }
  }
  assert_memory_equal(tensor, again, sizeof tensor);
}

static void test_experts(void **state) {
  (void)state;
  const Weights weights = weights_all();
  Pairs pairs;
  Error error;
  assert_true(make("tensor q [heads hd, embed] = layers.0.q.w\ntensor k [heads hd, embed] = layers.0.k.w\n" UP,
                   &weights, &pairs, &error));
  double all[EXPERTS][EMBED][FFN] = {0};
  for (int x = 0; x < EXPERTS; x++) {
    const Pair *pair = &pairs.at[2 + x];
    double tensor[FFN][EMBED];
    assert_string_equal(pair->name, x ? "e.0.1" : "e.0.0");
    for (int i = 0; i < FFN * EMBED; i++) {
      ((double *)tensor)[i] = 100 * x + i;
    }
    pair_take(pair, 0, 8, tensor, all);
    for (int e = 0; e < EMBED; e++) {
      for (int f = 0; f < FFN; f++) {
        assert_true(all[x][e][f] == 100 * x + f * EMBED + e);
      }
    }
  }
}

static void test_pairs_errors(void **state) {
  (void)state;
  const Weights weights = weights_all();
  static const struct {
    const char *lines, *said;
  } cases[] = {
      {UP, "'layers.0.q.w' [3, 2, 4]; 'layers.0.k.w' [3, 2, 4]"},
      {"tensor q [heads hd] = layers.0.q.w\n", "no dimension has the axis 'embed' of 'layers.0.q.w'"},
      {"tensor q [heads hd ffn, embed] = layers.0.q.w\n", "the parameter lacks the axis 'ffn'"},
      {"tensor q.{depth} [heads hd, embed] = layers.0.q.w\n", "the model has no axis 'depth'"},
      {"tensor q [heads hd, embed] = layers.{layers}.q.w\n", "does not have the axis of"},
      {"tensor q [heads hd parts, embed] = layers.0.q.w, layers.0.v.w\n", "some of the parameters, but not all"},
      {"tensor q [heads hd, interleaved(embed)] = layers.0.q.w\n", "cannot be interleaved: 'embed'"},
      {"tensor q [heads hd, embed] = layers.0.q.w\ntensor r [heads hd, embed] = layers.0.q.w\n"
       "tensor k [heads hd, embed] = layers.0.k.w\n" UP,
       "'layers.0.q.w'"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    Pairs pairs;
    Error error;
    assert_false(make(cases[i].lines, &weights, &pairs, &error));
    if (!strstr(error.text, cases[i].said)) {
      fail_msg("'%s' is not in: %s", cases[i].said, error.text);
    }
  }
}

static void test_types(void **state) {
  (void)state;
  const float in[] = {1, -2.5F, 3.0e-3F, 0};
  const char *const types[] = {"F64", "F32", "F16", "BF16"};
  const double within[] = {0, 0, 1e-3, 8e-3};
  double beyond;
  for (int t = 0; t < 4; t++) {
    char made[64];
    float back[4];
    assert_true(elements_convert("F32", in, types[t], made, 4, &beyond));
    assert_true(elements_convert(types[t], made, "F32", back, 4, &beyond));
    for (int i = 0; i < 4; i++) {
      assert_true(fabs((double)(back[i] - in[i])) <= within[t] * fabs((double)in[i]));
    }
  }
  const float large[] = {70000, INFINITY};  // what is infinite stays so, and is no loss
  const double larger[] = {1e39};
  uint16_t half[2];
  float single[1];
  assert_true(elements_convert("F32", large, "F16", half, 1, &beyond) && beyond == 70000);
  assert_true(elements_convert("F32", large, "BF16", half, 2, &beyond) && beyond == 0);
  assert_true(elements_convert("F64", larger, "F32", single, 1, &beyond) && beyond == 1e39);
  int64_t integers[1] = {0};
  float out[1];
  assert_false(elements_convert("I64", integers, "F32", out, 1, &beyond));
}

// --- adapters ---

enum { IN = 3, LOW = 2, ROWS = 2, COLUMNS = 5 };

static bool find_adapters(const char *line, const Weights *weights, Adapters *adapters, Error *error) {
  static ModelNumber all[] = {{.name = "rank", .value = LOW}, {.name = "alpha", .value = 3}};
  static const ModelNumbers scales = {"own", 2, all};
  Mapping mapping;
  const char *text =
      arena_format(arena, "model own\ntype \"own\"\nclass \"Own\"\ntensor t [in] = t\n%s\nmerged rank = 0\n", line);
  *error = (Error){0};
  return mapping_parse(arena, "own.hf", text, &mapping, error) &&
         adapters_find(arena, &mapping, &scales, weights, adapters, error);
}

// x.w [rows, in, columns] += 3 / 2 * x.a [in, low] x.b [low, rows, columns]; and with the factors named the other way
// round, where the last axis of w is the input's.
static void test_adapters(void **state) {
  (void)state;
  Error error;
  Adapters adapters = {0};
  Weights weights = {0};
  static const char *const w_axis[] = {"rows", "in", "columns"}, *const a_axis[] = {"in", "low"},
                           *const b_axis[] = {"low", "rows", "columns"};
  static const int64_t w_size[] = {ROWS, IN, COLUMNS}, a_size[] = {IN, LOW}, b_size[] = {LOW, ROWS, COLUMNS};
  array_push(arena, &weights, weight_of("x.b", 3, b_axis, b_size));
  array_push(arena, &weights, weight_of("other", 2, a_axis, a_size));
  array_push(arena, &weights, weight_of("x.w", 3, w_axis, w_size));
  array_push(arena, &weights, weight_of("x.a", 2, a_axis, a_size));
  double a[IN][LOW], b[LOW][ROWS][COLUMNS], row[COLUMNS];
  for (int i = 0; i < IN * LOW; i++) {
    (&a[0][0])[i] = 0.25 * i - 1;
  }
  for (int i = 0; i < LOW * ROWS * COLUMNS; i++) {
    (&b[0][0][0])[i] = 0.5 * (i % 7) - 1;
  }
  for (int turned = 0; turned < 2; turned++) {
    float narrow[ROWS][IN][COLUMNS];
    double wide[ROWS][IN][COLUMNS];
    for (int i = 0; i < ROWS * IN * COLUMNS; i++) {
      (&narrow[0][0][0])[i] = (float)((&wide[0][0][0])[i] = i);
    }
    const char *line = turned ? "adapter *.w = *.b, *.a by alpha / rank" : "adapter *.w = *.a, *.b by alpha / rank";
    assert_true(find_adapters(line, &weights, &adapters, &error));
    assert_int_equal(adapters.count, 1);
    const Adapter *adapter = &adapters.at[0];
    assert_int_equal(adapter->into, 2);
    assert_int_equal(adapter_row(adapter), COLUMNS);
    const double *first = turned ? &b[0][0][0] : &a[0][0], *second = turned ? &a[0][0] : &b[0][0][0];
    adapter_add(adapter, first, second, TYPE_F32, narrow, row);
    adapter_add(adapter, first, second, TYPE_F64, wide, row);
    for (int r = 0; r < ROWS; r++) {
      for (int i = 0; i < IN; i++) {
        for (int c = 0; c < COLUMNS; c++) {
          double sum = 0;
          for (int l = 0; l < LOW; l++) {
            sum += a[i][l] * b[l][r][c];
          }
          const double wanted = (r * IN + i) * COLUMNS + c + 1.5 * sum;
          assert_true(fabs(wide[r][i][c] - wanted) < 1e-12 && fabs((double)narrow[r][i][c] - wanted) < 1e-5);
        }
      }
    }
  }
}

static void test_adapters_wrong(void **state) {
  (void)state;
  static const char *const w_axis[] = {"in", "out"}, *const a_axis[] = {"in", "low"},
                           *const b_axis[] = {"low", "other"};
  static const int64_t size[] = {4, 4};
  static const struct {
    const char *line, *said;
  } cases[] = {{"adapter *.w = *.a, *.b", "'x.w' has an axis that neither factor of its adapter has"},
               {"adapter *.w = *.a, *.a", "'x.w' has an axis that neither factor"},
               {"adapter *.w = *.a, *.c", "'x.a' is a factor of an adapter, but there is no 'x.c'"},
               {"adapter *.w = *.a", "is expected"},
               {"adapter *.w = *.a, *.b of 3", "is expected"},
               {"adapter w = *.a, *.b", "is expected"},
               {"adapter *.*.w = *.a, *.b", "is expected"},
               {"adapter *.a = *.w, *.b by depth", "an axis 'out' that does not fit"},
               {"adapter *.w = *.w, *.w by depth", "no axis and no constant 'depth'"}};
  Weights weights = {0};
  array_push(arena, &weights, weight_of("x.w", 2, w_axis, size));
  array_push(arena, &weights, weight_of("x.a", 2, a_axis, size));
  array_push(arena, &weights, weight_of("x.b", 2, b_axis, size));
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    Adapters adapters;
    Error error;
    const bool found = find_adapters(cases[i].line, &weights, &adapters, &error);
    if (found || !strstr(error.text, cases[i].said)) {
      fail_msg("'%s' is not in: %s", cases[i].said, error.text);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_formulas),       cmocka_unit_test(test_names_of_formulas),
      cmocka_unit_test(test_mapping_errors), cmocka_unit_test(test_built_in),
      cmocka_unit_test(test_elements),       cmocka_unit_test(test_experts),
      cmocka_unit_test(test_pairs_errors),   cmocka_unit_test(test_types),
      cmocka_unit_test(test_adapters),       cmocka_unit_test(test_adapters_wrong),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
