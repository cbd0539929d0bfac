// stores.c: how a kernel's text writes its results: chunks of rows, values of rows, reduced columns and totals.
#include <inttypes.h>
#include <stdio.h>

#include "kernels/cuda/generate_internal.h"

static void visit_guard(Generator *g, const CudaProgram *program, const CudaPort *port, bool rows, bool columns,
                        int indent) {
  char text[GENERATE_OFFSET] = "";
  int length = 0;
  for (int d = 0; rows && d < program->outer.count; d++) {
    if (port->row[d] == 0) {
      length += snprintf(text + length, (size_t)(GENERATE_OFFSET - length), "%sr%d == 0u", length ? " && " : "", d);
    }
  }
  for (int d = 0; columns && d < program->inner.count; d++) {
    if (port->column[d] == 0) {
      length += snprintf(text + length, (size_t)(GENERATE_OFFSET - length), "%sc%d == 0u", length ? " && " : "", d);
    }
  }
  if (length > 0) {
    emit_line(g, indent, "if (%s)", text);
  }
}

static void old_added(const Emit *e, const CudaPort *port, int indent) {
  char text[64];
  if (port_is_packed(port)) {
    snprintf(text, sizeof text, "get_%s(x%d[u], j)", element_type_name(port->type), port->index);
  } else {
    snprintf(text, sizeof text, port->access == ACCESS_ELEMENTS ? "x%d[u][j]" : "x%d[u]", port->index);
  }
  emit_line(e->g, indent, "if (!first) {");
  emit_line(e->g, indent, "#pragma unroll");
  if (element_type_floating(port->type)) {
    emit_line(e->g, indent + 1, "for (int j = 0; j < %d; j++) y%d[j] = %s + y%d[j];", e->program->vector, port->index,
              text, port->index);
  } else {
    emit_line(e->g, indent + 1, "for (int j = 0; j < %d; j++) y%d[j] = int_add(%s, y%d[j]);", e->program->vector,
              port->index, text, port->index);
  }
  emit_line(e->g, indent, "}");
}

static void store_elements(const Emit *e, const CudaPort *port, const char *offset, int64_t step, int indent) {
  cuda_text(&e->g->text, "#pragma unroll\n");
  emit_line(e->g, indent,
            "for (int j = 0; j < %d; j++) %swrite_%s(b%d + (Long)(%s) * %" PRId64 "u + (Long)j * %" PRId64
            "u, y%d[j]);",
            e->program->vector, inside_text(e), element_type_name(port->type), port->index, offset, port->bytes, step,
            port->index);
}

static void store_emit(const Emit *e, const CudaPort *port, int indent) {
  char offset[GENERATE_OFFSET];
  Generator *g = e->g;
  const int p = port->index, vector = e->program->vector;
  const char *type = element_type_name(port->type);
  offset_text(&e->program->inner, port->column, 'c', offset);
  if (port->accumulate) {
    old_added(e, port, indent);
  }
  if (port->access == ACCESS_TURNED) {
    turned_store(e, port, indent);
    return;
  }
  visit_guard(g, e->program, port, true, true, indent);
  emit_line(g, indent, "{");
  if (port->access == ACCESS_ONCE) {
    emit_line(g, indent + 1, "write_%s(b%d + (Long)(%s) * %" PRId64 "u, y%d[0]);", type, p, offset, port->bytes, p);
  } else if (port->access == ACCESS_ELEMENTS) {
    store_elements(e, port, offset, port->column[e->program->inner.count - 1] * port->bytes, indent + 1);
  } else {
    whole_open(e, indent + 1);
    emit_line(g, indent + 1, "unsigned o[%d];", words_of(e->program, port));
    emit_line(g, indent + 1, "put_%s(o, y%d, %d);", type, p, vector);
    for (int64_t at = 0; at < vector * port->bytes; at += port->grain) {
      emit_line(g, indent + 1, "store%d(b%d + (Long)(%s) * %" PRId64 "u + %" PRId64 ", o + %" PRId64 ");", port->grain,
                p, offset, port->bytes, at, at / 4);
    }
    if (e->program->ragged) {
      emit_line(g, indent + 1, "} else {");
      store_elements(e, port, offset, port->bytes, indent + 2);
      emit_line(g, indent + 1, "}");
    }
  }
  emit_line(g, indent, "}");
}

void stores_emit(const Emit *e) {
  for (int i = 0; i < e->g->kernel->code_count; i++) {
    if (e->stores[i]) {
      store_emit(e, port_of_code(e, i), e->indent + 2);
    }
  }
}

void row_store(Generator *g, const CudaProgram *program, int at, int indent) {
  const KernelInstruction *code = &g->kernel->code[at];
  const CudaPort *port = &program->port[program->port_of[code->port]];
  const char *type = element_type_name(port->type);
  visit_guard(g, program, port, true, false, indent);
  if (port->accumulate) {
    char text[128];
    snprintf(text, sizeof text, code->integer ? "int_add(read_%s(b%d), v%d)" : "read_%s(b%d) + v%d", type, code->port,
             code->a);
    emit_line(g, indent, "write_%s(b%d, first ? v%d : %s);", type, code->port, code->a, text);
  } else {
    emit_line(g, indent, "write_%s(b%d, v%d);", type, code->port, code->a);
  }
}

void result_store(Generator *g, const CudaProgram *program, int at, const char *value, int indent) {
  char offset[GENERATE_OFFSET];
  const KernelInstruction *code = &g->kernel->code[at];
  const CudaPort *port = &program->port[program->port_of[code->port]];
  const char *type = element_type_name(port->type);
  offset_text(&program->inner, port->column, 'c', offset);
  emit_line(g, indent, "char *const to = (char *)s.at[%d] + (Long)(%s) * %" PRId64 "u;", port->index, offset,
            port->bytes);
  if (op_is_column_reduction(code->op)) {
    visit_guard(g, program, port, false, true, indent);
  }
  if (port->accumulate) {
    emit_line(g, indent, "write_%s(to, first ? %s : read_%s(to) + %s);", type, value, type, value);
  } else {
    emit_line(g, indent, "write_%s(to, %s);", type, value);
  }
}
