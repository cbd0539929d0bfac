// parts_cases.h: kernels of which parts of the first dim are chosen, as those of rows sorted by what positions choose.
#ifndef MDL_TESTS_PARTS_CASES_H
#define MDL_TESTS_PARTS_CASES_H

#include "tests/cpu_support.h"

// FLAT: every element by itself, in one dim. WEIGHTED: rows times a number of each. SUMS: the sum of each row too.
// GAPS: rows apart in memory, and dims that do not merge.
typedef enum { PARTS_FLAT, PARTS_WEIGHTED, PARTS_SUMS, PARTS_GAPS, PARTS_CASES } PartsCase;

static const char *const parts_names[] = {"flat", "weighted", "sums", "gaps"};

enum { PARTS = 6, PART_ROWS = 8, PARTS_IN_USE = 4 };

typedef struct {
  Kernel *kernel;
  Place *place;
  Bench *bench;
} PartsMade;

static inline int parts_port(Kernel *kernel, PortKind kind, ElementType type, int64_t outer, int64_t row, int64_t one) {
  KernelPort *port = &kernel->port[kernel->port_count];
  *port = (KernelPort){.kind = kind, .type = type};
  if (kernel->dim_count == 1) {
    port->stride[0] = one;
  } else if (kernel->dim_count == 2) {
    port->stride[0] = row;
    port->stride[1] = one;
  } else {
    port->stride[0] = outer;
    port->stride[1] = row;
    port->stride[2] = one;
  }
  return kernel->port_count++;
}

static inline int parts_code(Kernel *kernel, KernelOp op, KernelLevel level, int a, int b, int port) {
  kernel->code[kernel->code_count] =
      (KernelInstruction){.op = op, .level = level, .a = (int16_t)a, .b = (int16_t)b, .c = -1, .port = (int16_t)port};
  return kernel->code_count++;
}

static inline Kernel *parts_kernel(Arena *arena, PartsCase which, int64_t columns) {
  Kernel *k = ARENA_NEW(arena, Kernel);
  const int64_t rows = PARTS * PART_ROWS, gap = which == PARTS_GAPS ? columns + 8 : columns;
  const bool flat = which == PARTS_FLAT;
  const KernelLevel full = flat ? LEVEL_COLUMN : LEVEL_FULL;
  *k = (Kernel){.real = TYPE_F32, .parts = PARTS, .row_reductions = which == PARTS_SUMS};
  k->port = ARENA_ARRAY(arena, KernelPort, 8);
  k->code = ARENA_ARRAY(arena, KernelInstruction, 16);
  k->dim_count = flat ? 1 : which == PARTS_GAPS ? 3 : 2;
  k->inner_count = 1;
  const int64_t sizes[3][3] = {{rows * columns}, {rows, columns}, {PARTS, PART_ROWS, columns}};
  memcpy(k->size, sizes[k->dim_count - 1], sizeof sizes[0]);
  const int x = parts_port(k, PORT_INPUT, TYPE_BF16, PART_ROWS * columns, columns, 1);
  const int w = flat ? -1 : parts_port(k, PORT_INPUT, TYPE_F32, PART_ROWS, 1, 0);
  const int y = parts_port(k, PORT_OUTPUT, TYPE_BF16, PART_ROWS * gap, gap, 1);
  parts_port(k, PORT_CHOSEN, TYPE_INDEX, 0, 0, 0);
  int made = parts_code(k, KERNEL_SIGMOID, full, parts_code(k, KERNEL_LOAD, full, -1, -1, x), -1, -1);
  if (!flat) {
    made = parts_code(k, KERNEL_MUL, full, made, parts_code(k, KERNEL_LOAD, LEVEL_ROW, -1, -1, w), -1);
  }
  if (which == PARTS_SUMS) {
    const int sum = parts_code(k, KERNEL_ROW_SUM, LEVEL_ROW, made, -1, -1);
    parts_code(k, KERNEL_STORE, LEVEL_ROW, sum, -1, parts_port(k, PORT_OUTPUT, TYPE_F32, PART_ROWS, 1, 0));
  }
  parts_code(k, KERNEL_STORE, full, made, -1, y);
  return k;
}

// Elements of a port, from the first to behind the last.
static inline int64_t parts_elements(const Kernel *kernel, int port) {
  int64_t elements = 1;
  for (int d = 0; d < kernel->dim_count; d++) {
    elements += (kernel->size[d] - 1) * kernel->port[port].stride[d];
  }
  return kernel->port[port].kind == PORT_CHOSEN ? kernel->parts : elements;
}

// The first parts are in use, and all outputs hold NaN.
static inline PartsMade parts_make(PartsCase which, int64_t columns) {
  PartsMade made = {.bench = bench_create()};
  Draw random = {(uint64_t)which + 5};
  made.kernel = parts_kernel(made.bench->arena, which, columns);
  made.place = ARENA_ARRAY(made.bench->arena, Place, KERNEL_MAX_PORTS);
  for (int p = 0; p < made.kernel->port_count; p++) {
    const KernelPort *port = &made.kernel->port[p];
    const int64_t elements = parts_elements(made.kernel, p);
    made.place[p] = bench_place(made.bench, elements * element_type_bytes(port->type));
    for (int64_t i = 0; i < elements && port->kind == PORT_INPUT; i++) {
      element_set_at(port->type, bench_at(made.bench, made.place[p]), i, draw_real(&random, 0.1, 1));
    }
    for (int64_t i = 0; i < elements && port->kind == PORT_CHOSEN; i++) {
      ((int32_t *)bench_at(made.bench, made.place[p]))[i] = i < PARTS_IN_USE ? (int32_t)(i / 2) : -1;
    }
  }
  bench_add_kernel(made.bench, made.kernel, made.place);
  return made;
}

#endif
