// scores.h: a kernel of scores (Attention.score) on the tile of scores that a worker has.
#ifndef MDL_KERNELS_CPU_SCORES_H
#define MDL_KERNELS_CPU_SCORES_H

#include "compiler/plan/score_masks.h"
#include "kernels/cpu/simd.h"

// A kernel, and what is known of its masks.
typedef struct {
  const Kernel *kernel;  // NULL: there is none
  ScoreMasks masks;
  bool whole[KERNEL_MAX_CODE];  // instructions that are run where masks let everything through
} ScoreProgram;

void scores_prepare(const Kernel *kernel, ScoreProgram *program);

// Lines [key][ATTENTION_QUERIES]: of `keys` keys, and of `queries` queries; the other lanes hold anything.
typedef struct {
  const ScoreProgram *program;
  char *const *captured;  // by port: where its element of the first batch, head, group, key and query lies
  int64_t batch, head, group, key, query;  // the first of the tile, in memory
  int64_t keys, queries;
  int64_t key_position, query_position;  // of the first
  const char *dot, *gradient;            // inputs; gradient may be NULL
  char *made;
} ScoreTile;

ScoresKnown scores_known(const ScoreTile *tile);  // reads what is captured alone
int64_t scores_scratch_bytes(void);               // of any kernel; aligned to 64 bytes
void scores_run(const ScoreTile *tile, const Simd *simd, char *scratch);

// A number of a tile, or of what there is for each query: `bytes` long, as the real type is.
static inline double tile_get(int64_t bytes, const char *memory, int64_t at) {
  return bytes == 4 ? (double)((const float *)(const void *)memory)[at] : ((const double *)(const void *)memory)[at];
}

static inline void tile_set(int64_t bytes, char *memory, int64_t at, double value) {
  if (bytes == 4) {
    ((float *)(void *)memory)[at] = (float)value;
  } else {
    ((double *)(void *)memory)[at] = value;
  }
}

#endif
