// score_masks.h: what is known of a block of scores, some queries by some keys, before any of them is made.
//
// Masks of a kernel of scores (Attention.score) are its choices (WHERE) by what is made of integers: positions, and
// captured tensors. Intervals of those over a block tell whether all its scores are -infinity (it is hidden: nobody
// needs to look at it) and whether every mask lets all of it through (it is whole: the masks need not be looked at).
#ifndef MDL_COMPILER_PLAN_SCORE_MASKS_H
#define MDL_COMPILER_PLAN_SCORE_MASKS_H

#include "compiler/plan/plan.h"

enum { SCORE_MOST_RANGED = 8 };

typedef struct {
  int64_t low, high;
} ScoreRange;

typedef enum {
  RANGE_UNKNOWN,  // any number
  RANGE_QUERY,    // a position
  RANGE_KEY,
  RANGE_CAPTURED,  // an element of a tensor without heads, of a query, of a key or of neither
  RANGE_NUMBER,
  RANGE_MADE  // by its own operation (ranges.def)
} RangeKind;

typedef struct {
  int ranged_count, ranged[SCORE_MOST_RANGED];  // ports of captured tensors whose intervals masks ask for
  RangeKind kind[KERNEL_MAX_CODE];              // of integers that masks ask for, else RANGE_UNKNOWN
  bool choice[KERNEL_MAX_CODE];                 // a WHERE whose condition may be known
  int open[KERNEL_MAX_CODE];                    // of a mask, the operand that it lets through: 1 or 2, else 0
  bool any;                                     // there are masks
  bool beyond;                                  // they may hide blocks which distances between positions do not tell
  bool alone;                                   // only they make scores of -infinity
} ScoreMasks;

typedef struct {
  ScoreRange query, key;  // positions
  ScoreRange captured[SCORE_MOST_RANGED];
} ScoreBlock;

typedef enum { SCORES_MIXED, SCORES_HIDDEN, SCORES_WHOLE } ScoresKnown;

typedef enum {  // when a real number is surely -infinity
  HIDDEN_NEVER,
  HIDDEN_ALWAYS,
  HIDDEN_FIRST,   // its first operand is
  HIDDEN_EITHER,  // one of two is
  HIDDEN_BOTH,
  HIDDEN_CHOICE  // what is chosen is
} HiddenWhen;

HiddenWhen score_hidden(const KernelInstruction *code);

void score_masks(const Kernel *kernel, ScoreMasks *masks);
ScoresKnown score_block(const Kernel *kernel, const ScoreMasks *masks, const ScoreBlock *block);

// Whether masks are all that there is to scores beside a factor > 0 of the dot product. part: what is the product times
// a factor, or one of these that masks have seen; KERNEL_MAX_CODE of them.
bool score_masks_only(const Kernel *kernel, const ScoreMasks *masks, bool *part, double *factor);

// Whether a ranged tensor has an element of each key, or of each query; neither: one for all.
static inline bool score_by_key(const Kernel *kernel, int port) {
  return kernel->port[port].stride[SCORE_DIM_KEY] != 0;
}

static inline bool score_by_query(const Kernel *kernel, int port) {
  return kernel->port[port].stride[SCORE_DIM_QUERY] != 0;
}

// The text of a device for the functions range_NAME of ranges.def, over struct Range { int low, high; }.
extern const char score_ranges_text[];
const char *score_range_function(KernelOp op);  // NULL: there is none

#endif
