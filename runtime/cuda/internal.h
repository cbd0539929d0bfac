// internal.h: the Device of the CUDA backend, for the files of this folder alone.
//
// Opening it goes: driver, prepare (every instruction of the plan becomes a kernel to be compiled, a problem of a
// library or a copy), memory, one run of every program to make the libraries load what they need, capture. After that
// nothing is allocated, compiled or loaded.
#ifndef MDL_RUNTIME_CUDA_INTERNAL_H
#define MDL_RUNTIME_CUDA_INTERNAL_H

#include "base/array.h"
#include "kernels/cuda/instruction.h"
#include "runtime/cuda/attention.h"
#include "runtime/cuda/comms.h"
#include "runtime/cuda/copies.h"
#include "runtime/cuda/gemm.h"
#include "runtime/cuda/host.h"
#include "runtime/cuda/modules.h"
#include "runtime/cuda/offload.h"
#include "runtime/cuda/queues.h"
#include "runtime/cuda/timing.h"

typedef enum {
  PREPARED_NOTHING,
  PREPARED_KERNEL,     // a generated kernel
  PREPARED_GEMM,       // cuBLASLt
  PREPARED_ATTENTION,  // cuDNN, or what it is compared with
  PREPARED_COPY,       // a PIECE
  PREPARED_SHARED,     // with other ranks
  PREPARED_OFFLOAD,    // to memory of the host, or back
} PreparedKind;

typedef enum { SLOT_ADDRESS, SLOT_INDEX, SLOT_NUMBER } SlotKind;  // INDEX: a place without memory (KernelCall)

typedef struct {
  SlotKind kind;
  const Place *place;
  int64_t number;
} Slot;

typedef struct {  // an instruction, ready to be launched
  PreparedKind kind;
  int slot_count;
  const Slot *slots;
  const char *form;  // how it is done, in words: for traces
  bool lasting;      // it writes persistent memory
  union {
    Loaded *loaded;
    GemmProblem *gemm;
    AttentionChoice *attention;
  } as;
} Prepared;

typedef struct {        // how attention is done, or its gradient
  const char *library;  // of cuDNN's plan, or the first of them; NULL: none is
  bool own;             // some by generated kernels
  const char *why;      // why not by cuDNN; NULL: nothing forbids it
} AttentionWay;

typedef struct {  // a program as CUDA graphs, one after the other
  ARRAY(CudaGraphExec) parts;
  int64_t nodes;
} ProgramGraphs;

struct Device {
  const Plan *plan;
  Peers *peers;  // NULL: the only rank there is
  int64_t rank;
  int coordinate[PLAN_MAX_MESH];
  int64_t *term;       // what each term of the plan is on this rank
  const char *record;  // of the run that is gone on with (device.h), or NULL
  Arena *arena;        // of what open prepared
  Cuda cuda;
  CudaDevice gpu;
  CudaStream stream;
  Comms *comms;                           // NULL: the only rank there is
  CudaAddress memory[ARENA_CLASS_COUNT];  // of ARENA_OFFLOAD: 0
  char *offloaded;                        // memory of ARENA_OFFLOAD; NULL: nothing is offloaded
  Queues *queues;                         // NULL: there is no other than that of arithmetic
  CudaAddress scratch;
  int64_t scratch_bytes;
  int64_t taken_bytes;    // of the GPU's memory, by this process, libraries and code included
  int64_t context_bytes;  // of those, the driver's before there was anything else
  int64_t joined_bytes;   // of those, what NCCL took as communicators were made and used first
  CudaKernels *kernels;
  Modules *modules;
  Gemms *gemms;               // NULL: the plan has no matrix products
  Cudnn *cudnn;               // NULL: nothing for it, or cudnn_missing
  const char *cudnn_missing;  // why it is not there; NULL: it is, or was not looked for
  AttentionWay attention[2];  // forward, gradient
  ARRAY(AttentionChoice *) choices;
  Prepared **prepared;  // [segment][instruction]
  ProgramGraphs graphs[PROGRAM_COUNT];
  Host host;
  Copies copies;
  bool capturing;
  Timing *timing;  // NULL: nothing was traced yet
  bool tracing;    // runs are launched one instruction after the other, and timed
};

// prepare.c: fills `prepared`, `modules` and `scratch_bytes`.
bool device_prepare(Device *device, Error *error);
void device_prepare_undo(Device *device);

// launch.c: puts instructions on the stream.
int64_t place_position(const Device *device, const Place *place, const PlanCall *call);  // in its arena
CudaAddress place_address(const Device *device, const Place *place, const PlanCall *call);
bool device_launch_program(Device *device, ProgramKind program, Error *error);
// Times the algorithms of matrix products that are not in the record. adopted: some are now those of another process.
bool device_tune(Device *device, bool *adopted, Error *error);
bool device_capture(Device *device, ProgramKind program, Error *error);

#endif
