// quantise_choose.c: which products are multiplied in 8 bits, and why others are not.
#include "compiler/precision/codes.h"
#include "compiler/precision/quantise.h"
#include "compiler/spec/products.h"
#include "compiler/spec/selector.h"

enum { SIZE_STEP = 16 };

bool quantiser_eight_bits(ElementType type) {
  return element_type_bytes(type) == 1;
}

static bool sizes_fit(const Graph *graph, const Node *dot) {
  const Shape a = graph_shape(graph, dot->operands[0]), b = graph_shape(graph, dot->operands[1]);
  Shape common = shape_common(a, &b);
  const Shape rows = shape_minus(a, &common), columns = shape_minus(b, &common);
  return graph_elements(graph, rows) % SIZE_STEP == 0 && graph_elements(graph, columns) % SIZE_STEP == 0 &&
         graph_elements(graph, dot->axes) % SIZE_STEP == 0;
}

bool quantiser_is_gradient(const Graph *graph, ValueId value) {
  const Node *node = graph_producer(graph, value);
  return node && node->backward;
}

// Of the product in the forward that is the reason of the gradients.
static const char *forward_refused(const Graph *graph, const Node *dot, const ProductRule *rule) {
  if (!comes_from_parameter(graph, dot->operands[0]) && !comes_from_parameter(graph, dot->operands[1])) {
    return "no operand is a parameter";
  }
  if (codes_stored(graph, dot->operands[0]) || codes_stored(graph, dot->operands[1])) {
    return "its parameter is stored in 8 bits, with other scales";
  }
  return !sizes_fit(graph, dot) ? "a size is no multiple of 16" : rule->block ? quantiser_no_blocks(graph, dot) : NULL;
}

ProductFormats quantiser_formats(const Quantiser *q, const Node *dot) {
  const Graph *graph = q->c->graph;
  ProductFormats formats = {0};
  const Node *forward = !dot->backward ? dot : dot->source >= 0 ? graph_node(graph, dot->source) : NULL;
  const bool known = forward && (forward->op == OP_DOT || forward->op == OP_SCALED_DOT) &&
                     graph_value(graph, dot->first_result)->role != ROLE_UPDATE;
  const ProductRule *rule =
      known && q->c->program == PROGRAM_TRAIN ? product_rule(graph, &q->c->spec->products, forward) : NULL;
  if (!rule || !quantiser_eight_bits(rule->forward)) {
    return formats;
  }
  formats.asked = true;
  formats.rule = rule;
  formats.why = forward_refused(graph, forward, rule);
  if (dot->backward && !formats.why) {
    const bool a = quantiser_is_gradient(graph, dot->operands[0]), b = quantiser_is_gradient(graph, dot->operands[1]);
    formats.why = !quantiser_eight_bits(rule->backward) ? "the policy has it in the base"
                  : a == b                              ? "it is no product of one gradient and a value of the forward"
                  : !sizes_fit(graph, dot)              ? "a size is no multiple of 16"
                  : rule->block                         ? quantiser_no_blocks(graph, dot)
                                                        : NULL;
    formats.type[0] = a ? rule->backward : rule->forward;
    formats.type[1] = b ? rule->backward : rule->forward;
  } else {
    formats.type[0] = formats.type[1] = rule->forward;
  }
  formats.scaled = !formats.why;
  return formats;
}

void quantiser_note(Quantiser *q, NodeId dot, const ProductFormats *formats) {
  const Graph *graph = q->c->graph;
  const Node *node = graph_node(graph, dot), *forward = node->backward ? graph_node(graph, node->source) : node;
  ChosenProduct product = {.backward = node->backward, .why = formats->why};
  for (int i = 0; i < 2; i++) {
    const Name parameter = quantiser_parameter(graph, forward->operands[i]);
    product.weight = parameter ? parameter : product.weight;
    product.type[i] = graph_value(graph, node->operands[i])->type;
  }
  if (!product.weight) {
    product.weight = selector_path(graph, selector_place(graph, forward));
  }
  product.of_weight = node->backward && !comes_from_parameter(graph, node->operands[0]) &&
                      !comes_from_parameter(graph, node->operands[1]);
  array_push(q->c->arena, &q->c->products, product);
}
