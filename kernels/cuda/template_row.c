// template_row.c: row reductions: some threads for each row, phase after phase.
//
// A row that fits is loaded once into registers. A longer one is read again in each phase, from shared memory where
// what more than one phase needs fits there. Threads of a row fold by shuffles within a warp and by shared memory
// between warps; a block may work on several rows at once. Where columns or totals are summed over the rows, a few
// blocks for each multiprocessor go through all rows: they copy rows into shared memory some turns ahead, keep what all
// rows share and their columns in registers, and leave one partial each. Outputs that lie across rows are gathered in
// shared memory over a group of rows. row_shape.c chooses the numbers.
#include <inttypes.h>

#include "kernels/cuda/row_shape.h"

static void reduction_open(Generator *g, const CudaProgram *program, int phase, int indent) {
  for (int i = 0; i < g->kernel->code_count; i++) {
    const KernelOp op = g->kernel->code[i].op;
    if (program->needed[i] && op_is_row_reduction(op) && program->phase[i] == phase + 1) {
      emit_line(g, indent, "R z%d[2] = {%s, %s};", i, fold_identity(op), fold_identity(op));
    }
  }
}

// Folds over the threads of a row; all of them have the result.
static void reduction_close(Generator *g, const CudaProgram *program, const RowShape *shape, int phase, int indent) {
  const int warps = shape->threads / 32;
  const int lanes = shape->threads < 32 ? shape->threads : 32;
  const char *group = shape->rows > 1 ? "sub" : "0";
  for (int i = 0; i < g->kernel->code_count; i++) {
    const KernelOp op = g->kernel->code[i].op;
    if (!program->needed[i] || !op_is_row_reduction(op) || program->phase[i] != phase + 1) {
      continue;
    }
    emit_line(g, indent, "R f%d = %s(z%d[0], z%d[1]);", i, fold_function(op), i, i);
    emit_line(g, 0, "#pragma unroll");
    emit_line(g, indent, "for (int o = %d; o > 0; o >>= 1) f%d = %s(f%d, shuffle(f%d, o));", lanes / 2, i,
              fold_function(op), i, i);
    if (warps > 1) {
      emit_line(g, indent, "if ((t & 31u) == 0u) fold%d[%s][turn][t >> 5] = f%d;", i, group, i);
    }
  }
  if (warps > 1 && shape->rows > 1) {
    emit_line(g, indent, "group_barrier(sub, %d);", shape->threads);
  } else if (warps > 1) {
    emit_line(g, indent, "__syncthreads();");
  }
  for (int i = 0; i < g->kernel->code_count; i++) {
    const KernelOp op = g->kernel->code[i].op;
    if (!program->needed[i] || !op_is_row_reduction(op) || program->phase[i] != phase + 1) {
      continue;
    }
    if (warps > 8) {
      emit_line(g, indent, "f%d = (t & 31u) < %du ? fold%d[%s][turn][t & 31u] : %s;", i, warps, i, group,
                fold_identity(op));
      emit_line(g, 0, "#pragma unroll");
      emit_line(g, indent, "for (int o = 16; o > 0; o >>= 1) f%d = %s(f%d, shuffle(f%d, o));", i, fold_function(op), i,
                i);
    } else if (warps > 1) {
      emit_line(g, indent, "f%d = fold%d[%s][turn][0];", i, i, group);
      emit_line(g, 0, "#pragma unroll");
      emit_line(g, indent, "for (int w = 1; w < %d; w++) f%d = %s(f%d, fold%d[%s][turn][w]);", warps, i,
                fold_function(op), i, i, group);
    }
    emit_line(g, indent, "const R v%d = f%d;", i, i);
  }
}

// Where the rows are too long for registers, sums of columns are kept in the partial of the block.
static void column_fold(Generator *g, const CudaProgram *program, const RowShape *shape, int code, int indent) {
  const char *fold = fold_function(g->kernel->code[code].op);
  const int operand = g->kernel->code[code].a;
  if (shape->held) {
    emit_line(g, indent, "z%d[u][j] = %s(z%d[u][j], v%d);", code, fold, code, operand);
    return;
  }
  emit_line(g, indent, "{");
  emit_line(g, indent + 1, "R *const z = %s + (Long)blockIdx.x * %" PRId64 "u + k * %du + j;", partial_pointer(g, code),
            program->inner.total, program->vector);
  emit_line(g, indent + 1, "*z = row0 == blockIdx.x ? v%d : %s(*z, v%d);", operand, fold, operand);
  emit_line(g, indent, "}");
}

static void phase_sinks(Generator *g, const CudaProgram *program, const RowShape *shape, int phase, int indent) {
  for (int i = 0; i < g->kernel->code_count; i++) {
    const KernelInstruction *code = &g->kernel->code[i];
    if (program->needed[i] && op_is_row_reduction(code->op) && program->phase[i] == phase + 1) {
      emit_line(g, indent, "z%d[j & 1] = %s(z%d[j & 1], v%d);", i, fold_function(code->op), i, code->a);
    } else if (phase == program->phases && is_wanted(g, program, i, op_is_column_reduction)) {
      column_fold(g, program, shape, i, indent);
    } else if (phase == program->phases && is_element_total(g, program, i)) {
      total_fold(g, i, indent);
    }
  }
}

// The values of a phase, and what of them is stored.
static bool phase_values(const Generator *g, const CudaProgram *program, int phase, Emit *e) {
  bool any = false;
  for (int i = 0; i < g->kernel->code_count; i++) {
    const KernelOp op = g->kernel->code[i].op;
    const bool reduces = program->needed[i] && op_is_row_reduction(op) && program->phase[i] == phase + 1;
    const bool last = phase == program->phases;
    e->stores[i] = last && is_element_store(g, program, i);
    if (reduces || e->stores[i] || (last && is_element_total(g, program, i)) ||
        (last && is_wanted(g, program, i, op_is_column_reduction))) {
      closure_add(g, program, i, false, e->values);
      any = true;
    }
  }
  return any;
}

// Ports that do not differ from row to row, and that no register was kept for, are loaded where they are used.
static void phase_work(Generator *g, const CudaProgram *program, const RowShape *shape, int phase, const Emit *e) {
  chunk_open(e);
  if (shape->held && !shape->once) {
    Emit late = *e;
    late.loads = LOADS_OF_COLUMNS;
    late.indent = e->indent + 2;
    loads_declare(&late, false);
    loads_chunk(&late, late.indent);
  }
  for (int time = 0; lanes_open(e, time); time++) {
    phase_sinks(g, program, shape, phase, e->indent + 3);
    lanes_close(e, time);
  }
  stores_emit(e);
  chunk_close(e);
}

static Emit row_emit(Generator *g, const CudaProgram *program, const RowShape *shape, int indent) {
  const bool full = shape->vectors % ((int64_t)shape->threads * shape->chunks) == 0;
  const bool whole = program->outer.total % shape->group == 0 && program->part == 0;
  Emit e = emit_create(g, program, indent, shape->chunks);
  e.where = arena_format(g->arena, "const Index k = %s + u * %d;", shape->held ? "t" : "k0", shape->threads);
  const char *inside = arena_format(g->arena, "k < (Index)%" PRId64, shape->vectors);
  e.guard = full && whole ? NULL : whole ? inside : full ? "valid" : arena_format(g->arena, "valid && %s", inside);
  e.threads = shape->threads * shape->rows;
  e.loads = shape->held ? LOADS_OF_ROWS : LOADS_ALL;
  e.stage_at = "0";
  e.tile_row = arena_format(g->arena, "(n %% %du * %d%s)", shape->group / shape->rows, shape->rows,
                            shape->rows > 1 ? " + sub" : "");
  e.tile_column = arena_format(g->arena, "k * %d", program->vector);
  for (int p = 0; p < program->port_count; p++) {
    e.cache[p] = shape->cached[p] ? shape->cache[p] : -1;
    e.cache_vectors[p] = shape->cache_vectors[p];
    e.staged[p] = shape->staged[p];
  }
  return e;
}

static void phase_long(Generator *g, const CudaProgram *program, const RowShape *shape, int phase, Emit *loaded) {
  Emit e = *loaded;
  const int64_t step = (int64_t)shape->threads * shape->chunks;
  for (int i = 0; i < g->kernel->code_count; i++) {
    e.values[i] = false;
  }
  if (!phase_values(g, program, phase, &e)) {
    return;
  }
  emit_line(g, 2, "for (Index k0 = t; k0 < (Index)%" PRId64 "; k0 += %" PRId64 "u) {", round_up(shape->vectors, step),
            step);
  e.indent = 3;
  loads_declare(&e, false);
  loads_emit(&e);
  phase_work(g, program, shape, phase, &e);
  emit_line(g, 2, "}");
  for (int i = 0; i < g->kernel->code_count; i++) {
    if (e.values[i] && g->kernel->code[i].op == KERNEL_LOAD) {
      const int slot = program->port_of[g->kernel->code[i].port];
      loaded->cached[slot] = loaded->cache[slot] >= 0;
    }
  }
}

static Emit held_emit(Generator *g, const CudaProgram *program, const RowShape *shape, int indent) {
  Emit e = row_emit(g, program, shape, indent);
  for (int phase = 0; phase <= program->phases; phase++) {
    phase_values(g, program, phase, &e);
  }
  return e;
}

static void row_begin(Generator *g, const CudaProgram *program, const RowShape *shape, const char *first, int indent) {
  if (program->outer.total % shape->group == 0 && shape->stages == 0 && program->part == 0) {
    emit_line(g, indent, "const int valid = 1;");
    emit_line(g, indent, "const Index row = %s%s;", first, shape->rows > 1 ? " + sub" : "");
  } else {
    const char *row = arena_format(g->arena, "%s%s", first, shape->rows > 1 ? " + sub" : "");
    const char *chosen = program->part > 0 ? part_text(g, row, program->part) : NULL;
    emit_line(g, indent, "const int valid = %s < (Index)%" PRId64 "%s%s;", row, program->outer.total,
              chosen ? " && " : "", chosen ? chosen : "");
    emit_line(g, indent, "const Index row = valid ? %s : 0u;", row);
  }
  row_coordinates(g, program, indent);
  row_bases(g, program, indent);
}

// Starts the copies into a stage of the row that begins at `first`; a group of copies for each row, even if empty.
static void row_ahead(Generator *g, const CudaProgram *program, const RowShape *shape, const char *first,
                      const char *stage_at, int indent) {
  emit_line(g, indent, "{");
  row_begin(g, program, shape, first, indent + 1);
  Emit e = held_emit(g, program, shape, indent + 1);
  e.stage = STAGE_COPY;
  e.stage_at = stage_at;
  e.guard = arena_format(g->arena, "valid && k < (Index)%" PRId64, shape->vectors);
  row_values_ahead(&e);
  loads_emit(&e);
  emit_line(g, indent, "}");
  emit_line(g, indent, "copies_close();");
}

// The first of the rows that a block works on at its turn n.
static const char *row_at(Generator *g, const RowShape *shape, const char *n) {
  const int turns = shape->group / shape->rows;
  if (turns == 1) {
    return arena_format(g->arena, "(blockIdx.x + gridDim.x * %s) * (Index)%d", n, shape->rows);
  }
  return arena_format(g->arena, "(blockIdx.x + %s / %d * gridDim.x) * (Index)%d + %s %% %d * %d", n, turns,
                      shape->group, n, turns, shape->rows);
}

static void rows_ahead(Generator *g, const CudaProgram *program, const RowShape *shape) {
  for (int i = 0; i < shape->stages; i++) {
    row_ahead(g, program, shape, row_at(g, shape, arena_format(g->arena, "%du", i)),
              arena_format(g->arena, "%" PRId64, i * shape->stage_bytes), 1);
  }
  if (shape->stages > 1) {
    emit_line(g, 1, "int stage = 0;");
  }
}

// What is the same for all rows, before the first.
static void columns_load(Generator *g, const CudaProgram *program, const RowShape *shape) {
  Emit e = held_emit(g, program, shape, 1);
  e.loads = LOADS_OF_COLUMNS;
  e.guard = shape->vectors % ((int64_t)shape->threads * shape->chunks) == 0
                ? NULL
                : arena_format(g->arena, "k < (Index)%" PRId64, shape->vectors);
  column_bases(g, program, 1);
  loads_declare(&e, false);
  loads_emit(&e);
}

// The row into registers, and copies of a later one on their way.
static Emit row_load(Generator *g, const CudaProgram *program, const RowShape *shape) {
  Emit e = held_emit(g, program, shape, 2);
  if (shape->stages == 0) {
    loads_declare(&e, false);
    loads_emit(&e);
    row_values(g, program, 0, NULL, 2);
    return e;
  }
  const char *stage_at = shape->stages > 1 ? arena_format(g->arena, "stage * %" PRId64, shape->stage_bytes) : "0";
  e.stage = STAGE_TAKE;
  e.stage_at = stage_at;
  emit_line(g, 2, "COPIES_WAIT(%d);", shape->stages - 1);
  loads_declare(&e, false);
  loads_emit(&e);
  row_values(g, program, 0, &e, 2);
  row_ahead(g, program, shape,
            shape->tile > 0 ? row_at(g, shape, arena_format(g->arena, "(n + %du)", shape->stages))
                            : arena_format(g->arena, "row0 + gridDim.x * (Index)%d", shape->stages * shape->rows),
            stage_at, 2);
  if (shape->stages > 1) {
    emit_line(g, 2, "stage = stage == %d ? 0 : stage + 1;", shape->stages - 1);
  }
  return e;
}

static void row_phases(Generator *g, const CudaProgram *program, const RowShape *shape) {
  Emit e = shape->held ? row_load(g, program, shape) : row_emit(g, program, shape, 2);
  for (int phase = 0; phase <= program->phases; phase++) {
    if (phase > 0 || !shape->held) {
      row_values(g, program, phase, NULL, 2);
    }
    reduction_open(g, program, phase, 2);
    if (shape->held) {
      Emit part = row_emit(g, program, shape, 2);
      if (phase_values(g, program, phase, &part)) {
        phase_work(g, program, shape, phase, &part);
      }
    } else {
      phase_long(g, program, shape, phase, &e);
    }
    if (phase < program->phases) {
      reduction_close(g, program, shape, phase, 2);
    }
  }
  for (int i = 0; i < g->kernel->code_count; i++) {
    const bool total = is_wanted(g, program, i, op_is_total) && !is_element_total(g, program, i);
    const bool store = program->wanted[i] && g->kernel->code[i].op == KERNEL_STORE && !is_element_store(g, program, i);
    if (total || store) {
      emit_line(g, 2, "if (t == 0u && valid) {");
      if (total) {
        total_fold(g, i, 3);
      } else {
        row_store(g, program, i, 3);
      }
      emit_line(g, 2, "}");
    }
  }
}

// Sums of columns in registers: over the rows of a block through shared memory, then into the block's partial.
static void columns_close(Generator *g, const CudaProgram *program, const RowShape *shape, int code) {
  const int64_t columns = program->inner.total;
  const int threads = shape->threads * shape->rows;
  const bool shared = shape->rows > 1;
  const char *to = arena_format(g->arena, "%s + (Long)blockIdx.x * %" PRId64 "u", partial_pointer(g, code), columns);
  emit_line(g, 1, "{");
  if (shared) {
    emit_line(g, 2, "R *const part = (R *)dynamic_shared;");
    if (shape->stages > 0) {
      emit_line(g, 2, "COPIES_WAIT(0);");  // those ahead of the last row would come into it
    }
    emit_line(g, 2, "__syncthreads();");
  } else {
    emit_line(g, 2, "R *const part = %s;", to);
  }
  emit_line(g, 0, "#pragma unroll");
  emit_line(g, 2, "for (int u = 0; u < %d; u++) {", shape->chunks);
  emit_line(g, 3, "const unsigned k = t + u * %d;", shape->threads);
  emit_line(g, 0, "#pragma unroll");
  emit_line(g, 3,
            "for (int j = 0; j < %d; j++) if (k < %" PRId64 "u) part[%s * %" PRId64 "u + k * %du + j] = z%d[u][j];",
            program->vector, shape->vectors, shared ? "sub" : "0u", columns, program->vector, code);
  emit_line(g, 2, "}");
  if (shared) {
    emit_line(g, 2, "__syncthreads();");
    emit_line(g, 2, "for (unsigned i = threadIdx.x; i < %" PRId64 "u; i += %du) {", columns, threads);
    emit_line(g, 3, "R z = part[i];");
    emit_line(g, 3, "for (int w = 1; w < %d; w++) z = %s(z, part[w * %" PRId64 "u + i]);", shape->rows,
              fold_function(g->kernel->code[code].op), columns);
    emit_line(g, 3, "(%s)[i] = z;", to);
    emit_line(g, 2, "}");
  }
  emit_line(g, 1, "}");
}

static void row_open(Generator *g, const CudaProgram *program, const RowShape *shape) {
  if (shape->shared > 0) {
    emit_line(g, 1, "SHARED_MEMORY;");
  }
  if (shape->rows > 1) {
    emit_line(g, 1, "const unsigned t = threadIdx.x %% %du, sub = threadIdx.x / %du;", shape->threads, shape->threads);
  } else {
    emit_line(g, 1, "const unsigned t = threadIdx.x;");
  }
  for (int i = 0; i < g->kernel->code_count; i++) {
    const KernelOp op = g->kernel->code[i].op;
    if (shape->threads > 32 && program->needed[i] && op_is_row_reduction(op)) {
      emit_line(g, 1, "__shared__ R fold%d[%d][2][%d];", i, shape->rows, shape->threads / 32);
    }
    if (!is_wanted(g, program, i, op_is_column_reduction)) {
      continue;
    }
    partial_add(g, program, i, shape->grid, program->inner.total);
    if (shape->held) {
      emit_line(g, 1, "R z%d[%d][%d];", i, shape->chunks, program->vector);
      emit_line(g, 0, "#pragma unroll");
      emit_line(g, 1, "for (int u = 0; u < %d; u++)", shape->chunks);
      emit_line(g, 0, "#pragma unroll");
      emit_line(g, 2, "for (int j = 0; j < %d; j++) z%d[u][j] = %s;", program->vector, i, fold_identity(op));
    }
  }
  if (shape->threads > 32) {
    emit_line(g, 1, "int turn = 0;");
  }
}

static const char *row_form(Generator *g, const CudaProgram *program, const RowShape *shape) {
  const char *text = arena_format(g->arena, "row %d x %d", shape->threads, shape->chunks * program->vector);
  if (!shape->held) {
    return arena_format(g->arena, "%s %s", text, shape->shared > 0 ? "shared" : "again");
  }
  text = shape->rows > 1 ? arena_format(g->arena, "%s, %d at once", text, shape->rows) : text;
  text = program->part > 0 ? arena_format(g->arena, "%s, chosen parts", text) : text;
  text = shape->persistent ? arena_format(g->arena, "%s, %d blocks", text, shape->blocks) : text;
  text = shape->tile > 0 ? arena_format(g->arena, "%s, turned by %d", text, shape->group) : text;
  return shape->stages > 0 ? arena_format(g->arena, "%s, %d ahead", text, shape->stages) : text;
}

// The loop over the rows of a block.
static void rows_open(Generator *g, const CudaProgram *program, const RowShape *shape) {
  if (shape->tile == 0) {
    emit_line(g, 1,
              "for (Index row0 = blockIdx.x * (Index)%d; row0 < (Index)%" PRId64 "; row0 += gridDim.x * (Index)%d) {",
              shape->rows, program->outer.total, shape->rows);
    return;
  }
  const int turns = shape->group / shape->rows;
  emit_line(g, 1, "for (unsigned n = 0;; n++) {");
  emit_line(g, 2, "const Index group0 = (blockIdx.x + n / %d * gridDim.x) * (Index)%d;", turns, shape->group);
  emit_line(g, 2, "if (group0 >= (Index)%" PRId64 ") break;", program->outer.total);
  emit_line(g, 2, "const Index row0 = group0 + n %% %d * %d;", turns, shape->rows);
}

// What of the group is turned goes to memory when its last rows are done.
static void group_close(Generator *g, const CudaProgram *program, const RowShape *shape) {
  const CudaTile tile = {.rows = shape->group,
                         .columns = program->inner.total,
                         .threads = shape->threads * shape->rows,
                         .rows_left = arena_format(g->arena, "%" PRId64 " - row", program->outer.total),
                         .columns_left = program->inner.count == 1
                                             ? arena_format(g->arena, "%" PRId64 " - tc", program->inner.total)
                                             : NULL};
  emit_line(g, 2, "if (n %% %d == %d) {", shape->group / shape->rows, shape->group / shape->rows - 1);
  emit_line(g, 3, "__syncthreads();");
  for (int p = 0; p < program->port_count; p++) {
    if (program->port[p].access == ACCESS_TURNED) {
      turned_move(g, program, &program->port[p], &tile, true, 3);
    }
  }
  emit_line(g, 3, "__syncthreads();");
  emit_line(g, 2, "}");
}

void template_row(Generator *g, CudaProgram *program) {
  const RowShape shape = row_shape(g, program);
  const int threads = shape.threads * shape.rows;
  const char *name = arena_format(g->arena, "row%d", program->number);
  kernel_open(g, program, name, threads, shape.blocks);
  totals_open(g, program, shape.grid);
  row_open(g, program, &shape);
  if (shape.stages > 0) {
    rows_ahead(g, program, &shape);
  }
  if (shape.once) {
    columns_load(g, program, &shape);
  }
  rows_open(g, program, &shape);
  row_begin(g, program, &shape, "row0", 2);
  row_phases(g, program, &shape);
  if (shape.threads > 32) {
    emit_line(g, 2, "turn ^= 1;");
  }
  if (shape.tile > 0) {
    group_close(g, program, &shape);
  }
  emit_line(g, 1, "}");
  for (int i = 0; i < g->kernel->code_count && shape.held; i++) {
    if (is_wanted(g, program, i, op_is_column_reduction)) {
      columns_close(g, program, &shape, i);
    }
  }
  totals_close(g, program, threads);
  emit_line(g, 0, "}");
  launch_add(g, name, shape.grid, 1, threads, shape.shared);
  form_add(g, row_form(g, program, &shape));
}
