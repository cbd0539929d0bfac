// cpu_backend_test.c: whole programs on the CPU backend (slots, first calls, states), its errors, its pool, and fused
// kernels too large or too special for the random ones.
#include <stdatomic.h>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/simd.h"
#include "runtime/cpu/pool.h"
#include "tests/cpu_support.h"
#include "tests/kernel_reference.h"

typedef struct {
  Bench *bench;
  Kernel *kernel;
  Place *place;
} Made;

static Made made_create(ElementType real, int dim_count, int inner_count, const int64_t *size) {
  Made m = {.bench = bench_create()};
  m.kernel = ARENA_NEW(m.bench->arena, Kernel);
  m.kernel->real = real;
  m.kernel->dim_count = dim_count;
  m.kernel->inner_count = inner_count;
  memcpy(m.kernel->size, size, sizeof *size * (size_t)dim_count);
  m.kernel->port = ARENA_ARRAY(m.bench->arena, KernelPort, KERNEL_MAX_PORTS);
  m.kernel->code = ARENA_ARRAY(m.bench->arena, KernelInstruction, KERNEL_MAX_CODE);
  m.place = ARENA_ARRAY(m.bench->arena, Place, KERNEL_MAX_PORTS);
  return m;
}

static int made_port(Made *m, PortKind kind, ElementType type, KernelLevel level) {
  const Kernel *kernel = m->kernel;
  KernelPort *port = &m->kernel->port[kernel->port_count];
  *port = (KernelPort){.kind = kind, .type = type};
  int64_t elements = 1;
  for (int d = kernel->dim_count - 1; d >= 0; d--) {
    const bool inner = d >= kernel->dim_count - kernel->inner_count;
    if ((level & (inner ? LEVEL_COLUMN : LEVEL_ROW)) != 0) {
      port->stride[d] = elements;
      elements *= kernel->size[d];
    }
  }
  if (kind != PORT_STRIDES) {
    m->place[kernel->port_count] = bench_place(m->bench, elements * element_type_bytes(type));
    if (kind == PORT_INPUT && (type == TYPE_F32 || type == TYPE_F64 || !element_type_floating(type))) {
      Draw random = {(uint64_t)kernel->port_count + 1};
      real_fill(type, bench_at(m->bench, m->place[kernel->port_count]), elements, &random);
    }
  }
  return m->kernel->port_count++;
}

static int made_emit(Made *m, KernelOp op, KernelLevel level, int a, int b, int port) {
  const bool integer =
      op == KERNEL_INTEGER || (op == KERNEL_LOAD && !element_type_floating(m->kernel->port[port].type));
  m->kernel->code[m->kernel->code_count] = (KernelInstruction){
      .op = op, .level = level, .integer = integer, .a = (int16_t)a, .b = (int16_t)b, .c = -1, .port = (int16_t)port};
  m->kernel->row_reductions |= op_is_row_reduction(op);
  return m->kernel->code_count++;
}

static int made_load(Made *m, ElementType type, KernelLevel level) {
  return made_emit(m, KERNEL_LOAD, level, -1, -1, made_port(m, PORT_INPUT, type, level));
}

static int made_output(Made *m, KernelOp op, ElementType type, KernelLevel level, int a) {
  const int port = made_port(m, PORT_OUTPUT, type, level);
  made_emit(m, op, level, a, -1, port);
  return port;
}

static int made_op(Made *m, KernelOp op, int a, int b) {
  KernelLevel level = m->kernel->code[a].level | (b >= 0 ? m->kernel->code[b].level : LEVEL_SCALAR);
  level = op_is_row_reduction(op) ? LEVEL_ROW : level;
  return made_emit(m, op, level, a, b, -1);
}

// Runs and compares all f32, f64 and int outputs with the reference.
static void made_check(Made *m, double tolerance) {
  const Kernel *kernel = m->kernel;
  assert_null(kernel_verify(kernel));
  bench_add_kernel(m->bench, m->kernel, m->place);
  char *got = bench_run_threads(m->bench);
  char *wanted = malloc((size_t)m->bench->bytes);
  memcpy(wanted, m->bench->image, (size_t)m->bench->bytes);
  void *ports[KERNEL_MAX_PORTS];
  for (int p = 0; p < kernel->port_count; p++) {
    ports[p] = wanted + m->place[p].offset;
  }
  reference_run(kernel, ports, true);
  for (int p = 0; p < kernel->port_count; p++) {
    int64_t elements = 1;
    for (int d = 0; d < kernel->dim_count; d++) {
      elements += (kernel->size[d] - 1) * kernel->port[p].stride[d];
    }
    for (int64_t i = 0; i < elements && kernel->port[p].kind == PORT_OUTPUT; i++) {
      const double a = element_at(kernel->port[p].type, got + m->place[p].offset, i);
      const double b = element_at(kernel->port[p].type, ports[p], i);
      if (!real_near(a, b, tolerance)) {
        fail_msg("port %d element %d is %.9g, not %.9g", p, (int)i, a, b);
      }
    }
  }
  free(got);
  free(wanted);
  bench_destroy(m->bench);
}

// Softmax over rows longer than many tiles, in place, with the column and total reductions of what comes out.
static void long_rows(void **state) {
  (void)state;
  const int64_t size[] = {37, 9001};
  Made m = made_create(TYPE_F32, 2, 1, size);
  const int x = made_load(&m, TYPE_F32, LEVEL_FULL);
  const int e = made_op(&m, KERNEL_EXP, made_op(&m, KERNEL_SUB, x, made_op(&m, KERNEL_ROW_MAX, x, -1)), -1);
  const int p = made_op(&m, KERNEL_DIV, e, made_op(&m, KERNEL_ROW_SUM, e, -1));
  const int out = made_output(&m, KERNEL_STORE, TYPE_F32, LEVEL_FULL, p);
  m.place[out] = m.place[0];
  made_output(&m, KERNEL_COLUMN_SUM, TYPE_F32, LEVEL_COLUMN, p);
  made_output(&m, KERNEL_COLUMN_MAX, TYPE_F64, LEVEL_COLUMN, e);
  made_output(&m, KERNEL_TOTAL_SUM, TYPE_F32, LEVEL_SCALAR, p);
  made_output(&m, KERNEL_STORE, TYPE_F32, LEVEL_ROW, made_op(&m, KERNEL_ROW_MIN, p, -1));
  made_check(&m, 2e-6);
}

// One row is all there is, so that nothing varies over rows: softmax in place, and another output of what was there.
static void one_row(void **state) {
  (void)state;
  const int64_t size[] = {9001};
  Made m = made_create(TYPE_F32, 1, 1, size);
  const int x = made_load(&m, TYPE_F32, LEVEL_COLUMN);
  const int e = made_op(&m, KERNEL_EXP, made_op(&m, KERNEL_SUB, x, made_op(&m, KERNEL_ROW_MAX, x, -1)), -1);
  const int p = made_op(&m, KERNEL_DIV, e, made_op(&m, KERNEL_ROW_SUM, e, -1));
  const int out = made_output(&m, KERNEL_STORE, TYPE_F32, LEVEL_FULL, p);
  m.place[out] = m.place[0];
  made_output(&m, KERNEL_STORE, TYPE_F32, LEVEL_FULL, made_op(&m, KERNEL_MUL, made_op(&m, KERNEL_MUL, p, x), x));
  made_check(&m, 2e-6);
}

// More rows than blocks of rows can be equal, for column sums of two levels and a total.
static void many_rows(void **state) {
  (void)state;
  const int64_t size[] = {71, 97, 130};
  Made m = made_create(TYPE_F32, 3, 1, size);
  const int x = made_load(&m, TYPE_F32, LEVEL_FULL), w = made_load(&m, TYPE_F32, LEVEL_COLUMN);
  const int r = made_load(&m, TYPE_F32, LEVEL_ROW), y = made_op(&m, KERNEL_MUL, x, w);
  made_output(&m, KERNEL_COLUMN_SUM, TYPE_F32, LEVEL_COLUMN, made_op(&m, KERNEL_MUL, y, r));
  made_output(&m, KERNEL_COLUMN_MIN, TYPE_F32, LEVEL_COLUMN, x);
  made_output(&m, KERNEL_TOTAL_MAX, TYPE_F32, LEVEL_SCALAR, y);
  made_output(&m, KERNEL_TOTAL_SUM, TYPE_F32, LEVEL_SCALAR, made_op(&m, KERNEL_MUL, r, r));
  made_output(&m, KERNEL_STORE, TYPE_F32, LEVEL_FULL, made_op(&m, KERNEL_ADD, y, r));
  made_check(&m, 2e-5);
}

static void flat_and_large(void **state) {
  (void)state;
  const int64_t size[] = {3, 333333};
  Made m = made_create(TYPE_F32, 2, 2, size);
  const int x = made_load(&m, TYPE_F32, LEVEL_FULL), s = made_load(&m, TYPE_F32, LEVEL_SCALAR);
  const int y = made_op(&m, KERNEL_ADD, made_op(&m, KERNEL_MUL, x, s), s);
  const int out = made_output(&m, KERNEL_STORE, TYPE_F32, LEVEL_FULL, y);
  m.place[out] = m.place[0];
  made_output(&m, KERNEL_TOTAL_SUM, TYPE_F32, LEVEL_SCALAR, made_op(&m, KERNEL_MUL, x, x));
  made_check(&m, 2e-6);
}

static double sum_of(const float *x, int64_t count, int64_t stride) {
  double sum = 0;
  for (int64_t i = 0; i < count; i++) {
    sum += (double)x[i * stride];
  }
  return sum;
}

static bool same_sum(double got, double wanted) {
  return isfinite(wanted) ? real_near(got, wanted, 1e-4) : isnan(wanted) ? isnan(got) : got == wanted;
}

// A sum that holds an infinity is one, of both there is none; those beside it stay what they are.
static void sums_with_infinities(void **state) {
  (void)state;
  enum { ROWS = 300, COLUMNS = 70 };
  for (int which = 0; which < 4; which++) {
    const int64_t size[] = {ROWS, COLUMNS};
    Made m = made_create(TYPE_F32, 2, 1, size);
    const int x = made_load(&m, TYPE_F32, LEVEL_FULL);
    float *in = (float *)bench_at(m.bench, m.place[0]);
    for (int i = 0; i < which; i++) {  // none, one, two of a kind, both kinds: in one column and in others
      in[(150 + i) * COLUMNS + 40] = i == 2 ? -INFINITY : INFINITY;
      in[40 * i * COLUMNS + 3 + i] = i == 2 ? -INFINITY : INFINITY;
    }
    const int column = made_output(&m, KERNEL_COLUMN_SUM, TYPE_F32, LEVEL_COLUMN, x);
    const int total = made_output(&m, KERNEL_TOTAL_SUM, TYPE_F32, LEVEL_SCALAR, x);
    const int row =
        made_output(&m, KERNEL_STORE, TYPE_F32, LEVEL_ROW, made_emit(&m, KERNEL_ROW_SUM, LEVEL_ROW, x, -1, -1));
    bench_add_kernel(m.bench, m.kernel, m.place);
    char *after = bench_run_threads(m.bench);
    in = (float *)bench_at(m.bench, m.place[0]);  // more places may have moved it
    for (int c = 0; c < COLUMNS; c++) {
      assert_true(same_sum(element_at(TYPE_F32, after + m.place[column].offset, c), sum_of(in + c, ROWS, COLUMNS)));
    }
    for (int r = 0; r < ROWS; r++) {
      assert_true(same_sum(element_at(TYPE_F32, after + m.place[row].offset, r),
                           sum_of(in + (int64_t)r * COLUMNS, COLUMNS, 1)));
    }
    assert_true(
        same_sum(element_at(TYPE_F32, after + m.place[total].offset, 0), sum_of(in, (int64_t)ROWS * COLUMNS, 1)));
    free(after);
    bench_destroy(m.bench);
  }
}

// Low-precision ports widen when read and round when written.
static void low_precision_ports(void **state) {
  (void)state;
  static const ElementType types[] = {TYPE_BF16, TYPE_F16, TYPE_E4M3, TYPE_E5M2, TYPE_F64};
  for (size_t t = 0; t < sizeof types / sizeof types[0]; t++) {
    const int64_t size[] = {9, 67};
    Made m = made_create(TYPE_F32, 2, 1, size);
    const int x = made_load(&m, types[t], LEVEL_FULL);
    const int from = m.kernel->code[x].port;
    const int64_t bytes = element_type_bytes(types[t]);
    for (int i = 0; i < 9 * 67; i++) {
      char *memory = (char *)bench_at(m.bench, m.place[from]) + i * bytes;
      const double wide = (double)(i % 30 - 15) * 0.25;
      const uint16_t code = types[t] == TYPE_BF16 ? bf16_of_f32((float)wide) : f16_of_f32((float)wide);
      const uint8_t small = types[t] == TYPE_E4M3 ? e4m3_of_f32((float)wide) : e5m2_of_f32((float)wide);
      memcpy(memory, bytes == 8 ? (const void *)&wide : bytes == 2 ? (const void *)&code : &small, (size_t)bytes);
    }
    const int same = made_output(&m, KERNEL_STORE, types[t], LEVEL_FULL, made_op(&m, KERNEL_NEG, x, -1));
    const int wide = made_output(&m, KERNEL_STORE, TYPE_F32, LEVEL_FULL, x);
    bench_add_kernel(m.bench, m.kernel, m.place);
    char *after = bench_run_threads(m.bench);
    for (int i = 0; i < 9 * 67; i++) {
      const double value = element_at(TYPE_F32, after + m.place[wide].offset, i);
      // The formats with two bits of mantissa cannot hold all of these.
      assert_true(fabs(value - (i % 30 - 15) * 0.25) <= (bytes == 1 ? 0.25 : 0));
      const uint8_t *in = (uint8_t *)after + m.place[from].offset + i * bytes;
      const uint8_t *out = (uint8_t *)after + m.place[same].offset + i * bytes;
      assert_memory_equal(in, out, (size_t)bytes - 1);
      assert_int_equal(in[bytes - 1] ^ out[bytes - 1], 0x80);
    }
    free(after);
    bench_destroy(m.bench);
  }
}

// Random values depend on key, step and logical index, not on how the space is cut or stored.
static void random_by_index(void **state) {
  (void)state;
  for (int normal = 0; normal < 2; normal++) {
    const int64_t size[] = {50, 41, 33};
    Made m = made_create(TYPE_F32, 3, 1, size);
    const int step = made_load(&m, TYPE_INT, LEVEL_SCALAR);
    const int at = made_port(&m, PORT_STRIDES, TYPE_INDEX, LEVEL_FULL);
    const int64_t index_stride[] = {3, 150 * 33, 150};  // another order than that of memory, with gaps
    memcpy(m.kernel->port[at].stride, index_stride, sizeof index_stride);
    const int x = made_emit(&m, normal ? KERNEL_NORMAL : KERNEL_UNIFORM, LEVEL_FULL, step, -1, at);
    m.kernel->code[x].constant = 0x5eed5eed5eed;
    const int out = made_output(&m, KERNEL_STORE, TYPE_F32, LEVEL_FULL, x);
    assert_null(kernel_verify(m.kernel));
    bench_add_kernel(m.bench, m.kernel, m.place);
    char *after = bench_run_threads(m.bench);
    const RandomKey key = {0x5eed5eed5eed, (uint32_t)((const int32_t *)bench_at(m.bench, m.place[0]))[0]};
    for (int64_t i = 0; i < 50 * 41 * 33; i++) {
      float wanted;
      const int64_t index = reference_offset(m.kernel, index_stride, i);
      (normal ? simd_select()->f32->normal : simd_select()->f32->uniform)(&wanted, key, index, 1, 1);
      assert_true(((const float *)(void *)(after + m.place[out].offset))[i] == wanted);
    }
    free(after);
    bench_destroy(m.bench);
  }
}

// Two microbatches: each call reads its slot; sums store in the first call and add in the second.
static void slots_and_first(void **state) {
  (void)state;
  const int64_t size[] = {4, 6};
  Made m = made_create(TYPE_F64, 2, 1, size);
  const int x = made_load(&m, TYPE_F64, LEVEL_FULL);
  const int64_t slot = 4 * 6 * 8;
  m.place[0] = bench_place(m.bench, 2 * slot);
  m.place[0].slot_stride = slot;
  Draw random = {8};
  real_fill(TYPE_F64, bench_at(m.bench, m.place[0]), 2 * 4 * 6, &random);
  const int sum = made_output(&m, KERNEL_COLUMN_SUM, TYPE_F64, LEVEL_COLUMN, x);
  m.kernel->port[sum].accumulate = true;
  bench_add_kernel(m.bench, m.kernel, m.place);
  PlanCall calls[] = {{.slot = 0, .first = true}, {.slot = 1, .first = false}};
  m.bench->plan.programs[PROGRAM_TRAIN].calls = calls;
  m.bench->plan.programs[PROGRAM_TRAIN].call_count = 2;
  char *after = bench_run_threads(m.bench);
  for (int c = 0; c < 6; c++) {
    double wanted = 0;
    for (int r = 0; r < 8; r++) {
      wanted += ((const double *)bench_at(m.bench, m.place[0]))[r * 6 + c];
    }
    assert_true(real_near(element_at(TYPE_F64, after + m.place[sum].offset, c), wanted, 1e-14));
  }
  free(after);
  bench_destroy(m.bench);
}

// A line turned round in its own place: it is read from its end, before where the line begins.
static void turned_in_place(void **state) {
  (void)state;
  enum { COUNT = 1000 };
  const int64_t size[] = {COUNT};
  Made m = made_create(TYPE_F64, 1, 1, size);
  const int x = made_load(&m, TYPE_F64, LEVEL_COLUMN);
  const int out = made_output(&m, KERNEL_STORE, TYPE_F64, LEVEL_COLUMN, x);
  m.place[out] = m.place[0];
  m.place[0].offset += (COUNT - 1) * 8;
  m.kernel->port[0].stride[0] = -1;
  bench_add_kernel(m.bench, m.kernel, m.place);
  char *after = bench_run_threads(m.bench);
  for (int i = 0; i < COUNT; i++) {
    const double wanted = ((const double *)bench_at(m.bench, m.place[out]))[COUNT - 1 - i];
    assert_true(element_at(TYPE_F64, after + m.place[out].offset, i) == wanted);
  }
  free(after);
  bench_destroy(m.bench);
}

static void errors_say_what(void **state) {
  (void)state;
  Bench *bench = bench_create();
  bench_place(bench, 100);
  Device *device = NULL;
  Error error = {0};
  assert_true(backend_cpu.open(&bench->plan, NULL, &device, &error));
  assert_false(backend_cpu.run(device, PROGRAM_GENERATE, &error));
  assert_non_null(strstr(error.text, "generate"));
  char byte = 0;
  assert_false(backend_cpu.write(device, ARENA_TRANSIENT, bench->bytes, &byte, 1, &error));
  assert_false(backend_cpu.read(device, ARENA_TRANSIENT, -1, &byte, 1, &error));
  assert_true(backend_cpu.read(device, ARENA_TRANSIENT, bench->bytes - 1, &byte, 1, &error));
  int64_t spans = -1;
  backend_cpu.trace(device, true);
  assert_true(backend_cpu.run(device, PROGRAM_TRAIN, &error));
  backend_cpu.traced(device, &spans);
  assert_int_equal(spans, 0);
  backend_cpu.close(device);
  backend_cpu.close(NULL);
  bench->plan.arena_bytes[ARENA_PERSISTENT] = (int64_t)1 << 55;
  assert_false(backend_cpu.open(&bench->plan, NULL, &device, &error));
  assert_null(device);
  assert_int_equal(error.status, 3);
  assert_non_null(strstr(error.text, "asked for 32768 TiB"));
  bench->plan.arena_bytes[ARENA_PERSISTENT] = 0;
  bench_add(bench, INSTRUCTION_GEMM)->as.gemm = (Gemm){.type = TYPE_BF16, .type_b = TYPE_BF16, .m = 1, .n = 1, .k = 1};
  assert_false(backend_cpu.open(&bench->plan, NULL, &device, &error));
  assert_int_equal(error.status, 1);
  assert_non_null(strstr(error.text, "bf16"));
  bench_destroy(bench);
  assert_ptr_equal(backend_find("cpu"), &backend_cpu);
  assert_null(backend_find("abacus"));
  assert_non_null(backend_choose("auto", 1, &error));
  assert_ptr_equal(backend_choose("cpu", 4, &error), &backend_cpu);
  assert_null(backend_choose("abacus", 1, &error));
  assert_non_null(strstr(error.text, "abacus"));
}

typedef struct {
  _Atomic int done[1000];
  _Atomic int64_t sum;
} Count;

static void count_task(void *context, int worker, int64_t task) {
  Count *count = context;
  (void)worker;
  atomic_fetch_add(&count->done[task], 1);
  atomic_fetch_add(&count->sum, task);
}

static void pool_does_each_task_once(void **state) {
  (void)state;
  for (int threads = 1; threads <= 5; threads++) {
    Pool *pool = pool_create(threads);
    assert_int_equal(pool_threads(pool), threads);
    Count *count = calloc(1, sizeof *count);
    int64_t sum = 0;
    for (int job = 0; job < 2000; job++) {
      const int64_t tasks = job % 37 == 0 ? 1000 : job % 5;
      pool_run(pool, tasks, count_task, count);
      sum += tasks * (tasks - 1) / 2;
      assert_true(atomic_load(&count->sum) == sum);
    }
    for (int i = 5; i < 1000; i++) {
      assert_int_equal(atomic_load(&count->done[i]), 55);
    }
    free(count);
    pool_destroy(pool);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(long_rows),
      cmocka_unit_test(one_row),
      cmocka_unit_test(many_rows),
      cmocka_unit_test(flat_and_large),
      cmocka_unit_test(sums_with_infinities),
      cmocka_unit_test(low_precision_ports),
      cmocka_unit_test(random_by_index),
      cmocka_unit_test(slots_and_first),
      cmocka_unit_test(turned_in_place),
      cmocka_unit_test(errors_say_what),
      cmocka_unit_test(pool_does_each_task_once),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
