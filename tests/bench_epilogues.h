// bench_epilogues.h: what a matrix product of a transformer takes by cuBLASLt, plain and with an epilogue.
//
// Each product is what the compiler asks for in a GPT-2: a [m, k] rows of tokens, b a weight stored [n, k] ("nt") or
// [k, n] ("nn"); of weight gradients both operands have the tokens as k ("tn"). Beside an epilogue stands what a kernel
// of its own would take that moves the same bytes at the speed of a copy.
#ifndef MDL_TESTS_BENCH_EPILOGUES_H
#define MDL_TESTS_BENCH_EPILOGUES_H

#include <stdio.h>
#include <stdlib.h>

#include "runtime/cuda/cublaslt.h"

enum { EPILOGUE_CHOICES = 24, EPILOGUE_ROUNDS = 3, EPILOGUE_LAUNCHES = 4, EPILOGUE_LAST_LAUNCHES = 20 };
enum { EPILOGUE_AUX_POINTER = 11, EPILOGUE_AUX_LEADING = 12 };  // of a product
enum {                                                          // cublasLtEpilogue_t
  CUBLASLT_EPILOGUE_PLAIN = 1,
  CUBLASLT_EPILOGUE_GELU_BIAS = 36,
  CUBLASLT_EPILOGUE_GELU_AUX_BIAS = 164,
  CUBLASLT_EPILOGUE_DGELU = 192,
  CUBLASLT_EPILOGUE_DGELU_BGRAD = 208,
  CUBLASLT_EPILOGUE_BGRADB = 512,
};
static const size_t EPILOGUE_WORKSPACE = (size_t)32 << 20;
static const size_t EPILOGUE_OPERAND = (size_t)512 << 20;  // bytes: the largest operand is 65536 x 3072 of bf16
static const double EPILOGUE_COPY = 4.2e12;                // bytes a second, read and written

typedef struct {
  const char *name;
  int64_t m, n, k;
  bool transpose_a, transpose_b, wide;  // wide: the result is f32
  int epilogue;
  int matrices;  // of m x n elements that the kernel this replaces reads and writes; negative: of m x k, a's
} EpilogueCase;

static const EpilogueCase epilogue_cases[] = {
    {"gpt2 qkv", 65536, 2304, 768, false, true, false, CUBLASLT_EPILOGUE_PLAIN, 0},
    {"gpt2 qkv", 65536, 2304, 768, false, true, false, CUBLASLT_EPILOGUE_BIAS, 2},
    {"gpt2 up", 65536, 3072, 768, false, true, false, CUBLASLT_EPILOGUE_PLAIN, 0},
    {"gpt2 up", 65536, 3072, 768, false, true, false, CUBLASLT_EPILOGUE_BIAS, 2},
    {"gpt2 up", 65536, 3072, 768, false, true, false, CUBLASLT_EPILOGUE_GELU_BIAS, 2},
    {"gpt2 up", 65536, 3072, 768, false, true, false, CUBLASLT_EPILOGUE_GELU_AUX_BIAS, 2},
    {"gpt2 down", 65536, 768, 3072, false, true, false, CUBLASLT_EPILOGUE_PLAIN, 0},
    {"gpt2 down", 65536, 768, 3072, false, true, false, CUBLASLT_EPILOGUE_BIAS, 2},
    {"gpt2 gradient of gelu", 65536, 3072, 768, false, false, false, CUBLASLT_EPILOGUE_PLAIN, 0},
    {"gpt2 gradient of gelu", 65536, 3072, 768, false, false, false, CUBLASLT_EPILOGUE_DGELU, 3},
    {"gpt2 gradient of gelu", 65536, 3072, 768, false, false, false, CUBLASLT_EPILOGUE_DGELU_BGRAD, 4},
    {"gpt2 gradient of qkv's input", 65536, 768, 2304, false, false, false, CUBLASLT_EPILOGUE_PLAIN, 0},
    {"gpt2 gradient of qkv.w", 2304, 768, 65536, true, false, false, CUBLASLT_EPILOGUE_PLAIN, 0},
    {"gpt2 gradient of qkv.w", 2304, 768, 65536, true, false, false, CUBLASLT_EPILOGUE_BGRADB, -1},
    {"gpt2 gradient of qkv.w", 2304, 768, 65536, true, false, true, CUBLASLT_EPILOGUE_PLAIN, 0},
    {"gpt2 gradient of qkv.w", 2304, 768, 65536, true, false, true, CUBLASLT_EPILOGUE_BGRADB, -1},
    {"gpt2 gradient of up.w", 3072, 768, 65536, true, false, true, CUBLASLT_EPILOGUE_PLAIN, 0},
    {"gpt2 gradient of up.w", 3072, 768, 65536, true, false, true, CUBLASLT_EPILOGUE_BGRADB, -1},
    {"gpt2-xl qkv", 16384, 4800, 1600, false, true, false, CUBLASLT_EPILOGUE_PLAIN, 0},
    {"gpt2-xl qkv", 16384, 4800, 1600, false, true, false, CUBLASLT_EPILOGUE_BIAS, 2},
    {"gpt2-xl up", 16384, 6400, 1600, false, true, false, CUBLASLT_EPILOGUE_PLAIN, 0},
    {"gpt2-xl up", 16384, 6400, 1600, false, true, false, CUBLASLT_EPILOGUE_BIAS, 2},
    {"gpt2-xl up", 16384, 6400, 1600, false, true, false, CUBLASLT_EPILOGUE_GELU_BIAS, 2},
    {"gpt2-xl up", 16384, 6400, 1600, false, true, false, CUBLASLT_EPILOGUE_GELU_AUX_BIAS, 2},
    {"gpt2-xl down", 16384, 1600, 6400, false, true, false, CUBLASLT_EPILOGUE_PLAIN, 0},
    {"gpt2-xl down", 16384, 1600, 6400, false, true, false, CUBLASLT_EPILOGUE_BIAS, 2},
    {"gpt2-xl gradient of gelu", 16384, 6400, 1600, false, false, false, CUBLASLT_EPILOGUE_PLAIN, 0},
    {"gpt2-xl gradient of gelu", 16384, 6400, 1600, false, false, false, CUBLASLT_EPILOGUE_DGELU, 3},
    {"gpt2-xl gradient of gelu", 16384, 6400, 1600, false, false, false, CUBLASLT_EPILOGUE_DGELU_BGRAD, 4},
    {"gpt2-xl gradient of qkv.w", 4800, 1600, 16384, true, false, false, CUBLASLT_EPILOGUE_PLAIN, 0},
    {"gpt2-xl gradient of qkv.w", 4800, 1600, 16384, true, false, false, CUBLASLT_EPILOGUE_BGRADB, -1},
    {"gpt2-xl gradient of qkv.w", 4800, 1600, 16384, true, false, true, CUBLASLT_EPILOGUE_PLAIN, 0},
    {"gpt2-xl gradient of qkv.w", 4800, 1600, 16384, true, false, true, CUBLASLT_EPILOGUE_BGRADB, -1},
    {"gpt2-xl gradient of up.w", 6400, 1600, 16384, true, false, true, CUBLASLT_EPILOGUE_PLAIN, 0},
    {"gpt2-xl gradient of up.w", 6400, 1600, 16384, true, false, true, CUBLASLT_EPILOGUE_BGRADB, -1},
};

typedef struct {
  const Cuda *cuda;
  CudaStream stream;
  CudaEvent begin, end;
  CublasLt lt;
  CublasLtHandle handle;
  CudaAddress a, b, d, aux, bias, workspace;
  CublasLtProduct product;
  CublasLtLayout layout_a, layout_b, layout_d;
} Epilogues;

static void epilogue_fail(const char *what, const char *text) {
  fprintf(stderr, "bench_cuda: %s: %s\n", what, text);
  exit(1);
}

static void epilogue_check(const Epilogues *e, CublasStatus status, const char *what) {
  if (status != 0) {
    epilogue_fail(what, e->lt.status_text(status));
  }
}

static void epilogue_cuda(const Epilogues *e, CudaStatus status, const char *what) {
  Error error;
  if (!cuda_check(e->cuda, status, what, &error)) {
    epilogue_fail(what, error.text);
  }
}

static const char *epilogue_name(int epilogue) {
  switch (epilogue) {
    case CUBLASLT_EPILOGUE_BIAS:
      return "bias";
    case CUBLASLT_EPILOGUE_GELU_BIAS:
      return "gelu bias";
    case CUBLASLT_EPILOGUE_GELU_AUX_BIAS:
      return "gelu bias, keeps its input";
    case CUBLASLT_EPILOGUE_DGELU:
      return "gradient of gelu";
    case CUBLASLT_EPILOGUE_DGELU_BGRAD:
      return "gradient of gelu, of bias";
    case CUBLASLT_EPILOGUE_BGRADB:
      return "gradient of bias";
    default:
      return "plain";
  }
}

// Numbers in bf16 of both signs and sizes around 1: a product of zeros draws less power and is faster.
static CudaAddress epilogue_operand(const Epilogues *e, size_t bytes) {
  enum { BLOCK = 1 << 22 };
  CudaAddress made = 0;
  uint16_t *block = malloc(BLOCK * sizeof *block);
  if (!block) {
    epilogue_fail("operands", "out of memory");
  }
  uint32_t state = 12345;
  for (int i = 0; i < BLOCK; i++) {
    state = state * 1664525u + 1013904223u;
    block[i] = (uint16_t)((state >> 31 << 15) | (0x3e80u + (state >> 8 & 0x1ffu)));
  }
  epilogue_cuda(e, e->cuda->memory_allocate(&made, bytes), "allocating");
  const size_t size = BLOCK * sizeof *block;
  for (size_t at = 0; at < bytes; at += size) {
    epilogue_cuda(e, e->cuda->copy_in(made + at, block, bytes - at < size ? bytes - at : size, e->stream), "filling");
  }
  epilogue_cuda(e, e->cuda->stream_synchronize(e->stream), "filling");
  free(block);
  return made;
}

static void epilogue_describe(Epilogues *e, const EpilogueCase *c) {
  const CublasLt *lt = &e->lt;
  const int32_t first = c->transpose_b, second = c->transpose_a, epilogue = c->epilogue;
  const int64_t leading = c->n;
  epilogue_check(e, lt->product_create(&e->product, CUBLAS_COMPUTE_F32, CUBLAS_F32), "a product");
  epilogue_check(e, lt->product_set(e->product, CUBLASLT_PRODUCT_TRANSPOSE_A, &first, sizeof first), "transposing");
  epilogue_check(e, lt->product_set(e->product, CUBLASLT_PRODUCT_TRANSPOSE_B, &second, sizeof second), "transposing");
  epilogue_check(e, lt->product_set(e->product, CUBLASLT_PRODUCT_EPILOGUE, &epilogue, sizeof epilogue), "an epilogue");
  if (epilogue != CUBLASLT_EPILOGUE_PLAIN && epilogue != CUBLASLT_EPILOGUE_DGELU) {
    epilogue_check(e, lt->product_set(e->product, CUBLASLT_PRODUCT_BIAS, &e->bias, sizeof e->bias), "a bias");
  }
  if (epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS || epilogue == CUBLASLT_EPILOGUE_DGELU ||
      epilogue == CUBLASLT_EPILOGUE_DGELU_BGRAD) {
    epilogue_check(e, lt->product_set(e->product, EPILOGUE_AUX_POINTER, &e->aux, sizeof e->aux), "what is kept");
    epilogue_check(e, lt->product_set(e->product, EPILOGUE_AUX_LEADING, &leading, sizeof leading), "what is kept");
  }
  const int64_t rows_a = c->transpose_b ? c->k : c->n, rows_b = c->transpose_a ? c->m : c->k;
  const int64_t columns_a = c->n + c->k - rows_a, columns_b = c->m + c->k - rows_b;
  epilogue_check(e, lt->layout_create(&e->layout_a, CUBLAS_BF16, (uint64_t)rows_a, (uint64_t)columns_a, rows_a), "b");
  epilogue_check(e, lt->layout_create(&e->layout_b, CUBLAS_BF16, (uint64_t)rows_b, (uint64_t)columns_b, rows_b), "a");
  epilogue_check(
      e, lt->layout_create(&e->layout_d, c->wide ? CUBLAS_F32 : CUBLAS_BF16, (uint64_t)c->n, (uint64_t)c->m, leading),
      "the result");
}

// Seconds of one of `launches`; negative: the algorithm does not run.
static double epilogue_time(const Epilogues *e, const CublasLtAlgorithm *algorithm, int launches) {
  const float one = 1, zero = 0;
  float milliseconds = 0;
  epilogue_cuda(e, e->cuda->event_record(e->begin, e->stream), "timing");
  for (int i = 0; i < launches; i++) {
    if (e->lt.multiply(e->handle, e->product, &one, e->b, e->layout_a, e->a, e->layout_b, &zero, e->d, e->layout_d,
                       e->d, e->layout_d, algorithm, e->workspace, EPILOGUE_WORKSPACE, e->stream) != 0) {
      return -1;
    }
  }
  epilogue_cuda(e, e->cuda->event_record(e->end, e->stream), "timing");
  epilogue_cuda(e, e->cuda->event_synchronize(e->end), "timing");
  epilogue_cuda(e, e->cuda->event_elapsed(&milliseconds, e->begin, e->end), "timing");
  return (double)milliseconds / 1e3 / launches;
}

static int epilogue_choices(const Epilogues *e, CublasLtChoice *choice) {
  CublasLtPreference preference = NULL;
  int count = 0;
  epilogue_check(e, e->lt.preference_create(&preference), "a preference");
  epilogue_check(
      e, e->lt.preference_set(preference, CUBLASLT_PREFER_WORKSPACE, &EPILOGUE_WORKSPACE, sizeof EPILOGUE_WORKSPACE),
      "a preference");
  const CublasStatus status = e->lt.choices(e->handle, e->product, e->layout_a, e->layout_b, e->layout_d, e->layout_d,
                                            preference, EPILOGUE_CHOICES, choice, &count);
  e->lt.preference_destroy(preference);
  return status == 0 ? count : 0;
}

// Seconds by the library's first choice and by the best of all; returns how many choices there are.
static int epilogue_best(const Epilogues *e, double *first, double *best) {
  CublasLtChoice choice[EPILOGUE_CHOICES];
  const int count = epilogue_choices(e, choice);
  int fastest = -1;
  *first = *best = -1;
  for (int i = 0; i < count; i++) {
    double least = epilogue_time(e, &choice[i].algorithm, 1);  // loads the kernel
    for (int round = 0; least >= 0 && round < EPILOGUE_ROUNDS; round++) {
      const double seconds = epilogue_time(e, &choice[i].algorithm, EPILOGUE_LAUNCHES);
      least = round == 0 || seconds < least ? seconds : least;
    }
    *first = i == 0 ? least : *first;
    if (least >= 0 && (fastest < 0 || least < *best)) {
      *best = least;
      fastest = i;
    }
  }
  if (fastest >= 0) {
    *best = epilogue_time(e, &choice[fastest].algorithm, EPILOGUE_LAST_LAUNCHES);
  }
  return count;
}

static void epilogue_case(Epilogues *e, const EpilogueCase *c, double *plain) {
  double first, best;
  epilogue_describe(e, c);
  const int count = epilogue_best(e, &first, &best);
  *plain = c->epilogue == CUBLASLT_EPILOGUE_PLAIN ? best : *plain;
  const double elements = (double)c->m * (double)(c->matrices < 0 ? c->k : c->n);
  const double kernel = elements * 2 * abs(c->matrices) / EPILOGUE_COPY;
  printf("%-29s m %6lld n %5lld k %6lld %c%c %-4s %-27s", c->name, (long long)c->m, (long long)c->n, (long long)c->k,
         c->transpose_a ? 't' : 'n', c->transpose_b ? 't' : 'n', c->wide ? "f32" : "bf16", epilogue_name(c->epilogue));
  if (best < 0) {
    printf(" no algorithm of %d runs\n", count);
  } else {
    printf(" %7.1f us (%7.1f first) of %2d, %4.0f TFLOP/s", best * 1e6, first * 1e6, count,
           2e-12 * (double)c->m * (double)c->n * (double)c->k / best);
    if (c->epilogue != CUBLASLT_EPILOGUE_PLAIN) {
      printf(", %+6.1f us; a kernel: %5.1f us", (best - *plain) * 1e6, kernel * 1e6);
    }
    printf("\n");
  }
  e->lt.layout_destroy(e->layout_a);
  e->lt.layout_destroy(e->layout_b);
  e->lt.layout_destroy(e->layout_d);
  e->lt.product_destroy(e->product);
}

// One line for each product and epilogue.
static void epilogues_print(const Cuda *cuda, CudaStream stream, CudaEvent begin, CudaEvent end) {
  Epilogues e = {.cuda = cuda, .stream = stream, .begin = begin, .end = end};
  Error error;
  double plain = 0;
  if (!cublaslt_open(&e.lt, &error)) {
    epilogue_fail("cuBLASLt", error.text);
  }
  epilogue_check(&e, e.lt.create(&e.handle), "starting cuBLASLt");
  e.a = epilogue_operand(&e, EPILOGUE_OPERAND);
  e.b = epilogue_operand(&e, EPILOGUE_OPERAND);
  e.d = epilogue_operand(&e, EPILOGUE_OPERAND);
  e.aux = epilogue_operand(&e, EPILOGUE_OPERAND);
  e.bias = epilogue_operand(&e, 1 << 20);
  e.workspace = epilogue_operand(&e, EPILOGUE_WORKSPACE);
  for (size_t i = 0; i < sizeof epilogue_cases / sizeof *epilogue_cases; i++) {
    epilogue_case(&e, &epilogue_cases[i], &plain);
    fflush(stdout);
  }
  const CudaAddress made[] = {e.a, e.b, e.d, e.aux, e.bias, e.workspace};
  for (size_t i = 0; i < sizeof made / sizeof *made; i++) {
    cuda->memory_free(made[i]);
  }
  e.lt.destroy(e.handle);
  cublaslt_close(&e.lt);
}

#endif
