// cuda_ring_test.c: attention to one block of the keys that go round a ring, as CUDA C: every instruction that a ring
// makes, on a GPU or emulated, against the CPU's, which the layouts' tests trust.
//
// The numbers that stand for what other blocks have left, o, statistics, dq, dk and dv, are drawn. Without a GPU few
// placements of small blocks are run.
#include "kernels/cuda/attention.h"

#include "kernels/cpu/attention.h"
#include "tests/cuda_support.h"
#include "tests/effort.h"

enum {
  Q,
  K,
  V,
  OUT,
  O,
  D_O,
  DQ,
  DK,
  DV,
  STATISTICS,
  SLOPES,
  TENSORS
};  // OUT: written by the forward; O: what GRAD reads

typedef struct {
  ElementType type;
  bool wide;
  int64_t batch, queries, keys, heads, groups, depth, value_depth;  // of one rank
  bool causal;
  int zigzag;       // 1: the queries', 2: the keys'
  int64_t padding;  // of the positions of all
  int64_t gap;      // elements between lines
  double scale;     // 0: 1 / sqrt(depth)
  bool biased;
} Shape;

enum { RANKS = 3 };

typedef struct {
  int rank, owner;  // of the queries, of the keys
  bool more, more_keys;
} Placement;

static ElementType real_of(const Shape *s) {
  return s->type == TYPE_F64 ? TYPE_F64 : TYPE_F32;
}

static bool is_key_side(int tensor) {
  return tensor == K || tensor == V || tensor == DK || tensor == DV;
}

static ElementType type_of(const Shape *s, int tensor) {
  const bool made = tensor == OUT || tensor == DQ || tensor == DK || tensor == DV;
  return tensor >= STATISTICS || (made && s->wide) ? real_of(s) : s->type;
}

static int64_t line_of(const Shape *s, int tensor) {
  const bool value = tensor == V || tensor == OUT || tensor == O || tensor == D_O || tensor == DV;
  return tensor >= STATISTICS ? 1 : (value ? s->value_depth : s->depth) + s->gap;
}

static int64_t elements_of(const Shape *s, int tensor) {
  if (tensor == SLOPES) {
    return s->heads * s->groups;
  }
  return s->batch * s->heads * (is_key_side(tensor) ? s->keys : s->queries * s->groups) * line_of(s, tensor);
}

static int64_t bytes_of(const Shape *s, int tensor) {
  return elements_of(s, tensor) * element_type_bytes(type_of(s, tensor));
}

// Returns in how many parts the `count` positions of a rank lie.
static int origins_set(bool zigzag, int rank, int64_t count, int64_t *origin) {
  origin[0] = rank * (zigzag ? count / 2 : count);
  origin[1] = zigzag ? (2 * RANKS - 1 - rank) * (count / 2) : 0;
  return zigzag ? 2 : 1;
}

static Attention attention_of(const Shape *s, const Placement *at) {
  Attention a = {.type = s->type,
                 .wide = s->wide,
                 .causal = s->causal,
                 .more = at->more,
                 .more_keys = at->more_keys,
                 .biased = s->biased,
                 .scale = s->scale != 0 ? s->scale : 1 / sqrt((double)s->depth),
                 .ring = 1,
                 .ring_step = (at->rank + RANKS - at->owner) % RANKS,
                 .key_end = s->padding ? s->keys * RANKS - s->padding : 0,
                 .batch = s->batch,
                 .queries = s->queries,
                 .keys = s->keys,
                 .heads = s->heads,
                 .groups = s->groups,
                 .depth = s->depth,
                 .value_depth = s->value_depth};
  int64_t *const strides[STATISTICS] = {a.stride_q,  a.stride_k,  a.stride_v,  a.stride_o, a.stride_o,
                                        a.stride_do, a.stride_dq, a.stride_dk, a.stride_dv};
  for (int t = 0; t < STATISTICS; t++) {
    const bool key = is_key_side(t), head_major = s->gap > 0 && t % 2;
    const int64_t line = line_of(s, t), positions = key ? s->keys : s->queries, groups = key ? 1 : s->groups;
    const int64_t group = head_major ? line * positions : line;
    strides[t][2] = group * groups;
    strides[t][1] = head_major ? line : strides[t][2] * s->heads;
    strides[t][0] = positions * s->heads * groups * line;
    if (!key) {
      strides[t][3] = group;
    }
  }
  a.parts = origins_set(s->zigzag & 1, at->rank, s->queries, a.origin);
  a.key_parts = origins_set(s->zigzag & 2, at->owner, s->keys, a.key_origin);
  return a;
}

// --- one instruction ---

typedef struct {
  void *before[TENSORS], *cpu[TENSORS], *gpu[TENSORS];
} Values;

static void *tensor_copy(const Shape *s, int tensor, const void *from) {
  void *made = malloc((size_t)bytes_of(s, tensor));
  memcpy(made, from, (size_t)bytes_of(s, tensor));
  return made;
}

// What is read, and what is written: that of other blocks, or poison.
static void values_draw(const Shape *s, const Placement *at, bool gradient, Values *values) {
  CudaDraw draw = {77 + (uint64_t)(at->rank * 8 + at->owner)};
  for (int t = 0; t < TENSORS; t++) {
    const bool written = gradient ? t == DQ || t == DK || t == DV : t == OUT || t == STATISTICS;
    const bool added = gradient && t != DQ ? at->more_keys : at->more;
    values->before[t] = malloc((size_t)bytes_of(s, t));
    memset(values->before[t], 0xff, (size_t)bytes_of(s, t));
    for (int64_t i = 0; (!written || added) && i < elements_of(s, t); i++) {
      // Some queries have seen no key, and the sums of others are far from those of this block.
      const double x = cuda_draw_real(&draw), log_sum = i % 7 == 3 ? -INFINITY : 6 * x + 2;
      element_set_at(type_of(s, t), values->before[t], i, t == STATISTICS ? log_sum : 1.5 * x);
    }
  }
  free(values->before[SLOPES]);
  values->before[SLOPES] = elements_slopes(elements_of(s, SLOPES), real_of(s));
}

static char *line_at(const Shape *s, void *memory, int tensor, const int64_t *stride, int64_t line) {
  const int64_t head = line % s->heads, key = line / s->heads % s->keys, batch = line / s->heads / s->keys;
  return (char *)memory +
         (batch * stride[0] + key * stride[1] + head * stride[2]) * element_type_bytes(type_of(s, tensor));
}

// Whatever lies in the padding of keys and values is not read.
static void padding_spoil(const Shape *s, const Attention *a, Values *values) {
  for (int64_t line = 0; line < s->batch * s->heads * s->keys; line++) {
    const int64_t key = line / s->heads % s->keys, part = s->keys / a->key_parts;
    if (a->key_end && a->key_origin[key / part] + key % part >= a->key_end) {
      const size_t bytes = (size_t)element_type_bytes(s->type);
      memset(line_at(s, values->before[K], K, a->stride_k, line), 0xff, (size_t)s->depth * bytes);
      memset(line_at(s, values->before[V], V, a->stride_v, line), 0xff, (size_t)s->value_depth * bytes);
    }
  }
}

static void cpu_run(const Shape *s, const Attention *a, bool gradient, Values *values) {
  Pool *pool = pool_create(2);
  char *scratch[2];
  for (int t = 0; t < TENSORS; t++) {
    values->cpu[t] = tensor_copy(s, t, values->before[t]);
  }
  for (int i = 0; i < 2; i++) {
    scratch[i] = aligned_alloc(64, (size_t)(attention_scratch_bytes(a) + 127) / 64 * 64);
  }
  void *const *t = values->cpu;
  const AttentionPorts ports = {.q = t[Q],
                                .k = t[K],
                                .v = t[V],
                                .o = t[gradient ? O : OUT],
                                .statistics = t[STATISTICS],
                                .d_o = t[D_O],
                                .dq = t[DQ],
                                .dk = t[DK],
                                .dv = t[DV],
                                .slopes = t[SLOPES],
                                .first = {a->origin[0], a->origin[1]},
                                .key_first = {a->key_origin[0], a->key_origin[1]}};
  (gradient ? attention_grad_run : attention_run)(a, simd_select(), pool, &ports, scratch);
  free(scratch[0]);
  free(scratch[1]);
  pool_destroy(pool);
}

// A query that has seen no key has an o of 0.
static void unseen_clear(const Shape *s, const Attention *a, Values *values) {
  for (int64_t i = 0; i < elements_of(s, STATISTICS); i++) {
    const int64_t query = i % s->queries, group = i / s->queries % s->groups, head = i / s->queries / s->groups;
    const int64_t row = head / s->heads * a->stride_o[0] + query * a->stride_o[1] + head % s->heads * a->stride_o[2] +
                        group * a->stride_o[3];
    for (int64_t d = 0; d < s->value_depth && element_at(real_of(s), values->before[STATISTICS], i) == -INFINITY; d++) {
      element_set_at(type_of(s, OUT), values->before[OUT], row + d, 0);
    }
  }
}

// The statistics of this block. Of the queries that see nothing of it some have seen other keys, and some none.
static void statistics_make(const Shape *s, Attention a, Values *values) {
  const ElementType real = real_of(s);
  const int64_t bytes = element_type_bytes(real);
  a.more = false;
  cpu_run(s, &a, false, values);
  for (int64_t i = 0; i < elements_of(s, STATISTICS); i++) {
    const double made = element_at(real, (char *)values->cpu[STATISTICS] + i * bytes, 0);
    element_set_at(real, values->before[STATISTICS], i, made == -INFINITY && i % 5 != 2 ? 1 : made);
  }
  for (int t = 0; t < TENSORS; t++) {
    free(values->cpu[t]);
  }
}

static void slots_fill(const Attention *a, bool gradient, const CudaAddress *t, uint64_t *slots) {
  const uint64_t forward[] = {t[Q], t[K], t[V], t[OUT], t[STATISTICS]};
  const uint64_t backward[] = {t[Q], t[K], t[V], t[O], t[STATISTICS], t[D_O], t[DQ], t[DK], t[DV]};
  const uint64_t origins[] = {(uint64_t)a->origin[0], (uint64_t)a->origin[1], (uint64_t)a->key_origin[0],
                              (uint64_t)a->key_origin[1]};
  const int count = gradient ? 9 : 5;
  memcpy(slots, gradient ? backward : forward, gradient ? sizeof backward : sizeof forward);
  slots[count] = t[SLOPES];
  memcpy(slots + count + a->biased, origins, sizeof origins);
}

static void gpu_run_block(const Gpu *gpu, const Shape *s, const Attention *a, bool gradient, const GpuKernel *loaded,
                          Values *values) {
  CudaAddress t[TENSORS];
  uint64_t slots[CUDA_MAX_SLOTS] = {0};
  for (int i = 0; i < TENSORS; i++) {
    t[i] = gpu_memory(gpu, values->before[i], bytes_of(s, i));
    values->gpu[i] = malloc((size_t)bytes_of(s, i));
  }
  slots_fill(a, gradient, t, slots);
  for (int repeat = 0; repeat < (gpu->emulated ? 1 : 3); repeat++) {
    for (int i = 0; i < TENSORS; i++) {
      gpu_set(gpu, t[i], values->before[i], bytes_of(s, i));
    }
    gpu_poison(gpu, loaded->scratch, loaded->kernel->scratch_bytes);
    gpu_run(gpu, loaded, slots, true);
    for (int i = 0; i < TENSORS; i++) {
      void *got = malloc((size_t)bytes_of(s, i));
      gpu_get(gpu, got, t[i], bytes_of(s, i));
      assert_true(repeat == 0 || memcmp(got, values->gpu[i], (size_t)bytes_of(s, i)) == 0);  // the same bits each time
      free(values->gpu[i]);
      values->gpu[i] = got;
    }
  }
  for (int i = 0; i < TENSORS; i++) {
    gpu_free(gpu, t[i]);
  }
}

// The largest difference, as a part of the largest value; 0 if the bits are the same, which those of gaps must be.
static double difference(const Shape *s, int tensor, const Values *values) {
  const ElementType type = type_of(s, tensor);
  const int64_t line = line_of(s, tensor), bytes = element_type_bytes(type), gap = tensor >= STATISTICS ? 0 : s->gap;
  double worst = 0, scale = 1e-3;
  for (int64_t i = 0; i < elements_of(s, tensor); i++) {
    const char *cpu = (const char *)values->cpu[tensor] + i * bytes, *got = (char *)values->gpu[tensor] + i * bytes;
    if (memcmp(cpu, got, (size_t)bytes) == 0) {
      scale = isfinite(element_at(type, cpu, 0)) ? fmax(scale, fabs(element_at(type, cpu, 0))) : scale;
      continue;
    }
    const double right = element_at(type, cpu, 0), error = fabs(element_at(type, got, 0) - right);
    scale = fmax(scale, fabs(right));
    worst = error <= worst && i % line < line - gap ? worst : isnan(error) || i % line >= line - gap ? INFINITY : error;
  }
  return worst / scale;
}

static bool unchanged(const Shape *s, int tensor, void *const *after, const Values *values) {
  return memcmp(after[tensor], values->before[tensor], (size_t)bytes_of(s, tensor)) == 0;
}

static void compare(const Shape *s, const Placement *at, bool gradient, const Values *values) {
  static const char *const names[] = {"q", "k", "v", "o", "o read", "do", "dq", "dk", "dv", "statistics", "slopes"};
  const double tolerance = s->type == TYPE_BF16 ? 1e-2 : s->type == TYPE_F32 ? 2e-5 : 1e-11;
  for (int t = 0; t < TENSORS; t++) {
    const double worst = difference(s, t, values);
    if (worst > (t >= STATISTICS && s->type == TYPE_BF16 ? 2e-5 : tolerance) ||
        (unchanged(s, t, values->cpu, values) && !unchanged(s, t, values->gpu, values))) {
      fail_msg(
          "%s of %s %s%s%s: queries %d keys %d heads %d x %d depth %d/%d padding %d, rank %d keys of %d%s%s: differs "
          "by %g",
          names[t], gradient ? "gradient" : "forward", element_type_name(s->type), s->causal ? ", causal" : "",
          s->zigzag ? ", zigzag" : "", (int)s->queries, (int)s->keys, (int)s->heads, (int)s->groups, (int)s->depth,
          (int)s->value_depth, (int)s->padding, at->rank, at->owner, at->more ? ", more" : "",
          at->more_keys ? ", more keys" : "", worst);
    }
  }
}

static void values_destroy(Values *values) {
  for (int t = 0; t < TENSORS; t++) {
    free(values->before[t]);
    free(values->cpu[t]);
    free(values->gpu[t]);
  }
}

// --- rings ---

static const AttentionScores no_scores;
static const CudaTarget ampere = {.multiprocessors = 108, .shared_bytes = 163 * 1024};                    // sm_80
static const CudaTarget hopper = {.multiprocessors = 4, .shared_bytes = 227 * 1024, .warpgroups = true};  // sm_90a
static const CudaTarget ada = {.multiprocessors = 128, .shared_bytes = 99 * 1024};  // sm_86 and sm_89

static void kernel_make(const Shape *s, const Placement *at, bool gradient, const CudaTarget *target, Arena *arena,
                        CudaKernel *kernel) {
  const Attention a = attention_of(s, at);
  const char *why = NULL;
  if (!cuda_attention(&a, gradient ? INSTRUCTION_ATTENTION_GRAD : INSTRUCTION_ATTENTION, 16, &no_scores, target, arena,
                      kernel, &why)) {
    fail_msg("%s", why);
  }
}

// shift: how far from where they are the GPU takes the keys to be.
static void block_run(const Gpu *gpu, const Shape *s, const Placement *at, bool gradient, const GpuKernel *loaded,
                      int64_t shift, Values *values) {
  Attention a = attention_of(s, at);
  values_draw(s, at, gradient, values);
  padding_spoil(s, &a, values);
  if (gradient) {
    statistics_make(s, a, values);
  } else if (at->more) {
    unseen_clear(s, &a, values);
  }
  cpu_run(s, &a, gradient, values);
  a.key_origin[0] += shift;
  a.key_origin[1] += shift;
  gpu_run_block(gpu, s, &a, gradient, loaded, values);
}

// The kernels of a block that is the first and, unless sums are rounded, of one that is not, on every pair of ranks.
static void ring_case(const Gpu *gpu, const Shape *s, const CudaTarget *target) {
  for (int i = 0; i < 4; i++) {
    const bool gradient = i / 2, later = i % 2;
    if (later && s->type == TYPE_BF16 && !s->wide) {
      continue;
    }
    Arena *arena = arena_create();
    CudaKernel kernel;
    kernel_make(s, &(Placement){.more = later, .more_keys = later && gradient}, gradient, target, arena, &kernel);
    const GpuKernel loaded = gpu_load(gpu, "attention", &kernel);
    for (int pair = 0; pair < RANKS * RANKS; pair++) {
      const Placement at = {pair / RANKS, pair % RANKS, later, later && gradient};
      Values values;
      block_run(gpu, s, &at, gradient, &loaded, 0, &values);
      compare(s, &at, gradient, &values);
      values_destroy(&values);
    }
    gpu_unload(gpu, &loaded);
    arena_destroy(arena);
  }
}

#define B16 TYPE_BF16
// type, wide, batch, queries, keys, heads, groups, depth, value depth, causal, zigzag, padding, gap, scale, biased
static const Shape shapes[] = {
    {B16, true, 1, 300, 300, 1, 2, 128, 128, true, 0, 0, 0, 0, false},
    {B16, true, 1, 256, 256, 2, 1, 64, 64, true, 3, 0, 0, 0, false},
    {B16, true, 2, 134, 134, 1, 2, 128, 128, true, 3, 0, 8, 0, false},
    {B16, true, 1, 160, 160, 1, 1, 256, 256, true, 3, 0, 0, 0, false},
    {B16, true, 1, 100, 170, 1, 2, 80, 80, false, 0, 40, 0, 0, false},
    {B16, true, 1, 150, 150, 1, 1, 40, 24, true, 3, 70, 3, -0.3, false},
    {B16, true, 2, 70, 70, 1, 1, 128, 64, true, 0, 90, 0, 0, false},
    {B16, true, 1, 4, 40, 2, 1, 8, 8, false, 3, 0, 0, 0, false},
    {B16, true, 1, 130, 130, 1, 1, 64, 64, true, 1, 0, 0, 0, false},
    {B16, true, 1, 130, 130, 1, 1, 64, 64, true, 2, 0, 0, 0, false},
    {TYPE_F32, false, 1, 200, 200, 1, 2, 64, 64, true, 3, 0, 0, 0, false},
    {TYPE_F32, false, 1, 90, 130, 1, 1, 128, 128, false, 3, 70, 3, 0, false},
    {TYPE_F32, false, 1, 101, 101, 2, 1, 20, 70, true, 0, 30, 0, -0.2, false},
    {TYPE_F32, false, 1, 100, 100, 1, 1, 256, 200, true, 3, 0, 0, 0, false},
    {TYPE_F64, false, 1, 90, 90, 1, 2, 70, 64, true, 3, 20, 0, 0, false},
    {B16, true, 1, 134, 134, 1, 2, 64, 64, true, 3, 0, 0, 0, true},
    {TYPE_F32, false, 1, 90, 130, 2, 2, 20, 70, false, 3, 70, 3, 0, true},
};

// For where there is no GPU: tiles that begin and end everywhere, and little work.
static const Shape small[] = {
    {B16, true, 1, 70, 70, 1, 1, 64, 64, true, 3, 0, 0, 1, false},
    {B16, true, 1, 40, 72, 1, 2, 24, 12, true, 3, 41, 3, -0.3, false},
    {B16, true, 1, 33, 33, 1, 1, 128, 128, true, 0, 40, 8, 0, false},
    {B16, true, 1, 34, 70, 1, 1, 256, 16, false, 2, 9, 0, 0, false},
    {B16, false, 1, 20, 20, 1, 1, 16, 16, true, 0, 0, 0, 0, false},  // a ring of one
    {TYPE_F32, false, 1, 66, 66, 1, 2, 20, 70, true, 3, 36, 3, -0.2, false},
    {TYPE_F64, false, 1, 30, 50, 1, 1, 8, 4, false, 0, 60, 0, 0, false},
    {B16, true, 1, 36, 36, 1, 1, 16, 16, true, 1, 0, 0, 0, false},
    {B16, true, 1, 36, 36, 1, 1, 16, 16, true, 2, 0, 0, 0, false},
    {B16, true, 1, 20, 36, 1, 2, 24, 12, true, 3, 21, 3, -0.3, true},
    {TYPE_F32, false, 1, 34, 34, 1, 2, 20, 12, true, 3, 0, 0, 0, true},
};

// For warpgroups: blocks that end within tiles, and both ways that consumers share the gradient.
static const Shape wide[] = {
    {B16, true, 1, 134, 134, 1, 2, 64, 64, true, 3, 0, 0, 0, false},
    {B16, true, 1, 70, 150, 1, 1, 128, 128, true, 0, 90, 8, 0, false},
    {B16, true, 1, 66, 166, 2, 1, 192, 128, true, 3, 0, 0, 0, true},
    {B16, true, 1, 140, 140, 1, 1, 256, 256, true, 3, 73, 0, 0, false},
    {B16, false, 1, 90, 90, 1, 1, 64, 64, true, 0, 0, 0, 0, false},
    {B16, true, 1, 40, 140, 1, 1, 64, 64, false, 2, 40, 0, 0, false},
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
      ring_case(&gpu, &wide[i], &hopper);
    }
  }
  for (size_t i = 0; i < sizeof small / sizeof *small; i++) {
    if (!left_out(&gpu, i)) {
      ring_case(&gpu, &small[i], &ampere);
    }
  }
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes && !gpu.emulated; i++) {
    ring_case(&gpu, &shapes[i], &ampere);
    if (shapes[i].type == B16) {  // of others the target makes no difference
      ring_case(&gpu, &shapes[i], &ada);
    }
    if (shapes[i].type == B16 && gpu.device.major == 9) {
      ring_case(&gpu, &shapes[i], &hopper);
    }
  }
  gpu_close(&gpu);
}

// What other blocks have left forgotten, padding seen, or keys at other positions must not pass.
static void notices_errors(void **state) {
  const Shape *right = &small[5];
  Gpu gpu;
  (void)state;
  if (!gpu_open_any(&gpu)) {
    skip();
  }
  for (int wrong = 0; wrong < 4; wrong++) {
    const bool gradient = wrong == 1 || wrong == 3;
    const Placement at = {0, 0, true, gradient};
    Placement made = at;
    Shape shape = *right;
    Arena *arena = arena_create();
    CudaKernel kernel;
    Values values;
    made.more = wrong != 0;
    made.more_keys = wrong == 3;
    shape.padding = wrong == 2 ? 0 : right->padding;
    kernel_make(&shape, &made, gradient, &ampere, arena, &kernel);
    const GpuKernel loaded = gpu_load(&gpu, "attention", &kernel);
    block_run(&gpu, right, &at, gradient, &loaded, wrong == 3 ? 20 : 0, &values);
    assert_true(difference(right, gradient ? DK : OUT, &values) > 0.05);
    values_destroy(&values);
    gpu_unload(&gpu, &loaded);
    arena_destroy(arena);
  }
  gpu_close(&gpu);
}

// A block that is seen as a whole (of a zigzag, by half), and one that is this rank's own.
static void bench(void **state) {
  static const Shape usual[] = {
      {B16, true, 2, 4096, 4096, 8, 4, 128, 128, true, 0, 0, 0, 0, false},
      {B16, true, 64, 1024, 1024, 12, 1, 64, 64, true, 0, 0, 0, 0, false},
      {B16, true, 2, 4096, 4096, 8, 4, 128, 128, true, 3, 0, 0, 0, false},
      {TYPE_F32, false, 8, 1024, 1024, 12, 1, 64, 64, true, 0, 0, 0, 0, false},
  };
  Gpu gpu;
  (void)state;
  if (!getenv("MDL_BENCH") || !gpu_open(&gpu)) {
    skip();
  }
  for (size_t i = 0; i < sizeof usual / sizeof *usual * 4; i++) {
    const Shape *s = &usual[i / 4];
    const bool gradient = i / 2 % 2, whole = i % 2;
    const Attention a = attention_of(s, &(Placement){2, whole ? 0 : 2, true, gradient});
    Arena *arena = arena_create();
    CudaKernel kernel;
    CudaAddress t[TENSORS];
    const char *why = NULL;
    assert_true(cuda_attention(&a, gradient ? INSTRUCTION_ATTENTION_GRAD : INSTRUCTION_ATTENTION, 16, &no_scores,
                               &ampere, arena, &kernel, &why));
    for (int n = 0; n < TENSORS; n++) {
      void *zeroes = calloc(1, (size_t)bytes_of(s, n));
      t[n] = gpu_memory(&gpu, zeroes, bytes_of(s, n));
      free(zeroes);
    }
    const GpuKernel loaded = gpu_load(&gpu, "attention", &kernel);
    uint64_t slots[CUDA_MAX_SLOTS] = {0};
    slots_fill(&a, gradient, t, slots);
    const double pairs =
        (double)(s->batch * s->heads * s->groups * s->queries * s->keys) * (whole && !s->zigzag ? 1 : 0.5);
    const double seconds = gpu_time(&gpu, &loaded, slots, 20);
    print_message("%s: B %d T %d heads %d/%d depth %d, keys of %s: %.1f us, %.1f TFLOP/s\n", kernel.form, (int)s->batch,
                  (int)s->queries, (int)(s->heads * s->groups), (int)s->heads, (int)s->depth,
                  whole ? "the first rank" : "this rank", seconds * 1e6,
                  (gradient ? 10 : 4) * pairs * (double)s->depth / seconds / 1e12);
    for (int n = 0; n < TENSORS; n++) {
      gpu_free(&gpu, t[n]);
    }
    gpu_unload(&gpu, &loaded);
    arena_destroy(arena);
  }
  gpu_close(&gpu);
}

// Every kind of text; a few of them through the compiler, which takes its time.
static void texts_compile(void **state) {
  static const char *const both[] = {"sm_90a", "sm_80", NULL}, *const one[] = {"sm_90a", NULL};
  bool compiled = true;
  (void)state;
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    for (int g = 0; g < 2; g++) {
      Arena *arena = arena_create();
      CudaKernel first, later;
      kernel_make(&shapes[i], &(Placement){0}, g, &ampere, arena, &first);
      kernel_make(&shapes[i], &(Placement){2, 1, true, g}, g, &ampere, arena, &later);
      cuda_geometry_check(&first);
      cuda_geometry_check(&later);
      assert_int_equal(later.port_count, (g ? 13 : 9) + shapes[i].biased);
      assert_true(first.bytes < later.bytes);
      if (compiled && (i % 4 == 1 || (shapes[i].biased && shapes[i].type == B16))) {
        compiled = cuda_texts_compile("attention", &later, i == 1 ? both : one);
      }
      arena_destroy(arena);
    }
  }
  for (size_t i = 0; i < 4; i++) {  // of `wide`: those whose consumers share the gradient each in its way
    Arena *arena = arena_create();
    CudaKernel later;
    kernel_make(&wide[2 + i / 2], &(Placement){2, 1, true, i % 2}, i % 2, &hopper, arena, &later);
    assert_non_null(strstr(later.form, "warpgroups"));
    compiled = compiled && cuda_texts_compile("attention", &later, one);
    arena_destroy(arena);
  }
  if (!compiled) {
    skip();
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(texts_compile), cmocka_unit_test(same_as_cpu),
                                     cmocka_unit_test(notices_errors), cmocka_unit_test(bench)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
