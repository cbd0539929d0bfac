// attention_lines.c: lines of memory, what a worker has of them in its scratch, and their products.
#include "kernels/cpu/attention_internal.h"

#include <string.h>

enum { BLOCK_PARTS = 17, SKEW = 192 };  // the skew keeps parts off the same cache sets

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
  return (elements * element_type_bytes(attention_real(a)) + 63) / 64 * 64 + SKEW;
}

int64_t attention_scratch_bytes(const Attention *a) {
  int64_t size[BLOCK_PARTS], bytes = 0;
  block_sizes(a, size);
  for (int i = 0; i < BLOCK_PARTS; i++) {
    bytes += part_bytes(a, size[i]);
  }
  return bytes;
}

Block attention_block(const Job *job, int worker) {
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

// Lines of a result of a block of queries become zero.
void attention_clear(const Job *job, const Where *w, char *rows, int64_t stride, int64_t depth) {
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
void attention_take(const Job *job, char *to, const char *from, int64_t stride, int64_t lines, int64_t depth) {
  if (!job->narrow) {
    copy_lines(job, to, depth, from, stride, lines, depth);
    return;
  }
  for (int64_t i = 0; i < lines; i++) {
    job->real->load[job->a->type](to + i * depth * job->bytes, from + i * stride * job->tensor_bytes, 1, depth);
  }
}

void attention_give(const Job *job, char *to, int64_t stride, const char *from, int64_t lines, int64_t depth) {
  if (!job->narrow_made) {
    copy_lines(job, to, stride, from, depth, lines, depth);
    return;
  }
  for (int64_t i = 0; i < lines; i++) {
    job->real->store[job->a->type](to + i * stride * job->made_bytes, 1, from + i * depth * job->bytes, depth);
  }
}

Lines attention_wide(const Job *job, char *from, int64_t stride, int64_t lines, int64_t depth, char *scratch) {
  if (!job->narrow) {
    return (Lines){from, stride};
  }
  attention_take(job, scratch, from, stride, lines, depth);
  return (Lines){scratch, depth};
}

// A block of queries (or their do), as rows and transposed; lanes without a query hold zero.
void attention_take_block(const Job *job, const Where *w, const char *from, int64_t stride, int64_t depth, char *rows,
                          char *transposed) {
  attention_take(job, rows, from, stride, w->queries, depth);
  if (w->queries < QUERIES) {
    memset(transposed, 0, (size_t)(QUERIES * depth * job->bytes));
  }
  job->real->transpose(transposed, QUERIES, rows, depth, w->queries, depth);
}

// lines[key][query] = the dot products of keys [begin, begin + keys) of k (or v) with a transposed block.
void attention_product(const Job *job, const char *keys_of, int64_t stride, const char *block, int64_t depth,
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
void attention_sum_keys(const Job *job, const Where *w, const char *lines, const char *x, int64_t depth, int64_t keys,
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
void attention_add_queries(const Job *job, const Where *w, const char *lines, const char *x, int64_t depth,
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
