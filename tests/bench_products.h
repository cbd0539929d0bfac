// bench_products.h: matrix products of a Llama 8B, 8192 tokens, as the backend makes them: in bf16 and in 8 bits.
//
// Of each weight [n, k]: the forward, the gradient of its input, and its own gradient, which is added to f32. In bf16
// operands lie as the forward has them; in 8 bits all have the axis last that is summed over, and the forward is summed
// fast. The backend's choice of algorithm is timed first; then each product runs until the chip is as warm as in a
// step.
#ifndef MDL_TESTS_BENCH_PRODUCTS_H
#define MDL_TESTS_BENCH_PRODUCTS_H

#include <stdio.h>
#include <stdlib.h>

#include "runtime/cuda/gemm.h"

enum { PRODUCTS_TOKENS = 8192, PRODUCTS_BLOCK = 1 << 23, PRODUCTS_TYPES = 3 };
static const size_t PRODUCTS_OPERAND = (size_t)512 << 20;  // bytes: the largest is 28672 x 8192 of bf16, or 4096 of f32
static const double PRODUCTS_SECONDS = 0.5;

typedef struct {
  const char *name;
  int64_t n, k;
} ProductsWeight;

static const ProductsWeight products_weights[] = {
    {"query, key, value", 6144, 4096}, {"attention out", 4096, 4096}, {"gate, up", 28672, 4096}, {"down", 4096, 14336}};

typedef enum { PRODUCT_FORWARD, PRODUCT_INPUT, PRODUCT_WEIGHT, PRODUCT_WAYS } ProductWay;
static const char *const product_ways[PRODUCT_WAYS] = {"forward", "gradient of input", "gradient of weight"};

typedef struct {
  const Cuda *cuda;
  CudaStream stream;
  CudaEvent begin, end;
  Arena *arena;
  Gemms *gemms;
  CudaAddress operand[PRODUCTS_TYPES], c, scale, workspace;
} Products;

static const ElementType products_types[PRODUCTS_TYPES] = {TYPE_BF16, TYPE_E4M3, TYPE_E5M2};

static void products_check(bool good, const Error *error) {
  if (!good) {
    fprintf(stderr, "bench_cuda: %s\n", error->text);
    exit(1);
  }
}

static void products_cuda(const Products *p, CudaStatus status, const char *what) {
  Error error;
  products_check(cuda_check(p->cuda, status, what, &error), &error);
}

// Numbers of both signs and sizes around 1: a product of zeros draws less power and is faster.
static void products_fill(unsigned char *block, ElementType type) {
  uint32_t state = 12345;
  for (int i = 0; i < PRODUCTS_BLOCK; i++) {
    state = state * 1664525u + 1013904223u;
    const uint32_t sign = state >> 31 << 7, more = state >> 8;
    const bool low = type == TYPE_BF16 && i % 2 == 0;
    block[i] = (unsigned char)(low                 ? more & 0xffu
                               : type == TYPE_BF16 ? sign | (0x3eu + (more & 1u))
                               : type == TYPE_E4M3 ? sign | (0x28u + (more & 0x1fu))
                                                   : sign | (0x34u + (more & 0xfu)));
  }
}

static CudaAddress products_operand(const Products *p, ElementType type) {
  unsigned char *block = malloc(PRODUCTS_BLOCK);
  CudaAddress made = 0;
  if (!block) {
    fprintf(stderr, "bench_cuda: no memory\n");
    exit(3);
  }
  products_fill(block, type);
  products_cuda(p, p->cuda->memory_allocate(&made, PRODUCTS_OPERAND), "allocating");
  for (size_t at = 0; at < PRODUCTS_OPERAND; at += PRODUCTS_BLOCK) {
    products_cuda(p, p->cuda->copy_in(made + at, block, PRODUCTS_BLOCK, p->stream), "filling");
    products_cuda(p, p->cuda->stream_synchronize(p->stream), "filling");
  }
  free(block);
  return made;
}

static Gemm products_gemm(const ProductsWeight *weight, ProductWay way, bool eight) {
  static const ElementType types[PRODUCT_WAYS][2] = {
      {TYPE_E4M3, TYPE_E4M3}, {TYPE_E5M2, TYPE_E4M3}, {TYPE_E5M2, TYPE_E4M3}};
  const int64_t t = PRODUCTS_TOKENS;
  const int64_t sizes[PRODUCT_WAYS][3] = {
      {t, weight->n, weight->k}, {t, weight->k, weight->n}, {weight->n, weight->k, t}};
  const bool own = way == PRODUCT_WEIGHT;
  Gemm g = {.type = eight ? types[way][0] : TYPE_BF16,
            .type_b = eight ? types[way][1] : TYPE_BF16,
            .type_c = own ? TYPE_F32 : TYPE_BF16,
            .fast = eight && way == PRODUCT_FORWARD,
            .transpose_a = !eight && own,
            .transpose_b = eight || way == PRODUCT_FORWARD,
            .write = own ? WRITE_ADD : WRITE_STORE};
  g.m = sizes[way][0];
  g.n = g.ldc = sizes[way][1];
  g.k = sizes[way][2];
  g.lda = g.transpose_a ? g.m : g.k;
  g.ldb = g.transpose_b ? g.k : g.n;
  return g;
}

static CudaAddress products_of(const Products *p, ElementType type) {
  int at = 0;
  while (products_types[at] != type) {
    at++;
  }
  return p->operand[at];
}

// Seconds of one product of many in a row.
static double products_time(const Products *p, const Gemm *g) {
  const int alignment[GEMM_OPERANDS] = {16, 16, 16, 16};
  const CudaAddress operands[GEMM_ADDRESSES] = {
      products_of(p, g->type), products_of(p, g->type_b), p->c, p->c, p->scale, p->scale};
  GemmProblem *problem = NULL;
  Error error;
  float milliseconds = 0;
  products_check(gemm_prepare(p->gemms, g, alignment, "a product", &problem, &error) &&
                     gemm_tune(p->gemms, problem, operands, p->workspace, p->stream, &error),
                 &error);
  int launches = 4;
  for (int round = 0; round < 2; round++) {
    products_cuda(p, p->cuda->event_record(p->begin, p->stream), "timing");
    for (int i = 0; i < launches; i++) {
      products_check(gemm_launch(p->gemms, problem, operands, false, p->workspace, p->stream, &error), &error);
    }
    products_cuda(p, p->cuda->event_record(p->end, p->stream), "timing");
    products_cuda(p, p->cuda->event_synchronize(p->end), "timing");
    products_cuda(p, p->cuda->event_elapsed(&milliseconds, p->begin, p->end), "timing");
    if (round == 0) {
      launches = 1 + (int)(PRODUCTS_SECONDS * 1e3 * launches / (double)milliseconds);
    }
  }
  return (double)milliseconds / 1e3 / launches;
}

static void products_row(const Products *p, const ProductsWeight *weight, ProductWay way) {
  const Gemm half = products_gemm(weight, way, false), eight = products_gemm(weight, way, true);
  const double flops = 2 * (double)half.m * (double)half.n * (double)half.k;
  const double seconds = products_time(p, &half), faster = products_time(p, &eight);
  printf("%-18s %-18s m %5lld n %5lld k %5lld  bf16 %7.1f us %4.0f TFLOP/s  8 bits %7.1f us %4.0f TFLOP/s  %.2f\n",
         weight->name, product_ways[way], (long long)half.m, (long long)half.n, (long long)half.k, seconds * 1e6,
         flops / seconds * 1e-12, faster * 1e6, flops / faster * 1e-12, seconds / faster);
}

// One line for each product.
static void products_print(const Cuda *cuda, const CudaDevice *gpu, CudaStream stream, CudaEvent begin, CudaEvent end) {
  Products p = {.cuda = cuda, .stream = stream, .begin = begin, .end = end, .arena = arena_create()};
  const float scale = 0.01f;
  Error error;
  products_check(gemms_create(cuda, gpu, NULL, p.arena, &p.gemms, &error), &error);
  for (int i = 0; i < PRODUCTS_TYPES; i++) {
    p.operand[i] = products_operand(&p, products_types[i]);
  }
  products_cuda(&p, cuda->memory_allocate(&p.c, PRODUCTS_OPERAND), "allocating");
  products_cuda(&p, cuda->fill_bytes(p.c, 0, PRODUCTS_OPERAND, stream), "filling");
  products_cuda(&p, cuda->memory_allocate(&p.workspace, (size_t)gemms_workspace(p.gemms)), "allocating");
  products_cuda(&p, cuda->memory_allocate(&p.scale, sizeof scale), "allocating");
  products_cuda(&p, cuda->copy_in(p.scale, &scale, sizeof scale, stream), "filling");
  products_cuda(&p, cuda->stream_synchronize(stream), "filling");
  for (size_t w = 0; w < sizeof products_weights / sizeof *products_weights; w++) {
    for (int way = 0; way < PRODUCT_WAYS; way++) {
      products_row(&p, &products_weights[w], (ProductWay)way);
    }
  }
  const CudaAddress all[] = {p.operand[0], p.operand[1], p.operand[2], p.c, p.workspace, p.scale};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    cuda->memory_free(all[i]);
  }
  gemms_destroy(p.gemms);
  arena_destroy(p.arena);
}

#endif
