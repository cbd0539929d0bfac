// partials.c: reductions over blocks: what each block leaves in scratch memory, and what adds it up: the last block of
// the same launch, where there are only totals, or one launch more.
#include <inttypes.h>

#include "kernels/cuda/generate_internal.h"

enum { FINISH_BLOCK = 512, FINISH_COLUMNS = 32, FINISH_LINES = FINISH_BLOCK / FINISH_COLUMNS };

void partial_add(Generator *g, const CudaProgram *program, int code, int64_t parts, int64_t columns) {
  g->partial[g->partial_count++] = (CudaPartial){.program = program,
                                                 .code = code,
                                                 .parts = parts,
                                                 .columns = columns,
                                                 .offset = scratch_take(g, parts * columns * g->real_bytes)};
}

static const CudaPartial *partial_of(const Generator *g, int code) {
  for (int i = 0; i < g->partial_count; i++) {
    if (g->partial[i].code == code) {
      return &g->partial[i];
    }
  }
  return NULL;
}

const char *partial_pointer(Generator *g, int code) {
  return arena_format(g->arena, "(R *)((char *)s.at[%d] + %" PRId64 ")", g->kernel->port_count,
                      partial_of(g, code)->offset);
}

// One block has the whole total, and nothing runs after it that could still need what the total overwrites.
static bool total_is_direct(const Generator *g, int64_t blocks) {
  return blocks == 1 && g->program_count == 1;
}

// The last block to be done folds the partials of totals, if nothing runs after it and no other launch is needed.
static bool totals_end_here(const Generator *g, const CudaProgram *program) {
  for (int i = 0; i < g->kernel->code_count; i++) {
    if (program->wanted[i] && op_is_column_reduction(g->kernel->code[i].op)) {
      return false;
    }
  }
  return g->program_count == 1;
}

void totals_open(Generator *g, const CudaProgram *program, int64_t blocks) {
  bool any = false;
  for (int i = 0; i < g->kernel->code_count; i++) {
    if (program->wanted[i] && op_is_total(g->kernel->code[i].op)) {
      if (!total_is_direct(g, blocks)) {
        partial_add(g, program, i, blocks, 1);
        g->partial[g->partial_count - 1].ends_itself = totals_end_here(g, program);
        any |= totals_end_here(g, program);
      }
      emit_line(g, 1, "R t%d = %s;", i, fold_identity(g->kernel->code[i].op));
    }
  }
  if (any) {
    emit_line(g, 1, "COUNTER(blocks_done);");
  }
}

void total_fold(Generator *g, int code, int indent) {
  emit_line(g, indent, "t%d = %s(t%d, v%d);", code, fold_function(g->kernel->code[code].op), code,
            g->kernel->code[code].a);
}

// Folds z over the threads of a block, and opens the branch of the first thread, which has the result. wide: in double.
static void block_fold(Generator *g, const char *fold, bool wide, const char *z, int threads, int indent) {
  emit_line(g, indent, "__shared__ %s part[%d];", wide ? "double" : "R", threads / 32);
  emit_line(g, indent, "for (int o = 16; o > 0; o >>= 1) %s = %s(%s, %s(%s, o));", z, fold, z,
            wide ? "shuffle_f64" : "shuffle", z);
  emit_line(g, indent, "if ((threadIdx.x & 31u) == 0u) part[threadIdx.x >> 5] = %s;", z);
  emit_line(g, indent, "__syncthreads();");
  emit_line(g, indent, "if (threadIdx.x == 0u) {");
  emit_line(g, indent + 1, "for (int w = 1; w < %d; w++) %s = %s(%s, part[w]);", threads / 32, z, fold, z);
}

// Sums are made in double: there are few, and parts of one total differ in size.
static void finish_total(Generator *g, const CudaPartial *partial, int threads) {
  const KernelOp op = g->kernel->code[partial->code].op;
  const bool wide = op_is_sum(op);
  const char *fold = wide ? "fold_wide" : fold_function(op);
  emit_line(g, 2, "const volatile R *const from = %s;", partial_pointer(g, partial->code));
  emit_line(g, 2, "%s z = %s;", wide ? "double" : "R", wide ? "0.0" : fold_identity(op));
  emit_line(g, 2, "for (unsigned i = threadIdx.x; i < %" PRId64 "u; i += %du) {", partial->parts, threads);
  emit_line(g, 3, "z = %s(z, from[i]);", fold);
  emit_line(g, 2, "}");
  block_fold(g, fold, wide, "z", threads, 2);
  result_store(g, partial->program, partial->code, "(R)z", 3);
  emit_line(g, 2, "}");
}

static void totals_end(Generator *g, const CudaProgram *program, int threads) {
  bool any = false;
  for (int i = 0; i < g->partial_count; i++) {
    const CudaPartial *partial = &g->partial[i];
    if (!partial->ends_itself || partial->program != program) {
      continue;
    }
    if (!any) {
      emit_line(g, 1, "__shared__ int last;");
      emit_line(g, 1, "if (threadIdx.x == 0u) last = counted_last(&blocks_done, %" PRId64 "u);", partial->parts);
      emit_line(g, 1, "__syncthreads();");
    }
    any = true;
    emit_line(g, 1, "if (last) {");
    finish_total(g, partial, threads);
    emit_line(g, 1, "}");
  }
}

void totals_close(Generator *g, const CudaProgram *program, int threads) {
  for (int i = 0; i < g->kernel->code_count; i++) {
    if (!program->wanted[i] || !op_is_total(g->kernel->code[i].op)) {
      continue;
    }
    const char *total = arena_format(g->arena, "t%d", i);
    emit_line(g, 1, "{");
    block_fold(g, fold_function(g->kernel->code[i].op), false, total, threads, 2);
    if (partial_of(g, i)) {
      emit_line(g, 3, "(%s)[blockIdx.x + blockIdx.y * gridDim.x] = %s;", partial_pointer(g, i), total);
    } else {
      result_store(g, program, i, total, 3);
    }
    emit_line(g, 2, "}");
    emit_line(g, 1, "}");
  }
  totals_end(g, program, threads);
}

// Sums are made in double here too.
static void finish_column(Generator *g, const CudaPartial *partial, int64_t begin) {
  const KernelOp op = g->kernel->code[partial->code].op;
  const char *fold = fold_function(op), *type = op_is_sum(op) ? "double" : "R";
  emit_line(g, 2, "__shared__ %s part[%d][%d];", type, FINISH_LINES, FINISH_COLUMNS);
  emit_line(g, 2, "const R *const from = %s;", partial_pointer(g, partial->code));
  emit_line(g, 2, "const unsigned x = threadIdx.x %% %du, y = threadIdx.x / %du;", FINISH_COLUMNS, FINISH_COLUMNS);
  emit_line(g, 2, "const Index k = (Index)(blockIdx.x - %" PRId64 "u) * %du + x;", begin, FINISH_COLUMNS);
  emit_line(g, 2, "%s z = %s;", type, op_is_sum(op) ? "0.0" : fold_identity(op));
  emit_line(g, 2, "if (k < (Index)%" PRId64 ") {", partial->columns);
  emit_line(g, 0, "#pragma unroll 8");
  emit_line(g, 3, "for (unsigned i = y; i < %" PRId64 "u; i += %du) {", partial->parts, FINISH_LINES);
  if (op_is_sum(op)) {
    emit_line(g, 4, "z += (double)from[(Long)i * %" PRId64 "u + k];", partial->columns);
  } else {
    emit_line(g, 4, "z = %s(z, from[(Long)i * %" PRId64 "u + k]);", fold, partial->columns);
  }
  emit_line(g, 3, "}");
  emit_line(g, 2, "}");
  emit_line(g, 2, "part[y][x] = z;");
  emit_line(g, 2, "__syncthreads();");
  emit_line(g, 2, "if (y == 0u && k < (Index)%" PRId64 ") {", partial->columns);
  if (op_is_sum(op)) {
    emit_line(g, 3, "for (int i = 1; i < %d; i++) z += part[i][x];", FINISH_LINES);
  } else {
    emit_line(g, 3, "for (int i = 1; i < %d; i++) z = %s(z, part[i][x]);", FINISH_LINES, fold);
  }
  column_coordinates(g, partial->program, 1, 3);
  result_store(g, partial->program, partial->code, "(R)z", 3);
  emit_line(g, 2, "}");
}

static bool is_finish_needed(const Generator *g) {
  for (int i = 0; i < g->partial_count; i++) {
    if (!g->partial[i].ends_itself) {
      return true;
    }
  }
  return false;
}

void template_finish(Generator *g) {
  int64_t blocks = 0;
  if (!is_finish_needed(g)) {
    return;
  }
  cuda_text(&g->text, "KERNEL(finish, %d)(const Slots s) {\n", FINISH_BLOCK);
  emit_line(g, 1, "const int first = (int)(s.at[%d] & %du);", g->kernel->port_count + 1, CUDA_SLOT_FIRST);
  for (int i = 0; i < g->partial_count; i++) {
    const CudaPartial *partial = &g->partial[i];
    if (partial->ends_itself) {
      continue;
    }
    const bool column = op_is_column_reduction(g->kernel->code[partial->code].op);
    const int64_t more = column ? blocks_of(partial->columns, FINISH_COLUMNS) : 1;
    emit_line(g, 1, "if (blockIdx.x >= %" PRId64 "u && blockIdx.x < %" PRId64 "u) {", blocks, blocks + more);
    if (column) {
      finish_column(g, partial, blocks);
    } else {
      finish_total(g, partial, FINISH_BLOCK);
    }
    emit_line(g, 1, "}");
    blocks += more;
  }
  emit_line(g, 0, "}");
  launch_add(g, "finish", blocks, 1, FINISH_BLOCK, 0);
}
