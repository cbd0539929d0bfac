// empty_rows.c: blocks of rows that no position is in are left out where nobody reads them.
//
// The axis of the blocks of an ORDER has room for whatever positions choose; how many blocks are in use is known on the
// device alone, by what each has chosen (-1: nothing). Comes behind chunk, when kernels are what they will be. It
// changes no value that is defined, but says of kernels, lookups into rows and products with chosen matrices that their
// results are undefined in such blocks: of those that have the axis, and whose readers do not need them there. A reader
// does not if it says the same of its own results, if it goes by the positions or by the choices of the same order, or
// if it is a view that only such readers read. Rows of padding, in blocks that are in use, stay what they are.
#include "compiler/pass/compilation.h"

typedef struct {
  Graph *graph;
  NodeId *order;  // by value: 1 + the ORDER that its blocks, or the rows that they are merged to, are of; 0: of none
  bool *whole;    // by value: somebody reads all blocks
} Empty;

static ValueId inside(const Empty *e, ValueId value) {
  const Node *node = graph_producer(e->graph, value);
  while (node && node->op == OP_SEGMENT) {
    value = e->graph->regions.at[node->region].results.at[graph_value(e->graph, value)->result];
    node = graph_producer(e->graph, value);
  }
  return value;
}

static AxisId blocks_of_order(const Empty *e, NodeId order) {
  const Shape *axes = &graph_node(e->graph, order - 1)->axes;
  return axes->axis[axes->count - 2];
}

// The order whose blocks the value has as an axis; 0: it has none.
static NodeId order_of(const Empty *e, ValueId value) {
  const NodeId order = e->order[inside(e, value)];
  const Shape shape = graph_shape(e->graph, value);
  return order > 0 && shape_has(&shape, blocks_of_order(e, order)) ? order : 0;
}

// Is it a result of this order: 0 the row of each position, 1 the position of each row, 2 what each block has chosen?
static bool is_result(const Empty *e, ValueId value, NodeId order, int result) {
  value = inside(e, value);
  return order > 0 && graph_value(e->graph, value)->node == order - 1 && graph_value(e->graph, value)->result == result;
}

// --- which order a value is of ---

// Of what a kernel reads; -1: of several.
static NodeId order_of_group(const Empty *e, const Node *group) {
  const NodeList *nodes = &e->graph->regions.at[group->region].nodes;
  NodeId order = 0;
  for (int i = 0; i < nodes->count; i++) {
    const Node *node = graph_node(e->graph, nodes->at[i]);
    for (int j = 0; j < node->operand_count; j++) {
      const NodeId of = order_of(e, node->operands[j]);
      order = of == 0 || of == order ? order : order == 0 ? of : -1;
    }
  }
  return order;
}

// Nothing is reduced over blocks in it.
static bool by_blocks(const Empty *e, const Node *group, AxisId blocks) {
  const NodeList *nodes = &e->graph->regions.at[group->region].nodes;
  bool good = true;
  for (int i = 0; i < nodes->count; i++) {
    const Node *node = graph_node(e->graph, nodes->at[i]);
    good = good && !(op_reduction(node->op) && shape_has(&node->axes, blocks));
  }
  return good;
}

// A merge of the blocks and their rows, as they are numbered, or a view that keeps the blocks.
static NodeId order_of_view(const Empty *e, const Node *node) {
  const NodeId order = e->order[inside(e, node->operands[0])];
  const Shape shape = graph_shape(e->graph, node->first_result);
  const bool merged = order > 0 && node->op == OP_MERGE && node->axis2 == graph_node(e->graph, order - 1)->axis2;
  const bool kept = order > 0 && shape_has(&shape, blocks_of_order(e, order));
  return merged || kept ? order : 0;
}

static void find_orders(Empty *e, RegionId region) {
  const NodeList nodes = e->graph->regions.at[region].nodes;
  for (int i = 0; i < nodes.count; i++) {
    const Node *node = graph_node(e->graph, nodes.at[i]);
    NodeId order = 0;
    if (node->op == OP_ORDER) {
      e->order[node->first_result + 1] = e->order[node->first_result + 2] = 1 + nodes.at[i];
      continue;
    }
    if (node->op == OP_GROUP) {
      order = order_of_group(e, node);
    } else if (node->op == OP_TAKE) {
      order = order_of(e, node->operands[1]);
    } else if (node->op == OP_CHOSEN_DOT || node->op == OP_CHOSEN_DOTS) {
      order = order_of(e, node->operands[node->operand_count - 1]);
    } else if (op_alias(node->op)) {
      order = order_of_view(e, node);
    }
    for (int j = 0; j < node->result_count && order > 0; j++) {
      e->order[node->first_result + j] = order;
    }
    if (node->region >= 0 && node->op != OP_GROUP) {
      find_orders(e, node->region);
    }
  }
}

// --- who reads all blocks ---

static void need(Empty *e, ValueId value) {
  e->whole[value] = e->whole[inside(e, value)] = true;
}

static bool is_left(const Empty *e, const Node *node, NodeId order) {
  bool left = order > 0;
  for (int i = 0; i < node->result_count; i++) {
    const ValueId result = node->first_result + i;
    left = left && order_of(e, result) == order && !e->whole[result];
  }
  return left;
}

static bool group_leaves(const Empty *e, const Node *node) {
  const NodeId order = order_of_group(e, node);
  return order > 0 && is_left(e, node, order) && by_blocks(e, node, blocks_of_order(e, order));
}

static void need_of_group(Empty *e, const Node *group) {
  const NodeList *nodes = &e->graph->regions.at[group->region].nodes;
  const bool left = group_leaves(e, group);
  for (int i = 0; i < nodes->count; i++) {
    const Node *node = graph_node(e->graph, nodes->at[i]);
    for (int j = 0; j < node->operand_count; j++) {
      if (!left || order_of(e, node->operands[j]) == 0) {
        need(e, node->operands[j]);
      }
    }
  }
}

// Whether a node reads the blocks of its operand that are in use alone.
static bool reads_used(const Empty *e, const Node *node, int operand) {
  const ValueId value = node->operands[operand], last = node->operands[node->operand_count - 1];
  const NodeId order = order_of(e, value);
  switch (node->op) {
    case OP_CHOSEN_DOT:
    case OP_CHOSEN_DOTS:
    case OP_CHOSEN_SUM:  // rows of blocks without a choice are not read
      return is_result(e, last, order, 2);
    case OP_TAKE:
    case OP_TAKE_SUM: {
      const NodeId rows = e->order[inside(e, value)];
      const bool merged = order == 0 && rows > 0 && node->axis == graph_node(e->graph, rows - 1)->axis2;
      return operand == 0 ? merged && is_result(e, last, rows, 0)
                          : node->op == OP_TAKE && order > 0 && is_left(e, node, order);
    }
    case OP_PUT:  // what no block has chosen, or no row has, is added nowhere
      return operand == 0 && (is_result(e, last, order, 1) || is_result(e, last, order, 2));
    default:
      return op_alias(node->op) && e->order[node->first_result] > 0 && !e->whole[node->first_result];
  }
}

static void find_needs(Empty *e, RegionId region) {
  const NodeList nodes = e->graph->regions.at[region].nodes;
  for (int i = nodes.count - 1; i >= 0; i--) {
    const Node *node = graph_node(e->graph, nodes.at[i]);
    if (node->op == OP_GROUP) {
      need_of_group(e, node);
      continue;
    }
    for (int j = 0; j < node->operand_count; j++) {
      if (!reads_used(e, node, j)) {
        need(e, node->operands[j]);
      }
    }
    if (node->region < 0) {
      continue;
    }
    const ValueList *results = &e->graph->regions.at[node->region].results;
    for (int j = 0; j < results->count; j++) {
      if (node->op != OP_SEGMENT || e->whole[node->first_result + j]) {
        need(e, results->at[j]);
      }
    }
    find_needs(e, node->region);
  }
}

// --- saying so ---

// What the blocks of an order have chosen, as it is read in a region; -1: nothing there reads it.
static ValueId chosen_in(const Empty *e, const NodeList *nodes, NodeId order) {
  for (int i = 0; i < nodes->count; i++) {
    const Node *node = graph_node(e->graph, nodes->at[i]);
    if (nodes->at[i] == order - 1) {
      return node->first_result + 2;
    }
    for (int j = 0; j < node->operand_count && node->region < 0; j++) {
      const NodeId home = graph_value(e->graph, node->operands[j])->node;
      const bool segment = home >= 0 && graph_node(e->graph, home)->op == OP_SEGMENT;
      if (segment && is_result(e, node->operands[j], order, 2)) {
        return node->operands[j];
      }
    }
  }
  return -1;
}

static void give(const Empty *e, Node *node, ValueId chosen) {
  ValueId *operands = ARENA_ARRAY(e->graph->arena, ValueId, node->operand_count + 1);
  for (int i = 0; i < node->operand_count; i++) {
    operands[i] = node->operands[i];
  }
  operands[node->operand_count++] = chosen;
  node->operands = operands;
}

static bool leave(Empty *e, RegionId region) {
  const NodeList nodes = e->graph->regions.at[region].nodes;
  bool any = false;
  for (int i = 0; i < nodes.count; i++) {
    Node *node = graph_node(e->graph, nodes.at[i]);
    if (node->op == OP_GROUP || node->op == OP_TAKE) {
      const bool group = node->op == OP_GROUP;
      const NodeId order = group ? order_of_group(e, node) : order_of(e, node->operands[1]);
      const bool left = group ? group_leaves(e, node) : is_left(e, node, order);
      const ValueId chosen = left ? chosen_in(e, &nodes, order) : -1;
      if (chosen >= 0) {
        give(e, node, chosen);
        any = true;
      }
    } else if (node->op == OP_CHOSEN_DOT || node->op == OP_CHOSEN_DOTS) {
      node->integer = is_left(e, node, order_of(e, node->operands[node->operand_count - 1]));
      any |= node->integer != 0;
    } else if (node->region >= 0) {
      any |= leave(e, node->region);
    }
  }
  return any;
}

static bool any_order(const Graph *graph) {
  for (int i = 0; i < graph->nodes.count; i++) {
    if (graph_node(graph, i)->op == OP_ORDER) {
      return true;
    }
  }
  return false;
}

bool pass_empty_rows(Compilation *c) {
  Graph *graph = c->graph;
  if (!any_order(graph)) {
    return pass_changed_nothing(c);
  }
  Empty e = {.graph = graph};
  e.order = ARENA_ARRAY(c->arena, NodeId, graph->values.count + 1);
  e.whole = ARENA_ARRAY(c->arena, bool, graph->values.count + 1);
  find_orders(&e, 0);
  find_needs(&e, 0);
  return leave(&e, 0) || pass_changed_nothing(c);
}
