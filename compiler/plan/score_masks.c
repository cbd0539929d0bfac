// score_masks.c: see score_masks.h.
#include "compiler/plan/score_masks.h"

#include <math.h>

typedef ScoreRange Range;

static const Range everything = {INT32_MIN, INT32_MAX};
static const int64_t FURTHEST = INT64_C(1) << 30;  // a position

// --- the arithmetic, here and on devices ---

static int64_t range_least(int64_t a, int64_t b) {
  return a < b ? a : b;
}

static int64_t range_most(int64_t a, int64_t b) {
  return a > b ? a : b;
}

static int64_t range_floor(int64_t a, int64_t b) {
  return a / b - (a % b < 0);
}

static bool is_true(Range range) {
  return range.low > 0 || range.high < 0;
}

static bool is_false(Range range) {
  return range.low == 0 && range.high == 0;
}

#define RANGE_OP(NAME, low_of, high_of)                    \
  static Range range_##NAME(Range a, Range b, Range c) {   \
    (void)b;                                               \
    (void)c;                                               \
    return (Range){(int64_t)(low_of), (int64_t)(high_of)}; \
  }
#include "compiler/plan/ranges.def"

typedef Range (*RangeFn)(Range a, Range b, Range c);

static const RangeFn functions[KERNEL_OP_COUNT] = {
#define RANGE_OP(NAME, low, high) [KERNEL_##NAME] = range_##NAME,
#include "compiler/plan/ranges.def"
};

const char *score_range_function(KernelOp op) {
  static const char *const names[KERNEL_OP_COUNT] = {
#define RANGE_OP(NAME, low, high) [KERNEL_##NAME] = "range_" #NAME,
#include "compiler/plan/ranges.def"
  };
  return names[op];
}

const char score_ranges_text[] =
    "struct Range {\n  int low, high;\n};\n\n"
    "DEVICE bool is_true(const Range &range) { return range.low > 0 || range.high < 0; }\n"
    "DEVICE bool is_false(const Range &range) { return range.low == 0 && range.high == 0; }\n"
    "DEVICE int range_least(int a, int b) { return a < b ? a : b; }\n"
    "DEVICE int range_most(int a, int b) { return a > b ? a : b; }\n"
    "DEVICE int range_floor(int a, int b) { return a / b - (a % b < 0); }\n"
#define RANGE_OP(NAME, low, high)                    \
  "DEVICE Range range_" #NAME                        \
  "(const Range &a, const Range &b, const Range &c)" \
  " { return Range{(int)(" #low "), (int)(" #high ")}; }\n"
#include "compiler/plan/ranges.def"
    ;

static Range number_of(const KernelInstruction *code) {
  const int32_t number = (int32_t)(uint32_t)(uint64_t)code->constant;
  return (Range){number, number};
}

static bool is_one(Range range) {
  return range.low == range.high;
}

static Range operand_of(const KernelInstruction *code, const Range *range, int which) {
  int operand[3];
  kernel_operands(code, operand);
  return which < kernel_op_operands(code->op) ? range[operand[which]] : everything;
}

// Of an instruction RANGE_MADE. *told: it is not just any number, and nothing overflows.
static Range range_made(const KernelInstruction *code, const Range *range, bool *told) {
  const Range a = operand_of(code, range, 0), b = operand_of(code, range, 1), c = operand_of(code, range, 2);
  *told = code->op != KERNEL_INT_DIV || (is_one(b) && b.low > 0);
  if (!*told) {
    return everything;
  }
  const Range made = functions[code->op](a, b, c);
  *told = made.low >= INT32_MIN && made.high <= INT32_MAX;
  return *told ? made : everything;
}

// --- which integers masks ask for ---

// An element for each query, or key, or one for all; not by head. Batches have their own.
static bool is_ranged(const Kernel *kernel, int port) {
  const int64_t *stride = kernel->port[port].stride;
  const bool one_side = stride[SCORE_DIM_KEY] == 0 || stride[SCORE_DIM_QUERY] == 0;
  return port >= SCORE_CAPTURED && one_side && stride[1] == 0 && stride[2] == 0;
}

// The kind of an integer, given those before it. *range: between which numbers it can only lie.
static RangeKind kind_of(const Kernel *kernel, int at, const bool *known, Range *range) {
  const KernelInstruction *code = &kernel->code[at];
  range[at] = everything;
  if (!code->integer) {
    return RANGE_UNKNOWN;
  }
  if (code->op == KERNEL_INTEGER) {
    range[at] = number_of(code);
    return RANGE_NUMBER;
  }
  if (code->op == KERNEL_IOTA) {
    range[at] = (Range){0, FURTHEST};
    return code->constant != 0 ? RANGE_UNKNOWN : code->port == SCORE_KEY ? RANGE_KEY : RANGE_QUERY;
  }
  if (code->op == KERNEL_LOAD) {
    return is_ranged(kernel, code->port) ? RANGE_CAPTURED : RANGE_UNKNOWN;
  }
  bool told = functions[code->op] != NULL, any = false;
  int operand[3];
  kernel_operands(code, operand);
  for (int k = 0; k < kernel_op_operands(code->op); k++) {
    any |= known[operand[k]];
  }
  range[at] = told && any ? range_made(code, range, &told) : everything;
  return told && any ? RANGE_MADE : RANGE_UNKNOWN;
}

static bool is_number(const Kernel *kernel, int at, double number) {
  return kernel->code[at].op == KERNEL_CONST && kernel->code[at].number == number;
}

// A mask hides scores as -infinity, and their gradients as 0.
static int open_of(const Kernel *kernel, const KernelInstruction *code) {
  if (is_number(kernel, code->c, -INFINITY) || is_number(kernel, code->b, -INFINITY)) {
    return is_number(kernel, code->c, -INFINITY) ? 1 : 2;
  }
  return is_number(kernel, code->c, 0) ? 1 : is_number(kernel, code->b, 0) ? 2 : 0;
}

// Whether all that may be -infinity is so where a mask hides: infinite numbers are for masks, and nothing that is
// captured has any.
static bool masks_alone(const Kernel *kernel, const ScoreMasks *masks) {
  for (int i = 0; i < kernel->code_count; i++) {
    const KernelInstruction *code = &kernel->code[i];
    int operand[3];
    kernel_operands(code, operand);
    if (code->op == KERNEL_LOAD && !code->integer && code->port >= SCORE_CAPTURED) {
      return false;
    }
    for (int k = 0; k < kernel_op_operands(code->op); k++) {
      const KernelInstruction *of = &kernel->code[operand[k]];
      const bool closed = masks->open[i] && k == 3 - masks->open[i];
      if (of->op == KERNEL_CONST && isinf(of->number) && !closed) {
        return false;
      }
    }
  }
  return true;
}

// Distances between positions tell what these hide: compiler/rewrite/visible.c.
static bool is_of_distance(const KernelInstruction *code) {
  switch (code->op) {
    case KERNEL_INTEGER:
    case KERNEL_IOTA:
    case KERNEL_INT_ADD:
    case KERNEL_INT_SUB:
    case KERNEL_INT_LESS:
    case KERNEL_INT_LESS_EQUAL:
    case KERNEL_INT_EQUAL:
    case KERNEL_AND:
      return true;
    default:
      return false;
  }
}

static void ask_for(const Kernel *kernel, ScoreMasks *masks, const RangeKind *kind, int at) {
  const KernelInstruction *code = &kernel->code[at];
  int operand[3];
  if (masks->kind[at] != RANGE_UNKNOWN || kind[at] == RANGE_UNKNOWN) {
    return;
  }
  masks->kind[at] = kind[at];
  masks->beyond |= !is_of_distance(code);
  if (kind[at] == RANGE_CAPTURED) {
    bool there = false;
    for (int i = 0; i < masks->ranged_count; i++) {
      there |= masks->ranged[i] == code->port;
    }
    if (!there && masks->ranged_count == SCORE_MOST_RANGED) {
      masks->kind[at] = RANGE_UNKNOWN;
    } else if (!there) {
      masks->ranged[masks->ranged_count++] = code->port;
    }
  }
  kernel_operands(code, operand);
  for (int k = 0; kind[at] == RANGE_MADE && k < kernel_op_operands(code->op); k++) {
    ask_for(kernel, masks, kind, operand[k]);
  }
}

void score_masks(const Kernel *kernel, ScoreMasks *masks) {
  RangeKind kind[KERNEL_MAX_CODE];
  Range range[KERNEL_MAX_CODE];
  bool known[KERNEL_MAX_CODE];
  *masks = (ScoreMasks){0};
  for (int i = 0; i < kernel->code_count; i++) {
    const KernelInstruction *code = &kernel->code[i];
    kind[i] = kind_of(kernel, i, known, range);
    known[i] = kind[i] != RANGE_UNKNOWN && kind[i] != RANGE_NUMBER;
    if (code->op == KERNEL_WHERE && known[code->a]) {
      masks->choice[i] = true;
      masks->open[i] = open_of(kernel, code);
      masks->any |= masks->open[i] > 0;
      ask_for(kernel, masks, kind, code->a);
    }
  }
  masks->alone = masks_alone(kernel, masks);
}

bool score_masks_only(const Kernel *kernel, const ScoreMasks *masks, bool *part, double *factor) {
  double times[KERNEL_MAX_CODE];
  for (int i = 0; i < kernel->code_count; i++) {
    const KernelInstruction *code = &kernel->code[i];
    int operand[3];
    kernel_operands(code, operand);
    const int open = masks->open[i] ? operand[masks->open[i]] : -1;
    const bool first = code->a >= 0 && part[code->a];
    part[i] = true;
    if (code->op == KERNEL_LOAD && code->port == SCORE_DOT) {
      times[i] = 1;
    } else if (code->op == KERNEL_MUL && first != part[code->b] &&
               kernel->code[first ? code->b : code->a].op == KERNEL_CONST) {
      times[i] = times[first ? code->a : code->b] * kernel->code[first ? code->b : code->a].number;
    } else if (open >= 0 && part[open] && is_number(kernel, operand[3 - masks->open[i]], -INFINITY)) {
      times[i] = times[open];
    } else if (code->op == KERNEL_STORE && first) {
      times[i] = times[code->a];
    } else {
      part[i] = false;
    }
  }
  *factor = part[kernel->code_count - 1] ? times[kernel->code_count - 1] : 0;
  return masks->any && masks->alone && *factor > 0;
}

// --- a block ---

static Range range_of(const Kernel *kernel, const ScoreMasks *masks, const ScoreBlock *block, int at,
                      const Range *range) {
  const KernelInstruction *code = &kernel->code[at];
  bool told;
  switch (masks->kind[at]) {
    case RANGE_QUERY:
      return block->query;
    case RANGE_KEY:
      return block->key;
    case RANGE_NUMBER:
      return number_of(code);
    case RANGE_CAPTURED:
      for (int i = 0; i < masks->ranged_count; i++) {
        if (masks->ranged[i] == code->port) {
          return block->captured[i];
        }
      }
      return everything;
    case RANGE_MADE:
      return range_made(code, range, &told);
    default:
      return everything;
  }
}

HiddenWhen score_hidden(const KernelInstruction *code) {
  switch (code->op) {
    case KERNEL_CONST:
      return code->number < 0 && isinf(code->number) ? HIDDEN_ALWAYS : HIDDEN_NEVER;
    case KERNEL_ADD:
    case KERNEL_MIN:
      return HIDDEN_EITHER;
    case KERNEL_MAX:
      return HIDDEN_BOTH;
    case KERNEL_SUB:
    case KERNEL_STORE:
      return HIDDEN_FIRST;
    case KERNEL_WHERE:
      return HIDDEN_CHOICE;
    default:
      return HIDDEN_NEVER;
  }
}

static bool hides(const KernelInstruction *code, const Range *range, const bool *hidden) {
  switch (score_hidden(code)) {
    case HIDDEN_ALWAYS:
      return true;
    case HIDDEN_FIRST:
      return hidden[code->a];
    case HIDDEN_EITHER:
      return hidden[code->a] || hidden[code->b];
    case HIDDEN_BOTH:
      return hidden[code->a] && hidden[code->b];
    case HIDDEN_CHOICE:
      return is_false(range[code->a])  ? hidden[code->c]
             : is_true(range[code->a]) ? hidden[code->b]
                                       : hidden[code->b] && hidden[code->c];
    default:
      return false;
  }
}

ScoresKnown score_block(const Kernel *kernel, const ScoreMasks *masks, const ScoreBlock *block) {
  Range range[KERNEL_MAX_CODE];
  bool hidden[KERNEL_MAX_CODE], whole = masks->any;
  for (int i = 0; i < kernel->code_count; i++) {
    range[i] = range_of(kernel, masks, block, i, range);
    hidden[i] = hides(&kernel->code[i], range, hidden);
    if (masks->open[i]) {
      const Range of = range[kernel->code[i].a];
      whole = whole && (masks->open[i] == 1 ? is_true(of) : is_false(of));
    }
  }
  return hidden[kernel->code_count - 1] ? SCORES_HIDDEN : whole ? SCORES_WHOLE : SCORES_MIXED;
}
