// grouped_reference.h: rows ordered by index, and their products with chosen matrices, as instructions.def defines
// them, in plain loops and in double; and indices of every skew.
#ifndef MDL_TESTS_GROUPED_REFERENCE_H
#define MDL_TESTS_GROUPED_REFERENCE_H

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "compiler/plan/plan.h"
#include "tests/elements.h"

typedef enum {
  SKEW_ANY,   // drawn alike, with some that are no index
  SKEW_ONE,   // all positions have one index, the last but one
  SKEW_NONE,  // no position has an index
  SKEW_EACH,  // one position of each index, as far as they go; the others have none
  SKEW_HALF,  // half of them have one index, the rest the even ones
  SKEW_COUNT
} Skew;

// `random` gives numbers from 0 to 2^31 - 1.
static inline void skew_draw(Skew skew, int32_t *index, int64_t count, int64_t extent, uint32_t (*random)(void *),
                             void *state) {
  for (int64_t i = 0; i < count; i++) {
    const int64_t number = random(state), any = number % (extent + 2) - 1;
    const int64_t one = extent > 1 ? extent - 2 : 0;
    index[i] = (int32_t)(skew == SKEW_ANY    ? any
                         : skew == SKEW_ONE  ? one
                         : skew == SKEW_NONE ? (number % 2 ? -1 : extent)
                         : skew == SKEW_EACH ? (i < extent ? extent - 1 - i : -1)
                         : number % 2        ? one
                                             : any / 2 * 2);
  }
}

// As long as the capacity holds all.
static inline int64_t order_holding(int64_t count, int64_t extent, int64_t block) {
  return (count + extent * (block - 1) + block - 1) / block * block;
}

static inline void order_plain(const Order *order, const int32_t *index, int32_t *place, int32_t *from,
                               int32_t *chosen) {
  int64_t row = 0;
  for (int64_t r = 0; r < order->capacity; r++) {
    from[r] = chosen[r / order->block] = -1;
  }
  for (int64_t p = 0; p < order->count; p++) {
    place[p] = -1;
  }
  for (int64_t i = 0; i < order->extent; i++) {
    for (int64_t p = 0; p < order->count; p++) {
      if (index[p] == i) {
        if (row < order->capacity) {
          place[p] = (int32_t)row;
          from[row] = (int32_t)p;
          chosen[row / order->block] = (int32_t)i;
        }
        row++;
      }
    }
    row = (row + order->block - 1) / order->block * order->block;
  }
}

typedef struct {
  double sum, size;  // of the terms, and of their absolute values
  bool there;        // else it is none of a product: 0, or what was there
} Product;

// Element [row, column] of c, or of the matrix number `matrix` of it.
static inline Product product_plain(const Grouped *g, bool sums, const void *a, const void *b, const int32_t *chosen,
                                    int64_t matrix, int64_t row, int64_t column) {
  Product made = {0, 0, false};
  for (int64_t r = sums ? 0 : row; r < (sums ? g->rows : row + 1); r++) {
    const int64_t own = chosen[r / g->block];
    if (own < 0 || own >= g->extent || (sums && own != matrix)) {
      continue;
    }
    made.there = true;
    for (int64_t k = 0; k < (sums ? 1 : g->k); k++) {
      const double x = element_at(g->type, a, r * g->lda + (sums ? row : k));
      const int64_t at = own * g->stride + (g->transpose_b ? column * g->ldb + k : k * g->ldb + column);
      const double y = element_at(g->type, b, sums ? r * g->ldb + column : at);
      made.sum += x * y;
      made.size += fabs(x * y);
    }
  }
  return made;
}

#endif
