// offload.c: which values that the backward reads wait for it in the memory of the host.
//
// Needs an arranged graph, in which it is decided what is kept. Of the values that the forward makes and the backward
// reads, those are marked that a selector of the layout's `offload` names: by what makes them, or by what reads them.
// The mark says which selected scope they belong to, a layer for example. Which of them are worth it, and when they
// travel, is decided where there are instructions (lower_offload.c).
#include "compiler/pass/compilation.h"
#include "compiler/spec/selector.h"

typedef struct {
  Compilation *c;
  Graph *graph;
  Map marked;  // values and the rules that select them
} Offloading;

// The scope that a selector names for an operation, or for a value where there is one; -1: it does not.
static ScopeId selected(const Offloading *o, Name selector, const Node *node, const Value *value) {
  const ScopeId unit = selector_unit(o->graph, selector, node->scope);
  SelectorPlace place = {.scope = node->scope};
  if (value) {
    place.value = value->name;
    place.label = value->label;
  }
  return unit >= 0 ? unit : selector_matches_itself(o->graph, selector, place) ? node->scope : -1;
}

// For the first time?
static bool mark(Offloading *o, ValueId value, int rule) {
  int64_t known;
  if (map_get_bytes(&o->marked, MAP_KEY((uint64_t)value, (uint64_t)rule), &known)) {
    return false;
  }
  map_put_bytes(&o->marked, MAP_KEY((uint64_t)value, (uint64_t)rule), 1);
  array_push(o->c->arena, &o->c->offload_marks, ((OffloadMark){value, rule}));
  return true;
}

// Where the memory comes from that a value is a view of.
static ValueId origin(const Graph *graph, ValueId value) {
  for (const Node *node = graph_producer(graph, value); node; node = graph_producer(graph, value)) {
    bool apart = node->op == OP_SHARD && graph->axes.at[node->axis2].zigzag && !graph->axes.at[node->axis].zigzag;
    if (node->op == OP_SEGMENT) {
      value = graph->regions.at[node->region].results.at[graph_value(graph, value)->result];
    } else if (op_alias(node->op) || (node->op == OP_SHARD && !apart)) {
      value = node->operands[0];
    } else {
      break;
    }
  }
  return value;
}

// What a kernel that several operations became returns is made by one of them.
static ValueId maker_of(const Graph *graph, ValueId value) {
  const Node *node = graph_producer(graph, value);
  return node && node->op == OP_GROUP ? graph->regions.at[node->region].results.at[graph_value(graph, value)->result]
                                      : value;
}

static void read_by(Offloading *o, const Node *reader, ValueId operand) {
  const Graph *graph = o->graph;
  ValueId value = origin(graph, operand);
  const ValueId inner = maker_of(graph, value);
  const Node *maker = graph_producer(graph, inner), *kernel = graph_producer(graph, value);
  if (!maker || graph_is_backward(graph, kernel) || op_leaf(maker->op) ||
      graph_value(graph, inner)->role != ROLE_ACTIVATION) {
    return;
  }
  for (int i = 0; i < o->c->spec->offload.count; i++) {
    const Name selector = o->c->spec->offload.at[i].name;
    ScopeId scope = selected(o, selector, reader, NULL);
    scope = scope >= 0 ? scope : selected(o, selector, maker, graph_value(graph, inner));
    if (scope >= 0 && mark(o, value, i) && !graph_value(graph, value)->offload) {
      graph_value(graph, value)->offload = scope + 1;
    }
  }
}

static void walk(Offloading *o, RegionId region, bool kernel) {
  const NodeList nodes = o->graph->regions.at[region].nodes;
  for (int i = 0; i < nodes.count; i++) {
    const Node *node = graph_node(o->graph, nodes.at[i]);
    const bool backward = kernel || graph_is_backward(o->graph, node);
    if (op_body(node->op) || (node->op == OP_GROUP && backward)) {
      walk(o, node->region, node->op == OP_GROUP);
    } else if (backward && !op_alias(node->op)) {
      for (int j = 0; j < node->operand_count; j++) {
        read_by(o, node, node->operands[j]);
      }
    }
  }
}

bool pass_offload(Compilation *c) {
  if (c->spec->offload.count == 0) {
    return pass_changed_nothing(c);
  }
  Offloading o = {c, c->graph, map_create(c->arena)};
  walk(&o, 0, false);
  return true;
}
