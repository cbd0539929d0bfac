// mixture_test.c: a small mixture of experts as instructions of a plan, against loops over tokens in double: the order
// of rows, rows of positions, a product there and back with the expert of each, the sum of each token's choices, and
// the gradient of the experts' matrices. On the CPU, and on a GPU if there is one.
#include "runtime/cuda/count.h"
#include "tests/cpu_support.h"
#include "tests/grouped_reference.h"

enum { TOKENS = 150, CHOICES = 2, POSITIONS = TOKENS * CHOICES, EXPERTS = 5, EMBED = 64, FFN = 96, BLOCK = 128 };
enum { CAPACITY = (POSITIONS + EXPERTS * (BLOCK - 1)) / BLOCK * BLOCK, MATRIX = EMBED * FFN };

typedef struct {
  Bench *bench;
  ElementType type;
  Place index, place, from, chosen, x, rows, w, h, back, y, dw;
} Mixture;

static uint32_t draw_number(void *random) {
  return (uint32_t)draw(random) >> 1;
}

static Take take_of(ElementType type, int64_t rows, int64_t summed, int64_t extent) {
  const int64_t size[] = {rows, EMBED, CHOICES}, x[] = {0, 1, 0}, index[] = {summed ? CHOICES : 1, 0, 1},
                out[] = {EMBED, 1, 0};
  Take take = {.type = type, .type_out = type, .dim_count = 2 + (int)summed, .summed = (int)summed};
  take.extent = extent;
  take.stride_axis = EMBED;
  memcpy(take.size, size, sizeof size);
  memcpy(take.stride_x, x, sizeof x);
  memcpy(take.stride_index, index, sizeof index);
  memcpy(take.stride_out, out, sizeof out);
  return take;
}

static Grouped grouped_of(ElementType type, ElementType type_c, Place a, Place b, Place c, Place chosen) {
  return (Grouped){.type = type,
                   .type_c = type_c,
                   .rows = CAPACITY,
                   .block = BLOCK,
                   .extent = EXPERTS,
                   .m = 1,
                   .n = FFN,
                   .k = EMBED,
                   .lda = EMBED,
                   .ldb = FFN,
                   .ldc = FFN,
                   .stride = MATRIX,
                   .a = a,
                   .b = b,
                   .c = c,
                   .chosen = chosen};
}

static void products_add(Mixture *m) {
  const ElementType wide = m->type == TYPE_BF16 ? TYPE_F32 : m->type;
  Grouped up = grouped_of(m->type, m->type, m->rows, m->w, m->h, m->chosen), back = up;
  Grouped sum = grouped_of(m->type, wide, m->rows, m->h, m->dw, m->chosen);
  back.a = m->h;
  back.c = m->back;
  back.transpose_b = true;
  back.n = back.ldc = EMBED;
  back.k = back.lda = FFN;
  sum.m = EMBED;
  sum.k = 1;
  bench_add(m->bench, INSTRUCTION_GROUPED)->as.grouped = up;
  bench_add(m->bench, INSTRUCTION_GROUPED)->as.grouped = back;
  bench_add(m->bench, INSTRUCTION_GROUPED_SUM)->as.grouped = sum;
}

static Mixture mixture_make(ElementType type, Skew skew) {
  Mixture m = {.bench = bench_create(), .type = type};
  Bench *bench = m.bench;
  const int64_t bytes = element_type_bytes(type);
  Draw random = {19};
  m.index = bench_place(bench, POSITIONS * 4);
  m.x = bench_place(bench, POSITIONS * EMBED * bytes);
  m.w = bench_place(bench, EXPERTS * MATRIX * bytes);
  m.place = bench_place(bench, POSITIONS * 4);
  m.from = bench_place(bench, CAPACITY * 4);
  m.chosen = bench_place(bench, CAPACITY / BLOCK * 4);
  m.rows = bench_place(bench, CAPACITY * EMBED * bytes);
  m.h = bench_place(bench, CAPACITY * FFN * bytes);
  m.back = bench_place(bench, CAPACITY * EMBED * bytes);
  m.y = bench_place(bench, TOKENS * EMBED * bytes);
  m.dw = bench_place(bench, EXPERTS * MATRIX * 8);
  skew_draw(skew, bench_at(bench, m.index), POSITIONS, EXPERTS, draw_number, &random);
  real_fill(type, bench_at(bench, m.x), POSITIONS * EMBED, &random);
  real_fill(type, bench_at(bench, m.w), EXPERTS * MATRIX, &random);
  bench_add(bench, INSTRUCTION_ORDER)->as.order = (Order){.count = POSITIONS,
                                                          .extent = EXPERTS,
                                                          .block = BLOCK,
                                                          .capacity = CAPACITY,
                                                          .index = m.index,
                                                          .place = m.place,
                                                          .from = m.from,
                                                          .chosen = m.chosen};
  Take rows = take_of(type, CAPACITY, 0, POSITIONS), sums = take_of(type, TOKENS, 1, CAPACITY);
  rows.x = m.x;
  rows.index = m.from;
  rows.out = m.rows;
  sums.x = m.back;
  sums.index = m.place;
  sums.out = m.y;
  bench_add(bench, INSTRUCTION_TAKE)->as.take = rows;
  products_add(&m);
  bench_add(bench, INSTRUCTION_TAKE)->as.take = sums;
  return m;
}

// What the instructions mean, position by position, rounded nowhere.
typedef struct {
  double y[TOKENS * EMBED], dw[EXPERTS * MATRIX];
} Meant;

static Meant *meaning_of(const Mixture *m) {
  Meant *meant = calloc(1, sizeof *meant);
  const int32_t *index = bench_at(m->bench, m->index);
  for (int64_t p = 0; p < POSITIONS; p++) {
    double h[FFN] = {0};
    for (int64_t i = 0; i < MATRIX && index[p] >= 0 && index[p] < EXPERTS; i++) {
      h[i % FFN] += element_at(m->type, bench_at(m->bench, m->x), p * EMBED + i / FFN) *
                    element_at(m->type, bench_at(m->bench, m->w), index[p] * MATRIX + i);
    }
    for (int64_t i = 0; i < MATRIX && index[p] >= 0 && index[p] < EXPERTS; i++) {
      const double w = element_at(m->type, bench_at(m->bench, m->w), index[p] * MATRIX + i);
      meant->y[p / CHOICES * EMBED + i / FFN] += h[i % FFN] * w;
      meant->dw[index[p] * MATRIX + i] +=
          element_at(m->type, bench_at(m->bench, m->x), p * EMBED + i / FFN) * h[i % FFN];
    }
  }
  return meant;
}

// The largest error beside the largest value.
static double error_of(ElementType type, const void *got, const double *meant, int64_t count) {
  double worst = 0, most = 1e-3;
  for (int64_t i = 0; i < count; i++) {
    const double error = fabs(element_at(type, got, i) - meant[i]);
    worst = error <= worst ? worst : isnan(error) ? INFINITY : error;
    most = fmax(most, fabs(meant[i]));
  }
  return worst / most;
}

static double mixture_error(const Mixture *m, const char *after) {
  Meant *meant = meaning_of(m);
  const ElementType wide = m->type == TYPE_BF16 ? TYPE_F32 : m->type;
  const double y = error_of(m->type, after + m->y.offset, meant->y, TOKENS * EMBED);
  const double dw = error_of(wide, after + m->dw.offset, meant->dw, EXPERTS * MATRIX);
  free(meant);
  return fmax(y, dw);
}

static void check(const Backend *backend, ElementType type) {
  const double tolerance = type == TYPE_BF16 ? 1e-2 : type == TYPE_F32 ? 1e-5 : 1e-13;
  for (int skew = 0; skew < SKEW_COUNT; skew++) {
    Mixture m = mixture_make(type, (Skew)skew);
    char *after = bench_run_on(m.bench, backend, 2);
    const double error = mixture_error(&m, after);
    if (!(error <= tolerance)) {
      fail_msg("%s, %s, skew %d: an error of %g", backend->name, element_type_name(type), skew, error);
    }
    if (skew == SKEW_ANY) {  // control: a position of another expert
      int32_t *const index = bench_at(m.bench, m.index);
      index[7] = (index[7] + 2) % EXPERTS;
      assert_true(mixture_error(&m, after) > 2 * tolerance);
    }
    free(after);
    bench_destroy(m.bench);
  }
}

static void on_the_cpu(void **state) {
  (void)state;
  check(&backend_cpu, TYPE_F64);
  check(&backend_cpu, TYPE_F32);
  check(&backend_cpu, TYPE_BF16);
}

static void on_a_gpu(void **state) {
  Error error = {0};
  (void)state;
  if (cuda_count_apart(&error) < 1) {
    print_message("no GPU: %s\n", error.text);
    skip();
  }
  check(&backend_cuda, TYPE_F64);
  check(&backend_cuda, TYPE_F32);
  check(&backend_cuda, TYPE_BF16);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(on_the_cpu), cmocka_unit_test(on_a_gpu)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
