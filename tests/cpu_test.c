// cpu_test.c: the instructions of the CPU backend against plain loops in double, and the backend's errors.
#include "tests/cpu_support.h"
#include "tests/effort.h"

static int64_t product_of(const int64_t *size, int count) {
  int64_t product = 1;
  for (int i = 0; i < count; i++) {
    product *= size[i];
  }
  return product;
}

static int64_t offset_of(const int64_t *size, const int64_t *stride, int count, int64_t at) {
  int64_t offset = 0;
  for (int i = count - 1; i >= 0; i--) {
    offset += at % size[i] * stride[i];
    at /= size[i];
  }
  return offset;
}

static void gemm_element(const Gemm *g, const void *a, const void *b, const char *before, const char *after,
                         const char *bias, const void *const *scales, int64_t batch, int64_t row, int64_t column,
                         bool adds) {
  const int64_t oa = offset_of(g->batch, g->stride_a, g->batch_count, batch);
  const int64_t ob = offset_of(g->batch, g->stride_b, g->batch_count, batch);
  const int64_t at = offset_of(g->batch, g->stride_c, g->batch_count, batch) + row * g->ldc + column;
  double sum = adds   ? element_at(g->type_c, before, at)
               : bias ? element_at(g->type_c, bias, column)
                      : 0,
         size = fabs(sum);
  for (int64_t k = 0; k < g->k; k++) {
    const double x = element_at(g->type, a, oa + (g->transpose_a ? k * g->lda + row : row * g->lda + k));
    const double y = element_at(g->type_b, b, ob + (g->transpose_b ? column * g->ldb + k : k * g->ldb + column));
    const double scale = scale_at(g, true, scales[0], row, k) * scale_at(g, false, scales[1], column, k);
    sum += x * y * scale;
    size += fabs(x * y * scale);
  }
  const double got = element_at(g->type_c, after, at);
  const double rounding = fabs(sum) * (g->type_c == TYPE_BF16 ? 1.0 / 256 : g->type_c == TYPE_F16 ? 1.0 / 2048 : 0);
  if (!(fabs(got - sum) <= (g->type == TYPE_F64 ? 1e-14 : 1e-6) * fmax(size, 1) + rounding)) {
    fail_msg("gemm %dx%dx%d transposed %d %d: [%d, %d, %d] is %.17g, not %.17g", (int)g->m, (int)g->n, (int)g->k,
             g->transpose_a, g->transpose_b, (int)batch, (int)row, (int)column, got, sum);
  }
}

static void check_gemm(Gemm g, bool first, Draw *random) {
  Bench *bench = bench_create();
  const int64_t bytes = element_type_bytes(g.type), bytes_c = element_type_bytes(g.type_c),
                batches = product_of(g.batch, g.batch_count);
  g.lda = (g.transpose_a ? g.m : g.k) + draw_below(random, 3);
  g.ldb = (g.transpose_b ? g.k : g.n) + draw_below(random, 3);
  g.ldc = g.n + draw_below(random, 3);
  const int64_t one_a = g.lda * (g.transpose_a ? g.k : g.m), one_b = g.ldb * (g.transpose_b ? g.n : g.k),
                one_c = g.ldc * g.m;
  int64_t count = 1;
  for (int i = g.batch_count - 1; i >= 0; i--) {
    g.stride_a[i] = one_a * count;
    g.stride_b[i] = i == 0 && g.batch_count > 1 ? 0 : one_b * count;  // b shared along the outer batch dim
    g.stride_c[i] = one_c * count;
    count *= g.batch[i];
  }
  g.a = bench_place(bench, one_a * batches * bytes);
  g.b = bench_place(bench, one_b * batches * bytes);
  g.c = bench_place(bench, one_c * batches * bytes_c);
  real_fill(g.type, bench_at(bench, g.a), one_a * batches, random);
  real_fill(g.type_b, bench_at(bench, g.b), one_b * batches, random);
  const bool adds = g.write == WRITE_ADD || (g.write == WRITE_ADD_AFTER_FIRST && !first);
  if (adds) {
    real_fill(g.type_c, bench_at(bench, g.c), one_c * batches, random);
  }
  if (gemm_scaled(&g)) {
    g.scale_a = bench_place(bench, scale_count(&g, true) * 4);
    g.scale_b = bench_place(bench, scale_count(&g, false) * 4);
    real_fill(TYPE_F32, bench_at(bench, g.scale_a), scale_count(&g, true), random);
    real_fill(TYPE_F32, bench_at(bench, g.scale_b), scale_count(&g, false), random);
  }
  if (g.epilogue == EPILOGUE_BIAS) {
    g.bias = bench_place(bench, g.n * bytes_c);
    real_fill(g.type_c, bench_at(bench, g.bias), g.n, random);
  }
  const void *const scales[] = {bench_at(bench, g.scale_a), bench_at(bench, g.scale_b)};
  bench_add(bench, INSTRUCTION_GEMM)->as.gemm = g;
  bench->call.first = first;
  char *after = bench_run_threads(bench);
  for (int64_t i = 0; i < batches * g.m * g.n; i += 1 + batches * g.m * g.n / 3000) {
    gemm_element(&g, bench_at(bench, g.a), bench_at(bench, g.b), bench_at(bench, g.c), after + g.c.offset,
                 g.epilogue == EPILOGUE_BIAS ? bench_at(bench, g.bias) : NULL, scales, i / g.n / g.m, i / g.n % g.m,
                 i % g.n, adds);
  }
  assert_memory_equal(after, bench->image, (size_t)g.c.offset);  // operands untouched
  free(after);
  bench_destroy(bench);
}

static void products(void **state) {
  (void)state;
  static const int64_t shapes[][3] = {{1, 1, 1},     {3, 5, 7},      {1, 40, 33},     {65, 1, 70},     {70, 50, 129},
                                      {600, 30, 40}, {30, 1600, 20}, {530, 1570, 17}, {200, 200, 200}, {40, 50, 1100}};
  static const ElementType types[][3] = {{TYPE_F32, TYPE_F32, TYPE_F32},    {TYPE_F64, TYPE_F64, TYPE_F64},
                                         {TYPE_BF16, TYPE_BF16, TYPE_F32},  {TYPE_BF16, TYPE_BF16, TYPE_BF16},
                                         {TYPE_F16, TYPE_F16, TYPE_F16},    {TYPE_E4M3, TYPE_E4M3, TYPE_BF16},
                                         {TYPE_E5M2, TYPE_E4M3, TYPE_BF16}, {TYPE_E4M3, TYPE_E5M2, TYPE_F32}};
  Draw random = {1};
  for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
    for (int form = 0; form < 4 * (int)(sizeof types / sizeof types[0]); form++) {
      if (effort_samples_out(s + (size_t)form, 5)) {
        continue;
      }
      Gemm g = {.type = types[form >> 2][0],
                .type_b = types[form >> 2][1],
                .type_c = types[form >> 2][2],
                .transpose_a = form & 1,
                .transpose_b = form >> 1 & 1};
      g.m = shapes[s][0];
      g.n = shapes[s][1];
      g.k = shapes[s][2];
      g.write = (WriteMode)(s % 3);
      check_gemm(g, form & 1, &random);
      g.write = WRITE_STORE;
      g.epilogue = gemm_scaled(&g) && g.type_c == TYPE_F32 ? EPILOGUE_NONE : EPILOGUE_BIAS;
      check_gemm(g, form & 1, &random);
      g.epilogue = EPILOGUE_NONE;
      g.write = (WriteMode)((s + 1) % 3);
      if (g.m * g.n * g.k < 1000000) {
        g.batch_count = 1 + (int)(s % 3);
        const int64_t batch[4] = {3, 2, 5};
        memcpy(g.batch, batch, sizeof batch);
        check_gemm(g, !(form & 1), &random);
      }
    }
  }
}

// One scale for each 128 elements along k, or for each 128 by 128 of one operand; blocks that tiles cut, and several.
static void products_of_blocks(void **state) {
  (void)state;
  static const int64_t shapes[][3] = {{128, 128, 128}, {256, 384, 640}, {640, 128, 256}, {128, 1792, 1152}};
  static const ElementType types[][3] = {
      {TYPE_E4M3, TYPE_E4M3, TYPE_BF16}, {TYPE_E5M2, TYPE_E4M3, TYPE_F32}, {TYPE_E4M3, TYPE_E5M2, TYPE_BF16}};
  Draw random = {3};
  for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
    for (int form = 0; form < 12; form++) {
      if (effort_samples_out(s + (size_t)form, 5)) {
        continue;
      }
      Gemm g = {.type = types[s % 3][0],
                .type_b = types[s % 3][1],
                .type_c = types[s % 3][2],
                .transpose_a = form & 1,
                .transpose_b = form >> 1 & 1,
                .write = (WriteMode)(form % 3)};
      const int vectors = form / 4 == 0;  // outer sizes that make no blocks
      g.m = shapes[s][0] - 60 * vectors;
      g.n = shapes[s][1] - 28 * vectors;
      g.k = shapes[s][2];
      set_blocks(&g, form / 4);
      check_gemm(g, form & 1, &random);
    }
  }
}

// TAKE and PUT over dims [size], where `axis_of` says which dims of out x has besides the indexed one.
typedef struct {
  int dim_count;
  int64_t size[4];
  unsigned in_x, in_index;  // bits of dims
  int64_t extent;
  bool axis_last;  // the indexed axis is the innermost of x
} TakeCase;

static Take take_of(Bench *bench, const TakeCase *c, ElementType type, ElementType type_out, Draw *random) {
  Take t = {.type = type, .type_out = type_out, .dim_count = c->dim_count, .extent = c->extent};
  int64_t x = c->axis_last ? c->extent : 1, index = 1, out = 1;
  t.stride_axis = 1;
  for (int d = c->dim_count - 1; d >= 0; d--) {
    t.size[d] = c->size[d];
    t.stride_out[d] = out;
    out *= c->size[d];
    t.stride_x[d] = c->in_x >> d & 1 ? x : 0;
    x *= c->in_x >> d & 1 ? c->size[d] : 1;
    t.stride_index[d] = c->in_index >> d & 1 ? index : 0;
    index *= c->in_index >> d & 1 ? c->size[d] : 1;
  }
  if (!c->axis_last) {
    t.stride_axis = x;
    x *= c->extent;
  }
  t.x_elements = x;
  t.x = bench_place(bench, x * element_type_bytes(type));
  t.index = bench_place(bench, index * 4);
  t.out = bench_place(bench, out * element_type_bytes(type_out));
  for (int64_t i = 0; i < index; i++) {
    element_set_at(TYPE_INDEX, bench_at(bench, t.index), i, (double)(draw_below(random, c->extent + 2) - 1));
  }
  return t;
}

static void check_take(const TakeCase *c, ElementType type, ElementType type_out, Draw *random) {
  Bench *bench = bench_create();
  const Take t = take_of(bench, c, type, type_out, random);
  real_fill(type, bench_at(bench, t.x), t.x_elements, random);
  bench_add(bench, INSTRUCTION_TAKE)->as.take = t;
  char *after = bench_run_threads(bench);
  for (int64_t i = 0; i < product_of(t.size, t.dim_count); i++) {
    const int64_t place =
        ((const int32_t *)bench_at(bench, t.index))[offset_of(t.size, t.stride_index, t.dim_count, i)];
    const int64_t from = offset_of(t.size, t.stride_x, t.dim_count, i) + place * t.stride_axis;
    const double wanted = place >= 0 && place < t.extent ? element_at(type, bench_at(bench, t.x), from) : 0;
    const double got = element_at(type_out, after + t.out.offset, offset_of(t.size, t.stride_out, t.dim_count, i));
    assert_true(type_out == TYPE_BF16 && type != type_out ? fabs(got - wanted) <= fabs(wanted) / 256 : got == wanted);
  }
  free(after);
  bench_destroy(bench);
}

static void check_put(const TakeCase *c, ElementType type, ElementType source, WriteMode write, bool first,
                      Draw *random) {
  Bench *bench = bench_create();
  Take t = take_of(bench, c, type, source, random);
  t.write = write;
  const bool adds = write == WRITE_ADD || (write == WRITE_ADD_AFTER_FIRST && !first);
  double *wanted = calloc((size_t)t.x_elements, sizeof *wanted);
  if (adds) {
    real_fill(type, bench_at(bench, t.x), t.x_elements, random);
  }
  for (int64_t i = 0; adds && i < t.x_elements; i++) {
    wanted[i] = element_at(type, bench_at(bench, t.x), i);
  }
  real_fill(source, bench_at(bench, t.out), product_of(t.size, t.dim_count), random);
  for (int64_t i = 0; i < product_of(t.size, t.dim_count); i++) {
    const int64_t place =
        ((const int32_t *)bench_at(bench, t.index))[offset_of(t.size, t.stride_index, t.dim_count, i)];
    if (place >= 0 && place < t.extent) {
      wanted[offset_of(t.size, t.stride_x, t.dim_count, i) + place * t.stride_axis] +=
          element_at(source, bench_at(bench, t.out), offset_of(t.size, t.stride_out, t.dim_count, i));
    }
  }
  bench_add(bench, INSTRUCTION_PUT)->as.take = t;
  bench->call.first = first;
  char *after = bench_run_threads(bench);
  for (int64_t i = 0; i < t.x_elements; i++) {
    if (!real_near(element_at(type, after + t.x.offset, i), wanted[i], type == TYPE_F32 ? 1e-5 : 1e-14)) {
      fail_msg("put: element %d is %g, not %g", (int)i, element_at(type, after + t.x.offset, i), wanted[i]);
    }
  }
  free(wanted);
  free(after);
  bench_destroy(bench);
}

static const TakeCase take_cases[] = {
    {2, {37, 70}, 2, 1, 11, false},     // embedding: table [11, 70], tokens [37]
    {3, {5, 9, 300}, 4, 3, 7, false},   // tokens [5, 9]
    {2, {6, 9}, 3, 3, 13, true},        // pick: logits [6, 9, 13], targets [6, 9]
    {1, {50}, 0, 1, 8, false},          // a histogram: nothing of x but the axis
    {3, {4, 6, 5}, 5, 2, 10, false},    // x [10, 4, 5], index in the middle
    {2, {3000, 3}, 2, 1, 4, true},      // the axis innermost, lines not contiguous
    {4, {2, 3, 4, 5}, 10, 5, 6, true},  // dims taking turns
    {1, {1}, 0, 0, 3, false},
};

static void takes_and_puts(void **state) {
  (void)state;
  Draw random = {2};
  for (size_t i = 0; i < sizeof take_cases / sizeof take_cases[0]; i++) {
    for (int k = 0; k < 6; k++) {
      const ElementType type = k % 3 == 0 ? TYPE_F32 : k % 3 == 1 ? TYPE_F64 : TYPE_INT;
      const ElementType other = k % 3 < 2 ? TYPE_BF16 : TYPE_INT;
      check_take(&take_cases[i], type, type, &random);
      check_take(&take_cases[i], type, other, &random);
      check_take(&take_cases[i], other, type, &random);
      check_put(&take_cases[i], type, type, (WriteMode)(k % 3), k < 3, &random);
      check_put(&take_cases[i], type, other, (WriteMode)((k + 1) % 3), k >= 3, &random);
    }
  }
}

static void check_window(int dim_count, const int64_t *size, int windowed, int64_t taps, bool fold, ElementType type,
                         Draw *random) {
  Bench *bench = bench_create();
  Window w = {.type = type, .dim_count = dim_count, .windowed = windowed, .taps = taps};
  const int64_t total = product_of(size, dim_count);
  int64_t stride = 1;
  for (int d = dim_count - 1; d >= 0; d--) {
    w.size[d] = size[d];
    w.stride_x[d] = stride;
    w.stride_out[d] = stride * (d < dim_count - 1 || draw_below(random, 2) ? taps : 1);
    stride *= size[d];
  }
  w.stride_tap = w.stride_out[dim_count - 1] == taps ? 1 : size[dim_count - 1];
  w.x = bench_place(bench, total * element_type_bytes(type));
  w.out = bench_place(bench, total * taps * element_type_bytes(type));
  real_fill(type, bench_at(bench, fold ? w.out : w.x), total * (fold ? taps : 1), random);
  bench_add(bench, fold ? INSTRUCTION_FOLD : INSTRUCTION_WINDOW)->as.window = w;
  char *after = bench_run_threads(bench);
  int64_t inner = product_of(size + windowed + 1, dim_count - windowed - 1);
  for (int64_t i = 0; i < total; i++) {
    const int64_t s = i / inner % size[windowed], out = offset_of(size, w.stride_out, dim_count, i);
    double sum = 0;
    for (int64_t t = 0; t < taps; t++) {
      const int64_t back = s + t - (taps - 1), ahead = s - t + taps - 1;
      if (!fold) {
        const double wanted = back >= 0 ? element_at(type, bench_at(bench, w.x), i + (back - s) * inner) : 0;
        assert_true(element_at(type, after + w.out.offset, out + t * w.stride_tap) == wanted);
      } else if (ahead < size[windowed]) {
        const int64_t at = out + (ahead - s) * w.stride_out[windowed] + t * w.stride_tap;
        sum += element_at(type, bench_at(bench, w.out), at);
      }
    }
    assert_true(!fold || real_near(element_at(type, after + w.x.offset, i), sum, 1e-6));
  }
  free(after);
  bench_destroy(bench);
}

static void windows(void **state) {
  (void)state;
  static const int64_t sizes[][3] = {{3, 9, 5}, {2, 4, 70}, {1, 1, 1}, {40, 30, 20}};
  Draw random = {3};
  for (int i = 0; i < 4; i++) {
    for (int dims = 1; dims <= 3; dims++) {
      for (int windowed = 0; windowed < dims; windowed++) {
        for (int64_t taps = 1; taps <= 6; taps += 5) {
          check_window(dims, sizes[i], windowed, taps, false, TYPE_F32, &random);
          check_window(dims, sizes[i], windowed, taps, true, TYPE_F32, &random);
          check_window(dims, sizes[i], windowed, taps, true, TYPE_F64, &random);
        }
      }
    }
  }
}

// --- squares ---

enum { SQUARES_PARTS = 5 };

// Parts of these lengths, in this order in memory, with `gap` elements before each; results and their bits.
static void squares_of(ElementType type, const int64_t *count, int64_t gap, void *out) {
  Bench *bench = bench_create();
  PlanRange part[SQUARES_PARTS];
  int64_t at = 0;
  for (int i = 0; i < SQUARES_PARTS; i++) {
    part[i] = (PlanRange){at, count[i]};
    at += count[i] + gap;
  }
  const int64_t bytes = element_type_bytes(type);
  Squares s = {.type = type, .part_count = SQUARES_PARTS, .part = part};
  s.from = bench_place(bench, at * bytes);
  s.to = bench_place(bench, SQUARES_PARTS * bytes);
  for (int i = 0; i < SQUARES_PARTS; i++) {  // the same numbers wherever they lie; gaps stay poisoned
    Draw random = {(uint64_t)i};
    real_fill(type, (char *)bench_at(bench, s.from) + part[i].first * bytes, count[i], &random);
  }
  bench_add(bench, INSTRUCTION_SQUARES)->as.squares = s;
  char *after = bench_run_threads(bench);
  memcpy(out, after + s.to.offset, (size_t)(SQUARES_PARTS * bytes));
  for (int i = 0; i < SQUARES_PARTS; i++) {
    double sum = 0;
    for (int64_t e = 0; e < count[i]; e++) {
      const double x = element_at(type, bench_at(bench, s.from), part[i].first + e);
      sum += x * x;
    }
    assert_true(real_near(element_at(type, out, i) / sum, 1, type == TYPE_F64 ? 1e-13 : 1e-7));
  }
  free(after);
  bench_destroy(bench);
}

// Each part is the sum of its own squares, to the same bits wherever it lies.
static void squares(void **state) {
  (void)state;
  static const int64_t counts[][SQUARES_PARTS] = {{1, 2, 3, 7, 8}, {9, 8192, 8193, 1, 100}, {70000, 1, 16384, 15, 3}};
  for (int i = 0; i < 3; i++) {
    for (int wide = 0; wide < 2; wide++) {
      double near[SQUARES_PARTS] = {0}, far[SQUARES_PARTS] = {0};
      squares_of(wide ? TYPE_F64 : TYPE_F32, counts[i], 0, near);
      squares_of(wide ? TYPE_F64 : TYPE_F32, counts[i], 3, far);
      assert_memory_equal(near, far, sizeof near);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(products),       cmocka_unit_test(products_of_blocks),
      cmocka_unit_test(takes_and_puts), cmocka_unit_test(windows),
      cmocka_unit_test(squares),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
