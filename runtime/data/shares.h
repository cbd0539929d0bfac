// shares.h: which of several sources each sample is of, so that at any moment each has had its share.
//
// The answer depends on the number of the sample alone. Of the first n samples a source has had n times its share, less
// or more than that by less than the number of sources.
#ifndef MDL_RUNTIME_DATA_SHARES_H
#define MDL_RUNTIME_DATA_SHARES_H

#include <stdbool.h>
#include <stdint.h>

typedef struct {
  int count;
  uint64_t *part;  // of what the sources before leave, in 2^-32
} Shares;

bool shares_set(Shares *shares, const double *weights, int count);  // at least 0, of any sum above 0; false: no memory
void shares_free(Shares *shares);
// The source of sample `number`, from 0. *own: how many samples of this source are before it.
int shares_find(const Shares *shares, int64_t number, int64_t *own);

#endif
