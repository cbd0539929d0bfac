// template_tile.c: every element by itself, where some ports lie along one dim and some along another.
//
// A block has a tile of both dims. Ports that lie along the last dim are read and written there in vectors, lines of
// memory for some threads side by side; the others, which are turned, pass through shared memory (turned.c).
#include <inttypes.h>

#include "kernels/cuda/generate_internal.h"

enum {
  TILE_LINE = 128,        // bytes of memory that a tile has side by side
  TILE_LEAST = 8,         // of both dims; below that nothing is gained
  TILE_LEAST_ROWS = 16,   // a group of bytes
  TILE_LEAST_WIDTH = 64,  // elements
  TILE_LEAST_VECTORS = 2 * GENERATE_BLOCK,
  TILE_WORDS = 48,  // of loaded memory in registers
  TILE_MOST_CODE = 1600,
  TILE_BLOCKS = 8
};

typedef struct {
  int across;                        // the dim along which turned ports lie
  int rows, columns, width, height;  // of a tile, in elements; threads across and down
  int unroll, passes;
  int64_t tiles_across, tiles, shared;
  bool in, out, totals;
} TileShape;

static bool port_can_turn(const CudaProgram *program, const CudaPort *port, int across) {
  if (port->kind == PORT_STRIDES || port->access != ACCESS_ELEMENTS || port->column[across] != 1 ||
      port->column[program->inner.count - 1] == 1) {
    return false;
  }
  for (int d = 0; d < program->inner.count; d++) {
    if (port->column[d] == 0 && (port->kind == PORT_OUTPUT || d == program->inner.count - 1)) {
      return false;
    }
  }
  return port_is_big(program, port);
}

// The dim with most bytes of ports that could be turned along it, or -1; least: of one of their elements.
static int tile_across(const CudaProgram *program, int64_t *least) {
  const int last = program->inner.count - 1;
  int64_t most = 0;
  int across = -1;
  for (int d = 0; d < last && program->inner.size[last] >= TILE_LEAST; d++) {
    int64_t bytes = 0, smallest = 8;
    for (int p = 0; p < program->port_count && program->inner.size[d] >= TILE_LEAST; p++) {
      if (port_can_turn(program, &program->port[p], d)) {
        bytes += program->port[p].bytes;
        smallest = min_i64(smallest, program->port[p].bytes);
      }
    }
    if (bytes > most) {
      most = bytes;
      across = d;
      *least = smallest;
    }
  }
  return across;
}

static void tile_size(const CudaProgram *program, int64_t least, TileShape *shape) {
  const int64_t along = program->inner.size[program->inner.count - 1], across = program->inner.size[shape->across];
  shape->columns = (int)max_i64(TILE_LEAST_WIDTH, TILE_LINE / 16 * program->vector);
  while (shape->columns / 2 >= along && shape->columns > program->vector) {
    shape->columns /= 2;
  }
  shape->rows = (int)(TILE_LINE / least);
  while (shape->rows * shape->columns / program->vector < TILE_LEAST_VECTORS) {
    shape->rows *= 2;
  }
  while (shape->rows / 2 >= across && shape->rows > TILE_LEAST_ROWS) {
    shape->rows /= 2;
  }
}

// Marks the ports that are turned and fit; what does not, is read and written element by element.
static void tile_ports(const Generator *g, CudaProgram *program, TileShape *shape) {
  const CudaTile tile = {.rows = shape->rows, .columns = shape->columns};
  for (int p = 0; p < program->port_count; p++) {
    CudaPort port = program->port[p];
    int64_t shared = shape->shared;
    if (!port_can_turn(program, &port, shape->across)) {
      continue;
    }
    turned_set(g, program, &port, false, shape->across, &tile, &shared);
    if (shared <= g->target->shared_bytes / 2) {
      program->port[p] = port;
      shape->shared = shared;
      shape->in |= port.kind == PORT_INPUT || port.accumulate;
      shape->out |= port.kind == PORT_OUTPUT;
    }
  }
}

// How many vectors of a tile a thread has in flight.
static void tile_unroll(const Generator *g, const CudaProgram *program, TileShape *shape) {
  const CudaForm *form = g->target->form;
  int words = 0, code = 0;
  for (int i = 0; i < g->kernel->code_count; i++) {
    const KernelInstruction *at = &g->kernel->code[i];
    code += program->needed[i] && is_element(program, i);
    if (program->needed[i] && at->op == KERNEL_LOAD && is_element(program, i)) {
      const CudaPort *port = &program->port[program->port_of[at->port]];
      words += port->access == ACCESS_ELEMENTS ? program->vector : words_of(program, port);
    }
  }
  const int chunks = (int)blocks_of(shape->rows, shape->height);
  for (shape->unroll = 1; 2 * shape->unroll <= chunks && 2 * shape->unroll * words <= TILE_WORDS &&
                          2 * shape->unroll * program->vector * code <= TILE_MOST_CODE;) {
    shape->unroll *= 2;
  }
  if (form && form->unroll > 0) {
    shape->unroll = form->unroll;
  }
  shape->passes = (int)blocks_of(chunks, shape->unroll);
}

static bool tile_shape(Generator *g, CudaProgram *program, TileShape *shape) {
  int64_t least = 8;
  cuda_program_vector(g, program, GENERATE_MAX_VECTOR);
  shape->across = program->inner.count > 1 ? tile_across(program, &least) : -1;
  if (shape->across < 0) {
    return false;
  }
  tile_size(program, least, shape);
  tile_ports(g, program, shape);
  const int64_t size = program->inner.size[program->inner.count - 1];
  shape->width = shape->columns / program->vector;
  shape->height = GENERATE_BLOCK / shape->width;
  shape->tiles_across = blocks_of(program->inner.size[shape->across], shape->rows);
  shape->tiles = program->inner.total / size / program->inner.size[shape->across] * shape->tiles_across *
                 blocks_of(size, shape->columns);
  for (int i = 0; i < g->kernel->code_count; i++) {
    shape->totals |= program->wanted[i] && op_is_total(g->kernel->code[i].op);
  }
  tile_unroll(g, program, shape);
  return shape->shared > 0;
}

// Where the tile begins: the coordinates of the dims that it does not have, and the first of the two that it has.
static void tile_begin(Generator *g, const CudaProgram *program, const TileShape *shape) {
  const int last = program->inner.count - 1;
  const int64_t along = blocks_of(program->inner.size[last], shape->columns);
  const char *rest = "tile";
  emit_line(g, 2, "const Index left = tile %% (Index)%" PRId64 " * %d, m%d = tile / (Index)%" PRId64 ";", along,
            shape->columns, last, along);
  rest = arena_format(g->arena, "m%d", last);
  emit_line(g, 2, "const Index top = %s %% (Index)%" PRId64 " * %d, n = %s / (Index)%" PRId64 ";", rest,
            shape->tiles_across, shape->rows, rest, shape->tiles_across);
  rest = "n";
  for (int d = last - 1; d >= 0; d--) {
    if (d != shape->across) {
      emit_line(g, 2, "const Index c%d = %s %% (Index)%" PRId64 ", m%d = %s / (Index)%" PRId64 ";", d, rest,
                program->inner.size[d], d, rest, program->inner.size[d]);
      rest = arena_format(g->arena, "m%d", d);
    }
  }
}

static void tile_moves(Generator *g, const CudaProgram *program, const TileShape *shape, bool out) {
  const int last = program->inner.count - 1;
  const CudaTile tile = {
      .rows = shape->rows,
      .columns = shape->columns,
      .threads = GENERATE_BLOCK,
      .where = arena_format(g->arena, "const Index c%d = top + tr, c%d = left + tc;", shape->across, last),
      .rows_left = arena_format(g->arena, "%" PRId64 " - c%d", program->inner.size[shape->across], shape->across),
      .columns_left = program->inner.size[last] % shape->columns == 0
                          ? NULL
                          : arena_format(g->arena, "%" PRId64 " - c%d", program->inner.size[last], last)};
  for (int p = 0; p < program->port_count; p++) {
    const CudaPort *port = &program->port[p];
    if (port->access != ACCESS_TURNED ||
        (out ? port->kind != PORT_OUTPUT : port->kind != PORT_INPUT && !port->accumulate)) {
      continue;
    }
    if (!out && port->accumulate) {
      emit_line(g, 2, "if (!first) {");
    }
    turned_move(g, program, port, &tile, out, !out && port->accumulate ? 3 : 2);
    if (!out && port->accumulate) {
      emit_line(g, 2, "}");
    }
  }
}

static void tile_work(Generator *g, const CudaProgram *program, const TileShape *shape) {
  const int last = program->inner.count - 1, step = shape->height * shape->unroll;
  Emit e = emit_create(g, program, 3, shape->unroll);
  e.located = true;
  e.tile_row = "tr";
  e.tile_column = arena_format(g->arena, "tx * %d", program->vector);
  e.where = arena_format(g->arena,
                         "const unsigned tr = pass + ty + u * %d; const Index c%d = top + tr, c%d = left + tx * %du;",
                         shape->height, shape->across, last, program->vector);
  e.guard = arena_format(g->arena, "%sc%d < (Index)%" PRId64 " && c%d < (Index)%" PRId64,
                         shape->passes * step > shape->rows ? arena_format(g->arena, "tr < %du && ", shape->rows) : "",
                         shape->across, program->inner.size[shape->across], last, program->inner.size[last]);
  for (int i = 0; i < g->kernel->code_count; i++) {
    if (program->wanted[i]) {
      closure_add(g, program, i, false, e.values);
      e.stores[i] = g->kernel->code[i].op == KERNEL_STORE;
    }
  }
  if (shape->passes > 1) {
    emit_line(g, 2, "for (unsigned pass = 0; pass < %du; pass += %du) {", shape->rows, step);
  } else {
    emit_line(g, 2, "{");
    emit_line(g, 3, "const unsigned pass = 0u;");
  }
  loads_declare(&e, false);
  loads_emit(&e);
  chunk_open(&e);
  for (int time = 0; lanes_open(&e, time); time++) {
    for (int i = 0; i < g->kernel->code_count; i++) {
      if (program->wanted[i] && op_is_total(g->kernel->code[i].op)) {
        total_fold(g, i, 6);
      }
    }
    lanes_close(&e, time);
  }
  stores_emit(&e);
  chunk_close(&e);
  emit_line(g, 2, "}");
}

bool template_tile(Generator *g, CudaProgram *program) {
  TileShape shape = {0};
  if (!tile_shape(g, program, &shape)) {
    return false;
  }
  const int64_t most = (int64_t)TILE_BLOCKS * g->target->multiprocessors;
  const int64_t blocks = shape.totals ? min_i64(shape.tiles, most) : shape.tiles;
  const char *name = arena_format(g->arena, "tile%d", program->number);
  kernel_open(g, program, name, GENERATE_BLOCK, 0);
  totals_open(g, program, blocks);
  emit_line(g, 1, "SHARED_MEMORY;");
  emit_line(g, 1, "const unsigned tx = threadIdx.x %% %du, ty = threadIdx.x / %du;", shape.width, shape.width);
  row_bases(g, program, 1);
  if (shape.totals) {
    emit_line(g, 1, "for (Index tile = blockIdx.x; tile < (Index)%" PRId64 "; tile += gridDim.x) {", shape.tiles);
  } else {
    emit_line(g, 1, "{");
    emit_line(g, 2, "const Index tile = blockIdx.x;");
  }
  tile_begin(g, program, &shape);
  if (shape.in) {
    tile_moves(g, program, &shape, false);
    emit_line(g, 2, "__syncthreads();");
  }
  tile_work(g, program, &shape);
  if (shape.out) {
    emit_line(g, 2, "__syncthreads();");
    tile_moves(g, program, &shape, true);
  }
  if (shape.totals) {
    emit_line(g, 2, "__syncthreads();");
  }
  emit_line(g, 1, "}");
  totals_close(g, program, GENERATE_BLOCK);
  emit_line(g, 0, "}");
  launch_add(g, name, blocks, 1, GENERATE_BLOCK, shape.shared);
  form_add(g,
           arena_format(g->arena, "tile %d x %d, x%d in %d", shape.rows, shape.columns, program->vector, shape.unroll));
  return true;
}
