// compilation.h: what the passes of one program share.
#ifndef MDL_COMPILER_PASS_COMPILATION_H
#define MDL_COMPILER_PASS_COMPILATION_H

#include "compiler/ir/graph.h"
#include "compiler/pass/schedule.h"
#include "compiler/plan/options.h"
#include "compiler/plan/plan.h"
#include "compiler/spec/spec.h"

struct Backward;

typedef struct {  // a parameter, or what packs several, and its copy in the format in which it is multiplied
  ValueId master, copy;
} CopiedValue;

typedef struct {        // a product that a rule of the precision selects
  Name weight;          // the parameter of the forward's product, or what it makes
  bool backward;        // for a gradient
  bool of_weight;       // which is that of the weight
  ElementType type[2];  // of its operands
  const char *why;      // not in 8 bits, though the rule says so; else NULL
} ChosenProduct;

typedef struct {  // state of the training step: the largest numbers of the last steps, in f32; 0: of none yet
  Name name;      // fp8.layers.3.q.x.amax
  Name like;      // the parameter of the product
  int length;
  Span span;
} History;

typedef ARRAY(History) HistoryList;

typedef struct {           // how an axis, and all that are other names for it, may be cut
  int same;                // the axis that stands for all of them
  bool kept;               // as the training step has it
  uint32_t cut;            // the mesh axes that may cut it, as bits
  uint32_t zigzag;         // those that cut it into 2n blocks; see PlanCut
  uint32_t padded;         // those that may cut it unevenly, with padding at the end
  const LayoutRule *rule;  // that gives it a form other than blocks, or NULL
  bool reported;           // to be wrong
} AxisForm;

typedef struct {  // those of the training step
  int count;
  AxisForm *forms;
  Map by_name;  // of the axis
} KeptForms;

typedef struct {            // of a persistent tensor, with a pipeline
  int owner;                // the stage that updates it
  const uint64_t *holders;  // the stages that have it, as bits
} Tenant;

typedef struct Tenancy {
  Map index;  // name of a tensor to its place in `at`
  ARRAY(Tenant) at;
  int64_t held;  // how many tensors stages have, together
} Tenancy;

// What becomes of a value that a rule `offload` selects.
typedef enum {
  OFFLOAD_NONE,   // nothing that it selects is kept for the backward
  OFFLOAD_SMALL,  // the copy costs more than the memory
  OFFLOAD_SOON,   // the backward reads it before it can have left and come back
  OFFLOAD_FIXED,  // it lies in memory that other parts of the step use
  OFFLOAD_MOVED
} OffloadFate;

typedef struct {  // a value, and a rule of the layout that selects it
  ValueId value;
  int rule;
} OffloadMark;

typedef struct {  // a collective of activations that a rule `compress` selects
  Op op;          // that it was
  uint32_t mesh;
  bool backward;
  int calls;             // in one step
  double before, after;  // bytes that one call has a rank send if the group is a ring
  const char *why;       // it is not compressed; else NULL
} Compressed;

typedef struct {    // what a rule `compress` selects
  bool any;         // something that is compressed
  const char *why;  // of something that is not, the first; or NULL
} CompressUse;

// The parameters and state of the model, as its text declares them for the training step. All programs have them.
typedef struct {
  Name name;
  const int64_t *sizes;  // along its axes
  Span span;
} ModelTensor;

typedef struct {
  Arena *arena;
  ARRAY(ModelTensor) list;
  Map index;  // of the list, by name
} ModelTensors;

typedef struct {
  Arena *arena;
  Names *names;
  Diag *diag;
  struct Unit *unit;
  const Spec *spec;
  ProgramKind program;
  bool decode;    // of the program `generate`: as CompileOptions.decode says
  int64_t block;  // then: positions at once, keys and values being kept; 0: all of them, and nothing is kept
  bool cold;      // of the training step: the one in which histories of scales know nothing
  struct Elaborator *elaborator;
  Graph *graph;
  uint32_t facts;  // of facts.def, as bits: what passes have made of the graph
  bool differentiated;
  const char *not_fused;  // why an attention that is called is not one kernel; NULL: each is
  Span not_fused_at;
  bool gradients;          // make outputs of the gradients
  bool poison;             // see CompileOptions
  CompiledValues *values;  // make outputs of the forward's values; NULL: no
  ModelTensors *tensors;   // the training step writes them, the programs that come after it must have the same; or NULL
  const Pack *packs;       // of the training step, for the programs that come after it
  int pack_count;
  const KeptForms *forms;     // of the training step, likewise; NULL: this is it
  Tenancy *tenancy;           // with a pipeline, as the training step decides it; else NULL
  int stage;                  // of the pipeline
  ARRAY(ScheduleJump) jumps;  // messages of its microbatches that skip virtual stages
  bool nothing;               // the program computes nothing, on any stage
  bool unchanged;             // by the last pass: it has found nothing to do
  int64_t chunk_bytes;        // see CompileOptions
  int64_t part_rows;          // the same
  Map *frozen;                // names of the parameters that no update changes: the training step adds them
  Map *copied;                // names of the parameters of which there are copies: the training step adds them
  ARRAY(CopiedValue) copies;
  HistoryList *histories;         // the training step adds them
  ARRAY(ChosenProduct) products;  // of the training step, in the order of the graph
  ARRAY(OffloadMark) offload_marks;
  OffloadFate *offloads;    // by rule: the best that became of what it selects, on any stage so far
  CompressUse *compresses;  // by rule, on any stage so far
  ARRAY(Compressed) compressed;
  struct SamplesTable *samples;   // of the forward, for differentiate; NULL: it has no microbatches
  struct Shard *shard;            // how values are held, once shard has run; NULL: one rank
  struct StageCut *cut;           // what stages do and send, for the pass that makes one of them; else NULL
  const struct PassWatch *watch;  // see CompileOptions
} Compilation;

// Called after every pass of every program and stage, before the verifier. Tests change the graph here. Where there is
// one, all passes run for each stage; else those up to `stage` run once for all of them.
typedef struct PassWatch {
  void (*after)(void *context, Compilation *c, const char *pass);
  void *context;
} PassWatch;

// What a pass returns that has left the graph as it was: it is not verified again.
static inline bool pass_changed_nothing(Compilation *c) {
  c->unchanged = true;
  return true;
}

typedef bool Pass(Compilation *c);
#define PASS(name, function, ...) Pass function;
#define LOWERING(...)
#include "compiler/pass/passes.def"
#undef PASS
#undef LOWERING

// --- what passes share ---

// Replaces operands by `replace` (indexed by value; -1: itself), in all regions and region results.
void graph_replace_values(Graph *graph, const ValueId *replace);

// Drops nodes whose results nothing uses.
void graph_remove_dead(Graph *graph);

// Moves assignments of the model's own state to the end: they take effect after the step. Those of what another tensor
// holds come before any tensor changes; one of those that go round in a circle, such as an exchange, or -1.
NodeId graph_assign_last(Graph *graph);

// differentiate_values.c: the values that CompileOptions.values asks for.
typedef struct {
  ValueId value;
  ValueId before;  // with the same path, whose gradient is taken where nothing reads the last; or itself
  Name name;       // value.layers.0.h
  Span span;
  int depth;
  const char *op;  // that makes it, or of the gradient of a value, the last that reads the value
  ScopeId scope;   // of that
  int uses;        // of the gradient of a value: nodes that read the value; else 0
  bool unnamed;
  bool infinite;  // see CompiledValue
} ForwardValue;

typedef struct {
  ForwardValue *at;
  int count, capacity;
  ARRAY(ForwardValue) left_out;  // no microbatch has its part of them: listed, but no outputs
  int loss_depth;
} ForwardValues;

// microbatches.c: moves the nodes of a step into the region of its microbatches; `results`, which are summed over them,
// become those of its node. What is computed from such sums for the model's state comes behind.
void wrap_microbatches(Compilation *c, ValueList *results);

void forward_paths(Compilation *c);  // of what the text says, before anything is made of it
void forward_values(Compilation *c, ValueId loss, ForwardValues *values);  // before anything else is added
// With CompiledValues.every, once the backward is there: adds the gradients of the values.
void forward_gradients(Compilation *c, struct Backward *backward, ForwardValues *values);
void forward_values_output(Compilation *c, const ForwardValues *values, Span loss);

// shard_forms.c: the classes of the axes, once shard has run.
void shard_forms_keep(const Compilation *c, Arena *arena, KeptForms *kept);

// copies.c: does the policy multiply in a narrower format than that of parameters? Then what is left of a training step
// that was lowered becomes the program `refresh`.
bool copies_wanted(const Spec *spec);

// chunk.c: logits of more bytes than this are large.
int64_t chunk_bytes(const Compilation *c);

// group.c: which nodes of a list belong to one kernel. group[i] of node id i: an id, or -1.
typedef struct {
  int *group;  // by NodeId
  int count;
} Grouping;

typedef struct {
  Shape space, inner;   // inner is empty while no reduction has decided it
  bool row_reductions;  // a reduction over `inner` is used inside
  bool inner_known;
  bool backward;  // of its first member
  bool alone;     // nothing joins it
  int level, nodes, external;
} GroupInfo;

Grouping group_make(Graph *graph, const NodeId *nodes, int count, GroupInfo **info);

#endif
