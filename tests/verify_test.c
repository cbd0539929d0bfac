// verify_test.c: the verifier and the cost rules.
#include <math.h>

#include "tests/graph_sample.h"

typedef void Corrupt(Graph *graph);

static Node *node_of(const Graph *graph, Op op) {
  for (int i = 0; i < graph->nodes.count; i++) {
    if (graph->nodes.at[i].op == op) {
      return &graph->nodes.at[i];
    }
  }
  fail_msg("no '%s' in the graph", op_name(op));
  return NULL;
}

static Node *last_of(const Graph *graph, Op op) {
  Node *last = node_of(graph, op);
  for (int i = 0; i < graph->nodes.count; i++) {
    last = graph->nodes.at[i].op == op ? &graph->nodes.at[i] : last;
  }
  return last;
}

static Value *value_of(const Graph *graph, Op op) {
  return graph_value(graph, node_of(graph, op)->first_result);
}

static Region *region_of(const Graph *graph, Op op) {
  return &graph->regions.at[node_of(graph, op)->region];
}

// BROKEN(name, the rule that must be named, what breaks it)
#define CORRUPTIONS(BROKEN)                                                                                           \
  BROKEN(axis_name, "an axis has no name or that of another axis", graph->axes.at[1].name = graph->axes.at[0].name;)  \
  BROKEN(axis_size, "an axis has an impossible size", graph->axes.at[1].size = 0;)                                    \
  BROKEN(axis_global, "an axis has an impossible size", graph->axes.at[1].global = -1;)                               \
  BROKEN(scope_parent, "the parent of a scope does not come before it", graph->scopes.at[1].parent = 2;)              \
  BROKEN(shape_count, "a shape has an impossible number of axes",                                                     \
         value_of(graph, OP_ADD)->shape.count = SHAPE_MAX_AXES + 1;)                                                  \
  BROKEN(shape_axis, "a shape has an axis that does not exist", value_of(graph, OP_ADD)->shape.axis[0] = 99;)         \
  BROKEN(shape_twice, "an axis occurs twice in a shape",                                                              \
         value_of(graph, OP_ADD)->shape.axis[0] = value_of(graph, OP_ADD)->shape.axis[1];)                            \
  BROKEN(shape_large, "a value has more than 2^56 elements", graph->axes.at[0].size = INT64_C(1) << 55;)              \
  BROKEN(op, "there is no such op", node_of(graph, OP_ADD)->op = OP_COUNT;)                                           \
  BROKEN(attribute_axis, "an attribute is an axis that does not exist", node_of(graph, OP_RENAME)->axis2 = 99;)       \
  BROKEN(attribute_shape, "a shape has an axis that does not exist", node_of(graph, OP_SUM)->axes.axis[0] = -1;)      \
  BROKEN(text, "the text is missing", node_of(graph, OP_OUTPUT)->text = NULL;)                                        \
  BROKEN(axis, "an axis attribute is missing", node_of(graph, OP_RENAME)->axis = -1;)                                 \
  BROKEN(offset, "the offset is impossible", node_of(graph, OP_SLICE)->integer = -1;)                                 \
  BROKEN(region, "the node has no region, or one that it must not have", node_of(graph, OP_ADD)->region = 1;)         \
  BROKEN(no_region, "the node has no region, or one that it must not have", node_of(graph, OP_GROUP)->region = 99;)   \
  BROKEN(operand, "an operand does not exist", node_of(graph, OP_ADD)->operands[0] = 9999;)                           \
  BROKEN(operand_count, "the number of operands is wrong", node_of(graph, OP_ADD)->operand_count = 1;)                \
  BROKEN(operand_less, "the number of operands is wrong", node_of(graph, OP_ADD)->operand_count = -1;)                \
  BROKEN(operand_type, "operands have different types",                                                               \
         node_of(graph, OP_ADD)->operands[0] = node_of(graph, OP_INTEGER)->first_result;)                             \
  BROKEN(operand_format, "operands have different types", value_of(graph, OP_CONST)->type = TYPE_BF16;)               \
  BROKEN(quarters, "operands are not of 8 bits, or both in e5m2",                                                     \
         node_of(graph, OP_SCALED_DOT)->operands[0] = node_of(graph, OP_SCALED_DOT)->operands[1];)                    \
  BROKEN(scale, "one operand has one scale, the other has many",                                                      \
         node_of(graph, OP_SCALED_DOT)->operands[3] = node_of(graph, OP_CAST)->operands[0];)                          \
  BROKEN(scale_of_members, "a scale is not in f32, or has axes that its operand lacks",                               \
         node_of(graph, OP_SCALED_DOTS)->operands[4] = node_of(graph, OP_CAST)->operands[0];)                         \
  BROKEN(blocks, "a scale does not stand for a block of 128 elements",                                                \
         graph->axes.at[graph->axes.count - 1].size = 64;)                                                            \
  BROKEN(scale_axes, "a scale is not in f32, or has axes that its operand lacks",                                     \
         last_of(graph, OP_SCALED_DOT)->operands[3] = node_of(graph, OP_CAST)->operands[0];)                          \
  BROKEN(quarter_members, "operands are not of 8 bits, or both in e5m2",                                              \
         node_of(graph, OP_SCALED_DOT_SUM)->operands[3] = node_of(graph, OP_SCALED_DOT_SUM)->operands[2];)            \
  BROKEN(quantised, "it does not say to which format of 8 bits",                                                      \
         node_of(graph, OP_QUANTISE)->text = node_of(graph, OP_CAST)->text;)                                          \
  BROKEN(last, "an axis that shall come last is missing", node_of(graph, OP_QUANTISE)->axes.axis[0] = 0;)             \
  BROKEN(rename_size, "the sizes differ", node_of(graph, OP_RENAME)->axis2 = 5;)                                      \
  BROKEN(result_type, "the type of a result is not that of the op's rule", value_of(graph, OP_ADD)->type = TYPE_INT;) \
  BROKEN(result_bound, "an index result is bound to another axis than by the op's rule",                              \
         value_of(graph, OP_AS_INDEX)->bound = 0;)                                                                    \
  BROKEN(result_axes, "the axes of a result are not those of the op's rule", value_of(graph, OP_ADD)->shape.count--;) \
  BROKEN(value_type, "a value has an impossible type or role", value_of(graph, OP_ADD)->type = ELEMENT_TYPE_COUNT;)   \
  BROKEN(value_role, "a value has an impossible type or role", value_of(graph, OP_ADD)->role = ROLE_COUNT;)           \
  BROKEN(value_bound, "a value is bound to an axis that does not exist", value_of(graph, OP_AS_INDEX)->bound = 99;)   \
  BROKEN(result_count, "the number of results is wrong", node_of(graph, OP_ADD)->result_count = 2;)                   \
  BROKEN(first_result, "a result does not exist", node_of(graph, OP_ADD)->first_result = 9999;)                       \
  BROKEN(back_link, "a result does not point back at its node", value_of(graph, OP_ADD)->node = 0;)                   \
  BROKEN(back_result, "a result does not point back at its node", value_of(graph, OP_ADD)->result = 1;)               \
  BROKEN(region_result, "a region result does not exist", region_of(graph, OP_GROUP)->results.at[0] = 9999;)          \
  BROKEN(parameter, "a region parameter does not exist", region_of(graph, OP_COMPOSITE)->parameters.at[0] = 9999;)    \
  BROKEN(parameter_axes, "a region parameter has another type or other axes than its operand",                        \
         graph_value(graph, region_of(graph, OP_COMPOSITE)->parameters.at[0])->shape.count--;)                        \
  BROKEN(parameter_node, "a region parameter does not exist or is the result of a node",                              \
         Node *inner = node_of(graph, OP_COMPOSITE);                                                                  \
         graph->regions.at[inner->region].parameters.at[0] = inner->operands[0];)                                     \
  BROKEN(parameter_count, "operands and region parameters differ in number",                                          \
         region_of(graph, OP_COMPOSITE)->parameters.count--;)                                                         \
  BROKEN(parts, "the parts are not all of the axis",                                                                  \
         node_of(graph, OP_CHUNKS)->axes.axis[0] = node_of(graph, OP_CHUNKS)->axis2;)                                 \
  BROKEN(part_axes, "a region parameter has another type or other axes than its operand",                             \
         graph_value(graph, region_of(graph, OP_CHUNKS)->parameters.at[0])->shape.count--;)                           \
  BROKEN(span, "the span or the scope of a node does not exist", node_of(graph, OP_ADD)->span = (Span){5, 0, 1};)     \
  BROKEN(span_end, "the span or the scope of a node does not exist",                                                  \
         node_of(graph, OP_ADD)->span = (Span){0, 0, 1000000};)                                                       \
  BROKEN(span_order, "the span or the scope of a node does not exist",                                                \
         node_of(graph, OP_ADD)->span = (Span){0, 2, 1};)                                                             \
  BROKEN(scope, "the span or the scope of a node does not exist", node_of(graph, OP_ADD)->scope = 99;)                \
  BROKEN(value_span, "the span of a value is in no source", value_of(graph, OP_ADD)->span = (Span){5, 0, 1};)         \
  BROKEN(shard_axis, "a value is sharded along an axis that it does not have",                                        \
         value_of(graph, OP_TAKE)->sharding->entries[0].axis = 4;)                                                    \
  BROKEN(shard_twice, "a sharding uses a mesh axis twice", Sharding *sharding = value_of(graph, OP_TAKE)->sharding;   \
         sharding->partial[0] = sharding->entries[1].mesh_axis;)                                                      \
  BROKEN(defined_twice, "a value is defined twice",                                                                   \
         ValueId value = graph_new_value(graph, (Value){.node = -1, .bound = -1, .span = SPAN_NONE});                 \
         array_push(graph->arena, &graph->regions.at[0].parameters, value);                                           \
         array_push(graph->arena, &graph->regions.at[0].parameters, value);)                                          \
  BROKEN(order, "an operand is not defined before its use, or not in a region around it",                             \
         NodeList *nodes = &graph->regions.at[0].nodes;                                                               \
         NodeId first = nodes->at[0]; nodes->at[0] = nodes->at[nodes->count - 1];                                     \
         nodes->at[nodes->count - 1] = first;)                                                                        \
  BROKEN(inside, "an operand is not defined before its use, or not in a region around it",                            \
         node_of(graph, OP_COPY)->operands[0] = region_of(graph, OP_GROUP)->results.at[0];)                           \
  BROKEN(isolation, "a composite uses a value from outside that is not its parameter",                                \
         Node *inner = graph_node(graph, region_of(graph, OP_COMPOSITE)->nodes.at[0]);                                \
         inner->operands[0] = node_of(graph, OP_CONST)->first_result;)                                                \
  BROKEN(missing_node, "a region lists a node that does not exist", graph->regions.at[0].nodes.at[0] = 9999;)         \
  BROKEN(node_twice, "a node stands in the regions twice",                                                            \
         graph->regions.at[0].nodes.at[1] = graph->regions.at[0].nodes.at[0];)                                        \
  BROKEN(region_twice, "a region is used twice, or regions nest too deeply",                                          \
         node_of(graph, OP_GROUP)->region = node_of(graph, OP_MICROBATCH)->region;)                                   \
  BROKEN(region_circle, "a region is used twice, or regions nest too deeply", node_of(graph, OP_GROUP)->region = 0;   \
         node_of(graph, OP_GROUP)->result_count = 0;)                                                                 \
  BROKEN(region_returns, "a region returns a value that is not defined in it",                                        \
         region_of(graph, OP_MICROBATCH)->results.at[0] = region_of(graph, OP_GROUP)->results.at[0];)                 \
  BROKEN(tensor_name, "a persistent tensor has no name or that of another one",                                       \
         graph->persistent.at[1].name = graph->persistent.at[0].name;)                                                \
  BROKEN(tensor_axes, "an axis occurs twice in a shape",                                                              \
         graph->persistent.at[0].shape.axis[0] = graph->persistent.at[0].shape.axis[1];)                              \
  BROKEN(tensor_in, "a persistent tensor has an impossible role, type, shape, scope or span",                         \
         graph->persistent.at[0].in_count = 7;)                                                                       \
  BROKEN(tensor_role, "a persistent tensor has an impossible role, type, shape, scope or span",                       \
         graph->persistent.at[0].role = ROLE_UPDATE;)                                                                 \
  BROKEN(tensor_value, "the value of a persistent tensor is not the leaf of its name",                                \
         graph->persistent.at[0].value = graph->persistent.at[1].value;)                                              \
  BROKEN(tensor_leaf, "a leaf has another type or other axes than its persistent tensor",                             \
         graph->persistent.at[0].shape.count--;                                                                       \
         graph->persistent.at[0].in_count = -1;)

#define BROKEN(name, rule, ...)              \
  static void corrupt_##name(Graph *graph) { \
    __VA_ARGS__                              \
  }
CORRUPTIONS(BROKEN)
#undef BROKEN

static const struct {
  Corrupt *corrupt;
  const char *rule;
} corruptions[] = {
#define BROKEN(name, rule, ...) {corrupt_##name, rule},
    CORRUPTIONS(BROKEN)
#undef BROKEN
};

static void expect_broken(Fixture *fixture, const Graph *graph, const char *rule) {
  assert_false(graph_verify(graph, fixture->diag, "fuse"));
  const Diagnostic *error = &fixture->diag->all.at[0];
  if (error->code == E090) {  // the text asks for too much: no mistake of the compiler
    assert_string_equal(error->message, rule);
    return;
  }
  assert_int_equal(error->code, E099);
  const char *start = "the graph is wrong after pass 'fuse': ";
  assert_memory_equal(error->message, start, strlen(start));
  const char *found = error->message + strlen(start);
  if (strncmp(found, rule, strlen(rule)) != 0) {
    fail_msg("found '%s', expected '%s'", found, rule);
  }
}

static void test_corrupted_graphs(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof corruptions / sizeof *corruptions; i++) {
    Fixture fixture = fixture_create();
    Graph *graph = parse(&fixture, all_ops);
    expect_good(&fixture, graph);
    corruptions[i].corrupt(graph);
    expect_broken(&fixture, graph, corruptions[i].rule);
    print(&fixture, graph);  // must survive
    arena_destroy(fixture.arena);
  }
}

// Graphs that can be written but break a rule of the whole; no rule: good.
static const struct {
  const char *text, *rule;
} programs[] = {
    {"@ assign(%0, %2) assign(%1, %2)", NULL},
    {"@ %3 = exp(%0) : real[a] assign(%0, %3) %4 = exp(%3) : real[a]", NULL},
    {"@ assign(%0, %2) %3 = exp(%0) : real[a]", "a tensor is read after its assign"},
    {"@ %3 = rename(%1) along b to c : real[c] assign(%1, %2) %4 = exp(%3) : real[c]",
     "a tensor is read after its assign"},
    {"@ %3 = exp(%1) : real[b] assign(%1, %2) %4 = exp(%3) : real[b]", NULL},
    {"@ %3 = pack(%0, %2) along c : real[c] assign(%0, %2) %4 = exp(%3) : real[c]",
     "a tensor is read after its assign"},
    {"@ assign(%0, %2) group { %3 = exp(%0) : real[a] }", "a tensor is read after its assign"},
    {"@ %3 = param \"p\" : real[a] assign(%0, %2) %4 = exp(%3) : real[a]", "a tensor is read after its assign"},
    {"@ %3 = param \"p\" : real[a] assign(%0, %2) assign(%3, %2)", "a tensor is assigned twice"},
    {"@ assign(%0, %2) assign(%0, %2)", "a tensor is assigned twice"},
    {"@ %3 = pack(%0, %2) along c : real[c] assign(%3, %2)",
     "the target of an assign is not a param, a state or a pack of them"},
    {"@ %3 = state \"s\" : real %4 = pack(%0, %3) along c : real[c] assign(%4, %2)", NULL},
    {"@ %3 = state \"s\" : real %4 = pack(%0, %3) along c : real[c] assign(%4, %2) assign(%3, %2)",
     "a tensor is assigned twice"},
    {"@ %3 = state \"s\" : real %4 = pack(%0, %3) along c : real[c] assign(%4, %2) %5 = exp(%3) : real",
     "a tensor is read after its assign"},
    {"@ %3 = exp(%0) : real[a] assign(%3, %2)", "the target of an assign is not a param, a state or a pack of them"},
    {"@ %3 = rename(%1) along b to c : real[c] assign(%3, %2)",
     "the target of an assign is not a param, a state or a pack of them"},
    {"@ microbatch { assign(%0, %2) output \"x\"(%2) }", NULL},
    {"@ group { output \"x\"(%2) }", "an effect stands outside the top region and the microbatches"},
    {"@ group { microbatch { output \"x\"(%2) } }", "an effect stands outside the top region and the microbatches"},
    {"@ composite \"f\"(%0) { (%3 : real[a]) output \"x\"(%3) }",
     "an effect stands outside the top region and the microbatches"},
};

static void test_programs(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
    Fixture fixture = fixture_create();
    Graph *graph = parse(&fixture, case_text(&fixture, programs[i].text));
    assert_string_equal(first_message(&fixture), "");
    if (programs[i].rule) {
      expect_broken(&fixture, graph, programs[i].rule);
    } else {
      expect_good(&fixture, graph);
    }
    arena_destroy(fixture.arena);
  }
}

static int attributes_of(const Node *node) {
  return (node->text ? ATTRIBUTE_TEXT : 0) | (node->axes.count ? ATTRIBUTE_AXES : 0) |
         (node->axis >= 0 ? ATTRIBUTE_AXIS : 0) | (node->axis2 >= 0 ? ATTRIBUTE_AXIS2 : 0) |
         (node->integer ? ATTRIBUTE_INTEGER : 0) | (fabs(node->number) > 0 ? ATTRIBUTE_NUMBER : 0) |
         (node->region >= 0 ? ATTRIBUTE_REGION : 0);
}

static void set_attribute(Node *node, int attribute) {
  node->text = attribute == ATTRIBUTE_TEXT ? "tp" : node->text;
  node->axes = attribute == ATTRIBUTE_AXES ? shape_of(1) : node->axes;
  node->axis = attribute == ATTRIBUTE_AXIS ? 1 : node->axis;
  node->axis2 = attribute == ATTRIBUTE_AXIS2 ? 1 : node->axis2;
  node->integer = attribute == ATTRIBUTE_INTEGER ? 1 : node->integer;
  node->number = attribute == ATTRIBUTE_NUMBER ? 1 : node->number;
}

// What ops.def says of attributes: each that an op uses is set in some node of the sample, and no other may be.
static void test_attributes(void **state) {
  (void)state;
  Fixture fixture = fixture_create();
  Graph *graph = parse(&fixture, all_ops);
  int seen[OP_COUNT] = {0}, wrong = 0;
  for (int i = 0; i < graph->nodes.count; i++) {
    const Node node = *graph_node(graph, i);
    seen[node.op] |= attributes_of(&node);
    for (int attribute = 1; attribute < ATTRIBUTE_REGION; attribute *= 2) {
      if (op_used(node.op) & attribute) {
        continue;
      }
      set_attribute(graph_node(graph, i), attribute);
      const char *rule = graph_verify_node(graph, i);
      assert_non_null(rule);
      assert_string_equal(rule, "an attribute is set that the op does not use");
      *graph_node(graph, i) = node;
      assert_null(graph_verify_node(graph, i));
    }
  }
  for (int op = 0; op < OP_COUNT; op++) {
    for (int attribute = 1; attribute <= ATTRIBUTE_REGION; attribute *= 2) {
      if (op_used((Op)op) & attribute & ~seen[op]) {
        print_error("no '%s' in the sample sets attribute %d\n", op_name((Op)op), attribute);
        wrong++;
      }
    }
  }
  assert_int_equal(wrong, 0);
  arena_destroy(fixture.arena);
}

static void test_broken_rule_is_reported(void **state) {
  (void)state;
  Fixture fixture = fixture_create();
  Graph *graph = parse(&fixture, case_text(&fixture, "@ %3 = add(%0, %2) : real[a]"));
  value_of(graph, OP_ADD)->shape.count = 0;
  assert_false(graph_verify(graph, fixture.diag, "simplify"));
  assert_string_equal(first_message(&fixture),
                      "the graph is wrong after pass 'simplify': the axes of a result are not those of the op's rule, "
                      "in: %3 = add(%0, %2) : real");
  arena_destroy(fixture.arena);
}

static void test_formats_count_as_one_type(void **state) {
  (void)state;
  Fixture fixture = fixture_create();
  Graph *graph = parse(&fixture,
                       "graph m slots 1 {\n"
                       "  %0 = input \"i\" : int\n"
                       "  %1 = const 1 : bf16\n"
                       "  %2 = to_real(%0) : bf16\n"
                       "  %3 = add(%1, %2) : bf16\n"
                       "}\n");
  expect_good(&fixture, graph);
  arena_destroy(fixture.arena);
}

static void test_deep_graph(void **state) {
  (void)state;
  Fixture fixture = fixture_create();
  Graph *graph = graph_create(fixture.arena, fixture.names, fixture.diag, name_of(fixture.names, "m"));
  for (int i = 0; i < 300; i++) {
    RegionId region = graph_region(graph);
    graph_add0(graph, OP_GROUP, (NodeInit){.axis = -1, .axis2 = -1, .bound = -1, .region = region});
    graph->region = region;
  }
  expect_broken(&fixture, graph, "a region is used twice, or regions nest too deeply");
  arena_destroy(fixture.arena);
}

// ---- Costs

static void test_costs(void **state) {
  (void)state;
  static const struct {
    const char *text;
    double flops, bytes;
  } cases[] = {
      {"%2 = const 1 : real", 0, 0},
      {"%2 = add(%0, %1) : real[a, b, c]", 64, 4 * (8 + 32 + 64)},
      {"%2 = exp(%0) : bf16[a, b]", 8, 4 * 8 + 2 * 8},
      {"%2 = sum(%0) over [b] : real[a]", 8, 4 * (8 + 2)},
      {"%2 = dot(%0, %1) over [b] : real[a, c]", 2 * 64, 4 * (8 + 32 + 16)},
      {"%2 = rename(%0) along b to d : real[a, d]", 0, 0},
      {"%2 = window(%0) along b to d : real[a, b, d]", 0, 4 * (8 + 32)},
      {"%2 = composite \"f\"(%0) { (%3 : real[a, b]) %4 = exp(%3) : real[a, b] %5 = sum(%4) over [a, b] : real "
       "return %5 } : real",
       16, 4 * (8 + 1)},
      {"%2, %3 = dots(%0, %1, %0) over [b] : real[a, c], real[a]", 2 * 64 + 2 * 8, 4 * (8 + 32 + 8 + 16 + 2)},
      {"%2 = dot_sum(%0, %1, %0, %1) over [a, c] : real[a, c]", 4 * 64, 4 * (2 * (8 + 32) + 16)},
      {"%2 = sum(%1) over [b] : real[c] %3 = biased_dots(%0, %1, %2) over [b] : real[a, c]", 2 * 64,
       4 * (8 + 32 + 8 + 16)},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    Fixture fixture = fixture_create();
    Graph *graph = parse(&fixture, arena_format(fixture.arena,
                                                "graph m slots 1 { axis a = 2; axis b = 4; axis c = 8; axis d = 4;\n"
                                                "%%0 = input \"x\" : real[a, b] %%1 = input \"y\" : real[b, c]\n%s }",
                                                cases[i].text));
    assert_string_equal(first_message(&fixture), "");
    const NodeList *nodes = &graph->regions.at[0].nodes;
    Cost cost = op_cost(graph, nodes->at[nodes->count - 1]);
    assert_true(cost.flops == cases[i].flops);
    assert_true(cost.bytes == cases[i].bytes);
    arena_destroy(fixture.arena);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_corrupted_graphs),
      cmocka_unit_test(test_programs),
      cmocka_unit_test(test_attributes),
      cmocka_unit_test(test_broken_rule_is_reported),
      cmocka_unit_test(test_formats_count_as_one_type),
      cmocka_unit_test(test_deep_graph),
      cmocka_unit_test(test_costs),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
