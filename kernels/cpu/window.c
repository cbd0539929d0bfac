// window.c: WINDOW and FOLD, views that look back along an axis (plan.h).
#include <string.h>

#include "kernels/cpu/take.h"

#include "base/integer.h"

enum { TASK_ELEMENTS = 16384 };

typedef struct {
  const Window *window;
  char *x, *out;
  int64_t bytes, lines, block;
} Job;

// The coordinates but the last of a line, as offsets into x and out; *position is that of the windowed dim, if it is
// among them.
static void line_seek(const Window *window, int64_t line, int64_t *x, int64_t *out, int64_t *position) {
  *x = *out = *position = 0;
  for (int d = window->dim_count - 2; d >= 0; d--) {
    const int64_t at = line % window->size[d];
    line /= window->size[d];
    *x += at * window->stride_x[d];
    *out += at * window->stride_out[d];
    *position = d == window->windowed ? at : *position;
  }
}

static void copy_line(char *out, int64_t out_step, const char *x, int64_t x_step, int64_t n, int64_t bytes) {
  if (out_step == 1 && x_step == 1) {
    memmove(out, x, (size_t)(n * bytes));  // a plan may take from where it puts
    return;
  }
  for (int64_t i = 0; i < n; i++) {
    memcpy(out + i * out_step * bytes, x + i * x_step * bytes, (size_t)bytes);
  }
}

static void zero_line(char *out, int64_t step, int64_t n, int64_t bytes) {
  for (int64_t i = 0; i < n; i++) {
    memset(out + i * step * bytes, 0, (size_t)bytes);
  }
}

static void add_line(ElementType type, char *x, int64_t x_step, const char *out, int64_t step, int64_t n) {
  if (type == TYPE_F32) {
    for (int64_t i = 0; i < n; i++) {
      ((float *)(void *)x)[i * x_step] += ((const float *)(const void *)out)[i * step];
    }
  } else {
    for (int64_t i = 0; i < n; i++) {
      ((double *)(void *)x)[i * x_step] += ((const double *)(const void *)out)[i * step];
    }
  }
}

static void window_task(void *context, int worker, int64_t task) {
  const Job *job = context;
  const Window *window = job->window;
  const int last = window->dim_count - 1;
  const int64_t n = window->size[last], bytes = job->bytes;
  const int64_t sx = window->stride_x[last], so = window->stride_out[last];
  const int64_t end = (task + 1) * job->block < job->lines ? (task + 1) * job->block : job->lines;
  (void)worker;
  for (int64_t line = task * job->block; line < end; line++) {
    int64_t x, out, position;
    line_seek(window, line, &x, &out, &position);
    for (int64_t t = 0; t < window->taps; t++) {
      const int64_t back = window->taps - 1 - t;
      char *to = job->out + (out + t * window->stride_tap) * bytes;
      // Elements that look before the beginning: the first of the line, or all of it.
      int64_t outside = position < back ? n : 0;
      if (window->windowed == last) {
        outside = back < n ? back : n;
      }
      zero_line(to, so, outside, bytes);
      const int64_t from = x - back * window->stride_x[window->windowed] + outside * sx;
      if (outside < n) {
        copy_line(to + outside * so * bytes, so, job->x + from * bytes, sx, n - outside, bytes);
      }
    }
  }
}

static void fold_task(void *context, int worker, int64_t task) {
  const Job *job = context;
  const Window *window = job->window;
  const int last = window->dim_count - 1;
  const int64_t n = window->size[last], bytes = job->bytes;
  const int64_t sx = window->stride_x[last], so = window->stride_out[last];
  const int64_t end = (task + 1) * job->block < job->lines ? (task + 1) * job->block : job->lines;
  (void)worker;
  for (int64_t line = task * job->block; line < end; line++) {
    int64_t x, out, position;
    line_seek(window, line, &x, &out, &position);
    zero_line(job->x + x * bytes, sx, n, bytes);
    for (int64_t t = 0; t < window->taps; t++) {
      const int64_t ahead = window->taps - 1 - t;
      int64_t inside = position + ahead < window->size[window->windowed] ? n : 0;
      if (window->windowed == last) {
        inside = n > ahead ? n - ahead : 0;
      }
      if (inside > 0) {
        const int64_t from = out + ahead * window->stride_out[window->windowed] + t * window->stride_tap;
        add_line(window->type, job->x + x * bytes, sx, job->out + from * bytes, so, inside);
      }
    }
  }
}

static int64_t tasks_cut(Job *job) {
  const Window *window = job->window;
  job->bytes = element_type_bytes(window->type);
  job->lines = 1;
  for (int d = 0; d < window->dim_count - 1; d++) {
    job->lines *= window->size[d];
  }
  const int64_t line = window->size[window->dim_count - 1] * window->taps;
  job->block = line >= TASK_ELEMENTS ? 1 : TASK_ELEMENTS / line;
  return blocks_of(job->lines, job->block);
}

void window_run(const Window *window, Pool *pool, const void *x, void *out) {
  Job job = {.window = window, .out = out};
  memcpy(&job.x, &x, sizeof x);  // only read
  const int64_t tasks = tasks_cut(&job);
  pool_run(pool, tasks, window_task, &job);
}

void fold_run(const Window *window, Pool *pool, void *x, const void *out) {
  Job job = {.window = window, .x = x};
  memcpy(&job.out, &out, sizeof out);  // only read
  const int64_t tasks = tasks_cut(&job);
  pool_run(pool, tasks, fold_task, &job);
}
