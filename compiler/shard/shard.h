// shard.h: how values are held by the ranks, for shard.c, reshard.c and what works on their graph.
#ifndef MDL_COMPILER_SHARD_SHARD_H
#define MDL_COMPILER_SHARD_SHARD_H

#include "compiler/ir/choices.h"
#include "compiler/ir/graph_copy.h"
#include "compiler/pass/compilation.h"
#include "compiler/shard/mapping.h"

// Of one value, for each mesh axis: the axis that it cuts (-1: every rank has all), and whether the ranks hold parts of
// a sum (1 + ReduceKind; 0: no). An axis that several mesh axes cut is cut by the lowest first. owner: 1 + the number
// of a ShardOwner, where a position is right on the rank that has what the position chose; elsewhere it is 0 in a
// partial sum, and anything where it is PARTIAL_OWNED (shard_owned.c).
typedef struct {
  AxisId axis[GRAPH_MAX_MESH];
  uint8_t partial[GRAPH_MAX_MESH];
  int owner[GRAPH_MAX_MESH];
} Held;

enum { PARTIAL_OWNED = 1 + REDUCE_COUNT };

typedef struct {  // what positions choose: places along an axis that ranks share
  ValueId index;  // before ranks give each other anything of it
  AxisId axis;
  int choice;  // of choices, where a capacity limits them; else 0
} ShardOwner;

typedef struct {  // for each mesh axis the rule of the layout behind it, or NULL
  const LayoutRule *rule[GRAPH_MAX_MESH];
} Cause;

typedef struct {  // the loop axes of a node: for each mesh axis the axis along which its ranks share the work, or -1
  bool known;
  AxisId axis[GRAPH_MAX_MESH];
  uint32_t ring;  // attention: the mesh axes, as bits, around which blocks of keys go instead of being gathered
  Cause cause;
} Loops;

typedef struct Shard {
  Compilation *c;
  Graph *graph;
  Mapping *mapping;
  ARRAY(Held) held;       // by value
  ARRAY(Cause) cause;     // by value: of how it is held
  ARRAY(ValueId) newest;  // by value: what stands for it once it was resolved; itself before
  ARRAY(Loops) loops;     // by node
  ARRAY(AxisForm) forms;  // by axis
  int *uses;              // by value of the graph before the pass: how often it is read
  bool *deferred;         // by value: a sum that only another sum reads: added up together with it
  bool *placed;           // by value: one of those that fill an axis, place by place, and are added up
  int limit;              // of those values
  Map memo;               // a wish (reshard.c) to what fulfils it
  Map again;              // what every rank has made anew to what it had
  Map pieces;             // arena, format, region and direction to this rank's piece in that format
  Map parts;              // parameter, arena, region and direction to the parameter out of it
  ARRAY(ShardOwner) owners;
  Choices choices;  // of the graph before the pass
  bool *early;      // by node of the graph before the pass: a lookup that stands before the index of its owner
  int early_limit;  // of those nodes
  int *ends;        // by value of that graph: the owner whose products all that is made of it ends in (shard_owned.c)
  int ends_limit;   // of those values
  AxisId rows;      // that of samples (samples.h), or -1
  bool *of_rows;    // by axis: what it is renamed to, or is the major part of, as of tokens of all samples in a row
  bool *has_rows;   // by axis: some part of it is of them
  int rows_limit;   // of those axes
  bool saved;       // what the forward gathered is there in the backward
  Name why;         // of the collectives that are added
  Cause wish;       // and the rules that ask for them
  ValueId *stored;  // by pack: what packs its parameters, where ranks store pieces of them
  Shape *whole;     // by value: its shape before localise
} Shard;

static inline Held held_whole(void) {
  Held held = {{-1, -1, -1, -1, -1, -1, -1, -1}, {0}, {0}};
  return held;
}

Held *shard_held(Shard *s, ValueId value);
Cause *shard_cause(Shard *s, ValueId value);
uint32_t held_cut(const Held *held, AxisId axis);  // the mesh axes that cut this axis, as bits
uint32_t held_partial(const Held *held);           // the mesh axes over which it is partial

static inline Held held_of(Shard *s, ValueId value) {
  return *shard_held(s, value);
}

static inline ValueId newest(Shard *s, ValueId value) {
  shard_held(s, value);
  while (s->newest.at[value] != value) {
    value = s->newest.at[value];
  }
  return value;
}

static inline int uses_of(const Shard *s, ValueId value) {
  return value < s->limit ? s->uses[value] : 2;
}

static inline Loops no_loops(bool known) {
  return (Loops){known, {-1, -1, -1, -1, -1, -1, -1, -1}, 0, {{0}}};
}

static inline bool same_shape(const Graph *graph, ValueId a, ValueId b) {
  Shape x = graph_shape(graph, a), y = graph_shape(graph, b);
  return shape_same_set(&x, &y);
}

// A leaf that may stand outside of the microbatches.
static inline bool shard_outside(const Node *node) {
  return op_given(node->op);
}

static inline Shape result_shape(const Graph *graph, const Node *node) {
  return node->result_count ? graph_shape(graph, node->first_result) : (Shape){0};
}

// shard_loops.c
Loops *shard_loops_of(Shard *s, NodeId id);
AxisId shard_choose_loop(Shard *s, const Node *node, Loops *loops, int mesh);  // -1: none; sets the loops' cause
void shard_find_placed(Shard *s, const NodeList *nodes);
bool shard_passes(Shard *s, const Node *node, int mesh);  // may a partial operand stay so, the result being partial?
uint8_t shard_partial_kind(const Node *node);             // what it is then: 1 + ReduceKind

// shard_owned.c
void shard_rows_find(Shard *s);  // before the walk
// Do ranks that share the samples count their own choices for a capacity? Notes it where they do not.
void shard_check_limit(Shard *s, const Node *node, const Loops *loops);
void shard_owners_find(Shard *s);                // before the walk
int shard_owner_of(Shard *s, const Node *node);  // that its index stands for, or 0
// The owner that its result has over this mesh axis, or 0. `passing`: that over those ahead of it.
int shard_owner_passes(Shard *s, const Node *node, const int *passing, int mesh);
bool shard_owner_apart(const Shard *s, const Node *node, int owner);  // no attribute is an axis of the positions
bool shard_disown(Shard *s, ValueId *value, const Held *want);        // what nobody is to own: a partial sum
// Where what is owned by parts over an outer mesh axis ends, so it does over those inside: nobody owns such parts
// alone.
void shard_end_owners(const Held *now, Held *want);
bool shard_disowns_number(Shard *s, ValueId value,
                          const Held *want);  // is it an integer or a truth value that is owned?
ValueId shard_disown_number(Shard *s, ValueId value,
                            const Held *want);  // that, held as wanted: summed as a real number

// shard_rules.c: reports rules that cut nothing, once everything is sharded; and a rule that cannot cut an axis whose
// size was not known before, where it would.
void shard_check_rules(Shard *s);
void shard_check_size(Shard *s, const LayoutRule *rule, AxisId axis, uint32_t cut, int mesh);

// shard_ring.c: attention whose keys go round a ring by a rule such as `attention: key -> cp(ring)`.
void shard_ring(Shard *s, NodeId id, Loops *loops);       // marks the node, once its loop axes are chosen
void shard_check_rings(Shard *s, const NodeList *nodes);  // reports rules that no attention of these can follow

// shard_pack.c
void shard_pack(Shard *s, NodeId id);
void shard_part(Shard *s, NodeId id);
uint32_t shard_partial_sum(Shard *s, ValueId value);  // the mesh axes over which only one operation reads a partial sum

// shard.c
void shard_say_why(Shard *s, const Node *node);  // what asks for the collectives that come next
ValueId shard_as_labelled(Shard *s, ValueId value, Name label, ScopeId scope);  // as the rules for the label say
void shard_keep_node(Shard *s, NodeId id);                                      // in the region as it is made anew
void shard_set_operand(Shard *s, NodeId id, int operand, ValueId value);
void shard_want_operand(Shard *s, NodeId id, int operand, const Held *want);
void shard_remember_newest(Shard *s, ValueId old, ValueId now);  // what stands for a value from here on
void shard_with(Shard *s, NodeId id, uint32_t partial);  // chooses its loops and keeps it, partial over these mesh axes

// shard_sums.c
// A sum that only another sum of the same shape reads is a part of that: partial parts are added first. Not from one
// layer to the next.
void shard_find_deferred(Shard *s, const NodeList *nodes);
void shard_sum(Shard *s, NodeId id);

// shard_leaf.c
void shard_leaf(Shard *s, NodeId id);
void shard_hold_unread(Shard *s);  // tensors that this program does not read are held as in the others
ValueId shard_into_stored_parts(Shard *s, Name name, ValueId gradient);  // where a rule stores gradients along an axis

// The value held in another way, by collectives added to graph->region. Nothing that was added before for the same wish
// in the same region, and as part of the same direction, is added again.
ValueId shard_reshard(Shard *s, ValueId value, const Held *want);

const Pack *shard_pack_along(const Shard *s, AxisId axis);  // or NULL

// shard_forms.c
void shard_forms_find(Shard *s);  // reports what cannot be
const AxisForm *shard_form(Shard *s, AxisId axis);

// A product in 8 bits has so many blocks along the axis, which ranks of a mesh axis cannot share; said once.
void shard_report_blocks(Shard *s, AxisId axis, int64_t blocks, int mesh, const LayoutRule *rule, Span span);
bool shard_even(Shard *s, AxisId axis);  // no cut of it is padded
// Is a part of `a` the part of `b` with the same elements, where both are cut alike?
bool shard_same_parts(Shard *s, AxisId a, AxisId b);
int64_t shard_part_size(Shard *s, AxisId axis, uint32_t mesh);  // of one rank's part; see shard_divides
bool shard_divides(Shard *s, AxisId axis, uint32_t cut);        // can these mesh axes cut it?
// Where an axis would be cut so often that it does not divide, mesh axes that are not asked for go, the last cut first;
// and, in programs that have a smaller batch than the training step, for which rules are checked, those that are too.
void shard_give_way(Shard *s, Held *want, uint32_t asked);
void shard_check_forms(Shard *s, ValueId value);  // reports cuts that are in no form
// The mesh axes `cut` would cut the axis, and one of them in a zigzag that is not the first; said once. span: of
// `what`.
void shard_report_zigzag(Shard *s, AxisId axis, uint32_t cut, Span span, const char *what);

// shard_stored.c, before the walk; casts of parameters of which ranks store pieces, which come to nothing; and what
// stands for a parameter, or such a cast, where it is used.
void shard_stored_parameters(Shard *s);
void shard_stored_gradients(Shard *s);
bool shard_casts_stored(const Shard *s, const Node *node);
bool shard_in_arena(const Shard *s, ValueId value);  // is it a parameter of which ranks store pieces of an arena?
ValueId shard_stored(Shard *s, ValueId value);

// shard_copy.c: the same for a view of its graph (c->graph), and for the graph that was extracted from it.
Shard *shard_view(const Shard *shard, Compilation *c);
Shard *shard_extract(const Shard *s, Graph *graph, const GraphMoves *moves);

// A copy of a value is held as the value is. Nothing to do on one rank.
void shard_hold_alike(Compilation *c, ValueId made, ValueId like);

#endif
