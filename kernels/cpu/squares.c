// squares.c: see squares.h. from [ranges of part], to [part_count]; reads each element once.
//
// A part is cut into chunks of a fixed length; sums of chunks are made by all threads and added in their order, in
// double, so that the bits of a part depend on its length alone.
#include "kernels/cpu/squares.h"

#include "base/integer.h"

enum { CHUNK = 8192, SUMS = 8 };

typedef struct {
  const Squares *squares;
  const void *from;
  int64_t *begin;  // [part_count + 1]: the first chunk of each part
  double *sum;     // of each chunk
} Job;

static int64_t chunks_of(const Squares *squares) {
  int64_t chunks = 0;
  for (int i = 0; i < squares->part_count; i++) {
    chunks += blocks_of(squares->part[i].count, CHUNK);
  }
  return chunks;
}

int64_t squares_shared_bytes(const Squares *squares) {
  return (squares->part_count + 1 + chunks_of(squares)) * (int64_t)sizeof(int64_t);
}

static int part_of(const Job *job, int64_t chunk) {
  int low = 0, high = job->squares->part_count;
  while (high - low > 1) {
    const int middle = low + (high - low) / 2;
    if (job->begin[middle] <= chunk) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

#define SUM_OF(Type, name)                                   \
  static double name(const Type *from, int64_t count) {      \
    double sum[SUMS] = {0}, all = 0;                         \
    int64_t i = 0;                                           \
    for (; i + SUMS <= count; i += SUMS) {                   \
      for (int j = 0; j < SUMS; j++) {                       \
        sum[j] += (double)from[i + j] * (double)from[i + j]; \
      }                                                      \
    }                                                        \
    for (; i < count; i++) {                                 \
      sum[i % SUMS] += (double)from[i] * (double)from[i];    \
    }                                                        \
    for (int j = 0; j < SUMS; j++) {                         \
      all += sum[j];                                         \
    }                                                        \
    return all;                                              \
  }

SUM_OF(float, sum_f32)
SUM_OF(double, sum_f64)

static void chunk_task(void *context, int worker, int64_t task) {
  const Job *job = context;
  const int part = part_of(job, task);
  const PlanRange *range = &job->squares->part[part];
  const int64_t begin = (task - job->begin[part]) * CHUNK;
  const int64_t count = range->count - begin < CHUNK ? range->count - begin : CHUNK;
  (void)worker;
  if (job->squares->type == TYPE_F32) {
    job->sum[task] = sum_f32((const float *)job->from + range->first + begin, count);
  } else {
    job->sum[task] = sum_f64((const double *)job->from + range->first + begin, count);
  }
}

void squares_run(const Squares *squares, Pool *pool, const void *from, void *to, char *shared) {
  Job job = {.squares = squares, .from = from, .begin = (int64_t *)(void *)shared};
  job.begin[0] = 0;
  for (int i = 0; i < squares->part_count; i++) {
    job.begin[i + 1] = job.begin[i] + blocks_of(squares->part[i].count, CHUNK);
  }
  job.sum = (double *)(void *)(job.begin + squares->part_count + 1);
  pool_run(pool, job.begin[squares->part_count], chunk_task, &job);
  for (int i = 0; i < squares->part_count; i++) {
    double sum = 0;
    for (int64_t chunk = job.begin[i]; chunk < job.begin[i + 1]; chunk++) {
      sum += job.sum[chunk];
    }
    if (squares->type == TYPE_F32) {
      ((float *)to)[i] = (float)sum;
    } else {
      ((double *)to)[i] = sum;
    }
  }
}
