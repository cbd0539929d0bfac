// stages_place.h: what deciding where everything is done works on, for stages_place.c, stages_forward.c and
// stages_steady.c.
#ifndef MDL_COMPILER_PIPELINE_STAGES_PLACE_H
#define MDL_COMPILER_PIPELINE_STAGES_PLACE_H

#include "compiler/pipeline/stages.h"

typedef struct {
  Arena *arena;
  Graph *graph;
  const Spec *spec;
  const Tenancy *known;
  Stages *stages;
  NodeList order;  // all nodes; those of a microbatch's body stand before it
  int updates;     // from here on in that order nodes stand behind the microbatches
  bool *in_body;   // by node
  bool *listed;    // by node: what is not was replaced, such as by one in front of the microbatches
  bool *result;    // by value: the microbatches give it, and read it nowhere themselves
  bool *bound;     // by value: depends on a persistent tensor
  bool *steady;    // by value: and on nothing that differs between microbatches
  bool *layered;   // by value: bound, not steady, and depends on an iteration
  int *at;         // by value: the virtual stage it is made on, or STAGE_ANY
  int *tensor;     // by value: which persistent tensor it is, or -1
  NodeId *reader;  // by value: the one node of the forward that reads it, or -1
  int *latest;     // by value, of a part of a sum that waits for the rest: the latest stage of its terms, or STAGE_ANY
  int *wanted;     // by value: the latest stage where something that reads it in the backward belongs, or STAGE_ANY
  int *packed;     // by value: where it is packed with other gradients, or STAGE_ANY
  uint64_t **there;  // by value, of steady ones: the stages that have all its tensors, as bits
} Placing;

enum { PLACING_PENDING = -2 };  // a stage that depends on those of what reads it

static inline int placing_stage(const Placing *p, int at) {
  return at % p->stages->stages;
}

static inline int64_t placing_elements(const Placing *p, ValueId value) {
  return graph_elements(p->graph, graph_shape(p->graph, value));
}

static inline void placing_put(Placing *p, NodeId id, int stage) {
  const Node *node = graph_node(p->graph, id);
  p->stages->node[id] = stage;
  for (int i = 0; i < node->result_count; i++) {
    p->at[node->first_result + i] = stage;
  }
}

static inline bool placing_bound(const Placing *p, const Node *node) {
  bool bound = false;
  for (int i = 0; i < node->operand_count; i++) {
    bound |= p->bound[node->operands[i]];
  }
  return bound;
}

static inline int placing_natural(const Placing *p, ScopeId scope) {
  int iteration = stages_iteration(p->graph, p->spec, scope);
  return iteration < 0 ? STAGE_ANY : stages_of_iteration(p->stages, iteration);
}

// Does it depend on data and on persistent tensors? Then it is done on one stage.
static inline bool placing_placed(const Placing *p, const Node *node) {
  return node->op != OP_MICROBATCH && node->result_count > 0 && p->bound[node->first_result] &&
         !p->steady[node->first_result];
}

// Does it give its operand itself in another format, form or arrangement? Where owners are decided no such operation is
// there yet; so wherever it is put in, and for whom, it moves nothing else to another stage.
static inline bool placing_carries(const Node *node) {
  return node->op == OP_CAST || node->op == OP_SHARD || op_collective(node->op);
}

// The value that is carried.
static inline ValueId placing_carried(const Placing *p, ValueId value) {
  const Node *node = graph_producer(p->graph, value);
  while (node && placing_carries(node)) {
    value = node->operands[0];
    node = graph_producer(p->graph, value);
  }
  return value;
}

// The tensor that a value is, in another format, form or arrangement, or out of a pack; or -1.
int placing_tensor(const Placing *p, ValueId value);

// stages_forward.c
void placing_forward(Placing *p);
void placing_forward_homes(Placing *p);  // nothing that reads a parameter is before the stage of its gradient's pack
bool placing_flows(const Placing *p);    // no iteration needs what a later stage makes; reports the first that does

// stages_steady.c, once it is known which stages have which tensors.
void placing_find_there(Placing *p);      // the stages that have all tensors of what is steady
void placing_steady_results(Placing *p);  // what the microbatches return of it has one stage
int placing_once_on(const Placing *p, ValueId value, const uint64_t *needed);  // the stage that makes it for all
void placing_steady(Placing *p);  // decides which of it is made wherever it is needed, and what once

#endif
