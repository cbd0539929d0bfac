// arithmetic.c: operators on numbers and tensors: types, axes, folding.
#include <math.h>
#include <string.h>

#include "lang/elaborate.h"

typedef struct {
  const char *text;
  Op op;
  bool swap, negate;  // a > b is b < a; a != b is not (a == b)
} Operator;

static const Operator operators[] = {
    {"+", OP_ADD, false, false},        {"-", OP_SUB, false, false},         {"*", OP_MUL, false, false},
    {"/", OP_DIV, false, false},        {"%", OP_MOD, false, false},         {"^", OP_POW, false, false},
    {"<", OP_LESS, false, false},       {"<=", OP_LESS_EQUAL, false, false}, {">", OP_LESS, true, false},
    {">=", OP_LESS_EQUAL, true, false}, {"==", OP_EQUAL, false, false},      {"!=", OP_EQUAL, false, true},
    {"and", OP_AND, false, false},      {"or", OP_OR, false, false},         {"max", OP_MAX, false, false},
    {"min", OP_MIN, false, false},
};

static const Operator *operator_find(Name text) {
  for (size_t i = 0; i < sizeof operators / sizeof *operators; i++) {
    if (strcmp(operators[i].text, text) == 0) {
      return &operators[i];
    }
  }
  return NULL;
}

static bool is_comparison(Op op) {
  return op == OP_LESS || op == OP_LESS_EQUAL || op == OP_EQUAL;
}

bool object_is_real(const Elaborator *e, const Object *object) {
  return object->kind == OBJECT_VALUE && element_type_floating(graph_value(e->graph, object->value)->type);
}

// A fraction, or a number beyond 32 bits: what is computed with it is real.
static bool is_fraction(const Elaborator *e, const Object *object) {
  double number;
  bool integer;
  return (object->kind == OBJECT_NUMBER || object->kind == OBJECT_AXIS) && object_size(object, e, &number, &integer) &&
         !(integer && fabs(number) <= INT32_MAX);
}

bool object_tensor(Elaborator *e, Object object, bool real, Span span, ValueId *value) {
  Graph *graph = e->graph;
  switch (object.kind) {
    case OBJECT_VALUE:
      *value = object.value;
      if (real && !object_is_real(e, &object)) {
        *value = graph_op1(graph, OP_TO_REAL, object.value);
      }
      return true;
    case OBJECT_NUMBER:
    case OBJECT_AXIS: {
      double number = 0;
      bool integer = false;
      object_size(&object, e, &number, &integer);
      if (!real && integer && fabs(number) <= INT32_MAX) {
        *value = graph_integer(graph, (int64_t)number);
      } else {
        *value = graph_real(graph, number);
      }
      return true;
    }
    case OBJECT_BOOL:
      *value = real ? graph_real(graph, object.number)
                    : graph_op2(graph, OP_EQUAL, graph_integer(graph, (int64_t)object.number), graph_integer(graph, 1));
      return true;
    case OBJECT_POISON:
      return false;
    default:
      help_function(
          e, diag_error(e->diag, E032, span, "expected a tensor or a number, found %s", object_describe(e, &object)),
          &object);
      return false;
  }
}

double number_of_pair(Op op, double a, double b, bool *unknown) {
  switch (op) {
    case OP_ADD:
      return a + b;
    case OP_SUB:
      return a - b;
    case OP_MUL:
      return a * b;
    case OP_DIV:
      return a / b;
    case OP_MOD:
      return a - b * floor(a / b);
    case OP_POW:
      return pow(a, b);
    case OP_MAX:
      return a > b ? a : b;
    case OP_MIN:
      return a < b ? a : b;
    case OP_LESS:
      return a < b;
    case OP_LESS_EQUAL:
      return a <= b;
    case OP_EQUAL:
      return a == b;
    case OP_AND:
      return a != 0 && b != 0;
    case OP_OR:
      return a != 0 || b != 0;
    default:
      *unknown = true;
      return 0;
  }
}

static bool fold(Elaborator *e, Op op, double a, double b, bool integers, Span span, Object *out) {
  bool unknown = false;
  const double result = number_of_pair(op, a, b, &unknown);
  if (unknown || op == OP_AND || op == OP_OR) {  // numbers are no truth
    return false;
  }
  if (b == 0 && (op == OP_MOD || (op == OP_DIV && integers))) {
    diag_error(e->diag, E034, span, "division by zero");
    *out = object_poison();
  } else if (is_comparison(op)) {
    *out = object_bool(result != 0, span);
  } else {
    const bool whole = op == OP_DIV ? result == floor(result) : op != OP_POW || b >= 0;
    *out = object_number(result, integers && whole, span);
  }
  return true;
}

static Object fold_objects(Elaborator *e, const Operator *operator, Object a, Object b, Span span, bool *done) {
  double x, y;
  bool xi, yi;
  Object out = object_poison();
  *done = true;
  if (a.kind == OBJECT_BOOL && b.kind == OBJECT_BOOL &&
      (operator->op == OP_AND || operator->op == OP_OR || operator->op == OP_EQUAL)) {
    bool left = a.number != 0, right = b.number != 0;
    bool truth = operator->op == OP_AND ? left && right : operator->op == OP_OR ? left || right : left == right;
    return object_bool(truth != operator->negate, span);
  }
  if (a.kind == OBJECT_AXIS && b.kind == OBJECT_AXIS && operator->op == OP_EQUAL) {
    return object_bool((a.axes.axis[0] == b.axes.axis[0]) != operator->negate, span);
  }
  if (object_size(&a, e, &x, &xi) && object_size(&b, e, &y, &yi) &&
      fold(e, operator->op, operator->swap ? y : x, operator->swap ? x : y, xi && yi, span, &out)) {
    if (operator->negate && out.kind == OBJECT_BOOL) {
      out.number = out.number == 0;
    }
    return out;
  }
  *done = false;
  return out;
}

static bool contained(Elaborator *e, ValueId a, ValueId b, const char *op, Span span) {
  Shape x = graph_shape(e->graph, a), y = graph_shape(e->graph, b);
  if (shape_contains(&x, &y) || shape_contains(&y, &x)) {
    return true;
  }
  Diagnostic *error = diag_error(e->diag, E022, span, "the operands of '%s' have axes %s and %s", op, axes_text(e, &x),
                                 axes_text(e, &y));
  diag_label(e->diag, error, "neither has all axes of the other");
  bool second = x.count >= y.count;
  Shape missing = second ? shape_minus(y, &x) : shape_minus(x, &y);
  diag_help(e->diag, error,
            "the %s has no '%s': if that is another name for one of its axes, rename it, `[%s -> ...]`%s",
            second ? "first" : "second", axis_name(e, missing.axis[0]), axis_name(e, missing.axis[0]),
            strcmp(op, "*") == 0 ? "; for every product of two elements write `outer(a, b)`" : "");
  return false;
}

static Object integer_pair(Elaborator *e, const Operator *operator, ValueId a, ValueId b, Span span) {
  if ((operator->op == OP_AND || operator->op == OP_OR) &&
      (graph_value(e->graph, a)->type != TYPE_BOOL || graph_value(e->graph, b)->type != TYPE_BOOL)) {
    diag_error(e->diag, E032, span, "'%s' takes two truth values", operator->text);
    return object_poison();
  }
  ValueId result = operator->swap ? graph_op2(e->graph, operator->op, b, a) : graph_op2(e->graph, operator->op, a, b);
  return object_value(operator->negate ? graph_op1(e->graph, OP_NOT, result) : result, span);
}

bool axes_fit(Elaborator *e, int count, Span span) {
  if (count > SHAPE_MAX_AXES) {
    diag_error(e->diag, E090, span, "the result would have more than %d axes", SHAPE_MAX_AXES);
  }
  return count <= SHAPE_MAX_AXES;
}

static bool too_many_axes(Elaborator *e, ValueId a, ValueId b, Span span) {
  Shape x = graph_shape(e->graph, a), y = graph_shape(e->graph, b);
  return !axes_fit(e, x.count + shape_minus(y, &x).count, span);
}

static bool is_index(const Elaborator *e, const Object *object) {
  return object->kind == OBJECT_VALUE && graph_value(e->graph, object->value)->type == TYPE_INDEX;
}

static bool is_real_value(const Elaborator *e, const Object *object) {
  return object->kind == OBJECT_VALUE && object_is_real(e, object);
}

// A score is no place: `logits == targets` is almost never true.
static bool mixes_places(Elaborator *e, const Operator *operator, const Object * a, const Object *b, Span span) {
  const Object *index = is_index(e, a) && is_real_value(e, b) ? a : is_index(e, b) && is_real_value(e, a) ? b : NULL;
  if (!index || operator->op != OP_EQUAL) {
    return false;
  }
  const AxisId of = graph_value(e->graph, index->value)->bound;
  const char *axis = of >= 0 ? axis_name(e, of) : "an axis";
  Diagnostic *error =
      diag_error(e->diag, E032, span, "'%s' compares real numbers with an index of '%s'", operator->text, axis);
  diag_help(
      e->diag, error,
      "where the largest x is, says `(_, best) = top(x over %s to one);` with `axis one = 1;`; else write `x as real`",
      axis);
  return true;
}

// `logits - targets`: the number of a place is no score of it. Positions along an axis have that axis themselves.
static bool counts_places(Elaborator *e, const Operator *operator, const Object * a, const Object *b, Span span) {
  const Object *index = is_index(e, a) && is_real_value(e, b) ? a : is_index(e, b) && is_real_value(e, a) ? b : NULL;
  const AxisId of = index ? graph_value(e->graph, index->value)->bound : -1;
  if (of < 0 || is_comparison(operator->op)) {
    return false;
  }
  const Shape places = graph_shape(e->graph, index->value);
  const Shape scores = graph_shape(e->graph, (index == a ? b : a)->value);
  if (shape_has(&places, of) || !shape_has(&scores, of)) {
    return false;
  }
  Diagnostic *error =
      diag_error(e->diag, E032, span, "'%s' of real numbers along '%s' and an index of '%s'", operator->text,
                 axis_name(e, of), axis_name(e, of));
  diag_help(e->diag, error,
            "the loss of logits is `cross_entropy(x, i over %s)`, one of them is `x[i]`; else write `i as real`",
            axis_name(e, of));
  return true;
}

Object binary_object(Elaborator *e, Name text, Object a, Object b, Span span) {
  const Operator *operator= operator_find(text);
  if (a.kind == OBJECT_POISON || b.kind == OBJECT_POISON) {
    return object_poison();
  }
  if (mixes_places(e, operator, & a, &b, span) || counts_places(e, operator, & a, &b, span)) {
    return object_poison();
  }
  bool done = false;
  Object folded = fold_objects(e, operator, a, b, span, &done);
  if (done) {
    return folded;
  }
  bool fraction = is_fraction(e, &a) || is_fraction(e, &b);
  bool real = object_is_real(e, &a) || object_is_real(e, &b) || fraction || operator->op == OP_POW;
  double divisor;
  bool whole;
  if (real && (operator->op == OP_DIV || operator->op == OP_MOD) && object_size(&b, e, &divisor, &whole) &&
      divisor == 0) {
    diag_error(e->diag, E034, span, "division by zero");
    return object_poison();
  }
  e->graph->span = span;
  ValueId x, y;
  if (!object_tensor(e, a, real, a.span, &x) || !object_tensor(e, b, real, b.span, &y) ||
      too_many_axes(e, x, y, span)) {
    return object_poison();
  }
  if (!real && operator->op != OP_POW) {
    return integer_pair(e, operator, x, y, span);
  }
  if (operator->op == OP_AND || operator->op == OP_OR) {
    diag_error(e->diag, E032, span, "'%s' takes two truth values", operator->text);
    return object_poison();
  }
  if (operator->op == OP_MOD) {  // a - b * floor(a / b)
    ValueId floor_of = graph_op1(e->graph, OP_FLOOR, graph_op2(e->graph, OP_DIV, x, y));
    return object_value(graph_op2(e->graph, OP_SUB, x, graph_op2(e->graph, OP_MUL, y, floor_of)), span);
  }
  if (!is_comparison(operator->op) && !contained(e, x, y, operator->text, span)) {
    return object_poison();
  }
  return integer_pair(e, operator, x, y, span);
}

double number_of_unary(Op op, double x, bool *unknown) {
  switch (op) {
    case OP_NEG:
      return -x;
    case OP_ABS:
      return fabs(x);
    case OP_SIGN:
      return (x > 0) - (x < 0);
    case OP_FLOOR:
      return floor(x);
    case OP_EXP:
      return exp(x);
    case OP_LOG:
      return log(x);
    case OP_SQRT:
      return sqrt(x);
    case OP_RSQRT:
      return 1 / sqrt(x);
    case OP_RECIPROCAL:
      return 1 / x;
    case OP_SIN:
      return sin(x);
    case OP_COS:
      return cos(x);
    case OP_TANH:
      return tanh(x);
    case OP_SIGMOID:
      return 1 / (1 + exp(-x));
    case OP_ERF:
      return erf(x);
    default:
      *unknown = true;
      return NAN;
  }
}

Object unary_object(Elaborator *e, Op op, Object a, Span span) {
  if (a.kind == OBJECT_POISON) {
    return a;
  }
  double number;
  bool integer;
  if (op == OP_NOT && a.kind == OBJECT_BOOL) {
    return object_bool(a.number == 0, span);
  }
  if (op == OP_IS_FINITE && object_size(&a, e, &number, &integer)) {
    return object_bool(isfinite(number), span);
  }
  if (op != OP_NOT && object_size(&a, e, &number, &integer)) {
    bool unknown = false, keeps = op == OP_NEG || op == OP_ABS || op == OP_SIGN || op == OP_FLOOR;
    return object_number(number_of_unary(op, number, &unknown), (integer && keeps) || op == OP_FLOOR, span);
  }
  e->graph->span = span;
  ValueId x;
  if (!object_tensor(e, a, false, span, &x)) {
    return object_poison();
  }
  ElementType type = graph_value(e->graph, x)->type;
  if (op == OP_NOT) {
    if (type != TYPE_BOOL) {
      diag_error(e->diag, E032, span, "'not' takes a truth value, found %s", object_describe(e, &a));
      return object_poison();
    }
    return object_value(graph_op1(e->graph, OP_NOT, x), span);
  }
  if (!element_type_floating(type)) {
    if (op == OP_NEG) {
      return object_value(graph_op2(e->graph, OP_SUB, graph_integer(e->graph, 0), x), span);
    }
    if (op == OP_ABS) {
      ValueId minus = graph_op2(e->graph, OP_SUB, graph_integer(e->graph, 0), x);
      return object_value(graph_op2(e->graph, OP_MAX, x, minus), span);
    }
    x = graph_op1(e->graph, OP_TO_REAL, x);
  }
  return object_value(graph_op1(e->graph, op, x), span);
}

Object where_object(Elaborator *e, Object condition, Object a, Object b, Span span) {
  if (condition.kind == OBJECT_POISON || a.kind == OBJECT_POISON || b.kind == OBJECT_POISON) {
    return object_poison();
  }
  if (condition.kind == OBJECT_BOOL) {
    return condition.number != 0 ? a : b;
  }
  if (condition.kind != OBJECT_VALUE || graph_value(e->graph, condition.value)->type != TYPE_BOOL) {
    Diagnostic *error = diag_error(e->diag, E032, span, "the condition of where is %s, not a truth value",
                                   object_describe(e, &condition));
    diag_help(e->diag, error, "compare: `where(mask != 0, ...)`");
    return object_poison();
  }
  bool fraction = is_fraction(e, &a) || is_fraction(e, &b);
  bool numbers = a.kind != OBJECT_VALUE && b.kind != OBJECT_VALUE;
  bool real = object_is_real(e, &a) || object_is_real(e, &b) || fraction || numbers;
  e->graph->span = span;
  ValueId x, y;
  if (!object_tensor(e, a, real, span, &x) || !object_tensor(e, b, real, span, &y) ||
      too_many_axes(e, x, condition.value, span) || (real && !contained(e, x, y, "where", span))) {
    return object_poison();
  }
  Shape test = graph_shape(e->graph, condition.value), values = graph_shape(e->graph, y);
  values = shape_union(graph_shape(e->graph, x), &values);
  if (real && !shape_contains(&test, &values) && !shape_contains(&values, &test)) {
    Diagnostic *error = diag_error(e->diag, E022, span, "the condition of where has axes %s, the values have %s",
                                   axes_text(e, &test), axes_text(e, &values));
    diag_label(e->diag, error, "neither has all axes of the other");
    Shape missing = shape_minus(test, &values);
    diag_help(e->diag, error, "the values have no '%s': rename an axis where it stands for that, `[... -> %s]`",
              axis_name(e, missing.axis[0]), axis_name(e, missing.axis[0]));
    return object_poison();
  }
  return object_value(graph_op3(e->graph, OP_WHERE, condition.value, x, y), span);
}

bool check_axes(Elaborator *e, ValueId value, const Shape *axes, Span span, const char *what) {
  Shape shape = graph_shape(e->graph, value);
  for (int i = 0; i < axes->count; i++) {
    if (!shape_has(&shape, axes->axis[i])) {
      Diagnostic *error = diag_error(e->diag, E020, span, "%s has no axis '%s'", what, axis_name(e, axes->axis[i]));
      diag_label(e->diag, error, "its axes are %s", axes_text(e, &shape));
      const char *names[SHAPE_MAX_AXES];
      for (int j = 0; j < shape.count; j++) {
        names[j] = axis_name(e, shape.axis[j]);
      }
      const char *closest = text_closest(axis_name(e, axes->axis[i]), names, shape.count);
      if (closest) {
        diag_help(e->diag, error, "did you mean `%s`?", closest);
      }
      return false;
    }
  }
  return true;
}
