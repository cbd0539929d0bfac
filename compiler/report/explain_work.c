// explain_work.c: the shape of what a training step was lowered to: how many instructions, how large its products are,
// and how much more memory they move than they had to.
//
// Every segment counts once, on every stage; what is sent counts for a whole step.
#include "compiler/report/explain_part.h"

// Products that a product is made of, although one of its operands is the same for all of them: they could be one.
static int64_t parts_of(const Gemm *gemm, const int64_t *stride) {
  int64_t parts = 1;
  for (int i = 0; i < gemm->batch_count; i++) {
    parts *= stride[i] == 0 ? gemm->batch[i] : 1;
  }
  return parts;
}

static int64_t least(int64_t known, int64_t size) {
  return known == 0 || size < known ? size : known;
}

// In pieces of fewer rows or columns than a matrix unit takes at once: larger ones read what they share from a cache.
static bool is_split(const Instruction *instruction, int64_t rows, int64_t columns) {
  enum { PIECE = 64 };
  const Gemm *gemm = &instruction->as.gemm;
  return !instruction->parts && ((rows > 1 && gemm->m < PIECE) || (columns > 1 && gemm->n < PIECE));
}

static void add_product(Work *work, const Instruction *instruction) {
  const Gemm *gemm = &instruction->as.gemm;
  const int64_t rows = parts_of(gemm, gemm->stride_b), columns = parts_of(gemm, gemm->stride_a);
  double count = 1;
  for (int i = 0; i < gemm->batch_count; i++) {
    count *= (double)gemm->batch[i];
  }
  work->products++;
  work->batched += gemm->batch_count > 0;
  work->split += is_split(instruction, rows, columns);
  work->separate += is_split(instruction, rows, columns) ? (int64_t)count : 0;
  work->m = least(work->m, gemm->m);
  work->n = least(work->n, gemm->n);
  work->k = least(work->k, gemm->k);
  double m = (double)gemm->m * (double)rows, n = (double)gemm->n * (double)columns, k = (double)gemm->k;
  count /= (double)rows * (double)columns;
  double narrow = (double)element_type_bytes(gemm->type), wide = (double)element_type_bytes(gemm->type_c);
  work->moved += instruction->bytes;
  work->ideal += count * ((m * k + k * n) * narrow + (m * n + (gemm->epilogue == EPILOGUE_BIAS ? n : 0)) * wide);
}

// One product for each matrix; rows are what each gets where all get as many.
static void add_grouped(Work *work, const Instruction *instruction) {
  const Grouped *grouped = &instruction->as.grouped;
  const bool sums = instruction->kind == INSTRUCTION_GROUPED_SUM;
  const int64_t rows = grouped->rows / grouped->extent;
  work->products++;
  work->m = least(work->m, sums ? grouped->m : rows);
  work->n = least(work->n, grouped->n);
  work->k = least(work->k, sums ? rows : grouped->k);
  work->moved += instruction->bytes;
  work->ideal += instruction->bytes;
}

// Does it only move a value, which could have been made where it is wanted?
static bool only_copies(const Kernel *kernel) {
  return kernel->code_count == 2 && kernel->code[0].op == KERNEL_LOAD && kernel->code[1].op == KERNEL_STORE &&
         kernel->port[kernel->code[0].port].type == kernel->port[kernel->code[1].port].type;
}

static void add_segment(Work *work, const Plan *plan, const PlanSegment *segment) {
  for (int i = 0; i < segment->count; i++) {
    const Instruction *instruction = &segment->instructions[i];
    work->instructions++;
    if (instruction->kind == INSTRUCTION_GEMM) {
      add_product(work, instruction);
      continue;
    }
    if (instruction_multiplies(instruction)) {
      add_grouped(work, instruction);
      continue;
    }
    bool copy = instruction->kind == INSTRUCTION_KERNEL && only_copies(plan->kernels[instruction->as.kernel.kernel]);
    work->copies += copy;
    work->copied += copy ? instruction->bytes : 0;
    work->moved += instruction->kind == INSTRUCTION_COLLECTIVE ? 0 : instruction->bytes;
    work->ideal += instruction->kind == INSTRUCTION_COLLECTIVE || copy ? 0 : instruction->bytes;
  }
}

Work explain_work(const PlanSet *set) {
  Work work = {0};
  for (int s = 0; s < set->count; s++) {
    const Plan *plan = set->plans[s];
    for (int i = 0; i < plan->segment_count; i++) {
      if (plan_calls(plan, PROGRAM_TRAIN, i) > 0) {
        add_segment(&work, plan, &plan->segments[i]);
      }
    }
  }
  return work;
}
