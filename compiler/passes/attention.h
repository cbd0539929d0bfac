// attention.h: the attributes of the composite "attention", and of "attention.grad"; see recognise.c.
#ifndef MDL_COMPILER_PASSES_ATTENTION_H
#define MDL_COMPILER_PASSES_ATTENTION_H

#include "compiler/compilation.h"

enum {
  ATTENTION_HAS_BATCH = 1 << 8,
  ATTENTION_HAS_HEADS = 1 << 9,
  ATTENTION_HAS_GROUP = 1 << 10,
  ATTENTION_HAS_VALUE_DEPTH = 1 << 11,
  ATTENTION_CAUSAL = 1 << 12,
};

#endif
