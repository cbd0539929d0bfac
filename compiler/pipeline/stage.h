// stage.h: what the files of the stage pass share: the messages between stages, and the segments of one stage.
#ifndef MDL_COMPILER_PIPELINE_STAGE_H
#define MDL_COMPILER_PIPELINE_STAGE_H

#include "compiler/pipeline/stages.h"
#include "compiler/shard/shard.h"

typedef enum {
  PART_FORWARD = ACTION_FORWARD,
  PART_BACKWARD = ACTION_BACKWARD,
  PART_WEIGHTS = ACTION_WEIGHTS,
  PART_COUNT
} Part;

typedef struct {
  ValueId value;
  int to;        // virtual stage; outside of microbatches the stage
  Part part;     // of the receiving chunk
  int channel;   // the same on all stages
  bool leaves;   // another part of the receiving chunk reads it too
  ValueId here;  // what it is on the receiving stage
  int next;      // of the same value, or -1
} Message;

typedef struct {  // what is steady, on one of the virtual stages that need it: made in the first part that reads it
  ValueId value;
  int at;
  Part part;
  bool leaves;   // another part reads it too
  ValueId here;  // what it is in those
  int next;      // of the same value, or -1
} Instance;

typedef struct {  // a node, and the operands that it had
  Node *node;
  ValueId *operands;
} Changed;

typedef struct StageCut {
  Compilation *c;
  Graph *graph;
  const Stages *stages;
  int limit;      // values of the graph before
  uint8_t *part;  // by node
  bool *leaves;   // by value: read outside of the segment that makes it
  bool *in_body;  // by node
  int *first;     // by value: its first message, or -1
  ARRAY(Message) messages;
  int *steady;  // by value: its first instance, or -1
  ARRAY(Instance) instances;
  int channels;
  // Of one stage:
  int stage;
  ValueId *moved;  // by value: what stands for it outside of its segment, or -1
  Map clones;      // value and segment to the copy there
  ARRAY(Changed) changed;
} Cut;

typedef struct {  // a value of the graph before, as it is made here, and what stands for it outside
  ValueId value, made, *outside;
} Leaving;

typedef struct {
  int at;  // virtual stage
  Part part;
  int number;
  ARRAY(Leaving) leaving;
} Segment;

// The virtual stage of a value of the graph before, or STAGE_ANY, and the stage on which a virtual one lies.
static inline int stage_at(const Cut *cut, ValueId value) {
  return stages_of_value(cut->stages, value);
}

static inline int lies_on(const Cut *cut, int virtual_stage) {
  return virtual_stage < 0 ? STAGE_ANY : virtual_stage % cut->stages->stages;
}

// stage_plan.c: the same cut for a view of its graph, c->graph.
Cut *stage_cut_view(const Cut *cut, Compilation *c);

// stage.c: nodes of the whole graph have other operands on this stage, until the stage is made.
void stage_set_operand(Cut *cut, NodeId id, int operand, ValueId value);

// stage_messages.c: what has to travel. False: something was reported.
bool stage_plan_body(Cut *cut, const Region *body);
void stage_plan_top(Cut *cut, const NodeList *nodes);

Message *stage_message(const Cut *cut, ValueId value, int to);
Instance *stage_instance(const Cut *cut, ValueId value, int at);
int stage_landing(const Cut *cut, int from, int to);
ValueId stage_top_here(const Cut *cut, ValueId value);  // what a value from outside of microbatches is on this stage

ValueId stage_receive(Cut *cut, Message *message, int from);
void stage_send(Cut *cut, const Message *message, ValueId value);

// stage_segments.c: the segments of this stage in place of the body of a microbatch.
void stage_cut_body(Cut *cut, NodeId id);
void stage_leave(Cut *cut, Segment *segment, ValueId value, ValueId made, ValueId *outside);
// The node of a segment whose region is made, where graph_add appends now.
void stage_close_segment(Cut *cut, const Segment *segment, RegionId region, int64_t number);

#endif
