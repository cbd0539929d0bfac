// attention.h: scaled dot-product attention and its gradient as CUDA C, without a [queries, keys] matrix in memory.
//
// bf16 and f16 run on tensor cores: by products of warpgroups on sm_90a (attention_hopper.h), where tensors lie at
// multiples of 16 bytes, else by mma.sync (sm_80 and newer). f32 and f64 run by multiply-add. Statistics are f32 (f64
// for f64). Nothing is added with atomics: a call gives the same bits each time.
#ifndef MDL_KERNELS_CUDA_ATTENTION_H
#define MDL_KERNELS_CUDA_ATTENTION_H

#include "base/arena.h"
#include "compiler/plan/plan.h"
#include "kernels/cuda/attention_scores.h"
#include "kernels/cuda/generate.h"
#include "kernels/cuda/kernel.h"

// Whether the keys are a block of those that go round a ring, or may be at other positions than from 0 on.
bool cuda_attention_rings(const Attention *attention);

// kind: ATTENTION, or ATTENTION_GRAD or ATTENTION_CAPTURED. Ports: q, k, v, o, statistics, origin 0, origin 1; of the
// gradient: q, k, v, o, statistics, d_o, dq, dk, dv, origin 0, origin 1; of that of what is captured: q, k, v, o,
// statistics, d_o, d_captured, origin 0, origin 1. If it is large, what statistics have lost follows, if it is
// seeded, backward, the gradient of the statistics. If it is biased, slopes come before the origins. The origins are
// numbers: the position of the first query of each part (Attention.origin + its term). If cuda_attention_rings, key
// origin 0 and 1 follow: those of the keys. False, with `why` in words, for a type or depth that has no kernel, or none
// that the shared memory of `target` holds. alignment: bytes, of all tensors. scores: its kernels, what they capture
// comes before the origins.
bool cuda_attention(const Attention *attention, InstructionKind kind, int alignment, const AttentionScores *scores,
                    const CudaTarget *target, Arena *arena, CudaKernel *made, const char **why);

#endif
