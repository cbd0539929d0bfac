// stages_steady.c: where what depends on persistent tensors alone is made. See stages.h.
#include <string.h>

#include "compiler/pipeline/stages_place.h"

void placing_find_there(Placing *p) {
  for (int i = 0; i < p->order.count; i++) {
    const Node *node = graph_node(p->graph, p->order.at[i]);
    if (!node->result_count || !p->bound[node->first_result] || !p->steady[node->first_result]) {
      continue;
    }
    uint64_t *there = ARENA_ARRAY(p->arena, uint64_t, p->stages->words);
    int tensor = p->tensor[node->first_result], stage = p->stages->node[p->order.at[i]];
    memset(there, 0xff, sizeof *there * (size_t)p->stages->words);
    if (tensor >= 0) {
      memcpy(there, p->stages->holders[tensor], sizeof *there * (size_t)p->stages->words);
    } else if (stage >= 0) {
      memset(there, 0, sizeof *there * (size_t)p->stages->words);
      stage_add(there, placing_stage(p, stage));
    }
    for (int j = 0; stage < 0 && j < node->operand_count; j++) {
      const uint64_t *of = p->there[node->operands[j]];
      for (int w = 0; of && w < p->stages->words; w++) {
        there[w] &= of[w];
      }
    }
    for (int j = 0; j < node->result_count; j++) {
      p->there[node->first_result + j] = there;
    }
  }
}

static void need(Placing *p, ValueId value, const uint64_t *stages) {
  if (!p->bound[value] || !p->steady[value]) {
    return;
  }
  uint64_t **needed = &p->stages->needed[value];
  *needed = *needed ? *needed : ARENA_ARRAY(p->arena, uint64_t, p->stages->words);
  for (int w = 0; w < p->stages->words; w++) {
    (*needed)[w] |= stages[w];
  }
}

static void need_operands(Placing *p, const Node *node, const uint64_t *stages) {
  for (int i = 0; i < node->operand_count; i++) {
    need(p, node->operands[i], stages);
  }
}

// The stage that makes it once for all: one that needs it and has all its tensors, else one that has them, else the one
// that makes its largest operand.
int placing_once_on(const Placing *p, ValueId value, const uint64_t *needed) {
  const Node *node = graph_producer(p->graph, value);
  int stage = p->at[value], count = p->stages->stages;
  for (int pass = needed ? 0 : 1; stage < 0 && pass < 2; pass++) {
    for (int s = 0; stage < 0 && s < count; s++) {
      stage = p->there[value] && stage_in(p->there[value], s) && (pass || stage_in(needed, s)) ? s : stage;
    }
  }
  int64_t most = -1;
  ValueId largest = -1;
  for (int i = 0; stage < 0 && i < node->operand_count; i++) {
    ValueId operand = node->operands[i];
    if (p->bound[operand] && placing_elements(p, operand) > most) {
      most = placing_elements(p, operand);
      largest = operand;
    }
  }
  return stage >= 0 ? stage : largest >= 0 ? placing_once_on(p, largest, NULL) : 0;
}

// What the microbatches return of it has one stage, as what is made of data has.
void placing_steady_results(Placing *p) {
  for (int i = 0; i < p->order.count; i++) {
    const Node *node = graph_node(p->graph, p->order.at[i]);
    for (int j = 0; p->in_body[p->order.at[i]] && j < node->result_count; j++) {
      ValueId value = node->first_result + j;
      if (p->result[value] && p->bound[value] && p->steady[value]) {
        placing_put(p, p->order.at[i], placing_once_on(p, value, NULL));
      }
    }
  }
}

static bool all_there(const Placing *p, const uint64_t *needed, const uint64_t *there) {
  bool all = true;
  for (int w = 0; w < p->stages->words; w++) {
    all &= (needed[w] & ~there[w]) == 0;
  }
  return all;
}

// Larger than all that it is made of: those are sent rather than it.
static bool grows(const Placing *p, const Node *node) {
  int64_t of = 0;
  for (int i = 0; i < node->operand_count; i++) {
    of += p->bound[node->operands[i]] ? placing_elements(p, node->operands[i]) : 0;
  }
  return placing_elements(p, node->first_result) > of;
}

static void place_steady_node(Placing *p, NodeId id) {
  const Node *node = graph_node(p->graph, id);
  ValueId value = node->first_result;
  uint64_t *needed = ARENA_ARRAY(p->arena, uint64_t, p->stages->words);
  bool any = false;
  for (int i = 0; i < node->result_count; i++) {
    for (int w = 0; p->stages->needed[value + i] && w < p->stages->words; w++) {
      needed[w] |= p->stages->needed[value + i][w];
      any = true;
    }
  }
  if (any && (all_there(p, needed, p->there[value]) || grows(p, node))) {
    for (int i = 0; i < node->result_count; i++) {
      p->stages->needed[value + i] = needed;
    }
    need_operands(p, node, needed);
  } else if (any) {
    int stage = placing_once_on(p, value, needed);
    uint64_t *on = ARENA_ARRAY(p->arena, uint64_t, p->stages->words);
    stage_add(on, stage);
    placing_put(p, id, stage);
    p->stages->once[id] = p->in_body[id];
    need_operands(p, node, on);
  }
}

void placing_steady(Placing *p) {
  for (int i = p->order.count - 1; i >= 0; i--) {
    NodeId id = p->order.at[i];
    const Node *node = graph_node(p->graph, id);
    int stage = p->stages->node[id];
    bool effect = op_effect(node->op) && stage < 0 && placing_bound(p, node);
    if (effect) {  // an output of what is steady
      stage = placing_once_on(p, node->operands[0], NULL);
      placing_put(p, id, stage);
    }
    if (stage >= 0) {
      uint64_t *on = ARENA_ARRAY(p->arena, uint64_t, p->stages->words);
      stage_add(on, placing_stage(p, stage));
      need_operands(p, node, on);
    } else if (node->result_count && !op_leaf(node->op) && p->bound[node->first_result] &&
               p->steady[node->first_result]) {
      place_steady_node(p, id);
    }
  }
}
