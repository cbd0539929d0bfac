// cudnn_attention.h: attention through cuDNN's fused engines.
//
// Covered: f16 and bf16, depth a multiple of 8 and that of the values, queries at positions from 0, statistics in f32.
// What is not is refused with a reason, so that the caller can take another way.
#ifndef MDL_RUNTIME_CUDA_CUDNN_ATTENTION_H
#define MDL_RUNTIME_CUDA_CUDNN_ATTENTION_H

#include "base/arena.h"
#include "runtime/cuda/cudnn.h"

// In the order of the slots of a launch: a forward pass has those before d_o.
typedef enum {
  CUDNN_SLOT_Q,
  CUDNN_SLOT_K,
  CUDNN_SLOT_V,
  CUDNN_SLOT_O,
  CUDNN_SLOT_STATISTICS,
  CUDNN_SLOT_DO,
  CUDNN_SLOT_DQ,
  CUDNN_SLOT_DK,
  CUDNN_SLOT_DV,
  CUDNN_SLOT_SLOPES,  // if it is biased; the last given, whichever come before
  CUDNN_SLOTS
} CudnnSlot;

// Makes the plan of an attention or of its gradient; the places of `attention` do not matter, beyond how they are
// aligned. Equal problems share one. The arena must live as long as `cudnn`. False with the reason in `why`, a text of
// the arena or of the program, where cuDNN does not cover it. A strict library refuses gradients: cuDNN's are added up
// in an order that changes from run to run.
// Kernels are loaded here by a run on memory that is given back; where there is no memory for that, by the first
// launch.
bool cudnn_attention_prepare(Cudnn *cudnn, const Attention *attention, bool gradient, Arena *arena,
                             CudnnAttention **out, const char **why);
int64_t cudnn_attention_workspace(const CudnnAttention *attention);  // bytes, a multiple of PLAN_ALIGN

// Puts it on `stream`, which may be under capture: nothing is allocated on the GPU or loaded here. slots: the addresses
// of q, k, v, o, statistics, for the gradient of d_o, dq, dk, dv, and of the slopes if it is biased. The workspace is
// aligned to PLAN_ALIGN; what is in it does not matter before or after.
bool cudnn_attention_launch(Cudnn *cudnn, const CudnnAttention *attention, const uint64_t *slots, CudaAddress workspace,
                            CudaStream stream, Error *error);

const char *cudnn_attention_form(const CudnnAttention *attention);  // "cuDNN 9.19.0, engine 3": for traces

#endif
