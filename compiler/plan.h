// plan.h: everything one rank does, decided before the first step.
//
// A plan is immutable, owned by the arena it was made in, and holds no pointers into memory of a device: an
// operand is (arena class, byte offset). Programs call segments; a segment is a straight list of instructions.
#ifndef MDL_COMPILER_PLAN_H
#define MDL_COMPILER_PLAN_H

#include "base/arena.h"
#include "base/diag.h"
#include "compiler/kernel.h"
#include "compiler/types.h"

enum { PLAN_VERSION = 1, PLAN_MAX_AXES = 16, PLAN_ALIGN = 256 };

typedef enum {
  ARENA_PERSISTENT,     // parameters and all other state: what a checkpoint holds
  ARENA_TRANSIENT,      // values of one step
  ARENA_COMMUNICATION,  // buffers of collectives: equal offsets on all ranks
  ARENA_HOST,           // inputs of a step and its outputs: written and read by the host
  ARENA_CLASS_COUNT
} ArenaClass;

typedef struct {
  ArenaClass arena;
  int64_t offset;       // bytes
  int64_t slot_stride;  // bytes added for each microbatch slot of the call; 0 for most
} Place;

typedef enum {
  WRITE_STORE,            // overwrites
  WRITE_ADD,              // adds to what is there
  WRITE_ADD_AFTER_FIRST,  // stores in a call marked first, adds in the others
} WriteMode;

typedef enum {
  INSTRUCTION_KERNEL,
  INSTRUCTION_GEMM,
  INSTRUCTION_TAKE,
  INSTRUCTION_PUT,
  INSTRUCTION_WINDOW,
  INSTRUCTION_FOLD,
  INSTRUCTION_ATTENTION,
  INSTRUCTION_ATTENTION_GRAD,
  INSTRUCTION_KIND_COUNT
} InstructionKind;

typedef struct {
  int kernel;  // index into Plan.kernels
  // For each port. For the random numbers' PORT_STRIDES, whose ports have no memory: the index at which the
  // coordinates begin (offset + slot * slot_stride), so that a microbatch draws its part of the whole batch's numbers.
  Place *place;
} KernelCall;

// c[batch..., m, n] = sum over k of a[batch..., m, k] * b[batch..., k, n]; row-major with leading dimensions.
// transpose_a: a is stored [k, m] with row stride lda; transpose_b: b is stored [n, k]. All of one type.
typedef struct {
  ElementType type;
  bool transpose_a, transpose_b;
  int64_t m, n, k, lda, ldb, ldc;
  int batch_count;                                          // of batch dims, outer first
  int64_t batch[4], stride_a[4], stride_b[4], stride_c[4];  // in elements
  Place a, b, c;
  WriteMode write;
} Gemm;

// TAKE: out[dims] = x[dims with the indexed axis at index[dims]]; PUT: x = 0 (unless it adds), then
// x[... index ...] += out-shaped source, in order of coordinates. dims[] cover out; strides are in elements, 0
// where a tensor does not vary. An index outside [0, extent) gives 0 and adds nothing.
typedef struct {
  ElementType type;
  int dim_count;
  int64_t size[PLAN_MAX_AXES], stride_x[PLAN_MAX_AXES], stride_index[PLAN_MAX_AXES], stride_out[PLAN_MAX_AXES];
  int64_t extent, stride_axis;  // of the indexed axis in x
  int64_t x_elements;           // PUT: dense elements from place x that are zeroed first
  Place x, index, out;          // PUT reads out and writes x
  WriteMode write;              // PUT only
} Take;

// WINDOW: out[dims, t] = x[dims with position s + t - (taps - 1)] or 0 outside; the last tap is the position itself.
// FOLD is its transpose: x[dims, s] = sum over t of out[dims with position s - t + taps - 1, t] where inside.
typedef struct {
  ElementType type;
  int dim_count;  // of x, the windowed dim among them
  int windowed;   // which dim
  int64_t size[PLAN_MAX_AXES], stride_x[PLAN_MAX_AXES], stride_out[PLAN_MAX_AXES];
  int64_t taps, stride_tap;  // in out
  Place x, out;
} Window;

// Scaled dot-product attention, softmax statistics saved, no [queries, keys] matrix in memory.
// q, o: [batch, query, head, group, depth]; k, v: [batch, key, head, depth]; strides in elements of each dim but
// the last, which is contiguous. o = softmax(scale * q.k, masked by key <= query if causal) v.
// statistics: log of the sum of exponentials of the scaled scores, [batch, head, group, query], dense, in the
// real type. GRAD reads q, k, v, o, d_o, statistics and writes dq, dk, dv (dk and dv summed over group).
typedef struct {
  ElementType type;
  bool causal;
  double scale;
  int64_t batch, queries, keys, heads, groups, depth, value_depth;
  int64_t stride_q[4], stride_o[4], stride_dq[4], stride_do[4];  // batch, query, head, group
  int64_t stride_k[3], stride_v[3], stride_dk[3], stride_dv[3];  // batch, key, head
  Place q, k, v, o, statistics, d_o, dq, dk, dv;
} Attention;

typedef struct {
  InstructionKind kind;
  Span span;         // the text that caused it
  const char *name;  // path of the value it makes, e.g. layers.3.q; for traces and messages
  double flops;      // model arithmetic of one call
  double bytes;      // least memory traffic of one call
  union {
    KernelCall kernel;
    Gemm gemm;
    Take take;
    Window window;
    Attention attention;
  } as;
} Instruction;

typedef enum { STATE_PARAMETER, STATE_OPTIMIZER, STATE_MODEL } StateRole;

typedef struct {     // one logical tensor that outlives a step
  const char *name;  // layers.3.q.w; optimizer state: adamw.m.layers.3.q.w
  StateRole role;
  ElementType type;
  int axis_count;
  const char *axis[PLAN_MAX_AXES];  // in written order, the order of checkpoints
  int64_t size[PLAN_MAX_AXES];
  int64_t stride[PLAN_MAX_AXES];  // in elements of the persistent arena, for each written axis
  int64_t offset;                 // bytes in the persistent arena
} PlanState;

typedef struct {     // what the host writes before a program runs
  const char *name;  // tokens, targets, ...; "step" is the number of the step, from 1, an int
  ElementType type;
  int axis_count;
  const char *axis[PLAN_MAX_AXES];
  int64_t size[PLAN_MAX_AXES];  // of one slot, dense in this order
  int64_t bound;                // index: size of the indexed axis; else 0
  Place place;                  // slot s begins at offset + s * slot_stride
} PlanInput;

typedef struct {     // what the host reads after it
  const char *name;  // loss, grad_norm, lr, skipped, or an output of the model
  ElementType type;
  int axis_count;
  const char *axis[PLAN_MAX_AXES];
  int64_t size[PLAN_MAX_AXES], stride[PLAN_MAX_AXES];
  Place place;
} PlanOutput;

typedef struct {
  const char *name;
  int count;
  Instruction *instructions;
} PlanSegment;

typedef struct {
  int segment, slot;
  bool first;  // of the calls that accumulate
} PlanCall;

typedef enum { PROGRAM_INITIALISE, PROGRAM_TRAIN, PROGRAM_EVALUATE, PROGRAM_GENERATE, PROGRAM_COUNT } ProgramKind;

typedef struct {  // call_count 0: the plan does not have this program
  int call_count, input_count, output_count;
  PlanCall *calls;
  PlanInput *inputs;
  PlanOutput *outputs;
  int slots;                // microbatches of one step
  int64_t transient_bytes;  // the peak of the transient arena
  double flops;             // model arithmetic of one run
} PlanProgram;

typedef struct {  // what the recipe says about a run, resolved
  const char *model, *recipe, *layout, *precision, *optimizer;
  const char *data_kind;       // "text" or "tokens"
  const char *data_path;       // as written in the recipe; relative to data_base
  const char *data_base;       // directory of the text that named the data
  const char *tokenizer;       // "bytes"
  double validation_fraction;  // the last part of the data, never trained on
  int64_t batch, sequence, steps, eval_every, save_every, log_every;
  int64_t eval_batches;  // of one evaluation while training; 0: all of the validation data
  uint64_t seed;
  double parameters;  // count
} PlanRun;

typedef struct {
  PlanRun run;
  ElementType real;
  int kernel_count, segment_count, state_count, source_count;
  Kernel **kernels;
  PlanSegment *segments;
  PlanState *states;
  PlanProgram programs[PROGRAM_COUNT];
  int64_t arena_bytes[ARENA_CLASS_COUNT];
  const char *resolved;  // the text of resolved.mdl
  Source *sources;       // of the spans
  uint64_t state_hash;   // of the map of persistent state
} Plan;

int plan_find_state(const Plan *plan, const char *name);        // index or -1
int64_t plan_instructions(const Plan *plan, ProgramKind kind);  // run by one run of a program
const char *program_kind_name(ProgramKind kind);
const char *instruction_kind_name(InstructionKind kind);

#endif
