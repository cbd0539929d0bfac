// attention.h: attention that cuDNN and a kernel of our own can do, and which of them a run takes.
//
// Both are timed once, on the memory of the plan, and the choice is kept in the tuning record. Ours is taken if it is
// at most 2% slower, for it gives the same bits each time.
#ifndef MDL_RUNTIME_CUDA_ATTENTION_H
#define MDL_RUNTIME_CUDA_ATTENTION_H

#include "runtime/cuda/cudnn_attention.h"
#include "runtime/cuda/modules.h"
#include "runtime/cuda/tuning.h"

typedef struct {
  CudnnAttention *library;
  Loaded *own;  // NULL: there is no choice
  const char *key;
  bool tuned, takes_own;
} AttentionChoice;

const char *attention_form(const AttentionChoice *choice);

// Takes the choice from the record, if it has one; NULL: there is none.
void attention_find(AttentionChoice *choice, Tuning *tuning);

bool attention_launch(const Cuda *cuda, Cudnn *cudnn, const AttentionChoice *choice, const uint64_t *slots,
                      CudaAddress scratch, bool first, CudaStream stream, Error *error);

// Times both on these addresses, which must hold numbers of the usual size.
bool attention_tune(const Cuda *cuda, Cudnn *cudnn, AttentionChoice *choice, const uint64_t *slots, CudaAddress scratch,
                    CudaStream stream, Tuning *tuning, Error *error);

#endif
