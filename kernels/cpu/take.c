// take.c: TAKE and PUT, the reading and the adding along an indexed axis (plan.h).
//
// Dims that all three tensors walk alike are merged first, so that an embedding becomes lines of contiguous elements.
// PUT is cut along a dim on which x varies: different tasks then add to different elements, each in order of
// coordinates, and the result is the same for any number of threads.
#include "kernels/cpu/take.h"

#include <string.h>

#include "base/integer.h"

enum { TASK_BYTES = 1 << 16, ZERO_BYTES = 1 << 18, PUT_PARTS = 32, PUT_MIN = 64 };

typedef struct {
  int count;
  int64_t size[PLAN_MAX_AXES + 1], x[PLAN_MAX_AXES + 1], index[PLAN_MAX_AXES + 1], out[PLAN_MAX_AXES + 1];
} TakeDims;

typedef struct {
  const Take *take;
  TakeDims dims, sums;  // sums: dims that are summed over, and one of size 1 behind them
  char *x, *out;
  const int32_t *index;
  const SimdReal *real;  // through which elements go from one type to the other; NULL: the types are the same
  int64_t bytes, bytes_out;
  int64_t lines, block;   // TAKE: lines of the last dim, and how many one task reads
  int split;              // PUT: the dim that tasks cut, in pieces of `block`; -1: none
  ElementType sum;        // in which TAKE sums
  const int32_t *chosen;  // TAKE: of so many lines each, whether they are taken; NULL: all are
  int64_t part_lines;
} Job;

// The dims [begin, end).
static TakeDims dims_of(const Take *take, int begin, int end) {
  TakeDims dims = {0};
  for (int d = begin; d < end; d++) {
    const int64_t size = take->size[d];
    const int last = dims.count - 1;
    if (size == 1) {
      continue;
    }
    if (last >= 0 && dims.x[last] == take->stride_x[d] * size && dims.index[last] == take->stride_index[d] * size &&
        dims.out[last] == take->stride_out[d] * size) {
      dims.size[last] *= size;
      dims.x[last] = take->stride_x[d];
      dims.index[last] = take->stride_index[d];
      dims.out[last] = take->stride_out[d];
      continue;
    }
    dims.size[dims.count] = size;
    dims.x[dims.count] = take->stride_x[d];
    dims.index[dims.count] = take->stride_index[d];
    dims.out[dims.count++] = take->stride_out[d];
  }
  // A last dim along which the index does not vary: the elements of one line share their place on the axis.
  if (dims.count == 0 || dims.index[dims.count - 1] != 0) {
    dims.size[dims.count++] = 1;
  }
  return dims;
}

static void zero_task(void *context, int worker, int64_t task) {
  const Job *job = context;
  const int64_t total = job->take->x_elements * job->bytes, begin = task * ZERO_BYTES;
  (void)worker;
  memset(job->x + begin, 0, (size_t)(total - begin < ZERO_BYTES ? total - begin : ZERO_BYTES));
}

#define COPY(T)                                                                  \
  for (int64_t i = 0; i < n; i++) {                                              \
    ((T *)(void *)out)[i * out_step] = ((const T *)(const void *)x)[i * x_step]; \
  }

static void copy_line(char *out, int64_t out_step, const char *x, int64_t x_step, int64_t n, int64_t bytes) {
  if (out_step == 1 && x_step == 1) {
    memmove(out, x, (size_t)(n * bytes));  // a plan may take from where it puts
  } else if (bytes == 4) {
    COPY(uint32_t)
  } else if (bytes == 8) {
    COPY(uint64_t)
  } else if (bytes == 2) {
    COPY(uint16_t)
  } else {
    COPY(uint8_t)
  }
}

static void zero_line(char *out, int64_t step, int64_t n, int64_t bytes) {
  for (int64_t i = 0; i < n; i++) {
    memset(out + i * step * bytes, 0, (size_t)bytes);
  }
}

enum { CONVERT = 256 };

// Elements of one type as those of another, stored or added.
static void convert_line(const Job *job, ElementType to_type, char *to, int64_t to_step, ElementType from_type,
                         const char *from, int64_t from_step, int64_t n, bool add) {
  double values[CONVERT];  // or as many floats
  const int64_t to_bytes = element_type_bytes(to_type), from_bytes = element_type_bytes(from_type);
  for (int64_t at = 0; at < n; at += CONVERT) {
    const int64_t now = n - at < CONVERT ? n - at : CONVERT;
    job->real->load[from_type](values, from + at * from_step * from_bytes, from_step, now);
    (add ? job->real->add : job->real->store)[to_type](to + at * to_step * to_bytes, to_step, values, now);
  }
}

static void add_line(ElementType type, char *x, int64_t x_step, const char *source, int64_t step, int64_t n) {
  if (type == TYPE_F32) {
    float *to = (float *)(void *)x;
    const float *from = (const float *)(const void *)source;
    for (int64_t i = 0; i < n; i++) {
      to[i * x_step] += from[i * step];
    }
  } else if (type == TYPE_F64) {
    double *to = (double *)(void *)x;
    const double *from = (const double *)(const void *)source;
    for (int64_t i = 0; i < n; i++) {
      to[i * x_step] += from[i * step];
    }
  } else {
    int32_t *to = (int32_t *)(void *)x;
    const int32_t *from = (const int32_t *)(const void *)source;
    for (int64_t i = 0; i < n; i++) {
      to[i * x_step] = (int32_t)((uint32_t)to[i * x_step] + (uint32_t)from[i * step]);
    }
  }
}

// Coordinates of the dims but the last, and the offsets they give.
typedef struct {
  int64_t at[PLAN_MAX_AXES + 1];
  int64_t x, index, out;
} Cursor;

static void cursor_seek(const TakeDims *dims, Cursor *cursor, int64_t line) {
  *cursor = (Cursor){0};
  for (int d = dims->count - 2; d >= 0; d--) {
    cursor->at[d] = line % dims->size[d];
    line /= dims->size[d];
    cursor->x += cursor->at[d] * dims->x[d];
    cursor->index += cursor->at[d] * dims->index[d];
    cursor->out += cursor->at[d] * dims->out[d];
  }
}

static void cursor_move(const TakeDims *dims, Cursor *cursor, int d, int64_t by) {
  cursor->at[d] += by;
  cursor->x += by * dims->x[d];
  cursor->index += by * dims->index[d];
  cursor->out += by * dims->out[d];
}

// To the next line, where dim `split` runs over [begin, end) only. False after the last.
static bool cursor_next(const TakeDims *dims, Cursor *cursor, int split, int64_t begin, int64_t end) {
  for (int d = dims->count - 2; d >= 0; d--) {
    const int64_t low = d == split ? begin : 0, high = d == split ? end : dims->size[d];
    cursor_move(dims, cursor, d, 1);
    if (cursor->at[d] < high) {
      return true;
    }
    cursor_move(dims, cursor, d, low - cursor->at[d]);
  }
  return false;
}

static void take_task(void *context, int worker, int64_t task) {
  const Job *job = context;
  const TakeDims *dims = &job->dims;
  const int last = dims->count - 1;
  const int64_t n = dims->size[last], bytes = job->bytes;
  const int64_t end = (task + 1) * job->block < job->lines ? (task + 1) * job->block : job->lines;
  (void)worker;
  Cursor cursor;
  cursor_seek(dims, &cursor, task * job->block);
  for (int64_t line = task * job->block; line < end; line++) {
    const bool wanted = !job->chosen || job->chosen[line / job->part_lines] >= 0;
    const int64_t place = wanted ? job->index[cursor.index] : -1;
    char *out = job->out + cursor.out * job->bytes_out;
    if (place >= 0 && place < job->take->extent) {
      const char *x = job->x + (cursor.x + place * job->take->stride_axis) * bytes;
      if (job->real) {
        convert_line(job, job->take->type_out, out, dims->out[last], job->take->type, x, dims->x[last], n, false);
      } else {
        copy_line(out, dims->out[last], x, dims->x[last], n, bytes);
      }
    } else if (wanted) {
      zero_line(out, dims->out[last], n, job->bytes_out);
    }
    cursor_next(dims, &cursor, -1, 0, 0);
  }
}

// A line of the result: for each chunk of it, what the dims that are summed over take, in their order.
static void sum_line(const Job *job, const Cursor *at, int64_t n) {
  const Take *take = job->take;
  const TakeDims *dims = &job->dims, *sums = &job->sums;
  const int last = dims->count - 1;
  double total[CONVERT], values[CONVERT];  // or as many floats
  for (int64_t begin = 0; begin < n; begin += CONVERT) {
    const int64_t now = n - begin < CONVERT ? n - begin : CONVERT;
    Cursor cursor = {0};
    memset(total, 0, sizeof total);
    do {
      const int64_t place = job->index[at->index + cursor.index];
      if (place >= 0 && place < take->extent) {
        const int64_t from = at->x + cursor.x + place * take->stride_axis + begin * dims->x[last];
        job->real->load[take->type](values, job->x + from * job->bytes, dims->x[last], now);
        job->real->add[job->sum](total, 1, values, now);
      }
    } while (cursor_next(sums, &cursor, -1, 0, 0));
    job->real->store[take->type_out](job->out + (at->out + begin * dims->out[last]) * job->bytes_out, dims->out[last],
                                     total, now);
  }
}

static void sum_task(void *context, int worker, int64_t task) {
  const Job *job = context;
  const TakeDims *dims = &job->dims;
  const int64_t end = (task + 1) * job->block < job->lines ? (task + 1) * job->block : job->lines;
  (void)worker;
  Cursor cursor;
  cursor_seek(dims, &cursor, task * job->block);
  for (int64_t line = task * job->block; line < end; line++) {
    sum_line(job, &cursor, dims->size[dims->count - 1]);
    cursor_next(dims, &cursor, -1, 0, 0);
  }
}

static Job job_of(const Take *take, const Simd *simd, const int32_t *index) {
  const int lasting = take->dim_count - take->summed;
  Job job = {.take = take, .dims = dims_of(take, 0, lasting), .index = index, .split = -1, .block = 1};
  job.sums = dims_of(take, lasting, take->dim_count);
  if (job.sums.size[job.sums.count - 1] > 1) {
    job.sums.size[job.sums.count++] = 1;
  }
  job.bytes = element_type_bytes(take->type);
  job.bytes_out = element_type_bytes(take->type_out);
  if (take->type != take->type_out || take->summed > 0) {
    job.sum = take->type == TYPE_F64 || take->type_out == TYPE_F64 ? TYPE_F64 : TYPE_F32;
    job.real = job.sum == TYPE_F64 ? simd->f64 : simd->f32;
  }
  return job;
}

void take_run(const Take *take, const Simd *simd, Pool *pool, const void *x, const int32_t *index,
              const int32_t *chosen, void *out) {
  Job job = job_of(take, simd, index);
  job.out = out;
  memcpy(&job.x, &x, sizeof x);  // only read
  job.lines = 1;
  for (int d = 0; d < job.dims.count - 1; d++) {
    job.lines *= job.dims.size[d];
  }
  if (take->parts > 0 && job.lines % take->parts == 0) {
    job.chosen = chosen;
    job.part_lines = job.lines / take->parts;
  }
  int64_t line_bytes = job.dims.size[job.dims.count - 1] * job.bytes;
  for (int d = 0; d < job.sums.count; d++) {
    line_bytes *= job.sums.size[d];
  }
  job.block = line_bytes >= TASK_BYTES ? 1 : TASK_BYTES / line_bytes;
  pool_run(pool, blocks_of(job.lines, job.block), take->summed > 0 ? sum_task : take_task, &job);
}

static void put_task(void *context, int worker, int64_t task) {
  const Job *job = context;
  const TakeDims *dims = &job->dims;
  const int last = dims->count - 1;
  const int64_t bytes = job->bytes, size = job->split >= 0 ? dims->size[job->split] : 1;
  const int64_t begin = task * job->block, end = begin + job->block < size ? begin + job->block : size;
  (void)worker;
  Cursor cursor = {0};
  if (job->split >= 0) {
    cursor_move(dims, &cursor, job->split, begin);
  }
  const int64_t n = job->split == last ? end - begin : dims->size[last];
  do {
    const int64_t place = job->index[cursor.index];
    if (place >= 0 && place < job->take->extent) {
      char *x = job->x + (cursor.x + place * job->take->stride_axis) * bytes;
      const char *source = job->out + cursor.out * job->bytes_out;
      if (job->real) {
        convert_line(job, job->take->type, x, dims->x[last], job->take->type_out, source, dims->out[last], n, true);
      } else {
        add_line(job->take->type, x, dims->x[last], source, dims->out[last], n);
      }
    }
  } while (cursor_next(dims, &cursor, job->split, begin, end));
}

void put_run(const Take *take, const Simd *simd, Pool *pool, void *x, const int32_t *index, const void *source,
             bool first) {
  Job job = job_of(take, simd, index);
  job.x = x;
  memcpy(&job.out, &source, sizeof source);  // only read
  if (take->write == WRITE_STORE || (take->write == WRITE_ADD_AFTER_FIRST && first)) {
    pool_run(pool, blocks_of(take->x_elements * job.bytes, ZERO_BYTES), zero_task, &job);
  }
  // The widest dim on which x varies; its pieces are long enough to be worth a pass over the indices.
  int64_t tasks = 1;
  for (int d = 0; d < job.dims.count; d++) {
    if (job.dims.x[d] != 0 && (job.split < 0 || job.dims.size[d] > job.dims.size[job.split])) {
      job.split = d;
    }
  }
  if (job.split >= 0) {
    const int64_t size = job.dims.size[job.split], part = blocks_of(size, PUT_PARTS);
    const int64_t least = job.split == job.dims.count - 1 ? PUT_MIN : 1;
    job.block = part > least ? part : least;
    tasks = blocks_of(size, job.block);
  }
  pool_run(pool, tasks, put_task, &job);
}
