// template_row.c: row reductions: some threads for each row, phase after phase.
//
// A row that fits is loaded once into registers. A longer one is read again in each phase, from shared memory where
// what more than one phase needs fits there. Threads of a row fold by shuffles within a warp and by shared memory
// between warps; with at most a warp for each row, a block works on several. Where columns are summed over the rows, a
// few blocks for each multiprocessor go through all rows with their columns in registers and leave one partial each.
#include <inttypes.h>

#include "kernels/cuda/generate_internal.h"

enum {
  ROW_MOST_WORDS = 48,      // of loaded memory in registers
  ROW_MOST_ELEMENTS = 32,   // of a row in each thread
  ROW_MOST_THREADS = 512,   // that hold a row in registers
  ROW_SHORT_THREADS = 128,  // of a block with several rows
  ROW_SHARED_REST = 4096,   // of shared memory, for folds
  ROW_REGISTERS = 65536,    // of a multiprocessor
};

typedef struct {
  bool held;                  // the row is in registers
  int threads, rows, chunks;  // for each row; rows of a block; chunks of a thread, or in flight
  bool columns, totals;       // the kernel reduces them
  bool persistent;
  int64_t vectors, groups, grid, shared;
  bool cached[KERNEL_MAX_PORTS];  // in shared memory, of ports of the program
  int64_t cache[KERNEL_MAX_PORTS], cache_vectors[KERNEL_MAX_PORTS];
  bool ahead;                        // the next row is copied into shared memory meanwhile
  int64_t staged[KERNEL_MAX_PORTS];  // where, or -1
} RowShape;

static bool is_wanted(const Generator *g, const CudaProgram *program, int code, bool (*is)(KernelOp)) {
  return program->wanted[code] && is(g->kernel->code[code].op);
}

// Totals are taken at the level that the kernel says: of each element, or once for each row.
static bool is_element_total(const Generator *g, const CudaProgram *program, int code) {
  return is_wanted(g, program, code, op_is_total) &&
         (g->kernel->code[g->kernel->code[code].a].level & LEVEL_COLUMN) != 0;
}

static bool is_element_store(const Generator *g, const CudaProgram *program, int code) {
  if (!program->wanted[code] || g->kernel->code[code].op != KERNEL_STORE) {
    return false;
  }
  const CudaPort *port = &program->port[program->port_of[g->kernel->code[code].port]];
  for (int d = 0; d < program->inner.count; d++) {
    if (port->column[d] != 0) {
      return true;
    }
  }
  return is_element(program, g->kernel->code[code].a);
}

// Words of memory that a chunk of a row loads, and registers for sums of its columns.
static void row_words(const Generator *g, const CudaProgram *program, int *words, int *sums) {
  *words = *sums = 0;
  for (int i = 0; i < g->kernel->code_count; i++) {
    const KernelInstruction *code = &g->kernel->code[i];
    if (program->needed[i] && code->op == KERNEL_LOAD && is_element(program, i)) {
      const CudaPort *port = &program->port[program->port_of[code->port]];
      *words += port->access == ACCESS_ONCE ? 1 : (int)max_i64(1, program->vector * port->bytes / 4);
    }
    *sums += is_wanted(g, program, i, op_is_column_reduction) ? program->vector * g->real_bytes / 4 : 0;
  }
}

static void row_shape_held(const CudaProgram *program, int words, int sums, RowShape *shape) {
  int64_t most = min_i64(max_i64(1, ROW_MOST_ELEMENTS / program->vector), max_i64(1, ROW_MOST_WORDS / (words + 1)));
  most = sums > 0 ? min_i64(most, max_i64(1, 2 * ROW_MOST_WORDS / (words + sums))) : most;
  int64_t threads = 1, chunks = most, waste = INT64_MAX;
  if (shape->vectors <= 32 * most) {
    while (threads < 32 && threads < shape->vectors) {
      threads *= 2;
    }
    chunks = blocks_of(shape->vectors, threads);
  } else {
    for (int64_t c = most; c > 0 && 2 * c >= most; c--) {
      const int64_t t = round_up(blocks_of(shape->vectors, c), 32);
      if (t * c - shape->vectors < waste) {
        waste = t * c - shape->vectors;
        threads = t;
        chunks = c;
      }
    }
  }
  shape->held = threads <= ROW_MOST_THREADS;
  shape->threads = (int)threads;
  shape->chunks = (int)chunks;
  shape->rows = threads <= 32 ? (int)(ROW_SHORT_THREADS / threads) : 1;
}

// What more than one phase needs goes into shared memory, as much as fits.
static void row_shape_long(const Generator *g, const CudaProgram *program, int words, RowShape *shape) {
  int uses[KERNEL_MAX_PORTS] = {0};
  for (int phase = 0; phase <= program->phases; phase++) {
    bool values[KERNEL_MAX_CODE] = {false};
    for (int i = 0; i < g->kernel->code_count; i++) {
      const bool reduces = program->needed[i] && op_is_row_reduction(g->kernel->code[i].op);
      if (reduces ? program->phase[i] == phase + 1 : program->wanted[i] && phase == program->phases) {
        closure_add(g, program, i, false, values);
      }
    }
    for (int i = 0; i < g->kernel->code_count; i++) {
      if (values[i] && g->kernel->code[i].op == KERNEL_LOAD) {
        uses[program->port_of[g->kernel->code[i].port]]++;
      }
    }
  }
  for (int p = 0; p < program->port_count; p++) {
    const int64_t bytes = program->vector * program->port[p].bytes;
    const int64_t room = max_i64(0, g->target->shared_bytes - ROW_SHARED_REST - shape->shared) / bytes;
    if (uses[p] > 1 && program->port[p].access == ACCESS_VECTOR && program->port[p].kind == PORT_INPUT && room > 0) {
      shape->cached[p] = true;
      shape->cache[p] = shape->shared;
      shape->cache_vectors[p] = min_i64(room, program->vectors);
      shape->shared += round_up(shape->cache_vectors[p] * bytes, 16);
    }
  }
  shape->held = false;
  shape->rows = 1;
  shape->threads =
      shape->vectors < 4096 || (shape->shared > 0 && 2 * shape->shared + 8192 <= g->target->shared_bytes) ? 512 : 1024;
  shape->chunks = (int)max_i64(1, min_i64(4, 16 / (words + 1)));
}

// Where a block goes through many rows, ports that differ from row to row are fetched one row ahead.
static void row_shape_ahead(const Generator *g, const CudaProgram *program, RowShape *shape) {
  const int threads = shape->threads * shape->rows;
  for (int p = 0; p < program->port_count; p++) {
    const CudaPort *port = &program->port[p];
    const int64_t bytes = (int64_t)shape->chunks * threads * program->vector * port->bytes;
    bool rows = false, columns = false;
    for (int d = 0; d < program->outer.count; d++) {
      rows |= port->row[d] != 0;
    }
    for (int d = 0; d < program->inner.count; d++) {
      columns |= port->column[d] != 0;
    }
    shape->staged[p] = -1;
    if (shape->held && shape->persistent && !program->ragged && rows && columns && port->kind == PORT_INPUT &&
        port->access == ACCESS_VECTOR && port->grain == 16 && 2 * (shape->shared + bytes) <= g->target->shared_bytes) {
      shape->staged[p] = shape->shared;
      shape->shared += bytes;
      shape->ahead = true;
    }
  }
}

static RowShape row_shape(Generator *g, CudaProgram *program) {
  RowShape shape = {0};
  int words, sums;
  cuda_program_vector(g, program, GENERATE_MAX_VECTOR);
  cuda_program_ragged(g, program);
  shape.vectors = program->vectors;
  row_words(g, program, &words, &sums);
  row_shape_held(program, words, sums, &shape);
  if (!shape.held) {
    row_shape_long(g, program, words, &shape);
  }
  for (int i = 0; i < g->kernel->code_count; i++) {
    shape.columns |= is_wanted(g, program, i, op_is_column_reduction);
    shape.totals |= is_wanted(g, program, i, op_is_total);
  }
  const int threads = shape.threads * shape.rows;
  shape.persistent = shape.columns || shape.totals;
  shape.groups = blocks_of(program->outer.total, shape.rows);
  shape.grid = shape.groups;
  row_shape_ahead(g, program, &shape);
  if (shape.persistent) {
    const int registers = 48 + shape.chunks * (shape.held ? words + sums + program->vector : words);
    const int64_t most = min_i64(2048 / threads, ROW_REGISTERS / ((int64_t)threads * registers));
    const int64_t shared = shape.shared > 0 ? g->target->shared_bytes / (shape.shared + 1024) : most;
    shape.grid = min_i64(shape.groups, g->target->multiprocessors * max_i64(1, min_i64(most, shared)));
  }
  if (shape.columns && shape.rows > 1) {
    shape.shared = max_i64(shape.shared, shape.rows * program->inner.total * g->real_bytes);
  }
  return shape;
}

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
      emit_line(g, indent, "if ((t & 31u) == 0u) fold%d[turn][t >> 5] = f%d;", i, i);
    }
  }
  if (warps > 1) {
    emit_line(g, indent, "__syncthreads();");
  }
  for (int i = 0; i < g->kernel->code_count; i++) {
    const KernelOp op = g->kernel->code[i].op;
    if (!program->needed[i] || !op_is_row_reduction(op) || program->phase[i] != phase + 1) {
      continue;
    }
    if (warps > 8) {
      emit_line(g, indent, "f%d = (t & 31u) < %du ? fold%d[turn][t & 31u] : %s;", i, warps, i, fold_identity(op));
      emit_line(g, 0, "#pragma unroll");
      emit_line(g, indent, "for (int o = 16; o > 0; o >>= 1) f%d = %s(f%d, shuffle(f%d, o));", i, fold_function(op), i,
                i);
    } else if (warps > 1) {
      emit_line(g, indent, "f%d = fold%d[turn][0];", i, i);
      emit_line(g, 0, "#pragma unroll");
      emit_line(g, indent, "for (int w = 1; w < %d; w++) f%d = %s(f%d, fold%d[turn][w]);", warps, i, fold_function(op),
                i, i);
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

static void phase_work(Generator *g, const CudaProgram *program, const RowShape *shape, int phase, const Emit *e) {
  chunk_open(e);
  lanes_open(e);
  phase_sinks(g, program, shape, phase, e->indent + 3);
  lanes_close(e);
  stores_emit(e);
  chunk_close(e);
}

static Emit row_emit(Generator *g, const CudaProgram *program, const RowShape *shape, int indent) {
  const bool full = shape->vectors % ((int64_t)shape->threads * shape->chunks) == 0;
  const bool whole = program->outer.total % shape->rows == 0;
  Emit e = emit_create(g, program, indent, shape->chunks);
  e.where = arena_format(g->arena, "const Index k = %s + u * %d;", shape->held ? "t" : "k0", shape->threads);
  const char *inside = arena_format(g->arena, "k < (Index)%" PRId64, shape->vectors);
  e.guard = full && whole ? NULL : whole ? inside : full ? "valid" : arena_format(g->arena, "valid && %s", inside);
  e.threads = shape->threads * shape->rows;
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
  if (program->outer.total % shape->rows == 0 && !shape->ahead) {
    emit_line(g, indent, "const int valid = 1;");
    emit_line(g, indent, "const Index row = %s%s;", first, shape->rows > 1 ? " + sub" : "");
  } else {
    const char *row = arena_format(g->arena, "%s%s", first, shape->rows > 1 ? " + sub" : "");
    emit_line(g, indent, "const int valid = %s < (Index)%" PRId64 ";", row, program->outer.total);
    emit_line(g, indent, "const Index row = valid ? %s : 0u;", row);
  }
  row_coordinates(g, program, indent);
  row_bases(g, program, indent);
}

// Starts the copies of the row that begins at `first`.
static void row_ahead(Generator *g, const CudaProgram *program, const RowShape *shape, const char *first, int indent) {
  if (!shape->ahead) {
    return;
  }
  emit_line(g, indent, "{");
  row_begin(g, program, shape, first, indent + 1);
  Emit e = held_emit(g, program, shape, indent + 1);
  e.stage = STAGE_COPY;
  e.guard = arena_format(g->arena, "valid && k < (Index)%" PRId64, shape->vectors);
  loads_emit(&e);
  emit_line(g, indent, "}");
}

static void row_phases(Generator *g, const CudaProgram *program, const RowShape *shape) {
  Emit e = row_emit(g, program, shape, 2);
  if (shape->held) {
    e = held_emit(g, program, shape, 2);
    e.stage = shape->ahead ? STAGE_TAKE : STAGE_NONE;
    if (shape->ahead) {
      emit_line(g, 2, "copies_wait();");
    }
    loads_declare(&e, false);
    loads_emit(&e);
    row_ahead(g, program, shape, arena_format(g->arena, "row0 + gridDim.x * (Index)%d", shape->rows), 2);
  }
  for (int phase = 0; phase <= program->phases; phase++) {
    row_values(g, program, phase, 2);
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
      emit_line(g, 1, "__shared__ R fold%d[2][%d];", i, shape->threads / 32);
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

void template_row(Generator *g, CudaProgram *program) {
  const RowShape shape = row_shape(g, program);
  const int threads = shape.threads * shape.rows;
  const char *name = arena_format(g->arena, "row%d", program->number);
  kernel_open(g, program, name, threads);
  totals_open(g, program, shape.grid);
  row_open(g, program, &shape);
  row_ahead(g, program, &shape, arena_format(g->arena, "blockIdx.x * (Index)%d", shape.rows), 1);
  emit_line(g, 1,
            "for (Index row0 = blockIdx.x * (Index)%d; row0 < (Index)%" PRId64 "; row0 += gridDim.x * (Index)%d) {",
            shape.rows, program->outer.total, shape.rows);
  row_begin(g, program, &shape, "row0", 2);
  row_phases(g, program, &shape);
  if (shape.threads > 32) {
    emit_line(g, 2, "turn ^= 1;");
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
  form_add(g, arena_format(g->arena, "row %s %d x %d%s", threads > 32 && shape.rows == 1 ? "block" : "warp",
                           shape.threads, shape.chunks * program->vector,
                           shape.held         ? ""
                           : shape.shared > 0 ? " shared"
                                              : " again"));
}
