// cuda_squares_test.c: squares of parts as CUDA C: the text compiles everywhere; on a GPU, or emulated, the sums of the
// CPU's kernel, to the same bits wherever a part lies.
#include "kernels/cuda/squares.h"

#include "tests/cpu_support.h"
#include "tests/cuda_support.h"

enum { PARTS = 4 };

typedef struct {
  const char *name;
  ElementType type;
  int64_t count[PARTS];
} Case;

static const Case cases[] = {
    {"small", TYPE_F32, {1, 3, 4, 1600}},
    {"chunks", TYPE_F32, {32768, 32769, 5, 70000}},
    {"wide", TYPE_F64, {2, 32771, 1, 9}},
};

// Parts one after the other, each `gap` elements behind the one before.
static void parts_set(const Case *c, int64_t gap, PlanRange *part) {
  for (int i = 0; i < PARTS; i++) {
    part[i] = (PlanRange){i == 0 ? 0 : part[i - 1].first + part[i - 1].count + gap, c->count[i]};
  }
}

static void kernel_make(const Case *c, PlanRange *part, Arena *arena, CudaKernel *kernel) {
  const Squares squares = {.type = c->type, .part_count = PARTS, .part = part};
  const char *why = NULL;
  if (!cuda_squares(&squares, arena, kernel, &why)) {
    fail_msg("%s: %s", c->name, why);
  }
}

// The sums of the parts; with `wrong`, one element of the last part is another.
static void sums_make(const Gpu *gpu, const Case *c, int64_t gap, bool wrong, void *out) {
  Arena *arena = arena_create();
  PlanRange part[PARTS];
  CudaKernel kernel;
  const int64_t bytes = element_type_bytes(c->type);
  parts_set(c, gap, part);
  const int64_t all = part[PARTS - 1].first + part[PARTS - 1].count;
  char *from = malloc((size_t)(all * bytes));
  memset(from, 0xff, (size_t)(all * bytes));
  for (int i = 0; i < PARTS; i++) {
    Draw random = {(uint64_t)i};
    real_fill(c->type, from + part[i].first * bytes, part[i].count, &random);
  }
  if (wrong) {
    element_set_at(c->type, from, all - 1, 2);
  }
  kernel_make(c, part, arena, &kernel);
  const GpuKernel loaded = gpu_load(gpu, c->name, &kernel);
  uint64_t slots[8] = {gpu_memory(gpu, from, all * bytes), gpu_memory(gpu, NULL, PARTS * bytes)};
  gpu_run(gpu, &loaded, slots, true);
  gpu_get(gpu, out, slots[1], PARTS * bytes);
  gpu_free(gpu, slots[0]);
  gpu_free(gpu, slots[1]);
  gpu_unload(gpu, &loaded);
  free(from);
  arena_destroy(arena);
}

// How far the furthest sum is from what plain loops make of the same numbers, relative.
static double error_of(const Case *c, const void *sums) {
  double most = 0;
  for (int i = 0; i < PARTS; i++) {
    char *x = malloc((size_t)c->count[i] * 8);
    Draw random = {(uint64_t)i};
    double sum = 0;
    real_fill(c->type, x, c->count[i], &random);
    for (int64_t e = 0; e < c->count[i]; e++) {
      sum += element_at(c->type, x, e) * element_at(c->type, x, e);
    }
    most = fmax(most, fabs(element_at(c->type, sums, i) / sum - 1));
    free(x);
  }
  return most;
}

static void sums_are_right(void **state) {
  Gpu gpu;
  (void)state;
  if (!gpu_open_any(&gpu)) {
    skip();
  }
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const Case *c = &cases[i];
    const double budget = c->type == TYPE_F64 ? 1e-13 : 1e-6;
    double near[PARTS] = {0}, far[PARTS] = {0}, wrong[PARTS] = {0};
    sums_make(&gpu, c, 0, false, near);
    sums_make(&gpu, c, 3, false, far);
    sums_make(&gpu, c, 0, true, wrong);
    assert_true(error_of(c, near) < budget);
    assert_memory_equal(near, far, sizeof near);
    assert_true(error_of(c, wrong) > budget);
  }
  gpu_close(&gpu);
}

static void texts_compile(void **state) {
  static const char *const both[] = {"sm_90a", "sm_80", NULL};
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    Arena *arena = arena_create();
    PlanRange part[PARTS];
    CudaKernel kernel;
    parts_set(&cases[i], 1, part);
    kernel_make(&cases[i], part, arena, &kernel);
    cuda_geometry_check(&kernel);
    assert_int_equal(kernel.launch_count, 2);
    const bool compiled = cuda_texts_compile(cases[i].name, &kernel, both);
    arena_destroy(arena);
    if (!compiled) {
      skip();
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(texts_compile), cmocka_unit_test(sums_are_right)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
