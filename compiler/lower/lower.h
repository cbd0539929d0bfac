// lower.h: from an arranged graph to instructions on buffers; what lower*.c, memory.c and emit.c share.
//
// Every value gets a Storage: a buffer, an offset and a stride for each axis. Renames, slices and parts of
// concatenations are storages inside others, so they cost nothing. A Place of an instruction names its buffer (in
// slot_stride, arena ARENA_CLASS_COUNT) until memory.c has given the buffers their offsets.
#ifndef MDL_COMPILER_LOWER_LOWER_H
#define MDL_COMPILER_LOWER_LOWER_H

#include "compiler/pass/compilation.h"
#include "compiler/pass/schedule.h"
#include "compiler/plan/operands.h"

typedef struct {
  int buffer;                      // -1: not decided
  int64_t offset;                  // bytes
  int64_t rank[PLAN_MAX_MESH];     // bytes more for each step of the rank's coordinates
  int64_t stride[SHAPE_MAX_AXES];  // in elements, for each axis of the value's shape
} Storage;

typedef struct {
  ArenaClass arena;
  int64_t bytes;
  int64_t offset;            // in its arena; -1 until memory.c
  int64_t slot_stride;       // of inputs
  int64_t lane_stride;       // of values of several microbatches in flight
  int first, last;           // instructions of its segment that touch it; first > last: none
  bool whole;                // lives through the whole program
  bool message;              // of a message: stays as it is until that has been received
  int segment;               // the one segment that touches it, or -1: several do
  int chunk;                 // of those segments, or -1: several
  bool shared;               // by all microbatches: touched by more than their own segments
  int64_t copies;            // of one that lasts: for each microbatch in flight; 0: one
  const Instruction *maker;  // the first that writes it, or NULL
  int64_t made_at;           // from where on it does
  bool parts;                // others write other parts of it
  int held_too;              // 1 + another buffer that the instruction which holds this one holds; 0: none
} MemoryBuffer;

// The map of persistent state, shared by all programs of a plan.
typedef struct {
  Name name;
  int64_t offset;                  // bytes
  int64_t flat_first, flat_piece;  // see PlanState
  uint32_t flat_mesh;
} StatePlace;

typedef struct {
  ARRAY(StatePlace) places;
  Map by_name;
  int64_t bytes;
} StateMap;

typedef struct {  // kernels of a plan, each once
  ARRAY(Kernel *) all;
  Map by_content;
} KernelTable;

typedef ARRAY(PlanTerm) TermTable;  // of a plan, each once; the first is 0

typedef ARRAY(Instruction) InstructionList;

typedef struct {  // where an instruction is from
  bool backward;
  ScopeId scope;
} LowerOrigin;

typedef struct {
  const char *name;
  SegmentKind kind;
  int chunk;
  InstructionList list;
  ARRAY(LowerOrigin) origins;  // by instruction; those left out are of the backward
} LowerSegment;

typedef enum {
  HOME_OWN,
  HOME_CONCAT,
  HOME_PAD,
  HOME_BUNDLE,
  HOME_PACK,
  HOME_ASSIGN,
  HOME_HOST,
  HOME_RESULT,
  HOME_OVER
} HomeKind;

typedef struct {  // where a value lives, if not in a buffer of its own
  HomeKind kind;
  ValueId parent;  // CONCAT: its result; PACK: the pack; ASSIGN: the target; RESULT: the microbatch's result; OVER:
                   // what was there
  int index;       // operand number; member of the bundle
  int bundle;
} Home;

typedef struct {  // matrices side by side: [rows, columns of member 0 | columns of member 1 | ...]
  bool stacked;   // one above the other: [columns of member 0 | columns of member 1 | ..., rows]
  int count;
  const ValueId *members;
  Shape *rows, *columns;  // of each member, which may have other names for the same axes
  int buffer;
} Bundle;

typedef struct {  // for the kernel that is being built
  KernelPort port[KERNEL_MAX_PORTS];
  KernelInstruction code[KERNEL_MAX_CODE];
  Place place[KERNEL_MAX_PORTS];
  ValueId port_value[KERNEL_MAX_PORTS];
  int port_register[KERNEL_MAX_PORTS];
} Workbench;

typedef struct {  // a buffer that a rule `offload` selects, and that stays
  const char *name;
  Span span;
  int64_t bytes;
  OffloadFate why;
} OffloadStay;

typedef struct {  // an instruction of a segment
  int segment, at;
} LowerMoment;

typedef struct {           // where the members of a pack lie in it
  const Node *parameters;  // the pack that gives it its order
  const int64_t *first;    // by member: its first element
} PackPlace;

typedef struct {    // of a training step, but for the number of the step
  PlanInput input;  // its place is that of one compilation
  int64_t bytes, slot_stride;
} GivenInput;

typedef ARRAY(GivenInput) GivenInputs;

typedef struct {
  Compilation *c;
  Arena *keep;  // what the plan is made of; everything else goes with the compilation
  Graph *graph;
  ARRAY(Workbench *) workbenches;
  int building;  // kernels, one inside the other
  StateMap *states;
  KernelTable *kernels;
  TermTable *terms;
  Storage *storage;  // by value
  Home *home;        // by value
  bool *accumulate;  // by value: added over microbatches
  bool *add;         // by value: added to what other parts of the same rows have given
  bool *aligned;     // by value: its rows may lie apart, so that each begins on a whole memory line
  bool *exchanged;   // by value: it goes into an all-to-all, apart from what it is multiplied with
  int capacity;
  NodeList packs;   // of the whole graph
  Map pack_places;  // by value of a pack: PackPlace, once it is asked for
  ARRAY(Bundle) bundles;
  ARRAY(MemoryBuffer) buffers;
  ARRAY(LowerSegment *) segments;  // in the order of one microbatch; the rest of the program comes last
  InstructionList *into;
  const Node *node;  // being lowered, for names and spans
  ARRAY(PlanInput) inputs;
  const GivenInputs *given;  // of other training steps of the plan, which this one has too; NULL: none
  ARRAY(PlanOutput) outputs;
  int64_t host_bytes, offload_bytes, transient_bytes;  // of the arenas
  LowerMoment fullest;                                 // where the transient arena is; of no segment: everywhere
  ARRAY(OffloadStay) stays;
  const Schedule *schedule;  // of a pipeline, or NULL
  const int *lanes;          // by chunk: microbatches in flight; NULL: one
} Lower;

// The passes of passes.def behind those on the graph, in their order. What is wrong is a diagnostic.
typedef void LoweringPass(Lower *l);
#define PASS(...)
#define LOWERING(name, function, ...) LoweringPass function;
#include "compiler/pass/passes.def"
#undef PASS
#undef LOWERING

// storage.c
int64_t type_bytes(const Lower *l, ValueId value);
int new_buffer(Lower *l, ArenaClass arena, int64_t bytes);
// Places are still numbers of buffers.
void inputs_note(const Lower *l, Arena *arena, GivenInputs *given);  // adds those that it has
void add_given_inputs(Lower *l);
const Storage *storage_of(Lower *l, ValueId value);
int64_t stride_of(Lower *l, ValueId value, AxisId axis);  // 0 if the value lacks it
Storage dense_storage(Lower *l, Shape shape, int64_t element_bytes);
Place place_of(Lower *l, const Storage *storage);
int term_of(Lower *l, const int64_t rank[PLAN_MAX_MESH]);  // the number of this term
PlanCut cut_of(const Lower *l, AxisId axis);
void pack_offsets(const int64_t *elements, int count, int64_t *offsets);  // in elements
Storage pack_slot(Lower *l, const Node *pack, int index);  // of an operand, in the order of its parameter
Storage pad_slot(Lower *l, const Node *pad);               // of the operand
const StatePlace *state_place(const Lower *l, Name name);  // NULL: not on this stage

// lower_view.c: at the place of the view, before anything asks where it lies.
void lower_view(Lower *l, const Node *node);
bool view_may_copy(Op op);
bool zigzag_between(const Graph *graph, AxisId whole, AxisId part);  // a part in two blocks: no view, but two copies

// overwrite.c: after all other homes.
void decide_overwritten(Lower *l);

// lower_gemm.c
void lower_dots(Lower *l, const Node *node);
void lower_dot_sum(Lower *l, const Node *node);

// lower_grouped.c
void lower_order(Lower *l, const Node *node);
void lower_chosen_dot(Lower *l, const Node *node);  // and sums of several
void lower_chosen_sum(Lower *l, const Node *node);
// Rows that have positions, where each rank has as many as any other, of all: there are more for what skew there may
// be. By what their blocks have chosen.
double rows_share(const Lower *l, ValueId chosen);
// With CompileOptions.poison: NaN into results of which blocks without a choice are undefined, before they are made.
void poison_blocks(Lower *l, const Node *node);

// lower_attention.c
void lower_attention(Lower *l, const Node *node);
// lower_scores.c: fills score and, of a gradient, score_gradient. dims: the axes of SCORE_DIMS, -1 where there is none.
void lower_scores(Lower *l, const Node *node, const AxisId *dims, Attention *a);
// A score_gradient for captured tensor `captured`, counted behind v; its ports' memory.
int lower_captured_score(Lower *l, const Node *node, const AxisId *dims, int captured, Place **places);
int attention_rotations(const Lower *l, const Node *node);  // how often it passes blocks around its ring; 0: no ring

// lower_collective.c
typedef struct {  // a block of `count` elements that goes to the next rank of the ring of these mesh axes
  const Node *node;
  uint32_t mesh;
  ElementType type;
  int64_t count;
  const Storage *from, *to;
  const char *why;
} Rotation;

void lower_rotate(Lower *l, const Rotation *rotation);
void lower_collective(Lower *l, const Node *node);
void lower_shard(Lower *l, const Node *node);
void lower_send(Lower *l, const Node *node);
void lower_receive(Lower *l, const Node *node);
Storage message_storage(Lower *l, const Node *node, ValueId value);  // a buffer for what a message holds

// lower_chunks.c
void lower_chunks(Lower *l, const Node *node);

// lower_kernel.c
void lower_group(Lower *l, const Node *node);

// lower_copy.c
void lower_copy(Lower *l, Shape shape, ElementType type, const Storage *from, const Storage *to, WriteMode write);
void lower_fill(Lower *l, Shape shape, ElementType type, const Storage *to, double number);

// lower.c
Instruction *new_instruction(Lower *l, InstructionKind kind);
void lower_list(Lower *l, const NodeList *nodes);

// lower_reorder.c: arithmetic that can stand beside collectives does.
void lower_reorder(Lower *l);

// lower_parts.c: products and their collectives in parts, one part beside the other.
void lower_parts(Lower *l);

// lower_squares.c: whether a kernel is the sum of the squares of a gradient, and then an instruction of its own.
bool lower_as_squares(Lower *l, const Kernel *kernel, const Place *places);

// memory.c: the operands in memory; their places name buffers (slot_stride) up to memory_resolve.
void lower_operands(const Lower *l, Instruction *instruction, Operands *out);
void memory_lifetimes(Lower *l);  // the two halves of the pass `memory`
void memory_place(Lower *l);
void memory_resolve(Lower *l);  // places of buffers become places in arenas

// largest.c: fills program->values: those alive where the transient arena is fullest, and those that last.
void largest_values(Lower *l, PlanProgram *program);

// Those that a rule `offload` selects and that stay for this reason, the largest first; and how many they are.
int largest_stays(const Lower *l, OffloadFate why, PlanValue **values);

#endif
