// graph_read.c: reading the textual form of graphs; the grammar is in graph_text.h.
//
// Recursive descent over hostile text. The first error stops everything; a node is checked by graph_verify_node, which
// no rule of an op sees before its attributes and operands are sound. What concerns a graph as a whole (effects,
// assigns, names of tensors) is left to graph_verify.
#include "compiler/ir/graph_reader.h"
#include "compiler/ir/verify.h"

// ---- Nodes and regions

static bool read_body(Reader *reader, RegionId region);

// (%1 : type, ...)
static bool read_parameters(Reader *reader, RegionId region) {
  Graph *graph = reader->graph;
  do {
    Value value = {.node = -1};
    bool placed = false;
    Span span = token_span(reader->tokens);
    int32_t number = reader->tokens->token.value;
    if (!token_is(reader->tokens, TOKEN_VALUE)) {
      return token_fail(reader->tokens, span, "expected a value here");
    }
    if (!token_next(reader->tokens) || !token_expect_mark(reader->tokens, ':') ||
        !reader_result(reader, &value, &placed)) {
      return false;
    }
    const char *wrong = graph_verify_value(graph, &value);
    if (wrong) {
      return token_fail(reader->tokens, span, "%s", wrong);
    }
    ValueId id = graph_new_value(graph, value);
    array_push(graph->arena, &graph->regions.at[region].parameters, id);
    if (!reader_define_value(reader, number, id, span)) {
      return false;
    }
  } while (token_accept_mark(reader->tokens, ','));
  return token_expect_mark(reader->tokens, ')');
}

static bool read_region(Reader *reader, Node *node) {
  int mark = reader->visible.count, floor = reader->floor;
  if (reader->depth++ >= READ_MAX_DEPTH) {
    return token_fail(reader->tokens, token_span(reader->tokens), "regions nest too deeply");
  }
  node->region = graph_region(reader->graph);
  reader->floor = node->op == OP_COMPOSITE ? mark : floor;
  if (!token_expect_mark(reader->tokens, '{')) {
    return false;
  }
  if (token_accept_mark(reader->tokens, '(') && !read_parameters(reader, node->region)) {
    return false;
  }
  if (!read_body(reader, node->region) || !token_expect_mark(reader->tokens, '}')) {
    return false;
  }
  reader->visible.count = mark;
  reader->floor = floor;
  reader->depth--;
  return true;
}

static bool read_attributes(Reader *reader, Node *node) {
  while (!reader->tokens->failed) {
    bool good = true;
    if (token_accept_word(reader->tokens, "over")) {
      good = reader_axes(reader, &node->axes, op_each(node->op));
    } else if (token_accept_word(reader->tokens, "along")) {
      good = reader_axis(reader, &node->axis);
    } else if (token_accept_word(reader->tokens, "to")) {
      good = reader_axis(reader, &node->axis2);
    } else if (token_accept_word(reader->tokens, "integer")) {
      good = token_integer(reader->tokens, INT64_MIN, INT64_MAX, &node->integer);
    } else if (token_accept_word(reader->tokens, "number")) {
      good = token_real(reader->tokens, &node->number);
    } else {
      break;
    }
    if (!good) {
      return false;
    }
  }
  return !reader->tokens->failed;
}

// Op, text, operands, attributes and region.
static bool read_operation(Reader *reader, Node *node) {
  if (!token_is(reader->tokens, TOKEN_WORD) || !op_of(reader->tokens->token.text, &node->op)) {
    return token_fail(reader->tokens, token_span(reader->tokens), "expected an op here");
  }
  if (!token_next(reader->tokens)) {
    return false;
  }
  if (token_is(reader->tokens, TOKEN_STRING) && !token_string(reader->tokens, &node->text)) {
    return false;
  }
  const int figures = op_needed(node->op) & ATTRIBUTE_FIGURES;
  if ((figures & ATTRIBUTE_NUMBER) && !token_real(reader->tokens, &node->number)) {
    return false;
  }
  if ((figures & ATTRIBUTE_INTEGER) && !token_integer(reader->tokens, INT64_MIN, INT64_MAX, &node->integer)) {
    return false;
  }
  ValueList operands = {0};
  if (token_accept_mark(reader->tokens, '(') &&
      !(reader_uses(reader, &operands) && token_expect_mark(reader->tokens, ')'))) {
    return false;
  }
  node->operands = operands.at;
  node->operand_count = operands.count;
  return read_attributes(reader, node) && (!token_is_mark(reader->tokens, '{') || read_region(reader, node));
}

static bool read_tail(Reader *reader, Node *node) {
  if (token_accept_word(reader->tokens, "scope") &&
      !token_int(reader->tokens, -1, reader->graph->scopes.count - 1, &node->scope)) {
    return false;
  }
  node->recomputed = token_accept_word(reader->tokens, "recomputed");
  node->apart = token_accept_word(reader->tokens, "apart");
  node->backward = token_accept_word(reader->tokens, "backward");
  return !token_is(reader->tokens, TOKEN_SPAN) ? !reader->tokens->failed : token_place(reader->tokens, &node->span);
}

typedef struct {
  int32_t number;
  Span span;  // of the number in the text
  Value value;
  bool placed;
} Result;

typedef ARRAY(Result) ResultList;

// %1, %2 =
static bool read_numbers(Reader *reader, ResultList *results) {
  while (token_is(reader->tokens, TOKEN_VALUE)) {
    Result result = {.number = reader->tokens->token.value, .span = token_span(reader->tokens)};
    if (results->count >= READ_MAX_OPERANDS) {
      return token_fail(reader->tokens, result.span, "there are too many values here");
    }
    array_push(reader->graph->arena, results, result);
    if (!token_next(reader->tokens) || !(token_is_mark(reader->tokens, ',') || token_is_mark(reader->tokens, '='))) {
      return token_fail(reader->tokens, token_span(reader->tokens), "expected ',' or '=' here");
    }
    if (token_accept_mark(reader->tokens, '=')) {
      return true;
    }
    if (!token_next(reader->tokens) || !token_is(reader->tokens, TOKEN_VALUE)) {
      return token_fail(reader->tokens, token_span(reader->tokens), "expected a value here");
    }
  }
  return !reader->tokens->failed;
}

static bool add_node(Reader *reader, RegionId region, Node node, ResultList *results, Span span) {
  Graph *graph = reader->graph;
  NodeId id = graph->nodes.count;
  node.result_count = results->count;
  node.first_result = graph->values.count;
  array_push(graph->arena, &graph->nodes, node);
  for (int i = 0; i < results->count; i++) {
    Value value = results->at[i].value;
    value.node = id;
    value.result = i;
    value.span = results->at[i].placed ? value.span : node.span;
    graph_new_value(graph, value);
  }
  const char *wrong = graph_verify_node(graph, id);
  if (wrong) {
    return token_fail(reader->tokens, span, "this '%s' is wrong: %s", op_name(node.op), wrong);
  }
  array_push(graph->arena, &graph->regions.at[region].nodes, id);
  for (int i = 0; i < results->count; i++) {
    if (!reader_define_value(reader, results->at[i].number, node.first_result + i, results->at[i].span)) {
      return false;
    }
  }
  return true;
}

static bool read_node(Reader *reader, RegionId region) {
  Node node = {.axis = -1, .axis2 = -1, .region = -1, .span = SPAN_NONE};
  ResultList results = {0};
  Span span = token_span(reader->tokens);
  if (!read_numbers(reader, &results) || !read_operation(reader, &node)) {
    return false;
  }
  for (int i = 0; i < results.count; i++) {
    Result *result = &results.at[i];
    result->value.name = op_leaf(node.op) ? node.text : NULL;
    if (!token_expect_mark(reader->tokens, i ? ',' : ':') || !reader_result(reader, &result->value, &result->placed)) {
      return false;
    }
  }
  if (!read_tail(reader, &node)) {
    return false;
  }
  span.end = reader->tokens->token.begin;
  return add_node(reader, region, node, &results, span);
}

static bool read_body(Reader *reader, RegionId region) {
  while (!token_is_word(reader->tokens, "return") &&
         (token_is(reader->tokens, TOKEN_VALUE) || token_is(reader->tokens, TOKEN_WORD))) {
    if (!read_node(reader, region)) {
      return false;
    }
  }
  if (token_accept_word(reader->tokens, "return")) {
    ValueList results = {0};
    bool good = reader_uses(reader, &results);
    reader->graph->regions.at[region].results = results;
    return good;
  }
  return !reader->tokens->failed;
}

// ---- Declarations

static bool read_axis_declaration(Reader *reader) {
  Graph *graph = reader->graph;
  Axis axis = {0};
  Span span = token_span(reader->tokens);
  if (!token_name(reader->tokens, &axis.name) || !token_expect_mark(reader->tokens, '=') ||
      !token_integer(reader->tokens, 1, GRAPH_MOST_ELEMENTS, &axis.size)) {
    return false;
  }
  axis.written = axis.name;
  axis.global = axis.size;
  if (token_accept_word(reader->tokens, "global") &&
      !token_integer(reader->tokens, 1, GRAPH_MOST_ELEMENTS, &axis.global)) {
    return false;
  }
  if (map_get_or(&reader->axes, map_key(axis.name), -1) >= 0) {
    return token_fail(reader->tokens, span, "this axis is declared twice");
  }
  map_put(&reader->axes, map_key(axis.name), graph->axes.count);
  map_put(&graph->axis_names, map_key(axis.name), graph->axes.count);
  array_push(graph->arena, &graph->axes, axis);
  return token_expect_mark(reader->tokens, ';');
}

static bool read_scope_declaration(Reader *reader) {
  Graph *graph = reader->graph;
  Scope scope = {.index = -1, .call = SPAN_NONE};
  int number = 0, count = graph->scopes.count;
  Span span = token_span(reader->tokens);
  if (!token_int(reader->tokens, 0, count, &number) || !token_expect_mark(reader->tokens, '=') ||
      !token_int(reader->tokens, -1, number - 1, &scope.parent) || !token_string(reader->tokens, &scope.function) ||
      !token_string(reader->tokens, &scope.path)) {
    return false;
  }
  if (token_accept_word(reader->tokens, "index") &&
      !token_integer(reader->tokens, INT64_MIN, INT64_MAX, &scope.index)) {
    return false;
  }
  if (token_accept_word(reader->tokens, "variable") && !token_string(reader->tokens, &scope.variable)) {
    return false;
  }
  if (number == count) {
    array_push(graph->arena, &graph->scopes, scope);
  } else if (number == 0 && count == 1) {
    graph->scopes.at[0] = scope;
  } else {
    return token_fail(reader->tokens, span, "scopes are numbered in order");
  }
  return token_expect_mark(reader->tokens, ';');
}

// [stack | in ; out]
static bool read_dims(Reader *reader, Persistent *tensor) {
  bool stacked = false;
  if (!token_expect_mark(reader->tokens, '[')) {
    return false;
  }
  while (!token_is_mark(reader->tokens, ']')) {
    if (token_is_mark(reader->tokens, '|') && !stacked && tensor->in_count < 0) {
      stacked = true;
      tensor->stack_count = tensor->shape.count;
    } else if (token_is_mark(reader->tokens, ';') && tensor->in_count < 0) {
      tensor->in_count = tensor->shape.count - tensor->stack_count;
    } else if (!reader_axis_into(reader, &tensor->shape, false)) {
      return false;
    } else if (token_is_mark(reader->tokens, '|') || token_is_mark(reader->tokens, ';')) {
      continue;
    } else if (!token_is_mark(reader->tokens, ',')) {
      break;
    }
    if (!token_next(reader->tokens)) {
      return false;
    }
  }
  return token_expect_mark(reader->tokens, ']');
}

static bool read_persistent(Reader *reader) {
  Graph *graph = reader->graph;
  Persistent tensor = {.in_count = -1, .group = -1, .value = -1, .span = SPAN_NONE};
  int32_t leaf = -1;
  Span span = token_span(reader->tokens);
  if (!role_of(reader->tokens->token.text, &tensor.role) || !token_next(reader->tokens) ||
      !token_string(reader->tokens, &tensor.name) || !token_expect_mark(reader->tokens, ':') ||
      !reader_element_type(reader, &tensor.type)) {
    return false;
  }
  if (token_is_mark(reader->tokens, '[') && !read_dims(reader, &tensor)) {
    return false;
  }
  const char *wrong = graph_verify_shape(graph, &tensor.shape);
  if (wrong) {
    return token_fail(reader->tokens, span, "%s", wrong);
  }
  if (token_accept_word(reader->tokens, "group") && !token_int(reader->tokens, 0, INT32_MAX, &tensor.group)) {
    return false;
  }
  if (token_accept_word(reader->tokens, "scope") &&
      !token_int(reader->tokens, -1, graph->scopes.count - 1, &tensor.scope)) {
    return false;
  }
  if (token_accept_word(reader->tokens, "like") && !token_string(reader->tokens, &tensor.like)) {
    return false;
  }
  if (token_accept_word(reader->tokens, "initial") && !token_real(reader->tokens, &tensor.initial)) {
    return false;
  }
  if (token_is(reader->tokens, TOKEN_VALUE)) {
    leaf = reader->tokens->token.value;
    token_next(reader->tokens);
  }
  if (token_is(reader->tokens, TOKEN_SPAN) && !token_place(reader->tokens, &tensor.span)) {
    return false;
  }
  array_push(graph->arena, &graph->persistent, tensor);
  array_push(graph->arena, &reader->leaves, leaf);
  return token_expect_mark(reader->tokens, ';');
}

static bool read_declarations(Reader *reader) {
  while (!reader->tokens->failed) {
    Role role;
    bool good = true;
    if (token_accept_word(reader->tokens, "axis")) {
      good = read_axis_declaration(reader);
    } else if (token_accept_word(reader->tokens, "scope")) {
      good = read_scope_declaration(reader);
    } else if (token_is(reader->tokens, TOKEN_WORD) && role_of(reader->tokens->token.text, &role)) {
      good = read_persistent(reader);
    } else {
      break;
    }
    if (!good) {
      return false;
    }
  }
  return !reader->tokens->failed;
}

static bool resolve_leaves(Reader *reader, Span span) {
  for (int i = 0; i < reader->leaves.count; i++) {
    int32_t number = reader->leaves.at[i];
    if (number >= 0) {
      Persistent *tensor = &reader->graph->persistent.at[i];
      tensor->value = (ValueId)map_get_or(&reader->values, (uint64_t)number, -1);
      if (tensor->value < 0) {
        return token_fail(reader->tokens, span, "there is no %%%d, the value of a tensor", number);
      }
    }
  }
  return true;
}

Graph *graph_parse(Arena *arena, Names *names, Diag *diag, int source_file) {
  Tokens tokens = tokens_of(arena, names, diag, source_file);
  Reader reader = {.tokens = &tokens};
  reader.axes = map_create(arena);
  reader.values = map_create(arena);
  reader.places = map_create(arena);
  Name name = NULL;
  int slots = 1;
  if (!token_next(&tokens) || !token_expect_word(&tokens, "graph") || !token_name(&tokens, &name) ||
      !token_expect_word(&tokens, "slots") || !token_int(&tokens, 0, READ_MAX_SLOTS, &slots) ||
      !token_expect_mark(&tokens, '{')) {
    return NULL;
  }
  reader.graph = graph_create(arena, names, diag, name);
  reader.graph->slots = slots;
  if (!read_declarations(&reader) || !read_body(&reader, 0)) {
    return NULL;
  }
  Span end = token_span(&tokens);
  if (!token_expect_mark(&tokens, '}') || !resolve_leaves(&reader, end)) {
    return NULL;
  }
  if (!token_is(&tokens, TOKEN_END)) {
    token_fail(&tokens, token_span(&tokens), "the graph has ended before this");
  }
  return tokens.failed ? NULL : reader.graph;
}
