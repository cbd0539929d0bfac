// cuda_attention_test.c: attention as CUDA C: texts compile everywhere; on a GPU, the results of the CPU kernels.
#include "kernels/cuda/attention.h"

#include "kernels/cpu/attention.h"
#include "tests/cuda_support.h"
#include "tests/effort.h"
#include "tests/score_sample.h"

enum { Q, K, V, O, D_O, DQ, DK, DV, TENSORS };

typedef struct {
  ElementType type;
  int64_t batch, queries, keys, heads, groups, depth, value_depth;
  bool causal;
  int parts;
  int64_t origin[2], gap;  // gap: elements between lines
  double scale;            // 0: 1 / sqrt(depth)
  bool biased;
  int64_t window;  // 0: scores are those of `scale`, else of score_sample.h: odd, only masks; less: masks of -1e30
} Shape;

static bool is_key_side(int tensor) {
  return tensor == K || tensor == V || tensor == DK || tensor == DV;
}

static bool is_value(int tensor) {
  return tensor == V || tensor == O || tensor == D_O || tensor == DV;
}

static int64_t line_of(const Shape *s, int tensor) {
  return (is_value(tensor) ? s->value_depth : s->depth) + s->gap;
}

static int64_t elements_of(const Shape *s, int tensor) {
  return s->batch * s->heads * (is_key_side(tensor) ? s->keys : s->queries * s->groups) * line_of(s, tensor);
}

// Positions before heads, in every other tensor heads before positions.
static Attention attention_of(const Shape *s, ElementType type) {
  Attention a = {.type = type,
                 .causal = s->causal,
                 .biased = s->biased,
                 .window = s->window > 0 ? s->window : 0,
                 .large = s->window < 0,
                 .score = s->window != 0,
                 .score_gradient = s->window != 0 ? 2 : 0,
                 .scale = s->window       ? 1
                          : s->scale != 0 ? s->scale
                                          : 1 / sqrt((double)s->depth),
                 .parts = s->parts,
                 .origin = {s->origin[0], s->origin[1]},
                 .batch = s->batch,
                 .queries = s->queries,
                 .keys = s->keys,
                 .heads = s->heads,
                 .groups = s->groups,
                 .depth = s->depth,
                 .value_depth = s->value_depth};
  int64_t *const strides[TENSORS] = {a.stride_q,  a.stride_k,  a.stride_v,  a.stride_o,
                                     a.stride_do, a.stride_dq, a.stride_dk, a.stride_dv};
  for (int t = 0; t < TENSORS; t++) {
    const bool key = is_key_side(t), head_major = s->gap > 0 && t % 2;
    const int64_t line = line_of(s, t), positions = key ? s->keys : s->queries, groups = key ? 1 : s->groups;
    int64_t *stride = strides[t];
    const int64_t group = head_major ? line * positions : line;
    stride[2] = group * groups;
    stride[1] = head_major ? line : stride[2] * s->heads;
    stride[0] = positions * s->heads * groups * line;
    if (!key) {
      stride[3] = group;
    }
  }
  return a;
}

static int64_t statistics_of(const Shape *s) {
  return s->batch * s->heads * s->groups * s->queries;
}

typedef struct {
  void *tensor[TENSORS], *statistics, *lost, *slopes;
  void *captured[SAMPLE_PORTS - SCORE_CAPTURED];  // of scores
} Values;

static const double CAP = 1.5;

static AttentionScores scores_of(const Shape *s, ElementType type, bool gradient, Arena *arena) {
  const Attention a = attention_of(s, type);
  const ElementType real = type == TYPE_F64 ? TYPE_F64 : TYPE_F32;
  const bool masks = s->window % 2 == 1;
  const SampleScore score = {1 / sqrt((double)s->depth), masks ? 0 : CAP,          !masks, true,
                             llabs(s->window),           s->window < 0 ? -1e30 : 0};
  return s->window ? (AttentionScores){sample_make(arena, &a, real, &score, false),
                                       gradient ? sample_make(arena, &a, real, &score, true) : NULL}
                   : (AttentionScores){NULL, NULL};
}

static int64_t captured_bytes(const Shape *s, int port, ElementType real) {
  return port == SAMPLE_BIAS      ? s->heads * s->keys * element_type_bytes(real)
         : port == SAMPLE_QUERIES ? s->queries * 4
                                  : s->keys * 4;
}

// Biases, and documents of some length, of which the queries have those of their positions.
static void captured_make(const Shape *s, ElementType real, Values *values) {
  for (int p = SAMPLE_BIAS; p < SAMPLE_PORTS; p++) {
    void *memory = malloc((size_t)captured_bytes(s, p, real));
    const int64_t part = s->parts > 1 ? s->queries / s->parts : s->queries;
    for (int64_t i = 0; i < captured_bytes(s, p, real) / (p == SAMPLE_BIAS ? element_type_bytes(real) : 4); i++) {
      const int64_t position = p == SAMPLE_KEYS ? i : s->origin[i / part] + i % part;
      if (p == SAMPLE_BIAS) {
        element_set_at(real, memory, i, (double)(i * 7 % 11) / 11 - 0.5);
      } else {
        ((int *)memory)[i] = (int)(position / SAMPLE_DOCUMENT + (p == SAMPLE_QUERIES && position % 37 == 5));
      }
    }
    values->captured[p - SCORE_CAPTURED] = memory;
  }
}

static Values values_create(const Shape *s, ElementType type) {
  Values values;
  for (int t = 0; t < TENSORS; t++) {
    values.tensor[t] = malloc((size_t)(elements_of(s, t) * element_type_bytes(type)));
    memset(values.tensor[t], 0xff, (size_t)(elements_of(s, t) * element_type_bytes(type)));
  }
  values.statistics = calloc((size_t)statistics_of(s), sizeof(double));
  values.lost = calloc((size_t)statistics_of(s), sizeof(double));
  values.slopes = elements_slopes(s->heads * s->groups, type == TYPE_F64 ? TYPE_F64 : TYPE_F32);
  captured_make(s, type == TYPE_F64 ? TYPE_F64 : TYPE_F32, &values);
  return values;
}

static void values_destroy(Values *values) {
  for (int t = 0; t < TENSORS; t++) {
    free(values->tensor[t]);
  }
  free(values->statistics);
  free(values->lost);
  free(values->slopes);
  for (int p = 0; p < SAMPLE_PORTS - SCORE_CAPTURED; p++) {
    free(values->captured[p]);
  }
}

// Inputs of the same numbers in both formats, that of `low` being the rougher.
static void inputs_draw(const Shape *s, Values *low, Values *exact, ElementType type_exact) {
  CudaDraw draw = {77};
  for (int t = 0; t < TENSORS; t++) {
    for (int64_t i = 0; (t <= V || t == D_O) && i < elements_of(s, t); i++) {
      element_set_at(s->type, low->tensor[t], i, cuda_draw_real(&draw) * 1.5);
      element_set_at(type_exact, exact->tensor[t], i, element_at(s->type, low->tensor[t], i));
    }
  }
}

static void oracle(const Shape *s, ElementType type, Values *values) {
  const Attention a = attention_of(s, type);
  Pool *pool = pool_create(2);
  AttentionPorts ports = {.q = values->tensor[Q],
                          .k = values->tensor[K],
                          .v = values->tensor[V],
                          .o = values->tensor[O],
                          .statistics = values->statistics,
                          .lost = values->lost,
                          .d_o = values->tensor[D_O],
                          .dq = values->tensor[DQ],
                          .dk = values->tensor[DK],
                          .dv = values->tensor[DV],
                          .slopes = values->slopes,
                          .first = {s->origin[0], s->origin[1]}};
  Arena *arena = arena_create();
  const AttentionScores scores = scores_of(s, type, true, arena);
  char *scratch[2], *captured[SAMPLE_PORTS];
  for (int p = SCORE_CAPTURED; p < SAMPLE_PORTS; p++) {
    captured[p] = values->captured[p - SCORE_CAPTURED];
  }
  ports.score = scores.score;
  ports.score_gradient = scores.gradient;
  ports.captured = ports.captured_by_gradient = captured;
  for (int i = 0; i < 2; i++) {
    scratch[i] = aligned_alloc(64, (size_t)(attention_scratch_bytes(&a) + 127) / 64 * 64);
  }
  attention_run(&a, simd_select(), pool, &ports, scratch);
  attention_grad_run(&a, simd_select(), pool, &ports, scratch);
  free(scratch[0]);
  free(scratch[1]);
  pool_destroy(pool);
  arena_destroy(arena);
}

typedef struct {
  Arena *arena;
  CudaKernel kernel[2];
  GpuKernel loaded[2];
  CudaAddress tensor[TENSORS], statistics, lost, slopes, captured[SAMPLE_PORTS - SCORE_CAPTURED];
  uint64_t slots[2][32];
} Run;

static const AttentionScores no_scores;
static const CudaTarget ampere = {.multiprocessors = 108, .shared_bytes = 163 * 1024};  // sm_80
static const CudaTarget ada = {.multiprocessors = 128, .shared_bytes = 99 * 1024};      // sm_86 and sm_89

static const CudaTarget hopper = {.multiprocessors = 4, .shared_bytes = 227 * 1024, .warpgroups = true};  // sm_90a

static void kernels_make(const Shape *s, const CudaTarget *target, Arena *arena, CudaKernel kernel[2]) {
  const Attention a = attention_of(s, s->type);
  for (int gradient = 0; gradient < 2; gradient++) {
    const char *why = NULL;
    const AttentionScores scores = scores_of(s, s->type, gradient, arena);
    if (!cuda_attention(&a, gradient ? INSTRUCTION_ATTENTION_GRAD : INSTRUCTION_ATTENTION, 16, &scores, target, arena,
                        &kernel[gradient], &why)) {
      fail_msg("%s", why);
    }
  }
}

static void run_create(const Gpu *gpu, const Shape *s, const CudaTarget *target, const Values *values, Run *run) {
  *run = (Run){.arena = arena_create()};
  kernels_make(s, target, run->arena, run->kernel);
  for (int t = 0; t < TENSORS; t++) {
    const bool input = values && (t <= V || t == D_O);
    run->tensor[t] = gpu_memory(gpu, input ? values->tensor[t] : NULL, elements_of(s, t) * element_type_bytes(s->type));
  }
  run->statistics = gpu_memory(gpu, NULL, statistics_of(s) * (s->type == TYPE_F64 ? 8 : 4));
  run->lost = gpu_memory(gpu, NULL, statistics_of(s) * (s->type == TYPE_F64 ? 8 : 4));
  run->slopes = gpu_memory(gpu, values ? values->slopes : NULL, s->heads * s->groups * (s->type == TYPE_F64 ? 8 : 4));
  for (int p = SAMPLE_BIAS; p < SAMPLE_PORTS; p++) {
    const ElementType real = s->type == TYPE_F64 ? TYPE_F64 : TYPE_F32;
    run->captured[p - SCORE_CAPTURED] =
        gpu_memory(gpu, values ? values->captured[p - SCORE_CAPTURED] : NULL, captured_bytes(s, p, real));
  }
  for (int g = 0; g < 2; g++) {
    const CudaAddress *t = run->tensor;
    const uint64_t tensors[] = {t[Q], t[K], t[V], t[O], run->statistics, t[D_O], t[DQ], t[DK], t[DV]};
    int count = g ? 9 : 5;
    memcpy(run->slots[g], tensors, sizeof tensors);
    if (!g && s->window < 0) {
      run->slots[g][count++] = run->lost;
    }
    if (s->biased) {
      run->slots[g][count++] = run->slopes;
    }
    for (int i = 0; i < (s->window ? (g + 1) * (SAMPLE_PORTS - SCORE_CAPTURED) : 0); i++) {
      run->slots[g][count++] = run->captured[i % (SAMPLE_PORTS - SCORE_CAPTURED)];
    }
    run->slots[g][count] = (uint64_t)s->origin[0];
    run->slots[g][count + 1] = (uint64_t)s->origin[1];
    run->loaded[g] = gpu_load(gpu, "attention", &run->kernel[g]);
  }
}

static void run_destroy(const Gpu *gpu, Run *run) {
  for (int t = 0; t < TENSORS; t++) {
    gpu_free(gpu, run->tensor[t]);
  }
  gpu_free(gpu, run->statistics);
  gpu_free(gpu, run->lost);
  gpu_free(gpu, run->slopes);
  for (int p = 0; p < SAMPLE_PORTS - SCORE_CAPTURED; p++) {
    gpu_free(gpu, run->captured[p]);
  }
  gpu_unload(gpu, &run->loaded[0]);
  gpu_unload(gpu, &run->loaded[1]);
  arena_destroy(run->arena);
}

static double difference(const Shape *s, int tensor, const Values *got, const Values *expected, ElementType exact) {
  double worst = 0, scale = 1e-3;
  const int64_t line = line_of(s, tensor);
  for (int64_t i = 0; i < elements_of(s, tensor); i++) {
    if (i % line < line - s->gap) {
      const double right = element_at(exact, expected->tensor[tensor], i);
      const double error = fabs(element_at(s->type, got->tensor[tensor], i) - right);
      scale = fmax(scale, fabs(right));
      worst = error <= worst ? worst : isnan(error) ? INFINITY : error;
    }
  }
  return worst / scale;
}

static void compare(const Shape *s, const Values *got, const Values *expected, ElementType exact) {
  static const char *const names[] = {"q", "k", "v", "o", "do", "dq", "dk", "dv"};
  const double tolerance = s->type == TYPE_BF16  ? 1e-2
                           : s->type == TYPE_F16 ? 1.5e-3
                           : s->type == TYPE_F32 ? 1e-5
                                                 : 1e-11;
  const ElementType statistic = s->type == TYPE_F64 ? TYPE_F64 : TYPE_F32;
  for (int t = O; t < TENSORS; t++) {
    const double worst = t == D_O ? 0 : difference(s, t, got, expected, exact);
    if (worst > tolerance) {
      fail_msg("%s of %s batch %d queries %d keys %d heads %d x %d depth %d/%d causal %d parts %d differs by %g",
               names[t], element_type_name(s->type), (int)s->batch, (int)s->queries, (int)s->keys, (int)s->heads,
               (int)s->groups, (int)s->depth, (int)s->value_depth, s->causal, s->parts, worst);
    }
  }
  for (int64_t i = 0; i < statistics_of(s); i++) {
    const double right = element_at(exact, expected->statistics, i);
    const double made = element_at(statistic, got->statistics, i);
    if (!(made == right || fabs(made - right) <= 1e-5 * (1 + fabs(right)))) {
      fail_msg("statistic %d is %g, not %g", (int)i, element_at(statistic, got->statistics, i), right);
    }
    // Where nothing is large, each has lost its own.
    const double lost = element_at(statistic, got->lost, i), other = element_at(exact, expected->lost, i);
    if (s->window < 0 && fabs(right) > 1e5 && !(fabs(lost - other) <= 1e-4)) {
      fail_msg("statistic %d has lost %g, not %g", (int)i, lost, other);
    }
  }
}

static void gpu_case(const Gpu *gpu, const Shape *s, const CudaTarget *target) {
  const ElementType exact = s->type == TYPE_F64 ? TYPE_F64 : TYPE_F32;
  Values low = values_create(s, s->type), right = values_create(s, exact);
  Run run;
  inputs_draw(s, &low, &right, exact);
  oracle(s, exact, &right);
  run_create(gpu, s, target, &low, &run);
  for (int repeat = 0; repeat < (gpu->emulated ? 1 : 3); repeat++) {
    gpu_run(gpu, &run.loaded[0], run.slots[0], true);
    gpu_run(gpu, &run.loaded[1], run.slots[1], true);
    for (int t = O; t < TENSORS; t++) {
      const int64_t bytes = elements_of(s, t) * element_type_bytes(s->type);
      void *again = malloc((size_t)bytes);
      gpu_get(gpu, again, run.tensor[t], bytes);
      if (repeat > 0 && t != D_O) {
        assert_memory_equal(again, low.tensor[t], (size_t)bytes);  // the same bits each time
      }
      memcpy(low.tensor[t], again, (size_t)bytes);
      free(again);
    }
  }
  gpu_get(gpu, low.statistics, run.statistics, statistics_of(s) * (s->type == TYPE_F64 ? 8 : 4));
  gpu_get(gpu, low.lost, run.lost, statistics_of(s) * (s->type == TYPE_F64 ? 8 : 4));
  compare(s, &low, &right, exact);
  run_destroy(gpu, &run);
  values_destroy(&low);
  values_destroy(&right);
}

#define B16 TYPE_BF16
#define F16 TYPE_F16
// type, batch, queries, keys, heads, groups, depth, value depth, causal, parts, origins, gap, scale, biased
static const Shape shapes[] = {
    {B16, 2, 384, 384, 1, 2, 128, 128, true, 0, {0}, 0, 0, false, 0},
    {B16, 1, 1000, 1000, 1, 1, 64, 64, true, 0, {0}, 0, 0, false, 0},
    {B16, 1, 133, 200, 2, 1, 128, 128, false, 0, {0}, 8, 0, false, 0},
    {B16, 1, 256, 512, 1, 2, 128, 128, true, 2, {128, 320}, 0, 0, false, 0},
    {B16, 1, 150, 150, 1, 1, 256, 256, true, 0, {0}, 0, 0, false, 0},
    {B16, 1, 150, 170, 1, 2, 80, 80, true, 0, {0}, 0, 0, false, 0},
    {B16, 2, 100, 90, 1, 2, 40, 24, true, 0, {0}, 3, -0.3, false, 0},
    {B16, 1, 70, 70, 1, 1, 128, 64, false, 0, {0}, 0, 0, false, 0},
    {B16, 1, 4, 300, 2, 1, 8, 8, true, 0, {0}, 0, 0, false, 0},
    {TYPE_F32, 1, 200, 200, 1, 2, 64, 64, true, 0, {0}, 0, 0, false, 0},
    {TYPE_F32, 1, 200, 260, 1, 1, 128, 128, false, 0, {0}, 3, 0, false, 0},
    {TYPE_F32, 1, 128, 512, 1, 1, 20, 70, true, 2, {128, 320}, 0, -0.2, false, 0},
    {TYPE_F32, 1, 100, 100, 1, 1, 256, 200, true, 0, {0}, 0, 0, false, 0},
    {TYPE_F64, 1, 100, 90, 1, 2, 70, 64, true, 0, {0}, 0, 0, false, 0},
    {B16, 2, 300, 300, 2, 2, 64, 64, true, 0, {0}, 0, 0, true, 0},
    {B16, 1, 256, 512, 1, 2, 128, 128, true, 2, {128, 320}, 0, 0, true, 0},
    {TYPE_F32, 1, 150, 200, 2, 2, 80, 64, false, 0, {0}, 0, 0, true, 0},
    {TYPE_F64, 1, 100, 100, 1, 3, 40, 40, true, 0, {0}, 3, 0, true, 0},
};

// For where there is no GPU: tiles that begin and end everywhere, maxima that grow late, and little work.
static const Shape small[] = {
    {B16, 1, 140, 140, 1, 1, 64, 64, true, 0, {0}, 0, 1, false, 0},
    {B16, 1, 40, 70, 1, 1, 128, 112, false, 0, {0}, 8, 0, false, 0},
    {B16, 1, 60, 150, 1, 2, 24, 12, true, 2, {30, 100}, 3, -0.3, false, 0},
    {TYPE_F32, 1, 66, 140, 1, 2, 20, 70, true, 2, {33, 80}, 3, -0.2, false, 0},
    {B16, 1, 70, 90, 1, 2, 24, 12, true, 2, {30, 50}, 3, -0.3, true, 0},
    {F16, 1, 70, 90, 1, 2, 40, 24, true, 0, {20}, 0, 0, false, 0},
    {TYPE_F32, 1, 70, 70, 1, 2, 20, 12, true, 0, {0}, 0, 0, true, 0},
    {B16, 1, 140, 140, 1, 2, 24, 24, true, 0, {0}, 0, 0, false, 30},
    {B16, 1, 60, 150, 1, 1, 128, 128, true, 2, {30, 100}, 0, 0, false, 1000},
    {B16, 1, 140, 140, 1, 2, 24, 24, true, 0, {0}, 0, 0, false, 31},
    {TYPE_F32, 1, 140, 140, 1, 2, 20, 12, true, 0, {0}, 0, 0, false, 30},
    {TYPE_F32, 1, 140, 140, 1, 1, 20, 12, true, 0, {0}, 0, 0, false, 31},
    {TYPE_F64, 1, 40, 100, 2, 1, 20, 12, true, 0, {50}, 0, 0, false, 20},
    {B16, 1, 140, 140, 1, 2, 24, 24, false, 0, {0}, 0, 0, false, -30},
    {TYPE_F32, 1, 70, 140, 1, 1, 20, 12, false, 0, {40}, 0, 0, false, -20},
};

// For warpgroups: tiles that begin and end everywhere, several for each block, and depths that fill no tile.
static const Shape wide[] = {
    {B16, 1, 300, 300, 1, 2, 64, 64, true, 0, {0}, 0, 1, false, 0},
    {B16, 2, 140, 300, 1, 1, 128, 128, false, 0, {0}, 8, 0, false, 0},
    {B16, 1, 260, 520, 1, 2, 128, 128, true, 2, {130, 320}, 0, 0, false, 0},
    {B16, 1, 127, 127, 2, 1, 96, 96, true, 0, {0}, 0, 0, false, 0},
    {B16, 1, 130, 130, 1, 1, 192, 128, true, 0, {0}, 0, 0, false, 0},
    {B16, 1, 130, 170, 1, 1, 256, 256, true, 0, {0}, 0, 0, false, 0},
    {B16, 1, 150, 150, 2, 2, 64, 64, true, 0, {0}, 0, 0, true, 0},
    {B16, 1, 1, 1, 1, 1, 64, 64, true, 0, {0}, 0, 0, false, 0},
    {B16, 1, 300, 300, 1, 2, 64, 64, true, 0, {0}, 0, 0, false, 40},
    {B16, 2, 130, 200, 2, 1, 128, 128, true, 0, {0}, 0, 0, false, 1000},
    {B16, 1, 260, 520, 1, 2, 64, 64, true, 2, {130, 320}, 0, 0, false, 90},
    {B16, 2, 500, 500, 1, 2, 64, 64, true, 0, {0}, 0, 0, false, 1000},
    {B16, 1, 300, 300, 1, 2, 128, 128, true, 0, {0}, 0, 0, false, 171},
    {B16, 1, 300, 420, 1, 1, 256, 256, true, 0, {120}, 0, 0, false, 1000},
    {B16, 1, 129, 257, 1, 2, 192, 128, false, 0, {0}, 8, 0, false, 0},
    {B16, 1, 260, 520, 1, 1, 192, 128, true, 2, {130, 320}, 0, 0, false, 90},
    {B16, 1, 97, 140, 1, 2, 144, 144, true, 0, {43}, 0, 0, true, 0},
    {B16, 1, 90, 90, 1, 1, 72, 248, true, 0, {0}, 0, 0, false, 0},
    {B16, 1, 150, 300, 1, 1, 200, 136, true, 2, {75, 220}, 8, 0, false, 0},
    {B16, 2, 133, 133, 1, 2, 184, 168, true, 0, {0}, 0, 0, false, 60},
    {B16, 1, 200, 200, 1, 1, 256, 256, true, 0, {0}, 0, 0, true, 0},
    {F16, 1, 140, 300, 1, 2, 128, 128, true, 0, {160}, 0, 0, false, 0},
    {F16, 1, 130, 130, 1, 1, 192, 128, true, 0, {0}, 0, 0, false, 40},
    {F16, 1, 70, 130, 1, 1, 256, 256, false, 0, {0}, 0, 0, false, 0},
    {B16, 1, 140, 200, 1, 2, 64, 64, false, 0, {30}, 0, 0, false, -30},
    {B16, 1, 130, 140, 1, 1, 256, 256, false, 0, {0}, 0, 0, false, -30},
};

// Of shapes every other one is emulated. Sanitizers see what makes kernels, not what these do: then a ninth.
static bool left_out(const Gpu *gpu, size_t number) {
  return gpu->emulated && effort_leaves_out(number);
}

static void same_as_cpu(void **state) {
  Gpu gpu;
  (void)state;
  if (!gpu_open_any(&gpu)) {
    skip();
  }
  for (size_t i = 0; i < sizeof wide / sizeof *wide && (gpu.emulated || gpu.device.major == 9); i++) {
    if (!left_out(&gpu, i)) {
      gpu_case(&gpu, &wide[i], &hopper);
    }
  }
  for (size_t i = 0; i < sizeof small / sizeof *small; i++) {
    if (!left_out(&gpu, i)) {
      gpu_case(&gpu, &small[i], &ampere);
    }
  }
  gpu_case(&gpu, &small[1], &ada);
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes && !gpu.emulated; i++) {
    gpu_case(&gpu, &shapes[i], &ampere);
    gpu_case(&gpu, &shapes[i], &ada);
    if (gpu.device.major == 9) {
      gpu_case(&gpu, &shapes[i], &hopper);
    }
  }
  gpu_close(&gpu);
}

// The first keys are of documents that no query is of. What is in them is not read: it may be no number.
static void hidden_blocks_are_not_read(void **state) {
  enum { FIRST = 384 };
  static const Shape shape = {B16, 1, 140, 600, 1, 2, 64, 64, true, 1, {460}, 0, 0, false, 1000};
  Gpu gpu;
  Run run;
  (void)state;
  if (!gpu_open_any(&gpu) || (!gpu.emulated && gpu.device.major != 9)) {
    skip();
  }
  Values low = values_create(&shape, B16), right = values_create(&shape, TYPE_F32);
  inputs_draw(&shape, &low, &right, TYPE_F32);
  oracle(&shape, TYPE_F32, &right);
  for (int64_t i = 0; i < FIRST * line_of(&shape, K); i++) {
    element_set_at(B16, low.tensor[K], i, NAN);
    element_set_at(B16, low.tensor[V], i, NAN);
  }
  run_create(&gpu, &shape, &hopper, &low, &run);
  gpu_run(&gpu, &run.loaded[0], run.slots[0], true);
  gpu_run(&gpu, &run.loaded[1], run.slots[1], true);
  for (int t = O; t < TENSORS; t++) {
    gpu_get(&gpu, low.tensor[t], run.tensor[t], elements_of(&shape, t) * element_type_bytes(B16));
  }
  gpu_get(&gpu, low.statistics, run.statistics, statistics_of(&shape) * 4);
  compare(&shape, &low, &right, TYPE_F32);
  run_destroy(&gpu, &run);
  values_destroy(&low);
  values_destroy(&right);
  gpu_close(&gpu);
}

static void notices(const Gpu *gpu, const Shape *right, const Shape *wrong) {
  Run run;
  Values low = values_create(right, right->type), expected = values_create(right, TYPE_F32);
  inputs_draw(right, &low, &expected, TYPE_F32);
  oracle(right, TYPE_F32, &expected);
  run_create(gpu, wrong, &ampere, &low, &run);
  gpu_run(gpu, &run.loaded[0], run.slots[0], true);
  gpu_run(gpu, &run.loaded[1], run.slots[1], true);
  for (int t = O; t < TENSORS; t++) {
    gpu_get(gpu, low.tensor[t], run.tensor[t], elements_of(right, t) * element_type_bytes(right->type));
    assert_true(t == D_O || difference(right, t, &low, &expected, TYPE_F32) > 0.05);
  }
  run_destroy(gpu, &run);
  values_destroy(&low);
  values_destroy(&expected);
}

// A mask or biases left out must not pass.
static void notices_errors(void **state) {
  Shape unmasked = small[0], unbiased = small[4];
  Gpu gpu;
  (void)state;
  if (!gpu_open_any(&gpu)) {
    skip();
  }
  unmasked.causal = unbiased.biased = false;
  notices(&gpu, &small[0], &unmasked);
  notices(&gpu, &small[4], &unbiased);
  gpu_close(&gpu);
}

// Every kind of text; a few of them through the compiler, which takes its time.
static void texts_compile(void **state) {
  static const char *const both[] = {"sm_90a", "sm_80", NULL}, *const one[] = {"sm_90a", NULL};
  bool compiled = true;
  (void)state;
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    Arena *arena = arena_create();
    CudaKernel kernel[2];
    kernels_make(&shapes[i], &ada, arena, kernel);
    for (int g = 0; g < 2; g++) {
      for (int l = 0; l < kernel[g].launch_count; l++) {
        assert_true((int)kernel[g].launch[l].shared_bytes <= ada.shared_bytes);
      }
    }
    kernels_make(&shapes[i], &ampere, arena, kernel);
    for (int g = 0; g < 2; g++) {
      cuda_geometry_check(&kernel[g]);
      assert_int_equal(kernel[g].port_count, (g ? 11 : 7) + shapes[i].biased);
      assert_true((kernel[g].scratch_bytes > 0) == (g == 1));
      if (compiled && (i % 4 == 0 || (shapes[i].biased && shapes[i].type == B16 && !shapes[i].parts))) {
        compiled = cuda_texts_compile("attention", &kernel[g], i == 0 ? both : one);
      }
    }
    arena_destroy(arena);
  }
  if (!compiled) {
    skip();
  }
}

// Each type, and each way that consumers share the work, on warpgroups.
static void warpgroup_texts_compile(void **state) {
  static const char *const target[] = {"sm_90a", NULL};
  static const Shape texts[] = {
      {B16, 1, 300, 300, 1, 2, 128, 128, true, 0, {0}, 0, 0, false, 0},
      {F16, 1, 300, 300, 1, 2, 64, 64, true, 0, {0}, 0, 0, true, 0},
      {F16, 1, 300, 300, 1, 2, 192, 128, false, 0, {0}, 0, 0, false, 0},
      {F16, 1, 300, 300, 1, 2, 256, 256, true, 0, {0}, 0, 0, false, 40},
  };
  bool compiled = true;
  (void)state;
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    Arena *arena = arena_create();
    CudaKernel kernel[2];
    kernels_make(&texts[i], &hopper, arena, kernel);
    for (int g = 0; g < 2; g++) {
      assert_non_null(strstr(kernel[g].form, "warpgroups"));
      for (int l = 0; l < kernel[g].launch_count; l++) {
        assert_true((int)kernel[g].launch[l].shared_bytes <= hopper.shared_bytes);
      }
      compiled = compiled && cuda_texts_compile("attention", &kernel[g], target);
    }
    arena_destroy(arena);
  }
  if (!compiled) {
    skip();
  }
}

static void says_why_not(void **state) {
  Arena *arena = arena_create();
  CudaKernel kernel;
  const char *why = NULL;
  Shape deep = shapes[0], integers = shapes[0], uneven = shapes[0];
  (void)state;
  deep.depth = 264;
  integers.type = TYPE_INT;
  uneven.queries = 1001;
  uneven.parts = 2;
  const Shape *const wrong[] = {&deep, &integers, &uneven};
  for (int i = 0; i < 3; i++) {
    const Attention a = attention_of(wrong[i], wrong[i]->type);
    why = NULL;
    assert_false(cuda_attention(&a, INSTRUCTION_ATTENTION, 16, &no_scores, &ampere, arena, &kernel, &why));
    assert_non_null(why);
  }
  Attention ring[4];
  for (int i = 0; i < 4; i++) {
    ring[i] = attention_of(&shapes[0], shapes[0].type);
  }
  ring[0].more = true;
  ring[1].more_keys = true;
  ring[2].key_parts = 3;
  ring[3].keys = 383;
  ring[3].key_parts = 2;
  for (int i = 0; i < 8; i++) {
    why = NULL;
    assert_false(cuda_attention(&ring[i / 2], i % 2 ? INSTRUCTION_ATTENTION_GRAD : INSTRUCTION_ATTENTION, 16,
                                &no_scores, &ampere, arena, &kernel, &why));
    assert_non_null(strstr(why, "keys"));
  }
  const CudaTarget tiny = {.multiprocessors = 1, .shared_bytes = 40 * 1024};
  const Attention a = attention_of(&shapes[0], TYPE_BF16);
  why = NULL;
  assert_false(cuda_attention(&a, INSTRUCTION_ATTENTION_GRAD, 16, &no_scores, &tiny, arena, &kernel, &why));
  assert_non_null(why);
  arena_destroy(arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(texts_compile), cmocka_unit_test(warpgroup_texts_compile),    cmocka_unit_test(says_why_not),
      cmocka_unit_test(same_as_cpu),   cmocka_unit_test(hidden_blocks_are_not_read), cmocka_unit_test(notices_errors)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
