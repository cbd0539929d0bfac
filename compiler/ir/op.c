// op.c: see op.h.
#include "compiler/ir/op.h"

#include <stdint.h>
#include <string.h>

// As ops.def writes them. MAY(a): the attribute may be unset. OFFSET: an integer that is a place along an axis. EACH:
// axes, one for each operand.
enum {
  NONE = 0,
  TEXT = ATTRIBUTE_TEXT,
  AXES = ATTRIBUTE_AXES,
  AXIS = ATTRIBUTE_AXIS,
  AXIS2 = ATTRIBUTE_AXIS2,
  INTEGER = ATTRIBUTE_INTEGER,
  NUMBER = ATTRIBUTE_NUMBER,
  REGION = ATTRIBUTE_REGION,
  IS_OFFSET = 1 << 2 * ATTRIBUTE_BITS,
  IS_EACH = IS_OFFSET << 1,
#define MAY(attributes) ((attributes) << ATTRIBUTE_BITS)
  OFFSET = MAY(INTEGER) | IS_OFFSET,
  EACH = AXES | IS_EACH
};

enum {
#define PROPERTY(NAME, name, says) BIT_##NAME,
#include "compiler/ir/properties.def"
#undef PROPERTY
  PROPERTIES
};

enum {
#define PROPERTY(NAME, name, says) NAME = 1LL << BIT_##NAME,
#include "compiler/ir/properties.def"
#undef PROPERTY
};

_Static_assert(PROPERTIES < 64, "properties are bits of an int64_t");

static const struct {
  const char *text;
  int attributes;
  int64_t properties;
} op_table[] = {
#define OP(NAME, text, least, most, infer, gradient, cost, split, padding, samples, attributes, properties) \
  {text, attributes, properties},
#include "compiler/ir/ops.def"
#undef OP
};

const char *op_name(Op op) {
  return op_table[op].text;
}

bool op_of(const char *text, Op *op) {
  for (int i = 0; i < OP_COUNT; i++) {
    if (strcmp(op_table[i].text, text) == 0) {
      *op = (Op)i;
      return true;
    }
  }
  return false;
}

static bool has(Op op, int64_t properties) {
  return (op_table[op].properties & properties) != 0;
}

#define PROPERTY(NAME, name, says) \
  bool op_##name(Op op) {          \
    return has(op, NAME);          \
  }
#include "compiler/ir/properties.def"
#undef PROPERTY

bool op_free(Op op) {
  return has(op, LEAF) && !has(op, DECLARED);
}

bool op_given(Op op) {
  return has(op, LEAF) && has(op, DECLARED);
}

bool op_draws(Op op) {
  return has(op, RANDOM);
}

bool op_cheap(Op op) {
  return has(op, ELEMENTWISE | RANDOM);
}

bool op_copies(Op op) {
  return has(op, SAME | MOVES | PICKS);
}

bool op_fusable(Op op) {
  return has(op, ELEMENTWISE | REDUCTION | RANDOM);
}

bool op_message(Op op) {
  return op == OP_SEND || op == OP_RECEIVE;
}

bool op_list(Op op) {
  return op_region(op) && !has(op, KERNEL);
}

OpCombine op_combine(Op op) {
  return has(op, LARGEST) ? COMBINE_BY_LARGEST : has(op, SMALLEST) ? COMBINE_BY_SMALLEST : COMBINE_BY_SUM;
}

bool op_linear_in(Op op, int operand) {
  return has(op, BILINEAR) ? operand < 2 : has(op, LINEAR) && operand == 0;
}

int op_needed(Op op) {
  return op_table[op].attributes & ((1 << ATTRIBUTE_BITS) - 1);
}

int op_used(Op op) {
  return (op_table[op].attributes | op_table[op].attributes >> ATTRIBUTE_BITS) & ((1 << ATTRIBUTE_BITS) - 1);
}

bool op_region(Op op) {
  return (op_needed(op) & ATTRIBUTE_REGION) != 0;
}

bool op_offset(Op op) {
  return (op_table[op].attributes & IS_OFFSET) != 0;
}

bool op_each(Op op) {
  return (op_table[op].attributes & IS_EACH) != 0;
}
