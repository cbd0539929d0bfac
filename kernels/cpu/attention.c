// attention.c: attention by blocks of queries and chunks of keys that stay in the second cache.
//
// Forward, for 64 queries of one (batch, head, group): for each chunk of at most 1024 keys, scores s = q k^T in one
// product, softmax by rows with the running maximum and sum (Milakov and Gimelshein 2018), o += p v. Keys after the
// last query of the block are never touched.
// Backward, for one (batch, head): p again from the saved statistics, then dv += p^T do, ds = p (do v^T - delta),
// dq += ds k, dk += ds^T q, with delta = rowsum(do o). Where there are few (batch, head) pairs, chunks of keys make
// dk and dv, and blocks of queries, in a second pass, dq. What is added in which order depends on the sizes only.
#include "kernels/cpu/attention.h"

#include <limits.h>
#include <math.h>
#include <string.h>

enum { QUERIES = 64, KEYS = 1024, SPLIT_PAIRS = 8, SPLIT_KEYS = 256, SPLIT_LENGTH = 512 };

typedef struct {
  const Attention *a;
  const SimdReal *real;
  const Blas *blas;
  const AttentionPorts *ports;
  char *const *scratch;
  int64_t bytes, query_blocks, key_block, key_blocks;
} Job;

// What a worker has in its scratch, for a block of queries.
typedef struct {
  char *scores, *gradient;  // [QUERIES][key_block] of the real type
  double *max, *sum, *shift, *delta;
} Block;

static int64_t min_of(int64_t a, int64_t b) {
  return a < b ? a : b;
}

static int64_t max_of(int64_t a, int64_t b) {
  return a > b ? a : b;
}

bool attention_check(const Attention *a, const char *name, Error *error) {
  if (a->type != TYPE_F32 && a->type != TYPE_F64) {
    return error_set(error, 1, "%s: the CPU backend has attention for f32 and f64, not for %s", name,
                     element_type_name(a->type));
  }
  const int64_t size[] = {a->batch, a->queries, a->keys, a->heads, a->groups, a->depth, a->value_depth};
  for (size_t i = 0; i < sizeof size / sizeof size[0]; i++) {
    if (size[i] < 1 || size[i] > INT_MAX) {
      return error_set(error, 1, "%s: attention over a size that is not between 1 and %d", name, INT_MAX);
    }
  }
  return true;
}

static int64_t score_bytes(const Attention *a) {
  return (QUERIES * min_of(a->keys, KEYS) * element_type_bytes(a->type) + 63) / 64 * 64 + 192;
}

int64_t attention_scratch_bytes(const Attention *a) {
  return 2 * score_bytes(a) + 4 * QUERIES * (int64_t)sizeof(double);
}

static Block block_of(const Job *job, int worker) {
  char *scratch = job->scratch[worker];
  const int64_t scores = score_bytes(job->a);
  double *numbers = (double *)(void *)(scratch + 2 * scores);
  return (Block){.scores = scratch,
                 .gradient = scratch + scores,
                 .max = numbers,
                 .sum = numbers + QUERIES,
                 .shift = numbers + 2 * QUERIES,
                 .delta = numbers + 3 * QUERIES};
}

static double get(const Job *job, const char *memory, int64_t at) {
  return job->bytes == 4 ? (double)((const float *)(const void *)memory)[at]
                         : ((const double *)(const void *)memory)[at];
}

static void set(const Job *job, char *memory, int64_t at, double value) {
  if (job->bytes == 4) {
    ((float *)(void *)memory)[at] = (float)value;
  } else {
    ((double *)(void *)memory)[at] = value;
  }
}

// c[m, n] = a b + beta c; rows of a tensor are one position apart, which may be any stride when there is one.
static void product(const Job *job, bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, const char *a,
                    int64_t lda, const char *b, int64_t ldb, double beta, char *c, int64_t ldc) {
  const BlasGemm gemm = {.type = job->a->type,
                         .transpose_a = transpose_a,
                         .transpose_b = transpose_b,
                         .m = m,
                         .n = n,
                         .k = k,
                         .lda = max_of(lda, transpose_a ? m : k),
                         .ldb = max_of(ldb, transpose_b ? k : n),
                         .ldc = max_of(ldc, n),
                         .alpha = 1.0,
                         .beta = beta};
  blas_gemm(job->blas, &gemm, a, b, c);
}

// One (batch, head, group) and a block of its queries.
typedef struct {
  int64_t batch, head, group, query, queries;
} Where;

static char *at_query(const Job *job, char *memory, const int64_t *stride, const Where *w) {
  return memory +
         (w->batch * stride[0] + w->query * stride[1] + w->head * stride[2] + w->group * stride[3]) * job->bytes;
}

static char *at_key(const Job *job, char *memory, const int64_t *stride, const Where *w, int64_t key) {
  return memory + (w->batch * stride[0] + key * stride[1] + w->head * stride[2]) * job->bytes;
}

static int64_t statistic_of(const Job *job, const Where *w) {
  const Attention *a = job->a;
  return ((w->batch * a->heads + w->head) * a->groups + w->group) * a->queries + w->query;
}

// Keys that query `query` sees in [begin, end).
static int64_t keys_seen(const Attention *a, int64_t query, int64_t begin, int64_t end) {
  const int64_t limit = a->causal ? min_of(end, query + 1) : end;
  return max_of(limit - begin, 0);
}

static void scores_of(const Job *job, const Block *block, const Where *w, int64_t begin, int64_t keys) {
  const Attention *a = job->a;
  product(job, false, true, w->queries, keys, a->depth, at_query(job, job->ports->q, a->stride_q, w), a->stride_q[1],
          at_key(job, job->ports->k, a->stride_k, w, begin), a->stride_k[1], 0.0, block->scores, keys);
}

// Scores become probabilities against the running maximum; what was summed before is scaled to the new one.
static void softmax_chunk(const Job *job, const Block *block, const Where *w, char *o, int64_t begin, int64_t keys) {
  const Attention *a = job->a;
  for (int64_t r = 0; r < w->queries; r++) {
    char *row = block->scores + r * keys * job->bytes;
    const int64_t seen = keys_seen(a, w->query + r, begin, begin + keys);
    memset(row + seen * job->bytes, 0, (size_t)((keys - seen) * job->bytes));
    if (seen == 0) {
      continue;
    }
    const double extreme = a->scale >= 0.0 ? job->real->max(row, seen) : job->real->min(row, seen);
    const double max = fmax(block->max[r], extreme * a->scale);
    const double sum = job->real->exp_row(row, seen, a->scale, max);
    if (begin > 0) {
      const double shrink = exp(block->max[r] - max);
      block->sum[r] *= shrink;
      job->real->scale_row(o + r * a->stride_o[1] * job->bytes, a->value_depth, shrink);
    }
    block->sum[r] += sum;
    block->max[r] = max;
  }
}

static void forward_task(void *context, int worker, int64_t task) {
  const Job *job = context;
  const Attention *a = job->a;
  const Block block = block_of(job, worker);
  Where w = {.query = (job->query_blocks - 1 - task % job->query_blocks) * QUERIES};  // the longest first
  task /= job->query_blocks;
  w.group = task % a->groups;
  w.head = task / a->groups % a->heads;
  w.batch = task / a->groups / a->heads;
  w.queries = min_of(QUERIES, a->queries - w.query);
  for (int64_t r = 0; r < w.queries; r++) {
    block.max[r] = -INFINITY;
    block.sum[r] = 0.0;
  }
  char *o = at_query(job, job->ports->o, a->stride_o, &w);
  const int64_t end = keys_seen(a, w.query + w.queries - 1, 0, a->keys);
  for (int64_t begin = 0; begin < end; begin += KEYS) {
    const int64_t keys = min_of(KEYS, end - begin);
    scores_of(job, &block, &w, begin, keys);
    softmax_chunk(job, &block, &w, o, begin, keys);
    product(job, false, false, w.queries, a->value_depth, keys, block.scores, keys,
            at_key(job, job->ports->v, a->stride_v, &w, begin), a->stride_v[1], begin > 0 ? 1.0 : 0.0, o,
            a->stride_o[1]);
  }
  for (int64_t r = 0; r < w.queries; r++) {
    job->real->scale_row(o + r * a->stride_o[1] * job->bytes, a->value_depth, 1.0 / block.sum[r]);
    set(job, job->ports->statistics, statistic_of(job, &w) + r, block.max[r] + log(block.sum[r]));
  }
}

static Job job_of(const Attention *a, const Simd *simd, const Blas *blas, const AttentionPorts *ports,
                  char *const *scratch) {
  Job job = {.a = a, .blas = blas, .ports = ports, .scratch = scratch};
  job.real = a->type == TYPE_F32 ? simd->f32 : simd->f64;
  job.bytes = element_type_bytes(a->type);
  job.query_blocks = (a->queries + QUERIES - 1) / QUERIES;
  return job;
}

void attention_run(const Attention *a, const Simd *simd, const Blas *blas, Pool *pool, const AttentionPorts *ports,
                   char *const *scratch) {
  Job job = job_of(a, simd, blas, ports, scratch);
  pool_run(pool, a->batch * a->heads * a->groups * job.query_blocks, forward_task, &job);
}

// Statistics and delta of a block of queries.
static void block_begin(const Job *job, const Block *block, const Where *w) {
  const Attention *a = job->a;
  const char *o = at_query(job, job->ports->o, a->stride_o, w), *d_o = at_query(job, job->ports->d_o, a->stride_do, w);
  for (int64_t r = 0; r < w->queries; r++) {
    block->shift[r] = get(job, job->ports->statistics, statistic_of(job, w) + r);
    block->delta[r] =
        job->real->dot(o + r * a->stride_o[1] * job->bytes, d_o + r * a->stride_do[1] * job->bytes, a->value_depth);
  }
}

// scores = p, gradient = ds * scale for keys [begin, begin + keys).
static void block_gradient(const Job *job, const Block *block, const Where *w, int64_t begin, int64_t keys) {
  const Attention *a = job->a;
  scores_of(job, block, w, begin, keys);
  product(job, false, true, w->queries, keys, a->value_depth, at_query(job, job->ports->d_o, a->stride_do, w),
          a->stride_do[1], at_key(job, job->ports->v, a->stride_v, w, begin), a->stride_v[1], 0.0, block->gradient,
          keys);
  for (int64_t r = 0; r < w->queries; r++) {
    char *p = block->scores + r * keys * job->bytes, *ds = block->gradient + r * keys * job->bytes;
    const int64_t seen = keys_seen(a, w->query + r, begin, begin + keys);
    job->real->attention_row(p, ds, seen, a->scale, block->shift[r], block->delta[r]);
    memset(p + seen * job->bytes, 0, (size_t)((keys - seen) * job->bytes));
    memset(ds + seen * job->bytes, 0, (size_t)((keys - seen) * job->bytes));
  }
}

static void add_dq(const Job *job, const Block *block, const Where *w, int64_t begin, int64_t keys) {
  const Attention *a = job->a;
  product(job, false, false, w->queries, a->depth, keys, block->gradient, keys,
          at_key(job, job->ports->k, a->stride_k, w, begin), a->stride_k[1], begin > 0 ? 1.0 : 0.0,
          at_query(job, job->ports->dq, a->stride_dq, w), a->stride_dq[1]);
}

static void add_dk_dv(const Job *job, const Block *block, const Where *w, int64_t begin, int64_t keys) {
  const Attention *a = job->a;
  product(job, true, false, keys, a->value_depth, w->queries, block->scores, keys,
          at_query(job, job->ports->d_o, a->stride_do, w), a->stride_do[1], 1.0,
          at_key(job, job->ports->dv, a->stride_dv, w, begin), a->stride_dv[1]);
  product(job, true, false, keys, a->depth, w->queries, block->gradient, keys,
          at_query(job, job->ports->q, a->stride_q, w), a->stride_q[1], 1.0,
          at_key(job, job->ports->dk, a->stride_dk, w, begin), a->stride_dk[1]);
}

// dk and dv of the keys [begin, end) of one (batch, head), and what they add to dq if asked.
static void keys_backward(const Job *job, const Block *block, Where w, int64_t begin, int64_t end, bool with_dq) {
  const Attention *a = job->a;
  for (int64_t key = begin; key < end; key++) {
    memset(at_key(job, job->ports->dk, a->stride_dk, &w, key), 0, (size_t)(a->depth * job->bytes));
    memset(at_key(job, job->ports->dv, a->stride_dv, &w, key), 0, (size_t)(a->value_depth * job->bytes));
  }
  for (w.group = 0; w.group < a->groups; w.group++) {
    for (w.query = 0; w.query < a->queries; w.query += QUERIES) {
      w.queries = min_of(QUERIES, a->queries - w.query);
      const int64_t keys = keys_seen(a, w.query + w.queries - 1, begin, end);
      if (keys == 0) {
        continue;
      }
      block_begin(job, block, &w);
      block_gradient(job, block, &w, begin, keys);
      add_dk_dv(job, block, &w, begin, keys);
      if (with_dq) {
        add_dq(job, block, &w, begin, keys);
      }
    }
  }
}

static void pair_task(void *context, int worker, int64_t task) {
  const Job *job = context;
  const Attention *a = job->a;
  const Block block = block_of(job, worker);
  const Where w = {.head = task % a->heads, .batch = task / a->heads};
  for (int64_t begin = 0; begin < a->keys; begin += KEYS) {
    keys_backward(job, &block, w, begin, min_of(begin + KEYS, a->keys), true);
  }
}

static void keys_task(void *context, int worker, int64_t task) {
  const Job *job = context;
  const Attention *a = job->a;
  const Block block = block_of(job, worker);
  const int64_t pair = task / job->key_blocks, begin = task % job->key_blocks * job->key_block;
  const Where w = {.head = pair % a->heads, .batch = pair / a->heads};
  keys_backward(job, &block, w, begin, min_of(begin + job->key_block, a->keys), false);
}

static void queries_task(void *context, int worker, int64_t task) {
  const Job *job = context;
  const Attention *a = job->a;
  const Block block = block_of(job, worker);
  Where w = {.query = (job->query_blocks - 1 - task % job->query_blocks) * QUERIES};
  task /= job->query_blocks;
  w.group = task % a->groups;
  w.head = task / a->groups % a->heads;
  w.batch = task / a->groups / a->heads;
  w.queries = min_of(QUERIES, a->queries - w.query);
  block_begin(job, &block, &w);
  const int64_t end = keys_seen(a, w.query + w.queries - 1, 0, a->keys);
  for (int64_t begin = 0; begin < end; begin += KEYS) {
    const int64_t keys = min_of(KEYS, end - begin);
    block_gradient(job, &block, &w, begin, keys);
    add_dq(job, &block, &w, begin, keys);
  }
}

void attention_grad_run(const Attention *a, const Simd *simd, const Blas *blas, Pool *pool, const AttentionPorts *ports,
                        char *const *scratch) {
  Job job = job_of(a, simd, blas, ports, scratch);
  const int64_t pairs = a->batch * a->heads;
  if (pairs >= SPLIT_PAIRS || a->keys < SPLIT_LENGTH) {
    pool_run(pool, pairs, pair_task, &job);
    return;
  }
  job.key_block = SPLIT_KEYS;
  job.key_blocks = (a->keys + SPLIT_KEYS - 1) / SPLIT_KEYS;
  pool_run(pool, pairs * job.key_blocks, keys_task, &job);
  pool_run(pool, pairs * a->groups * job.query_blocks, queries_task, &job);
}
