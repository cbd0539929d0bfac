// graph_test.c: the textual form of graphs.
#include <math.h>

#include "tests/graph_sample.h"

static void test_every_op_round_trips(void **state) {
  (void)state;
  Fixture fixture = fixture_create();
  Graph *graph = parse(&fixture, all_ops);
  assert_string_equal(first_message(&fixture), "");
  expect_text(print(&fixture, graph), all_ops);
  expect_good(&fixture, graph);
  bool seen[OP_COUNT] = {false};
  for (int i = 0; i < graph->nodes.count; i++) {
    seen[graph->nodes.at[i].op] = true;
  }
  for (int op = 0; op < OP_COUNT; op++) {
    if (!seen[op]) {
      fail_msg("the op '%s' is missing in all_ops: add a line for it", op_name((Op)op));
    }
  }
  arena_destroy(fixture.arena);
}

static void test_built_graph_prints(void **state) {
  (void)state;
  Fixture fixture = fixture_create();
  static const char source[] = "x = 1\ny = dot(x, w)\n";
  int file = diag_add_source(fixture.diag, "m.mdl", source, strlen(source));
  Graph *graph = graph_create(fixture.arena, fixture.names, fixture.diag, name_of(fixture.names, "m"));
  AxisId batch = graph_axis(graph, name_of(fixture.names, "batch"), 8);
  AxisId embed = graph_axis(graph, name_of(fixture.names, "embed"), 4);
  Shape both = {2, {batch, embed}};
  ValueId x = graph_add0(graph, OP_INPUT, (NodeInit){NODE_INIT, .text = name_of(fixture.names, "x"), .shape = both});
  Name w = name_of(fixture.names, "w");
  ValueId weight = graph_add0(graph, OP_PARAM, (NodeInit){NODE_INIT, .text = w, .shape = shape_of(embed)});
  array_push(fixture.arena, &graph->persistent,
             ((Persistent){.name = w,
                           .role = ROLE_PARAMETER,
                           .shape = shape_of(embed),
                           .in_count = -1,
                           .value = weight,
                           .span = SPAN_NONE}));
  graph_real(graph, 7);  // dead, and taken out of the region below
  graph->regions.at[0].nodes.count--;
  graph->span = (Span){file, 6, 19};
  graph->scope = graph_scope(graph, 0, name_of(fixture.names, "f"), name_of(fixture.names, "f"), -1);
  ValueId y = graph_add2(graph, OP_DOT, (NodeInit){NODE_INIT, .axes = shape_of(embed)}, x, weight);
  graph_value(graph, y)->label = name_of(fixture.names, "resid");
  graph->span = SPAN_NONE;
  graph_add1(graph, OP_OUTPUT, (NodeInit){NODE_INIT, .text = name_of(fixture.names, "y")}, y);
  expect_good(&fixture, graph);
  const char *text = print(&fixture, graph);
  expect_text(text,
              "graph m slots 1 {\n"
              "  axis batch = 8;\n"
              "  axis embed = 4;\n"
              "  scope 1 = 0 \"f\" \"f\";\n"
              "  parameter \"w\" : real[embed] group 0 %1;\n"
              "  %0 = input \"x\" : real[batch, embed]\n"
              "  %1 = param \"w\" : real[embed]\n"
              "  %2 = dot(%0, %1) over [embed] : real[batch] @resid scope 1 #0:6-19  // m.mdl:2\n"
              "  output \"y\"(%2) scope 1\n"
              "}\n");
  Graph *again = parse(&fixture, text);
  assert_string_equal(first_message(&fixture), "");
  expect_text(print(&fixture, again), text);
  assert_int_equal(again->persistent.at[0].value, again->nodes.at[1].first_result);
  assert_int_equal(again->nodes.at[2].span.end, 19);
  arena_destroy(fixture.arena);
}

static void test_spans_of_values(void **state) {
  (void)state;
  Fixture fixture = fixture_create();
  diag_add_source(fixture.diag, "m.mdl", "0123456789", 10);
  static const char text[] =
      "graph m slots 1 {\n"
      "  %0 = const 1 : real at #0:1-2 #0:3-4  // m.mdl:1\n"
      "  %1 = const 2 : real at none #0:3-4  // m.mdl:1\n"
      "  %2 = const 3 : real at #0:0-10\n"
      "}\n";
  Graph *graph = parse(&fixture, text);
  assert_string_equal(first_message(&fixture), "");
  expect_text(print(&fixture, graph), text);
  // Spans of sources that are not there, or of the text itself, mean nothing.
  graph = parse(&fixture, "graph m slots 1 { %0 = const 1 : real at #0:9-11 #7:0-1 %1 = const 2 : real #2:0-1 }");
  expect_text(print(&fixture, graph), "graph m slots 1 {\n  %0 = const 1 : real\n  %1 = const 2 : real\n}\n");
  arena_destroy(fixture.arena);
}

static void test_numbers_read_back_exactly(void **state) {
  (void)state;
  static const struct {
    double number;
    const char *text;
  } cases[] = {
      {0, "0"},
      {-0.0, "-0"},
      {1, "1"},
      {0.1, "0.1"},
      {1e-8, "1e-08"},
      {1.0 / 3, "0.3333333333333333"},
      {5e-324, "4.94066e-324"},
      {-1e300, "-1e+300"},
      {(double)INFINITY, "inf"},
      {1.7976931348623157e308, "1.7976931348623157e+308"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    Fixture fixture = fixture_create();
    Graph *graph = graph_create(fixture.arena, fixture.names, fixture.diag, name_of(fixture.names, "m"));
    graph_real(graph, cases[i].number);
    const char *text = print(&fixture, graph);
    expect_text(text, arena_format(fixture.arena, "graph m slots 1 {\n  %%0 = const %s : real\n}\n", cases[i].text));
    Graph *again = parse(&fixture, text);
    assert_memory_equal(&again->nodes.at[0].number, &cases[i].number, sizeof(double));
    arena_destroy(fixture.arena);
  }
}

static const struct {
  const char *text, *message;
} bad_texts[] = {
    {"", "expected 'graph' here"},
    {"1", "expected 'graph' here"},
    {"graph m slots 1", "expected '{' here"},
    {"graph m slots 9999999 {}", "this integer is out of its range"},
    {"graph m slots 1 {} x", "the graph has ended before this"},
    {"graph m slots 1 { ! }", "this character is not allowed here"},
    {"graph \"m slots 1 {\n", "this string does not end on its line, or holds a control character"},
    {"graph \"m\\q\" slots 1 {}", "this string has an unknown escape"},
    {"graph \"m\\x00\" slots 1 {}", "this string has an unknown escape"},
    {"graph m slots 1 { axis a = 0; }", "this integer is out of its range"},
    {"graph m slots 1 { axis a = 1.5; }", "expected an integer here"},
    {"graph m slots 1 { axis a = 1; axis a = 2; }", "this axis is declared twice"},
    {"graph m slots 1 { scope 2 = 0 \"f\" \"f\"; }", "this integer is out of its range"},
    {"graph m slots 1 { scope 1 = 0 \"f\" \"f\"; scope 1 = 0 \"f\" \"f\"; }", "scopes are numbered in order"},
    {"graph m slots 1 { state \"x\" : real[a]; }", "there is no axis of this name"},
    {"graph m slots 1 { state \"x\" : real %3; }", "there is no %3, the value of a tensor"},
    {"graph m slots 1 { axis a = 1099511627776; axis b = 1099511627776; state \"x\" : real[a, b]; }",
     "a value has more than 2^56 elements"},
    {"@ %3 = add(%0, %7) : real[a]", "%7 is not defined here"},
    {"@ %3 = add(%0, %3) : real[a]", "%3 is not defined here"},
    {"@ %2 = add(%0, %0) : real[a]", "%2 is defined twice"},
    {"@ %3 = add(%0) : real[a]", "this 'add' is wrong: the number of operands is wrong"},
    {"@ %3 = add(%0, %0) : real[a, a]", "this axis occurs twice, or there are too many axes"},
    {"@ %3 = add(%0, %0) : real[b]", "this 'add' is wrong: the axes of a result are not those of the op's rule"},
    {"@ %3 = add(%0, %0) : int[a]", "this 'add' is wrong: the type of a result is not that of the op's rule"},
    {"@ %3 = add(%0, %0) : text[a]", "expected an element type here"},
    {"@ %3 = plus(%0, %0) : real[a]", "expected an op here"},
    {"graph m slots 1 { axis a = 72057594037927936; %0 = input \"x\" : real[a] %1 = pack(%0, %0, %0, %0, %0) along a "
     ": real[a] }",
     "this 'pack' is wrong: a value has more than 2^56 elements"},
    {"@ %3, %4 = add(%0, %0) : real[a], real[a]", "this 'add' is wrong: the number of results is wrong"},
    {"@ %3, = add(%0, %0) : real[a]", "expected a value here"},
    {"@ %3 add(%0, %0) : real[a]", "expected ',' or '=' here"},
    {"@ %3 = rename(%1) along b : real[c]", "this 'rename' is wrong: an axis attribute is missing"},
    {"@ %3 = rename(%1) along b to a : real[a]", "this 'rename' is wrong: the sizes differ"},
    {"@ %3 = slice(%0) along a to b integer 9223372036854775807 : real[b]",
     "this 'slice' is wrong: the offset is impossible"},
    {"@ %3 = integer 9999999999 : int", "this 'integer' is wrong: the integer does not fit 32 bits"},
    {"@ %3 = const 1e999 : real", "expected a number here"},
    {"@ %3 = const 0.1000000000000000000000000000000000000000001 : real", "this number is too long"},
    {"@ %3 = composite \"f\"(%0) { return %0 } : real[a]", "%0 is not defined here"},
    {"@ %3 = composite \"f\"(%0) { (%4 : real[b]) return %4 } : real[b]",
     "this 'composite' is wrong: a region parameter has another type or other axes than its operand"},
    {"@ %3 = composite \"f\"(%0) { (%4 : real[a], %5 : real) return %4 } : real[a]",
     "this 'composite' is wrong: operands and region parameters differ in number"},
    {"@ %3 = group { %4 = exp(%0) : real[a] return %4 } : real[a] %5 = exp(%4) : real[a]", "%4 is not defined here"},
    {"@ %3 = composite(%0) { (%4 : real[a]) return %4 } : real[a]", "this 'composite' is wrong: the text is missing"},
    {"@ %3 = exp(%0) { } : real[a]", "this 'exp' is wrong: the node has no region, or one that it must not have"},
    {"@ %3 = exp(%0) : real[a] scope 5", "this integer is out of its range"},
    {"@ %3 = exp(%0) : real[a] #0:1", "a span is written #file:begin-end"},
    {"@ %3 = exp(%0) : real[a] {b dp}", "expected ':' here"},
    {"@ %3 = exp(%0) : real[a] %99999999999 = const 1 : real", "this number is too large"},
};

static void test_bad_texts(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof bad_texts / sizeof *bad_texts; i++) {
    Fixture fixture = fixture_create();
    assert_null(parse(&fixture, case_text(&fixture, bad_texts[i].text)));
    assert_string_equal(first_message(&fixture), bad_texts[i].message);
    assert_int_equal(fixture.diag->errors, 1);
    arena_destroy(fixture.arena);
  }
}

static void test_deep_text(void **state) {
  (void)state;
  Fixture fixture = fixture_create();
  Buffer text = {0};
  buffer_text(&text, "graph m slots 1 {");
  for (int i = 0; i < 100000; i++) {
    buffer_text(&text, "group {");
  }
  assert_null(parse(&fixture, text.text));
  assert_string_equal(first_message(&fixture), "regions nest too deeply");
  buffer_free(&text);
  arena_destroy(fixture.arena);
}

static uint32_t draw(uint32_t *random) {
  *random ^= *random << 13;
  *random ^= *random >> 17;
  *random ^= *random << 5;
  return *random;
}

// A few random edits: a byte changed, a piece taken out, a piece copied elsewhere.
static void damage(char *text, size_t *length, uint32_t *random) {
  static const char likely[] = "{}()[]:;,=|@%#\"-. 0129aeis\n";
  for (uint32_t edits = 1 + draw(random) % 3; edits > 0; edits--) {
    size_t at = draw(random) % *length, piece = draw(random) % 40;
    piece = at + piece > *length ? *length - at : piece;
    switch (draw(random) % 4) {
      case 0:
        text[at] = (char)draw(random);
        break;
      case 1:
        text[at] = likely[draw(random) % (sizeof likely - 1)];
        break;
      case 2:
        memmove(text + at, text + at + piece, *length - at - piece);
        *length -= piece;
        break;
      default:
        memmove(text + draw(random) % (*length - piece), text + at, piece);
    }
    if (*length < 50) {
      return;
    }
  }
}

static void test_damaged_texts(void **state) {
  (void)state;
  const char *wanted = getenv("MDL_FUZZ");
  int count = wanted ? atoi(wanted) : 3000, read = 0;
  uint32_t random = 2463534242u;
  char *text = malloc(sizeof all_ops);
  assert_non_null(text);
  for (int i = 0; i < count; i++) {
    Fixture fixture = fixture_create();
    size_t length = strlen(all_ops);
    memcpy(text, all_ops, length);
    damage(text, &length, &random);
    int source = diag_add_source(fixture.diag, "graph", text, length);
    Graph *graph = graph_parse(fixture.arena, fixture.names, fixture.diag, source);
    assert_int_equal(fixture.diag->errors, graph ? 0 : 1);
    if (graph) {
      read++;
      const char *printed = print(&fixture, graph);
      Graph *again = parse(&fixture, printed);
      assert_string_equal(first_message(&fixture), "");
      expect_text(print(&fixture, again), printed);
      graph_verify(graph, fixture.diag, "test");
    }
    arena_destroy(fixture.arena);
  }
  free(text);
  assert_in_range(read, 1, count - 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_every_op_round_trips),
      cmocka_unit_test(test_built_graph_prints),
      cmocka_unit_test(test_spans_of_values),
      cmocka_unit_test(test_numbers_read_back_exactly),
      cmocka_unit_test(test_bad_texts),
      cmocka_unit_test(test_deep_text),
      cmocka_unit_test(test_damaged_texts),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
