// kernel_reference.h: what a fused kernel means, in the plainest way: every value at every coordinate, in double.
#ifndef MDL_TESTS_KERNEL_REFERENCE_H
#define MDL_TESTS_KERNEL_REFERENCE_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/ir/kernel.h"
#include "tests/elements.h"

typedef struct {
  const Kernel *kernel;
  int64_t total, inner;  // coordinates of the space, and of its inner dims
  double *value[KERNEL_MAX_CODE];
} Reference;

static inline int64_t reference_offset(const Kernel *kernel, const int64_t *stride, int64_t at) {
  int64_t offset = 0;
  for (int d = kernel->dim_count - 1; d >= 0; d--) {
    offset += at % kernel->size[d] * stride[d];
    at /= kernel->size[d];
  }
  return offset;
}

static inline double reference_wrap(double value) {
  return (double)(int32_t)(uint32_t)(uint64_t)(int64_t)value;
}

static inline double reference_real(KernelOp op, double a, double b, double c) {
  switch (op) {
    case KERNEL_ADD:
      return a + b;
    case KERNEL_SUB:
      return a - b;
    case KERNEL_MUL:
      return a * b;
    case KERNEL_DIV:
      return a / b;
    case KERNEL_MAX:
      return isnan(a) || isnan(b) ? NAN : a > b ? a : b;
    case KERNEL_MIN:
      return isnan(a) || isnan(b) ? NAN : a < b ? a : b;
    case KERNEL_POW:
      return pow(a, b);
    case KERNEL_NEG:
      return -a;
    case KERNEL_ABS:
      return fabs(a);
    case KERNEL_SIGN:
      return a > 0 ? 1 : a < 0 ? -1 : a;
    case KERNEL_FLOOR:
      return floor(a);
    case KERNEL_POWER_OF_TWO:
      return a - a != 0 || (a >= 0 && a <= 0) ? a : copysign(exp2(ceil(log2(fabs(a)))), a);
    case KERNEL_EXP:
      return exp(a);
    case KERNEL_LOG:
      return log(a);
    case KERNEL_SQRT:
      return sqrt(a);
    case KERNEL_RSQRT:
      return 1 / sqrt(a);
    case KERNEL_RECIPROCAL:
      return 1 / a;
    case KERNEL_SIN:
      return sin(a);
    case KERNEL_COS:
      return cos(a);
    case KERNEL_TANH:
      return tanh(a);
    case KERNEL_SIGMOID:
      return 1 / (1 + exp(-a));
    case KERNEL_ERF:
      return erf(a);
    case KERNEL_WHERE:
      return a != 0 ? b : c;
    case KERNEL_TO_REAL:
      return a;
    default:
      return NAN;
  }
}

static inline double reference_integer(KernelOp op, double a, double b, double c) {
  switch (op) {
    case KERNEL_IS_FINITE:
      return isfinite(a);
    case KERNEL_LESS:
    case KERNEL_INT_LESS:
      return a < b;
    case KERNEL_LESS_EQUAL:
    case KERNEL_INT_LESS_EQUAL:
      return a <= b;
    case KERNEL_EQUAL:
    case KERNEL_INT_EQUAL:
      return a == b;
    case KERNEL_INT_ADD:
      return reference_wrap(a + b);
    case KERNEL_INT_SUB:
      return reference_wrap(a - b);
    case KERNEL_INT_MUL:
      return (double)(int32_t)((uint32_t)(int32_t)a * (uint32_t)(int32_t)b);
    case KERNEL_INT_DIV:
      return b == 0 ? 0 : floor(a / b);
    case KERNEL_INT_MOD:
      return b == 0 ? 0 : a - floor(a / b) * b;
    case KERNEL_INT_MAX:
      return fmax(a, b);
    case KERNEL_INT_MIN:
      return fmin(a, b);
    case KERNEL_INT_WHERE:
      return a != 0 ? b : c;
    case KERNEL_AND:
      return a != 0 && b != 0;
    case KERNEL_OR:
      return a != 0 || b != 0;
    case KERNEL_NOT:
      return a == 0;
    case KERNEL_TO_INT:
      return isnan(a) ? 0 : fmin(fmax(floor(a), -2147483648.0), 2147483647.0);
    default:
      return NAN;
  }
}

static inline double reference_fold(KernelOp op, double a, double b) {
  if (op == KERNEL_ROW_SUM || op == KERNEL_COLUMN_SUM || op == KERNEL_TOTAL_SUM) {
    return a + b;
  }
  const bool largest = op == KERNEL_ROW_MAX || op == KERNEL_COLUMN_MAX || op == KERNEL_TOTAL_MAX;
  return isnan(a) || isnan(b) ? NAN : largest ? fmax(a, b) : fmin(a, b);
}

static inline void reference_row_reduction(const Reference *r, const KernelInstruction *code, double *out) {
  for (int64_t row = 0; row < r->total / r->inner; row++) {
    const double *x = r->value[code->a] + row * r->inner;
    double result = x[0];
    for (int64_t i = 1; i < r->inner; i++) {
      result = reference_fold(code->op, result, x[i]);
    }
    for (int64_t i = 0; i < r->inner; i++) {
      out[row * r->inner + i] = result;
    }
  }
}

// Writes one output. Reductions over what the level of the operand says; a store once for each place.
static inline void reference_output(const Reference *r, const KernelInstruction *code, void *memory, bool first) {
  const Kernel *kernel = r->kernel;
  const KernelPort *port = &kernel->port[code->port];
  const bool adds = port->accumulate && !first;
  const bool column = op_is_column_reduction(code->op);
  const KernelLevel from = code->op == KERNEL_STORE || column ? LEVEL_FULL : kernel->code[code->a].level;
  double *result = malloc(sizeof(double) * (size_t)r->total);
  bool *seen = calloc((size_t)r->total, sizeof *seen);
  for (int64_t i = 0; i < r->total; i++) {
    const int64_t to = code->op == KERNEL_STORE ? i : column ? i % r->inner : 0;
    const bool counts = ((from & LEVEL_COLUMN) || i % r->inner == 0) && ((from & LEVEL_ROW) || i < r->inner);
    if (counts) {
      const double value = r->value[code->a][i];
      result[to] = seen[to] ? reference_fold(code->op, result[to], value) : value;
      seen[to] = true;
    }
  }
  for (int64_t i = 0; i < r->total; i++) {
    bool once = seen[i];
    int64_t rest = i;
    for (int d = kernel->dim_count - 1; d >= 0; d--) {
      once = once && (port->stride[d] != 0 || rest % kernel->size[d] == 0);
      rest /= kernel->size[d];
    }
    if (once) {
      const int64_t at = reference_offset(kernel, port->stride, i);
      const double before = adds ? element_at(port->type, memory, at) : 0.0;
      element_set_at(port->type, memory, at, adds ? before + result[i] : result[i]);
    }
  }
  free(result);
  free(seen);
}

static inline double reference_source(const Kernel *kernel, const KernelInstruction *code, void *const *ports,
                                      int64_t i) {
  const int64_t at = code->port >= 0 ? reference_offset(kernel, kernel->port[code->port].stride, i) : 0;
  switch (code->op) {
    case KERNEL_LOAD:
      return element_at(kernel->port[code->port].type, ports[code->port], at);
    case KERNEL_IOTA:
      return reference_wrap((double)(code->constant + at));
    case KERNEL_CONST:
      return kernel->real == TYPE_F32 ? (double)(float)code->number : code->number;
    default:
      return (double)code->constant;
  }
}

// Runs a kernel without random operations; ports[p] is where the port's coordinate 0 is.
static inline void reference_run(const Kernel *kernel, void *const *ports, bool first) {
  Reference r = {.kernel = kernel, .total = 1, .inner = 1};
  for (int d = 0; d < kernel->dim_count; d++) {
    r.total *= kernel->size[d];
    r.inner *= d >= kernel->dim_count - kernel->inner_count ? kernel->size[d] : 1;
  }
  for (int n = 0; n < kernel->code_count; n++) {
    const KernelInstruction *code = &kernel->code[n];
    double *out = r.value[n] = calloc((size_t)r.total, sizeof *out);
    if (op_is_row_reduction(code->op)) {
      reference_row_reduction(&r, code, out);
      continue;
    }
    for (int64_t i = 0; i < r.total && code->op < KERNEL_STORE; i++) {
      const double a = code->a >= 0 ? r.value[code->a][i] : 0, b = code->b >= 0 ? r.value[code->b][i] : 0;
      const double c = code->c >= 0 ? r.value[code->c][i] : 0;
      out[i] = kernel_op_operands(code->op) == 0 ? reference_source(kernel, code, ports, i)
               : code->integer                   ? reference_integer(code->op, a, b, c)
                                                 : reference_real(code->op, a, b, c);
    }
  }
  for (int n = 0; n < kernel->code_count; n++) {
    if (kernel->code[n].op >= KERNEL_STORE) {
      reference_output(&r, &kernel->code[n], ports[kernel->code[n].port], first);
    }
  }
  for (int n = 0; n < kernel->code_count; n++) {
    free(r.value[n]);
  }
}

#endif
