// attention.c: attention by blocks of queries and chunks of keys that stay in the second cache.
//
// Scores are kept transposed, [key][64 queries]: then softmax runs down the lines with one query in each lane, and
// every product takes q, k, v and do as they lie in memory, except for the 64 queries of a block (and their do), which
// are transposed first.
// Forward, for 64 queries of one (batch, head, group): for each chunk of at most 1024 keys, s = k q^T, softmax with the
// running maximum and sum (Milakov and Gimelshein 2018), o += p^T v. Keys after the block's last query are not touched.
// More keys are one more chunk: the statistic is the running maximum, of a running sum of 1.
// Backward, for one (batch, head): p again from the saved statistics, then dv += p do, ds = p (v do^T - delta),
// dq += ds^T k, dk += ds q, with delta = rowsum(do o). Where there are few (batch, head) pairs, chunks of keys make
// dk and dv, and blocks of queries, in a second pass, dq. What is added in which order depends on the sizes only.
// Scores of a kernel are made where the dot products lie, of which the backward keeps a copy for its derivative.
// Tensors in 16 bits are widened as they are brought together, and their results rounded when all is summed.
#include "kernels/cpu/attention.h"

#include <math.h>
#include <string.h>

#include "base/integer.h"
#include "kernels/cpu/scores.h"

enum { QUERIES = ATTENTION_QUERIES, KEYS = 1024, SPLIT_PAIRS = 8, SPLIT_KEYS = 256, SPLIT_LENGTH = 512 };

typedef struct {
  const Attention *a;
  const Simd *simd;
  const SimdReal *real;
  const AttentionPorts *ports;
  char *const *scratch;
  int64_t bytes;                     // of the real type, which the scratch holds
  int64_t tensor_bytes, made_bytes;  // of an element of what is read; of what is written
  bool narrow, narrow_made;          // they are not of the real type
  int64_t query_blocks, key_block, key_blocks;
  int64_t parts, part_blocks, part_queries;  // queries lie in parts, each of consecutive positions
  int64_t key_parts, part_keys;              // and so do keys
} Job;

// Some keys of one part: [begin, end) of those in memory.
typedef struct {
  int64_t begin, end;
  int64_t position;  // of the first
} Keys;

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
  char *dots;                       // [key][QUERIES] where a kernel makes scores of them
  char *kernel;                     // what that needs
} Block;

enum { BLOCK_PARTS = 17, SKEW = 192 };  // the skew keeps parts off the same cache sets

static ElementType real_of(const Attention *a) {
  return a->type == TYPE_F64 ? TYPE_F64 : TYPE_F32;
}

// Elements of the parts of a Block, in its order.
static void block_sizes(const Attention *a, int64_t size[BLOCK_PARTS]) {
  const int64_t keys = min_i64(a->keys, KEYS);
  const int64_t sizes[BLOCK_PARTS] = {QUERIES * keys,
                                      QUERIES * keys,
                                      QUERIES * a->depth,
                                      QUERIES * a->value_depth,
                                      QUERIES * a->depth,
                                      QUERIES * a->value_depth,
                                      keys * max_i64(a->depth, a->value_depth),
                                      keys * a->depth,
                                      keys * a->value_depth,
                                      attention_is_narrow(a) ? keys * a->value_depth : 0,
                                      attention_is_narrow(a) ? QUERIES * max_i64(a->depth, a->value_depth) : 0,
                                      QUERIES,
                                      QUERIES,
                                      QUERIES,
                                      QUERIES,
                                      a->score_gradient ? QUERIES * keys : 0,
                                      a->score ? scores_scratch_bytes() / element_type_bytes(TYPE_F32) : 0};
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
                              &block.result,   &block.max,      &block.sum,   &block.shift, &block.delta,
                              &block.dots,     &block.kernel};
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
  return tile_get(job->bytes, memory, at);
}

static void set(const Job *job, char *memory, int64_t at, double value) {
  tile_set(job->bytes, memory, at, value);
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
  w->queries = min_i64(QUERIES, job->part_queries - inside);
  w->position = job->ports->first[part] + inside;
}

// The block of queries of a task: the longest first.
static Where where_of(const Job *job, int64_t task) {
  const Attention *a = job->a;
  const int64_t line = task / job->query_blocks, head = line / a->groups;
  Where w = {.batch = head / a->heads, .head = head % a->heads, .group = line % a->groups};
  set_block(job, &w, job->query_blocks - 1 - task % job->query_blocks);
  return w;
}

static char *line_of_query(const Where *w, char *memory, const int64_t *stride, int64_t bytes) {
  return memory + (w->batch * stride[0] + w->query * stride[1] + w->head * stride[2] + w->group * stride[3]) * bytes;
}

static char *line_of_key(const Where *w, int64_t key, char *memory, const int64_t *stride, int64_t bytes) {
  return memory + (w->batch * stride[0] + key * stride[1] + w->head * stride[2]) * bytes;
}

static int64_t statistic_of(const Job *job, const Where *w) {
  const Attention *a = job->a;
  return ((w->batch * a->heads + w->head) * a->groups + w->group) * a->queries + w->query;
}

static Keys keys_of_part(const Job *job, int64_t part) {
  const int64_t begin = part * job->part_keys;
  return (Keys){begin, begin + job->part_keys, job->ports->key_first[part]};
}

// The next keys, at most `most`, of those from `at` on.
static Keys next_keys(const Keys *keys, int64_t at, int64_t most) {
  return (Keys){at, min_i64(at + most, keys->end), keys->position + at - keys->begin};
}

// How many of these keys, from the first on, no query of the block sees because they are too far before it.
static int64_t keys_past(const Attention *a, const Where *w, const Keys *keys) {
  const int64_t first = a->window ? w->position - (a->window - 1) - keys->position : 0;
  return max_i64(0, min_i64(first, keys->end - keys->begin));
}

// Up to which of these keys any query of the block sees some, counted from the first; 0: none.
static int64_t keys_seen(const Attention *a, const Where *w, const Keys *keys) {
  int64_t end = keys->position + keys->end - keys->begin;
  end = a->key_end ? min_i64(end, a->key_end) : end;
  end = a->causal ? min_i64(end, w->position + w->queries) : end;
  return end - keys->position > keys_past(a, w, keys) ? end - keys->position : 0;
}

// The keys of a part that a block of queries sees.
static Keys part_seen(const Job *job, const Where *w, int64_t number) {
  const Keys part = keys_of_part(job, number);
  const int64_t end = keys_seen(job->a, w, &part), past = min_i64(keys_past(job->a, w, &part), end);
  return (Keys){part.begin + past, part.begin + end, part.position + past};
}

// Lines of a result of a block of queries become zero.
static void clear_rows(const Job *job, const Where *w, char *rows, int64_t stride, int64_t depth) {
  for (int64_t r = 0; r < w->queries; r++) {
    memset(rows + r * stride * job->made_bytes, 0, (size_t)(depth * job->made_bytes));
  }
}

static void copy_lines(const Job *job, char *to, int64_t to_stride, const char *from, int64_t stride, int64_t lines,
                       int64_t depth) {
  for (int64_t i = 0; i < lines; i++) {
    memcpy(to + i * to_stride * job->bytes, from + i * stride * job->bytes, (size_t)(depth * job->bytes));
  }
}

// Lines of what is read, brought together. Far apart, their addresses often fall on the same few sets of a cache.
static void take_lines(const Job *job, char *to, const char *from, int64_t stride, int64_t lines, int64_t depth) {
  if (!job->narrow) {
    copy_lines(job, to, depth, from, stride, lines, depth);
    return;
  }
  for (int64_t i = 0; i < lines; i++) {
    job->real->load[job->a->type](to + i * depth * job->bytes, from + i * stride * job->tensor_bytes, 1, depth);
  }
}

static void give_lines(const Job *job, char *to, int64_t stride, const char *from, int64_t lines, int64_t depth) {
  if (!job->narrow_made) {
    copy_lines(job, to, stride, from, depth, lines, depth);
    return;
  }
  for (int64_t i = 0; i < lines; i++) {
    job->real->store[job->a->type](to + i * stride * job->made_bytes, 1, from + i * depth * job->bytes, depth);
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

// The scores of some keys, to be made of these dot products.
static ScoreTile tile_of(const Job *job, const Block *block, const Where *w, const Keys *keys, const char *dots) {
  return (ScoreTile){.kernel = job->ports->score,
                     .captured = job->ports->captured,
                     .batch = w->batch,
                     .head = w->head,
                     .group = w->group,
                     .key = keys->begin,
                     .query = w->query,
                     .keys = keys->end - keys->begin,
                     .queries = w->queries,
                     .key_position = keys->position,
                     .query_position = w->position,
                     .dot = dots,
                     .made = block->scores};
}

static AttentionBlock scores_of(const Job *job, const Block *block, const Where *w, const Keys *keys) {
  const Attention *a = job->a;
  const int64_t count = keys->end - keys->begin;
  const Lines k = wide_lines(job, line_of_key(w, keys->begin, job->ports->k, a->stride_k, job->tensor_bytes),
                             a->stride_k[1], count, a->depth, block->keys);
  char *const dots = a->score_gradient ? block->dots : block->scores;
  product_of_keys(job, k.at, k.stride, block->query, a->depth, count, dots);
  if (a->score) {  // masks are the kernel's
    const ScoreTile tile = tile_of(job, block, w, keys, dots);
    scores_run(&tile, job->simd, block->kernel);
    return (AttentionBlock){.scores = block->scores, .keys = count, .scale = 1};
  }
  return (AttentionBlock){.scores = block->scores,
                          .keys = count,
                          .ahead = keys->position - w->position,
                          .causal = a->causal,
                          .scale = a->scale,
                          .slope = a->biased ? get(job, job->ports->slopes, w->head * a->groups + w->group) : 0};
}

// Running maxima and sums of a block of queries: of no keys, or of those that the statistics have seen.
static void statistics_begin(const Job *job, const Block *block, const Where *w) {
  for (int64_t r = 0; r < QUERIES; r++) {
    const bool has = job->a->more && r < w->queries;
    const double seen = has ? get(job, job->ports->statistics, statistic_of(job, w) + r) : -INFINITY;
    set(job, block->max, r, seen);
    set(job, block->sum, r, seen == -INFINITY ? 0.0 : 1.0);
  }
}

static void statistics_end(const Job *job, const Block *block, const Where *w, const Lines *o) {
  const Attention *a = job->a;
  for (int64_t r = 0; r < w->queries; r++) {
    const double sum = get(job, block->sum, r), max = get(job, block->max, r);
    job->real->scale_row(o->at + r * o->stride * job->bytes, a->value_depth, sum == 0 ? 0.0 : 1.0 / sum);
    set(job, job->ports->statistics, statistic_of(job, w) + r, sum == 0 ? -INFINITY : max + log(sum));
  }
}

// o and the statistics of a block of queries with some more keys; `first`: there is nothing in o yet.
static void add_keys(const Job *job, const Block *block, const Where *w, const Keys *keys, bool first, const Lines *o) {
  const Attention *a = job->a;
  const int64_t count = keys->end - keys->begin;
  const AttentionBlock scores = scores_of(job, block, w, keys);
  job->real->attention_softmax(&scores, block->max, block->sum, block->shift);
  for (int64_t r = 0; !first && r < w->queries; r++) {
    job->real->scale_row(o->at + r * o->stride * job->bytes, a->value_depth, get(job, block->shift, r));
  }
  take_lines(job, block->keys, line_of_key(w, keys->begin, job->ports->v, a->stride_v, job->tensor_bytes),
             a->stride_v[1], count, a->value_depth);
  sum_over_keys(job, w, block->scores, block->keys, a->value_depth, count, !first, o->at, o->stride);
}

static void forward_task(void *context, int worker, int64_t task) {
  const Job *job = context;
  const Attention *a = job->a;
  const Block block = block_of(job, worker);
  const Where w = where_of(job, task);
  char *out = line_of_query(&w, job->ports->o, a->stride_o, job->made_bytes);
  const Lines o = job->narrow_made ? (Lines){block.result, a->value_depth} : (Lines){out, a->stride_o[1]};
  bool any = false;
  for (int64_t p = 0; p < job->key_parts; p++) {
    const Keys part = part_seen(job, &w, p);
    for (int64_t at = part.begin; at < part.end; at += KEYS) {
      const Keys keys = next_keys(&part, at, KEYS);
      if (!any) {
        statistics_begin(job, &block, &w);
        take_block(job, &w, line_of_query(&w, job->ports->q, a->stride_q, job->tensor_bytes), a->stride_q[1], a->depth,
                   block.query_rows, block.query);
      }
      add_keys(job, &block, &w, &keys, !any && !a->more, &o);
      any = true;
    }
  }
  if (any) {
    statistics_end(job, &block, &w, &o);
    if (job->narrow_made) {
      give_lines(job, out, a->stride_o[1], o.at, w.queries, a->value_depth);
    }
  } else if (!a->more) {
    clear_rows(job, &w, out, a->stride_o[1], a->value_depth);
    for (int64_t r = 0; r < w.queries; r++) {
      set(job, job->ports->statistics, statistic_of(job, &w) + r, -INFINITY);
    }
  }
}

static Job job_of(const Attention *a, const Simd *simd, const AttentionPorts *ports, char *const *scratch) {
  Job job = {.a = a, .simd = simd, .ports = ports, .scratch = scratch};
  job.real = a->type == TYPE_F64 ? simd->f64 : simd->f32;
  job.bytes = element_type_bytes(real_of(a));
  job.tensor_bytes = element_type_bytes(a->type);
  job.narrow = attention_is_narrow(a);
  job.narrow_made = job.narrow && !a->wide;
  job.made_bytes = job.narrow_made ? job.tensor_bytes : job.bytes;
  job.parts = a->parts > 1 ? a->parts : 1;
  job.part_queries = a->queries / job.parts;
  job.part_blocks = blocks_of(job.part_queries, QUERIES);
  job.query_blocks = job.parts * job.part_blocks;
  job.key_parts = a->key_parts > 1 ? a->key_parts : 1;
  job.part_keys = a->keys / job.key_parts;
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
  char *d_o = line_of_query(w, job->ports->d_o, a->stride_do, job->tensor_bytes);
  const Lines o = wide_lines(job, line_of_query(w, job->ports->o, a->stride_o, job->tensor_bytes), a->stride_o[1],
                             w->queries, a->value_depth, block->result);
  take_block(job, w, line_of_query(w, job->ports->q, a->stride_q, job->tensor_bytes), a->stride_q[1], a->depth,
             block->query_rows, block->query);
  take_block(job, w, d_o, a->stride_do[1], a->value_depth, block->d_o_rows, block->d_o);
  for (int64_t r = 0; r < QUERIES; r++) {
    const bool real = r < w->queries;
    const double statistic = real ? get(job, job->ports->statistics, statistic_of(job, w) + r) : 0.0;
    set(job, block->shift, r, statistic == -INFINITY ? INFINITY : statistic);  // it sees no key: all p are 0
    set(job, block->delta, r,
        real ? job->real->dot(o.at + r * o.stride * job->bytes, block->d_o_rows + r * a->value_depth * job->bytes,
                              a->value_depth)
             : 0.0);
  }
}

// scores = p, gradient = ds for these keys.
static void block_gradient(const Job *job, const Block *block, const Where *w, const Keys *keys) {
  const Attention *a = job->a;
  const AttentionBlock scores = scores_of(job, block, w, keys);
  const Lines v = wide_lines(job, line_of_key(w, keys->begin, job->ports->v, a->stride_v, job->tensor_bytes),
                             a->stride_v[1], scores.keys, a->value_depth, block->values);
  product_of_keys(job, v.at, v.stride, block->d_o, a->value_depth, scores.keys, block->gradient);
  job->real->attention_gradient(&scores, block->gradient, block->shift, block->delta);
  if (a->score_gradient) {
    ScoreTile tile = tile_of(job, block, w, keys, block->dots);
    tile.kernel = job->ports->score_gradient;
    tile.captured = job->ports->captured_by_gradient;
    tile.gradient = tile.made = block->gradient;
    scores_run(&tile, job->simd, block->kernel);
  }
}

static void take_keys(const Job *job, const Block *block, const Where *w, const Keys *keys) {
  const Attention *a = job->a;
  take_lines(job, block->keys, line_of_key(w, keys->begin, job->ports->k, a->stride_k, job->tensor_bytes),
             a->stride_k[1], keys->end - keys->begin, a->depth);
}

static char *dq_of(const Job *job, const Where *w) {
  return line_of_query(w, job->ports->dq, job->a->stride_dq, job->made_bytes);
}

// `first`: there is nothing in dq yet.
static void add_dq(const Job *job, const Block *block, const Where *w, const Keys *keys, bool first) {
  const Attention *a = job->a;
  const Lines sum = job->narrow_made ? (Lines){block->result, a->depth} : (Lines){dq_of(job, w), a->stride_dq[1]};
  sum_over_keys(job, w, block->gradient, block->keys, a->depth, keys->end - keys->begin, !first, sum.at, sum.stride);
}

// Nothing is added to this block any more: sums that waited in the scratch are rounded.
static void end_dq(const Job *job, const Block *block, const Where *w) {
  if (job->narrow_made) {
    give_lines(job, dq_of(job, w), job->a->stride_dq[1], block->result, w->queries, job->a->depth);
  }
}

// dk and dv of some keys of one (batch, head) before any query has added to them.
static void keys_begin(const Job *job, const Block *block, const Where *w, const Keys *keys) {
  const Attention *a = job->a;
  const int64_t count = keys->end - keys->begin;
  take_keys(job, block, w, keys);
  memset(block->dk, 0, (size_t)(count * a->depth * job->bytes));
  memset(block->dv, 0, (size_t)(count * a->value_depth * job->bytes));
}

// Sums are added to what is there once they are made, as whoever adds them later does (lower_attention.c).
static void give_sums(const Job *job, char *to, int64_t stride, const char *from, int64_t lines, int64_t depth) {
  if (!job->a->more_keys) {
    give_lines(job, to, stride, from, lines, depth);
    return;
  }
  for (int64_t i = 0; i < lines; i++) {
    job->real->add[real_of(job->a)](to + i * stride * job->bytes, 1, from + i * depth * job->bytes, depth);
  }
}

static void keys_end(const Job *job, const Block *block, const Where *w, const Keys *keys) {
  const Attention *a = job->a;
  const int64_t count = keys->end - keys->begin;
  give_sums(job, line_of_key(w, keys->begin, job->ports->dk, a->stride_dk, job->made_bytes), a->stride_dk[1], block->dk,
            count, a->depth);
  give_sums(job, line_of_key(w, keys->begin, job->ports->dv, a->stride_dv, job->made_bytes), a->stride_dv[1], block->dv,
            count, a->value_depth);
}

// dk and dv of some keys of one (batch, head), and what they add to dq if asked. The keys that come first in memory
// have the lowest positions: a query that sees none of them sees none at all.
static void keys_backward(const Job *job, const Block *block, Where w, const Keys *keys, bool with_dq) {
  const Attention *a = job->a;
  const bool first = keys->begin == 0 && !a->more;
  bool any = false;
  for (w.group = 0; w.group < a->groups; w.group++) {
    for (int64_t number = 0; number < job->query_blocks; number++) {
      set_block(job, &w, number);
      const Keys seen = {keys->begin, keys->begin + keys_seen(a, &w, keys), keys->position};
      if (seen.end == seen.begin) {
        if (with_dq && first) {
          clear_rows(job, &w, dq_of(job, &w), a->stride_dq[1], a->depth);
        }
        continue;
      }
      if (!any) {
        keys_begin(job, block, &w, keys);
        any = true;
      }
      block_begin(job, block, &w);
      block_gradient(job, block, &w, &seen);
      add_over_queries(job, &w, block->scores, block->d_o_rows, a->value_depth, seen.end - seen.begin, block->dv);
      add_over_queries(job, &w, block->gradient, block->query_rows, a->depth, seen.end - seen.begin, block->dk);
      if (with_dq) {
        add_dq(job, block, &w, &seen, first);
        end_dq(job, block, &w);
      }
    }
  }
  if (!any && !a->more_keys) {
    keys_begin(job, block, &w, keys);
  }
  if (any || !a->more_keys) {
    keys_end(job, block, &w, keys);
  }
}

static void pair_task(void *context, int worker, int64_t task) {
  const Job *job = context;
  const Attention *a = job->a;
  const Block block = block_of(job, worker);
  const Where w = {.head = task % a->heads, .batch = task / a->heads};
  for (int64_t p = 0; p < job->key_parts; p++) {
    const Keys part = keys_of_part(job, p);
    for (int64_t at = part.begin; at < part.end; at += KEYS) {
      const Keys keys = next_keys(&part, at, KEYS);
      keys_backward(job, &block, w, &keys, true);
    }
  }
}

static void keys_task(void *context, int worker, int64_t task) {
  const Job *job = context;
  const Attention *a = job->a;
  const Block block = block_of(job, worker);
  const int64_t pair = task / job->key_blocks, number = task % job->key_blocks;
  const int64_t in_part = job->key_blocks / job->key_parts;
  const Where w = {.head = pair % a->heads, .batch = pair / a->heads};
  const Keys part = keys_of_part(job, number / in_part);
  const Keys keys = next_keys(&part, part.begin + number % in_part * job->key_block, job->key_block);
  keys_backward(job, &block, w, &keys, false);
}

static void queries_task(void *context, int worker, int64_t task) {
  const Job *job = context;
  const Attention *a = job->a;
  const Block block = block_of(job, worker);
  const Where w = where_of(job, task);
  bool any = false;
  for (int64_t p = 0; p < job->key_parts; p++) {
    const Keys part = part_seen(job, &w, p);
    for (int64_t at = part.begin; at < part.end; at += KEYS) {
      const Keys keys = next_keys(&part, at, KEYS);
      if (!any) {
        block_begin(job, &block, &w);
      }
      take_keys(job, &block, &w, &keys);
      block_gradient(job, &block, &w, &keys);
      add_dq(job, &block, &w, &keys, !any && !a->more);
      any = true;
    }
  }
  if (any) {
    end_dq(job, &block, &w);
  } else if (!a->more) {
    clear_rows(job, &w, dq_of(job, &w), a->stride_dq[1], a->depth);
  }
}

void attention_grad_run(const Attention *a, const Simd *simd, Pool *pool, const AttentionPorts *ports,
                        char *const *scratch) {
  Job job = job_of(a, simd, ports, scratch);
  const int64_t pairs = a->batch * a->heads;
  const bool whole = !job.narrow_made || (job.key_parts == 1 && a->keys <= KEYS);  // narrow sums cannot wait in dq
  if ((pairs >= SPLIT_PAIRS || a->keys < SPLIT_LENGTH) && whole) {
    pool_run(pool, pairs, pair_task, &job);
    return;
  }
  job.key_block = SPLIT_KEYS;
  job.key_blocks = job.key_parts * blocks_of(job.part_keys, SPLIT_KEYS);
  pool_run(pool, pairs * job.key_blocks, keys_task, &job);
  pool_run(pool, pairs * a->groups * job.query_blocks, queries_task, &job);
}
