// cuda_captured_test.c: gradients of what scores capture, on a GPU or emulated: what the CPU kernels give.
#include "kernels/cuda/attention.h"

#include "kernels/cpu/attention.h"
#include "tests/cuda_support.h"
#include "tests/score_sample.h"

// The derivative of scores to their dot product serves as that to something captured: the kernels do not tell.
typedef struct {
  ElementType type;
  int64_t batch, queries, keys, heads, groups, depth, value_depth;
  int parts;
  int64_t origin[2], window;  // as in cuda_attention_test.c
  CapturedBy by;
  int shared;  // of pairs: 1 the batch, 2 heads, 4 groups
} Shape;

static const CudaTarget ampere = {.multiprocessors = 108, .shared_bytes = 163 * 1024};  // sm_80

enum { Q, K, V, O, D_O, TENSORS };

static bool of_keys(int tensor) {
  return tensor == K || tensor == V;
}

static int64_t depth_of(const Shape *s, int tensor) {
  return tensor == Q || tensor == K ? s->depth : s->value_depth;
}

static int64_t elements_of(const Shape *s, int tensor) {
  return s->batch * s->heads * (of_keys(tensor) ? s->keys : s->queries * s->groups) * depth_of(s, tensor);
}

static int64_t statistics_of(const Shape *s) {
  return s->batch * s->heads * s->groups * s->queries;
}

// Without gaps, in the order of the strides; returns how many elements.
static int64_t captured_strides(const Shape *s, int64_t stride[SCORE_DIMS]) {
  const int64_t size[] = {s->shared & 1 ? 1 : s->batch, s->shared & 2 ? 1 : s->heads, s->shared & 4 ? 1 : s->groups,
                          s->by == CAPTURED_BY_QUERY ? 1 : s->keys, s->by == CAPTURED_BY_KEY ? 1 : s->queries};
  int64_t all = 1;
  for (int i = SCORE_DIMS - 1; i >= 0; i--) {
    stride[i] = size[i] > 1 ? all : 0;
    all *= size[i];
  }
  return all;
}

static Attention attention_of(const Shape *s, ElementType type) {
  Attention a = {.type = type,
                 .causal = true,
                 .window = s->window,
                 .score = 1,
                 .score_gradient = 2,
                 .scale = 1,
                 .parts = s->parts,
                 .origin = {s->origin[0], s->origin[1]},
                 .by = s->by,
                 .batch = s->batch,
                 .queries = s->queries,
                 .keys = s->keys,
                 .heads = s->heads,
                 .groups = s->groups,
                 .depth = s->depth,
                 .value_depth = s->value_depth};
  int64_t *const strides[TENSORS] = {a.stride_q, a.stride_k, a.stride_v, a.stride_o, a.stride_do};
  for (int t = 0; t < TENSORS; t++) {
    const int64_t groups = of_keys(t) ? 1 : s->groups, line = depth_of(s, t);
    strides[t][2] = line * groups;
    strides[t][1] = line * groups * s->heads;
    strides[t][0] = strides[t][1] * (of_keys(t) ? s->keys : s->queries);
    if (!of_keys(t)) {
      strides[t][3] = line;
    }
  }
  captured_strides(s, a.stride_captured);
  return a;
}

static AttentionScores scores_of(const Shape *s, ElementType type, Arena *arena) {
  const Attention a = attention_of(s, type);
  const ElementType real = type == TYPE_F64 ? TYPE_F64 : TYPE_F32;
  const SampleScore score = {1 / sqrt((double)s->depth), 1.5, true, false, s->window, 0};
  return (AttentionScores){sample_make(arena, &a, real, &score, false), sample_make(arena, &a, real, &score, true)};
}

typedef struct {
  void *tensor[TENSORS], *statistics, *bias, *made;
} Values;

static Values values_create(const Shape *s, ElementType type) {
  const ElementType real = type == TYPE_F64 ? TYPE_F64 : TYPE_F32;
  const int64_t biases = s->heads * s->keys;
  int64_t stride[SCORE_DIMS];
  Values values;
  CudaDraw draw = {77};
  for (int t = 0; t < TENSORS; t++) {
    values.tensor[t] = calloc((size_t)elements_of(s, t), (size_t)element_type_bytes(type));
    for (int64_t i = 0; t != O && i < elements_of(s, t); i++) {
      uint16_t low;  // the same number in all types
      element_set_at(TYPE_BF16, &low, 0, cuda_draw_real(&draw) * 1.5);
      element_set_at(type, values.tensor[t], i, element_at(TYPE_BF16, &low, 0));
    }
  }
  values.statistics = calloc((size_t)statistics_of(s), sizeof(double));
  values.bias = calloc((size_t)biases, sizeof(double));
  for (int64_t i = 0; i < biases; i++) {
    element_set_at(real, values.bias, i, (double)(i * 7 % 11) / 11 - 0.5);
  }
  const int64_t made = captured_strides(s, stride);
  values.made = malloc((size_t)made * sizeof(double));
  memset(values.made, 0xff, (size_t)made * sizeof(double));
  return values;
}

static void values_destroy(Values *values) {
  for (int t = 0; t < TENSORS; t++) {
    free(values->tensor[t]);
  }
  free(values->statistics);
  free(values->bias);
  free(values->made);
}

static void oracle(const Shape *s, ElementType type, Values *values) {
  const Attention a = attention_of(s, type);
  Pool *pool = pool_create(2);
  Arena *arena = arena_create();
  const AttentionScores scores = scores_of(s, type, arena);
  char *captured[SAMPLE_PORTS] = {NULL}, *scratch[2];
  captured[SAMPLE_BIAS] = values->bias;
  const AttentionPorts ports = {.q = values->tensor[Q],
                                .k = values->tensor[K],
                                .v = values->tensor[V],
                                .o = values->tensor[O],
                                .statistics = values->statistics,
                                .d_o = values->tensor[D_O],
                                .d_captured = values->made,
                                .first = {s->origin[0], s->origin[1]},
                                .score = scores.score,
                                .score_gradient = scores.gradient,
                                .captured = captured,
                                .captured_by_gradient = captured};
  for (int i = 0; i < 2; i++) {
    scratch[i] = aligned_alloc(64, (size_t)(attention_scratch_bytes(&a) + 127) / 64 * 64);
  }
  attention_run(&a, simd_select(), pool, &ports, scratch);
  attention_captured_run(&a, simd_select(), pool, &ports, scratch);
  free(scratch[0]);
  free(scratch[1]);
  pool_destroy(pool);
  arena_destroy(arena);
}

static void make(const Shape *s, Arena *arena, CudaKernel *kernel) {
  const Attention a = attention_of(s, s->type);
  const AttentionScores scores = scores_of(s, s->type, arena);
  const char *why = NULL;
  if (!cuda_attention(&a, INSTRUCTION_ATTENTION_CAPTURED, 16, &scores, &ampere, arena, kernel, &why)) {
    fail_msg("%s", why);
  }
}

// q, k, v, o, statistics and d_o are the oracle's, in its type or rounded.
static void gpu_case(const Gpu *gpu, const Shape *s) {
  const ElementType exact = s->type == TYPE_F64 ? TYPE_F64 : TYPE_F32;
  const int64_t bytes = element_type_bytes(s->type), real = element_type_bytes(exact);
  Values right = values_create(s, exact), low = values_create(s, s->type);
  Arena *arena = arena_create();
  CudaKernel kernel;
  int64_t stride[SCORE_DIMS], made = captured_strides(s, stride);
  CudaAddress tensor[TENSORS];
  uint64_t slots[16];
  oracle(s, exact, &right);
  make(s, arena, &kernel);
  for (int t = 0; t < TENSORS; t++) {
    for (int64_t i = 0; i < elements_of(s, t); i++) {
      element_set_at(s->type, low.tensor[t], i, element_at(exact, right.tensor[t], i));
    }
    tensor[t] = gpu_memory(gpu, low.tensor[t], elements_of(s, t) * bytes);
  }
  const CudaAddress statistics = gpu_memory(gpu, right.statistics, statistics_of(s) * real);
  const CudaAddress bias = gpu_memory(gpu, right.bias, s->heads * s->keys * real);
  const CudaAddress out = gpu_memory(gpu, low.made, made * real);
  const uint64_t all[] = {tensor[Q],
                          tensor[K],
                          tensor[V],
                          tensor[O],
                          statistics,
                          tensor[D_O],
                          out,
                          bias,
                          bias,
                          bias,
                          bias,
                          bias,
                          bias,
                          (uint64_t)s->origin[0],
                          (uint64_t)s->origin[1]};  // documents are not read
  memcpy(slots, all, sizeof all);
  assert_int_equal(kernel.port_count, sizeof all / sizeof *all);
  GpuKernel loaded = gpu_load(gpu, "captured", &kernel);
  gpu_run(gpu, &loaded, slots, true);
  gpu_get(gpu, low.made, out, made * real);
  double worst = 0, scale = 1e-3;
  for (int64_t i = 0; i < made; i++) {
    const double expected = element_at(exact, right.made, i), error = fabs(element_at(exact, low.made, i) - expected);
    scale = fmax(scale, fabs(expected));
    worst = error <= worst ? worst : isnan(error) ? INFINITY : error;
  }
  const double tolerance = s->type == TYPE_BF16 ? 2e-2 : s->type == TYPE_F32 ? 2e-5 : 1e-11;
  if (!(worst <= tolerance * scale)) {
    fail_msg("%s by %d of %d x %d, %d x %d x %d, shared %d: differs by %g", element_type_name(s->type), s->by,
             (int)s->queries, (int)s->keys, (int)s->batch, (int)s->heads, (int)s->groups, s->shared, worst / scale);
  }
  gpu_unload(gpu, &loaded);
  for (int t = 0; t < TENSORS; t++) {
    gpu_free(gpu, tensor[t]);
  }
  gpu_free(gpu, statistics);
  gpu_free(gpu, bias);
  gpu_free(gpu, out);
  arena_destroy(arena);
  values_destroy(&low);
  values_destroy(&right);
}

#define B16 TYPE_BF16
#define F32 TYPE_F32
#define BY_QUERY CAPTURED_BY_QUERY
#define BY_KEY CAPTURED_BY_KEY
#define BY_PAIR CAPTURED_BY_PAIR
// type, batch, queries, keys, heads, groups, depth, value depth, parts, origins, window, by, shared
static const Shape shapes[] = {
    {B16, 1, 70, 140, 1, 2, 24, 16, 0, {70}, 60, BY_QUERY, 0},
    {B16, 1, 60, 150, 2, 1, 40, 40, 2, {30, 100}, 1000, BY_QUERY, 0},
    {B16, 1, 140, 140, 1, 2, 24, 16, 0, {0}, 50, BY_KEY, 0},
    {B16, 1, 60, 150, 1, 2, 64, 64, 2, {30, 120}, 1000, BY_KEY, 0},
    {B16, 2, 70, 90, 2, 1, 16, 24, 0, {20}, 40, BY_PAIR, 1},
    {B16, 2, 40, 60, 1, 2, 16, 16, 2, {10, 40}, 1000, BY_PAIR, 1 | 4},
    {F32, 2, 70, 140, 1, 2, 20, 12, 0, {70}, 60, BY_QUERY, 0},
    {F32, 1, 140, 140, 2, 2, 20, 12, 0, {0}, 50, BY_KEY, 0},
    {F32, 2, 70, 90, 2, 2, 20, 12, 0, {20}, 40, BY_PAIR, 1 | 2},
    {TYPE_F64, 2, 40, 60, 2, 2, 20, 12, 2, {10, 40}, 1000, BY_PAIR, 1 | 2 | 4},
    {TYPE_F64, 1, 40, 100, 2, 1, 20, 12, 0, {50}, 20, BY_KEY, 0},
};

// Larger ones, for GPUs.
static const Shape large[] = {
    {B16, 2, 1000, 1000, 2, 2, 128, 128, 0, {0}, 100000, BY_QUERY, 0},
    {B16, 2, 1000, 1000, 2, 2, 64, 64, 0, {0}, 300, BY_KEY, 0},
    {B16, 3, 700, 1000, 2, 2, 192, 128, 0, {300}, 100000, BY_PAIR, 1},
    {B16, 1, 500, 500, 1, 2, 256, 256, 0, {0}, 100000, BY_KEY, 0},
};

static void same_as_cpu(void **state) {
  Gpu gpu;
  (void)state;
  if (!gpu_open_any(&gpu)) {
    skip();
  }
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    gpu_case(&gpu, &shapes[i]);
  }
  for (size_t i = 0; i < sizeof large / sizeof *large && !gpu.emulated; i++) {
    gpu_case(&gpu, &large[i]);
  }
  gpu_close(&gpu);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(same_as_cpu)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
