// generate_turn.c: rows that lie across memory, as columns.
//
// A sum over the inner dims of values whose neighbours in memory lie along the outer dims (a bias gradient of a
// transposed value, say) is a column sum of the kernel with its sides exchanged, which reads whole lines.
#include <string.h>

#include "kernels/cuda/generate_internal.h"

// Bytes of inputs that lie along the last dim of a side.
static double bytes_along(const Kernel *kernel, int begin, int end) {
  double bytes = 0.0;
  for (int p = 0; p < kernel->port_count; p++) {
    const KernelPort *port = &kernel->port[p];
    bool along = false;
    double elements = (double)element_type_bytes(port->type);
    for (int d = 0; d < kernel->dim_count; d++) {
      along |= d >= begin && d < end && port->stride[d] == 1 && kernel->size[d] > 1;
      elements *= port->stride[d] != 0 ? (double)kernel->size[d] : 1.0;
    }
    bytes += along && port->kind != PORT_STRIDES ? elements : 0.0;
  }
  return bytes;
}

// Every row reduction is stored as it is, whole, and nothing else is reduced.
static bool can_turn(const Kernel *kernel, int *stored) {
  const unsigned outer = kernel_dims_of_level(kernel, LEVEL_ROW);
  memset(stored, -1, sizeof *stored * KERNEL_MAX_CODE);
  for (int i = 0; i < kernel->code_count; i++) {
    const KernelInstruction *code = &kernel->code[i];
    int operand[3];
    kernel_operands(code, operand);
    if (op_is_column_reduction(code->op)) {
      return false;
    }
    for (int k = 0; k < kernel_op_operands(code->op); k++) {
      if (!op_is_row_reduction(kernel->code[operand[k]].op)) {
        continue;
      }
      if (code->op != KERNEL_STORE || code->level != LEVEL_ROW || stored[operand[k]] >= 0 ||
          kernel_dims_of_stride(kernel, kernel->port[code->port].stride) != outer) {
        return false;
      }
      stored[operand[k]] = i;
    }
  }
  return true;
}

static KernelLevel level_turned(KernelLevel level) {
  return (KernelLevel)(((level & LEVEL_ROW) ? LEVEL_COLUMN : 0) | ((level & LEVEL_COLUMN) ? LEVEL_ROW : 0));
}

const Kernel *kernel_turned(Arena *arena, const Kernel *kernel) {
  const int outer = kernel->dim_count - kernel->inner_count;
  int stored[KERNEL_MAX_CODE];
  if (!kernel->row_reductions || bytes_along(kernel, 0, outer) <= bytes_along(kernel, outer, kernel->dim_count) ||
      !can_turn(kernel, stored)) {
    return kernel;
  }
  Kernel *turned = arena_copy(arena, kernel, sizeof *kernel);
  turned->port = arena_copy(arena, kernel->port, sizeof *kernel->port * (size_t)kernel->port_count);
  turned->code = arena_copy(arena, kernel->code, sizeof *kernel->code * (size_t)kernel->code_count);
  turned->inner_count = outer;
  turned->row_reductions = false;
  turned->parts = 0;  // those of a dim that is no longer the first
  for (int d = 0; d < kernel->dim_count; d++) {
    const int from = (d + outer) % kernel->dim_count;
    turned->size[d] = kernel->size[from];
    for (int p = 0; p < kernel->port_count; p++) {
      turned->port[p].stride[d] = kernel->port[p].stride[from];
    }
  }
  for (int i = 0; i < kernel->code_count; i++) {
    KernelInstruction *code = &turned->code[i];
    code->level = level_turned(code->level);
    if (stored[i] >= 0) {  // the store becomes the reduction; what was the reduction is needed by nothing
      KernelInstruction *store = &turned->code[stored[i]];
      store->op = (KernelOp)(KERNEL_COLUMN_SUM + (code->op - KERNEL_ROW_SUM));
      store->a = code->a;
      store->level = LEVEL_COLUMN;
    }
  }
  for (int i = 0; i < kernel->code_count; i++) {
    if (op_is_row_reduction(turned->code[i].op)) {
      turned->code[i] =
          (KernelInstruction){.op = KERNEL_INTEGER, .integer = true, .a = -1, .b = -1, .c = -1, .port = -1};
    }
  }
  return turned;
}
