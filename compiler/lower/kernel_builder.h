// kernel_builder.h: a Kernel as it is built: its space, its ports, its code; at the end an instruction that calls it.
//
// What does not fit into a kernel is a diagnostic, and sets `failed`: then nothing comes of it.
#ifndef MDL_COMPILER_LOWER_KERNEL_BUILDER_H
#define MDL_COMPILER_LOWER_KERNEL_BUILDER_H

#include "compiler/lower/lower.h"

typedef struct {
  Lower *l;
  const Node *node;    // the group
  Shape outer, inner;  // dims of the space, major first
  Shape space;         // outer then inner
  Kernel kernel;
  Place *places;
  ValueId *port_value;  // of inputs, so that each is loaded once
  int *port_register;
  Map registers;  // value to register
  bool decided;   // the group says which dims are inner
  bool failed;
  double share;  // of the first dim that is computed, about: 1 where no parts are chosen
} Builder;

// Every start has a finish.
void builder_start(Builder *b, Lower *l);
void builder_space(Builder *b);  // of outer and inner
int builder_port(Builder *b, PortKind kind, ElementType type);
// Of the first dim, which is that of the blocks, those are computed that have a choice.
void builder_chosen(Builder *b, ValueId chosen);
void builder_strides(Builder *b, int port, const Shape *shape, const int64_t *stride);
KernelLevel builder_level(const Builder *b, const int64_t *stride);
KernelInstruction builder_blank(KernelOp op, bool integer, KernelLevel level);
int builder_code(Builder *b, KernelInstruction instruction);  // the number of its register
KernelLevel builder_register_level(const Builder *b, int reg);
void builder_finish(Builder *b);
int builder_keep(Builder *b);  // the number of the kernel, which no instruction calls by itself; -1 if it failed

// lower_kernel.c: an elementwise operation, or one without operands, as code; returns its register.
int builder_operation(Builder *b, const Node *node);

#endif
