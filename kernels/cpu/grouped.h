// grouped.h: rows sorted by index, and their products with the matrices that the indices choose (instructions.def,
// ORDER, GROUPED, GROUPED_SUM).
//
// The rows of one index are one product of gemm.h, whose tiles follow from how many there are: results do not depend on
// the number of threads.
#ifndef MDL_KERNELS_CPU_GROUPED_H
#define MDL_KERNELS_CPU_GROUPED_H

#include "kernels/cpu/gemm.h"

typedef struct {
  const void *a, *b;
  void *c;
  const int32_t *chosen;
} GroupedPorts;

bool grouped_check(const Grouped *grouped, bool sums, const char *name, Error *error);
int64_t grouped_scratch_bytes(const Grouped *grouped, bool sums);  // for each worker
void grouped_run(const Grouped *grouped, bool sums, const Blas *blas, const Simd *simd, Pool *pool,
                 const GroupedPorts *ports, bool first, char *const *scratch);

typedef struct {
  const int32_t *index;
  int32_t *place, *from, *chosen;
} OrderPorts;

int64_t order_shared_bytes(const Order *order);
void order_run(const Order *order, const OrderPorts *ports, char *shared);

#endif
