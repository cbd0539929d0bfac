// partials.c: reductions over blocks: what each block leaves in scratch memory, and the launch that adds it up.
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

void totals_open(Generator *g, const CudaProgram *program, int64_t blocks) {
  for (int i = 0; i < g->kernel->code_count; i++) {
    if (program->wanted[i] && op_is_total(g->kernel->code[i].op)) {
      if (!total_is_direct(g, blocks)) {
        partial_add(g, program, i, blocks, 1);
      }
      emit_line(g, 1, "R t%d = %s;", i, fold_identity(g->kernel->code[i].op));
    }
  }
}

void total_fold(Generator *g, int code, int indent) {
  emit_line(g, indent, "t%d = %s(t%d, v%d);", code, fold_function(g->kernel->code[code].op), code,
            g->kernel->code[code].a);
}

void totals_close(Generator *g, const CudaProgram *program, int threads) {
  for (int i = 0; i < g->kernel->code_count; i++) {
    const KernelOp op = g->kernel->code[i].op;
    if (!program->wanted[i] || !op_is_total(op)) {
      continue;
    }
    emit_line(g, 1, "{");
    emit_line(g, 2, "__shared__ R part[%d];", threads / 32);
    emit_line(g, 2, "for (int o = 16; o > 0; o >>= 1) t%d = %s(t%d, shuffle(t%d, o));", i, fold_function(op), i, i);
    emit_line(g, 2, "if ((threadIdx.x & 31u) == 0u) part[threadIdx.x >> 5] = t%d;", i);
    emit_line(g, 2, "__syncthreads();");
    emit_line(g, 2, "if (threadIdx.x == 0u) {");
    emit_line(g, 3, "for (int w = 1; w < %d; w++) t%d = %s(t%d, part[w]);", threads / 32, i, fold_function(op), i);
    if (partial_of(g, i)) {
      emit_line(g, 3, "(%s)[blockIdx.x + blockIdx.y * gridDim.x] = t%d;", partial_pointer(g, i), i);
    } else {
      result_store(g, program, i, arena_format(g->arena, "t%d", i), 3);
    }
    emit_line(g, 2, "}");
    emit_line(g, 1, "}");
  }
}

// Sums are made in double: there are few, and parts of one total differ in size.
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

static void finish_total(Generator *g, const CudaPartial *partial) {
  const KernelOp op = g->kernel->code[partial->code].op;
  const char *fold = fold_function(op), *type = op_is_sum(op) ? "double" : "R";
  emit_line(g, 2, "__shared__ %s part[%d];", type, FINISH_BLOCK);
  emit_line(g, 2, "const R *const from = %s;", partial_pointer(g, partial->code));
  emit_line(g, 2, "%s z = %s;", type, op_is_sum(op) ? "0.0" : fold_identity(op));
  emit_line(g, 2, "for (unsigned i = threadIdx.x; i < %" PRId64 "u; i += %du) {", partial->parts, FINISH_BLOCK);
  if (op_is_sum(op)) {
    emit_line(g, 3, "z += (double)from[i];");
  } else {
    emit_line(g, 3, "z = %s(z, from[i]);", fold);
  }
  emit_line(g, 2, "}");
  emit_line(g, 2, "part[threadIdx.x] = z;");
  emit_line(g, 2, "__syncthreads();");
  emit_line(g, 2, "for (unsigned o = %du; o > 0u; o >>= 1) {", FINISH_BLOCK / 2);
  if (op_is_sum(op)) {
    emit_line(g, 3, "if (threadIdx.x < o) part[threadIdx.x] += part[threadIdx.x + o];");
  } else {
    emit_line(g, 3, "if (threadIdx.x < o) part[threadIdx.x] = %s(part[threadIdx.x], part[threadIdx.x + o]);", fold);
  }
  emit_line(g, 3, "__syncthreads();");
  emit_line(g, 2, "}");
  emit_line(g, 2, "if (threadIdx.x == 0u) {");
  result_store(g, partial->program, partial->code, "(R)part[0]", 3);
  emit_line(g, 2, "}");
}

void template_finish(Generator *g) {
  int64_t blocks = 0;
  cuda_text(&g->text, "KERNEL(finish, %d)(const Slots s) {\n", FINISH_BLOCK);
  emit_line(g, 1, "const int first = (int)(s.at[%d] & %du);", g->kernel->port_count + 1, CUDA_SLOT_FIRST);
  for (int i = 0; i < g->partial_count; i++) {
    const CudaPartial *partial = &g->partial[i];
    const bool column = op_is_column_reduction(g->kernel->code[partial->code].op);
    const int64_t more = column ? blocks_of(partial->columns, FINISH_COLUMNS) : 1;
    emit_line(g, 1, "if (blockIdx.x >= %" PRId64 "u && blockIdx.x < %" PRId64 "u) {", blocks, blocks + more);
    if (column) {
      finish_column(g, partial, blocks);
    } else {
      finish_total(g, partial);
    }
    emit_line(g, 1, "}");
    blocks += more;
  }
  emit_line(g, 0, "}");
  launch_add(g, "finish", blocks, 1, FINISH_BLOCK, 0);
}
