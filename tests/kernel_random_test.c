// kernel_random_test.c: random fused kernels on the CPU backend against the reference, in f64.
//
// Spaces of odd sizes, permuted and broadcast layouts, all levels, row, column and total reductions, outputs in place
// of inputs, accumulating outputs, ports in bf16, several phases. What a run may not touch must keep its poison.
#include "tests/cpu_support.h"
#include "tests/kernel_reference.h"

typedef struct {
  Draw random;
  Bench *bench;
  Kernel *kernel;
  Place *place;
  bool aliased[KERNEL_MAX_PORTS];
  unsigned mask[KERNEL_MAX_CODE];  // dims each value varies on
} Maker;

static const KernelOp real_ops[] = {KERNEL_ADD, KERNEL_SUB,   KERNEL_MUL,    KERNEL_MAX, KERNEL_MIN,
                                    KERNEL_NEG, KERNEL_ABS,   KERNEL_TANH,   KERNEL_SIN, KERNEL_COS,
                                    KERNEL_EXP, KERNEL_WHERE, KERNEL_TO_REAL};
static const KernelOp integer_ops[] = {KERNEL_LESS,    KERNEL_EQUAL,     KERNEL_INT_ADD, KERNEL_INT_SUB,
                                       KERNEL_INT_MOD, KERNEL_INT_DIV,   KERNEL_INT_MAX, KERNEL_INT_LESS,
                                       KERNEL_NOT,     KERNEL_INT_WHERE, KERNEL_AND};

static unsigned maker_level_mask(const Kernel *kernel, KernelLevel level) {
  const unsigned outer = (1u << (kernel->dim_count - kernel->inner_count)) - 1;
  const unsigned all = (1u << kernel->dim_count) - 1;
  return ((level & LEVEL_ROW) ? outer : 0) | ((level & LEVEL_COLUMN) ? all & ~outer : 0);
}

// Strides of a dense tensor over the dims in `mask` in a random order; returns its elements.
static int64_t maker_strides(Maker *m, unsigned mask, int64_t *stride) {
  const Kernel *kernel = m->kernel;
  int order[KERNEL_MAX_DIMS];
  for (int d = 0; d < kernel->dim_count; d++) {
    order[d] = d;
  }
  for (int d = kernel->dim_count - 1; d > 0 && draw_below(&m->random, 3) == 0; d--) {
    const int other = (int)draw_below(&m->random, d + 1), keep = order[d];
    order[d] = order[other];
    order[other] = keep;
  }
  int64_t elements = 1 + (draw_below(&m->random, 6) == 0);  // sometimes with gaps
  for (int k = kernel->dim_count - 1; k >= 0; k--) {
    const int d = order[k];
    stride[d] = (mask >> d & 1) != 0 ? elements : 0;
    elements *= (mask >> d & 1) != 0 ? kernel->size[d] : 1;
  }
  return elements;
}

static ElementType maker_real(Maker *m) {
  return draw_below(&m->random, 5) == 0 ? TYPE_BF16 : TYPE_F64;
}

static int maker_port(Maker *m, PortKind kind, ElementType type, unsigned mask) {
  const int index = m->kernel->port_count++;
  KernelPort *port = &m->kernel->port[index];
  *port = (KernelPort){.kind = kind, .type = type};
  const int64_t elements = maker_strides(m, mask, port->stride);
  if (kind == PORT_STRIDES) {
    return index;
  }
  m->place[index] = bench_place(m->bench, elements * element_type_bytes(type));
  void *memory = bench_at(m->bench, m->place[index]);
  port->accumulate = kind == PORT_OUTPUT && draw_below(&m->random, 4) == 0;
  for (int64_t i = 0; i < elements && (kind == PORT_INPUT || port->accumulate); i++) {
    const double value = type == TYPE_INT ? (double)(draw_below(&m->random, 9) - 4) : draw_real(&m->random, -1, 1);
    real_set(type, memory, i, value);
  }
  return index;
}

static int maker_emit(Maker *m, KernelInstruction code) {
  m->kernel->code[m->kernel->code_count] = code;
  return m->kernel->code_count++;
}

static KernelLevel maker_level(Maker *m) {
  static const KernelLevel often[] = {LEVEL_FULL, LEVEL_FULL, LEVEL_FULL, LEVEL_ROW, LEVEL_COLUMN, LEVEL_SCALAR};
  return often[draw_below(&m->random, 6)];
}

static int maker_source(Maker *m, bool integer) {
  const KernelLevel level = maker_level(m);
  KernelInstruction code = {.level = level, .integer = integer, .a = -1, .b = -1, .c = -1, .port = -1};
  unsigned mask = maker_level_mask(m->kernel, level);
  mask &= draw_below(&m->random, 5) == 0 ? (unsigned)draw(&m->random) : ~0u;
  if (draw_below(&m->random, 5) == 0) {
    code.op = integer ? KERNEL_INTEGER : KERNEL_CONST;
    code.level = LEVEL_SCALAR;
    code.number = draw_real(&m->random, -1, 1);
    code.constant = draw_below(&m->random, 7) - 3;
    mask = 0;
  } else if (integer && draw_below(&m->random, 2) == 0) {
    code.op = KERNEL_IOTA;
    code.constant = draw_below(&m->random, 5);
    code.port = (int16_t)maker_port(m, PORT_STRIDES, TYPE_INDEX, mask);
  } else {
    code.op = KERNEL_LOAD;
    code.port = (int16_t)maker_port(m, PORT_INPUT, integer ? TYPE_INT : maker_real(m), mask);
  }
  m->mask[m->kernel->code_count] = mask;
  return maker_emit(m, code);
}

// A value of the class, an earlier one if there is any.
static int maker_pick(Maker *m, bool integer) {
  for (int tries = 0; tries < 8 && m->kernel->code_count > 0; tries++) {
    const int at = (int)draw_below(&m->random, m->kernel->code_count);
    if (m->kernel->code[at].integer == integer && m->kernel->code[at].op < KERNEL_STORE) {
      return at;
    }
  }
  return maker_source(m, integer);
}

static int maker_operation(Maker *m) {
  const bool integer = draw_below(&m->random, 4) == 0;
  const KernelOp op = integer ? integer_ops[draw_below(&m->random, (int64_t)(sizeof integer_ops / sizeof *integer_ops))]
                              : real_ops[draw_below(&m->random, (int64_t)(sizeof real_ops / sizeof *real_ops))];
  KernelInstruction code = {.op = op, .integer = integer, .a = -1, .b = -1, .c = -1, .port = -1};
  int16_t *operand[] = {&code.a, &code.b, &code.c};
  unsigned mask = 0;
  for (int k = 0; k < kernel_op_operands(op); k++) {
    const bool takes_integer =
        (integer && op != KERNEL_LESS && op != KERNEL_EQUAL) || op == KERNEL_TO_REAL || (op == KERNEL_WHERE && k == 0);
    const int at = maker_pick(m, takes_integer);
    *operand[k] = (int16_t)at;
    code.level |= m->kernel->code[at].level;
    mask |= m->mask[at];
  }
  m->mask[m->kernel->code_count] = mask;
  return maker_emit(m, code);
}

static void maker_row_reduction(Maker *m) {
  const int at = maker_pick(m, false);
  const KernelOp op = (KernelOp)(KERNEL_ROW_SUM + draw_below(&m->random, 3));
  m->mask[m->kernel->code_count] = m->mask[at] & maker_level_mask(m->kernel, LEVEL_ROW);
  maker_emit(m, (KernelInstruction){.op = op, .level = LEVEL_ROW, .a = (int16_t)at, .b = -1, .c = -1, .port = -1});
}

// Stores a value; now and then over an input of the same layout.
static void maker_store(Maker *m, int at) {
  const Kernel *kernel = m->kernel;
  const KernelInstruction *from = &kernel->code[at];
  KernelInstruction code = {
      .op = KERNEL_STORE, .level = from->level, .integer = from->integer, .a = (int16_t)at, .b = -1, .c = -1};
  const ElementType type = from->integer ? TYPE_INT : maker_real(m);
  unsigned mask = maker_level_mask(kernel, from->level);
  if (draw_below(&m->random, 4) == 0) {
    code.level = LEVEL_FULL;
    mask = maker_level_mask(kernel, LEVEL_FULL);
  } else if (draw_below(&m->random, 6) == 0) {
    mask = m->mask[at];
  }
  code.port = (int16_t)maker_port(m, PORT_OUTPUT, type, mask);
  KernelPort *port = &m->kernel->port[code.port];
  for (int p = 0; p < code.port && draw_below(&m->random, 2) == 0; p++) {
    const KernelPort *input = &kernel->port[p];
    unsigned covers = 0, level = 0;
    for (int d = 0; d < kernel->dim_count; d++) {
      covers |= input->stride[d] != 0 ? 1u << d : 0;
    }
    for (int i = 0; i < kernel->code_count; i++) {
      level |= kernel->code[i].op == KERNEL_LOAD && kernel->code[i].port == p ? kernel->code[i].level : 0;
    }
    if (input->kind == PORT_INPUT && input->type == type && !m->aliased[p] && covers == mask && level == code.level) {
      m->aliased[p] = true;
      m->place[code.port] = m->place[p];
      memcpy(port->stride, input->stride, sizeof port->stride);
      break;
    }
  }
  maker_emit(m, code);
}

static void maker_reduction(Maker *m, int at) {
  KernelInstruction code = {.a = (int16_t)at, .b = -1, .c = -1};
  const bool column = draw_below(&m->random, 2) == 0;
  code.op = (KernelOp)((column ? KERNEL_COLUMN_SUM : KERNEL_TOTAL_SUM) + draw_below(&m->random, 3));
  code.level = column ? LEVEL_COLUMN : LEVEL_SCALAR;
  code.port = (int16_t)maker_port(m, PORT_OUTPUT, maker_real(m), maker_level_mask(m->kernel, code.level));
  maker_emit(m, code);
}

static void maker_space(Maker *m) {
  static const int64_t sizes[] = {1, 2, 3, 5, 7, 17, 64, 70, 131, 300};
  Kernel *kernel = m->kernel;
  kernel->dim_count = (int)draw_below(&m->random, 5);
  kernel->inner_count = kernel->dim_count > 0 ? (int)draw_below(&m->random, kernel->dim_count + 1) : 0;
  kernel->row_reductions = draw_below(&m->random, 2) == 0;
  int64_t total = 1;
  for (int d = 0; d < kernel->dim_count; d++) {
    kernel->size[d] = sizes[draw_below(&m->random, 10)];
    if (d + 1 == kernel->dim_count && draw_below(&m->random, 4) == 0) {
      kernel->size[d] = 1000 + draw_below(&m->random, 1500);
    }
    while (total * kernel->size[d] > 60000) {
      kernel->size[d] = (kernel->size[d] + 1) / 2;
    }
    total *= kernel->size[d];
  }
}

static Maker maker_create(uint64_t seed) {
  Maker m = {.random = {seed}, .bench = bench_create()};
  m.kernel = ARENA_NEW(m.bench->arena, Kernel);
  m.kernel->real = TYPE_F64;
  m.kernel->port = ARENA_ARRAY(m.bench->arena, KernelPort, KERNEL_MAX_PORTS);
  m.kernel->code = ARENA_ARRAY(m.bench->arena, KernelInstruction, KERNEL_MAX_CODE);
  m.place = ARENA_ARRAY(m.bench->arena, Place, KERNEL_MAX_PORTS);
  maker_space(&m);
  const int operations = 2 + (int)draw_below(&m.random, 14);
  for (int i = 0; i < operations; i++) {
    if (m.kernel->row_reductions && draw_below(&m.random, 4) == 0) {
      maker_row_reduction(&m);
    } else {
      maker_operation(&m);
    }
  }
  const int values = m.kernel->code_count, outputs = 1 + (int)draw_below(&m.random, 3);
  for (int i = 0; i < outputs; i++) {
    const int at = values - 1 - (int)draw_below(&m.random, values < 4 ? values : 4);
    if (!m.kernel->code[at].integer && draw_below(&m.random, 3) == 0) {
      maker_reduction(&m, at);
    } else {
      maker_store(&m, at);
    }
  }
  bench_add_kernel(m.bench, m.kernel, m.place);
  return m;
}

static bool arenas_near(const Maker *m, const char *got, const char *wanted) {
  const Kernel *kernel = m->kernel;
  bool *covered = calloc((size_t)m->bench->bytes, sizeof *covered);
  bool near = true;
  for (int p = 0; p < kernel->port_count; p++) {
    if (kernel->port[p].kind != PORT_OUTPUT) {
      continue;
    }
    int64_t elements = 1;
    const int64_t bytes = element_type_bytes(kernel->port[p].type);
    for (int d = 0; d < kernel->dim_count; d++) {
      elements += (kernel->size[d] - 1) * kernel->port[p].stride[d];
    }
    for (int64_t i = 0; i < elements; i++) {
      const double a = real_get(kernel->port[p].type, got + m->place[p].offset, i);
      const double b = real_get(kernel->port[p].type, wanted + m->place[p].offset, i);
      near = near && real_near(a, b, kernel->port[p].type == TYPE_BF16 ? 1.0 / 128 : 1e-11);
    }
    memset(covered + m->place[p].offset, 1, (size_t)(elements * bytes));
  }
  for (int64_t i = 0; i < m->bench->bytes; i++) {
    near = near && (covered[i] || got[i] == wanted[i]);
  }
  free(covered);
  return near;
}

static void fail_seed(const Maker *m, uint64_t seed, const char *what) {
  Buffer text = {0};
  kernel_print(m->kernel, &text);
  for (int p = 0; p < m->kernel->port_count; p++) {
    buffer_format(&text, "  port %d at %lld\n", p, (long long)m->place[p].offset);
  }
  fail_msg("seed %llu %s:\n%s", (unsigned long long)seed, what, text.text);
}

static void check_seed(uint64_t seed) {
  Maker m = maker_create(seed);
  const char *why = kernel_verify(m.kernel);
  if (why) {
    fail_seed(&m, seed, why);
  }
  m.bench->call.first = seed % 2 == 0;
  char *got = bench_run(m.bench, 1);
  char *wanted = malloc((size_t)m.bench->bytes);
  memcpy(wanted, m.bench->image, (size_t)m.bench->bytes);
  void *ports[KERNEL_MAX_PORTS];
  for (int p = 0; p < m.kernel->port_count; p++) {
    ports[p] = wanted + m.place[p].offset;
  }
  reference_run(m.kernel, ports, m.bench->call.first);
  if (!arenas_near(&m, got, wanted)) {
    fail_seed(&m, seed, "differs from the reference");
  }
  for (int threads = 2; threads <= 3; threads++) {
    char *more = bench_run(m.bench, threads);
    if (memcmp(got, more, (size_t)m.bench->bytes) != 0) {
      fail_seed(&m, seed, "gives other bits with more threads");
    }
    free(more);
  }
  free(got);
  free(wanted);
  bench_destroy(m.bench);
}

static void random_kernels(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed <= 500; seed++) {
    check_seed(seed);
  }
}

// The comparison itself must notice a wrong element.
static void notices_a_wrong_element(void **state) {
  (void)state;
  Maker m = maker_create(3);
  char *got = bench_run(m.bench, 1), *wanted = bench_run(m.bench, 1);
  assert_true(arenas_near(&m, got, wanted));
  int port = 0;
  while (m.kernel->port[port].kind != PORT_OUTPUT) {
    port++;
  }
  got[m.place[port].offset + 3] ^= 0x40;
  assert_false(arenas_near(&m, got, wanted));
  free(got);
  free(wanted);
  bench_destroy(m.bench);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(random_kernels),
      cmocka_unit_test(notices_a_wrong_element),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
