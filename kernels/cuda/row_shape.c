// row_shape.c: the threads of rows: how many for each, how much of it each holds, and what is fetched ahead.
#include "kernels/cuda/row_shape.h"

#include <string.h>

enum {
  ROW_MOST_WORDS = 48,       // of loaded memory in registers
  ROW_MOST_ELEMENTS = 64,    // of a row in each thread
  ROW_MOST_THREADS = 1024,   // that hold a row in registers
  ROW_SHORT_THREADS = 128,   // of a block with several rows
  ROW_LONG_THREADS = 512,    // at most, of a block that goes through many
  ROW_UNIT_ELEMENTS = 8192,  // of rows under way at once in a multiprocessor that goes through many
  ROW_THREAD_ELEMENTS = 16,  // of a thread of several warps that go through many rows
  ROW_WARP_WORDS = 108,      // in registers of a warp that goes through many rows by itself
  ROW_ONCE_WORDS = 160,      // in registers, with what is the same for all rows
  ROW_MOST_GROUPS = 15,      // of several warps in a block: named barriers
  ROW_MOST_STAGES = 4,
  ROW_FLIGHT = 65536,      // bytes on their way to a multiprocessor
  ROW_SHARED_REST = 4096,  // of shared memory, for folds
  ROW_REGISTERS = 65536,   // of a multiprocessor
  ROW_TURN_SECTOR = 32,    // bytes: what is written of turned memory, or half of it where rows are long
  ROW_TURN_LEAST = 16,
  ROW_TURN_THREADS = 256,
};

typedef struct {
  int rows, columns, sums;  // registers of one chunk: loaded for each row, the same for all rows, sums of columns
} RowWords;

bool is_wanted(const Generator *g, const CudaProgram *program, int code, bool (*is)(KernelOp)) {
  return program->wanted[code] && is(g->kernel->code[code].op);
}

bool is_element_total(const Generator *g, const CudaProgram *program, int code) {
  return is_wanted(g, program, code, op_is_total) &&
         (g->kernel->code[g->kernel->code[code].a].level & LEVEL_COLUMN) != 0;
}

bool is_element_store(const Generator *g, const CudaProgram *program, int code) {
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

static RowWords row_words(const Generator *g, const CudaProgram *program) {
  RowWords words = {0};
  for (int i = 0; i < g->kernel->code_count; i++) {
    const KernelInstruction *code = &g->kernel->code[i];
    if (program->needed[i] && code->op == KERNEL_LOAD && is_element(program, i)) {
      const CudaPort *port = &program->port[program->port_of[code->port]];
      const int more = port->access == ACCESS_ONCE ? 1 : (int)max_i64(1, program->vector * port->bytes / 4);
      *(port_varies(program, port) ? &words.rows : &words.columns) += more;
    }
    words.sums += is_wanted(g, program, i, op_is_column_reduction) ? program->vector * g->real_bytes / 4 : 0;
  }
  return words;
}

// Where blocks go through many rows. A warp that holds a whole row waits for no other; beyond that two accesses of each
// thread are best, measured for widths of 768 to 4096 (docs/results/2026-11-22-h200-steps.md).
static void row_shape_many(const CudaProgram *program, const RowWords *words, RowShape *shape, int64_t *threads,
                           int64_t *chunks) {
  const int64_t kept = max_i64(1, words->rows + words->sums), wide = blocks_of(shape->vectors, 32);
  if (words->sums > 0 && wide * kept <= ROW_WARP_WORDS) {
    *threads = 32;
    while (*threads > 1 && *threads / 2 >= shape->vectors) {
      *threads /= 2;
    }
    *chunks = blocks_of(shape->vectors, *threads);
    return;
  }
  const int64_t fit = max_i64(1, 2 * ROW_MOST_WORDS / kept);
  *chunks = max_i64(1, min_i64(ROW_THREAD_ELEMENTS / program->vector, fit));
  *chunks = max_i64(*chunks, min_i64(fit, blocks_of(shape->vectors, ROW_MOST_THREADS)));
  *threads = round_up(blocks_of(shape->vectors, *chunks), 32);
}

// As few threads as can hold a row, the number of chunks that leaves fewest of them idle; of long rows all threads.
static void row_shape_held(const Generator *g, const CudaProgram *program, const RowWords *words, RowShape *shape) {
  int64_t most =
      min_i64(max_i64(1, ROW_MOST_ELEMENTS / program->vector), max_i64(1, ROW_MOST_WORDS / (words->rows + 1)));
  int64_t threads = ROW_MOST_THREADS + 1, chunks = most, waste = INT64_MAX;
  if (g->target->form && g->target->form->threads > 0) {
    threads = g->target->form->threads;
    chunks = blocks_of(shape->vectors, threads);
  } else if (words->sums > 0) {
    row_shape_many(program, words, shape, &threads, &chunks);
    shape->many = true;
  } else if (shape->vectors >= 2 * ROW_MOST_THREADS && blocks_of(shape->vectors, ROW_MOST_THREADS) <= most) {
    threads = ROW_MOST_THREADS;
    chunks = blocks_of(shape->vectors, threads);
  } else if (shape->vectors <= 32 * most) {
    threads = 32;
    while (threads > 1 && threads / 2 >= shape->vectors) {
      threads /= 2;
    }
    chunks = blocks_of(shape->vectors, threads);
  } else {
    for (int64_t c = most; c > 0 && 2 * c >= most; c--) {
      const int64_t t = round_up(blocks_of(shape->vectors, c), 32);
      if (t <= ROW_MOST_THREADS && t * c - shape->vectors < waste) {
        waste = t * c - shape->vectors;
        threads = t;
        chunks = c;
      }
    }
    if (threads <= ROW_MOST_THREADS && 8 * waste > shape->vectors &&
        words->rows > 0) {  // idle lanes cost less where blocks stay
      row_shape_many(program, words, shape, &threads, &chunks);
      shape->many = true;
    }
  }
  shape->held = threads <= ROW_MOST_THREADS && !(g->target->form && g->target->form->again);
  shape->threads = (int)threads;
  shape->chunks = (int)chunks;
}

// What more than one phase needs goes into shared memory, as much as fits.
static void row_shape_long(const Generator *g, const CudaProgram *program, const RowWords *words, RowShape *shape) {
  const CudaForm *form = g->target->form;
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
  shape->chunks = (int)max_i64(1, min_i64(4, 16 / (words->rows + words->columns + 1)));
  if (form && form->threads > 0) {
    shape->threads = form->threads;
  }
  if (form && form->unroll > 0) {
    shape->chunks = form->unroll;
  }
}

static bool port_is_row(const CudaProgram *program, const CudaPort *port) {
  for (int d = 0; d < program->inner.count; d++) {
    if (port->column[d] != 0) {
      return false;
    }
  }
  return true;
}

static bool port_is_staged(const Generator *g, const CudaProgram *program, const CudaPort *port) {
  if (port->kind != PORT_INPUT || !port_varies(program, port)) {
    return false;
  }
  if (port_is_row(program, port)) {
    return port->bytes == 4 && (port->shadowed || g->alignment[port->index] >= 4);
  }
  return port->access == ACCESS_VECTOR && port->grain == 16;
}

// What a row ahead takes of shared memory: places for each thread, of the ports at these offsets; *row: of memory.
static int64_t row_stage_bytes(const Generator *g, const CudaProgram *program, const RowShape *shape, int64_t *staged,
                               int64_t *row) {
  const int threads = shape->threads * shape->rows;
  int64_t bytes = 0;
  *row = 0;
  memset(staged, -1, sizeof *staged * KERNEL_MAX_PORTS);
  for (int p = 0; p < program->port_count; p++) {
    const CudaPort *port = &program->port[p];
    if (port_is_staged(g, program, port)) {
      const bool scalar = port_is_row(program, port);
      staged[p] = bytes;
      bytes += threads * (scalar ? 4 : shape->chunks * program->vector * port->bytes);
      *row += scalar ? 0 : program->inner.total * port->bytes * shape->rows;
    }
  }
  return bytes;
}

// Where a block goes through many rows, what differs from row to row is fetched some rows ahead. A thread has a value
// of the row, like its part of it, in a place of its own, so that nobody waits for others.
static void row_shape_stages(const Generator *g, const CudaProgram *program, RowShape *shape) {
  const CudaForm *form = g->target->form;
  int64_t most = form && form->stages != 0 ? form->stages : ROW_MOST_STAGES, row;
  memset(shape->staged, -1, sizeof shape->staged);
  if (!shape->held || !shape->persistent || most < 1) {
    return;
  }
  const int64_t bytes = row_stage_bytes(g, program, shape, shape->staged, &row);
  const int64_t room = (g->target->shared_bytes - ROW_SHARED_REST) / shape->blocks - shape->tile;
  if (row == 0 || bytes > room) {
    memset(shape->staged, -1, sizeof shape->staged);
    return;
  }
  if (!form || form->stages == 0) {
    most = min_i64(most, blocks_of(ROW_FLIGHT, row * shape->blocks));
  }
  shape->stages = (int)min_i64(most, room / bytes);
  shape->stage_bytes = bytes;
  shape->shared = shape->stages * bytes;
}

// An output of whole rows that lies along the last of the outer dims, so that rows of a group are neighbours.
static bool port_can_turn(const CudaProgram *program, const CudaPort *port) {
  if (port->kind != PORT_OUTPUT || port->accumulate || port->access != ACCESS_ELEMENTS ||
      port->row[program->outer.count - 1] != 1 || port->column[program->inner.count - 1] == 1) {
    return false;
  }
  bool all = true;
  for (int d = 0; d < program->outer.count; d++) {
    all &= port->row[d] != 0;
  }
  for (int d = 0; d < program->inner.count; d++) {
    all &= port->column[d] != 0;
  }
  return all;
}

// Turns what can be in groups of so many rows, if their tiles fit.
static bool row_group_set(const Generator *g, CudaProgram *program, RowShape *shape, int group, int64_t most) {
  const CudaTile tile = {.rows = group, .columns = program->inner.total};
  const int last = program->inner.count - 1, across = program->outer.count - 1;
  CudaPort turned[KERNEL_MAX_PORTS];
  int64_t shared = 0;
  if (group * shape->threads < 32 || (program->outer.count > 1 && program->outer.size[across] % group != 0)) {
    return false;
  }
  for (int p = 0; p < program->port_count; p++) {
    turned[p] = program->port[p];
    if (port_can_turn(program, &turned[p])) {
      turned_set(g, program, &turned[p], true, across, &tile, &shared);
      if (last > 0 && program->inner.size[last] % turned[p].turn.columns != 0) {
        return false;
      }
    }
  }
  if (shared > most) {
    return false;
  }
  memcpy(program->port, turned, sizeof *turned * (size_t)program->port_count);
  shape->group = group;
  shape->tile = shared;
  return true;
}

// Outputs that are turned are written when a block has a group of rows: whole sectors, if a block can have such a tile.
// On an H200 one block with whole sectors beats two with halves (norms of 4096 columns: 75 to 79% of a copy against 40
// to 55%).
static void row_shape_turned(const Generator *g, CudaProgram *program, RowShape *shape) {
  int64_t least = INT64_MAX;
  for (int p = 0; p < program->port_count && shape->held && !program->ragged && program->outer.count > 0; p++) {
    least = port_can_turn(program, &program->port[p]) ? min_i64(least, program->port[p].bytes) : least;
  }
  const CudaForm *form = g->target->form;
  const int64_t room = g->target->shared_bytes;
  if (least == INT64_MAX) {
    return;
  }
  if (form && form->group > 0) {
    row_group_set(g, program, shape, form->group, room - ROW_SHARED_REST);
  } else if (!row_group_set(g, program, shape, ROW_TURN_SECTOR / (int)least, room * 5 / 8)) {
    row_group_set(g, program, shape, ROW_TURN_LEAST / (int)least, room * 5 / 8);
  }
}

// Threads of a multiprocessor that goes through many rows.
static int64_t row_threads_many(const CudaProgram *program, const RowShape *shape) {
  int64_t threads = 1024;
  while (threads > 128 && threads * shape->chunks * program->vector > ROW_UNIT_ELEMENTS) {
    threads /= 2;
  }
  return threads;
}

// Of a group, as many rows at once as leave room for as many ahead: powers of two.
static void row_shape_group(const Generator *g, RowShape *shape) {
  const int64_t want = 2 * shape->tile > g->target->shared_bytes ? 2 * ROW_TURN_THREADS : ROW_TURN_THREADS;
  const bool forced = g->target->form && g->target->form->rows > 0;
  const int most = (int)min_i64(shape->group, shape->threads > 32 ? ROW_MOST_GROUPS : 1024 / shape->threads);
  int rows = 1;
  while (2 * rows <= most && 2 * rows * shape->threads <= 1024 &&
         (2 * rows <= shape->rows || (!forced && 2 * rows * shape->threads <= want) || rows * shape->threads < 32) &&
         (!shape->columns || rows * shape->threads < 32 || 4 * rows * shape->fold <= g->target->shared_bytes)) {
    rows *= 2;
  }
  shape->rows = rows;
}

// Rows of a block: a warp for each row makes small blocks, and the more rows have their columns summed in one block,
// the fewer partial sums there are. No more than leaves every multiprocessor its block.
static void row_shape_rows(const Generator *g, const CudaProgram *program, RowShape *shape) {
  const CudaForm *form = g->target->form;
  int64_t rows = shape->threads <= 32 ? max_i64(1, ROW_SHORT_THREADS / shape->threads) : 1;
  if (shape->many) {
    rows = min_i64(row_threads_many(program, shape), shape->columns ? ROW_LONG_THREADS : ROW_LONG_THREADS / 2);
    rows = min_i64(rows / shape->threads, blocks_of(program->outer.total, g->target->multiprocessors));
  }
  rows = form && form->rows > 0 ? form->rows : max_i64(1, rows);
  rows = min_i64(rows, shape->threads > 32 ? min_i64(ROW_MOST_GROUPS, 1024 / shape->threads) : 1024 / shape->threads);
  if (shape->columns) {
    rows = min_i64(rows, max_i64(1, (g->target->shared_bytes - ROW_SHARED_REST) / (2 * shape->fold)));
  }
  rows = shape->threads < 32 ? round_up(rows, 32 / shape->threads) : rows;
  shape->rows = shape->held ? (int)rows : 1;
  if (shape->tile > 0) {
    row_shape_group(g, shape);
  } else {
    shape->group = shape->rows;
  }
}

// Blocks of a multiprocessor: as many as have registers for what they keep.
static void row_shape_blocks(const Generator *g, const CudaProgram *program, const RowWords *words, RowShape *shape) {
  const CudaForm *form = g->target->form;
  const int threads = shape->threads * shape->rows;
  const int kept = shape->chunks * (words->rows + words->sums);
  const bool can_once = shape->held && shape->persistent && !program->ragged;  // a ragged row has vectors of its own
  shape->once = can_once && kept + shape->chunks * words->columns <= ROW_ONCE_WORDS;
  if (form && form->once != 0) {
    shape->once = can_once && form->once > 0;
  }
  const int64_t registers = round_up(
      48 + (shape->held ? kept + (shape->once ? shape->chunks : 1) * words->columns : shape->chunks * words->rows), 8);
  int64_t most = min_i64(min_i64(2048 / threads, 32), ROW_REGISTERS / (threads * registers));
  most = shape->many ? min_i64(most, row_threads_many(program, shape) / threads) : most;
  int64_t staged[KERNEL_MAX_PORTS], row;
  const int64_t ahead = shape->tile > 0 ? shape->tile + row_stage_bytes(g, program, shape, staged, &row) : 0;
  const int64_t bytes = max_i64(shape->shared + ahead, shape->rows > 1 ? shape->rows * shape->fold : 0);
  const int64_t shared = bytes > 0 ? g->target->shared_bytes / (bytes + 1024) : most;
  shape->blocks = (int)max_i64(1, min_i64(most, shared));
  if (form && form->blocks > 0) {
    shape->blocks = form->blocks;
  }
}

RowShape row_shape(Generator *g, CudaProgram *program) {
  RowShape shape = {0};
  const CudaForm *form = g->target->form;
  cuda_program_vector(g, program, GENERATE_MAX_VECTOR);
  cuda_program_ragged(g, program);
  shape.vectors = program->vectors;
  const RowWords words = row_words(g, program);
  row_shape_held(g, program, &words, &shape);
  if (!shape.held) {
    row_shape_long(g, program, &words, &shape);
  }
  for (int i = 0; i < g->kernel->code_count; i++) {
    shape.columns |= is_wanted(g, program, i, op_is_column_reduction);
    shape.totals |= is_wanted(g, program, i, op_is_total);
  }
  shape.many &= shape.held;
  row_shape_turned(g, program, &shape);
  shape.persistent = shape.tile > 0 || shape.columns || shape.totals || shape.many || (form && form->persistent);
  shape.fold = shape.columns ? program->inner.total * g->real_bytes : 0;
  row_shape_rows(g, program, &shape);
  row_shape_blocks(g, program, &words, &shape);
  row_shape_stages(g, program, &shape);
  for (int p = 0; p < program->port_count; p++) {
    program->port[p].turn.at += shape.shared;
  }
  shape.shared += shape.tile;
  shape.grid = blocks_of(program->outer.total, shape.group);
  if (shape.persistent) {
    shape.grid = min_i64(shape.grid, (int64_t)g->target->multiprocessors * shape.blocks);
  }
  shape.shared = max_i64(shape.shared, shape.rows > 1 ? shape.rows * shape.fold : 0);
  return shape;
}
