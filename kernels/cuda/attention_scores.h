// attention_scores.h: the scores of an attention as functions of the device, which its texts call on the tiles that
// they have (text/attention_score.cu).
#ifndef MDL_KERNELS_CUDA_ATTENTION_SCORES_H
#define MDL_KERNELS_CUDA_ATTENTION_SCORES_H

#include "base/buffer.h"
#include "compiler/plan/plan.h"

// The kernels of Attention.score and score_gradient; NULL: there is none.
typedef struct {
  const Kernel *score, *gradient;
} AttentionScores;

int attention_scores_ports(const AttentionScores *scores);  // what both capture, in the order of slots

// Whether data, or more than distances between positions, tells which blocks of keys nobody sees.
bool attention_scores_hide(const AttentionScores *scores);

// Whether they are masks of the dot product times a factor, and nothing else: then the factor may be taken out of them
// (plain), and the gradient of a score is that of its product.
bool attention_scores_plain(const AttentionScores *scores, double *factor);

// first_slot: that of the first of them. low: results are rounded to 16 bits, as errors of functions may show. plain:
// the factor is left out.
void attention_scores_write(Buffer *text, const AttentionScores *scores, int first_slot, bool low, bool plain,
                            Arena *arena);

#endif
