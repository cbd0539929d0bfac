// turned_cases.h: kernels that store a value in two orders, or read one that lies across, as training in 8 bits has
// them: for benches and tests.
#ifndef MDL_TESTS_TURNED_CASES_H
#define MDL_TESTS_TURNED_CASES_H

#include "base/arena.h"
#include "compiler/ir/kernel.h"

typedef enum {
  TURNED_SWIGLU,       // two of 16 bits in, twins of 8 bits out
  TURNED_SWIGLU_GRAD,  // three in, twins of two values out
  TURNED_QUANTISE,     // one in, twins out
  TURNED_NORM,         // the norm of rows, twins out
  TURNED_NORM_GRAD,    // its backward: dx of 16 bits and as twins, and the gradient of the scale
  TURNED_COPY8,        // 8 bits to 8 bits
  TURNED_COPY16,
  TURNED_COPY32,
  TURNED_CASES
} TurnedCase;

static const char *const turned_names[TURNED_CASES] = {
    "SwiGLU, twins",
    "SwiGLU backward, two twins",
    "quantise, twins",
    "RMS norm, twins",
    "RMS norm backward, twins",
    "turning 8 bits",
    "turning 16 bits",
    "turning 32 bits",
};

typedef struct {
  Kernel *kernel;
  int64_t rows, columns;
} TurnedMaker;

static inline int turned_port(TurnedMaker *m, PortKind kind, ElementType type, int64_t row, int64_t column) {
  m->kernel->port[m->kernel->port_count] = (KernelPort){.kind = kind, .type = type, .stride = {row, column}};
  return m->kernel->port_count++;
}

static inline int turned_emit(TurnedMaker *m, KernelOp op, KernelLevel level, int a, int b, int port) {
  m->kernel->code[m->kernel->code_count] = (KernelInstruction){
      .op = op, .level = level, .a = (int16_t)a, .b = (int16_t)b, .c = -1, .port = (int16_t)port, .number = 1.0};
  return m->kernel->code_count++;
}

static inline int turned_load(TurnedMaker *m, ElementType type, KernelLevel level) {
  const int64_t row = !(level & LEVEL_ROW) ? 0 : (level & LEVEL_COLUMN) ? m->columns : 1;
  const int port = turned_port(m, PORT_INPUT, type, row, (level & LEVEL_COLUMN) ? 1 : 0);
  return turned_emit(m, KERNEL_LOAD, level, -1, -1, port);
}

static inline int turned_two(TurnedMaker *m, KernelOp op, int a, int b) {
  const Kernel *kernel = m->kernel;
  return turned_emit(m, op, kernel->code[a].level | (b < 0 ? 0 : kernel->code[b].level), a, b, -1);
}

static inline void turned_out(TurnedMaker *m, ElementType type, int value, bool turned) {
  const int port = turned_port(m, PORT_OUTPUT, type, turned ? 1 : m->columns, turned ? m->rows : 1);
  turned_emit(m, KERNEL_STORE, LEVEL_FULL, value, -1, port);
}

// value / scale in both orders, and the largest of value beside.
static inline void turned_twins(TurnedMaker *m, ElementType type, int value) {
  const int scale = turned_load(m, TYPE_F32, LEVEL_SCALAR);
  const int scaled = turned_two(m, KERNEL_MUL, value, turned_two(m, KERNEL_RECIPROCAL, scale, -1));
  turned_out(m, type, scaled, false);
  turned_out(m, type, scaled, true);
  const int size = turned_two(m, KERNEL_ABS, value, -1);
  turned_emit(m, KERNEL_TOTAL_MAX, LEVEL_SCALAR, size, -1, turned_port(m, PORT_OUTPUT, TYPE_F32, 0, 0));
}

static inline void turned_swiglu(TurnedMaker *m, bool grad) {
  const int d = grad ? turned_load(m, TYPE_BF16, LEVEL_FULL) : -1;
  const int gate = turned_load(m, TYPE_BF16, LEVEL_FULL), up = turned_load(m, TYPE_BF16, LEVEL_FULL);
  const int s = turned_two(m, KERNEL_SIGMOID, gate, -1), silu = turned_two(m, KERNEL_MUL, gate, s);
  if (!grad) {
    turned_twins(m, TYPE_E4M3, turned_two(m, KERNEL_MUL, silu, up));
    return;
  }
  const int one = turned_emit(m, KERNEL_CONST, LEVEL_SCALAR, -1, -1, -1);
  const int rest = turned_two(m, KERNEL_MUL, gate, turned_two(m, KERNEL_SUB, one, s));
  const int slope = turned_two(m, KERNEL_MUL, s, turned_two(m, KERNEL_ADD, one, rest));
  turned_twins(m, TYPE_E5M2, turned_two(m, KERNEL_MUL, d, silu));
  turned_twins(m, TYPE_E5M2, turned_two(m, KERNEL_MUL, turned_two(m, KERNEL_MUL, d, up), slope));
}

// The inverse of the root of the mean of squares is a value of rows; the backward reads it.
static inline void turned_norm(TurnedMaker *m, bool grad) {
  Kernel *kernel = m->kernel;
  kernel->row_reductions = true;
  const int x = turned_load(m, TYPE_BF16, LEVEL_FULL), scale = turned_load(m, TYPE_BF16, LEVEL_COLUMN);
  const int mean = turned_emit(m, KERNEL_CONST, LEVEL_SCALAR, -1, -1, -1);
  kernel->code[mean].number = 1.0 / (double)m->columns;
  if (!grad) {
    const int sum = turned_emit(m, KERNEL_ROW_SUM, LEVEL_ROW, turned_two(m, KERNEL_MUL, x, x), -1, -1);
    const int root = turned_two(m, KERNEL_RSQRT, turned_two(m, KERNEL_MUL, sum, mean), -1);
    turned_emit(m, KERNEL_STORE, LEVEL_ROW, root, -1, turned_port(m, PORT_OUTPUT, TYPE_F32, 1, 0));
    turned_twins(m, TYPE_E4M3, turned_two(m, KERNEL_MUL, turned_two(m, KERNEL_MUL, x, root), scale));
    return;
  }
  const int root = turned_load(m, TYPE_F32, LEVEL_ROW), d = turned_load(m, TYPE_BF16, LEVEL_FULL);
  const int normal = turned_two(m, KERNEL_MUL, x, root), scaled = turned_two(m, KERNEL_MUL, d, scale);
  const int sum = turned_emit(m, KERNEL_ROW_SUM, LEVEL_ROW, turned_two(m, KERNEL_MUL, scaled, normal), -1, -1);
  const int part = turned_two(m, KERNEL_MUL, normal, turned_two(m, KERNEL_MUL, sum, mean));
  const int dx = turned_two(m, KERNEL_MUL, root, turned_two(m, KERNEL_SUB, scaled, part));
  turned_out(m, TYPE_BF16, dx, false);
  const int to = turned_port(m, PORT_OUTPUT, TYPE_F32, 0, 1);
  turned_emit(m, KERNEL_COLUMN_SUM, LEVEL_COLUMN, turned_two(m, KERNEL_MUL, d, normal), -1, to);
  turned_twins(m, TYPE_E5M2, dx);
}

// The space is rows by columns, the columns are the inner dim.
static inline Kernel *turned_case(Arena *arena, TurnedCase which, int64_t rows, int64_t columns) {
  static const ElementType copied[] = {TYPE_E4M3, TYPE_BF16, TYPE_F32};
  Kernel *kernel = ARENA_NEW(arena, Kernel);
  TurnedMaker m = {kernel, rows, columns};
  *kernel = (Kernel){.real = TYPE_F32, .dim_count = 2, .inner_count = 1, .size = {rows, columns}};
  kernel->port = ARENA_ARRAY(arena, KernelPort, KERNEL_MAX_PORTS);
  kernel->code = ARENA_ARRAY(arena, KernelInstruction, KERNEL_MAX_CODE);
  if (which >= TURNED_COPY8) {
    const ElementType type = copied[which - TURNED_COPY8];
    turned_out(&m, type, turned_load(&m, type, LEVEL_FULL), true);
  } else if (which == TURNED_QUANTISE) {
    turned_twins(&m, TYPE_E4M3, turned_load(&m, TYPE_BF16, LEVEL_FULL));
  } else if (which == TURNED_NORM || which == TURNED_NORM_GRAD) {
    turned_norm(&m, which == TURNED_NORM_GRAD);
  } else {
    turned_swiglu(&m, which == TURNED_SWIGLU_GRAD);
  }
  return kernel;
}

#endif
