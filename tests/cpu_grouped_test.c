// cpu_grouped_test.c: on the CPU, rows ordered by index, their products with chosen matrices and takes that sum,
// against plain loops in double, at every skew of the indices.
#include "tests/cpu_support.h"
#include "tests/grouped_reference.h"

static uint32_t draw_number(void *random) {
  return (uint32_t)draw(random) >> 1;
}

// --- ORDER ---

static Order order_of(Bench *bench, int64_t count, int64_t extent, int64_t block, int64_t capacity) {
  return (Order){.count = count,
                 .extent = extent,
                 .block = block,
                 .capacity = capacity,
                 .index = bench_place(bench, count * 4),
                 .place = bench_place(bench, count * 4),
                 .from = bench_place(bench, capacity * 4),
                 .chosen = bench_place(bench, capacity / block * 4)};
}

static void check_order(int64_t count, int64_t extent, int64_t block, int64_t capacity, Skew skew, Draw *random) {
  Bench *bench = bench_create();
  const Order o = order_of(bench, count, extent, block, capacity);
  const int64_t blocks = capacity / block;
  int32_t *wanted = calloc((size_t)(count + capacity + blocks), sizeof *wanted);
  int32_t *const from = wanted + count, *const chosen = from + capacity;
  skew_draw(skew, bench_at(bench, o.index), count, extent, draw_number, random);
  order_plain(&o, bench_at(bench, o.index), wanted, from, chosen);
  bench_add(bench, INSTRUCTION_ORDER)->as.order = o;
  char *after = bench_run_threads(bench);
  assert_memory_equal(after + o.place.offset, wanted, (size_t)count * 4);
  assert_memory_equal(after + o.from.offset, from, (size_t)capacity * 4);
  assert_memory_equal(after + o.chosen.offset, chosen, (size_t)blocks * 4);
  assert_memory_equal(after, bench->image, (size_t)o.place.offset);  // the indices are as they were
  free(after);
  free(wanted);
  bench_destroy(bench);
}

static void orders(void **state) {
  (void)state;
  static const int64_t cases[][3] = {{1, 1, 1}, {40, 5, 1}, {300, 7, 8}, {1000, 64, 16}, {90, 200, 4}, {257, 3, 128}};
  Draw random = {5};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const int64_t *c = cases[i], most = order_holding(c[0], c[1], c[2]);
    for (int skew = 0; skew < SKEW_COUNT; skew++) {
      check_order(c[0], c[1], c[2], most, (Skew)skew, &random);
      check_order(c[0], c[1], c[2], c[2] * (1 + most / c[2] / 3), (Skew)skew, &random);  // too few rows
    }
  }
}

// --- GROUPED, GROUPED_SUM ---

typedef struct {
  int64_t rows, block, extent, m, n, k;
} Shape;

typedef struct {
  Bench *bench;
  Grouped g;
  bool sums, adds;
} Trial;

static int64_t elements_of(const Trial *t, char which) {
  const Grouped *g = &t->g;
  const int64_t lines = which == 'b' && g->transpose_b ? g->n : t->sums ? g->m : g->k;
  const int64_t ld = which == 'b' ? g->ldb : g->ldc;
  if (which == 'a') {
    return g->rows * g->lda;
  }
  return (which == 'c') == t->sums ? (g->extent - 1) * g->stride + lines * ld : g->rows * ld;
}

static Trial trial_create(const Shape *shape, bool sums, bool turned, bool interleaved, const ElementType *types,
                          WriteMode write, bool first, Skew skew, Draw *random) {
  Trial t = {.bench = bench_create(), .sums = sums};
  Grouped *g = &t.g;
  *g = (Grouped){.type = types[0], .type_c = types[1], .transpose_b = turned && !sums, .write = write};
  g->rows = shape->rows;
  g->block = shape->block;
  g->extent = shape->extent;
  g->m = sums ? shape->m : 1;
  g->n = shape->n;
  g->k = sums ? 1 : shape->k;
  const int64_t line = g->transpose_b ? g->k : g->n, lines = g->transpose_b ? g->n : sums ? g->m : g->k;
  int64_t *const ld = sums ? &g->ldc : &g->ldb;
  g->lda = (sums ? g->m : g->k) + draw_below(random, 3);
  g->ldb = g->ldc = g->n + draw_below(random, 3);
  *ld = interleaved ? line * g->extent + 1 : line + draw_below(random, 3);
  g->stride = interleaved ? line : lines * *ld + draw_below(random, 5);
  t.adds = write == WRITE_ADD || (write == WRITE_ADD_AFTER_FIRST && !first);
  g->a = bench_place(t.bench, elements_of(&t, 'a') * element_type_bytes(g->type));
  g->b = bench_place(t.bench, elements_of(&t, 'b') * element_type_bytes(g->type));
  g->chosen = bench_place(t.bench, g->rows / g->block * 4);
  g->c = bench_place(t.bench, elements_of(&t, 'c') * element_type_bytes(g->type_c));
  real_fill(g->type, bench_at(t.bench, g->a), elements_of(&t, 'a'), random);
  real_fill(g->type, bench_at(t.bench, g->b), elements_of(&t, 'b'), random);
  if (t.adds) {
    real_fill(g->type_c, bench_at(t.bench, g->c), elements_of(&t, 'c'), random);
  }
  // As an order of some positions leaves it.
  const int64_t count = g->rows - g->extent * (g->block - 1) / 2;
  const Order o = {.count = count > 0 ? count : 1, .extent = g->extent, .block = g->block, .capacity = g->rows};
  int32_t *table = calloc((size_t)(2 * o.count + o.capacity), sizeof *table);
  skew_draw(skew, table, o.count, o.extent, draw_number, random);
  order_plain(&o, table, table + o.count, table + 2 * o.count, bench_at(t.bench, g->chosen));
  free(table);
  return t;
}

static bool element_holds(const Trial *t, const char *after, int64_t matrix, int64_t row, int64_t column) {
  const Grouped *g = &t->g;
  const int64_t at = (t->sums ? matrix * g->stride : 0) + row * g->ldc + column;
  const double before = t->adds ? element_at(g->type_c, bench_at(t->bench, g->c), at) : 0;
  const double got = element_at(g->type_c, after + g->c.offset, at);
  const Product product = product_plain(g, t->sums, bench_at(t->bench, g->a), bench_at(t->bench, g->b),
                                        bench_at(t->bench, g->chosen), matrix, row, column);
  const double sum = before + product.sum, size = fmax(fabs(before) + product.size, 1);
  const double digit = g->type_c == TYPE_BF16 ? 1.0 / 256 : g->type_c == TYPE_F16 ? 1.0 / 2048 : 0;
  const double tolerance = product.there ? (g->type == TYPE_F64 ? 1e-14 : 1e-6) * size + digit * fabs(sum) : 0;
  return fabs(got - sum) <= tolerance;
}

// Of some of the elements; -1: all hold.
static int64_t first_wrong(const Trial *t, const char *after) {
  const int64_t matrices = t->sums ? t->g.extent : 1, rows = t->sums ? t->g.m : t->g.rows,
                all = matrices * rows * t->g.n;
  for (int64_t i = 0; i < all; i += 1 + all / 2000) {
    if (!element_holds(t, after, i / t->g.n / rows, i / t->g.n % rows, i % t->g.n)) {
      return i;
    }
  }
  return -1;
}

static void check_grouped(const Shape *shape, int form, Draw *random) {
  static const ElementType types[][2] = {
      {TYPE_F32, TYPE_F32}, {TYPE_F64, TYPE_F64}, {TYPE_BF16, TYPE_F32}, {TYPE_BF16, TYPE_BF16}, {TYPE_F16, TYPE_F16}};
  const bool sums = form & 1, first = form & 4;
  const Trial t = trial_create(shape, sums, form & 2, form % 7 == 3, types[form % 5], (WriteMode)(form % 3), first,
                               (Skew)(form / 4 % SKEW_COUNT), random);
  Instruction *instruction = bench_add(t.bench, sums ? INSTRUCTION_GROUPED_SUM : INSTRUCTION_GROUPED);
  instruction->as.grouped = t.g;
  t.bench->call.first = first;
  char *after = bench_run_threads(t.bench);
  const int64_t wrong = first_wrong(&t, after);
  if (wrong >= 0) {
    fail_msg("form %d, %d of %dx%dx%d, rows %d: element %d is wrong", form, (int)shape->extent, (int)shape->m,
             (int)shape->n, (int)shape->k, (int)shape->rows, (int)wrong);
  }
  assert_memory_equal(after, t.bench->image, (size_t)t.g.c.offset);  // operands untouched
  free(after);
  bench_destroy(t.bench);
}

static void products(void **state) {
  (void)state;
  static const Shape shapes[] = {
      {1, 1, 1, 1, 1, 1},       {24, 4, 3, 5, 7, 9},    {128, 16, 5, 33, 17, 40},
      {640, 128, 4, 20, 30, 8}, {96, 8, 20, 3, 50, 11}, {1536, 512, 2, 10, 12, 530},
  };
  Draw random = {7};
  for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
    for (int form = 0; form < 60; form++) {
      check_grouped(&shapes[s], form, &random);
    }
  }
}

// A block that chose another matrix must not pass, in either product.
static void notices_errors(void **state) {
  (void)state;
  static const Shape shape = {64, 8, 6, 9, 10, 11};
  static const ElementType types[] = {TYPE_F64, TYPE_F64};
  Draw random = {13};
  for (int sums = 0; sums < 2; sums++) {
    const Trial t = trial_create(&shape, sums, false, false, types, WRITE_STORE, true, SKEW_ANY, &random);
    Instruction *instruction = bench_add(t.bench, sums ? INSTRUCTION_GROUPED_SUM : INSTRUCTION_GROUPED);
    instruction->as.grouped = t.g;
    char *after = bench_run_threads(t.bench);
    int32_t *const chosen = bench_at(t.bench, t.g.chosen);
    assert_true(first_wrong(&t, after) < 0 && chosen[1] >= 0);
    chosen[1] = (chosen[1] + 1) % (int32_t)shape.extent;
    assert_true(first_wrong(&t, after) >= 0);
    free(after);
    bench_destroy(t.bench);
  }
}

// --- TAKE with dims that are summed ---

// Tokens of `choices` rows each, `width` long, of a table whose rows are `apart`; of the width some may be chosen by
// the index, too.
typedef struct {
  int64_t tokens, choices, width, extent;
  bool picks;  // the index varies along the width
} SumCase;

static void check_sum(const SumCase *c, ElementType type, ElementType type_out, Draw *random) {
  Bench *bench = bench_create();
  Take t = {.type = type, .type_out = type_out, .dim_count = 4, .summed = 2, .extent = c->extent};
  const int64_t half = c->choices % 2 ? 1 : 2, size[] = {c->tokens, c->width, half, c->choices / half};
  const int64_t index_width = c->picks ? c->width : 1, indices = c->tokens * c->choices * index_width;
  const int64_t stride_index[] = {c->choices * index_width, c->picks ? 1 : 0, c->choices / half * index_width,
                                  index_width};
  const int64_t stride_x[] = {0, 1, 0, 0}, stride_out[] = {c->width + 1, 1, 0, 0};
  memcpy(t.size, size, sizeof size);
  memcpy(t.stride_index, stride_index, sizeof stride_index);
  memcpy(t.stride_x, stride_x, sizeof stride_x);
  memcpy(t.stride_out, stride_out, sizeof stride_out);
  t.stride_axis = c->width + 3;
  t.x = bench_place(bench, c->extent * t.stride_axis * element_type_bytes(type));
  t.index = bench_place(bench, indices * 4);
  t.out = bench_place(bench, c->tokens * stride_out[0] * element_type_bytes(type_out));
  real_fill(type, bench_at(bench, t.x), c->extent * t.stride_axis, random);
  int32_t *const index = bench_at(bench, t.index);
  for (int64_t i = 0; i < indices; i++) {
    index[i] = (int32_t)(draw_below(random, c->extent + 2) - 1);
  }
  bench_add(bench, INSTRUCTION_TAKE)->as.take = t;
  char *after = bench_run_threads(bench);
  for (int64_t i = 0; i < c->tokens * c->width; i++) {
    const int64_t token = i / c->width, column = i % c->width;
    double sum = 0, terms = 0;
    for (int64_t choice = 0; choice < c->choices; choice++) {
      const int64_t row = index[(token * c->choices + choice) * index_width + (c->picks ? column : 0)];
      if (row >= 0 && row < c->extent) {
        sum += element_at(type, bench_at(bench, t.x), row * t.stride_axis + column);
        terms += fabs(element_at(type, bench_at(bench, t.x), row * t.stride_axis + column));
      }
    }
    const double got = element_at(type_out, after + t.out.offset, token * stride_out[0] + column);
    const bool wide = type == TYPE_F64 && type_out == TYPE_F64;
    const double tolerance = (wide ? 1e-15 : 1e-6) * terms + (type_out == TYPE_BF16 ? fabs(sum) / 256 : 0);
    if (!(fabs(got - sum) <= tolerance)) {
      fail_msg("sum of %d at [%d, %d] is %.17g, not %.17g", (int)c->choices, (int)token, (int)column, got, sum);
    }
  }
  free(after);
  bench_destroy(bench);
}

static void sums(void **state) {
  (void)state;
  static const SumCase cases[] = {{1, 1, 1, 1, false},
                                  {30, 8, 300, 50, false},
                                  {200, 3, 7, 11, false},
                                  {9, 6, 40, 20, true},
                                  {2, 1000, 5, 9, false}};
  static const ElementType types[][2] = {{TYPE_F32, TYPE_F32},  {TYPE_F64, TYPE_F64},  {TYPE_BF16, TYPE_BF16},
                                         {TYPE_BF16, TYPE_F32}, {TYPE_F32, TYPE_BF16}, {TYPE_F32, TYPE_F64}};
  Draw random = {11};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    for (size_t k = 0; k < sizeof types / sizeof *types; k++) {
      check_sum(&cases[i], types[k][0], types[k][1], &random);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(orders),
      cmocka_unit_test(products),
      cmocka_unit_test(notices_errors),
      cmocka_unit_test(sums),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
