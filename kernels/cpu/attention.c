// attention.c: attention by blocks of queries and chunks of keys that stay in the second cache.
//
// Scores are kept transposed, [key][64 queries]: then softmax runs down the lines with one query in each lane, and
// every product takes q, k, v and do as they lie in memory, except for the 64 queries of a block (and their do), which
// are transposed first.
// Forward, for 64 queries of one (batch, head, group): for each chunk of at most 1024 keys, s = k q^T, softmax with the
// running maximum and sum (Milakov and Gimelshein 2018), o += p^T v. Keys after the block's last query are not touched.
// Backward, for one (batch, head): p again from the saved statistics, then dv += p do, ds = p (v do^T - delta),
// dq += ds^T k, dk += ds q, with delta = rowsum(do o). Where there are few (batch, head) pairs, chunks of keys make
// dk and dv, and blocks of queries, in a second pass, dq. What is added in which order depends on the sizes only.
// Tensors in 16 bits are widened as they are brought together, and their results rounded when all is summed.
#include "kernels/cpu/attention.h"

#include <limits.h>
#include <math.h>
#include <string.h>

enum { QUERIES = ATTENTION_QUERIES, KEYS = 1024, SPLIT_PAIRS = 8, SPLIT_KEYS = 256, SPLIT_LENGTH = 512 };

typedef struct {
  const Attention *a;
  const SimdReal *real;
  const AttentionPorts *ports;
  char *const *scratch;
  int64_t bytes;         // of the real type, which the scratch holds
  int64_t tensor_bytes;  // of an element of q, k, v, o and their gradients
  bool narrow;           // they are not of the real type
  int64_t query_blocks, key_block, key_blocks;
  int64_t parts, part_blocks, part_queries;  // queries lie in parts, each of consecutive positions
} Job;

// What a worker has in its scratch for a block of queries, all of the real type.
typedef struct {
  char *scores, *gradient;          // [key][QUERIES]
  char *query, *d_o;                // transposed: [depth][QUERIES], [value_depth][QUERIES]
  char *query_rows, *d_o_rows;      // as in memory, without gaps: [QUERIES][depth], [QUERIES][value_depth]
  char *keys;                       // k, or in the forward v, of a chunk: [key][depth]
  char *dk, *dv;                    // of a chunk: [key][depth], [key][value_depth]
  char *values;                     // v of a chunk, where it is narrow: [key][value_depth]
  char *result;                     // o or dq of the block, where they are narrow: [QUERIES][the longer depth]
  char *max, *sum, *shift, *delta;  // [QUERIES]; max and sum of the forward, delta of the backward
} Block;

static int64_t min_of(int64_t a, int64_t b) {
  return a < b ? a : b;
}

static int64_t max_of(int64_t a, int64_t b) {
  return a > b ? a : b;
}

bool attention_check(const Attention *a, const char *name, Error *error) {
  if (a->type != TYPE_F32 && a->type != TYPE_F64 && a->type != TYPE_BF16 && a->type != TYPE_F16) {
    return error_set(error, 1, "%s: the CPU backend has attention for f64, f32, bf16 and f16, not for %s", name,
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

enum { BLOCK_PARTS = 15, SKEW = 192 };  // the skew keeps parts off the same cache sets

static bool is_narrow(const Attention *a) {
  return a->type != TYPE_F32 && a->type != TYPE_F64;
}

static ElementType real_of(const Attention *a) {
  return a->type == TYPE_F64 ? TYPE_F64 : TYPE_F32;
}

// Elements of the parts of a Block, in its order.
static void block_sizes(const Attention *a, int64_t size[BLOCK_PARTS]) {
  const int64_t keys = min_of(a->keys, KEYS);
  const int64_t sizes[BLOCK_PARTS] = {QUERIES * keys,
                                      QUERIES * keys,
                                      QUERIES * a->depth,
                                      QUERIES * a->value_depth,
                                      QUERIES * a->depth,
                                      QUERIES * a->value_depth,
                                      keys * max_of(a->depth, a->value_depth),
                                      keys * a->depth,
                                      keys * a->value_depth,
                                      is_narrow(a) ? keys * a->value_depth : 0,
                                      is_narrow(a) ? QUERIES * max_of(a->depth, a->value_depth) : 0,
                                      QUERIES,
                                      QUERIES,
                                      QUERIES,
                                      QUERIES};
  memcpy(size, sizes, sizeof sizes);
}

static int64_t part_bytes(const Attention *a, int64_t elements) {
  return (elements * element_type_bytes(real_of(a)) + 63) / 64 * 64 + SKEW;
}

int64_t attention_scratch_bytes(const Attention *a) {
  int64_t size[BLOCK_PARTS], bytes = 0;
  block_sizes(a, size);
  for (int i = 0; i < BLOCK_PARTS; i++) {
    bytes += part_bytes(a, size[i]);
  }
  return bytes;
}

static Block block_of(const Job *job, int worker) {
  Block block;
  char **part[BLOCK_PARTS] = {&block.scores,   &block.gradient, &block.query, &block.d_o,   &block.query_rows,
                              &block.d_o_rows, &block.keys,     &block.dk,    &block.dv,    &block.values,
                              &block.result,   &block.max,      &block.sum,   &block.shift, &block.delta};
  int64_t size[BLOCK_PARTS];
  char *scratch = job->scratch[worker];
  block_sizes(job->a, size);
  for (int i = 0; i < BLOCK_PARTS; i++) {
    *part[i] = scratch;
    scratch += part_bytes(job->a, size[i]);
  }
  return block;
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

// One (batch, head, group) and a block of its queries.
typedef struct {
  int64_t batch, head, group, query, queries;
  int64_t position;  // of the first query
} Where;

// The queries of block `block`, which lie in one part.
static void set_block(const Job *job, Where *w, int64_t block) {
  const int64_t part = block / job->part_blocks, inside = block % job->part_blocks * QUERIES;
  w->query = part * job->part_queries + inside;
  w->queries = min_of(QUERIES, job->part_queries - inside);
  w->position = job->ports->first[part] + inside;
}

static char *at_query(const Job *job, char *memory, const int64_t *stride, const Where *w) {
  return memory +
         (w->batch * stride[0] + w->query * stride[1] + w->head * stride[2] + w->group * stride[3]) * job->tensor_bytes;
}

static char *at_key(const Job *job, char *memory, const int64_t *stride, const Where *w, int64_t key) {
  return memory + (w->batch * stride[0] + key * stride[1] + w->head * stride[2]) * job->tensor_bytes;
}

static int64_t statistic_of(const Job *job, const Where *w) {
  const Attention *a = job->a;
  return ((w->batch * a->heads + w->head) * a->groups + w->group) * a->queries + w->query;
}

// Keys in [begin, end) that any query of the block sees.
static int64_t keys_seen(const Attention *a, const Where *w, int64_t begin, int64_t end) {
  const int64_t limit = a->causal ? min_of(end, w->position + w->queries) : end;
  return max_of(limit - begin, 0);
}

// Lines of a tensor brought together. Far apart, their addresses often fall on the same few sets of a cache.
static void take_lines(const Job *job, char *to, const char *from, int64_t stride, int64_t lines, int64_t depth) {
  for (int64_t i = 0; i < lines; i++) {
    if (job->narrow) {
      job->real->load[job->a->type](to + i * depth * job->bytes, from + i * stride * job->tensor_bytes, 1, depth);
    } else {
      memcpy(to + i * depth * job->bytes, from + i * stride * job->bytes, (size_t)(depth * job->bytes));
    }
  }
}

static void give_lines(const Job *job, char *to, int64_t stride, const char *from, int64_t lines, int64_t depth) {
  for (int64_t i = 0; i < lines; i++) {
    if (job->narrow) {
      job->real->store[job->a->type](to + i * stride * job->tensor_bytes, 1, from + i * depth * job->bytes, depth);
    } else {
      memcpy(to + i * stride * job->bytes, from + i * depth * job->bytes, (size_t)(depth * job->bytes));
    }
  }
}

// Lines of the real type: where they are, or in the scratch.
typedef struct {
  char *at;
  int64_t stride;
} Lines;

static Lines wide_lines(const Job *job, char *from, int64_t stride, int64_t lines, int64_t depth, char *scratch) {
  if (!job->narrow) {
    return (Lines){from, stride};
  }
  take_lines(job, scratch, from, stride, lines, depth);
  return (Lines){scratch, depth};
}

// A block of queries (or their do), as rows and transposed; lanes without a query hold zero.
static void take_block(const Job *job, const Where *w, const char *from, int64_t stride, int64_t depth, char *rows,
                       char *transposed) {
  take_lines(job, rows, from, stride, w->queries, depth);
  if (w->queries < QUERIES) {
    memset(transposed, 0, (size_t)(QUERIES * depth * job->bytes));
  }
  job->real->transpose(transposed, QUERIES, rows, depth, w->queries, depth);
}

// lines[key][query] = the dot products of keys [begin, begin + keys) of k (or v) with a transposed block.
static void product_of_keys(const Job *job, const char *keys_of, int64_t stride, const char *block, int64_t depth,
                            int64_t keys, char *lines) {
  const SmallProduct product = {.a = keys_of,
                                .b = block,
                                .c = lines,
                                .m = keys,
                                .n = QUERIES,
                                .k = depth,
                                .a_row = stride,
                                .a_k = 1,
                                .b_row = QUERIES,
                                .c_row = QUERIES};
  job->real->product(&product);
}

// out[query][depth] (+)= sum over keys of lines[key][query] x[key][depth].
static void sum_over_keys(const Job *job, const Where *w, const char *lines, const char *x, int64_t depth, int64_t keys,
                          bool add, char *out, int64_t out_stride) {
  const SmallProduct product = {.a = lines,
                                .b = x,
                                .c = out,
                                .m = w->queries,
                                .n = depth,
                                .k = keys,
                                .a_row = 1,
                                .a_k = QUERIES,
                                .b_row = depth,
                                .c_row = out_stride,
                                .add = add};
  job->real->product(&product);
}

// out[key][depth] += sum over queries of lines[key][query] x[query][depth].
static void add_over_queries(const Job *job, const Where *w, const char *lines, const char *x, int64_t depth,
                             int64_t keys, char *out) {
  const SmallProduct product = {.a = lines,
                                .b = x,
                                .c = out,
                                .m = keys,
                                .n = depth,
                                .k = w->queries,
                                .a_row = QUERIES,
                                .a_k = 1,
                                .b_row = depth,
                                .c_row = depth,
                                .add = true};
  job->real->product(&product);
}

static AttentionBlock scores_of(const Job *job, const Block *block, const Where *w, int64_t begin, int64_t keys) {
  const Attention *a = job->a;
  const Lines k =
      wide_lines(job, at_key(job, job->ports->k, a->stride_k, w, begin), a->stride_k[1], keys, a->depth, block->keys);
  product_of_keys(job, k.at, k.stride, block->query, a->depth, keys, block->scores);
  return (AttentionBlock){
      .scores = block->scores, .keys = keys, .ahead = begin - w->position, .causal = a->causal, .scale = a->scale};
}

static void forward_task(void *context, int worker, int64_t task) {
  const Job *job = context;
  const Attention *a = job->a;
  const Block block = block_of(job, worker);
  const int64_t number = job->query_blocks - 1 - task % job->query_blocks;  // the longest first
  Where w = {0};
  task /= job->query_blocks;
  w.group = task % a->groups;
  w.head = task / a->groups % a->heads;
  w.batch = task / a->groups / a->heads;
  set_block(job, &w, number);
  for (int64_t r = 0; r < QUERIES; r++) {
    set(job, block.max, r, -INFINITY);
    set(job, block.sum, r, 0.0);
  }
  char *out = at_query(job, job->ports->o, a->stride_o, &w);
  const Lines o = job->narrow ? (Lines){block.result, a->value_depth} : (Lines){out, a->stride_o[1]};
  take_block(job, &w, at_query(job, job->ports->q, a->stride_q, &w), a->stride_q[1], a->depth, block.query_rows,
             block.query);
  const int64_t end = keys_seen(a, &w, 0, a->keys);
  for (int64_t begin = 0; begin < end; begin += KEYS) {
    const int64_t keys = min_of(KEYS, end - begin);
    const AttentionBlock scores = scores_of(job, &block, &w, begin, keys);
    job->real->attention_softmax(&scores, block.max, block.sum, block.shift);
    for (int64_t r = 0; begin > 0 && r < w.queries; r++) {
      job->real->scale_row(o.at + r * o.stride * job->bytes, a->value_depth, get(job, block.shift, r));
    }
    take_lines(job, block.keys, at_key(job, job->ports->v, a->stride_v, &w, begin), a->stride_v[1], keys,
               a->value_depth);
    sum_over_keys(job, &w, block.scores, block.keys, a->value_depth, keys, begin > 0, o.at, o.stride);
  }
  for (int64_t r = 0; r < w.queries; r++) {
    const double sum = get(job, block.sum, r);
    job->real->scale_row(o.at + r * o.stride * job->bytes, a->value_depth, 1.0 / sum);
    set(job, job->ports->statistics, statistic_of(job, &w) + r, get(job, block.max, r) + log(sum));
  }
  if (job->narrow) {
    give_lines(job, out, a->stride_o[1], o.at, w.queries, a->value_depth);
  }
}

static Job job_of(const Attention *a, const Simd *simd, const AttentionPorts *ports, char *const *scratch) {
  Job job = {.a = a, .ports = ports, .scratch = scratch};
  job.real = a->type == TYPE_F64 ? simd->f64 : simd->f32;
  job.bytes = element_type_bytes(real_of(a));
  job.tensor_bytes = element_type_bytes(a->type);
  job.narrow = is_narrow(a);
  job.parts = a->parts > 1 ? a->parts : 1;
  job.part_queries = a->queries / job.parts;
  job.part_blocks = (job.part_queries + QUERIES - 1) / QUERIES;
  job.query_blocks = job.parts * job.part_blocks;
  return job;
}

void attention_run(const Attention *a, const Simd *simd, Pool *pool, const AttentionPorts *ports,
                   char *const *scratch) {
  Job job = job_of(a, simd, ports, scratch);
  pool_run(pool, a->batch * a->heads * a->groups * job.query_blocks, forward_task, &job);
}

// Transposed queries and do, statistics and delta of a block.
static void block_begin(const Job *job, const Block *block, const Where *w) {
  const Attention *a = job->a;
  char *d_o = at_query(job, job->ports->d_o, a->stride_do, w);
  const Lines o = wide_lines(job, at_query(job, job->ports->o, a->stride_o, w), a->stride_o[1], w->queries,
                             a->value_depth, block->result);
  take_block(job, w, at_query(job, job->ports->q, a->stride_q, w), a->stride_q[1], a->depth, block->query_rows,
             block->query);
  take_block(job, w, d_o, a->stride_do[1], a->value_depth, block->d_o_rows, block->d_o);
  for (int64_t r = 0; r < QUERIES; r++) {
    const bool real = r < w->queries;
    set(job, block->shift, r, real ? get(job, job->ports->statistics, statistic_of(job, w) + r) : 0.0);
    set(job, block->delta, r,
        real ? job->real->dot(o.at + r * o.stride * job->bytes, block->d_o_rows + r * a->value_depth * job->bytes,
                              a->value_depth)
             : 0.0);
  }
}

// scores = p, gradient = ds for keys [begin, begin + keys).
static void block_gradient(const Job *job, const Block *block, const Where *w, int64_t begin, int64_t keys) {
  const Attention *a = job->a;
  const AttentionBlock scores = scores_of(job, block, w, begin, keys);
  const Lines v = wide_lines(job, at_key(job, job->ports->v, a->stride_v, w, begin), a->stride_v[1], keys,
                             a->value_depth, block->values);
  product_of_keys(job, v.at, v.stride, block->d_o, a->value_depth, keys, block->gradient);
  job->real->attention_gradient(&scores, block->gradient, block->shift, block->delta);
}

static void take_keys(const Job *job, const Block *block, const Where *w, int64_t begin, int64_t keys) {
  const Attention *a = job->a;
  take_lines(job, block->keys, at_key(job, job->ports->k, a->stride_k, w, begin), a->stride_k[1], keys, a->depth);
}

// `last`: nothing is added to this block after it.
static void add_dq(const Job *job, const Block *block, const Where *w, int64_t begin, int64_t keys, bool last) {
  const Attention *a = job->a;
  char *dq = at_query(job, job->ports->dq, a->stride_dq, w);
  const Lines sum = job->narrow ? (Lines){block->result, a->depth} : (Lines){dq, a->stride_dq[1]};
  sum_over_keys(job, w, block->gradient, block->keys, a->depth, keys, begin > 0, sum.at, sum.stride);
  if (job->narrow && last) {
    give_lines(job, dq, a->stride_dq[1], sum.at, w->queries, a->depth);
  }
}

// dk and dv of the keys [begin, end) of one (batch, head), and what they add to dq if asked.
static void keys_backward(const Job *job, const Block *block, Where w, int64_t begin, int64_t end, bool with_dq) {
  const Attention *a = job->a;
  memset(block->dk, 0, (size_t)((end - begin) * a->depth * job->bytes));
  memset(block->dv, 0, (size_t)((end - begin) * a->value_depth * job->bytes));
  take_keys(job, block, &w, begin, end - begin);
  for (w.group = 0; w.group < a->groups; w.group++) {
    for (int64_t number = 0; number < job->query_blocks; number++) {
      set_block(job, &w, number);
      const int64_t keys = keys_seen(a, &w, begin, end);
      if (keys == 0) {
        continue;
      }
      block_begin(job, block, &w);
      block_gradient(job, block, &w, begin, keys);
      add_over_queries(job, &w, block->scores, block->d_o_rows, a->value_depth, keys, block->dv);
      add_over_queries(job, &w, block->gradient, block->query_rows, a->depth, keys, block->dk);
      if (with_dq) {
        add_dq(job, block, &w, begin, keys, true);
      }
    }
  }
  give_lines(job, at_key(job, job->ports->dk, a->stride_dk, &w, begin), a->stride_dk[1], block->dk, end - begin,
             a->depth);
  give_lines(job, at_key(job, job->ports->dv, a->stride_dv, &w, begin), a->stride_dv[1], block->dv, end - begin,
             a->value_depth);
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
  const int64_t number = job->query_blocks - 1 - task % job->query_blocks;
  Where w = {0};
  task /= job->query_blocks;
  w.group = task % a->groups;
  w.head = task / a->groups % a->heads;
  w.batch = task / a->groups / a->heads;
  set_block(job, &w, number);
  block_begin(job, &block, &w);
  const int64_t end = keys_seen(a, &w, 0, a->keys);
  for (int64_t begin = 0; begin < end; begin += KEYS) {
    const int64_t keys = min_of(KEYS, end - begin);
    take_keys(job, &block, &w, begin, keys);
    block_gradient(job, &block, &w, begin, keys);
    add_dq(job, &block, &w, begin, keys, begin + KEYS >= end);
  }
}

void attention_grad_run(const Attention *a, const Simd *simd, Pool *pool, const AttentionPorts *ports,
                        char *const *scratch) {
  Job job = job_of(a, simd, ports, scratch);
  const int64_t pairs = a->batch * a->heads;
  bool whole = !job.narrow || a->keys <= KEYS;  // narrow sums of dq cannot wait in memory for the next chunk
  if ((pairs >= SPLIT_PAIRS || a->keys < SPLIT_LENGTH) && whole) {
    pool_run(pool, pairs, pair_task, &job);
    return;
  }
  job.key_block = SPLIT_KEYS;
  job.key_blocks = (a->keys + SPLIT_KEYS - 1) / SPLIT_KEYS;
  pool_run(pool, pairs * job.key_blocks, keys_task, &job);
  pool_run(pool, pairs * a->groups * job.query_blocks, queries_task, &job);
}
