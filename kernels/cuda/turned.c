// turned.c: ports that lie in another order than the loop goes, through tiles in shared memory.
//
// In a tile the elements lie in rows, as the loop has them, so that a chunk loads and stores vectors there. Between the
// tile and memory all threads of the block move groups of rows: a thread has 16 bytes of memory for each of some
// columns that lie in one word of a row, and turns them in registers. Threads side by side have the groups of one line
// of memory and next to them the next words; gaps between groups give each of a warp a bank of its own.
#include <inttypes.h>

#include "kernels/cuda/generate_internal.h"

enum { TURN_BYTES = 16, TURN_LINE = 128, TURN_BANKS = 128 };

static int64_t grain_along(const CudaSide *side, const int64_t *stride, int across, int64_t bytes, int64_t grain) {
  for (int d = 0; d < side->count; d++) {
    while (d != across && stride[d] * bytes % grain != 0) {
      grain /= 2;
    }
  }
  return grain;
}

void turned_set(const Generator *g, const CudaProgram *program, CudaPort *port, bool of_rows, int across,
                const CudaTile *tile, int64_t *shared) {
  const int bytes = (int)port->bytes, group = TURN_BYTES / bytes, groups = tile->rows / group;
  int64_t grain = min_i64(TURN_BYTES, port->shadowed ? TURN_BYTES : g->alignment[port->index]);
  grain = grain_along(&program->outer, port->row, of_rows ? across : -1, bytes, grain);
  grain = grain_along(&program->inner, port->column, of_rows ? -1 : across, bytes, grain);
  const int lanes = (int)min_i64(TURN_LINE / TURN_BYTES, groups);
  port->access = ACCESS_TURNED;
  port->turn = (CudaTurn){.at = *shared,
                          .pitch = round_up(tile->columns * bytes, max_i64(TURN_BYTES, TURN_BANKS / group)),
                          .group = group,
                          .columns = (int)max_i64(1, 4 / bytes),
                          .lanes = lanes,
                          .gap = lanes > 1 ? TURN_BANKS / lanes : 0,
                          .grain = (int)grain};
  *shared += groups * (group * port->turn.pitch + port->turn.gap);
}

static const char *place_text(const Emit *e, const CudaPort *port) {
  const CudaTurn *turn = &port->turn;
  return arena_format(e->g->arena,
                      "dynamic_shared + %" PRId64 " + (%s) * %" PRId64 " + (%s) / %d * %d + (%s) * %" PRId64, turn->at,
                      e->tile_row, turn->pitch, e->tile_row, turn->group, turn->gap, e->tile_column, port->bytes);
}

void turned_load(const Emit *e, const CudaPort *port, const char *chunk, int indent) {
  const int64_t bytes = e->program->vector * port->bytes, step = min_i64(bytes, 16);
  for (int64_t at = 0; at < bytes; at += step) {
    emit_line(e->g, indent, "load%" PRId64 "(x%d[%s] + %" PRId64 ", %s + %" PRId64 ");", step, port->index, chunk,
              at / 4, place_text(e, port), at);
  }
}

void turned_store(const Emit *e, const CudaPort *port, int indent) {
  const int64_t bytes = e->program->vector * port->bytes, step = min_i64(bytes, 16);
  emit_line(e->g, indent, "{");
  emit_line(e->g, indent + 1, "unsigned o[%d];", words_of(e->program, port));
  emit_line(e->g, indent + 1, "put_%s(o, y%d, %d);", element_type_name(port->type), port->index, e->program->vector);
  for (int64_t at = 0; at < bytes; at += step) {
    emit_line(e->g, indent + 1, "store%" PRId64 "(%s + %" PRId64 ", o + %" PRId64 ");", step, place_text(e, port), at,
              at / 4);
  }
  emit_line(e->g, indent, "}");
}

// The rows of a tile between its place and the words w of a thread.
static void move_rows(Generator *g, const CudaPort *port, bool out, int indent) {
  const int bytes = port->bytes > 4 ? 8 : 4;
  const char *words = arena_format(g->arena, "w + i * %d", bytes / 4);
  const char *row = arena_format(g->arena, "place + i * %" PRId64, port->turn.pitch);
  emit_line(g, 0, "#pragma unroll");
  emit_line(g, indent, "for (int i = 0; i < %d; i++) %s%d(%s, %s);", port->turn.group, out ? "load" : "store", bytes,
            out ? words : row, out ? row : words);
}

static void move_column(Generator *g, const CudaPort *port, bool out, int indent) {
  const CudaTurn *turn = &port->turn;
  const int64_t bytes = port->bytes;
  if (turn->grain >= 4) {
    emit_line(g, indent, "if (rows >= %d) {", turn->group);
    for (int at = 0; at < TURN_BYTES; at += turn->grain) {
      if (out) {
        emit_line(g, indent + 1, "store%d(at + %d, o + %d);", turn->grain, at, at / 4);
      } else {
        emit_line(g, indent + 1, "load%d(o + %d, at + %d);", turn->grain, at / 4, at);
      }
    }
    emit_line(g, indent, "} else {");
  } else {
    emit_line(g, indent, "{");
  }
  emit_line(g, 0, "#pragma unroll");
  emit_line(g, indent + 1, "for (int i = 0; i < %d; i++) {", turn->group);
  if (out) {
    emit_line(g, indent + 2, "if (i < rows) extract%" PRId64 "(at + i * %" PRId64 ", o, i);", bytes, bytes);
  } else {
    emit_line(g, indent + 2, "if (i < rows) insert%" PRId64 "(o, i, at + i * %" PRId64 ");", bytes, bytes);
  }
  emit_line(g, indent + 1, "}");
  emit_line(g, indent, "}");
}

static void move_columns(Generator *g, const CudaProgram *program, const CudaPort *port, const CudaTile *tile, bool out,
                         int indent) {
  const int columns = port->turn.columns;
  const int64_t step = port->column[program->inner.count - 1] * port->bytes;
  emit_line(g, 0, "#pragma unroll");
  emit_line(g, indent, "for (int c = 0; c < %d; c++) {", columns);
  if (out) {
    emit_line(g, indent + 1, "const unsigned o[4] = {w[c], w[%d + c], w[%d + c], w[%d + c]};", columns, 2 * columns,
              3 * columns);
  } else {
    emit_line(g, indent + 1, "unsigned o[4] = {0u, 0u, 0u, 0u};");
  }
  emit_line(g, indent + 1, tile->columns_left ? "if (c < (int)(%s)) {" : "{", tile->columns_left);
  emit_line(g, indent + 2, "%schar *const at = from + (Long)c * %" PRId64 "u;", out ? "" : "const ", step);
  move_column(g, port, out, indent + 2);
  emit_line(g, indent + 1, "}");
  if (!out) {
    emit_line(g, 0, "#pragma unroll");
    emit_line(g, indent + 1, "for (int q = 0; q < 4; q++) w[q * %d + c] = o[q];", columns);
  }
  emit_line(g, indent, "}");
}

void turned_move(Generator *g, const CudaProgram *program, const CudaPort *port, const CudaTile *tile, bool out,
                 int indent) {
  const CudaTurn *turn = &port->turn;
  const int64_t words = blocks_of(tile->columns, turn->columns);
  char rows[GENERATE_OFFSET], columns[GENERATE_OFFSET];
  emit_line(g, indent, "for (unsigned i = threadIdx.x; i < %" PRId64 "u; i += %du) {", tile->rows / turn->group * words,
            tile->threads);
  emit_line(g, indent + 1,
            "const unsigned tr = (i %% %du + i / %" PRId64 "u * %du) * %du, tc = i / %du %% %" PRId64 "u * %du;",
            turn->lanes, words * turn->lanes, turn->lanes, turn->group, turn->lanes, words, turn->columns);
  if (tile->where) {
    emit_line(g, indent + 1, "%s", tile->where);
  } else {
    emit_line(g, indent + 1, "const Index row = group0 + tr, k = tc / %du;", turn->columns);
    row_coordinates(g, program, indent + 1);
    column_coordinates(g, program, turn->columns, indent + 1);
  }
  offset_text(&program->outer, port->row, 'r', rows);
  offset_text(&program->inner, port->column, 'c', columns);
  emit_line(g, indent + 1, "const int rows = (int)(%s);", tile->rows_left);
  emit_line(g, indent + 1,
            "unsigned char *const place = dynamic_shared + %" PRId64 " + tr * %" PRId64
            " + tr / %d * %d + tc * %" PRId64 ";",
            turn->at, turn->pitch, turn->group, turn->gap, port->bytes);
  emit_line(g, indent + 1, "char *const from = a%d + ((Long)(%s) + (Long)(%s)) * %" PRId64 "u;", port->index, rows,
            columns, port->bytes);
  emit_line(g, indent + 1, "unsigned w[%d];", 4 * turn->columns);
  const char *turns = port->bytes < 4 ? arena_format(g->arena, "turn%" PRId64 "(w);", port->bytes) : "";
  if (out) {
    move_rows(g, port, true, indent + 1);
    emit_line(g, indent + 1, "%s", turns);
    move_columns(g, program, port, tile, true, indent + 1);
  } else {
    move_columns(g, program, port, tile, false, indent + 1);
    emit_line(g, indent + 1, "%s", turns);
    move_rows(g, port, false, indent + 1);
  }
  emit_line(g, indent, "}");
}
