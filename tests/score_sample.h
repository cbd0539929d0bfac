// score_sample.h: kernels of scores (Attention.score) for tests and benchmarks, and their derivatives: a soft cap, a
// bias of each head and key, a causal window, documents.
#ifndef MDL_TESTS_SCORE_SAMPLE_H
#define MDL_TESTS_SCORE_SAMPLE_H

#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "compiler/plan/plan.h"

enum { SAMPLE_BIAS = SCORE_CAPTURED, SAMPLE_QUERIES, SAMPLE_KEYS, SAMPLE_PORTS, SAMPLE_DOCUMENT = 50 };

typedef struct {
  double scale, cap;  // cap * tanh(scale * dot / cap); 0: scale * dot
  bool biased, documents;
  int64_t window;  // a query sees the keys less than this before it, and not those behind it
  double hidden;   // the score of the others; 0: -infinity
} SampleScore;

typedef struct {
  Kernel *kernel;
  int count;
} Sample;

static inline int sample_code(Sample *sample, KernelOp op, bool integer, int a, int b, int c) {
  sample->kernel->code[sample->count] =
      (KernelInstruction){.op = op, .integer = integer, .a = (int16_t)a, .b = (int16_t)b, .c = (int16_t)c, .port = -1};
  sample->kernel->code_count = sample->count + 1;
  return sample->count++;
}

static inline int sample_number(Sample *sample, double number) {
  const int at = sample_code(sample, KERNEL_CONST, false, -1, -1, -1);
  sample->kernel->code[at].number = number;
  return at;
}

static inline int sample_integer(Sample *sample, int64_t number) {
  const int at = sample_code(sample, KERNEL_INTEGER, true, -1, -1, -1);
  sample->kernel->code[at].constant = number;
  return at;
}

static inline int sample_port(Sample *sample, KernelOp op, int port, bool integer) {
  const int at = sample_code(sample, op, integer, -1, -1, -1);
  sample->kernel->code[at].port = (int16_t)port;
  return at;
}

// Whether the query sees the key.
static inline int sample_sees(Sample *s, const SampleScore *score) {
  const int query = sample_port(s, KERNEL_IOTA, SCORE_QUERY, true), key = sample_port(s, KERNEL_IOTA, SCORE_KEY, true);
  const int far = sample_code(s, KERNEL_INT_SUB, true, query, key, -1);
  const int past = sample_code(s, KERNEL_INT_LESS_EQUAL, true, sample_integer(s, 0), far, -1);
  const int near = sample_code(s, KERNEL_INT_LESS, true, far, sample_integer(s, score->window), -1);
  int sees = sample_code(s, KERNEL_AND, true, near, past, -1);
  if (score->documents) {
    const int of_query = sample_port(s, KERNEL_LOAD, SAMPLE_QUERIES, true);
    const int of_key = sample_port(s, KERNEL_LOAD, SAMPLE_KEYS, true);
    sees = sample_code(s, KERNEL_AND, true, sees, sample_code(s, KERNEL_INT_EQUAL, true, of_query, of_key, -1), -1);
  }
  return sees;
}

static inline int sample_score(Sample *s, const SampleScore *score, int dot) {
  const bool capped = score->cap > 0;
  const int part =
      sample_code(s, KERNEL_MUL, false, dot, sample_number(s, capped ? score->scale / score->cap : score->scale), -1);
  const int root = capped ? sample_code(s, KERNEL_TANH, false, part, -1, -1) : part;
  const int made = capped ? sample_code(s, KERNEL_MUL, false, root, sample_number(s, score->cap), -1) : root;
  return score->biased ? sample_code(s, KERNEL_ADD, false, made, sample_port(s, KERNEL_LOAD, SAMPLE_BIAS, false), -1)
                       : made;
}

static inline int sample_gradient(Sample *s, const SampleScore *score, int dot) {
  int slope = sample_number(s, score->scale);
  if (score->cap > 0) {
    const int part = sample_code(s, KERNEL_MUL, false, dot, sample_number(s, score->scale / score->cap), -1);
    const int root = sample_code(s, KERNEL_TANH, false, part, -1, -1);
    const int square = sample_code(s, KERNEL_MUL, false, root, root, -1);
    slope = sample_code(s, KERNEL_MUL, false, slope, sample_code(s, KERNEL_SUB, false, sample_number(s, 1), square, -1),
                        -1);
  }
  return sample_code(s, KERNEL_MUL, false, sample_port(s, KERNEL_LOAD, SCORE_GRADIENT, false), slope, -1);
}

// The biases are [head, key], the documents [query] and [key].
static inline Kernel *sample_make(Arena *arena, const Attention *a, ElementType real, const SampleScore *score,
                                  bool gradient) {
  static const PortKind kinds[] = {PORT_INPUT, PORT_INPUT, PORT_STRIDES, PORT_STRIDES, PORT_OUTPUT};
  const int64_t size[] = {a->batch, a->heads, a->groups, a->keys, a->queries};
  Kernel *kernel = ARENA_NEW(arena, Kernel);
  Sample s = {.kernel = kernel};
  *kernel = (Kernel){.dim_count = SCORE_DIMS, .inner_count = 1, .real = real, .port_count = SAMPLE_PORTS};
  kernel->port = ARENA_ARRAY(arena, KernelPort, SAMPLE_PORTS);
  kernel->code = ARENA_ARRAY(arena, KernelInstruction, 64);
  memcpy(kernel->size, size, sizeof size);
  for (int p = 0; p < SCORE_CAPTURED; p++) {
    kernel->port[p] = (KernelPort){.kind = kinds[p], .type = kinds[p] == PORT_STRIDES ? TYPE_INT : real};
  }
  kernel->port[SAMPLE_BIAS] = (KernelPort){.type = real, .stride = {0, a->keys, 0, 1, 0}};
  kernel->port[SAMPLE_QUERIES] = (KernelPort){.type = TYPE_INT, .stride = {0, 0, 0, 0, 1}};
  kernel->port[SAMPLE_KEYS] = (KernelPort){.type = TYPE_INT, .stride = {0, 0, 0, 1, 0}};
  const int dot = sample_port(&s, KERNEL_LOAD, SCORE_DOT, false);
  const int made = gradient ? sample_gradient(&s, score, dot) : sample_score(&s, score, dot);
  const int hidden = sample_number(&s, gradient             ? 0
                                       : score->hidden != 0 ? score->hidden
                                                            : -INFINITY),
            sees = sample_sees(&s, score);
  const int chosen = sample_code(&s, KERNEL_WHERE, false, sees, made, hidden);
  const int store = sample_code(&s, KERNEL_STORE, false, chosen, -1, -1);
  kernel->code[store].port = SCORE_MADE;
  return kernel;
}

#endif
