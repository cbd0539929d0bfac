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
#include "kernels/cpu/attention_internal.h"

#include <math.h>

// The scores of some keys, to be made of these dot products.
ScoreTile attention_tile(const Job *job, const Block *block, const Where *w, const Keys *keys, const char *dots) {
  return (ScoreTile){.program = &job->score,
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
                     .made = block ? block->scores : NULL};
}

AttentionBlock attention_scores(const Job *job, const Block *block, const Where *w, const Keys *keys) {
  const Attention *a = job->a;
  const int64_t count = keys->end - keys->begin;
  const Lines k = attention_wide(job, line_of_key(w, keys->begin, job->ports->k, a->stride_k, job->tensor_bytes),
                                 a->stride_k[1], count, a->depth, block->keys);
  char *const dots = a->score_gradient ? block->dots : block->scores;
  attention_product(job, k.at, k.stride, block->query, a->depth, count, dots);
  if (a->score) {  // masks are the kernel's
    const ScoreTile tile = attention_tile(job, block, w, keys, dots);
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

// Running maxima and sums of a block of queries: of no keys, or of those that the statistics have seen, and o with
// them.
static void statistics_begin(const Job *job, const Block *block, const Where *w, const Lines *o) {
  for (int64_t r = 0; r < QUERIES; r++) {
    const bool has = job->a->more && r < w->queries;
    const double seen = has ? get(job, job->ports->statistics, statistic_of(job, w) + r) : -INFINITY;
    const double lost = has && job->a->large ? get(job, job->ports->lost, statistic_of(job, w) + r) : 0.0;
    set(job, block->max, r, seen);
    set(job, block->sum, r, seen == -INFINITY ? 0.0 : exp(lost));
    if (has && job->a->large) {
      job->real->scale_row(o->at + r * o->stride * job->bytes, job->a->value_depth, exp(lost));
    }
  }
}

static void statistics_end(const Job *job, const Block *block, const Where *w, const Lines *o) {
  const Attention *a = job->a;
  for (int64_t r = 0; r < w->queries; r++) {
    const double sum = get(job, block->sum, r), max = get(job, block->max, r);
    job->real->scale_row(o->at + r * o->stride * job->bytes, a->value_depth, sum == 0 ? 0.0 : 1.0 / sum);
    const int64_t at = statistic_of(job, w) + r;
    set(job, job->ports->statistics, at, sum == 0 ? -INFINITY : max + log(sum));
    if (a->large) {
      const double kept = get(job, job->ports->statistics, at);
      set(job, job->ports->lost, at, sum == 0 ? 0.0 : log(sum) + (max - kept));
    }
  }
}

// o and the statistics of a block of queries with some more keys; `first`: there is nothing in o yet.
static void add_keys(const Job *job, const Block *block, const Where *w, const Keys *keys, bool first, const Lines *o) {
  const Attention *a = job->a;
  const int64_t count = keys->end - keys->begin;
  const AttentionBlock scores = attention_scores(job, block, w, keys);
  job->real->attention_softmax(&scores, block->max, block->sum, block->shift);
  for (int64_t r = 0; !first && r < w->queries; r++) {
    job->real->scale_row(o->at + r * o->stride * job->bytes, a->value_depth, get(job, block->shift, r));
  }
  attention_take(job, block->keys, line_of_key(w, keys->begin, job->ports->v, a->stride_v, job->tensor_bytes),
                 a->stride_v[1], count, a->value_depth);
  attention_sum_keys(job, w, block->scores, block->keys, a->value_depth, count, !first, o->at, o->stride);
}

static void forward_task(void *context, int worker, int64_t task) {
  const Job *job = context;
  const Attention *a = job->a;
  const Block block = attention_block(job, worker);
  const Where w = attention_where(job, task);
  char *out = line_of_query(&w, job->ports->o, a->stride_o, job->made_bytes);
  const Lines o = job->narrow_made ? (Lines){block.result, a->value_depth} : (Lines){out, a->stride_o[1]};
  bool any = false;
  for (int64_t p = 0; p < job->key_parts; p++) {
    const Keys part = attention_part_seen(job, &w, p);
    for (Keys keys = attention_look(job, &w, &part, part.begin); keys.begin < part.end;
         keys = attention_look(job, &w, &part, keys.end)) {
      if (!any) {
        statistics_begin(job, &block, &w, &o);
        attention_take_block(job, &w, line_of_query(&w, job->ports->q, a->stride_q, job->tensor_bytes), a->stride_q[1],
                             a->depth, block.query_rows, block.query);
      }
      add_keys(job, &block, &w, &keys, !any && !a->more, &o);
      any = true;
    }
  }
  if (any) {
    statistics_end(job, &block, &w, &o);
    if (job->narrow_made) {
      attention_give(job, out, a->stride_o[1], o.at, w.queries, a->value_depth);
    }
  } else if (!a->more) {
    attention_clear(job, &w, out, a->stride_o[1], a->value_depth);
    for (int64_t r = 0; r < w.queries; r++) {
      set(job, job->ports->statistics, statistic_of(job, &w) + r, -INFINITY);
      if (a->large) {
        set(job, job->ports->lost, statistic_of(job, &w) + r, 0.0);
      }
    }
  }
}

void attention_run(const Attention *a, const Simd *simd, Pool *pool, const AttentionPorts *ports,
                   char *const *scratch) {
  Job job = attention_job(a, simd, ports, scratch);
  pool_run(pool, a->batch * a->heads * a->groups * job.query_blocks, forward_task, &job);
}
