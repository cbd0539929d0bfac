// products.c: see products.h.
#include "compiler/spec/products.h"

#include "compiler/spec/selector.h"

const ProductRule *product_rule(const Graph *graph, const ProductRules *rules, const Node *dot) {
  const SelectorPlace place = selector_place(graph, dot);
  const ProductRule *found = NULL;
  int best = -1;
  for (int i = 0; i < rules->count; i++) {
    const ProductRule *rule = &rules->at[i];
    const Name selector = rule->selector.name;
    const int rank = selector_rank(selector);
    if (rank >= best && (!selector || selector_matches(graph, selector, place))) {
      found = rule;
      best = rank;
    }
  }
  return found;
}

bool product_is_wide_under(const Graph *graph, const Spec *spec, const ProductRules *rules, const Node *dot) {
  const Node *forward = !dot->backward ? dot : dot->source >= 0 ? graph_node(graph, dot->source) : NULL;
  const bool known = forward && (op_dots(forward->op) || op_chosen(forward->op)) && rules->count > 0;
  const ProductRule *rule = known ? product_rule(graph, rules, forward) : NULL;
  return rule && rule->forward == TYPE_F32 && element_type_bytes(spec->formats.dot) < element_type_bytes(TYPE_F32);
}

bool product_is_wide(const Graph *graph, const Spec *spec, const Node *dot) {
  return product_is_wide_under(graph, spec, &spec->products, dot);
}

ValueId product_gradient_of(const Graph *graph, const Node *dot) {
  const Node *forward = graph_node(graph, dot->source);
  const Shape shape = graph_shape(graph, dot->first_result);
  for (int i = 0; i < 2; i++) {
    const Shape of = graph_shape(graph, forward->operands[i]);
    if (shape_same_set(&of, &shape)) {
      return forward->operands[i];
    }
  }
  return -1;
}
