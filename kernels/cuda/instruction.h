// instruction.h: an instruction of a plan as CUDA C, as mdlc needs it ahead of time and the backend when it opens.
//
// The text follows from the plan, the instruction and the figures of the target alone: it is the same on every machine
// and every rank, so that code compiled ahead of time can be found by a hash of it (compile.h).
#ifndef MDL_KERNELS_CUDA_INSTRUCTION_H
#define MDL_KERNELS_CUDA_INSTRUCTION_H

#include "base/arena.h"
#include "compiler/plan/plan.h"
#include "kernels/cuda/attention_scores.h"
#include "kernels/cuda/kernel.h"
#include "kernels/cuda/target.h"

// The largest power of two, up to 16, that divides every address of this place: in all slots and lanes, on all ranks of
// the plan.
int cuda_place_alignment(const Plan *plan, const Place *place);

// Whether such instructions are generated kernels: products are a library's, copies the driver's, and what is between
// ranks NCCL's. Attention is, although a library may do it.
bool cuda_instruction_generates(InstructionKind kind);

// The kernels of one plan for one target, each made once for all instructions that differ in their places alone.
typedef struct CudaKernels CudaKernels;

CudaKernels *cuda_kernels_create(const Plan *plan, CudaTarget target, Arena *arena);

// In the arena, and the same pointer for equal kernels. NULL: there is none, and `why` says so in words that live as
// long as the arena. Ports are: of a KERNEL, its own; of the others, their places as order.h, grouped.h, take.h,
// window.h, squares.h and attention.h say.
const CudaKernel *cuda_instruction(CudaKernels *kernels, const Instruction *instruction, const char **why);

// The kernels of its scores, where the model's text makes them.
AttentionScores cuda_attention_scores(const Plan *plan, const Attention *attention);

#endif
