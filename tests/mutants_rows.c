// mutants_rows.c: rows that are wrong in one place: positions sorted by what they choose, and what goes by that order.
#include <string.h>

#include "tests/mutants.h"

static const char *mutate_order(Order *order, int way, MutantKind *kind) {
  static const char *const words[] = {"the last position is left out", "the last of what they choose is left out",
                                      "what a position chooses is what the next one does"};
  *kind = way < 2 ? MUTANT_COUNTED : MUTANT_ROWS;
  order->count -= way == 0;
  order->extent -= way == 1;
  order->index.offset += way == 2 ? element_type_bytes(TYPE_INDEX) : 0;
  return way < 3 ? words[way] : NULL;
}

static const char *mutate_grouped(Grouped *grouped, int way, MutantKind *kind) {
  static const char *const words[] = {"the last matrix is left out", "a block has the matrix of the next one",
                                      "rows begin one later", "matrices lie closer by an element"};
  const bool several = grouped->extent > 1;
  *kind = way == 0 ? MUTANT_COUNTED : MUTANT_ROWS;
  grouped->extent -= way == 0;
  grouped->chosen.offset += way == 1 ? element_type_bytes(TYPE_INDEX) : 0;
  grouped->a.offset += way == 2 ? grouped->lda * element_type_bytes(grouped->type) : 0;
  grouped->stride -= way == 3;
  return way < (several ? 4 : 3) ? words[way] : NULL;
}

static const char *mutate_take(Take *take, int way, MutantKind *kind) {
  *kind = MUTANT_ROWS;
  take->index.offset += way == 0 ? element_type_bytes(TYPE_INDEX) : 0;
  take->chosen.offset += way == 1 ? element_type_bytes(TYPE_INDEX) : 0;
  return way == 0                      ? "what is looked up is what comes next"
         : way == 1 && take->parts > 0 ? "a block is left out if the next one is empty"
                                       : NULL;
}

// The places that all calls of a kernel share stay as they are.
static const char *mutate_kernel(const Plan *plan, KernelCall *call, int way, MutantKind *kind) {
  static Place changed[KERNEL_MAX_PORTS];
  const Kernel *kernel = plan->kernels[call->kernel];
  const int chosen = kernel_chosen(kernel);
  if (way > 0 || chosen < 0) {
    return NULL;
  }
  *kind = MUTANT_ROWS;
  memcpy(changed, call->place, sizeof *changed * (size_t)kernel->port_count);
  changed[chosen].offset += element_type_bytes(TYPE_INDEX);
  call->place = changed;
  return "a block is left out if the next one is empty";
}

const char *rows_mutate(const Plan *plan, Instruction *instruction, int way, MutantKind *kind) {
  switch (instruction->kind) {
    case INSTRUCTION_KERNEL:
      return mutate_kernel(plan, &instruction->as.kernel, way, kind);
    case INSTRUCTION_ORDER:
      return mutate_order(&instruction->as.order, way, kind);
    case INSTRUCTION_GROUPED:
    case INSTRUCTION_GROUPED_SUM:
      return mutate_grouped(&instruction->as.grouped, way, kind);
    case INSTRUCTION_TAKE:
    case INSTRUCTION_PUT:
      return mutate_take(&instruction->as.take, way, kind);
    default:
      return NULL;
  }
}
