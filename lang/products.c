// products.c: see products.h.
#include "lang/products.h"

#include "lang/selector.h"

const ProductRule *product_rule(const Graph *graph, const ProductRules *rules, const Node *dot) {
  const SelectorPlace place = selector_place(graph, dot);
  const ProductRule *found = NULL;
  int best = -1;
  for (int i = 0; i < rules->count; i++) {
    const ProductRule *rule = &rules->at[i];
    const Name selector = rule->selector ? rule->selector->name : NULL;
    const int rank = selector_rank(selector);
    if (rank >= best && (!selector || selector_matches(graph, selector, place))) {
      found = rule;
      best = rank;
    }
  }
  return found;
}
