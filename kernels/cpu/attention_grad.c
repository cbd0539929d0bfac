// attention_grad.c: the gradient of attention; see attention.c.
#include "kernels/cpu/attention_internal.h"

#include <math.h>
#include <string.h>

enum { SPLIT_PAIRS = 8, SPLIT_KEYS = 256, SPLIT_LENGTH = 512 };

void attention_grad_begin(const Job *job, const Block *block, const Where *w) {
  const Attention *a = job->a;
  char *d_o = line_of_query(w, job->ports->d_o, a->stride_do, job->tensor_bytes);
  const Lines o = attention_wide(job, line_of_query(w, job->ports->o, a->stride_o, job->tensor_bytes), a->stride_o[1],
                                 w->queries, a->value_depth, block->result);
  attention_take_block(job, w, line_of_query(w, job->ports->q, a->stride_q, job->tensor_bytes), a->stride_q[1],
                       a->depth, block->query_rows, block->query);
  attention_take_block(job, w, d_o, a->stride_do[1], a->value_depth, block->d_o_rows, block->d_o);
  for (int64_t r = 0; r < QUERIES; r++) {
    const bool real = r < w->queries;
    const double statistic = real ? get(job, job->ports->statistics, statistic_of(job, w) + r) : 0.0;
    set(job, block->shift, r, statistic == -INFINITY ? INFINITY : statistic);  // it sees no key: all p are 0
    const double seed = real && a->seeded ? get(job, job->ports->d_statistics, statistic_of(job, w) + r) : 0.0;
    set(job, block->delta, r,
        real ? job->real->dot(o.at + r * o.stride * job->bytes, block->d_o_rows + r * a->value_depth * job->bytes,
                              a->value_depth) -
                   seed
             : 0.0);
  }
}

void attention_grad_scores(const Job *job, const Block *block, const Where *w, const Keys *keys) {
  const Attention *a = job->a;
  const AttentionBlock scores = attention_scores(job, block, w, keys);
  const Lines v = attention_wide(job, line_of_key(w, keys->begin, job->ports->v, a->stride_v, job->tensor_bytes),
                                 a->stride_v[1], scores.keys, a->value_depth, block->values);
  attention_product(job, v.at, v.stride, block->d_o, a->value_depth, scores.keys, block->gradient);
  job->real->attention_gradient(&scores, block->gradient, block->shift, block->delta);
  if (a->score_gradient) {
    ScoreTile tile = attention_tile(job, block, w, keys, block->dots);
    tile.program = &job->score_gradient;
    tile.captured = job->ports->captured_by_gradient;
    tile.gradient = tile.made = block->gradient;
    scores_run(&tile, job->simd, block->kernel);
  }
}

static void take_keys(const Job *job, const Block *block, const Where *w, const Keys *keys) {
  const Attention *a = job->a;
  attention_take(job, block->keys, line_of_key(w, keys->begin, job->ports->k, a->stride_k, job->tensor_bytes),
                 a->stride_k[1], keys->end - keys->begin, a->depth);
}

static char *dq_of(const Job *job, const Where *w) {
  return line_of_query(w, job->ports->dq, job->a->stride_dq, job->made_bytes);
}

// `first`: there is nothing in dq yet. k: these keys, together.
static void add_dq(const Job *job, const Block *block, const Where *w, const Keys *keys, const char *k, bool first) {
  const Attention *a = job->a;
  const Lines sum = job->narrow_made ? (Lines){block->result, a->depth} : (Lines){dq_of(job, w), a->stride_dq[1]};
  attention_sum_keys(job, w, block->gradient, k, a->depth, keys->end - keys->begin, !first, sum.at, sum.stride);
}

// Nothing is added to this block any more: sums that waited in the scratch are rounded.
static void end_dq(const Job *job, const Block *block, const Where *w) {
  if (job->narrow_made) {
    attention_give(job, dq_of(job, w), job->a->stride_dq[1], block->result, w->queries, job->a->depth);
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
    attention_give(job, to, stride, from, lines, depth);
    return;
  }
  for (int64_t i = 0; i < lines; i++) {
    job->real->add[attention_real(job->a)](to + i * stride * job->bytes, 1, from + i * depth * job->bytes, depth);
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

// What the keys that a block of queries sees get from it. Those of the run alone have been widened if they are narrow.
static void run_backward(const Job *job, const Block *block, const Where *w, const Keys *keys, const Keys *run,
                         bool with_dq, bool first) {
  const Attention *a = job->a;
  const int64_t ahead = (run->begin - keys->begin) * job->bytes, count = run->end - run->begin;
  attention_grad_scores(job, block, w, run);
  attention_add_queries(job, w, block->scores, block->d_o_rows, a->value_depth, count,
                        block->dv + ahead * a->value_depth);
  attention_add_queries(job, w, block->gradient, block->query_rows, a->depth, count, block->dk + ahead * a->depth);
  if (with_dq) {
    add_dq(job, block, w, run, job->narrow ? block->keys : block->keys + ahead * a->depth, first);
  }
}

// dk and dv of some keys of one (batch, head), and what they add to dq if asked. The keys that come first in memory
// have the lowest positions: a query that sees none of them sees none at all, but for what masks hide.
static void keys_backward(const Job *job, const Block *block, Where w, const Keys *keys, bool with_dq) {
  const Attention *a = job->a;
  const bool first = keys->begin == 0 && !a->more;
  bool any = false;
  for (w.group = 0; w.group < a->groups; w.group++) {
    for (int64_t number = 0; number < job->query_blocks; number++) {
      attention_set_block(job, &w, number);
      const Keys seen = {keys->begin, keys->begin + attention_seen(a, &w, keys), keys->position};
      bool begun = false;
      for (Keys run = attention_look(job, &w, &seen, seen.begin); run.begin < seen.end;
           run = attention_look(job, &w, &seen, run.end)) {
        if (!any) {
          keys_begin(job, block, &w, keys);
        }
        if (!begun) {
          attention_grad_begin(job, block, &w);
        }
        run_backward(job, block, &w, keys, &run, with_dq, first && !begun);
        any = begun = true;
      }
      if (with_dq && begun) {
        end_dq(job, block, &w);
      } else if (with_dq && first) {
        attention_clear(job, &w, dq_of(job, &w), a->stride_dq[1], a->depth);
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
  const Block block = attention_block(job, worker);
  const Where w = {.head = task % a->heads, .batch = task / a->heads};
  for (int64_t p = 0; p < job->key_parts; p++) {
    const Keys part = attention_part(job, p);
    for (int64_t at = part.begin; at < part.end; at += KEYS) {
      const Keys keys = attention_next(&part, at, KEYS);
      keys_backward(job, &block, w, &keys, true);
    }
  }
}

static void keys_task(void *context, int worker, int64_t task) {
  const Job *job = context;
  const Attention *a = job->a;
  const Block block = attention_block(job, worker);
  const int64_t pair = task / job->key_blocks, number = task % job->key_blocks;
  const int64_t in_part = job->key_blocks / job->key_parts;
  const Where w = {.head = pair % a->heads, .batch = pair / a->heads};
  const Keys part = attention_part(job, number / in_part);
  const Keys keys = attention_next(&part, part.begin + number % in_part * job->key_block, job->key_block);
  keys_backward(job, &block, w, &keys, false);
}

static void queries_task(void *context, int worker, int64_t task) {
  const Job *job = context;
  const Attention *a = job->a;
  const Block block = attention_block(job, worker);
  const Where w = attention_where(job, task);
  bool any = false;
  for (int64_t p = 0; p < job->key_parts; p++) {
    const Keys part = attention_part_seen(job, &w, p);
    for (Keys keys = attention_look(job, &w, &part, part.begin); keys.begin < part.end;
         keys = attention_look(job, &w, &part, keys.end)) {
      if (!any) {
        attention_grad_begin(job, &block, &w);
      }
      take_keys(job, &block, &w, &keys);
      attention_grad_scores(job, &block, &w, &keys);
      add_dq(job, &block, &w, &keys, block.keys, !any && !a->more);
      any = true;
    }
  }
  if (any) {
    end_dq(job, &block, &w);
  } else if (!a->more) {
    attention_clear(job, &w, dq_of(job, &w), a->stride_dq[1], a->depth);
  }
}

void attention_grad_run(const Attention *a, const Simd *simd, Pool *pool, const AttentionPorts *ports,
                        char *const *scratch) {
  Job job = attention_job(a, simd, ports, scratch);
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
