// attention_internal.h: what the files of attention share: a block of queries, some keys, and what a worker has of
// them.
#ifndef MDL_KERNELS_CPU_ATTENTION_INTERNAL_H
#define MDL_KERNELS_CPU_ATTENTION_INTERNAL_H

#include "base/integer.h"
#include "kernels/cpu/attention.h"
#include "kernels/cpu/scores.h"

enum { QUERIES = ATTENTION_QUERIES, KEYS = 1024 };  // of a block; of a chunk, at most

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
  ScoreProgram score, score_gradient;
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

// One (batch, head, group) and a block of its queries.
typedef struct {
  int64_t batch, head, group, query, queries;
  int64_t position;  // of the first query
} Where;

// Lines of the real type: where they are, or in the scratch.
typedef struct {
  char *at;
  int64_t stride;
} Lines;

static inline double get(const Job *job, const char *memory, int64_t at) {
  return tile_get(job->bytes, memory, at);
}

static inline void set(const Job *job, char *memory, int64_t at, double value) {
  tile_set(job->bytes, memory, at, value);
}

static inline char *line_of_query(const Where *w, char *memory, const int64_t *stride, int64_t bytes) {
  return memory + (w->batch * stride[0] + w->query * stride[1] + w->head * stride[2] + w->group * stride[3]) * bytes;
}

static inline char *line_of_key(const Where *w, int64_t key, char *memory, const int64_t *stride, int64_t bytes) {
  return memory + (w->batch * stride[0] + key * stride[1] + w->head * stride[2]) * bytes;
}

static inline int64_t statistic_of(const Job *job, const Where *w) {
  const Attention *a = job->a;
  return ((w->batch * a->heads + w->head) * a->groups + w->group) * a->queries + w->query;
}

static inline ElementType attention_real(const Attention *a) {
  return a->type == TYPE_F64 ? TYPE_F64 : TYPE_F32;
}

// --- attention_place.c ---

Job attention_job(const Attention *a, const Simd *simd, const AttentionPorts *ports, char *const *scratch);
void attention_set_block(const Job *job, Where *w, int64_t block);  // of queries, which lie in one part
Where attention_where(const Job *job, int64_t task);                // the block of a task: the longest first
Keys attention_part(const Job *job, int64_t part);                  // all keys of a part
// Those of a part that a block of queries may see, by positions alone.
Keys attention_part_seen(const Job *job, const Where *w, int64_t part);
Keys attention_next(const Keys *keys, int64_t at, int64_t most);  // at most `most`, of those from `at` on
// Up to which of these keys any query of the block may see some, counted from the first; 0: none.
int64_t attention_seen(const Attention *a, const Where *w, const Keys *keys);
// The next of these keys from `at` on that masks do not hide from all queries of the block, as many as lie together and
// KEYS at most; none: begin is the end of all.
Keys attention_look(const Job *job, const Where *w, const Keys *keys, int64_t at);

// --- attention_lines.c ---

Block attention_block(const Job *job, int worker);
// Lines of a result of a block of queries become zero.
void attention_clear(const Job *job, const Where *w, char *rows, int64_t stride, int64_t depth);
// Lines of what is read, brought together. Far apart, their addresses often fall on the same few sets of a cache.
void attention_take(const Job *job, char *to, const char *from, int64_t stride, int64_t lines, int64_t depth);
void attention_give(const Job *job, char *to, int64_t stride, const char *from, int64_t lines, int64_t depth);
Lines attention_wide(const Job *job, char *from, int64_t stride, int64_t lines, int64_t depth, char *scratch);
// A block of queries (or their do), as rows and transposed; lanes without a query hold zero.
void attention_take_block(const Job *job, const Where *w, const char *from, int64_t stride, int64_t depth, char *rows,
                          char *transposed);
// lines[key][query] = the dot products of `keys` keys of k (or v) with a transposed block.
void attention_product(const Job *job, const char *keys_of, int64_t stride, const char *block, int64_t depth,
                       int64_t keys, char *lines);
// out[query][depth] (+)= sum over keys of lines[key][query] x[key][depth].
void attention_sum_keys(const Job *job, const Where *w, const char *lines, const char *x, int64_t depth, int64_t keys,
                        bool add, char *out, int64_t out_stride);
// out[key][depth] += sum over queries of lines[key][query] x[query][depth].
void attention_add_queries(const Job *job, const Where *w, const char *lines, const char *x, int64_t depth,
                           int64_t keys, char *out);

// --- attention.c ---

// The scores of some keys, to be made of these dot products.
ScoreTile attention_tile(const Job *job, const Block *block, const Where *w, const Keys *keys, const char *dots);
AttentionBlock attention_scores(const Job *job, const Block *block, const Where *w, const Keys *keys);

// --- attention_grad.c ---

// Transposed queries and do, statistics and delta of a block.
void attention_grad_begin(const Job *job, const Block *block, const Where *w);
// scores = p, gradient = that of the dot products, or of what is captured, for these keys.
void attention_grad_scores(const Job *job, const Block *block, const Where *w, const Keys *keys);

#endif
