// kernel_random.h: fused kernels drawn at random.
//
// Spaces of odd sizes, permuted and broadcast layouts, all levels, row, column and total reductions, outputs in place
// of inputs, accumulating outputs, several phases.
#ifndef MDL_TESTS_KERNEL_RANDOM_H
#define MDL_TESTS_KERNEL_RANDOM_H

#include "tests/cpu_support.h"

typedef struct {
  Draw random;
  Bench *bench;
  Kernel *kernel;
  Place *place;
  bool aliased[KERNEL_MAX_PORTS];
  bool turned;                     // big dims, and ports that have one or some of them last
  bool low;                        // ports of reals are f32 or narrower, and operations keep errors small
  unsigned mask[KERNEL_MAX_CODE];  // dims each value varies on
} Maker;

static const KernelOp real_ops[] = {KERNEL_ADD, KERNEL_SUB,   KERNEL_MUL,    KERNEL_MAX, KERNEL_MIN,
                                    KERNEL_NEG, KERNEL_ABS,   KERNEL_TANH,   KERNEL_SIN, KERNEL_COS,
                                    KERNEL_EXP, KERNEL_WHERE, KERNEL_TO_REAL};
static const KernelOp integer_ops[] = {KERNEL_LESS,    KERNEL_EQUAL,     KERNEL_INT_ADD, KERNEL_INT_SUB,
                                       KERNEL_INT_MOD, KERNEL_INT_DIV,   KERNEL_INT_MAX, KERNEL_INT_LESS,
                                       KERNEL_NOT,     KERNEL_INT_WHERE, KERNEL_AND};

static inline unsigned maker_level_mask(const Kernel *kernel, KernelLevel level) {
  const unsigned outer = (1u << (kernel->dim_count - kernel->inner_count)) - 1;
  const unsigned all = (1u << kernel->dim_count) - 1;
  return ((level & LEVEL_ROW) ? outer : 0) | ((level & LEVEL_COLUMN) ? all & ~outer : 0);
}

static inline ElementType maker_real_type(Maker *m) {
  static const ElementType types[] = {TYPE_F32, TYPE_BF16, TYPE_BF16, TYPE_F16, TYPE_E4M3, TYPE_E4M3, TYPE_E5M2};
  return m->low ? types[draw_below(&m->random, 7)] : m->kernel->real;
}

// Strides of a dense tensor over the dims in `mask` in a random order, or turned; returns its elements.
static inline int64_t maker_strides(Maker *m, unsigned mask, int64_t *stride) {
  const Kernel *kernel = m->kernel;
  int order[KERNEL_MAX_DIMS];
  const int turn = m->turned && draw_below(&m->random, 2) == 0
                       ? kernel->dim_count - (kernel->inner_count % kernel->dim_count ? kernel->inner_count : 1)
                       : 0;
  for (int d = 0; d < kernel->dim_count; d++) {
    order[d] = (d + turn) % kernel->dim_count;
  }
  for (int d = kernel->dim_count - 1; d > 0 && !m->turned && draw_below(&m->random, 3) == 0; d--) {
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

static inline int maker_port(Maker *m, PortKind kind, ElementType type, unsigned mask) {
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
    element_set_at(type, memory, i, value);
  }
  return index;
}

static inline int maker_emit(Maker *m, KernelInstruction code) {
  m->kernel->code[m->kernel->code_count] = code;
  return m->kernel->code_count++;
}

static inline KernelLevel maker_level(Maker *m) {
  static const KernelLevel often[] = {LEVEL_FULL, LEVEL_FULL, LEVEL_FULL, LEVEL_ROW, LEVEL_COLUMN, LEVEL_SCALAR};
  return m->turned && draw_below(&m->random, 2) == 0 ? LEVEL_FULL : often[draw_below(&m->random, 6)];
}

static inline int maker_source(Maker *m, bool integer) {
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
    code.port = (int16_t)maker_port(m, PORT_INPUT, integer ? TYPE_INT : maker_real_type(m), mask);
  }
  m->mask[m->kernel->code_count] = mask;
  return maker_emit(m, code);
}

// A value of the class, an earlier one if there is any.
static inline int maker_pick(Maker *m, bool integer) {
  for (int tries = 0; tries < 8 && m->kernel->code_count > 0; tries++) {
    const int at = (int)draw_below(&m->random, m->kernel->code_count);
    if (m->kernel->code[at].integer == integer && m->kernel->code[at].op < KERNEL_STORE) {
      return at;
    }
  }
  return maker_source(m, integer);
}

static inline int maker_operation(Maker *m) {
  const bool integer = draw_below(&m->random, 4) == 0;
  const KernelOp op = integer ? integer_ops[draw_below(&m->random, (int64_t)(sizeof integer_ops / sizeof *integer_ops))]
                              : real_ops[draw_below(&m->random, (int64_t)(sizeof real_ops / sizeof *real_ops))];
  KernelInstruction code = {.op = op, .integer = integer, .a = -1, .b = -1, .c = -1, .port = -1};
  // Sums of whole kernels stay finite, and small where little is known of them.
  if ((m->low && (op == KERNEL_SIN || op == KERNEL_COS)) || (op == KERNEL_EXP && (m->low || m->turned))) {
    code.op = KERNEL_TANH;
  } else if (m->low && (op == KERNEL_LESS || op == KERNEL_EQUAL)) {
    code.op = KERNEL_INT_MUL;
  }
  int16_t *operand[] = {&code.a, &code.b, &code.c};
  unsigned mask = 0;
  for (int k = 0; k < kernel_op_operands(code.op); k++) {
    const bool takes_integer = (integer && code.op != KERNEL_LESS && code.op != KERNEL_EQUAL) ||
                               code.op == KERNEL_TO_REAL || (code.op == KERNEL_WHERE && k == 0);
    const int at = maker_pick(m, takes_integer);
    *operand[k] = (int16_t)at;
    code.level |= m->kernel->code[at].level;
    mask |= m->mask[at];
  }
  m->mask[m->kernel->code_count] = mask;
  return maker_emit(m, code);
}

static inline void maker_row_reduction(Maker *m) {
  const int at = maker_pick(m, false);
  const KernelOp op = (KernelOp)(KERNEL_ROW_SUM + draw_below(&m->random, 3));
  m->mask[m->kernel->code_count] = m->mask[at] & maker_level_mask(m->kernel, LEVEL_ROW);
  maker_emit(m, (KernelInstruction){.op = op, .level = LEVEL_ROW, .a = (int16_t)at, .b = -1, .c = -1, .port = -1});
}

// Stores a value; now and then over an input of the same layout.
static inline void maker_store(Maker *m, int at) {
  const Kernel *kernel = m->kernel;
  const KernelInstruction *from = &kernel->code[at];
  KernelInstruction code = {
      .op = KERNEL_STORE, .level = from->level, .integer = from->integer, .a = (int16_t)at, .b = -1, .c = -1};
  const ElementType type = from->integer ? TYPE_INT : maker_real_type(m);
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

static inline void maker_reduction(Maker *m, int at) {
  KernelInstruction code = {.a = (int16_t)at, .b = -1, .c = -1};
  const bool column = draw_below(&m->random, 2) == 0;
  code.op = (KernelOp)((column ? KERNEL_COLUMN_SUM : KERNEL_TOTAL_SUM) + draw_below(&m->random, 3));
  code.level = column ? LEVEL_COLUMN : LEVEL_SCALAR;
  code.port = (int16_t)maker_port(m, PORT_OUTPUT, maker_real_type(m), maker_level_mask(m->kernel, code.level));
  maker_emit(m, code);
}

static inline void maker_space(Maker *m) {
  static const int64_t sizes[] = {1, 2, 3, 5, 7, 17, 64, 70, 131, 300},
                       big[] = {8, 16, 24, 33, 64, 70, 96, 100, 128, 300};
  Kernel *kernel = m->kernel;
  m->turned = draw_below(&m->random, 2) == 0;
  kernel->dim_count = m->turned ? 2 + (int)draw_below(&m->random, 2) : (int)draw_below(&m->random, 5);
  kernel->inner_count = kernel->dim_count > 0 ? (int)draw_below(&m->random, kernel->dim_count + 1) : 0;
  kernel->row_reductions = draw_below(&m->random, 2) == 0;
  int64_t total = 1;
  for (int d = 0; d < kernel->dim_count; d++) {
    kernel->size[d] = (m->turned ? big : sizes)[draw_below(&m->random, 10)];
    if (d + 1 == kernel->dim_count && !m->turned && draw_below(&m->random, 4) == 0) {
      kernel->size[d] = 1000 + draw_below(&m->random, 1500);
    }
    while (total * kernel->size[d] > 60000) {
      kernel->size[d] = (kernel->size[d] + 1) / 2;
    }
    total *= kernel->size[d];
  }
}

// low: f32 arithmetic on ports of f32, bf16, f16, e4m3 and e5m2; else all is f64.
static inline Maker maker_create(uint64_t seed, bool low) {
  Maker m = {.random = {seed}, .bench = bench_create(), .low = low};
  m.kernel = ARENA_NEW(m.bench->arena, Kernel);
  m.kernel->real = low ? TYPE_F32 : TYPE_F64;
  m.kernel->port = ARENA_ARRAY(m.bench->arena, KernelPort, KERNEL_MAX_PORTS);
  m.kernel->code = ARENA_ARRAY(m.bench->arena, KernelInstruction, KERNEL_MAX_CODE);
  m.place = ARENA_ARRAY(m.bench->arena, Place, KERNEL_MAX_PORTS);
  maker_space(&m);
  const int operations = 2 + (int)draw_below(&m.random, low ? 7 : 14);
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

// Whether outputs are near, and all else of the arena is the same.
static inline bool arenas_near(const Kernel *kernel, const Place *place, const char *got, const char *wanted,
                               int64_t arena_bytes) {
  bool *covered = calloc((size_t)arena_bytes, sizeof *covered);
  bool near = true;
  for (int p = 0; p < kernel->port_count; p++) {
    if (kernel->port[p].kind != PORT_OUTPUT) {
      continue;
    }
    int64_t elements = 1;
    const ElementType type = kernel->port[p].type;
    const int64_t bytes = element_type_bytes(type);
    const double tolerance = type == TYPE_E5M2             ? 0.26
                             : type == TYPE_E4M3           ? 0.13
                             : type == TYPE_BF16           ? 1e-2
                             : type == TYPE_F16            ? 2e-3
                             : kernel->real == TYPE_F64    ? 1e-11
                             : element_type_floating(type) ? 1e-4
                                                           : 0;
    for (int d = 0; d < kernel->dim_count; d++) {
      elements += (kernel->size[d] - 1) * kernel->port[p].stride[d];
    }
    for (int64_t i = 0; i < elements; i++) {
      const double a = element_at(kernel->port[p].type, got + place[p].offset, i);
      const double b = element_at(kernel->port[p].type, wanted + place[p].offset, i);
      near = near && real_near(a, b, tolerance);
    }
    memset(covered + place[p].offset, 1, (size_t)(elements * bytes));
  }
  for (int64_t i = 0; i < arena_bytes; i++) {
    near = near && (covered[i] || got[i] == wanted[i]);
  }
  free(covered);
  return near;
}

#endif
