// cuda_grouped_test.c: rows ordered by index and their products with chosen matrices as CUDA C: texts compile
// everywhere; on a GPU, or emulated, the results of plain loops in double, at every skew, over poisoned memory.
#include "kernels/cuda/grouped.h"

#include "kernels/cuda/order.h"
#include "runtime/cuda/gemm.h"
#include "tests/cuda_support.h"
#include "tests/effort.h"
#include "tests/grouped_reference.h"

typedef struct {
  const char *name;
  ElementType type, type_c;
  bool sums, turned;
  int64_t rows, block, extent, m, n, k;
  WriteMode write;
  Skew skew;
  int cluster;  // 0: rows of memory lie anywhere
  bool leaves;
} Case;

#define F32 TYPE_F32
#define F64 TYPE_F64
#define F16 TYPE_F16
#define B16 TYPE_BF16
#define STORE WRITE_STORE
#define ADD WRITE_ADD
#define AFTER WRITE_ADD_AFTER_FIRST

enum { GAP = 8 };  // elements behind each row of memory, so that rows lie at multiples of 16 bytes

// For warpgroups: odd numbers of blocks of rows, columns that fill no tile, k that fills none.
static const Case wide[] = {
    {"rows", B16, B16, false, false, 640, 128, 3, 1, 272, 72, STORE, SKEW_ANY, 2, false},
    {"rows, turned", F16, F16, false, true, 640, 128, 3, 1, 136, 136, STORE, SKEW_HALF, 2, false},
    {"rows, one by one", B16, F32, false, true, 384, 128, 5, 1, 64, 80, STORE, SKEW_EACH, 1, false},
    {"add rows", B16, B16, false, false, 384, 128, 2, 1, 72, 64, ADD, SKEW_ONE, 2, false},
    {"add rows in f32", F16, F32, false, false, 512, 256, 2, 1, 200, 40, AFTER, SKEW_ANY, 1, false},
    {"no rows", B16, B16, false, false, 256, 128, 4, 1, 16, 64, STORE, SKEW_NONE, 2, false},
    {"sums", B16, F32, true, false, 640, 128, 4, 136, 72, 1, STORE, SKEW_ANY, 2, false},
    {"sums in bf16", B16, B16, true, false, 384, 128, 3, 72, 264, 1, STORE, SKEW_HALF, 1, false},
    {"add sums", B16, F32, true, false, 512, 128, 3, 264, 16, 1, ADD, SKEW_ONE, 2, false},
    {"add sums after", F16, F16, true, false, 384, 128, 2, 128, 128, 1, AFTER, SKEW_ANY, 2, false},
    {"no sums", F16, F32, true, false, 128, 128, 3, 64, 40, 1, STORE, SKEW_NONE, 1, false},
    {"leave rows", B16, B16, false, false, 640, 128, 3, 1, 272, 72, STORE, SKEW_ONE, 2, true},
    {"leave all rows", B16, F32, false, true, 256, 128, 4, 1, 16, 64, STORE, SKEW_NONE, 2, true},
};

// For mma.sync.
static const Case half[] = {
    {"rows", B16, B16, false, false, 384, 128, 3, 1, 136, 72, STORE, SKEW_ANY, 1, false},
    {"rows, turned", F16, F32, false, true, 320, 64, 3, 1, 72, 200, STORE, SKEW_HALF, 1, false},
    {"add rows", F16, F16, false, true, 192, 64, 2, 1, 264, 40, AFTER, SKEW_EACH, 1, false},
    {"no rows", B16, F32, false, false, 128, 128, 2, 1, 8, 16, STORE, SKEW_NONE, 1, false},
    {"sums", B16, B16, true, false, 192, 16, 4, 136, 72, 1, STORE, SKEW_ANY, 1, false},
    {"add sums", F16, F32, true, false, 320, 64, 3, 24, 144, 1, ADD, SKEW_ONE, 1, false},
    {"leave rows", B16, F32, false, false, 320, 64, 3, 1, 136, 72, STORE, SKEW_ONE, 1, true},
};

static const Case plain[] = {
    {"rows", F32, F32, false, false, 96, 8, 6, 1, 70, 33, STORE, SKEW_ANY, 0, false},
    {"rows, turned", F64, F64, false, true, 130, 1, 7, 1, 65, 20, STORE, SKEW_HALF, 0, false},
    {"odd rows", B16, F32, false, true, 192, 64, 3, 1, 7, 50, STORE, SKEW_ONE, 0, false},
    {"add rows", F16, F16, false, false, 120, 24, 4, 1, 30, 17, ADD, SKEW_EACH, 0, false},
    {"sums", F32, F32, true, false, 96, 8, 6, 70, 33, 1, STORE, SKEW_ANY, 0, false},
    {"add sums", F64, F64, true, false, 60, 4, 1100, 5, 3, 1, ADD, SKEW_ANY, 0, false},
    {"sums in bf16", B16, B16, true, false, 48, 16, 3, 20, 66, 1, AFTER, SKEW_HALF, 0, false},
    {"no sums", F32, F32, true, false, 16, 16, 2, 3, 5, 1, STORE, SKEW_NONE, 0, false},
    {"leave rows", F32, F32, false, false, 96, 8, 6, 1, 70, 33, STORE, SKEW_EACH, 0, true},
};

static const CudaTarget ampere = {.multiprocessors = 108, .shared_bytes = 163 * 1024};  // sm_80

// So few multiprocessors that a thread block has several tiles.
static const CudaTarget hopper = {.multiprocessors = 4, .shared_bytes = 227 * 1024, .warpgroups = true};  // sm_90a

static int64_t even(const Case *c, int64_t line) {  // whole rows for warpgroups, odd ones for others
  return c->cluster ? (line + 7) / 8 * 8 + GAP : line + 3;
}

static Grouped grouped_of(const Case *c) {
  Grouped g = {.type = c->type,
               .type_c = c->type_c,
               .transpose_b = c->turned,
               .write = c->write,
               .leaves = c->leaves,
               .rows = c->rows,
               .block = c->block,
               .extent = c->extent,
               .m = c->m,
               .n = c->n,
               .k = c->k};
  const int64_t line = c->turned ? c->k : c->n, lines = c->turned ? c->n : c->sums ? c->m : c->k;
  g.lda = even(c, c->sums ? c->m : c->k);
  g.ldb = even(c, c->sums ? c->n : line);
  g.ldc = even(c, c->n);
  g.stride = lines * (c->sums ? g.ldc : g.ldb) + GAP;
  return g;
}

static int64_t elements_of(const Case *c, const Grouped *g, char which) {
  const int64_t lines = which == 'b' && c->turned ? c->n : c->sums ? c->m : c->k;
  const int64_t ld = which == 'a' ? g->lda : which == 'b' ? g->ldb : g->ldc;
  const bool matrices = which == 'b' ? !c->sums : which == 'c' && c->sums;
  return matrices ? (c->extent - 1) * g->stride + lines * ld : c->rows * ld;
}

static void kernel_make(const Case *c, const CudaTarget *target, Arena *arena, CudaKernel *kernel) {
  const CudaForm form = {.cluster = c->cluster};
  const Grouped g = grouped_of(c);
  CudaTarget formed = *target;
  const char *why = NULL;
  formed.form = c->cluster ? &form : NULL;
  if (!cuda_grouped(&g, c->sums, 16, &formed, arena, kernel, &why)) {
    fail_msg("%s: %s", c->name, why);
  }
}

static uint32_t draw_number(void *draw) {
  return cuda_draw(draw) & 0x7fffffffu;
}

typedef struct {
  Grouped g;
  int64_t count[3];  // elements of a, b, c
  void *memory[3];
  int32_t *chosen;
} Values;

// Which elements of a row are those of a matrix, of `lines` lines: the others stay poisoned, and rows without a matrix.
static void operand_draw(const Case *c, const Values *v, int which, CudaDraw *draw) {
  const Grouped *g = &v->g;
  const ElementType type = which == 2 ? g->type_c : g->type;
  const int64_t ld = which == 0 ? g->lda : which == 1 ? g->ldb : g->ldc;
  const bool matrices = which == 1 ? !c->sums : which == 2 && c->sums;
  const int64_t line = which == 0 ? (c->sums ? c->m : c->k) : matrices && c->turned ? c->k : c->n;
  for (int64_t i = 0; i < v->count[which]; i++) {
    const int64_t at = matrices ? i % g->stride : i, row = at / ld;
    const bool there = at % ld < line && (matrices || which == 2 || v->chosen[row / g->block] >= 0);
    element_set_at(type, v->memory[which], i, there ? cuda_draw_real(draw) : NAN);
  }
}

static Values values_create(const Case *c, bool adds) {
  CudaDraw draw = {31};
  Values v = {.g = grouped_of(c)};
  const int64_t spare = c->extent * (c->block - 1) / 2, count = c->rows > spare ? c->rows - spare : 1;
  const Order o = {.count = count, .extent = c->extent, .block = c->block, .capacity = c->rows};
  int32_t *table = calloc((size_t)(2 * count + c->rows), sizeof *table);
  v.chosen = calloc((size_t)(c->rows / c->block), sizeof *v.chosen);
  skew_draw(c->skew, table, count, c->extent, draw_number, &draw);
  order_plain(&o, table, table + count, table + 2 * count, v.chosen);
  free(table);
  for (int i = 0; i < 3; i++) {
    v.count[i] = elements_of(c, &v.g, "abc"[i]);
    v.memory[i] = malloc((size_t)(v.count[i] * 8));
    memset(v.memory[i], 0xff, (size_t)(v.count[i] * 8));
    if (i < 2 || adds) {
      operand_draw(c, &v, i, &draw);
    }
  }
  return v;
}

static void values_destroy(Values *v) {
  for (int i = 0; i < 3; i++) {
    free(v->memory[i]);
  }
  free(v->chosen);
}

static double place_of(ElementType type) {  // of a rounding, of a number around 1
  return type == TYPE_BF16 ? 0x1p-8 : type == TYPE_F16 ? 0x1p-11 : type == TYPE_F32 ? 0x1p-24 : 0x1p-53;
}

typedef struct {
  int64_t wrong;  // the first element that is, among those looked at; -1: none
  double error;   // the largest, of what is a product
  double most;    // the largest value
} Found;

// got: what the kernel left where v->memory[2] was.
static Found look(const Case *c, const Values *v, const void *got, bool adds) {
  const Grouped *g = &v->g;
  const int64_t height = c->sums ? c->m : c->rows, all = (c->sums ? c->extent : 1) * height * c->n;
  Found found = {-1, 0, 0};
  for (int64_t i = 0; i < all; i += 1 + all / 5000) {
    const int64_t matrix = i / c->n / height, row = i / c->n % height, column = i % c->n;
    const int64_t at = (c->sums ? matrix * g->stride : 0) + row * g->ldc + column;
    if (c->leaves && v->chosen[row / g->block] < 0) {  // NaN, as it was
      found.wrong = found.wrong < 0 && !isnan(element_at(g->type_c, got, at)) ? i : found.wrong;
      continue;
    }
    const double before = adds ? element_at(g->type_c, v->memory[2], at) : 0;
    const Product p = product_plain(g, c->sums, v->memory[0], v->memory[1], v->chosen, matrix, row, column);
    const double sum = before + p.sum, error = fabs(element_at(g->type_c, got, at) - sum);
    const double tolerance =
        p.there ? (g->type == F64 ? 1e-14 : 3e-6) * (p.size + fabs(before)) + place_of(g->type_c) * 1.01 * fabs(sum)
                : 0;
    found.error = !p.there || error <= found.error ? found.error : error;
    found.most = fmax(found.most, fabs(sum));
    found.wrong = found.wrong < 0 && !(error <= tolerance) ? i : found.wrong;
  }
  return found;
}

// Memory between the rows of c is as it was.
static bool gaps_hold(const Case *c, const Values *v, const void *got) {
  const int64_t bytes = element_type_bytes(v->g.type_c);
  for (int64_t i = 0; i < v->count[2]; i++) {
    const int64_t at = c->sums ? i % v->g.stride : i;
    const bool inside = at % v->g.ldc < c->n && (!c->sums || at < c->m * v->g.ldc);
    if (!inside && memcmp((const char *)got + i * bytes, (const char *)v->memory[2] + i * bytes, (size_t)bytes) != 0) {
      return false;
    }
  }
  return true;
}

typedef struct {
  Arena *arena;
  CudaKernel kernel;
  GpuKernel loaded;
  uint64_t slots[8];
} Run;

static void run_open(const Gpu *gpu, const Case *c, const CudaTarget *target, const Values *v, Run *run) {
  *run = (Run){.arena = arena_create()};
  kernel_make(c, target, run->arena, &run->kernel);
  for (int i = 0; i < 3; i++) {
    const int64_t bytes = v->count[i] * element_type_bytes(i == 2 ? v->g.type_c : v->g.type);
    run->slots[i] = gpu_memory(gpu, v->memory[i], bytes);
  }
  run->slots[3] = gpu_memory(gpu, v->chosen, c->rows / c->block * 4);
  run->loaded = gpu_load(gpu, c->name, &run->kernel);
}

static void run_close(const Gpu *gpu, Run *run) {
  for (int i = 0; i < 4; i++) {
    gpu_free(gpu, run->slots[i]);
  }
  gpu_unload(gpu, &run->loaded);
  arena_destroy(run->arena);
}

// What a call leaves in c, in memory of its own.
static void *run_result(const Gpu *gpu, const Values *v, Run *run, bool first) {
  const int64_t bytes = v->count[2] * element_type_bytes(v->g.type_c);
  void *got = malloc((size_t)bytes);
  gpu_set(gpu, run->slots[2], v->memory[2], bytes);
  gpu_poison(gpu, run->loaded.scratch, run->kernel.scratch_bytes);
  gpu_run(gpu, &run->loaded, run->slots, first);
  gpu_get(gpu, got, run->slots[2], bytes);
  return got;
}

static void gpu_case(const Gpu *gpu, const Case *c, const CudaTarget *target, bool first) {
  const bool adds = c->write == ADD || (c->write == AFTER && !first);
  Values v = values_create(c, adds);
  Run run;
  run_open(gpu, c, target, &v, &run);
  void *got = run_result(gpu, &v, &run, first);
  const Found found = look(c, &v, got, adds);
  if (found.wrong >= 0) {
    fail_msg("%s, %s: element %d is wrong; errors up to %g", c->name, run.kernel.form, (int)found.wrong, found.error);
  }
  if (!gaps_hold(c, &v, got)) {
    fail_msg("%s, %s: memory between the rows has changed", c->name, run.kernel.form);
  }
  for (int repeat = 0; repeat < (gpu->emulated ? 0 : 5); repeat++) {
    void *again = run_result(gpu, &v, &run, first);
    assert_memory_equal(got, again, (size_t)(v.count[2] * element_type_bytes(v.g.type_c)));
    free(again);
  }
  free(got);
  run_close(gpu, &run);
  values_destroy(&v);
}

static void cases_run(const Gpu *gpu, const Case *cases, size_t count, const CudaTarget *target) {
  for (size_t i = 0; i < count; i++) {
    gpu_case(gpu, &cases[i], target, true);
    if (cases[i].write == AFTER) {
      gpu_case(gpu, &cases[i], target, false);
    }
    for (int skew = 0; skew < SKEW_COUNT && !gpu->emulated && !effort_short(); skew++) {
      Case skewed = cases[i];
      skewed.skew = (Skew)skew;
      gpu_case(gpu, &skewed, target, true);
    }
  }
}

// --- ORDER ---

typedef struct {
  int64_t count, extent, block, rows;  // rows: 0: as many as hold all
} OrderCase;

static const OrderCase orders[] = {{1, 1, 1, 0},     {300, 7, 8, 0},      {5000, 64, 128, 0}, {1000, 3, 16, 320},
                                   {700, 300, 4, 0}, {20000, 4096, 2, 0}, {3000, 900, 1, 500}};
static const OrderCase large[] = {{131072, 64, 128, 0}, {1 << 20, 4096, 128, 0}, {98304, 64, 128, 65536}};

static Order order_of(const OrderCase *c) {
  const int64_t most = order_holding(c->count, c->extent, c->block);
  return (Order){.count = c->count, .extent = c->extent, .block = c->block, .capacity = c->rows ? c->rows : most};
}

static void order_case(const Gpu *gpu, const OrderCase *c, Skew skew, bool spoilt) {
  const Order o = order_of(c);
  const int64_t counts[] = {o.count, o.count, o.capacity, o.capacity / o.block};
  CudaDraw draw = {3};
  Arena *arena = arena_create();
  CudaKernel kernel;
  const char *why = NULL;
  int32_t *wanted[4], *got = malloc((size_t)(o.count + o.capacity) * 4);
  uint64_t slots[8];
  bool same = true;
  assert_true(cuda_order(&o, arena, &kernel, &why));
  for (int i = 0; i < 4; i++) {
    wanted[i] = calloc((size_t)counts[i], sizeof *wanted[i]);
  }
  skew_draw(skew, wanted[0], o.count, o.extent, draw_number, &draw);
  order_plain(&o, wanted[0], wanted[1], wanted[2], wanted[3]);
  wanted[0][o.count / 2] = spoilt ? (wanted[0][o.count / 2] + 1) % (int32_t)o.extent : wanted[0][o.count / 2];
  for (int i = 0; i < 4; i++) {
    slots[i] = gpu_memory(gpu, i == 0 ? wanted[0] : NULL, counts[i] * 4);
  }
  const GpuKernel loaded = gpu_load(gpu, "order", &kernel);
  for (int run = 0; run < (gpu->emulated ? 1 : 3); run++) {
    gpu_run(gpu, &loaded, slots, true);
    for (int i = 0; i < 4; i++) {
      gpu_get(gpu, got, slots[i], counts[i] * 4);
      same = same && memcmp(got, wanted[i], (size_t)counts[i] * 4) == 0;
    }
  }
  if (same == spoilt) {
    fail_msg("%d positions of %d indices in blocks of %d, skew %d: %s", (int)o.count, (int)o.extent, (int)o.block, skew,
             spoilt ? "another index is not noticed" : "another order");
  }
  for (int i = 0; i < 4; i++) {
    gpu_free(gpu, slots[i]);
    free(wanted[i]);
  }
  free(got);
  gpu_unload(gpu, &loaded);
  arena_destroy(arena);
}

static void orders_are_stable(void **state) {
  Gpu gpu;
  (void)state;
  if (!gpu_open_any(&gpu)) {
    skip();
  }
  for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
    for (int skew = 0; skew < SKEW_COUNT; skew += gpu.emulated && i > 2 ? SKEW_HALF : 1) {
      order_case(&gpu, &orders[i], (Skew)skew, false);
    }
  }
  for (int i = 0; i < 3 * SKEW_COUNT && !gpu.emulated && !effort_short(); i++) {
    order_case(&gpu, &large[i / SKEW_COUNT], (Skew)(i % SKEW_COUNT), false);
  }
  order_case(&gpu, &orders[1], SKEW_ANY, true);
  gpu_close(&gpu);
}

static void orders_compile(void **state) {
  static const char *const both[] = {"sm_90a", "sm_80", NULL};
  bool compiled = true;
  (void)state;
  for (size_t i = 0; i < sizeof large / sizeof *large; i++) {
    const Order o = order_of(&large[i]);
    Arena *arena = arena_create();
    CudaKernel kernel;
    const char *why = NULL;
    assert_true(cuda_order(&o, arena, &kernel, &why));
    cuda_geometry_check(&kernel);
    assert_true(kernel.launch[1].shared_bytes <= 99 * 1024);
    compiled = compiled && cuda_texts_compile("order", &kernel, both);
    arena_destroy(arena);
  }
  Order o = order_of(&large[0]);
  Arena *arena = arena_create();
  CudaKernel kernel;
  const char *why = NULL;
  o.extent = 4097;
  assert_false(cuda_order(&o, arena, &kernel, &why));
  assert_non_null(why);
  arena_destroy(arena);
  if (!compiled) {
    skip();
  }
}

static void same_as_loops(void **state) {
  Gpu gpu;
  (void)state;
  if (!gpu_open_any(&gpu)) {
    skip();
  }
  if (gpu.emulated || gpu.device.major == 9) {
    cases_run(&gpu, wide, sizeof wide / sizeof *wide, &hopper);
  }
  cases_run(&gpu, half, sizeof half / sizeof *half, &ampere);
  cases_run(&gpu, plain, sizeof plain / sizeof *plain, &ampere);
  gpu_close(&gpu);
}

// A block of rows that chose another matrix must not pass.
static void notices_errors(void **state) {
  Gpu gpu;
  (void)state;
  if (!gpu_open_any(&gpu)) {
    skip();
  }
  const Case *const cases[] = {&plain[0], &plain[4], &half[0], &half[4], &wide[0], &wide[6]};
  for (int i = 0; i < (gpu.emulated || gpu.device.major == 9 ? 6 : 4); i++) {
    const Case *c = cases[i];
    Values v = values_create(c, false);
    Run run;
    run_open(&gpu, c, i < 4 ? &ampere : &hopper, &v, &run);
    void *got = run_result(&gpu, &v, &run, true);
    assert_true(look(c, &v, got, false).wrong < 0 && v.chosen[0] >= 0);
    v.chosen[0] = v.chosen[0] == 0 ? 1 : 0;
    assert_true(look(c, &v, got, false).wrong >= 0);
    free(got);
    run_close(&gpu, &run);
    values_destroy(&v);
  }
  gpu_close(&gpu);
}

// --- beside the library ---

// The same product, expert by expert, into memory of its own.
static void *library_result(const Gpu *gpu, Gemms *gemms, const Case *c, const Values *v, const Run *run) {
  const Grouped *g = &v->g;
  const int64_t bytes = v->count[2] * element_type_bytes(g->type_c), narrow = element_type_bytes(g->type);
  const int alignment[GEMM_OPERANDS] = {16, 16, 16, 16};
  const CudaAddress to = gpu_memory(gpu, v->memory[2], bytes),
                    workspace = gpu_memory(gpu, NULL, gemms_workspace(gemms));
  void *got = malloc((size_t)bytes);
  for (int64_t begin = 0, end; begin < c->rows; begin = end) {
    const int64_t matrix = v->chosen[begin / c->block];
    for (end = begin + c->block; end < c->rows && v->chosen[end / c->block] == matrix; end += c->block) {
    }
    if (matrix < 0) {
      continue;
    }
    Gemm gemm = {
        .type = g->type, .type_b = g->type, .type_c = g->type_c, .transpose_a = c->sums, .transpose_b = c->turned};
    const int64_t place[] = {begin * g->lda, c->sums ? begin * g->ldb : matrix * g->stride,
                             c->sums ? matrix * g->stride : begin * g->ldc};
    const CudaAddress at[GEMM_ADDRESSES] = {run->slots[0] + (uint64_t)(place[0] * narrow),
                                            run->slots[1] + (uint64_t)(place[1] * narrow),
                                            to + (uint64_t)(place[2] * element_type_bytes(g->type_c)),
                                            to,
                                            to,
                                            to};
    GemmProblem *problem = NULL;
    Error error;
    gemm.m = c->sums ? c->m : end - begin;
    gemm.n = c->n;
    gemm.k = c->sums ? end - begin : c->k;
    gemm.lda = g->lda;
    gemm.ldb = g->ldb;
    gemm.ldc = g->ldc;
    if (!gemm_prepare(gemms, &gemm, alignment, c->name, &problem, &error) ||
        !gemm_launch(gemms, problem, at, false, workspace, gpu->stream, &error)) {
      fail_msg("%s", error.text);
    }
  }
  gpu_get(gpu, got, to, bytes);
  gpu_free(gpu, to);
  gpu_free(gpu, workspace);
  return got;
}

// Errors are at most twice those of cuBLASLt, and a rounding.
static void as_exact_as_the_library(void **state) {
  static const Case cases[] = {
      {"rows", B16, B16, false, false, 640, 128, 3, 1, 512, 1024, STORE, SKEW_ONE, 1, false},
      {"rows in f32", B16, F32, false, true, 640, 128, 3, 1, 512, 1024, STORE, SKEW_ONE, 2, false},
      {"sums", F16, F16, true, false, 1280, 128, 2, 256, 256, 1, STORE, SKEW_ONE, 1, false},
      {"sums in f32", B16, F32, true, false, 1280, 128, 2, 256, 256, 1, STORE, SKEW_ONE, 2, false}};
  Arena *arena = arena_create();
  Gemms *gemms = NULL;
  Gpu gpu;
  Error error;
  (void)state;
  if (!gpu_open(&gpu) || !gemms_create(&gpu.cuda, &gpu.device, NULL, arena, &gemms, &error)) {
    arena_destroy(arena);
    skip();
  }
  for (int i = 0; i < 8; i++) {
    const Case *c = &cases[i % 4];
    Values v = values_create(c, false);
    Run run;
    run_open(&gpu, c, i < 4 || gpu.device.major != 9 ? &ampere : &hopper, &v, &run);
    void *got = run_result(&gpu, &v, &run, true), *theirs = library_result(&gpu, gemms, c, &v, &run);
    const Found ours = look(c, &v, got, false), its = look(c, &v, theirs, false);
    print_message("%s, %s: errors up to %.3g, the library's %.3g\n", c->name, run.kernel.form, ours.error, its.error);
    assert_true(ours.wrong < 0 && ours.error <= 2 * its.error + place_of(v.g.type_c) * ours.most);
    free(got);
    free(theirs);
    run_close(&gpu, &run);
    values_destroy(&v);
  }
  gemms_destroy(gemms);
  gpu_close(&gpu);
  arena_destroy(arena);
}

static void texts_compile(void **state) {
  static const char *const target[] = {"sm_90a", NULL}, *const both[] = {"sm_90a", "sm_80", NULL};
  static const struct {
    const Case *cases;
    size_t count;
    const CudaTarget *target;
    const char *form;
  } kinds[] = {{wide, sizeof wide / sizeof *wide, &hopper, "warpgroups"},
               {half, sizeof half / sizeof *half, &ampere, "tensor cores"},
               {plain, sizeof plain / sizeof *plain, &ampere, "multiply-add"}};
  bool compiled = true;
  (void)state;
  for (int k = 0; k < 3; k++) {
    for (size_t i = 0; i < kinds[k].count; i++) {
      const Case *c = &kinds[k].cases[i];
      Arena *arena = arena_create();
      CudaKernel kernel;
      kernel_make(c, kinds[k].target, arena, &kernel);
      assert_non_null(strstr(kernel.form, kinds[k].form));
      assert_int_equal(kernel.launch_count, c->sums ? 2 : 1);
      for (int l = 0; l < kernel.launch_count; l++) {
        assert_true((int)kernel.launch[l].shared_bytes <= kinds[k].target->shared_bytes);
      }
      if (k > 0) {
        cuda_geometry_check(&kernel);
      }
      compiled = compiled && cuda_texts_compile(c->name, &kernel, k == 0 ? target : both);
      arena_destroy(arena);
    }
  }
  if (!compiled) {
    skip();
  }
}

static void says_why_not(void **state) {
  Arena *arena = arena_create();
  CudaKernel kernel;
  (void)state;
  for (int i = 0; i < 3; i++) {
    Grouped g = grouped_of(&wide[0]);
    const char *why = NULL;
    g.type = i == 0 ? TYPE_E4M3 : g.type;
    g.n = i == 1 ? (int64_t)1 << 40 : g.n;
    g.rows = i == 2 ? (int64_t)1 << 29 : g.rows;
    g.block = i == 2 ? 1 : g.block;
    g.n = i == 2 ? 1 << 20 : g.n;
    assert_false(cuda_grouped(&g, false, 16, &hopper, arena, &kernel, &why));
    assert_non_null(why);
  }
  arena_destroy(arena);
}

// What is no tile, or does not lie at whole rows, is for other kernels.
static void covers_what_it_can(void **state) {
  Arena *arena = arena_create();
  (void)state;
  for (int i = 0; i < 7; i++) {
    Grouped g = grouped_of(&wide[0]);
    CudaKernel kernel;
    const char *why = NULL;
    g.block = i == 1 ? 64 : g.block;
    g.n = i == 2 ? g.n - 4 : g.n;
    g.lda += i == 3 ? 4 : 0;
    g.stride += i == 4 ? 4 : 0;
    g.type = g.type_c = i == 5 ? F32 : g.type;
    assert_true(cuda_grouped(&g, false, i == 6 ? 8 : 16, &hopper, arena, &kernel, &why));
    assert_true((strstr(kernel.form, "warpgroups") != NULL) == (i == 0));
  }
  arena_destroy(arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(texts_compile),      cmocka_unit_test(says_why_not),
      cmocka_unit_test(covers_what_it_can), cmocka_unit_test(orders_compile),
      cmocka_unit_test(orders_are_stable),  cmocka_unit_test(same_as_loops),
      cmocka_unit_test(notices_errors),     cmocka_unit_test(as_exact_as_the_library),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
