// spec.h: what recipe, layout and precision ask for, checked and put together: what the compiler knows of them.
#ifndef MDL_COMPILER_SPEC_SPEC_H
#define MDL_COMPILER_SPEC_SPEC_H

#include "compiler/plan/plan.h"
#include "compiler/spec/selector.h"

enum { MESH_MAX = PLAN_MAX_MESH };

typedef struct {
  Name name;
  int64_t size;
  Span span;
} MeshAxis;

typedef enum { RULE_COMPUTE, RULE_PARAM, RULE_GRAD, RULE_STATE, RULE_SAVE } RuleKind;

// One axis (or kind of stored thing) of a rule of the layout, and where it goes.
typedef struct {
  RuleKind kind;
  Selector scope;
  Name axis;      // NULL: stored flat (kinds other than COMPUTE)
  uint32_t mesh;  // bit i: mesh axis i; 0: none
  bool zigzag;    // `seq -> cp(zigzag)`: blocks c and 2n - 1 - c on rank c
  bool ring;      // `attention: key -> cp(ring)`: attention passes keys around instead of gathering them
  bool padded;    // `vocab -> tp(pad)`: may be cut unevenly
  bool sized;     // the size of the axis follows from the text and was checked
  bool again;     // another rule says the same already, which was reported
  Span span;      // of the rule
  Span left;      // of the axis, or what is stored, on its left side
} LayoutRule;

typedef enum { SCHEDULE_GPIPE, SCHEDULE_ONE_F_ONE_B, SCHEDULE_INTERLEAVED, SCHEDULE_ZERO_BUBBLE } ScheduleKind;

typedef struct {
  Name axis;  // the repeated axis that is cut into stages; NULL: no pipeline
  int mesh;   // the mesh axis of the stages
  ScheduleKind schedule;
  int chunks;              // on each stage; 1 but for interleaved
  int part_count, *parts;  // iterations on each chunk in order, as told: `layers -> pp(10, 12)`; 0: by cost
  Span span;               // of the rule
} Pipeline;

// The formats of values by role; what is not here (masters, optimizer state, sums, statistics) has the real type.
typedef struct {
  ElementType activation;  // and gradients of activations
  ElementType residual;    // the streams that blocks add to
  ElementType dot;         // operands of products of matrices
  ElementType gradient;    // of parameters
  ElementType frozen;      // parameters that no update changes
  bool tf32;               // products of f32 may round their operands to TensorFloat-32
} Formats;

// `dot in layers: forward e4m3, backward e5m2, scaling current`. Of the rules that select a product the one whose
// selector has the highest rank holds, and of equals the last.
typedef struct {
  Selector selector;     // of products
  ElementType forward;   // of both operands in the forward; one of Formats.dot: no 8 bits
  ElementType backward;  // of gradients that are multiplied; the other operand is as in the forward
  int history;           // scales are by the largest numbers of so many steps; 0: of this very value
  double margin;         // and leave 2^margin times as much room
  int block;             // elements that have one scale, SCALE_BLOCK; 0: all of a value
  Span span;             // of the scaling
} ProductRule;

typedef ARRAY(ProductRule) ProductRules;
typedef ARRAY(Selector) Selectors;

// `compress tp in layers`: collectives over this mesh axis carry 8 bits where they would carry activations of 16.
typedef struct {
  int mesh;
  Selector place;
  Span span;
} CompressRule;

typedef struct {
  struct SpecText *text;  // what it was read from; for lang/ alone (settings.h)
  Span model;             // the name of the model that is trained
  Selectors recompute, offload;
  Selectors watched;  // parameters of which a step says how large gradients and updates are
  ARRAY(CompressRule) compress;
  int mesh_count;  // 0: one rank
  MeshAxis mesh[MESH_MAX];
  ARRAY(LayoutRule) rules;  // in the order of the text; the pipeline's is not among them
  Pipeline pipeline;
  bool overlap;     // communication runs beside arithmetic
  double capacity;  // even shares of positions that may choose one place, in training; 0: any number
  Span capacity_span;
  int microbatches;
  int asked_microbatches;  // whatever the layout says; 0: what it says
  int64_t bucket_bytes;    // of gradients that are summed over ranks at once; see CompileOptions
  bool idle_rules;         // rules that cut nothing and selectors that select nothing are no errors; see CompileOptions
  ElementType real;        // in which numbers are computed: f32 or f64
  Formats formats;
  ProductRules products;         // of the policy that is compiled
  ARRAY(ProductRules) policies;  // of the run, in the order in which they first appear
  bool histories;                // one of several policies has scales by histories
  int phase_count;               // 0: one policy
  PlanPhase phases[PLAN_MAX_PHASES];
  ARRAY(PlanRange) skip;  // batches that are passed over
  PlanRun run;
} Spec;

#endif
