// generate_space.c: the space of one program: sides, ports, levels and phases of values, and the width of vectors.
#include <string.h>

#include "kernels/cuda/generate_internal.h"

// The dims of one side before they are merged.
typedef struct {
  int count, dim[KERNEL_MAX_DIMS];  // of the kernel
  int64_t size[KERNEL_MAX_DIMS];
  int64_t stride[KERNEL_MAX_PORTS][KERNEL_MAX_DIMS];
} Dims;

static void needed_mark(const Generator *g, CudaProgram *program) {
  const Kernel *kernel = g->kernel;
  for (int i = kernel->code_count - 1; i >= 0; i--) {
    program->needed[i] |= program->wanted[i];
    int operand[3];
    kernel_operands(&kernel->code[i], operand);
    for (int k = 0; program->needed[i] && k < kernel_op_operands(kernel->code[i].op); k++) {
      program->needed[operand[k]] = true;
    }
  }
}

static void ports_collect(const Generator *g, CudaProgram *program) {
  const Kernel *kernel = g->kernel;
  memset(program->port_of, -1, sizeof program->port_of);
  for (int i = 0; i < kernel->code_count; i++) {
    const int index = kernel->code[i].port;
    if (!program->needed[i] || index < 0 || program->port_of[index] >= 0) {
      continue;
    }
    const KernelPort *port = &kernel->port[index];
    program->port_of[index] = program->port_count;
    program->port[program->port_count++] = (CudaPort){.index = index,
                                                      .kind = port->kind,
                                                      .type = port->type,
                                                      .accumulate = port->accumulate,
                                                      .shadowed = g->shadow[index] >= 0,
                                                      .bytes = element_type_bytes(port->type)};
  }
}

// Bytes moved with stride 1 along each dim: the dim with most is the one that vectors should lie along.
static int dims_best_last(const Generator *g, const CudaProgram *program, const Dims *dims) {
  int best = dims->count - 1;
  double most = -1.0;
  for (int d = dims->count - 1; d >= 0; d--) {
    double bytes = 0.0;
    for (int p = 0; p < program->port_count; p++) {
      const CudaPort *port = &program->port[p];
      if (port->kind == PORT_STRIDES || dims->stride[p][d] != 1) {
        continue;
      }
      double elements = (double)port->bytes;
      for (int i = 0; i < g->kernel->dim_count; i++) {
        elements *= g->kernel->port[port->index].stride[i] != 0 ? (double)g->kernel->size[i] : 1.0;
      }
      bytes += elements;
    }
    if (bytes > most) {
      most = bytes;
      best = d;
    }
  }
  return best;
}

static void dims_move_last(Dims *dims, int from, int port_count) {
  for (int d = from; d + 1 < dims->count; d++) {
    const int64_t size = dims->size[d];
    dims->size[d] = dims->size[d + 1];
    dims->size[d + 1] = size;
    for (int p = 0; p < port_count; p++) {
      const int64_t stride = dims->stride[p][d];
      dims->stride[p][d] = dims->stride[p][d + 1];
      dims->stride[p][d + 1] = stride;
    }
  }
}

static bool dims_alike(const Dims *dims, int at, int port_count) {
  for (int p = 0; p < port_count; p++) {
    if (dims->stride[p][at] != dims->stride[p][at + 1] * dims->size[at + 1]) {
      return false;
    }
  }
  return true;
}

static void dims_merge(Dims *dims, int port_count) {
  for (int i = dims->count - 2; i >= 0; i--) {
    if (!dims_alike(dims, i, port_count)) {
      continue;
    }
    dims->size[i] *= dims->size[i + 1];
    for (int p = 0; p < port_count; p++) {
      dims->stride[p][i] = dims->stride[p][i + 1];
    }
    dims->count--;
    for (int k = i + 1; k < dims->count; k++) {
      dims->size[k] = dims->size[k + 1];
      for (int p = 0; p < port_count; p++) {
        dims->stride[p][k] = dims->stride[p][k + 1];
      }
    }
  }
}

static void side_build(const Generator *g, CudaProgram *program, unsigned mask, bool inner) {
  Dims *dims = ARENA_NEW(g->arena, Dims);
  bool leads = (mask & 1) != 0;  // the first dim of the kernel is the first of the side
  for (int d = 0; d < g->kernel->dim_count; d++) {
    if ((mask >> d & 1) == 0) {
      continue;
    }
    dims->size[dims->count] = g->kernel->size[d];
    for (int p = 0; p < program->port_count; p++) {
      dims->stride[p][dims->count] = g->kernel->port[program->port[p].index].stride[d];
    }
    dims->count++;
  }
  if (inner && dims->count > 1) {
    const int last = dims_best_last(g, program, dims);
    dims_move_last(dims, last, program->port_count);
    leads = leads && last > 0;
  }
  dims_merge(dims, program->port_count);
  CudaSide *side = inner ? &program->inner : &program->outer;
  side->count = dims->count;
  side->total = 1;
  for (int d = 0; d < dims->count; d++) {
    side->size[d] = dims->size[d];
    side->total *= dims->size[d];
    for (int p = 0; p < program->port_count; p++) {
      (inner ? program->port[p].column : program->port[p].row)[d] = dims->stride[p][d];
    }
  }
  if (leads && g->kernel->parts > 0 && inner != program->fixed) {
    program->part = side->total / g->kernel->parts;
  }
}

static void levels_set(const Generator *g, CudaProgram *program, unsigned outer, unsigned inner) {
  const Kernel *kernel = g->kernel;
  for (int i = 0; i < kernel->code_count; i++) {
    const KernelInstruction *code = &kernel->code[i];
    int operand[3];
    kernel_operands(code, operand);
    const bool row = (g->mask[i] & outer) != 0 || (program->fixed && g->reduced[i]);
    program->level[i] = (KernelLevel)((row ? LEVEL_ROW : 0) | ((g->mask[i] & inner) != 0 ? LEVEL_COLUMN : 0));
    for (int k = 0; k < kernel_op_operands(code->op); k++) {
      program->phase[i] =
          program->phase[operand[k]] > program->phase[i] ? program->phase[operand[k]] : program->phase[i];
    }
    if (program->needed[i] && op_is_row_reduction(code->op)) {
      program->phase[i]++;
      program->phases = program->phase[i] > program->phases ? program->phase[i] : program->phases;
    }
  }
}

void cuda_program_build(Generator *g, CudaProgram *program) {
  const unsigned inner = program->fixed ? kernel_dims_of_level(g->kernel, LEVEL_COLUMN) : ~0u;
  needed_mark(g, program);
  ports_collect(g, program);
  side_build(g, program, program->dims & ~inner, false);
  side_build(g, program, program->dims & inner, true);
  levels_set(g, program, program->dims & ~inner, program->dims & inner);
}

// The largest power of two, at most 16, that divides the address of every vector of a port.
static int port_grain(const Generator *g, const CudaProgram *program, const CudaPort *port, int vector) {
  const int64_t bytes = port->bytes;
  int grain = port->shadowed ? 16 : g->alignment[port->index];
  grain = (int)min_i64(grain, min_i64(16, vector * bytes));
  for (int d = 0; d < program->outer.count; d++) {
    while (port->row[d] * bytes % grain != 0) {
      grain /= 2;
    }
  }
  for (int d = 0; d + 1 < program->inner.count; d++) {
    while (port->column[d] * bytes % grain != 0) {
      grain /= 2;
    }
  }
  return (int)max_i64(grain, bytes);
}

bool port_is_big(const CudaProgram *program, const CudaPort *port) {
  int64_t elements = 1;
  for (int d = 0; d < program->outer.count; d++) {
    elements *= port->row[d] != 0 ? program->outer.size[d] : 1;
  }
  for (int d = 0; d < program->inner.count; d++) {
    elements *= port->column[d] != 0 ? program->inner.size[d] : 1;
  }
  return elements >= program->outer.total * program->inner.total / 4;
}

void cuda_program_access(Generator *g, CudaProgram *program, int vector) {
  const int last = program->inner.count - 1;
  program->vector = vector;
  program->vectors = program->inner.total / vector;
  program->tail = last < 0 ? 0 : program->inner.total % vector;
  for (int p = 0; p < program->port_count; p++) {
    CudaPort *port = &program->port[p];
    if (last < 0 || port->column[last] == 0) {
      port->access = ACCESS_ONCE;
      continue;
    }
    port->access = port->column[last] == 1 ? ACCESS_VECTOR : ACCESS_ELEMENTS;
    if (port->access == ACCESS_VECTOR && port->kind != PORT_STRIDES) {
      port->grain = port_grain(g, program, port, vector);
      port->access = vector > 1 && port->grain < 4 ? ACCESS_ELEMENTS : ACCESS_VECTOR;
    }
  }
}

// Elements of which most of the memory has 16 bytes; bytes: of big ports, by those of their elements.
static int vector_of(const int64_t *bytes) {
  const int64_t more = bytes[4] + bytes[8];
  return bytes[1] > bytes[2] + more ? 16 : bytes[1] + bytes[2] > more ? 8 : bytes[8] > bytes[4] ? 2 : 4;
}

void cuda_program_vector(Generator *g, CudaProgram *program, int64_t most) {
  const int last = program->inner.count - 1;
  int64_t bytes[9] = {0};  // of big ports along the last dim, by the bytes of their elements
  int vector = 1;
  for (int p = 0; last >= 0 && p < program->port_count; p++) {
    const CudaPort *port = &program->port[p];
    if (port->kind != PORT_STRIDES && port->column[last] == 1 && port_is_big(program, port)) {
      bytes[port->bytes] += port->bytes;
    }
  }
  if (last >= 0) {
    vector = (int)min_i64(vector_of(bytes), most);
  }
  const bool tail = !program->fixed && program->inner.count == 1 && program->inner.total >= 4096;
  for (; vector > 1; vector /= 2) {
    bool fits = tail || program->inner.size[last] % vector == 0;
    for (int p = 0; fits && p < program->port_count; p++) {
      const CudaPort *port = &program->port[p];
      if (port->kind != PORT_STRIDES && port->column[last] == 1 && port_is_big(program, port)) {
        fits = port_grain(g, program, port, vector) == min_i64(16, vector * port->bytes);
      }
    }
    if (fits) {
      break;
    }
  }
  cuda_program_access(g, program, vector);
}

// How far the first vector of a row is moved by each coordinate must be the same for all big ports; all others are read
// element by element.
static bool ragged_shift(const Generator *g, CudaProgram *program, int vector) {
  bool found = false;
  for (int p = 0; p < program->port_count; p++) {
    const CudaPort *port = &program->port[p];
    const bool unit = port->column[0] == 1, memory = port->kind != PORT_STRIDES;
    if (port->column[0] > 1) {
      return false;
    }
    if (!memory || !unit || !port_is_big(program, port)) {
      continue;
    }
    for (int d = 0; d < program->outer.count; d++) {
      if (found && program->shift[d] != port->row[d] % vector) {
        return false;
      }
      program->shift[d] = port->row[d] % vector;
    }
    found = true;
    if (!port->shadowed && g->alignment[port->index] < 16) {
      return false;
    }
  }
  return found;
}

void cuda_program_ragged(Generator *g, CudaProgram *program) {
  int64_t bytes[9] = {0};
  if (program->vector > 1 || program->inner.count != 1 || program->inner.total < 512 || g->wide) {
    return;
  }
  for (int i = 0; i < g->kernel->code_count; i++) {
    if (program->wanted[i] && op_is_column_reduction(g->kernel->code[i].op)) {
      return;
    }
  }
  for (int p = 0; p < program->port_count; p++) {
    const CudaPort *port = &program->port[p];
    bytes[port->bytes] += port->kind != PORT_STRIDES && port_is_big(program, port) ? port->bytes : 0;
  }
  const int vector = vector_of(bytes);
  if (!ragged_shift(g, program, vector)) {
    return;
  }
  bool moves = false;
  for (int d = 0; d < program->outer.count; d++) {
    moves |= program->shift[d] != 0;
  }
  cuda_program_access(g, program, vector);
  program->ragged = true;
  program->vectors = blocks_of(program->inner.total + (moves ? vector - 1 : 0), vector);
  for (int p = 0; p < program->port_count; p++) {
    CudaPort *port = &program->port[p];
    if (port->column[0] == 1 && port->kind != PORT_STRIDES) {
      port->access = port_is_big(program, port) ? ACCESS_VECTOR : ACCESS_ELEMENTS;
      port->grain = (int)min_i64(16, vector * port->bytes);
    }
  }
}

void closure_add(const Generator *g, const CudaProgram *program, int sink, bool rows, bool *closure) {
  bool found[KERNEL_MAX_CODE] = {false};
  found[sink] = true;
  for (int i = sink; i >= 0; i--) {
    int operand[3];
    kernel_operands(&g->kernel->code[i], operand);
    for (int k = 0; found[i] && k < kernel_op_operands(g->kernel->code[i].op); k++) {
      const KernelLevel level = program->level[operand[k]];
      const bool in = rows ? level != LEVEL_SCALAR : (level & LEVEL_COLUMN) != 0;
      found[operand[k]] |= in;
      closure[operand[k]] |= in;
    }
  }
}
