// cuda_take_test.c: take, put and windows as CUDA C: texts compile everywhere; on a GPU, the results of the CPU
// kernels.
//
// Values are small integers, so that sums are exact in any order. MDL_BENCH=1 prints times of usual shapes.
#include "kernels/cuda/take.h"

#include "kernels/cpu/take.h"
#include "kernels/cuda/window.h"
#include "tests/cuda_support.h"

enum { DIMS = 3 };

typedef struct {
  const char *name;
  bool put;
  WriteMode write;
  ElementType type_x, type_out;
  int dims;
  int64_t size[DIMS], x[DIMS], index[DIMS], out[DIMS];
  int64_t extent, axis, x_elements;
  int frequent;  // tenths of the indices that are the same
  int launches;  // expected
  int64_t parts;
} Case;

#define F32 TYPE_F32
#define B16 TYPE_BF16
#define STORE WRITE_STORE
#define ADD WRITE_ADD
#define AFTER WRITE_ADD_AFTER_FIRST

static const Case cases[] = {
    {"rows", false, STORE, F32, F32, 2, {300, 24}, {0, 1}, {1, 0}, {24, 1}, 40, 24, 960, 0, 1, 0},
    {"rows to bf16", false, STORE, F32, B16, 2, {300, 24}, {0, 1}, {1, 0}, {24, 1}, 40, 24, 960, 0, 1, 0},
    {"rows bf16", false, STORE, B16, B16, 2, {300, 24}, {0, 1}, {1, 0}, {24, 1}, 40, 24, 960, 3, 1, 0},
    {"parts", false, STORE, B16, B16, 2, {320, 24}, {0, 1}, {1, 0}, {24, 1}, 40, 24, 960, 3, 1, 10},
    {"parts apart", false, STORE, F32, B16, 3, {4, 5, 7}, {0, 0, 1}, {5, 1, 0}, {45, 9, 1}, 40, 7, 280, 3, 1, 4},
    {"odd rows", false, STORE, B16, F32, 2, {30, 7}, {0, 1}, {1, 0}, {7, 1}, 40, 7, 280, 3, 1, 0},
    {"one each", false, STORE, F32, F32, 2, {5, 7}, {700, 100}, {7, 1}, {7, 1}, 100, 1, 3500, 0, 1, 0},
    {"integers", false, STORE, TYPE_INT, TYPE_INT, 3, {3, 5, 7}, {0, 0, 11}, {5, 1, 0}, {35, 1, 5}, 11, 1, 77, 0, 1, 0},
    {"sums of rows", false, STORE, B16, B16, 3, {60, 24, 3}, {0, 1, 0}, {3, 0, 1}, {24, 1, 0}, 40, 24, 960, 3, 1, 0},
    {"sums of many", false, STORE, F32, B16, 3, {20, 7, 11}, {0, 1, 0}, {11, 0, 1}, {7, 1, 0}, 40, 7, 280, 0, 1, 0},
    {"sums to f32", false, STORE, B16, F32, 3, {5, 16, 8}, {640, 1, 0}, {8, 0, 1}, {16, 1, 0}, 40, 16, 3200, 0, 1, 0},
    {"sums of 2", false, STORE, TYPE_F64, F32, 3, {30, 3, 4}, {0, 40, 0}, {12, 4, 1}, {1, 0, 0}, 40, 1, 120, 2, 1, 0},
    {"put rows", true, STORE, F32, F32, 2, {500, 24}, {0, 1}, {1, 0}, {24, 1}, 40, 24, 960, 6, 4, 0},
    {"add rows", true, ADD, F32, F32, 2, {500, 24}, {0, 1}, {1, 0}, {24, 1}, 40, 24, 960, 3, 4, 0},
    {"put rows, then add", true, AFTER, F32, B16, 2, {500, 24}, {0, 1}, {1, 0}, {24, 1}, 40, 24, 960, 3, 4, 0},
    {"put many rows", true, STORE, F32, B16, 2, {5000, 8}, {0, 1}, {1, 0}, {8, 1}, 3000, 8, 24000, 0, 6, 0},
    {"add many rows", true, AFTER, F32, B16, 2, {5000, 8}, {0, 1}, {1, 0}, {8, 1}, 3000, 8, 24000, 5, 6, 0},
    {"put one each", true, STORE, F32, B16, 2, {5, 7}, {700, 100}, {7, 1}, {7, 1}, 100, 1, 3500, 0, 2, 0},
    {"add one each", true, ADD, F32, B16, 2, {5, 7}, {700, 100}, {7, 1}, {7, 1}, 100, 1, 3500, 0, 1, 0},
    {"put one each, bf16", true, AFTER, B16, F32, 2, {5, 7}, {707, 101}, {7, 1}, {7, 1}, 101, 1, 3535, 0, 2, 0},
    {"wide rows", true, STORE, F32, F32, 2, {200, 1200}, {0, 1}, {1, 0}, {1200, 1}, 30, 1200, 36000, 6, 4, 0},
    {"rows of bf16", true, STORE, B16, B16, 2, {90, 16}, {0, 1}, {1, 0}, {16, 1}, 30, 16, 480, 0, 4, 0},
    {"batches", true, STORE, F32, F32, 3, {3, 70, 8}, {240, 0, 1}, {70, 1, 0}, {560, 8, 1}, 30, 8, 720, 5, 4, 0},
    {"gaps", true, STORE, TYPE_F64, TYPE_F64, 3, {3, 70, 8}, {300, 0, 1}, {70, 1, 0}, {560, 8, 1}, 30, 8, 900, 5, 4, 0},
    {"across", true, STORE, F32, F32, 3, {8, 3, 70}, {30, 0, 0}, {0, 70, 1}, {1, 560, 8}, 30, 1, 240, 5, 4, 0},
    {"integer sums", true, STORE, TYPE_INT, TYPE_INT, 2, {300, 4}, {0, 0}, {1, 0}, {4, 1}, 30, 1, 30, 2, 4, 0},
    {"a million rows", true, STORE, F32, F32, 1, {5000}, {0}, {1}, {1}, 1100000, 1, 1100000, 0, 8, 0},
    {"all the same", true, STORE, F32, F32, 2, {20000, 4}, {0, 1}, {1, 0}, {4, 1}, 1, 4, 4, 10, 4, 0},
};

static Take take_of(const Case *c, ElementType type) {
  Take take = {.type = type,
               .type_out = type,
               .dim_count = c->dims,
               .extent = c->extent,
               .stride_axis = c->axis,
               .x_elements = c->x_elements,
               .parts = c->parts,
               .write = c->write};
  for (int d = 0; d < c->dims; d++) {
    take.size[d] = c->size[d];
    take.stride_x[d] = c->x[d];
    take.stride_index[d] = c->index[d];
    take.stride_out[d] = c->out[d];
  }
  while (!c->put && take.summed < c->dims && c->out[c->dims - 1 - take.summed] == 0) {
    take.summed++;
  }
  return take;
}

static int64_t reach(const Case *c, const int64_t *stride) {
  int64_t last = 0;
  for (int d = 0; d < c->dims; d++) {
    last += (c->size[d] - 1) * stride[d];
  }
  return last + 1;
}

static void kernel_make(const Case *c, Arena *arena, CudaKernel *kernel) {
  static const int aligned[] = {16, 16, 16};
  const Take take = take_of(c, c->type_x);
  const char *why = NULL;
  if (!(c->put ? cuda_put : cuda_take)(&take, c->type_x, c->type_out, aligned, arena, kernel, &why)) {
    fail_msg("%s: %s", c->name, why);
  }
}

typedef struct {
  int64_t x_count, index_count, out_count;
  void *x, *out, *x_low, *out_low;  // for the CPU, and in the formats of the case
  int32_t *index, *chosen;
} Values;

static Values values_create(const Case *c, ElementType exact) {
  CudaDraw draw = {9};
  Values v = {.x_count = c->x_elements, .index_count = reach(c, c->index), .out_count = reach(c, c->out)};
  v.x = malloc((size_t)v.x_count * 8);
  v.x_low = malloc((size_t)v.x_count * 8);
  v.out = malloc((size_t)v.out_count * 8);
  v.out_low = malloc((size_t)v.out_count * 8);
  v.index = malloc((size_t)v.index_count * 4);
  for (int64_t i = 0; i < v.x_count; i++) {
    const double x = (double)(cuda_draw(&draw) % 64) - 32;
    element_set_at(exact, v.x, i, x);
    element_set_at(c->type_x, v.x_low, i, x);
  }
  for (int64_t i = 0; i < v.out_count; i++) {
    const double x = (double)(cuda_draw(&draw) % 16) - 8;
    element_set_at(exact, v.out, i, x);
    element_set_at(c->type_out, v.out_low, i, x);
  }
  for (int64_t i = 0; i < v.index_count; i++) {
    const uint32_t number = cuda_draw(&draw), kind = cuda_draw(&draw) % 100;
    v.index[i] = (int32_t)(number % (uint64_t)c->extent);
    v.index[i] = kind == 99 ? -1 : kind == 98 ? (int32_t)c->extent : v.index[i];
    v.index[i] = (int)(cuda_draw(&draw) % 10) < c->frequent ? (int32_t)(7 % c->extent) : v.index[i];
  }
  v.chosen = malloc((size_t)(c->parts + 1) * 4);
  for (int64_t i = 0; i < c->parts; i++) {  // in any order: all that is promised is by part
    v.chosen[i] = i % 3 == 1 ? -1 : (int32_t)i;
  }
  return v;
}

static void values_destroy(Values *v) {
  free(v->x);
  free(v->out);
  free(v->x_low);
  free(v->out_low);
  free(v->index);
  free(v->chosen);
}

// The first element that is not what the exact one rounds to; -1: none.
static int64_t difference(ElementType type, const void *got, ElementType exact, const void *right, int64_t count) {
  char rounded[8];
  for (int64_t i = 0; i < count; i++) {
    element_set_at(type, rounded, 0, element_at(exact, right, i));
    if (element_at(type, got, i) != element_at(type, rounded, 0)) {
      return i;
    }
  }
  return -1;
}

static void same(const char *name, ElementType type, const void *got, ElementType exact, const void *right,
                 int64_t count) {
  const int64_t at = difference(type, got, exact, right, count);
  if (at >= 0) {
    fail_msg("%s: element %d is %g, not %g", name, (int)at, element_at(type, got, at), element_at(exact, right, at));
  }
}

static void gpu_case(const Gpu *gpu, const Case *c, bool first) {
  const ElementType exact = !element_type_floating(c->type_x) || c->type_x == TYPE_F64 ? c->type_x : TYPE_F32;
  const int64_t bytes_x = element_type_bytes(c->type_x), bytes_out = element_type_bytes(c->type_out);
  const Take take = take_of(c, exact);
  Values v = values_create(c, exact);
  Arena *arena = arena_create();
  Pool *pool = pool_create(2);
  CudaKernel kernel;
  kernel_make(c, arena, &kernel);
  const GpuKernel loaded = gpu_load(gpu, c->name, &kernel);
  const CudaAddress x = gpu_memory(gpu, v.x_low, v.x_count * bytes_x),
                    index = gpu_memory(gpu, v.index, v.index_count * 4);
  const CudaAddress out = gpu_memory(gpu, v.out_low, v.out_count * bytes_out);
  const CudaAddress chosen = gpu_memory(gpu, v.chosen, c->parts * 4);
  uint64_t slots[8] = {x, index, out};
  slots[3] = c->parts > 0 ? chosen : 0;
  gpu_run(gpu, &loaded, slots, first);
  gpu_get(gpu, v.x_low, x, v.x_count * bytes_x);
  gpu_get(gpu, v.out_low, out, v.out_count * bytes_out);
  if (c->put) {
    put_run(&take, simd_select(), pool, v.x, v.index, v.out, first);
  } else {
    take_run(&take, simd_select(), pool, v.x, v.index, c->parts > 0 ? v.chosen : NULL, v.out);
  }
  same(c->name, c->type_x, v.x_low, exact, v.x, v.x_count);
  same(c->name, c->type_out, v.out_low, exact, v.out, v.out_count);
  gpu_free(gpu, x);
  gpu_free(gpu, index);
  gpu_free(gpu, out);
  gpu_free(gpu, chosen);
  gpu_unload(gpu, &loaded);
  pool_destroy(pool);
  arena_destroy(arena);
  values_destroy(&v);
}

static void same_as_cpu(void **state) {
  Gpu gpu;
  (void)state;
  if (!gpu_open_any(&gpu)) {
    skip();
  }
  // Compiling for the host takes its time: every other case.
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i += gpu.emulated ? 2 : 1) {
    gpu_case(&gpu, &cases[i], true);
    if (cases[i].write == AFTER || !gpu.emulated) {
      gpu_case(&gpu, &cases[i], false);
    }
  }
  gpu_close(&gpu);
}

static const Case *case_named(const char *name) {
  const Case *c = cases;
  while (strcmp(c->name, name) != 0) {
    c++;
  }
  return c;
}

// Sums of numbers whose order shows: every run makes them in the same one, near the CPU's.
static void same_bits(void **state) {
  const Case *c = case_named("put rows");
  const Take take = take_of(c, F32);
  CudaDraw draw = {21};
  CudaKernel kernel;
  Gpu gpu;
  (void)state;
  if (!gpu_open_any(&gpu)) {
    skip();
  }
  Values v = values_create(c, F32);
  float *first = malloc((size_t)v.x_count * 4);
  Arena *arena = arena_create();
  Pool *pool = pool_create(2);
  for (int64_t i = 0; i < v.out_count; i++) {
    element_set_at(F32, v.out, i, cuda_draw_real(&draw));
  }
  put_run(&take, simd_select(), pool, v.x, v.index, v.out, true);
  kernel_make(c, arena, &kernel);
  const GpuKernel loaded = gpu_load(&gpu, c->name, &kernel);
  uint64_t slots[8] = {gpu_memory(&gpu, NULL, v.x_count * 4), gpu_memory(&gpu, v.index, v.index_count * 4),
                       gpu_memory(&gpu, v.out, v.out_count * 4)};
  for (int run = 0; run < 5; run++) {
    gpu_run(&gpu, &loaded, slots, true);
    gpu_get(&gpu, run == 0 ? (void *)first : v.x_low, slots[0], v.x_count * 4);
    if (run > 0) {
      assert_memory_equal(first, v.x_low, (size_t)v.x_count * 4);
    }
  }
  for (int64_t i = 0; i < v.x_count; i++) {
    assert_true(fabs((double)first[i] - element_at(F32, v.x, i)) < 1e-4);
  }
  for (int i = 0; i < 3; i++) {
    gpu_free(&gpu, slots[i]);
  }
  gpu_unload(&gpu, &loaded);
  gpu_close(&gpu);
  pool_destroy(pool);
  arena_destroy(arena);
  values_destroy(&v);
  free(first);
}

// One index that is another must not pass.
static void notices_errors(void **state) {
  const Case *c = case_named("put rows");
  const Take take = take_of(c, F32);
  CudaKernel kernel;
  Gpu gpu;
  (void)state;
  if (!gpu_open_any(&gpu)) {
    skip();
  }
  Values v = values_create(c, F32);
  Arena *arena = arena_create();
  Pool *pool = pool_create(2);
  put_run(&take, simd_select(), pool, v.x, v.index, v.out, true);
  v.index[100] = (v.index[100] + 1) % (int32_t)c->extent;
  kernel_make(c, arena, &kernel);
  const GpuKernel loaded = gpu_load(&gpu, c->name, &kernel);
  uint64_t slots[8] = {gpu_memory(&gpu, NULL, v.x_count * 4), gpu_memory(&gpu, v.index, v.index_count * 4),
                       gpu_memory(&gpu, v.out_low, v.out_count * 4)};
  gpu_run(&gpu, &loaded, slots, true);
  gpu_get(&gpu, v.x_low, slots[0], v.x_count * 4);
  assert_true(difference(F32, v.x_low, F32, v.x, v.x_count) >= 0);
  for (int i = 0; i < 3; i++) {
    gpu_free(&gpu, slots[i]);
  }
  gpu_unload(&gpu, &loaded);
  gpu_close(&gpu);
  pool_destroy(pool);
  arena_destroy(arena);
  values_destroy(&v);
}

static void texts_compile(void **state) {
  static const char *const both[] = {"sm_90a", "sm_80", NULL}, *const one[] = {"sm_90a", NULL};
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    Arena *arena = arena_create();
    CudaKernel kernel;
    kernel_make(&cases[i], arena, &kernel);
    cuda_geometry_check(&kernel);
    assert_int_equal(kernel.launch_count, cases[i].launches);
    assert_true((kernel.scratch_bytes > 0) == (cases[i].launches > 2));
    const bool compiled = cuda_texts_compile(cases[i].name, &kernel, i % 8 == 1 ? both : one);
    arena_destroy(arena);
    if (!compiled) {
      skip();
    }
  }
}

static void says_why_not(void **state) {
  static const int aligned[] = {16, 16, 16};
  Arena *arena = arena_create();
  CudaKernel kernel;
  const char *why = NULL;
  const Take take = take_of(&cases[0], TYPE_F32);
  (void)state;
  assert_false(cuda_take(&take, TYPE_F32, TYPE_INT, aligned, arena, &kernel, &why));
  assert_non_null(why);
  why = NULL;
  assert_false(cuda_put(&take, TYPE_E4M3, TYPE_E4M3, aligned, arena, &kernel, &why));
  assert_non_null(why);
  arena_destroy(arena);
}

// --- windows ---

typedef struct {
  const char *name;
  ElementType type;
  int dims, windowed;
  int64_t size[DIMS], x[DIMS], out[DIMS], taps, tap;
} WindowCase;

static const WindowCase windows[] = {
    {"last dim", F32, 2, 1, {3, 20}, {20, 1}, {80, 4}, 4, 1},
    {"middle dim", F32, 3, 1, {2, 20, 8}, {160, 8, 1}, {640, 32, 1}, 4, 8},
    {"taps last", F32, 3, 1, {2, 20, 8}, {160, 8, 1}, {480, 24, 3}, 3, 1},
    {"more taps than positions", TYPE_F64, 2, 0, {5, 4}, {4, 1}, {4, 1}, 7, 20},
};

static Window window_of(const WindowCase *c) {
  Window w = {.type = c->type, .dim_count = c->dims, .windowed = c->windowed, .taps = c->taps, .stride_tap = c->tap};
  memcpy(w.size, c->size, sizeof c->size);
  memcpy(w.stride_x, c->x, sizeof c->x);
  memcpy(w.stride_out, c->out, sizeof c->out);
  return w;
}

// `skew` moves both addresses by so many elements.
static void gpu_window(const Gpu *gpu, const WindowCase *c, bool fold, int64_t skew) {
  const Window w = window_of(c);
  const int64_t bytes = element_type_bytes(c->type);
  int64_t count = 1;
  CudaDraw draw = {3};
  for (int d = 0; d < c->dims; d++) {
    count *= c->size[d];
  }
  const int64_t counts[] = {count, count * c->taps};
  void *right[2], *got[2];
  CudaAddress memory[2];
  uint64_t slots[8] = {0};
  for (int i = 0; i < 2; i++) {
    right[i] = malloc((size_t)(counts[i] * bytes));
    got[i] = malloc((size_t)((counts[i] + skew) * bytes));
    for (int64_t e = 0; e < counts[i]; e++) {
      element_set_at(c->type, right[i], e, (double)(cuda_draw(&draw) % 16) - 8);
    }
    memory[i] = gpu_memory(gpu, NULL, (counts[i] + skew) * bytes);
    slots[i] = memory[i] + (uint64_t)(skew * bytes);
    gpu_set(gpu, slots[i], right[i], counts[i] * bytes);
  }
  Arena *arena = arena_create();
  Pool *pool = pool_create(2);
  CudaKernel kernel;
  const char *why = NULL;
  assert_true((fold ? cuda_fold : cuda_window)(&w, arena, &kernel, &why));
  GpuKernel loaded = gpu_load(gpu, c->name, &kernel);
  gpu_run(gpu, &loaded, slots, true);
  if (fold) {
    fold_run(&w, pool, right[0], right[1]);
  } else {
    window_run(&w, pool, right[0], right[1]);
  }
  for (int i = 0; i < 2; i++) {
    gpu_get(gpu, got[i], slots[i], counts[i] * bytes);
    same(c->name, c->type, got[i], c->type, right[i], counts[i]);
    gpu_free(gpu, memory[i]);
    free(right[i]);
    free(got[i]);
  }
  gpu_unload(gpu, &loaded);
  pool_destroy(pool);
  arena_destroy(arena);
}

static void windows_same(void **state) {
  Gpu gpu;
  (void)state;
  if (!gpu_open_any(&gpu)) {
    skip();
  }
  for (size_t i = 0; i < (gpu.emulated ? 2 : sizeof windows / sizeof *windows); i++) {
    for (int64_t skew = 0; skew < 2; skew++) {
      gpu_window(&gpu, &windows[i], false, skew);
      gpu_window(&gpu, &windows[i], true, skew);
    }
  }
  gpu_close(&gpu);
}

static void windows_compile(void **state) {
  static const char *const one[] = {"sm_90a", NULL};
  (void)state;
  for (size_t i = 0; i < 2 * sizeof windows / sizeof *windows; i++) {
    const Window w = window_of(&windows[i / 2]);
    Arena *arena = arena_create();
    CudaKernel kernel;
    const char *why = NULL;
    assert_true((i % 2 ? cuda_fold : cuda_window)(&w, arena, &kernel, &why));
    cuda_geometry_check(&kernel);
    const bool compiled = cuda_texts_compile(windows[i / 2].name, &kernel, one);
    arena_destroy(arena);
    if (!compiled) {
      skip();
    }
  }
}

static void bench_case(const Gpu *gpu, const Case *c) {
  Values v = values_create(c, F32);
  Arena *arena = arena_create();
  CudaKernel kernel;
  kernel_make(c, arena, &kernel);
  GpuKernel loaded = gpu_load(gpu, c->name, &kernel);
  uint64_t slots[8] = {gpu_memory(gpu, v.x_low, v.x_count * element_type_bytes(c->type_x)),
                       gpu_memory(gpu, v.index, v.index_count * 4),
                       gpu_memory(gpu, v.out_low, v.out_count * element_type_bytes(c->type_out))};
  const double seconds = gpu_time(gpu, &loaded, slots, 20);
  print_message("%s (%s): %.1f us, %.0f GB/s of least traffic\n", c->name, kernel.form, seconds * 1e6,
                kernel.bytes / seconds / 1e9);
  gpu_time_launches(gpu, &loaded, slots, 10);
  for (int i = 0; i < 3; i++) {
    gpu_free(gpu, slots[i]);
  }
  gpu_unload(gpu, &loaded);
  arena_destroy(arena);
  values_destroy(&v);
}

#define ROWS(tokens, embed)             \
  2, {tokens, embed}, {0, 1}, {1, 0}, { \
    embed, 1                            \
  }

static void bench(void **state) {
  static const Case usual[] = {
      {"take 65536 x 768", false, STORE, B16, B16, ROWS(65536, 768), 50257, 768, 50257 * 768, 0, 1, 0},
      {"take 8192 x 4096", false, STORE, F32, B16, ROWS(8192, 4096), 32000, 4096, 32000 * 4096, 0, 1, 0},
      {"put 65536 x 768", true, STORE, F32, B16, ROWS(65536, 768), 50257, 768, 50257 * 768, 0, 6, 0},
      {"put 65536 x 768, 30% the same", true, STORE, F32, F32, ROWS(65536, 768), 50257, 768, 50257 * 768, 3, 6, 0},
      {"add 65536 x 768, 30% the same", true, ADD, F32, B16, ROWS(65536, 768), 50257, 768, 50257 * 768, 3, 6, 0},
      {"put 8192 x 4096", true, STORE, F32, B16, ROWS(8192, 4096), 32000, 4096, 32000 * 4096, 3, 6, 0},
      {"put 8192 of 50257", true, STORE, B16, F32, 1, {8192}, {50257}, {1}, {1}, 50257, 1, 8192 * 50257, 0, 2, 0},
  };
  Gpu gpu;
  (void)state;
  if (!getenv("MDL_BENCH") || !gpu_open(&gpu)) {
    skip();
  }
  for (size_t i = 0; i < sizeof usual / sizeof *usual; i++) {
    bench_case(&gpu, &usual[i]);
  }
  gpu_close(&gpu);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(texts_compile), cmocka_unit_test(windows_compile),
                                     cmocka_unit_test(says_why_not),  cmocka_unit_test(same_as_cpu),
                                     cmocka_unit_test(same_bits),     cmocka_unit_test(notices_errors),
                                     cmocka_unit_test(windows_same),  cmocka_unit_test(bench)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
