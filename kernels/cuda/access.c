// access.c: coordinates, loads and the loop over lanes of a kernel's text.
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "kernels/cuda/generate_internal.h"

void emit_line(Generator *g, int indent, const char *format, ...) {
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  cuda_text(&g->text, "%*s%s\n", 2 * indent, "", text);
}

Emit emit_create(Generator *g, const CudaProgram *program, int indent, int unroll) {
  Emit e = {.g = g, .program = program, .indent = indent, .unroll = unroll};
  for (int p = 0; p < KERNEL_MAX_PORTS; p++) {
    e.cache[p] = e.staged[p] = -1;
  }
  return e;
}

void offset_text(const CudaSide *side, const int64_t *stride, char letter, char *text) {
  int length = 0;
  text[0] = '\0';
  for (int d = 0; d < side->count; d++) {
    if (stride[d] == 0) {
      continue;
    }
    length += snprintf(text + length, (size_t)(GENERATE_OFFSET - length), "%s%c%d", length ? " + " : "", letter, d);
    if (stride[d] != 1) {
      length += snprintf(text + length, (size_t)(GENERATE_OFFSET - length), " * (Index)%" PRId64, stride[d]);
    }
  }
  if (length == 0) {
    snprintf(text, GENERATE_OFFSET, "0u");
  }
}

// The coordinates of linear position `from` of a side whose last dim is cut into vectors.
static void coordinates_emit(Generator *g, const CudaSide *side, const char *from, char letter, int vector,
                             int indent) {
  if (side->count == 1) {
    emit_line(g, indent, "const Index %c0 = %s * %du;", letter, from, vector);
    return;
  }
  const char *rest = from;
  for (int d = side->count - 1; d > 0; d--) {
    const int64_t step = d == side->count - 1 ? vector : 1, size = side->size[d] / step;
    emit_line(g, indent, "const Index %c%d = %s %% (Index)%" PRId64 " * %" PRId64 "u, %cm%d = %s / (Index)%" PRId64 ";",
              letter, d, rest, size, step, letter, d, rest, size);
    rest = arena_format(g->arena, "%cm%d", letter, d);
  }
  if (side->count > 0) {
    emit_line(g, indent, "const Index %c0 = %s;", letter, rest);
  }
}

void row_coordinates(Generator *g, const CudaProgram *program, int indent) {
  coordinates_emit(g, &program->outer, "row", 'r', 1, indent);
  if (program->ragged) {
    char offset[GENERATE_OFFSET];
    offset_text(&program->outer, program->shift, 'r', offset);
    emit_line(g, indent, "const int shift = (int)((%s) %% %du);", offset, program->vector);
  }
}

void column_coordinates(Generator *g, const CudaProgram *program, int vector, int indent) {
  if (program->ragged) {
    emit_line(g, indent, "const int c0 = (int)k * %d - shift;", program->vector);
    return;
  }
  coordinates_emit(g, &program->inner, "k", 'c', vector, indent);
}

void row_bases(Generator *g, const CudaProgram *program, int indent) {
  char offset[GENERATE_OFFSET];
  for (int p = 0; p < program->port_count; p++) {
    const CudaPort *port = &program->port[p];
    offset_text(&program->outer, port->row, 'r', offset);
    if (port->kind == PORT_STRIDES) {
      emit_line(g, indent, "const Long b%d = a%d + (Long)(%s);", port->index, port->index, offset);
    } else {
      emit_line(g, indent, "char *const b%d = a%d + (Long)(%s) * %" PRId64 "u;", port->index, port->index, offset,
                port->bytes);
    }
  }
}

const char *part_text(const Generator *g, const char *at, int64_t part) {
  return arena_format(g->arena, "((const int *)s.at[%d])[(%s) / (Index)%" PRId64 "] >= 0", kernel_chosen(g->kernel), at,
                      part);
}

void column_bases(Generator *g, const CudaProgram *program, int indent) {
  for (int p = 0; p < program->port_count; p++) {
    const CudaPort *port = &program->port[p];
    if (port->kind != PORT_STRIDES && !port_varies(program, port)) {
      emit_line(g, indent, "char *const b%d = a%d;", port->index, port->index);
    }
  }
}

void kernel_open(Generator *g, const CudaProgram *program, const char *name, int threads, int blocks) {
  const int ports = g->kernel->port_count;
  cuda_text(&g->text, blocks > 0 ? "KERNEL_BLOCKS(%s, %d, %d)(const Slots s) {\n" : "KERNEL(%s, %d)(const Slots s) {\n",
            name, threads, blocks);
  emit_line(g, 1, "const int first = (int)(s.at[%d] & %du);", ports + 1, CUDA_SLOT_FIRST);
  for (int p = 0; p < program->port_count; p++) {
    const CudaPort *port = &program->port[p];
    if (port->kind == PORT_STRIDES) {
      emit_line(g, 1, "const Long a%d = s.at[%d];", port->index, port->index);
    } else if (port->shadowed) {
      emit_line(g, 1, "char *const a%d = (char *)s.at[%d] + %" PRId64 ";", port->index, ports, g->shadow[port->index]);
    } else {
      emit_line(g, 1, "char *const a%d = (char *)s.at[%d];", port->index, port->index);
    }
  }
  for (int i = 0; i < g->kernel->code_count; i++) {
    const KernelInstruction *code = &g->kernel->code[i];
    if (!program->needed[i] || program->level[i] != LEVEL_SCALAR || op_is_output(code->op)) {
      continue;
    }
    if (code->op == KERNEL_LOAD) {
      emit_line(g, 1, "const %s v%d = read_%s(a%d);", value_type(code->integer), i,
                element_type_name(g->kernel->port[code->port].type), code->port);
    } else {
      cuda_text(&g->text, "  ");
      expression_emit(g, i, code->port >= 0 ? arena_format(g->arena, "a%d", code->port) : "");
    }
  }
}

// A value of the row in a stage: a place for each thread.
static const char *row_place(const Emit *e, int slot) {
  return arena_format(e->g->arena, "dynamic_shared + %s + %" PRId64 " + threadIdx.x * 4", e->stage_at, e->staged[slot]);
}

static bool is_row_load(const Generator *g, const CudaProgram *program, int code) {
  return program->needed[code] && program->level[code] == LEVEL_ROW && g->kernel->code[code].op == KERNEL_LOAD;
}

void row_values_ahead(const Emit *e) {
  bool done[KERNEL_MAX_PORTS] = {false};
  for (int i = 0; i < e->g->kernel->code_count; i++) {
    const int port = e->g->kernel->code[i].port;
    const int slot = is_row_load(e->g, e->program, i) ? e->program->port_of[port] : -1;
    if (slot >= 0 && e->staged[slot] >= 0 && !done[slot]) {
      done[slot] = true;
      emit_line(e->g, e->indent, "copy_ahead4(%s, b%d);", row_place(e, slot), port);
    }
  }
}

void row_values(Generator *g, const CudaProgram *program, int phase, const Emit *staged, int indent) {
  for (int i = 0; i < g->kernel->code_count; i++) {
    const KernelInstruction *code = &g->kernel->code[i];
    if (!program->needed[i] || program->level[i] != LEVEL_ROW || program->phase[i] != phase || op_is_output(code->op) ||
        op_is_row_reduction(code->op)) {
      continue;
    }
    if (code->op == KERNEL_LOAD) {
      const int slot = program->port_of[code->port];
      const bool ahead = staged && staged->stage == STAGE_TAKE && staged->staged[slot] >= 0;
      emit_line(g, indent, "const %s v%d = read_%s(%s);", value_type(code->integer), i,
                element_type_name(g->kernel->port[code->port].type),
                ahead ? row_place(staged, slot) : arena_format(g->arena, "b%d", code->port));
    } else {
      cuda_text(&g->text, "%*s", 2 * indent, "");
      expression_emit(g, i, code->port >= 0 ? arena_format(g->arena, "b%d", code->port) : "");
    }
  }
}

const CudaPort *port_of_code(const Emit *e, int code) {
  const int port = e->g->kernel->code[code].port, index = port < 0 ? -1 : e->program->port_of[port];
  return index < 0 ? NULL : &e->program->port[index];
}

// Loads, and outputs that add to what is there, in order.
static bool is_loaded(const Emit *e, int code) {
  const KernelInstruction *instruction = &e->g->kernel->code[code];
  if (e->stage == STAGE_COPY && (instruction->port < 0 || e->program->port_of[instruction->port] < 0 ||
                                 e->staged[e->program->port_of[instruction->port]] < 0 || !e->values[code])) {
    return false;
  }
  const CudaPort *port = port_of_code(e, code);
  if (e->loads != LOADS_ALL && port && port_varies(e->program, port) != (e->loads == LOADS_OF_ROWS)) {
    return false;
  }
  return (e->values[code] && instruction->op == KERNEL_LOAD) ||
         (e->stores[code] && e->g->kernel->port[instruction->port].accumulate);
}

static bool is_loaded_once(const Emit *e, int code) {
  return e->by_row && e->values[code] && !port_varies(e->program, port_of_code(e, code));
}

int words_of(const CudaProgram *program, const CudaPort *port) {
  return (int)max_i64(1, program->vector * port->bytes / 4);
}

bool port_is_packed(const CudaPort *port) {
  return port->access == ACCESS_VECTOR || port->access == ACCESS_TURNED;
}

const char *port_value_type(const CudaPort *port) {
  return value_type(!element_type_floating(port->type));
}

void loads_declare(const Emit *e, bool once) {
  bool done[KERNEL_MAX_PORTS] = {false};
  for (int i = 0; i < e->g->kernel->code_count; i++) {
    if (!is_loaded(e, i) || is_loaded_once(e, i) != once || done[e->g->kernel->code[i].port]) {
      continue;
    }
    const CudaPort *port = port_of_code(e, i);
    const int chunks = once ? 1 : e->unroll;
    done[port->index] = true;
    if (port_is_packed(port)) {
      emit_line(e->g, e->indent, "unsigned x%d[%d][%d];", port->index, chunks, words_of(e->program, port));
    } else if (port->access == ACCESS_ELEMENTS) {
      emit_line(e->g, e->indent, "%s x%d[%d][%d];", port_value_type(port), port->index, chunks, e->program->vector);
    } else {
      emit_line(e->g, e->indent, "%s x%d[%d];", port_value_type(port), port->index, chunks);
    }
  }
}

void whole_open(const Emit *e, int indent) {
  if (e->program->ragged) {
    emit_line(e->g, indent, "if ((unsigned)c0 <= %" PRId64 "u) {", e->program->inner.total - e->program->vector);
  }
}

const char *inside_text(const Emit *e) {
  return e->program->ragged
             ? arena_format(e->g->arena, "if ((unsigned)(c0 + j) < %" PRId64 "u) ", e->program->inner.total)
             : "";
}

// A vector from memory.
static void load_memory(const Emit *e, const CudaPort *port, const char *chunk, const char *offset, int indent) {
  Generator *g = e->g;
  const int p = port->index;
  whole_open(e, indent);
  for (int64_t at = 0; at < e->program->vector * port->bytes; at += port->grain) {
    emit_line(g, indent, "load%d(x%d[%s] + %" PRId64 ", b%d + (Long)(%s) * %" PRId64 "u + %" PRId64 ");", port->grain,
              p, chunk, at / 4, p, offset, port->bytes, at);
  }
  if (e->program->ragged) {
    emit_line(g, indent, "} else {");
    emit_line(g, indent + 1, "for (int j = 0; j < %d; j++) x%d[%s][j] = 0u;", words_of(e->program, port), p, chunk);
    cuda_text(&g->text, "#pragma unroll\n");
    emit_line(g, indent + 1,
              "for (int j = 0; j < %d; j++) %sinsert%" PRId64 "(x%d[%s], j, b%d + (Long)(%s) * %" PRId64
              "u + j * %" PRId64 ");",
              e->program->vector, inside_text(e), port->bytes, p, chunk, p, offset, port->bytes, port->bytes);
    emit_line(g, indent, "}");
  }
}

// A vector whose elements lie side by side: from memory, and into shared memory if it is to be kept there, or from
// shared memory if it is there already.
static void load_vector(const Emit *e, const CudaPort *port, const char *chunk, const char *offset, int indent) {
  Generator *g = e->g;
  const int p = port->index, slot = (int)(port - e->program->port);
  const int64_t bytes = e->program->vector * port->bytes, vectors = e->cache_vectors[slot];
  const bool part = vectors < e->program->vectors;
  if (e->cache[slot] < 0) {
    load_memory(e, port, chunk, offset, indent);
    return;
  }
  if (!e->cached[slot]) {
    load_memory(e, port, chunk, offset, indent);
  }
  if (part) {
    emit_line(g, indent, "if (k < %" PRId64 "u) {", vectors);
  }
  for (int64_t at = 0; at < bytes; at += port->grain) {
    const char *place =
        arena_format(g->arena, "dynamic_shared + %" PRId64 " + k * %" PRId64 "u", e->cache[slot] + at, bytes);
    if (e->cached[slot]) {
      emit_line(g, indent, "load%d(x%d[%s] + %" PRId64 ", %s);", port->grain, p, chunk, at / 4, place);
    } else {
      emit_line(g, indent, "store%d(%s, x%d[%s] + %" PRId64 ");", port->grain, place, p, chunk, at / 4);
    }
  }
  if (part && e->cached[slot]) {
    emit_line(g, indent, "} else {");
    load_memory(e, port, chunk, offset, indent + 1);
  }
  if (part) {
    emit_line(g, indent, "}");
  }
}

// A vector of a row ahead: on its way into the stage, or from there. The parts of vectors that lie outside of a ragged
// row are not needed; behind its end there may be no memory.
static void stage_vector(const Emit *e, const CudaPort *port, const char *chunk, const char *offset, int indent) {
  Generator *g = e->g;
  const int p = port->index, slot = (int)(port - e->program->port);
  const int64_t parts = e->program->vector * port->bytes / 16;
  for (int64_t at = 0; at < parts; at++) {
    const char *place = arena_format(
        g->arena, "dynamic_shared + %s + %" PRId64 " + ((%s * %" PRId64 " + %" PRId64 ") * %d + threadIdx.x) * 16",
        e->stage_at, e->staged[slot], chunk, parts, at, e->threads);
    if (e->stage == STAGE_TAKE) {
      emit_line(g, indent, "load16(x%d[%s] + %" PRId64 ", %s);", p, chunk, at * 4, place);
      continue;
    }
    const char *from =
        arena_format(g->arena, "b%d + (Long)(%s) * %" PRId64 "u + %" PRId64, p, offset, port->bytes, at * 16);
    if (e->program->ragged) {
      emit_line(g, indent, "copy_ahead_part(%s, %s, (%" PRId64 " - c0) * %" PRId64 " - %" PRId64 ");", place, from,
                e->program->inner.total, port->bytes, at * 16);
    } else {
      emit_line(g, indent, "copy_ahead16(%s, %s);", place, from);
    }
  }
}

// One vector of a port into x[chunk].
static void load_emit(const Emit *e, const CudaPort *port, const char *chunk, int indent) {
  char offset[GENERATE_OFFSET];
  Generator *g = e->g;
  const int p = port->index, vector = e->program->vector, slot = (int)(port - e->program->port);
  const char *type = element_type_name(port->type);
  offset_text(&e->program->inner, port->column, 'c', offset);
  if (port->access == ACCESS_TURNED) {
    turned_load(e, port, chunk, indent);
  } else if (port->access == ACCESS_ONCE) {
    emit_line(g, indent, "x%d[%s] = read_%s(b%d + (Long)(%s) * %" PRId64 "u);", p, chunk, type, p, offset, port->bytes);
  } else if (port->access == ACCESS_ELEMENTS) {
    const int64_t step = port->column[e->program->inner.count - 1] * port->bytes;
    cuda_text(&g->text, "#pragma unroll\n");
    emit_line(g, indent,
              "for (int j = 0; j < %d; j++) %sx%d[%s][j] = read_%s(b%d + (Long)(%s) * %" PRId64 "u + (Long)j * %" PRId64
              "u);",
              vector, inside_text(e), p, chunk, type, p, offset, port->bytes, step);
  } else if (e->stage != STAGE_NONE && e->staged[slot] >= 0) {
    stage_vector(e, port, chunk, offset, indent);
  } else {
    load_vector(e, port, chunk, offset, indent);
  }
}

void loads_once(const Emit *e) {
  bool done[KERNEL_MAX_PORTS] = {false};
  for (int i = 0; i < e->g->kernel->code_count; i++) {
    const CudaPort *port = is_loaded(e, i) && is_loaded_once(e, i) ? port_of_code(e, i) : NULL;
    if (port && !done[port->index]) {
      done[port->index] = true;
      emit_line(e->g, e->indent, "char *const b%d = a%d;", port->index, port->index);
      load_emit(e, port, "0", e->indent);
    }
  }
}

void chunk_open(const Emit *e) {
  Generator *g = e->g;
  if (e->unroll > 1) {
    emit_line(g, e->indent, "#pragma unroll");
  }
  emit_line(g, e->indent, "for (int u = 0; u < %d; u++) {", e->unroll);
  emit_line(g, e->indent + 1, "%s", e->where);
  emit_line(g, e->indent + 1, e->guard ? "if (%s) {" : "{", e->guard);
  if (e->by_row) {
    row_coordinates(g, e->program, e->indent + 2);
    row_bases(g, e->program, e->indent + 2);
  } else if (!e->located) {
    column_coordinates(g, e->program, e->program->vector, e->indent + 2);
  }
}

void chunk_close(const Emit *e) {
  emit_line(e->g, e->indent + 1, "}");
  emit_line(e->g, e->indent, "}");
}

bool loads_chunk(const Emit *e, int indent) {
  bool done[KERNEL_MAX_PORTS] = {false}, any = false;
  for (int i = 0; i < e->g->kernel->code_count; i++) {
    if (!is_loaded(e, i) || is_loaded_once(e, i) || done[e->g->kernel->code[i].port]) {
      continue;
    }
    const CudaPort *port = port_of_code(e, i);
    done[port->index] = any = true;
    if (indent > 0 && e->values[i]) {
      load_emit(e, port, "u", indent);
    } else if (indent > 0) {
      emit_line(e->g, indent, "if (!first) {");
      load_emit(e, port, "u", indent + 1);
      emit_line(e->g, indent, "}");
    }
  }
  return any;
}

void loads_emit(const Emit *e) {
  if (loads_chunk(e, 0)) {
    chunk_open(e);
    loads_chunk(e, e->indent + 2);
    chunk_close(e);
  }
}

static bool is_run(const Emit *e, int code) {
  const int last = e->program->inner.count - 1;
  const KernelInstruction *instruction = &e->g->kernel->code[code];
  return instruction->op == KERNEL_UNIFORM && !e->program->ragged && e->program->vector >= 4 && last >= 0 &&
         port_of_code(e, code)->column[last] == 1;
}

// The index of a port without memory, for lane j; with `lane` false for the first of the vector.
static const char *index_text(const Emit *e, int code, bool lane) {
  char offset[GENERATE_OFFSET];
  const CudaPort *port = port_of_code(e, code);
  const int last = e->program->inner.count - 1;
  if (!port) {
    return "";
  }
  offset_text(&e->program->inner, port->column, 'c', offset);
  return lane && last >= 0 ? arena_format(e->g->arena, "b%d + (Long)(%s) + (Long)j * %" PRId64 "u", port->index, offset,
                                          port->column[last])
                           : arena_format(e->g->arena, "b%d + (Long)(%s)", port->index, offset);
}

static void load_value(const Emit *e, int code, int indent) {
  const CudaPort *port = port_of_code(e, code);
  const char *chunk = is_loaded_once(e, code) ? "0" : "u";
  const char *type = port_value_type(port), *name = element_type_name(port->type);
  if (port_is_packed(port)) {
    emit_line(e->g, indent, "const %s v%d = get_%s(x%d[%s], j);", type, code, name, port->index, chunk);
  } else {
    emit_line(e->g, indent, "const %s v%d = x%d[%s]%s;", type, code, port->index, chunk,
              port->access == ACCESS_ELEMENTS ? "[j]" : "");
  }
}

static void lanes_declare(const Emit *e) {
  Generator *g = e->g;
  const int vector = e->program->vector;
  for (int i = 0; i < g->kernel->code_count; i++) {
    if (e->values[i] && is_run(e, i)) {
      emit_line(g, e->indent + 2, "unsigned w%d[%d];", i, vector);
      emit_line(g, e->indent + 2, "random_run(w%d, %d, %s, (unsigned)v%d, %s);", i, vector, random_key_text(g, i),
                g->kernel->code[i].a, index_text(e, i, false));
    }
    if (e->stores[i]) {
      emit_line(g, e->indent + 2, "%s y%d[%d];", port_value_type(port_of_code(e, i)), g->kernel->code[i].port, vector);
    }
  }
}

bool lanes_open(const Emit *e, int time) {
  Generator *g = e->g;
  const int vector = e->program->vector;
  const bool ragged = e->program->ragged;
  if (time > ragged) {
    return false;
  }
  if (time == 0) {
    lanes_declare(e);
    whole_open(e, e->indent + 2);
  } else {
    emit_line(g, e->indent + 2, "} else {");
  }
  if (vector > 1) {
    emit_line(g, e->indent + 2, "#pragma unroll");
  }
  emit_line(g, e->indent + 2, "for (int j = 0; j < %d; j++) %s{", vector, time > 0 ? inside_text(e) : "");
  for (int i = 0; i < g->kernel->code_count; i++) {
    if (!e->values[i]) {
      continue;
    }
    if (g->kernel->code[i].op == KERNEL_LOAD) {
      load_value(e, i, e->indent + 3);
    } else if (is_run(e, i)) {
      emit_line(g, e->indent + 3, "const R v%d = uniform_of(w%d[j]);", i, i);
    } else {
      cuda_text(&g->text, "%*s", 2 * (e->indent + 3), "");
      expression_emit(g, i, index_text(e, i, true));
    }
  }
  for (int i = 0; i < g->kernel->code_count; i++) {
    if (e->stores[i]) {
      emit_line(g, e->indent + 3, "y%d[j] = v%d;", g->kernel->code[i].port, g->kernel->code[i].a);
    }
  }
  return true;
}

void lanes_close(const Emit *e, int time) {
  emit_line(e->g, e->indent + 2, "}");
  if (e->program->ragged && time > 0) {
    emit_line(e->g, e->indent + 2, "}");
  }
}
