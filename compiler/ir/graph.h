// graph.h: the typed SSA graph that all passes work on.
//
// A Graph lives in one arena and owns nothing else. Axes, values, nodes, regions and scopes are tables; ids are
// indices into them (-1: none). A region is an ordered list of nodes, definitions before uses; nodes of an inner
// region may use values of the regions around it, except in composites, which take everything as parameters.
// Order of axes in a shape has no meaning until the arrange pass; from then on it is the storage order.
#ifndef MDL_COMPILER_IR_GRAPH_H
#define MDL_COMPILER_IR_GRAPH_H

#include "base/array.h"
#include "base/diag.h"
#include "base/map.h"
#include "base/names.h"
#include "compiler/ir/op.h"
#include "compiler/ir/types.h"

enum { SHAPE_MAX_AXES = 16, GRAPH_MAX_MESH = 8 };

typedef int32_t AxisId, ValueId, NodeId, RegionId, ScopeId;

typedef struct {  // the axes of a value; no axis twice
  int count;
  AxisId axis[SHAPE_MAX_AXES];
} Shape;

typedef struct {
  Name name;
  Name written;      // as the text calls it: without the number that tells several of one name apart
  int64_t size;      // in this graph
  int64_t global;    // what a mean divides by: differs from size for the batch of one microbatch
  AxisId whole;      // of which this is one rank's part; -1: none
  uint32_t mesh;     // the mesh axes that cut it, as bits; the lowest is the major cut
  bool zigzag;       // the major cut is into 2n blocks; see PlanCut
  AxisId blocks_of;  // the axis whose blocks it numbers (passes/quantise_block.c); -1: none
} Axis;

typedef enum {
  ROLE_ACTIVATION,
  ROLE_INPUT,
  ROLE_PARAMETER,
  ROLE_STATE,  // of the model
  ROLE_OPTIMIZER_STATE,
  ROLE_COPY,   // of a parameter, in another format
  ROLE_CACHE,  // keys and values that generating goes on with (passes/decode.c)
  ROLE_GRADIENT,
  ROLE_UPDATE,  // arithmetic of the optimizer
  ROLE_COUNT
} Role;

// How a value is cut over a device mesh; no entry: whole on the one rank there is.
typedef struct {
  AxisId axis;
  Name mesh_axis;
  bool zigzag;
  int64_t padding;
} ShardEntry;

typedef struct {
  int entry_count, partial_count;
  ShardEntry *entries;  // in the order of the mesh declaration
  Name *partial;        // mesh axes over which the value is a partial sum
} Sharding;

typedef struct {
  ElementType type;
  AxisId bound;  // TYPE_INDEX: the axis that it indexes
  Role role;
  Shape shape;
  Name name;   // variable or path of a parameter, or NULL
  Name label;  // without its @, or NULL
  Name path;   // what it is in the text, whatever becomes of others: see differentiate_values.c; or NULL
  Span span;
  NodeId node;         // that makes it; -1 for a region parameter
  int result;          // which result of the node
  int stage;           // of the pipeline
  int offload;         // waits for the backward in host memory: 1 + the scope whose values travel together; 0: does not
  Sharding *sharding;  // NULL: whole
} Value;

typedef struct {
  Op op;
  bool recomputed;  // a copy made by the recompute pass: never merged back
  bool apart;       // and, since the layout asks for it, never part of a kernel of the forward
  bool backward;    // computed for the gradient or the update
  int operand_count, result_count;
  ValueId *operands;
  ValueId first_result;  // results have consecutive ids
  Shape axes;            // what each op uses of these is said in ops.def
  AxisId axis, axis2;
  int64_t integer;
  double number;
  Name text;
  RegionId region;
  ScopeId scope;
  NodeId source;  // backward nodes: the forward node of which this is part of the gradient, or -1
  Span span;
  Name why;   // collectives, and what is rounded to be sent: what asks for it
  Span rule;  // and the rule of the layout behind it
} Node;

typedef ARRAY(NodeId) NodeList;
typedef ARRAY(ValueId) ValueList;

typedef struct {
  NodeList nodes;
  ValueList parameters, results;
} Region;

typedef struct {   // where in the text a node comes from: the stack of calls and repeats
  ScopeId parent;  // -1 for the outermost
  Name function;   // function, composite, update or repeated axis
  Name path;       // full path: layers.3.attn
  int64_t index;   // of a repeat, else -1
  Span call;       // of a function; SPAN_NONE elsewhere, and in a graph that was read
  Name variable;   // full path of what its result is assigned to, where the call has another name; or NULL
} Scope;

typedef enum { COMBINE_NONE, COMBINE_LAST, COMBINE_SUM, COMBINE_MEAN } StateCombine;  // what microbatches compute

typedef struct {  // a tensor that outlives the step
  Name name;
  Role role;    // PARAMETER, STATE, OPTIMIZER_STATE, COPY or CACHE
  Shape shape;  // written order
  Shape local;  // the same on one rank, once localised
  bool localised;
  int stack_count;  // axes before `|`
  int in_count;     // axes between `|` and `;`; -1 without `;`
  ElementType type;
  StateCombine combine;  // STATE: how its new value comes out of what microbatches compute; NONE: it is of all
  int group;             // optimizer group; -1: frozen or no parameter
  ValueId value;         // its leaf in the graph, or -1
  ScopeId scope;
  bool elsewhere;  // on other stages of the pipeline only
  bool copy;       // another stage updates and saves it
  int home;        // with a pipeline: 1 + the stage that updates it, once that is decided; else 0
  Name like;       // optimizer state and copies: the parameter it belongs to
  double initial;  // a constant initial value (optimizer state)
  Span span;
} Persistent;

typedef struct {  // tensors one after the other in an arena, so that one kernel updates them all
  AxisId axis;
  int count;
  const Name *members;  // parameters
  uint32_t cut;         // the mesh axes that cut every member, along an axis of its own
  // The mesh axes over which the arena is cut into equal pieces where it holds parameters, gradients, state; and those
  // of the parameters' over which they are gathered once a step, and kept for all that reads them.
  uint32_t param, grad, state, kept;
  int stage;
} Pack;

typedef struct {
  Arena *arena;
  Names *names;
  Diag *diag;
  Name name;
  ARRAY(Axis) axes;
  Map axis_names;  // of those that graph_axis made
  ARRAY(Value) values;
  ARRAY(Node) nodes;
  ARRAY(Region) regions;  // 0 is the top
  ARRAY(Scope) scopes;
  ARRAY(Persistent) persistent;
  Map persistent_names;  // of the first `persistent_known` of them: see graph_persistent
  int persistent_known;
  ARRAY(Pack) packs;
  RegionId region;  // where graph_add appends
  ScopeId scope;    // what it records
  Role role;
  bool backward;
  NodeId source;
  Span span;
  int slots;         // microbatches of a step
  ElementType real;  // of new real values: TYPE_REAL until the precision pass
} Graph;

Graph *graph_create(Arena *arena, Names *names, Diag *diag, Name name);

AxisId graph_axis(Graph *graph, Name name, int64_t size);  // finds or adds; equal name, other size: a new name
ScopeId graph_scope(Graph *graph, ScopeId parent, Name function, Name path, int64_t index);
RegionId graph_region(Graph *graph);  // a new empty region

// --- passes that write a region anew ---

// Takes the nodes out of a region, to which graph_add appends from here on.
NodeList graph_rewrite(Graph *graph, RegionId region);
// Takes out the node that was added last to the region that is written: it goes elsewhere.
void graph_rewind(Graph *graph);
// New nodes are of the span, scope, part and source of this one, new values of the role of its first.
void graph_follow(Graph *graph, const Node *node);

// What graph_follow changes, and the region: as it was, for the end of a pass.
typedef struct {
  RegionId region;
  ScopeId scope;
  Role role;
  bool backward;
  NodeId source;
  Span span;
} GraphPlace;

GraphPlace graph_place(const Graph *graph);
void graph_return(Graph *graph, GraphPlace place);

// Attributes of a node to be added; zero fields are unset (axis and axis2 are -1 in NODE_INIT).
typedef struct {
  Shape axes;
  AxisId axis, axis2;
  int64_t integer;
  double number;
  Name text;
  RegionId region;
  ElementType type;  // leaves: the result's type, bound and shape
  AxisId bound;
  Shape shape;
} NodeInit;

#define NODE_INIT .axis = -1, .axis2 = -1, .region = -1, .bound = -1

// Appends a node to graph->region with the graph's current span, scope and role; infers type and axes by the
// op's rule. Returns its first result. A broken rule is a broken invariant of the caller (assert).
ValueId graph_add(Graph *graph, Op op, NodeInit init, const ValueId *operands, int count);
ValueId graph_add0(Graph *graph, Op op, NodeInit init);
ValueId graph_add1(Graph *graph, Op op, NodeInit init, ValueId a);
ValueId graph_add2(Graph *graph, Op op, NodeInit init, ValueId a, ValueId b);
ValueId graph_op1(Graph *graph, Op op, ValueId a);  // without attributes
ValueId graph_op2(Graph *graph, Op op, ValueId a, ValueId b);
ValueId graph_op3(Graph *graph, Op op, ValueId a, ValueId b, ValueId c);
ValueId graph_real(Graph *graph, double number);
ValueId graph_integer(Graph *graph, int64_t number);
ValueId graph_sum(Graph *graph, ValueId a, Shape over);  // a itself when over is empty
ValueId graph_new_value(Graph *graph, Value value);      // a bare value: region parameter, extra result

// How many results a node of this op, with these operands and region, has.
int graph_result_count(const Graph *graph, const Node *node);

// A copy of a node in graph->region with other operands; results get fresh values with the same attributes.
NodeId graph_clone(Graph *graph, NodeId node, const ValueId *operands);

// A deep copy of a composite's region, with fresh values; `map` (value to value) receives all of them.
RegionId graph_clone_region(Graph *graph, RegionId region, Map *map);

static inline Value *graph_value(const Graph *graph, ValueId value) {
  return &graph->values.at[value];
}
static inline Node *graph_node(const Graph *graph, NodeId node) {
  return &graph->nodes.at[node];
}
static inline Node *graph_producer(const Graph *graph, ValueId value) {  // NULL for a region parameter
  NodeId node = graph->values.at[value].node;
  return node < 0 ? NULL : &graph->nodes.at[node];
}
static inline Shape graph_shape(const Graph *graph, ValueId value) {
  return graph->values.at[value].shape;
}

AxisId axis_whole(const Graph *graph, AxisId axis);               // of which it is a part; itself
bool graph_is_backward(const Graph *graph, const Node *node);     // of a kernel: all of it
ValueId graph_inside_segment(const Graph *graph, ValueId value);  // behind results of segments, what is made in them
const Node *graph_quantise(const Graph *graph, ValueId value);    // that makes the value, in a kernel too; else NULL
// Of shares, x / sum(x over axes), the sum, as softmax ends: they sum to 1 over its axes. NULL: the node is none.
const Node *graph_shares(const Graph *graph, const Node *node);
// Adds to `uses`, by value, how many operands of nodes and results of regions it is, in a region and those inside of
// it.
void graph_count_uses(const Graph *graph, RegionId region, int *uses);
int64_t graph_elements(const Graph *graph, Shape shape);
Shape persistent_shape(const Persistent *persistent);         // on one rank
Persistent *graph_persistent(const Graph *graph, Name name);  // NULL if there is none

// Shapes.
int shape_find(const Shape *shape, AxisId axis);  // position or -1
bool shape_has(const Shape *shape, AxisId axis);
bool shape_contains(const Shape *outer, const Shape *inner);
bool shape_same_set(const Shape *a, const Shape *b);
Shape shape_of(AxisId axis);
bool shape_push(Shape *shape, AxisId axis);  // false when full or present
void shape_remove(Shape *shape, AxisId axis);
void shape_replace(Shape *shape, AxisId from, AxisId to);
Shape shape_minus(Shape a, const Shape *b);   // order of a
Shape shape_union(Shape a, const Shape *b);   // a, then what b adds
Shape shape_common(Shape a, const Shape *b);  // order of a
Shape shape_last(Shape a, const Shape *b);    // order of a, but what b has comes last

// Ops.
typedef struct {
  double flops, bytes;
} Cost;

bool op_split(const Graph *graph, const Node *node, AxisId axis);  // may ranks share the work along this axis?
const char *op_infer(Graph *graph, NodeId node, Value *results);   // NULL or what is wrong
Cost op_cost(const Graph *graph, NodeId node);

#endif
