// reference_elements.h: elementwise operations on single numbers, for reference.c.
#ifndef MDL_TESTS_REFERENCE_ELEMENTS_H
#define MDL_TESTS_REFERENCE_ELEMENTS_H

#include <math.h>

#include "compiler/graph.h"

static inline double wrap(int64_t number) {  // 32-bit arithmetic
  return (double)(int32_t)(uint32_t)(uint64_t)number;
}

static inline double int_binary(Op op, int64_t a, int64_t b) {
  switch (op) {
    case OP_ADD:
      return wrap(a + b);
    case OP_SUB:
      return wrap(a - b);
    case OP_MUL:
      return wrap(a * b);
    case OP_DIV:
      return b == 0 ? 0 : wrap((a - ((a % b) + b) % b) / b);
    case OP_MOD:
      return b == 0 ? 0 : wrap(((a % b) + b) % b);
    case OP_MAX:
      return wrap(a > b ? a : b);
    case OP_MIN:
      return wrap(a < b ? a : b);
    case OP_LESS:
      return a < b;
    case OP_LESS_EQUAL:
      return a <= b;
    case OP_EQUAL:
      return a == b;
    case OP_AND:
      return a && b;
    case OP_OR:
      return a || b;
    default:
      return NAN;
  }
}

static inline double real_binary(Op op, double a, double b) {
  switch (op) {
    case OP_ADD:
      return a + b;
    case OP_SUB:
      return a - b;
    case OP_MUL:
      return a * b;
    case OP_DIV:
      return a / b;
    case OP_MAX:
      return a > b ? a : b;
    case OP_MIN:
      return a < b ? a : b;
    case OP_POW:
      return pow(a, b);
    case OP_LESS:
      return a < b;
    case OP_LESS_EQUAL:
      return a <= b;
    case OP_EQUAL:
      return a == b;
    default:
      return NAN;
  }
}

static inline double unary(Op op, double a) {
  switch (op) {
    case OP_NEG:
      return -a;
    case OP_ABS:
      return fabs(a);
    case OP_SIGN:
      return (a > 0) - (a < 0);
    case OP_FLOOR:
    case OP_TO_INT:
      return floor(a);
    case OP_EXP:
      return exp(a);
    case OP_LOG:
      return log(a);
    case OP_SQRT:
      return sqrt(a);
    case OP_RSQRT:
      return 1 / sqrt(a);
    case OP_RECIPROCAL:
      return 1 / a;
    case OP_SIN:
      return sin(a);
    case OP_COS:
      return cos(a);
    case OP_TANH:
      return tanh(a);
    case OP_SIGMOID:
      return 1 / (1 + exp(-a));
    case OP_ERF:
      return erf(a);
    case OP_IS_FINITE:
      return isfinite(a) != 0;
    case OP_NOT:
      return a == 0;
    default:  // the value itself: to_real, as_index, stop, broadcast, copy, cast (of which no rounding is expected)
      return a;
  }
}

static inline bool knows_unary(Op op) {
  return (op >= OP_NEG && op <= OP_IS_FINITE) || op == OP_NOT || op == OP_TO_REAL || op == OP_TO_INT ||
         op == OP_AS_INDEX || op == OP_CAST || op == OP_BROADCAST || op == OP_STOP || op == OP_COPY;
}

#endif
