// strided.h: bytes with gaps between them: those of a matrix whose rows are apart, say.
#ifndef MDL_COMPILER_PLAN_STRIDED_H
#define MDL_COMPILER_PLAN_STRIDED_H

#include <stdbool.h>
#include <stdint.h>

enum { STRIDED_DIMS = 20 };

typedef struct {
  int64_t size, stride;
} StridedDim;

typedef struct {
  int64_t first, run;            // `run` bytes each time, the first of them at `first`
  int count;                     // of dimensions along which that is repeated
  StridedDim dim[STRIDED_DIMS];  // the longest stride first, none below 1
} Strided;

// Repeats all bytes so far `size` times, `stride` apart. False: it has too many dimensions already.
bool strided_repeat(Strided *strided, int64_t size, int64_t stride);

// Makes one run of what has no gaps: without dimensions it has none at all.
void strided_close(Strided *strided);

// Whether one of the bytes is in [first, end).
bool strided_meets(const Strided *strided, int64_t first, int64_t end);

#endif
