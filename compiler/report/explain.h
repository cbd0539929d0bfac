// explain.h: a program under a layout in words: who holds what, who sends what, what it takes.
#ifndef MDL_COMPILER_REPORT_EXPLAIN_H
#define MDL_COMPILER_REPORT_EXPLAIN_H

#include "base/buffer.h"
#include "compiler/lower/lower.h"
#include "compiler/plan/plan.h"
#include "compiler/spec/spec.h"

// GRADIENTS: sums of the parameters' gradients over ranks. UPDATE: what else comes after the last microbatch.
typedef enum { PHASE_FORWARD, PHASE_BACKWARD, PHASE_GRADIENTS, PHASE_UPDATE, PHASE_COUNT } TrafficPhase;

typedef struct {
  TrafficPhase phase;
  bool pack;         // of parameters or their gradients, several together
  const char *path;  // of the scope it comes from, e.g. layers.3.attn_norm, or ""
} ViewCollective;

typedef struct {
  const char *name;
  int64_t peak;                       // bytes of what lives in one call of the segment alone
  int instructions;                   // of the segment
  double *alive;                      // by instruction: how many of them
  ARRAY(ViewCollective) collectives;  // in the order of their instructions
} ViewSegment;

typedef struct {  // a labelled value of the forward, as shard left it
  const char *label;
  ElementType type;
  int axis_count;
  const char *axis[PLAN_MAX_AXES];
  int64_t size[PLAN_MAX_AXES];
  PlanCut cut[PLAN_MAX_AXES];  // without `local`
  uint32_t partial;            // over these mesh axes
} ViewValue;

typedef struct {
  const char *name;   // of a tensor that outlives the step
  const char *like;   // of optimizer state: its parameter; else NULL
  uint32_t gradient;  // of parameters: the mesh axes over which pieces of the gradient are stored
  uint32_t kept;      // and those over which the parameter is gathered once a step, and kept
} ViewTensor;

typedef struct {  // collectives of activations that a rule of the layout selects to be compressed
  Op op;
  uint32_t mesh;
  bool backward;
  int count;             // in one step
  double before, after;  // bytes that a rank sends of all of them
  const char *why;       // they are not; else NULL
} ViewCompressed;

typedef struct {      // of one stage's training step; bytes are of the transient arena and last from call to call
  int64_t gradients;  // added up over the microbatches
  int64_t flying;     // saved by forwards for their backwards, all microbatches in flight together
  int64_t shared;     // the rest
  int64_t *saved;     // by chunk: by the forward of one microbatch
  int *lanes;         // by chunk: microbatches in flight
  int chunks;
  int first_segment;  // which of the plan the first one is
  int segment_count;
  ViewSegment *segments;
  ARRAY(ViewTensor) tensors;
  ARRAY(ViewCompressed) compressed;
  struct {
    PlanValue *values;
    int count;
  } stays[OFFLOAD_MOVED];  // by reason: what rules `offload` select and leave on the device
} ViewStage;

typedef struct {  // products of the training step that a rule of the precision selects, of like parameters together
  const char *weight;  // layers.*.q.w
  bool backward, of_weight;
  ElementType type[2];
  const char *why;
  int count;
} ViewProduct;

typedef struct {  // values of 8 bits, those of like places together
  const char *name;
  ElementType type;
  int orders;  // in which each of them is stored
  int count;
  int passes;       // kernels that only round
  double bytes;     // of all of them, in all orders
  const char *why;  // what keeps their rounding out of the kernels that make them; NULL: it is in these
} ViewQuantised;

// What compiling leaves behind for those who want to explain it; CompileOptions.view. Lives in the arena.
typedef struct CompileView {
  const Spec *spec;
  ARRAY(ViewStage) stages;
  ARRAY(ViewValue) values;
  ARRAY(ViewProduct) products;
  ARRAY(ViewQuantised) quantised;
} CompileView;

// The training step of the next stage, its memory being assigned. first: which segment of the plan its first one is.
void view_keep(CompileView *view, const Lower *l, int first);

// explain_quantised.c: of these, the values of 8 bits.
void view_keep_quantised(CompileView *view, const Lower *l);

// `layers.3.q.w` as `layers.*.q.w`.
const char *view_alike(Arena *arena, const char *name);

typedef struct {
  Arena *arena;
  const Diag *diag;  // of the compilation: the sources that spans are in
  const PlanSet *set;
  const CompileView *view;
  bool full;  // every parameter, every stage, on a line of its own
} Explain;

void explain_print(const Explain *explain, Buffer *out);

// The same as one JSON object, every parameter and every collective by itself.
void explain_json(const Explain *explain, Buffer *out);

// As SVG: the pipeline's schedule and memory, times proportional to arithmetic; without a pipeline the memory of a rank
// from instruction to instruction.
void explain_svg(const Explain *explain, Buffer *out);

#endif
