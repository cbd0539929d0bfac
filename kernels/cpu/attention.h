// attention.h: scaled dot-product attention and its gradient, without a [queries, keys] matrix in memory.
#ifndef MDL_KERNELS_CPU_ATTENTION_H
#define MDL_KERNELS_CPU_ATTENTION_H

#include "kernels/cpu/simd.h"
#include "runtime/cpu/pool.h"
#include "runtime/device.h"

// Addresses of the tensors of an Attention; the forward reads q, k, v and writes o and statistics.
typedef struct {
  char *q, *k, *v, *o, *statistics, *lost, *d_o, *d_statistics, *dq, *dk, *dv, *d_captured, *slopes;
  int64_t first[2];                         // the position of the first query of each part
  int64_t key_first[2];                     // and of the first key
  const Kernel *score, *score_gradient;     // NULL: none
  char **captured, **captured_by_gradient;  // by port of these
} AttentionPorts;

static inline bool attention_is_narrow(const Attention *attention) {
  return element_type_bytes(attention->type) < element_type_bytes(TYPE_F32);
}

bool attention_check(const Attention *attention, const char *name, Error *error);
int64_t attention_scratch_bytes(const Attention *attention);  // for each worker, forward or backward
void attention_run(const Attention *attention, const Simd *simd, Pool *pool, const AttentionPorts *ports,
                   char *const *scratch);
void attention_grad_run(const Attention *attention, const Simd *simd, Pool *pool, const AttentionPorts *ports,
                        char *const *scratch);
// The gradient of one captured tensor.
void attention_captured_run(const Attention *attention, const Simd *simd, Pool *pool, const AttentionPorts *ports,
                            char *const *scratch);

#endif
