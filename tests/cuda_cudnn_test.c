// cuda_cudnn_test.c: attention through cuDNN: what is refused, and results, captured and replayed, against f64.
//
// MDL_BENCH=1 prints times, workspaces and whether replays gave the same bits.
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/cpu/attention.h"
#include "runtime/cuda/cudnn_attention.h"
#include "tests/cuda_attention_rows.h"
#include "tests/elements.h"

enum { REPLAYS = 50 };

static const char h200[] =
    "{\"deviceName\": \"NVIDIA H200\", \"deviceVer\": 900, \"driverVer\": 13000, \"cudaDeviceId\": 0,"
    " \"totalGlobalMem\": 150000000000, \"multiProcessorCount\": 132, \"warpSize\": 32, \"regsPerBlock\": 65536,"
    " \"maxGridSize\": [2147483647, 65535, 65535], \"maxBlockSize\": [1024, 1024, 64], \"maxThreadsPerBlock\": 1024,"
    " \"maxSharedMemoryPerBlock\": 49152, \"maxSharedMemoryPerBlockOptin\": 232448,"
    " \"reservedSharedMemoryPerBlock\": 1024, \"maxRegistersPerSM\": 65536, \"maxCtasPerSM\": 32,"
    " \"maxThreadsPerSM\": 2048, \"pciDeviceId\": 0, \"isTccDriver\": 0, \"supportCoopLaunch\": 1,"
    " \"smClockRateKHz\": 1980000, \"memClockRateKHz\": 3201000, \"l2CacheSize\": 62914560}";

typedef struct {
  ElementType type;
  bool causal, fused;  // fused: q, k and v are columns of one matrix, as are their gradients
  int64_t batch, queries, keys, heads, groups, depth;
  bool biased;
} Case;

static const Case cases[] = {{TYPE_BF16, true, false, 1, 128, 128, 2, 1, 64, false},
                             {TYPE_BF16, true, true, 2, 256, 256, 2, 4, 128, false},
                             {TYPE_F16, true, false, 2, 200, 200, 3, 2, 64, false},
                             {TYPE_BF16, false, false, 2, 130, 130, 1, 2, 72, false},
                             {TYPE_F16, false, true, 1, 192, 192, 2, 2, 32, false},
                             {TYPE_BF16, false, false, 1, 128, 250, 2, 1, 128, false},
                             {TYPE_BF16, true, false, 1, 256, 256, 1, 2, 256, false},
                             {TYPE_BF16, true, true, 3, 255, 255, 2, 1, 128, false},
                             {TYPE_BF16, true, false, 2, 256, 256, 2, 2, 64, true},
                             {TYPE_F16, true, true, 1, 128, 128, 2, 1, 128, true},
                             {TYPE_BF16, true, false, 2, 4096, 4096, 8, 4, 128, true},
                             {TYPE_BF16, true, true, 16, 1024, 1024, 16, 1, 64, true},
                             {TYPE_BF16, true, false, 2, 4096, 4096, 8, 4, 128, false},
                             {TYPE_BF16, true, true, 2, 4096, 4096, 8, 4, 128, false},
                             {TYPE_BF16, true, false, 4, 1000, 1000, 25, 1, 64, false},
                             {TYPE_BF16, true, true, 16, 1024, 1024, 12, 1, 64, false},
                             {TYPE_BF16, true, true, 4, 4096, 4096, 8, 4, 64, false},
                             {TYPE_BF16, false, false, 2, 4096, 4096, 8, 4, 128, false},
                             {TYPE_F16, true, false, 2, 2048, 2048, 16, 1, 128, false},
                             {TYPE_BF16, true, false, 2, 2048, 2048, 8, 1, 256, false},
                             {TYPE_BF16, true, false, 1, 32768, 32768, 8, 4, 128, false}};

static void set3(int64_t *stride, int64_t batch, int64_t position, int64_t head) {
  stride[0] = batch;
  stride[1] = position;
  stride[2] = head;
}

static Attention attention_of(const Case *c) {
  Attention a = {.type = c->type,
                 .causal = c->causal,
                 .biased = c->biased,
                 .scale = 1 / sqrt((double)c->depth),
                 .batch = c->batch,
                 .queries = c->queries,
                 .keys = c->keys,
                 .heads = c->heads,
                 .groups = c->groups,
                 .depth = c->depth,
                 .value_depth = c->depth};
  const int64_t d = c->depth, wide = c->heads * c->groups * d, narrow = c->heads * d, all = wide + 2 * narrow;
  const int64_t q_row = c->fused ? all : wide, k_row = c->fused ? all : narrow;
  int64_t *const of_q[] = {a.stride_q, a.stride_dq}, *const of_o[] = {a.stride_o, a.stride_do};
  int64_t *const of_k[] = {a.stride_k, a.stride_v, a.stride_dk, a.stride_dv};
  for (int i = 0; i < 2; i++) {
    set3(of_q[i], c->queries * q_row, q_row, c->groups * d);
    set3(of_o[i], c->queries * wide, wide, c->groups * d);
    of_q[i][3] = of_o[i][3] = d;
  }
  for (int i = 0; i < 4; i++) {
    set3(of_k[i], c->keys * k_row, k_row, d);
  }
  return a;
}

// --- results ---

// The nine tensors, in the order of the slots. With `fused`, k and v lie behind q, and dk and dv behind dq.
typedef struct {
  int64_t bytes[CUDNN_SLOTS];  // of memory that a slot begins; 0: it lies within another's
  CudaAddress slots[CUDNN_SLOTS];
  char *host[CUDNN_SLOTS];  // what is there, beginning at the slot
} Tensors;

static void fill(uint16_t *x, int64_t count, ElementType type, uint64_t seed) {
  for (int64_t i = 0; i < count; i++) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    const float value = ((float)(seed >> 40) / 8388608.0f - 1.0f) * 1.7f;
    x[i] = type == TYPE_F16 ? f16_of_f32(value) : bf16_of_f32(value);
  }
}

typedef struct {
  RowsError o, dq, dk, dv;
  double statistic;
} Errors;

// All rows of small problems, some of large ones, the first and the last among them.
static Errors errors_of(const Attention *a, const Tensors *t, bool gradient) {
  const uint16_t *x[CUDNN_SLOTS];
  for (int i = 0; i < CUDNN_SLOTS; i++) {
    x[i] = (const uint16_t *)(const void *)t->host[i];
  }
  const Rows rows = {.a = a,
                     .slopes = (const float *)(const void *)t->host[CUDNN_SLOT_SLOPES],
                     .q = x[0],
                     .k = x[1],
                     .v = x[2],
                     .o = x[3],
                     .d_o = x[5],
                     .dq = gradient ? x[6] : NULL,
                     .dk = x[7],
                     .dv = x[8],
                     .statistics = (const float *)(const void *)t->host[4]};
  const bool small = a->keys <= 256;
  const int64_t step = small ? 1 : (a->keys - 1) / 5, heads = a->batch * a->heads, head_step = small ? 1 : heads - 1;
  Errors e = {0};
  for (int64_t n = 0; n < heads; n += head_step) {
    RowsHead h = {.batch = n / a->heads, .head = n % a->heads};
    for (h.group = 0; h.group < a->groups; h.group += small || a->groups == 1 ? 1 : a->groups - 1) {
      for (int64_t i = 0; i < a->queries; i += step) {
        rows_check_query(&rows, h, i, &e.o, &e.dq, &e.statistic);
      }
    }
    for (int64_t j = 0; gradient && j < a->keys; j += step) {
      rows_check_key(&rows, h, j, &e.dk, &e.dv);
    }
  }
  return e;
}

static bool expect(const Attention *a, const RowsError *error, const char *what) {
  if (rows_fine(a, error)) {
    return true;
  }
  print_message("%s, %lld keys, depth %lld: error %g, rounding alone %g, largest %g\n", what, (long long)a->keys,
                (long long)a->depth, error->got, error->rounded, error->size);
  return false;
}

// Whether all results are as their rows, and, for small problems, not as those of a slightly different problem.
static bool expect_all(const Attention *a, const Tensors *t, bool gradient, const Errors *e) {
  bool fine = expect(a, &e->o, "o");
  if (!(e->statistic <= 1e-3)) {
    print_message("%lld keys, depth %lld: a statistic is off by %g\n", (long long)a->keys, (long long)a->depth,
                  e->statistic);
    fine = false;
  }
  if (gradient) {
    fine = expect(a, &e->dq, "dq") && fine;
    fine = expect(a, &e->dk, "dk") && fine;
    fine = expect(a, &e->dv, "dv") && fine;
  }
  if (a->keys <= 256) {
    Attention other = *a;
    other.scale *= 1.1;
    const Errors wrong = errors_of(&other, t, gradient);
    assert_false(rows_fine(a, &wrong.o));
    assert_false(gradient && (rows_fine(a, &wrong.dq) || rows_fine(a, &wrong.dk) || rows_fine(a, &wrong.dv)));
    other = *a;
    other.biased = false;
    const Errors unbiased = errors_of(&other, t, gradient);
    assert_false(a->biased && (rows_fine(a, &unbiased.o) || (gradient && rows_fine(a, &unbiased.dk))));
  }
  return fine;
}

// --- without a GPU ---

static void refused(Cudnn *cudnn, const Attention *a, bool gradient, Arena *arena, const char *word) {
  CudnnAttention *out = NULL;
  const char *why = NULL;
  assert_false(cudnn_attention_prepare(cudnn, a, gradient, arena, &out, &why));
  if (!strstr(why, word)) {
    fail_msg("refused because %s, not because of %s", why, word);
  }
}

static void test_refusals(void **state) {
  (void)state;
  Cudnn *cudnn = NULL;
  Error error;
  if (!cudnn_create_described(h200, 90, true, &cudnn, &error)) {
    print_message("skipped: %s\n", error.text);
    skip();
  }
  Arena *arena = arena_create();
  const Attention good = attention_of(&cases[1]);
  Attention a = good;
  a.type = TYPE_F32;
  refused(cudnn, &a, false, arena, "f16 or bf16");
  a = good;
  a.value_depth = 64;
  refused(cudnn, &a, false, arena, "depth of the values");
  a = good;
  a.depth = a.value_depth = 100;
  refused(cudnn, &a, false, arena, "multiple of 8");
  a = good;
  a.parts = 2;
  refused(cudnn, &a, false, arena, "position 0");
  a.parts = 1;
  a.origin_term[0] = 1;
  refused(cudnn, &a, false, arena, "position 0");
  a = good;
  a.biased = true;
  a.causal = false;
  refused(cudnn, &a, false, arena, "without a causal mask");
  a = good;
  a.keys = 2 * a.queries;
  refused(cudnn, &a, false, arena, "another number of keys");
  a = good;
  a.stride_q[2] += 8;
  refused(cudnn, &a, false, arena, "strides");
  a = good;
  a.stride_k[1] += 1;
  refused(cudnn, &a, false, arena, "strides");
  a = good;
  a.v.offset = 8;
  refused(cudnn, &a, false, arena, "aligned");
  refused(cudnn, &good, true, arena, "not reproducible");
  cudnn_destroy(cudnn);
  arena_destroy(arena);
}

// Of the address sanitizer, where there is one: what is allocated between them may be lost.
void __lsan_disable(void) __attribute__((weak));
void __lsan_enable(void) __attribute__((weak));

// cuDNN unloads its compilers after use, and they leave memory behind.
static bool prepare(Cudnn *cudnn, const Attention *a, bool gradient, Arena *arena, CudnnAttention **out,
                    const char **why) {
  if (__lsan_disable) {
    __lsan_disable();
  }
  const bool made = cudnn_attention_prepare(cudnn, a, gradient, arena, out, why);
  if (__lsan_enable) {
    __lsan_enable();
  }
  return made;
}

// Every operation is accepted, and so is the graph of them; without a driver no plan can be made of it.
static void test_operations(void **state) {
  (void)state;
  Cudnn *cudnn = NULL;
  Error error;
  if (!cudnn_create_described(h200, 90, false, &cudnn, &error)) {
    print_message("skipped: %s\n", error.text);
    skip();
  }
  Arena *arena = arena_create();
  for (size_t i = 0; i < 10; i++) {
    const Attention a = attention_of(&cases[i]);
    for (int gradient = 0; gradient < 2; gradient++) {
      CudnnAttention *made = NULL, *again = NULL;
      const char *why = NULL;
      if (prepare(cudnn, &a, gradient, arena, &made, &why)) {
        assert_int_equal(cudnn_attention_workspace(made) % PLAN_ALIGN, 0);
        assert_true(prepare(cudnn, &a, gradient, arena, &again, &why));
        assert_ptr_equal(made, again);
      } else if (strstr(why, "describing") || strstr(why, "joining")) {
        fail_msg("case %zu: %s", i, why);
      }
    }
  }
  cudnn_destroy(cudnn);
  arena_destroy(arena);
}

static float *floats_of(const Attention *a, const uint16_t *x, int64_t count) {
  float *out = malloc((size_t)count * sizeof *out);
  assert_non_null(out);
  for (int64_t i = 0; i < count; i++) {
    out[i] = (float)rows_decode(a, x[i]);
  }
  return out;
}

// The rows that results are held against agree with attention in f32 on the CPU, and not with another problem.
static void check_rows(const Case *c) {
  const Attention a = attention_of(c);
  const int64_t of_q = a.batch * a.stride_q[0], of_k = a.batch * a.stride_k[0];
  const int64_t count[CUDNN_SLOT_SLOPES] = {of_q, of_k, of_k, of_q, a.batch * a.heads * a.groups * a.queries,
                                            of_q, of_q, of_k, of_k};
  uint16_t *half[CUDNN_SLOT_SLOPES];
  float *full[CUDNN_SLOT_SLOPES], *slopes = elements_slopes(a.heads * a.groups, TYPE_F32);
  for (int i = 0; i < CUDNN_SLOT_SLOPES; i++) {
    half[i] = calloc((size_t)count[i], sizeof **half);
    assert_non_null(half[i]);
    fill(half[i], count[i], a.type, (uint64_t)i + 1);
    full[i] = floats_of(&a, half[i], count[i]);
  }
  Attention same = a;
  same.type = TYPE_F32;
  char *at[CUDNN_SLOT_SLOPES];
  memcpy(at, full, sizeof at);
  const AttentionPorts ports = {.q = at[0],
                                .k = at[1],
                                .v = at[2],
                                .o = at[3],
                                .statistics = at[4],
                                .d_o = at[5],
                                .dq = at[6],
                                .dk = at[7],
                                .dv = at[8],
                                .slopes = (char *)slopes};
  char *scratch = malloc((size_t)attention_scratch_bytes(&same) + 64);
  Pool *pool = pool_create(1);
  assert_true(scratch && pool);
  attention_run(&same, simd_select(), pool, &ports, &scratch);
  attention_grad_run(&same, simd_select(), pool, &ports, &scratch);
  for (int i = CUDNN_SLOT_O; i < CUDNN_SLOT_SLOPES; i++) {
    for (int64_t j = 0; j < count[i]; j++) {
      half[i][j] = a.type == TYPE_F16 ? f16_of_f32(full[i][j]) : bf16_of_f32(full[i][j]);
    }
  }
  Tensors t = {.host[CUDNN_SLOT_SLOPES] = (char *)slopes};
  for (int i = 0; i < CUDNN_SLOT_SLOPES; i++) {
    t.host[i] = i == CUDNN_SLOT_STATISTICS ? (char *)full[i] : (char *)half[i];
  }
  const Errors e = errors_of(&a, &t, true);
  assert_true(expect_all(&a, &t, true, &e));
  pool_destroy(pool);
  free(scratch);
  free(slopes);
  for (int i = 0; i < CUDNN_SLOT_SLOPES; i++) {
    free(half[i]);
    free(full[i]);
  }
}

static void test_rows(void **state) {
  (void)state;
  check_rows(&cases[2]);
  check_rows(&cases[8]);
}

// --- on a GPU ---

typedef struct {
  Cuda cuda;
  CudaDevice device;
  Cudnn *cudnn;
  CudaStream stream;
  Arena *arena;
} Gpu;

static void check(Gpu *gpu, CudaStatus status) {
  Error error;
  if (!cuda_check(&gpu->cuda, status, "a call of the test", &error)) {
    fail_msg("%s", error.text);
  }
}

static bool gpu_open(Gpu *gpu, Error *error) {
  *gpu = (Gpu){0};
  return cuda_open(&gpu->cuda, error) && cuda_device_open(&gpu->cuda, 0, &gpu->device, error) &&
         cudnn_create(&gpu->cuda, &gpu->device, false, &gpu->cudnn, error);
}

static void gpu_close(Gpu *gpu) {
  cudnn_destroy(gpu->cudnn);
  cuda_device_close(&gpu->cuda, &gpu->device);
  cuda_close(&gpu->cuda);
}

static void within(Tensors *t, const Case *c, CudnnSlot q, CudnnSlot k, CudnnSlot v) {
  const int64_t wide = c->heads * c->groups * c->depth, narrow = c->heads * c->depth;
  t->slots[k] = t->slots[q] + (CudaAddress)(2 * wide);
  t->slots[v] = t->slots[k] + (CudaAddress)(2 * narrow);
  t->host[k] = t->host[q] + 2 * wide;
  t->host[v] = t->host[k] + 2 * narrow;
}

static Tensors tensors_make(Gpu *gpu, const Case *c, const Attention *a) {
  Tensors t = {0};
  const int64_t of_q = 2 * a->batch * a->stride_q[0], of_o = 2 * a->batch * a->stride_o[0];
  const int64_t of_k = c->fused ? 0 : 2 * a->batch * a->stride_k[0];
  const int64_t heads = a->heads * a->groups, rows = a->batch * heads * a->queries;
  const int64_t bytes[CUDNN_SLOTS] = {of_q, of_k, of_k, of_o, 4 * rows, of_o, of_q, of_k, of_k, 4 * heads};
  for (int i = 0; i < CUDNN_SLOTS; i++) {
    t.bytes[i] = bytes[i];
    if (bytes[i] == 0) {
      continue;
    }
    check(gpu, gpu->cuda.memory_allocate(&t.slots[i], (size_t)bytes[i]));
    t.host[i] = i == CUDNN_SLOT_SLOPES ? elements_slopes(heads, TYPE_F32) : malloc((size_t)bytes[i]);
    assert_non_null(t.host[i]);
    if (i == CUDNN_SLOT_SLOPES) {
      check(gpu, gpu->cuda.copy_in(t.slots[i], t.host[i], (size_t)bytes[i], gpu->stream));
    } else if (i < CUDNN_SLOT_O || i == CUDNN_SLOT_DO) {
      fill((uint16_t *)(void *)t.host[i], bytes[i] / 2, a->type, (uint64_t)i + 1);
      check(gpu, gpu->cuda.copy_in(t.slots[i], t.host[i], (size_t)bytes[i], gpu->stream));
    } else {
      check(gpu, gpu->cuda.fill_bytes(t.slots[i], 0xff, (size_t)bytes[i], gpu->stream));  // NaN
    }
  }
  if (c->fused) {
    within(&t, c, CUDNN_SLOT_Q, CUDNN_SLOT_K, CUDNN_SLOT_V);
    within(&t, c, CUDNN_SLOT_DQ, CUDNN_SLOT_DK, CUDNN_SLOT_DV);
  }
  check(gpu, gpu->cuda.stream_synchronize(gpu->stream));
  return t;
}

static bool is_output(int slot, bool gradient) {
  return gradient ? slot >= CUDNN_SLOT_DQ && slot <= CUDNN_SLOT_DV
                  : slot == CUDNN_SLOT_O || slot == CUDNN_SLOT_STATISTICS;
}

// Copies what a pass makes to the host; true if all of it is what was there before.
static bool tensors_read(Gpu *gpu, Tensors *t, bool gradient) {
  bool same = true;
  for (int i = 0; i < CUDNN_SLOTS; i++) {
    if (t->bytes[i] == 0 || !is_output(i, gradient)) {
      continue;
    }
    char *copy = malloc((size_t)t->bytes[i]);
    assert_non_null(copy);
    check(gpu, gpu->cuda.copy_out(copy, t->slots[i], (size_t)t->bytes[i], gpu->stream));
    check(gpu, gpu->cuda.stream_synchronize(gpu->stream));
    same = same && memcmp(copy, t->host[i], (size_t)t->bytes[i]) == 0;
    memcpy(t->host[i], copy, (size_t)t->bytes[i]);
    free(copy);
  }
  return same;
}

static void tensors_free(Gpu *gpu, Tensors *t) {
  for (int i = 0; i < CUDNN_SLOTS; i++) {
    if (t->bytes[i] > 0) {
      check(gpu, gpu->cuda.memory_free(t->slots[i]));
      free(t->host[i]);
    }
  }
}

// Captures one launch, replays it and times it: milliseconds of one; `same`: the first and the last gave equal bits.
static float replay(Gpu *gpu, const CudnnAttention *plan, Tensors *t, bool gradient, bool *same) {
  const Cuda *cuda = &gpu->cuda;
  const size_t bytes = (size_t)cudnn_attention_workspace(plan);
  CudaAddress workspace = 0;
  CudaGraph graph;
  CudaGraphExec exec;
  CudaEvent begin, end;
  Error error;
  float milliseconds = 0;
  check(gpu, cuda->memory_allocate(&workspace, bytes + PLAN_ALIGN));
  check(gpu, cuda->fill_bytes(workspace, 0xff, bytes + PLAN_ALIGN, gpu->stream));
  check(gpu, cuda->event_create(&begin, CUDA_EVENT_DEFAULT));
  check(gpu, cuda->event_create(&end, CUDA_EVENT_DEFAULT));
  check(gpu, cuda->capture_begin(gpu->stream, CUDA_CAPTURE_THREAD_LOCAL));
  uint64_t slots[CUDNN_SLOTS];
  memcpy(slots, t->slots, sizeof slots);
  slots[gradient ? CUDNN_SLOT_SLOPES : CUDNN_SLOT_DO] = t->slots[CUDNN_SLOT_SLOPES];
  const bool launched = cudnn_attention_launch(gpu->cudnn, plan, slots, workspace, gpu->stream, &error);
  check(gpu, cuda->capture_end(gpu->stream, &graph));
  if (!launched) {
    fail_msg("%s", error.text);
  }
  check(gpu, cuda->graph_instantiate(&exec, graph, 0));
  check(gpu, cuda->graph_launch(exec, gpu->stream));
  tensors_read(gpu, t, gradient);
  check(gpu, cuda->event_record(begin, gpu->stream));
  for (int i = 0; i < REPLAYS; i++) {
    check(gpu, cuda->graph_launch(exec, gpu->stream));
  }
  check(gpu, cuda->event_record(end, gpu->stream));
  check(gpu, cuda->event_synchronize(end));
  check(gpu, cuda->event_elapsed(&milliseconds, begin, end));
  *same = tensors_read(gpu, t, gradient);
  unsigned char after[PLAN_ALIGN];
  check(gpu, cuda->copy_out(after, workspace + bytes, sizeof after, gpu->stream));
  check(gpu, cuda->stream_synchronize(gpu->stream));
  for (size_t i = 0; i < sizeof after; i++) {
    assert_int_equal(after[i], 0xff);
  }
  check(gpu, cuda->graph_exec_destroy(exec));
  check(gpu, cuda->graph_destroy(graph));
  check(gpu, cuda->event_destroy(begin));
  check(gpu, cuda->event_destroy(end));
  check(gpu, cuda->memory_free(workspace));
  return milliseconds / REPLAYS;
}

static double flops_of(const Attention *a, bool gradient) {
  const double pairs = (double)(a->batch * a->heads * a->groups) * (double)a->queries * (double)a->keys;
  return pairs * (double)a->depth * (gradient ? 10 : 4) * (a->causal ? 0.5 : 1);
}

static void report(const Attention *a, const Case *c, const CudnnAttention *plan, bool gradient, float milliseconds,
                   bool same, const RowsError *error) {
  if (getenv("MDL_BENCH")) {
    print_message(
        "B %lld T %lld %lld/%lld d %lld %s%s%s %s: %.3f ms, %.0f TFLOP/s, workspace %.1f MiB, bits %s, "
        "error %.2g of %.2g, %s\n",
        (long long)a->batch, (long long)a->queries, (long long)(a->heads * a->groups), (long long)a->heads,
        (long long)a->depth, element_type_name(a->type),
        a->biased   ? " biased"
        : a->causal ? " causal"
                    : "",
        c->fused ? " fused" : "", gradient ? "gradient" : "forward", (double)milliseconds,
        flops_of(a, gradient) / (double)milliseconds / 1e9, (double)cudnn_attention_workspace(plan) / 1048576,
        same ? "equal" : "differ", error->got, error->rounded, cudnn_attention_form(plan));
  }
}

static bool run_case(Gpu *gpu, const Case *c) {
  const Attention a = attention_of(c);
  CudnnAttention *forward = NULL, *gradient = NULL;
  const char *why = NULL;
  if (!prepare(gpu->cudnn, &a, false, gpu->arena, &forward, &why)) {
    print_message("%lld keys, depth %lld: %s\n", (long long)c->keys, (long long)c->depth, why);
    return false;
  }
  const bool both = prepare(gpu->cudnn, &a, true, gpu->arena, &gradient, &why);
  const bool refused = !both && c->keys % 128 && strstr(why, "needs a multiple of 128 keys");  // by older ones
  if (!both) {
    print_message("%lld keys, depth %lld: no gradient: %s\n", (long long)c->keys, (long long)c->depth, why);
  }
  Tensors t = tensors_make(gpu, c, &a);
  bool same = false, same_gradient = false;
  const float time = replay(gpu, forward, &t, false, &same);
  const float time_gradient = both ? replay(gpu, gradient, &t, true, &same_gradient) : 0;
  const Errors e = errors_of(&a, &t, both);
  report(&a, c, forward, false, time, same, &e.o);
  if (both) {
    report(&a, c, gradient, true, time_gradient, same_gradient, &e.dq);
  }
  const bool fine = expect_all(&a, &t, both, &e);
  tensors_free(gpu, &t);
  return fine && same && (both || refused || gpu->device.major != 9);
}

static void test_results(void **state) {
  (void)state;
  Gpu gpu;
  Error error;
  if (!gpu_open(&gpu, &error)) {
    print_message("skipped: %s\n", error.text);
    gpu_close(&gpu);
    skip();
  }
  gpu.arena = arena_create();
  check(&gpu, gpu.cuda.stream_create(&gpu.stream, CUDA_STREAM_NON_BLOCKING));
  int wrong = 0;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    wrong += !run_case(&gpu, &cases[i]);
  }
  check(&gpu, gpu.cuda.stream_destroy(gpu.stream));
  gpu_close(&gpu);
  arena_destroy(gpu.arena);
  assert_int_equal(wrong, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_refusals),
      cmocka_unit_test(test_operations),
      cmocka_unit_test(test_rows),
      cmocka_unit_test(test_results),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
