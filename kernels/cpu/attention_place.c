// attention_place.c: which queries a block has, and which keys it sees.
#include "kernels/cpu/attention_internal.h"

enum { SIDE = 64 };  // keys that are looked at together

// The queries of block `block`, which lie in one part.
void attention_set_block(const Job *job, Where *w, int64_t block) {
  const int64_t part = block / job->part_blocks, inside = block % job->part_blocks * QUERIES;
  w->query = part * job->part_queries + inside;
  w->queries = min_i64(QUERIES, job->part_queries - inside);
  w->position = job->ports->first[part] + inside;
}

// The block of queries of a task: the longest first.
Where attention_where(const Job *job, int64_t task) {
  const Attention *a = job->a;
  const int64_t line = task / job->query_blocks, head = line / a->groups;
  Where w = {.batch = head / a->heads, .head = head % a->heads, .group = line % a->groups};
  attention_set_block(job, &w, job->query_blocks - 1 - task % job->query_blocks);
  return w;
}

Keys attention_part(const Job *job, int64_t part) {
  const int64_t begin = part * job->part_keys;
  return (Keys){begin, begin + job->part_keys, job->ports->key_first[part]};
}

// The next keys, at most `most`, of those from `at` on.
Keys attention_next(const Keys *keys, int64_t at, int64_t most) {
  return (Keys){at, min_i64(at + most, keys->end), keys->position + at - keys->begin};
}

// How many of these keys, from the first on, no query of the block sees because they are too far before it.
static int64_t keys_past(const Attention *a, const Where *w, const Keys *keys) {
  const int64_t first = a->window ? w->position - (a->window - 1) - keys->position : 0;
  return max_i64(0, min_i64(first, keys->end - keys->begin));
}

// Up to which of these keys any query of the block sees some, counted from the first; 0: none.
int64_t attention_seen(const Attention *a, const Where *w, const Keys *keys) {
  int64_t end = keys->position + keys->end - keys->begin;
  end = a->key_end ? min_i64(end, a->key_end) : end;
  end = a->causal ? min_i64(end, w->position + w->queries) : end;
  return end - keys->position > keys_past(a, w, keys) ? end - keys->position : 0;
}

// The keys of a part that a block of queries sees.
Keys attention_part_seen(const Job *job, const Where *w, int64_t number) {
  const Keys part = attention_part(job, number);
  const int64_t end = attention_seen(job->a, w, &part), past = min_i64(keys_past(job->a, w, &part), end);
  return (Keys){part.begin + past, part.begin + end, part.position + past};
}

static bool is_hidden(const Job *job, const Where *w, const Keys *keys) {
  const ScoreTile tile = attention_tile(job, NULL, w, keys, NULL);
  return scores_known(&tile) == SCORES_HIDDEN;
}

Keys attention_look(const Job *job, const Where *w, const Keys *keys, int64_t at) {
  if (!job->score.masks.any) {
    return attention_next(keys, at, KEYS);
  }
  int64_t begin = keys->end, end = at;
  while (end < keys->end && end - begin < KEYS) {
    const Keys side = attention_next(keys, end, SIDE);
    const bool hidden = is_hidden(job, w, &side);
    if (hidden && begin < end) {
      break;
    }
    begin = hidden || begin < end ? begin : end;
    end = side.end;
  }
  return begin < end ? (Keys){begin, end, keys->position + begin - keys->begin} : (Keys){keys->end, keys->end, 0};
}

Job attention_job(const Attention *a, const Simd *simd, const AttentionPorts *ports, char *const *scratch) {
  Job job = {.a = a, .simd = simd, .ports = ports, .scratch = scratch};
  job.real = a->type == TYPE_F64 ? simd->f64 : simd->f32;
  job.bytes = element_type_bytes(attention_real(a));
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
  scores_prepare(ports->score, &job.score);
  scores_prepare(ports->score_gradient, &job.score_gradient);
  return job;
}
