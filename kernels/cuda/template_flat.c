// template_flat.c: every element by itself, in vectors, several of them in flight for each thread.
#include <inttypes.h>

#include "kernels/cuda/generate_internal.h"

enum { FLAT_MOST_CODE = 1600, FLAT_BLOCKS = 8, FLAT_LOADS = 8 };

static bool has_totals(const Generator *g, const CudaProgram *program) {
  for (int i = 0; i < g->kernel->code_count; i++) {
    if (program->wanted[i] && op_is_total(g->kernel->code[i].op)) {
      return true;
    }
  }
  return false;
}

static void flat_body(Generator *g, const CudaProgram *program, int indent, int unroll, const char *where,
                      const char *guard) {
  Emit e = emit_create(g, program, indent, unroll);
  e.where = where;
  e.guard = guard;
  for (int i = 0; i < g->kernel->code_count; i++) {
    if (program->wanted[i]) {
      closure_add(g, program, i, false, e.values);
      e.stores[i] = g->kernel->code[i].op == KERNEL_STORE;
    }
  }
  loads_declare(&e, false);
  loads_emit(&e);
  chunk_open(&e);
  for (int time = 0; lanes_open(&e, time); time++) {
    for (int i = 0; i < g->kernel->code_count; i++) {
      if (program->wanted[i] && op_is_total(g->kernel->code[i].op)) {
        total_fold(g, i, indent + 3);
      }
    }
    lanes_close(&e, time);
  }
  stores_emit(&e);
  chunk_close(&e);
}

// How many vectors a thread has in flight: about FLAT_LOADS loads of 16 bytes, fewer where the code is long, or where
// there is too little work for all multiprocessors.
static int flat_unroll(const Generator *g, const CudaProgram *program, int64_t vectors) {
  int loads = 0, code = 0, unroll = 1;
  if (g->target->form && g->target->form->unroll > 0) {
    return g->target->form->unroll;
  }
  for (int i = 0; i < g->kernel->code_count; i++) {
    const KernelInstruction *instruction = &g->kernel->code[i];
    code += program->needed[i] && is_element(program, i);
    if (program->needed[i] && instruction->op == KERNEL_LOAD && is_element(program, i)) {
      loads += (int)max_i64(1, program->vector * program->port[program->port_of[instruction->port]].bytes / 16);
    }
  }
  while (unroll < 4 && 2 * unroll * (loads > 0 ? loads : 2) <= FLAT_LOADS &&
         2 * unroll * program->vector * code <= FLAT_MOST_CODE &&
         vectors >= (int64_t)4 * unroll * GENERATE_BLOCK * g->target->multiprocessors) {
    unroll *= 2;
  }
  return unroll;
}

void template_flat(Generator *g, CudaProgram *program) {
  cuda_program_vector(g, program, GENERATE_MAX_VECTOR);
  const int64_t vectors = program->inner.total / program->vector;
  const int unroll = flat_unroll(g, program, vectors), step = GENERATE_BLOCK * unroll;
  const bool totals = has_totals(g, program), parts = program->part > 0 && program->part % program->vector == 0;
  const int64_t all = blocks_of(vectors, step);
  const int64_t blocks = totals ? min_i64(all, (int64_t)FLAT_BLOCKS * g->target->multiprocessors) : all;
  const char *name = arena_format(g->arena, "flat%d", program->number);
  kernel_open(g, program, name, GENERATE_BLOCK, 0);
  totals_open(g, program, blocks);
  row_bases(g, program, 1);
  if (totals) {
    emit_line(g, 1,
              "for (Index k0 = blockIdx.x * (Index)%d + threadIdx.x; k0 < (Index)%" PRId64
              "; k0 += gridDim.x * (Index)%d) {",
              step, all * step, step);
  } else {
    emit_line(g, 1, "{");
    emit_line(g, 2, "const Index k0 = blockIdx.x * (Index)%d + threadIdx.x;", step);
  }
  const char *guard = vectors % step == 0 ? NULL : arena_format(g->arena, "k < (Index)%" PRId64, vectors);
  if (parts) {  // once, before all loads
    emit_line(g, 2, "int wanted[%d];", unroll);
    emit_line(g, 0, "#pragma unroll");
    emit_line(g, 2, "for (int u = 0; u < %d; u++) {", unroll);
    emit_line(g, 3, "const Index k = k0 + u * %d;", GENERATE_BLOCK);
    emit_line(g, 3, "wanted[u] = %s%s%s;", guard ? guard : "", guard ? " && " : "",
              part_text(g, "k", program->part / program->vector));
    emit_line(g, 2, "}");
    guard = "wanted[u]";
  }
  flat_body(g, program, 2, unroll, arena_format(g->arena, "const Index k = k0 + u * %d;", GENERATE_BLOCK), guard);
  emit_line(g, 1, "}");
  if (program->tail > 0) {
    CudaProgram *rest = arena_copy(g->arena, program, sizeof *program);
    cuda_program_access(g, rest, 1);
    emit_line(g, 1, "if (blockIdx.x == gridDim.x - 1 && threadIdx.x < %" PRId64 "u) {", program->tail);
    flat_body(g, rest, 2, 1,
              arena_format(g->arena, "const Index k = (Index)%" PRId64 " + threadIdx.x;", vectors * program->vector),
              NULL);
    emit_line(g, 1, "}");
  }
  totals_close(g, program, GENERATE_BLOCK);
  emit_line(g, 0, "}");
  launch_add(g, name, blocks, 1, GENERATE_BLOCK, 0);
  form_add(g, arena_format(g->arena, "flat x%d in %d%s", program->vector, unroll, parts ? ", chosen parts" : ""));
}
