// check_homes.c: whether nothing reads a value behind what is written over it.
//
// homes.c and overwrite.c decide that from the last reader that they find. Here the nodes are walked in the order in
// which they run, what runs again twice, and it is kept which values are gone: the operand that a kernel's result takes
// the memory of, and tensors once their new values are made where they lie, or assigned. Reading one of these, under
// whatever name, in a pack or as a part of something, is refused. Of buffers memory_check.c does the same.
#include "compiler/lower/lower.h"

typedef struct {
  Lower *l;
  ValueId *over;    // by value: 1 + what is written over it; 0: it is there
  ValueId *tensor;  // by value of a tensor: 1 + its first value; of others 0
  bool good;
} Check;

// The value that stands for all nodes of one tensor.
static ValueId tensor_of(const Check *c, ValueId value) {
  return c->tensor[value] ? c->tensor[value] - 1 : value;
}

static void find_tensors(Check *c) {
  Map first = map_create(c->l->c->arena);
  for (int i = 0; i < c->l->graph->nodes.count; i++) {
    const Node *node = graph_node(c->l->graph, i);
    if (op_stored(node->op)) {
      const int64_t value = map_get_or(&first, map_key(node->text), node->first_result);
      map_put(&first, map_key(node->text), value);
      c->tensor[node->first_result] = 1 + (ValueId)value;
    }
  }
}

// What is written over a value, or over what it is a view, a part or a pack of; 0: nothing.
static ValueId over(const Check *c, ValueId value) {
  for (;;) {
    value = graph_inside_segment(c->l->graph, tensor_of(c, value));
    const Node *node = graph_producer(c->l->graph, value);
    const Home *home = &c->l->home[value];
    if (c->over[value] || !node) {
      return c->over[value];
    }
    if (op_view(node->op)) {
      value = node->operands[0];
    } else if (node->op == OP_PACK) {
      ValueId gone = 0;
      for (int i = 0; i < node->operand_count && !gone; i++) {
        gone = c->over[tensor_of(c, node->operands[i])];
      }
      return gone;
    } else if (home->kind == HOME_CONCAT || home->kind == HOME_PAD || home->kind == HOME_PACK) {
      value = home->parent;
    } else {
      return 0;
    }
  }
}

static void read(Check *c, const Node *node, ValueId value) {
  const ValueId by = over(c, value);
  if (by && c->good) {
    const Name name = graph_value(c->l->graph, value)->name, other = graph_value(c->l->graph, by - 1)->name;
    diag_error(c->l->c->diag, E099, node->span,
               "in '%s' the operation '%s' reads '%s' (%%%d), over which '%s' (%%%d) is written before it",
               program_kind_name(c->l->c->program), op_name(node->op), name ? name : "", value, other ? other : "",
               by - 1);
    c->good = false;
  }
}

static void write_over(Check *c, ValueId target, ValueId by) {
  const Node *node = graph_producer(c->l->graph, target);
  c->over[tensor_of(c, target)] = 1 + by;
  for (int i = 0; node && node->op == OP_PACK && i < node->operand_count; i++) {
    c->over[tensor_of(c, node->operands[i])] = 1 + by;
  }
}

// All that a node reads, and what its kernel or its meaning does.
static void read_all(Check *c, const Node *node) {
  const Graph *graph = c->l->graph;
  for (int i = node->op == OP_ASSIGN ? 1 : 0; i < node->operand_count; i++) {
    read(c, node, node->operands[i]);
  }
  for (int i = 0; node->region >= 0 && i < graph->regions.at[node->region].nodes.count; i++) {
    read_all(c, graph_node(graph, graph->regions.at[node->region].nodes.at[i]));
  }
}

static void make(Check *c, const Node *node) {
  for (int i = 0; i < node->result_count; i++) {
    const ValueId result = node->first_result + i;
    const Home *home = &c->l->home[result];
    c->over[result] = 0;
    if (home->kind == HOME_OVER || home->kind == HOME_ASSIGN) {
      write_over(c, home->parent, result);
    }
  }
  if (node->op == OP_ASSIGN && c->l->home[node->operands[1]].kind != HOME_ASSIGN) {
    write_over(c, node->operands[0], node->operands[1]);
  }
}

static void walk(Check *c, RegionId id) {
  const Region *region = &c->l->graph->regions.at[id];
  for (int i = 0; i < region->nodes.count && c->good; i++) {
    const Node *node = graph_node(c->l->graph, region->nodes.at[i]);
    if (op_leaf(node->op) || op_view(node->op) || node->op == OP_PACK) {
      continue;  // whoever reads these reads what they are made of
    }
    if (op_list(node->op)) {
      for (int times = node->op == OP_SEGMENT ? 1 : 2; times > 0; times--) {
        walk(c, node->region);
      }
    } else {
      read_all(c, node);
    }
    make(c, node);
  }
  for (int i = 0; i < region->results.count && c->good; i++) {
    const Node *maker = graph_producer(c->l->graph, region->results.at[i]);
    if (maker) {
      read(c, maker, region->results.at[i]);
    }
  }
}

void check_homes(Lower *l) {
  Check c = {.l = l, .over = ARENA_ARRAY(l->c->arena, ValueId, l->capacity + 1), .good = true};
  c.tensor = ARENA_ARRAY(l->c->arena, ValueId, l->capacity + 1);
  find_tensors(&c);
  walk(&c, 0);
}
