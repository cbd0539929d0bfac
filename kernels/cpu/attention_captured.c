// attention_captured.c: the gradient of what scores capture, summed over keys or over queries.
//
// The tiles of the gradient are made once more, as for dq, and multiplied by the derivative to the captured tensor
// instead of that to the dot product. A sum over keys belongs to a block of queries, as one over the batch or heads
// that share a pair does; one over queries belongs to some keys. Who owns it adds it up in the order of memory.
#include "kernels/cpu/attention_internal.h"

enum { CAPTURED_KEYS = 256 };

static char *sum_at(const Job *job, const Where *w, int64_t key, int64_t query) {
  const int64_t *stride = job->a->stride_captured;
  return job->ports->d_captured +
         (w->batch * stride[0] + w->head * stride[1] + w->group * stride[2] + key * stride[3] + query * stride[4]) *
             job->bytes;
}

// sums[lane] += over keys of lines[key][lane].
static void add_lines(const Job *job, const Block *block, int64_t keys) {
  for (int64_t r = 0; r < QUERIES; r++) {
    double sum = get(job, block->sum, r);
    for (int64_t k = 0; k < keys; k++) {
      sum += get(job, block->gradient, k * QUERIES + r);
    }
    set(job, block->sum, r, sum);
  }
}

static void queries_task(void *context, int worker, int64_t task) {
  const Job *job = context;
  const Block block = attention_block(job, worker);
  const Where w = attention_where(job, task);
  bool any = false;
  for (int64_t r = 0; r < QUERIES; r++) {
    set(job, block.sum, r, 0);
  }
  for (int64_t p = 0; p < job->key_parts; p++) {
    const Keys part = attention_part_seen(job, &w, p);
    for (Keys keys = attention_look(job, &w, &part, part.begin); keys.begin < part.end;
         keys = attention_look(job, &w, &part, keys.end)) {
      if (!any) {
        attention_grad_begin(job, &block, &w);
      }
      attention_grad_scores(job, &block, &w, &keys);
      add_lines(job, &block, keys.end - keys.begin);
      any = true;
    }
  }
  for (int64_t r = 0; r < w.queries; r++) {
    char *to = sum_at(job, &w, 0, w.query + r);
    set(job, to, 0, get(job, block.sum, r) + (job->a->more ? get(job, to, 0) : 0));
  }
}

// sums[key] += over queries of lines[key][lane].
static void add_lanes(const Job *job, const Block *block, const Where *w, int64_t ahead, int64_t keys) {
  for (int64_t k = 0; k < keys; k++) {
    double sum = get(job, block->dk, ahead + k);
    for (int64_t r = 0; r < w->queries; r++) {
      sum += get(job, block->gradient, k * QUERIES + r);
    }
    set(job, block->dk, ahead + k, sum);
  }
}

// dk of the scratch holds the sums: it has a line for each key of a chunk.
static void keys_task(void *context, int worker, int64_t task) {
  const Job *job = context;
  const Attention *a = job->a;
  const Block block = attention_block(job, worker);
  const int64_t line = task / job->key_blocks, number = task % job->key_blocks, head = line / a->groups;
  const int64_t in_part = job->key_blocks / job->key_parts;
  Where w = {.batch = head / a->heads, .head = head % a->heads, .group = line % a->groups};
  const Keys part = attention_part(job, number / in_part);
  const Keys keys = attention_next(&part, part.begin + number % in_part * job->key_block, job->key_block);
  for (int64_t k = 0; k < keys.end - keys.begin; k++) {
    set(job, block.dk, k, 0);
  }
  for (int64_t q = 0; q < job->query_blocks; q++) {
    attention_set_block(job, &w, q);
    const Keys seen = {keys.begin, keys.begin + attention_seen(a, &w, &keys), keys.position};
    bool begun = false;
    for (Keys run = attention_look(job, &w, &seen, seen.begin); run.begin < seen.end;
         run = attention_look(job, &w, &seen, run.end)) {
      if (!begun) {
        attention_grad_begin(job, &block, &w);
      }
      attention_grad_scores(job, &block, &w, &run);
      add_lanes(job, &block, &w, run.begin - keys.begin, run.end - run.begin);
      begun = true;
    }
  }
  for (int64_t k = keys.begin; k < keys.end; k++) {
    set(job, sum_at(job, &w, k, 0), 0, get(job, block.dk, k - keys.begin));
  }
}

// --- pairs ---

// Adds a tile of some keys and a block of queries, or, of no keys that are seen, puts zeros. first: nothing is there.
static void put_pairs(const Job *job, const Block *block, const Where *w, const Keys *keys, bool seen, bool first) {
  for (int64_t k = keys->begin; k < keys->end; k++) {
    for (int64_t r = 0; r < w->queries; r++) {
      char *to = sum_at(job, w, k, w->query + r);
      const double add = seen ? get(job, block->gradient, (k - keys->begin) * QUERIES + r) : 0;
      set(job, to, 0, first ? add : get(job, to, 0) + add);
    }
  }
}

// What one line of queries adds.
static void pairs_line(const Job *job, const Block *block, const Where *w, bool first) {
  bool any = false;
  for (int64_t p = 0; p < job->key_parts; p++) {
    const Keys all = attention_part(job, p), part = attention_part_seen(job, w, p);
    if (first) {
      put_pairs(job, block, w, &all, false, true);
    }
    for (Keys keys = attention_look(job, w, &part, part.begin); keys.begin < part.end;
         keys = attention_look(job, w, &part, keys.end)) {
      if (!any) {
        attention_grad_begin(job, block, w);
      }
      attention_grad_scores(job, block, w, &keys);
      put_pairs(job, block, w, &keys, true, false);
      any = true;
    }
  }
}

// A block of queries and all lines that share its pairs.
static void pairs_task(void *context, int worker, int64_t task) {
  const Job *job = context;
  const Attention *a = job->a;
  const Block block = attention_block(job, worker);
  const int64_t *stride = a->stride_captured, lines[] = {a->batch, a->heads, a->groups};
  Where w = attention_where(job, task);
  const int64_t own[] = {w.batch, w.head, w.group};
  for (int d = 0; d < 3; d++) {
    if (stride[d] == 0 && own[d] > 0) {
      return;  // the task of the first line does it
    }
  }
  bool first = true;
  for (w.batch = own[0]; w.batch < (stride[0] ? own[0] + 1 : lines[0]); w.batch++) {
    for (w.head = own[1]; w.head < (stride[1] ? own[1] + 1 : lines[1]); w.head++) {
      for (w.group = own[2]; w.group < (stride[2] ? own[2] + 1 : lines[2]); w.group++) {
        pairs_line(job, &block, &w, first);
        first = false;
      }
    }
  }
}

void attention_captured_run(const Attention *a, const Simd *simd, Pool *pool, const AttentionPorts *ports,
                            char *const *scratch) {
  Job job = attention_job(a, simd, ports, scratch);
  const int64_t lines = a->batch * a->heads * a->groups;
  if (a->by != CAPTURED_BY_KEY) {
    pool_run(pool, lines * job.query_blocks, a->by == CAPTURED_BY_PAIR ? pairs_task : queries_task, &job);
    return;
  }
  job.key_block = CAPTURED_KEYS;
  job.key_blocks = job.key_parts * blocks_of(job.part_keys, CAPTURED_KEYS);
  pool_run(pool, lines * job.key_blocks, keys_task, &job);
}
