// attention_hopper.h: attention on sm_90a, with products of warpgroups and copies of boxes: part of attention.h.
//
// The gradient adds up dq in device memory, in f32, in an order that does not change (text/attention_hopper_grad.cu).
#ifndef MDL_KERNELS_CUDA_ATTENTION_HOPPER_H
#define MDL_KERNELS_CUDA_ATTENTION_HOPPER_H

#include "base/buffer.h"
#include "compiler/plan/plan.h"
#include "kernels/cuda/attention_scores.h"
#include "kernels/cuda/kernel.h"
#include "kernels/cuda/target.h"

// Whether it is one of these. whole: rows of all tensors begin at multiples of 16 bytes.
bool attention_hopper_covers(const Attention *attention, bool gradient, bool whole, const CudaTarget *target);

// What comes before the slots: operations of the chip.
void attention_hopper_begin(Buffer *text, const Attention *attention, bool gradient, const CudaTarget *target);

// All behind the constants that every attention of 16-bit elements has; rows, tile: for the form.
void attention_hopper_write(Buffer *text, const Attention *attention, bool gradient, const AttentionScores *scores,
                            const CudaTarget *target, CudaKernel *made, int64_t *rows, int64_t *tile);

#endif
