// overwrite.c: what a kernel makes, written over an operand that nothing reads afterwards.
//
// The operand has every element of the kernel's space, as the result has, of the same type and with the same strides:
// kernels write only what they have read (kernel.h). So a gradient of logits takes no memory beside the logits.
#include <string.h>

#include "compiler/ir/dots.h"
#include "compiler/lower/lower.h"

typedef struct {
  Lower *l;
  RegionId region;  // at hand
  RegionId *home;   // by node: the region that it stands in
  int *last;        // by value: the place of the last node of the region that reads it
  bool *shared;     // by value: read by something that may look at it later, or under another name
} Lives;

static bool made_here(const Lives *lives, ValueId value) {
  NodeId maker = graph_value(lives->l->graph, value)->node;
  return maker >= 0 && lives->home[maker] == lives->region;
}

static void note_reading(Lives *lives, const Node *node, int at, bool at_once) {
  const Graph *graph = lives->l->graph;
  for (int i = 0; i < node->operand_count; i++) {
    if (made_here(lives, node->operands[i])) {
      lives->last[node->operands[i]] = at;
      lives->shared[node->operands[i]] |= !at_once;
    }
  }
  for (int i = 0; node->region >= 0 && i < graph->regions.at[node->region].nodes.count; i++) {
    note_reading(lives, graph_node(graph, graph->regions.at[node->region].nodes.at[i]), at, at_once);
  }
  for (int i = 0; node->region >= 0 && i < graph->regions.at[node->region].results.count; i++) {
    ValueId value = graph->regions.at[node->region].results.at[i];
    lives->shared[value] |= made_here(lives, value);
  }
}

static bool of_own(const Lower *l, ValueId value) {
  return l->home[value].kind == HOME_OWN || l->home[value].kind == HOME_OVER;
}

static bool same_shape(const Shape *a, const Shape *b) {
  bool same = a->count == b->count;
  for (int i = 0; same && i < a->count; i++) {
    same = a->axis[i] == b->axis[i];
  }
  return same;
}

// Does the kernel read this value where it may write over it?
static bool ends_here(const Lives *lives, const Node *group, int at, ValueId value, ValueId result) {
  const Lower *l = lives->l;
  const Value *old = graph_value(l->graph, value), *made = graph_value(l->graph, result);
  const Node *node = graph_producer(l->graph, value);
  const bool moves = old->offload || made->offload;  // to the host and back, in buffers of its own
  return node && !moves && op_reads_once(node->op) && made_here(lives, value) && of_own(l, value) &&
         lives->last[value] == at && !lives->shared[value] && old->type == made->type &&
         shape_same_set(&old->shape, &group->axes) && same_shape(&old->shape, &made->shape) &&
         l->aligned[value] == l->aligned[result];
}

static void decide_group(Lives *lives, const Node *group, int at) {
  Lower *l = lives->l;
  const NodeList *nodes = &l->graph->regions.at[group->region].nodes;
  for (int r = 0; r < group->result_count; r++) {
    ValueId result = group->first_result + r;
    for (int i = 0; i < nodes->count && l->home[result].kind == HOME_OWN; i++) {
      const Node *node = graph_node(l->graph, nodes->at[i]);
      for (int j = 0; j < node->operand_count && l->home[result].kind == HOME_OWN; j++) {
        ValueId value = node->operands[j];
        if (ends_here(lives, group, at, value, result)) {
          l->home[result] = (Home){.kind = HOME_OVER, .parent = value};
          lives->shared[value] = true;  // by nothing else
        }
      }
    }
  }
}

static void decide_region(Lives *lives, RegionId id) {
  const Graph *graph = lives->l->graph;
  const Region *region = &graph->regions.at[id];
  lives->region = id;
  for (int i = 0; i < region->nodes.count; i++) {
    const Node *node = graph_node(graph, region->nodes.at[i]);
    note_reading(lives, node, i, op_reads_once(node->op));
  }
  for (int i = 0; i < region->results.count; i++) {
    lives->shared[region->results.at[i]] = true;
  }
  for (int i = 0; i < region->nodes.count; i++) {
    const Node *node = graph_node(graph, region->nodes.at[i]);
    if (node->op == OP_GROUP) {
      decide_group(lives, node, i);
    }
  }
}

static void find_homes(Lives *lives, RegionId id) {
  const Region *region = &lives->l->graph->regions.at[id];
  for (int i = 0; i < region->nodes.count; i++) {
    const Node *node = graph_node(lives->l->graph, region->nodes.at[i]);
    lives->home[region->nodes.at[i]] = id;
    if (node->region >= 0) {
      find_homes(lives, node->region);
    }
  }
}

static void decide_inside(Lives *lives, RegionId id) {
  const Region *region = &lives->l->graph->regions.at[id];
  decide_region(lives, id);
  for (int i = 0; i < region->nodes.count; i++) {
    const Node *node = graph_node(lives->l->graph, region->nodes.at[i]);
    if (op_list(node->op)) {
      decide_inside(lives, node->region);
    }
  }
}

void decide_overwritten(Lower *l) {
  Lives lives = {.l = l};
  lives.last = ARENA_ARRAY(l->c->arena, int, l->capacity + 1);
  lives.shared = ARENA_ARRAY(l->c->arena, bool, l->capacity + 1);
  lives.home = ARENA_ARRAY(l->c->arena, RegionId, l->graph->nodes.count + 1);
  memset(lives.home, -1, sizeof *lives.home * (size_t)(l->graph->nodes.count + 1));
  find_homes(&lives, 0);
  decide_inside(&lives, 0);
}
