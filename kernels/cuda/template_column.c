// template_column.c: column reductions without row reductions: threads walk down the rows, each with its columns.
//
// A block is some vectors of columns wide and some rows high, and goes down in steps of its height; its lines are
// folded in shared memory at the end, in order, into one partial for each row of blocks, or, where one row of blocks
// sees all rows, into the result.
#include <inttypes.h>

#include "kernels/cuda/generate_internal.h"

enum {
  COLUMN_WIDTH = 32,
  COLUMN_LOADS = 4,  // in flight of a thread
  COLUMN_SUM_ROWS = 1024,
  COLUMN_SUM_WIDTH = 8,  // of sums of one value alone: more rows
  COLUMN_SUM_LOADS = 8,
  COLUMN_MOST_CODE = 1200,
  COLUMN_REST = 16,         // registers of a thread beside what is loaded and summed
  COLUMN_REGISTERS = 65536  // of a multiprocessor
};

typedef struct {
  int width, height, unroll;  // threads across, threads down, rows in flight of each
  int blocks;                 // of a multiprocessor
  int64_t vectors, grid_x, grid_y;
} ColumnShape;

// What is in flight of a row, the registers of all a thread keeps, and the length of the code.
static void column_words(const Generator *g, const CudaProgram *program, int *loads, int *kept, int *code) {
  *loads = *kept = *code = 0;
  for (int i = 0; i < g->kernel->code_count; i++) {
    const KernelInstruction *at = &g->kernel->code[i];
    *code += program->needed[i] && program->level[i] != LEVEL_SCALAR;
    *kept += program->wanted[i] && op_is_column_reduction(at->op) ? program->vector * g->real_bytes / 4 : 0;
    if (program->needed[i] && at->op == KERNEL_LOAD && program->level[i] == LEVEL_FULL) {
      *loads += 1;
    } else if (program->needed[i] && at->op == KERNEL_LOAD && program->level[i] == LEVEL_COLUMN) {
      *kept += program->vector * g->real_bytes / 4;
    }
  }
}

// All blocks run at once, and go down equally far.
static ColumnShape column_shape(const Generator *g, const CudaProgram *program) {
  ColumnShape shape = {.width = 1, .unroll = 1, .vectors = program->inner.total / program->vector};
  const CudaForm *form = g->target->form;
  int loads, kept, code;
  column_words(g, program, &loads, &kept, &code);
  const bool sum = loads == 1 && kept <= program->vector * g->real_bytes / 4 && program->outer.total >= COLUMN_SUM_ROWS;
  const int most_loads = sum ? COLUMN_SUM_LOADS : COLUMN_LOADS;
  const int widest = form && form->width > 0 ? form->width : sum ? COLUMN_SUM_WIDTH : COLUMN_WIDTH;
  while (shape.width < widest && shape.width < shape.vectors) {
    shape.width *= 2;
  }
  shape.height = GENERATE_BLOCK / shape.width;
  while (shape.unroll < 8 && 2 * shape.unroll * loads <= most_loads &&
         2 * shape.unroll * program->vector * code <= COLUMN_MOST_CODE &&
         2 * shape.unroll * shape.height <= program->outer.total) {
    shape.unroll *= 2;
  }
  shape.unroll = form && form->unroll > 0 ? form->unroll : shape.unroll;
  const int words = (int)max_i64(1, program->vector * g->real_bytes / 8);  // of a load, about
  const int64_t registers = round_up(COLUMN_REST + kept + (int64_t)shape.unroll * loads * words, 8);
  shape.blocks = (int)max_i64(1, min_i64(8, COLUMN_REGISTERS / (GENERATE_BLOCK * registers)));
  shape.blocks = form && form->blocks > 0 ? form->blocks : shape.blocks;
  shape.grid_x = blocks_of(shape.vectors, shape.width);
  const int64_t steps = blocks_of(program->outer.total, (int64_t)shape.height * shape.unroll);
  const int64_t most = max_i64(1, (int64_t)shape.blocks * g->target->multiprocessors / shape.grid_x);
  shape.grid_y = blocks_of(steps, blocks_of(steps, min_i64(most, steps)));
  return shape;
}

// Nothing is left to add up, and nothing runs after it that could still need what the result overwrites.
static bool is_direct(const Generator *g, const ColumnShape *shape) {
  return shape->grid_y == 1 && g->program_count == 1;
}

// Folds the block's lines of one reduction and writes them.
static void column_close(Generator *g, const CudaProgram *program, int code, const ColumnShape *shape) {
  const int width = shape->width * program->vector;
  const KernelOp op = g->kernel->code[code].op;
  emit_line(g, 1, "{");
  emit_line(g, 2, "for (int j = 0; j < %d; j++) part[ty][j * %d + tx] = z%d[j];", program->vector, shape->width, code);
  emit_line(g, 2, "__syncthreads();");
  emit_line(g, 2, "for (unsigned i = threadIdx.x; i < %du; i += %du) {", width, GENERATE_BLOCK);
  emit_line(g, 3, "R z = part[0][i];");
  emit_line(g, 3, "for (int y = 1; y < %d; y++) z = %s(z, part[y][i]);", shape->height, fold_function(op));
  emit_line(g, 3, "const Index c = (blockIdx.x * (Index)%d + i %% %du) * %du + i / %du;", shape->width, shape->width,
            program->vector, shape->width);
  if (is_direct(g, shape)) {
    emit_line(g, 3, "if (c < (Index)%" PRId64 ") {", program->inner.total);
    emit_line(g, 4, "const Index k = c;");
    column_coordinates(g, program, 1, 4);
    result_store(g, program, code, "z", 4);
    emit_line(g, 3, "}");
  } else {
    emit_line(g, 3, "if (c < (Index)%" PRId64 ") (%s)[(Long)blockIdx.y * %" PRId64 "u + c] = z;", program->inner.total,
              partial_pointer(g, code), program->inner.total);
  }
  emit_line(g, 2, "}");
  emit_line(g, 2, "__syncthreads();");
  emit_line(g, 1, "}");
}

static void column_rows(Generator *g, const CudaProgram *program, const ColumnShape *shape) {
  const int64_t step = (int64_t)shape->height * shape->unroll;
  Emit e = emit_create(g, program, 1, shape->unroll);
  e.by_row = true;
  e.where = arena_format(g->arena, "const Index row = row0 + u * %d;", shape->height);
  e.guard = program->outer.total % step == 0
                ? "inside"
                : arena_format(g->arena, "inside && row < (Index)%" PRId64, program->outer.total);
  for (int i = 0; i < g->kernel->code_count; i++) {
    if (program->wanted[i]) {
      closure_add(g, program, i, true, e.values);
      e.stores[i] = g->kernel->code[i].op == KERNEL_STORE;
    }
  }
  Emit once = e, rows = e;
  for (int i = 0; i < g->kernel->code_count; i++) {
    once.stores[i] = false;
  }
  once.indent = 1;
  loads_declare(&once, true);
  emit_line(g, 1, "if (inside) {");
  once.indent = 2;
  loads_once(&once);
  emit_line(g, 1, "}");
  emit_line(g, 1,
            "for (Index row0 = blockIdx.y * (Index)%" PRId64 " + ty; row0 < (Index)%" PRId64
            "; row0 += gridDim.y * (Index)%" PRId64 ") {",
            step, round_up(program->outer.total, step), step);
  rows.indent = 2;
  loads_declare(&rows, false);
  loads_emit(&rows);
  chunk_open(&rows);
  for (int time = 0; lanes_open(&rows, time); time++) {
    for (int i = 0; i < g->kernel->code_count; i++) {
      const KernelOp op = g->kernel->code[i].op;
      if (program->wanted[i] && op_is_total(op)) {
        total_fold(g, i, 5);
      } else if (program->wanted[i] && op_is_column_reduction(op)) {
        emit_line(g, 5, "z%d[j] = %s(z%d[j], v%d);", i, fold_function(op), i, g->kernel->code[i].a);
      }
    }
    lanes_close(&rows, time);
  }
  stores_emit(&rows);
  chunk_close(&rows);
  emit_line(g, 1, "}");
}

void template_column(Generator *g, CudaProgram *program) {
  cuda_program_vector(g, program, GENERATE_MAX_VECTOR);
  const ColumnShape shape = column_shape(g, program);
  const char *name = arena_format(g->arena, "column%d", program->number);
  kernel_open(g, program, name, GENERATE_BLOCK, shape.blocks);
  totals_open(g, program, shape.grid_x * shape.grid_y);
  emit_line(g, 1, "const unsigned tx = threadIdx.x %% %du, ty = threadIdx.x / %du;", shape.width, shape.width);
  emit_line(g, 1, "const Index k = blockIdx.x * (Index)%d + tx;", shape.width);
  if (shape.vectors % shape.width == 0) {
    emit_line(g, 1, "const int inside = 1;");
  } else {
    emit_line(g, 1, "const int inside = k < (Index)%" PRId64 ";", shape.vectors);
  }
  column_coordinates(g, program, program->vector, 1);
  for (int i = 0; i < g->kernel->code_count; i++) {
    const KernelOp op = g->kernel->code[i].op;
    if (program->wanted[i] && op_is_column_reduction(op)) {
      if (!is_direct(g, &shape)) {
        partial_add(g, program, i, shape.grid_y, program->inner.total);
      }
      emit_line(g, 1, "R z%d[%d];", i, program->vector);
      emit_line(g, 0, "#pragma unroll");
      emit_line(g, 1, "for (int j = 0; j < %d; j++) z%d[j] = %s;", program->vector, i, fold_identity(op));
    }
  }
  column_rows(g, program, &shape);
  emit_line(g, 1, "__shared__ R part[%d][%d];", shape.height, shape.width * program->vector);
  for (int i = 0; i < g->kernel->code_count; i++) {
    if (program->wanted[i] && op_is_column_reduction(g->kernel->code[i].op)) {
      column_close(g, program, i, &shape);
    }
  }
  totals_close(g, program, GENERATE_BLOCK);
  emit_line(g, 0, "}");
  launch_add(g, name, shape.grid_x, shape.grid_y, GENERATE_BLOCK, 0);
  form_add(g, arena_format(g->arena, "column x%d, %d rows in %d, %d blocks", program->vector, shape.height,
                           shape.unroll, shape.blocks));
}
