// plan.h: everything one rank does, decided before the first step.
//
// A plan is immutable, owned by the arena it was made in, and holds no pointers into memory of a device: an
// operand is (arena class, byte offset). Programs call segments; a segment is a straight list of instructions.
#ifndef MDL_COMPILER_PLAN_PLAN_H
#define MDL_COMPILER_PLAN_PLAN_H

#include "base/arena.h"
#include "base/buffer.h"
#include "base/diag.h"
#include "compiler/ir/kernel.h"
#include "compiler/ir/types.h"

enum { PLAN_VERSION = 28, PLAN_MAX_AXES = 16, PLAN_MAX_MESH = 8, PLAN_ALIGN = 256, PLAN_MAX_VALUES = 6 };
enum { PLAN_MAX_ASIDE = 3, GEMM_MAX_BATCH = 4 };       // communicators beside arithmetic
enum { PLAN_BLOCK = 64 };                              // positions of PROGRAM_PREFILL at most
enum { PLAN_MAX_POLICIES = 4, PLAN_MAX_PHASES = 16 };  // precisions of one run, and how often they change

typedef struct {  // of the device mesh; the axis declared first is the outermost: ranks are numbered row by row
  const char *name;
  int64_t size;
} PlanMesh;

// A number that depends on the rank: the sum over the mesh axes of stride times the rank's coordinate.
typedef struct {
  int64_t stride[PLAN_MAX_MESH];
} PlanTerm;

// How an axis is cut over the mesh: into equal blocks, mesh[0] being the major cut. Where it does not divide, the last
// positions of the last ranks are padding. zigzag: mesh[0], of size n, cuts into 2n blocks; coordinate c holds the
// blocks c and 2n - 1 - c, one after the other, so that causal work is even.
typedef struct {
  int count;  // of mesh axes; 0: every rank has all of it
  int mesh[PLAN_MAX_MESH];
  bool zigzag;
  int64_t local;  // positions on one rank, padding included
} PlanCut;

typedef enum {
  ARENA_PERSISTENT,  // parameters and all other state: what a checkpoint holds, and copies of it
  ARENA_TRANSIENT,   // values of one step
  ARENA_HOST,        // inputs of a step and its outputs: written and read by the host
  ARENA_OFFLOAD,     // values of one step that wait for the backward: memory of the host, that a device copies from
  ARENA_CLASS_COUNT
} ArenaClass;

typedef struct {
  ArenaClass arena;
  int64_t offset;       // bytes
  int64_t slot_stride;  // bytes added for each microbatch slot of the call; 0 for most
  int64_t lane_stride;  // bytes added for each lane of the call: values of several microbatches in flight; 0 for most
  int term;             // of Plan.terms: bytes added that depend on the rank; 0: none
} Place;

// Member by member: bytes between members may differ.
static inline bool place_same(const Place *a, const Place *b) {
  return a->arena == b->arena && a->offset == b->offset && a->slot_stride == b->slot_stride &&
         a->lane_stride == b->lane_stride && a->term == b->term;
}

typedef enum {
  WRITE_STORE,            // overwrites
  WRITE_ADD,              // adds to what is there
  WRITE_ADD_AFTER_FIRST,  // stores in a call marked first, adds in the others
  WRITE_MODE_COUNT
} WriteMode;

typedef enum {
#define INSTRUCTION(KIND, text, Struct, member) INSTRUCTION_##KIND,
#include "compiler/plan/instructions.def"
  INSTRUCTION_KIND_COUNT
} InstructionKind;

typedef enum { EPILOGUE_NONE, EPILOGUE_BIAS, EPILOGUE_COUNT } GemmEpilogue;

typedef enum {
  COLLECTIVE_ALL_REDUCE,      // from[count] -> to[count]: the same on all ranks of the group
  COLLECTIVE_ALL_GATHER,      // from[count] -> to[ranks * count]: the parts in the order of the ranks
  COLLECTIVE_REDUCE_SCATTER,  // from[ranks * count] -> to[count]: block i of the result for rank i of the group; `to`
                              // may be where that block was
  COLLECTIVE_ALL_TO_ALL,      // from[ranks * count] -> to[ranks * count]: block j of rank i becomes block i of rank j
  COLLECTIVE_ROTATE,          // from[count] -> to[count]: what the rank before has; the first has that of the last
  COLLECTIVE_KIND_COUNT
} CollectiveKind;

typedef struct {  // elements [first, first + count)
  int64_t first, count;
} PlanRange;

// The first ports of a kernel of scores (Attention.score); those behind them are inputs in memory, of any strides.
typedef enum {
  SCORE_DOT,       // input: the dot product of a query and a key
  SCORE_GRADIENT,  // input, of Attention.score_gradient: the gradient of the score
  SCORE_QUERY,     // the position of the query
  SCORE_KEY,       // the position of the key
  SCORE_MADE,      // output: the score, or the gradient of the dot product
  SCORE_CAPTURED
} ScorePort;

// What the gradient of a captured tensor is not summed over.
typedef enum { CAPTURED_BY_QUERY, CAPTURED_BY_KEY, CAPTURED_BY_PAIR, CAPTURED_BY_COUNT } CapturedBy;

enum { SCORE_DIMS = 5, SCORE_DIM_KEY = 3, SCORE_DIM_QUERY = 4 };  // batch, head, group, key, query

typedef enum { REDUCE_SUM, REDUCE_MAX, REDUCE_MIN, REDUCE_COUNT } ReduceKind;

// KernelCall, Gemm, Order, Grouped, Take, Window, Attention, Piece, Squares, Collective, Transfer, Offload: see
// instructions.def.
#define STRUCT(Struct, member) typedef struct {
#define TYPE(x) ElementType x;
#define FLAG(x) bool x;
#define NUMBER(x, least, most) int x;
#define SIZE(x, least) int64_t x;
#define REAL(x) double x;
#define MESHES(x) uint32_t x;
#define CHOICE(x, Enum, most) Enum x;
#define COUNT(x, most) int x;
#define SIZES(x, most, count, least) int64_t x[most];
#define TERMS(x, most, count) int x[most];
#define AXES(x, most, count) int x[most];
#define PLACE(x, ...) Place x;
#define PORTS(x) Place *x;
#define SCORE(x) \
  int x;         \
  Place *x##_place;
#define RANGES(x, count) \
  int count;             \
  PlanRange *x;
#define END(Struct) \
  }                 \
  Struct;
#include "compiler/plan/instructions.def"

static inline bool gemm_scaled(const Gemm *gemm) {  // operands of 8 bits
  return element_type_bytes(gemm->type) == 1 || element_type_bytes(gemm->type_b) == 1;
}

// The scales of an operand of 8 bits as a matrix, by rows; one number without blocks.
static inline int64_t gemm_scale_rows(const Gemm *gemm, bool of_a) {
  const bool square = of_a ? gemm->square_a : gemm->square_b;
  return gemm->block == 0 ? 1 : (square ? (of_a ? gemm->m : gemm->n) : gemm->k) / gemm->block;
}

static inline int64_t gemm_scale_columns(const Gemm *gemm, bool of_a) {
  const bool square = of_a ? gemm->square_a : gemm->square_b;
  const int64_t outer = of_a ? gemm->m : gemm->n;
  return gemm->block == 0 ? 1 : square ? gemm->k / gemm->block : outer;
}

typedef struct {
  InstructionKind kind;
  Span span;         // the text that caused it
  const char *name;  // path of the value it makes, e.g. layers.3.q; for traces and messages
  const char *why;   // collectives and transfers: what asks for it, in words; else NULL
  Span rule;         // and the rule of the layout behind it, or SPAN_NONE
  double flops;      // model arithmetic of one call
  double bytes;      // least memory traffic of one call
  bool aside;        // a collective on its communicator's queue, beside arithmetic (waits.h)
  int number;        // of a collective: which of the graph's it is, or a part of; not in files
  int holds;         // while lowering: 1 + a buffer that stays as it is up to here (MemoryBuffer.held_too); 0: none
  int parts;         // of a product or a collective that is one of so many by rows (lower_parts.c); not in files
  union {
#define STRUCT(Struct, member) Struct member;
#include "compiler/plan/instructions.def"
  } as;
} Instruction;

// Copies are derived: a parameter in the format in which it is multiplied, `bf16.layers.3.q.w`, cut and stored as the
// parameter is. The training step writes both; who writes parameters otherwise runs the program `refresh` afterwards.
// No checkpoint holds them, and the hash of the map of state does not know them.
typedef enum { STATE_PARAMETER, STATE_OPTIMIZER, STATE_MODEL, STATE_COPY } StateRole;

typedef struct {     // one logical tensor that outlives a step
  const char *name;  // layers.3.q.w; optimizer state: adamw.m.layers.3.q.w
  StateRole role;
  ElementType type;
  int axis_count;
  const char *axis[PLAN_MAX_AXES];  // in written order, the order of checkpoints
  int64_t size[PLAN_MAX_AXES];      // of the whole tensor
  PlanCut cut[PLAN_MAX_AXES];
  int64_t stride[PLAN_MAX_AXES];  // in elements of this rank's part, for each written axis
  int64_t offset;                 // bytes in the persistent arena
  // Cut once more, as a part of an arena, whatever its axes: element e of the arena, the part beginning at flat_first,
  // lies on the rank with coordinate e / flat_piece, at offset + (e % flat_piece) elements. flat_piece 0: not so.
  int64_t flat_first, flat_piece;
  int flat_count;  // of mesh axes, the first being the major
  int flat_mesh[PLAN_MAX_MESH];
  bool frozen;  // a parameter that no update changes
  bool owner;   // of several stages that hold it, the one whose copy is saved
} PlanState;

typedef struct {     // what the host writes before a program runs
  const char *name;  // tokens, targets, ...; "step" is the number of the step, from 1, an int
  ElementType type;
  int axis_count;
  const char *axis[PLAN_MAX_AXES];
  int64_t size[PLAN_MAX_AXES];  // of one slot, of all ranks together
  PlanCut cut[PLAN_MAX_AXES];   // the rank's part is dense in this order
  int64_t bound;                // index: size of the indexed axis; else 0
  Place place;                  // slot s begins at offset + s * slot_stride
} PlanInput;

// How an evaluation weighs what its batches have of an output.
typedef enum {
  WEIGH_SAMPLES,  // a mean or a sum over samples: by samples, and some may be taken away again
  WEIGH_BATCHES,  // anything else that samples have together, such as their largest: never less than nothing
  WEIGH_ANSWERS,  // the first, of what an input says which targets count
  WEIGH_COUNTED,  // a mean over these targets: by them
  WEIGHINGS
} PlanWeighing;

typedef struct {     // what the host reads after it: whole, and the same on every rank that has it
  const char *name;  // loss, grad_norm, lr, skipped, or an output of the model
  ElementType type;
  PlanWeighing weighing;
  int axis_count;
  const char *axis[PLAN_MAX_AXES];
  int64_t size[PLAN_MAX_AXES], stride[PLAN_MAX_AXES];
  Place place;
} PlanOutput;

// PREPARE: once, before the microbatches; APPLY: once, after them.
typedef enum {
  SEGMENT_ALL,
  SEGMENT_FORWARD,
  SEGMENT_BACKWARD,
  SEGMENT_WEIGHTS,
  SEGMENT_APPLY,
  SEGMENT_PREPARE,
  SEGMENT_KIND_COUNT
} SegmentKind;

typedef struct {
  const char *name;
  SegmentKind kind;  // FORWARD, BACKWARD, WEIGHTS: of one microbatch on one chunk of the pipeline
  int chunk;
  int count;
  Instruction *instructions;
} PlanSegment;

typedef struct {
  int segment, slot, lane;
  bool first;  // of the calls that accumulate
} PlanCall;

typedef enum {
  PROGRAM_INITIALISE,
  PROGRAM_TRAIN,
  PROGRAM_EVALUATE,
  PROGRAM_GENERATE,
  PROGRAM_REFRESH,     // makes STATE_COPY of STATE_PARAMETER
  PROGRAM_TRAIN_COLD,  // the training step while histories of scales know nothing (session.h): where there are some
  PROGRAM_TRAIN_2,     // the training step under the second precision of the run (PlanPhase), and its cold one; ...
  PROGRAM_TRAIN_2_COLD,
  PROGRAM_TRAIN_3,
  PROGRAM_TRAIN_3_COLD,
  PROGRAM_TRAIN_4,
  PROGRAM_TRAIN_4_COLD,
  PROGRAM_PREFILL,  // generates from PLAN_BLOCK positions at once, of which it keeps keys and values,
  PROGRAM_DECODE,   // and from one: where CompileOptions.decode asks for them
  PROGRAM_COUNT
} ProgramKind;

typedef struct {  // from a step on training has another precision
  int64_t first;  // step, from 1
  int policy;     // which of the run's precisions, in the order in which they first appear
  const char *precision;
} PlanPhase;

typedef struct {     // values of one name in the transient arena, where a program needs most of it
  const char *name;  // of what makes them; numbers of layers are '*'
  Span span;
  int64_t bytes, count;  // of all of them together
} PlanValue;

typedef struct {  // call_count 0: the plan does not have this program
  int call_count, input_count, output_count;
  PlanCall *calls;
  PlanInput *inputs;
  PlanOutput *outputs;
  int slots;                // microbatches of one step
  int64_t transient_bytes;  // the peak of the transient arena
  double flops;             // model arithmetic of one run
  int value_count;          // at most PLAN_MAX_VALUES
  PlanValue *values;        // the largest, the largest first: for messages
  const char *missing;      // why the plan does not have it, where the text could not be compiled to it; else NULL
} PlanProgram;

#define PLAN_MOST_STEPS INT64_C(1000000000000)  // and batches; far above what any run reaches

// What the loss is in: nats per token; a sum over the tokens of a batch and not their mean; or no unit, as of a mean of
// squares, or of half a mean; or nats per token and what is added to them, as a balance of experts.
typedef enum { LOSS_NATS, LOSS_SUM, LOSS_PLAIN, LOSS_MORE, LOSS_UNIT_COUNT } LossUnit;

typedef struct {  // what the recipe says about a run, resolved
  const char *model, *recipe, *layout, *precision, *optimizer;
  const char *data_kind;       // "text"; "tokens", "tokens_u16", "tokens_u32"; "mix"
  const char *data_path;       // as written, relative to data_base; of a mix its sources (lang/settings_data.c)
  const char *data_base;       // directory of the text that named the data
  const char *data_given;      // what --data named in its place, from anywhere; NULL: nothing
  const char *tokenizer;       // "bytes"; "none"; else a path as that of data
  double validation_fraction;  // the last part of the data, never trained on
  int64_t batch, sequence, steps, eval_every, save_every, log_every;
  int64_t eval_batches;  // of one evaluation while training; 0: all of the validation data
  uint64_t seed;
  double parameters;  // count
  int skip_count;
  PlanRange *skip;  // batches that are not trained on, by number from 1, rising and apart
  LossUnit loss_unit;
  bool strict;  // every run of it gives the same bits: nothing may be used that does not
} PlanRun;

typedef struct {        // machine code of one generated text, or PTX
  uint64_t text;        // cuda_text_hash of the text (kernels/cuda/compile.h)
  const uint8_t *code;  // a cubin (ELF), or NUL-terminated PTX
  size_t bytes;
} PlanCode;

typedef struct {         // kernels compiled ahead of time for one kind of GPU
  const char *target;    // sm_90a; compute_80: PTX
  const char *compiler;  // "NVRTC 13.0"
  // Of the GPU that the texts were generated for: another of the same kind may have others.
  int multiprocessors, shared_bytes;
  int count;
  PlanCode *codes;  // by rising hash
} PlanTarget;

typedef struct {
  PlanRun run;
  ElementType real;  // in which numbers are computed and state is kept: f32 or f64
  // Of the formats in which numbers are kept or multiplied the one with the fewest digits, for error budgets. As many
  // as TensorFloat-32 has f16.
  ElementType coarsest;
  int mesh_count;  // 0: one rank
  PlanMesh mesh[PLAN_MAX_MESH];
  int pipeline;       // the mesh axis of the pipeline, or -1
  int stage, stages;  // the coordinate along it that this plan is for; 0 of 1 without a pipeline
  int term_count;     // at least 1; terms[0] is 0
  PlanTerm *terms;
  int kernel_count, segment_count, state_count, source_count;
  Kernel **kernels;
  PlanSegment *segments;
  PlanState *states;
  PlanProgram programs[PROGRAM_COUNT];
  int phase_count;  // 0: one precision for all steps
  PlanPhase phases[PLAN_MAX_PHASES];
  int64_t arena_bytes[ARENA_CLASS_COUNT];
  const char *resolved;  // the text of resolved.mdl
  Source *sources;       // of the spans
  uint64_t state_hash;   // of the map of persistent state
  int target_count;      // of kinds of GPUs for which there is code: those of all plans of a set together
  PlanTarget *targets;
} Plan;

// The plans of all stages, in their order; one without a pipeline. Ranks of one stage share a plan.
typedef struct {
  int count;
  Plan **plans;
} PlanSet;

// --- ranks ---

int64_t plan_ranks(const Plan *plan);                 // of the whole mesh
int64_t plan_input_bytes(const PlanInput *input);     // of a rank's part, of a microbatch
int64_t plan_output_bytes(const PlanOutput *output);  // from its first element to its last, with what lies between
int64_t plan_inputs_end(const Plan *plan);            // behind the last input of any program, in the host arena
void plan_coordinates(const Plan *plan, int64_t rank, int *coordinate);  // coordinate[mesh_count]
int64_t plan_rank(const Plan *plan, const int *coordinate);              // and back
int64_t plan_term(const Plan *plan, int term, const int *coordinate);    // what a place's term is on this rank
int64_t plan_parts(const Plan *plan, const int *mesh, int count);        // how many parts these mesh axes make
int64_t plan_part(const Plan *plan, const int *mesh, int count, const int *coordinate);  // and which is this rank's
// The coordinates of the rank that stands `steps` before this one in the ring of these mesh axes, in the order of
// ranks.
void plan_before(const Plan *plan, uint32_t mesh, int steps, const int *coordinate, int *before);
// Position along the whole axis of the local one; at or past the size of the axis: padding.
int64_t plan_position(const Plan *plan, const PlanCut *cut, const int *coordinate, int64_t local);
const Plan *plan_of_rank(const PlanSet *set, int64_t rank);
bool plan_is_of(const Plan *plan, int64_t rank);  // whether this rank runs it, of the plans of all stages

// Of the batches behind this one that are trained on, the count-th; batches are numbered from 1.
int64_t plan_batch_after(const PlanRun *run, int64_t batch, int64_t count);
void plan_skip_text(const PlanRun *run, Buffer *out);             // "batches 1200 .. 1215, 3000: 17 are passed over"
int plan_find_state(const Plan *plan, const char *name);          // index or -1
int plan_calls(const Plan *plan, ProgramKind kind, int segment);  // of a segment by a program
int64_t plan_instructions(const Plan *plan, ProgramKind kind);    // run by one run of a program
// "model.mdl:17": where a span begins; empty if no text of the plan is behind it.
void plan_source(const Plan *plan, Span span, char *text, size_t size);
const PlanCode *plan_code(const PlanTarget *target, uint64_t text);  // or NULL
double plan_target_bytes(const PlanTarget *target);                  // of all its code
// State of a recipe with `spike`: the losses of the last steps.
#define PLAN_SPIKE_LOSSES "spike.losses"
// Is it one of the largest numbers that a value rounded to 8 bits had in the last steps? 0: not known.
bool plan_state_is_history(const PlanState *state);
// The terms of an output that an evaluation weighs in one way are an output of this name, where it weighs others in
// another.
#define PLAN_TERMS "%s.%s"  // the name of the output, and:
const char *plan_weighing_name(PlanWeighing weighing);
bool plan_is_terms(const char *output);
// The training step under a precision of the run.
ProgramKind plan_train_program(int policy, bool cold);
int64_t program_block(ProgramKind kind);  // positions of a program that keeps keys and values; 0: of another
int program_policy(ProgramKind kind);     // the other way round: -1 for what is no training step
bool program_is_cold(ProgramKind kind);
// The phase that a step is in, or NULL: the run has none.
const PlanPhase *plan_phase(const Plan *plan, int64_t step);
// What a training step says of itself; its other outputs are those of the text.
enum { SHOWN_NUMBERS = 64 };  // of an output with one axis, if metrics are to have it
#define STEP_OUTPUTS "loss", "grad_norm", "lr", "skipped"

const char *program_kind_name(ProgramKind kind);
const char *instruction_kind_name(InstructionKind kind);
bool instruction_is_shared(const Instruction *instruction);   // a collective or a transfer
bool instruction_computes(const Instruction *instruction);    // neither that nor a copy to or from the host
bool instruction_multiplies(const Instruction *instruction);  // matrices
bool instruction_attends(const Instruction *instruction);     // attention, or anything of its gradient
const char *collective_kind_name(CollectiveKind kind);

#endif
