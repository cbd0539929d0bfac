// cuda_attention_rows.h: single rows of attention and of its gradient in f64, to hold results of 16-bit kernels
// against.
//
// Each row is computed twice: exactly, and rounding where a kernel of the type must (weights before the second product,
// outputs). A result may err at most twice what the rounded one errs, over all rows together, plus one rounding.
#ifndef MDL_TESTS_CUDA_ATTENTION_ROWS_H
#define MDL_TESTS_CUDA_ATTENTION_ROWS_H

#include <math.h>
#include <stdlib.h>

#include "compiler/plan/plan.h"
#include "kernels/cpu/convert.h"

typedef struct {
  const Attention *a;
  const uint16_t *q, *k, *v, *o, *d_o, *dq, *dk, *dv;  // as the kernel saw and left them, with the strides of `a`
  const float *statistics, *slopes;                    // slopes: if it is biased
} Rows;

typedef struct {
  double got, rounded, size;  // largest errors of the result and of the rounded row; largest value
} RowsError;

typedef struct {
  int64_t batch, head, group;
} RowsHead;

static inline double rows_decode(const Attention *a, uint16_t x) {
  return (double)(a->type == TYPE_F16 ? f32_of_f16(x) : f32_of_bf16(x));
}

static inline double rows_round(const Attention *a, double x) {
  return rows_decode(a, a->type == TYPE_F16 ? f16_of_f32((float)x) : bf16_of_f32((float)x));
}

static inline const uint16_t *rows_query(const uint16_t *x, const int64_t *stride, RowsHead h, int64_t query) {
  return x + h.batch * stride[0] + query * stride[1] + h.head * stride[2] + h.group * stride[3];
}

static inline const uint16_t *rows_key(const uint16_t *x, const int64_t *stride, RowsHead h, int64_t key) {
  return x + h.batch * stride[0] + key * stride[1] + h.head * stride[2];
}

static inline double rows_dot(const Attention *a, const uint16_t *x, const uint16_t *y) {
  double sum = 0;
  for (int64_t i = 0; i < a->depth; i++) {
    sum += rows_decode(a, x[i]) * rows_decode(a, y[i]);
  }
  return sum;
}

static inline void rows_compare(const Attention *a, RowsError *error, const uint16_t *got, const double *exact,
                                const double *rounded) {
  for (int64_t i = 0; i < a->depth; i++) {
    const double far = fabs(rows_decode(a, got[i]) - exact[i]);
    error->got = far <= error->got ? error->got : far;  // a NaN stays
    error->rounded = fmax(error->rounded, fabs(rows_round(a, rounded[i]) - exact[i]));
    error->size = fmax(error->size, fabs(exact[i]));
  }
}

static inline bool rows_fine(const Attention *a, const RowsError *error) {
  const double place = a->type == TYPE_F16 ? 0x1p-11 : 0x1p-8;
  return error->got <= 3 * error->rounded + place * error->size && error->size > 0;
}

static inline int64_t rows_seen(const Attention *a, int64_t query) {
  return a->causal ? query + 1 : a->keys;
}

static inline double rows_score(const Rows *r, RowsHead h, int64_t query, int64_t key) {
  const Attention *a = r->a;
  const double dot = rows_dot(a, rows_query(r->q, a->stride_q, h, query), rows_key(r->k, a->stride_k, h, key));
  return a->scale * dot + (a->biased ? (double)r->slopes[h.head * a->groups + h.group] * (double)(key - query) : 0);
}

// The row of o and its statistic: scores in work[keys].
static inline double rows_forward(const Rows *r, RowsHead h, int64_t query, double *work, double *o, double *rounded) {
  const Attention *a = r->a;
  const int64_t keys = rows_seen(a, query);
  double most = -INFINITY, sum = 0;
  for (int64_t j = 0; j < keys; j++) {
    work[j] = rows_score(r, h, query, j);
    most = fmax(most, work[j]);
  }
  for (int64_t j = 0; j < keys; j++) {
    sum += exp(work[j] - most);
  }
  for (int64_t i = 0; i < a->depth; i++) {
    o[i] = rounded[i] = 0;
  }
  for (int64_t j = 0; j < keys; j++) {
    const double p = exp(work[j] - most) / sum, low = rows_round(a, p);
    const uint16_t *v = rows_key(r->v, a->stride_v, h, j);
    for (int64_t i = 0; i < a->depth; i++) {
      o[i] += p * rows_decode(a, v[i]);
      rounded[i] += low * rows_decode(a, v[i]);
    }
  }
  return most + log(sum);
}

static inline int64_t rows_statistic(const Attention *a, RowsHead h, int64_t query) {
  return ((h.batch * a->heads + h.head) * a->groups + h.group) * a->queries + query;
}

// Checks row `query` of o, its statistic and, if r->dq, that of dq.
static inline void rows_check_query(const Rows *r, RowsHead h, int64_t query, RowsError *o_error, RowsError *dq_error,
                                    double *statistic_error) {
  const Attention *a = r->a;
  double *work = calloc((size_t)(a->keys + 4 * a->depth), sizeof *work);
  double *o = work + a->keys, *low = o + a->depth, *dq = low + a->depth, *dq_low = dq + a->depth;
  const double statistic = rows_forward(r, h, query, work, o, low);
  const double far = fabs((double)r->statistics[rows_statistic(a, h, query)] - statistic);
  *statistic_error = far <= *statistic_error ? *statistic_error : far;
  rows_compare(a, o_error, rows_query(r->o, a->stride_o, h, query), o, low);
  if (r->dq) {
    const uint16_t *d_o = rows_query(r->d_o, a->stride_do, h, query);
    double delta = 0, delta_low = 0;
    for (int64_t i = 0; i < a->depth; i++) {
      delta += rows_decode(a, d_o[i]) * o[i];
      delta_low += rows_decode(a, d_o[i]) * rows_round(a, low[i]);
    }
    for (int64_t j = 0; j < rows_seen(a, query); j++) {
      const uint16_t *k = rows_key(r->k, a->stride_k, h, j);
      const double p = exp(work[j] - statistic), dp = rows_dot(a, d_o, rows_key(r->v, a->stride_v, h, j));
      const double ds = a->scale * p * (dp - delta), ds_low = rows_round(a, a->scale * p * (dp - delta_low));
      for (int64_t i = 0; i < a->depth; i++) {
        dq[i] += ds * rows_decode(a, k[i]);
        dq_low[i] += ds_low * rows_decode(a, k[i]);
      }
    }
    rows_compare(a, dq_error, rows_query(r->dq, a->stride_dq, h, query), dq, dq_low);
  }
  free(work);
}

// Checks row `key` of dk and dv, from the statistics and o that the kernel left. h.group does not matter.
static inline void rows_check_key(const Rows *r, RowsHead h, int64_t key, RowsError *dk_error, RowsError *dv_error) {
  const Attention *a = r->a;
  const int64_t d = a->depth;
  double *sums = calloc((size_t)(6 * d), sizeof *sums);
  double *dk = sums, *dk_low = dk + d, *dv = dk_low + d, *dv_low = dv + d, *one_dk = dv_low + d, *one_dv = one_dk + d;
  const uint16_t *v = rows_key(r->v, a->stride_v, h, key);
  for (h.group = 0; h.group < a->groups; h.group++) {
    for (int64_t i = 0; i < d; i++) {
      one_dk[i] = one_dv[i] = 0;
    }
    for (int64_t query = a->causal ? key : 0; query < a->queries; query++) {
      const uint16_t *q = rows_query(r->q, a->stride_q, h, query), *d_o = rows_query(r->d_o, a->stride_do, h, query);
      const double p = exp(rows_score(r, h, query, key) - (double)r->statistics[rows_statistic(a, h, query)]);
      const double delta = rows_dot(a, d_o, rows_query(r->o, a->stride_o, h, query));
      const double ds = a->scale * p * (rows_dot(a, d_o, v) - delta);
      const double p_low = rows_round(a, p), ds_low = rows_round(a, ds);
      for (int64_t i = 0; i < d; i++) {
        dk[i] += ds * rows_decode(a, q[i]);
        dv[i] += p * rows_decode(a, d_o[i]);
        one_dk[i] += ds_low * rows_decode(a, q[i]);
        one_dv[i] += p_low * rows_decode(a, d_o[i]);
      }
    }
    for (int64_t i = 0; i < d; i++) {  // each head of q is rounded before they are added
      dk_low[i] += rows_round(a, one_dk[i]);
      dv_low[i] += rows_round(a, one_dv[i]);
    }
  }
  rows_compare(a, dk_error, rows_key(r->dk, a->stride_dk, h, key), dk, dk_low);
  rows_compare(a, dv_error, rows_key(r->dv, a->stride_dv, h, key), dv, dv_low);
  free(sums);
}

#endif
