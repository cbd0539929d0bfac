// fused_space.c: which programs a kernel needs, and the space, ports and nodes of each.
//
// An output that does not vary over the whole space (a value computed for each column only, say) gets a program of
// its own over the dims that it varies on: it is then computed once and written once, after all readers of the place
// it may overwrite. Reductions keep the kernel's division into outer and inner dims; where there are none, the
// space is divided anew, after merging neighbouring dims that all ports walk alike.
#include <string.h>

#include "kernels/cpu/fused_internal.h"

enum { INNER_MIN = 64 };  // columns below which more dims become inner, where the division is free

// Marks the instructions that the wanted outputs need.
static void mark_needed(const Kernel *kernel, const Request *request, bool *needed) {
  for (int i = kernel->code_count - 1; i >= 0; i--) {
    needed[i] |= request->wanted[i];
    int operand[3];
    kernel_operands(&kernel->code[i], operand);
    for (int k = 0; needed[i] && k < kernel_op_operands(kernel->code[i].op); k++) {
      needed[operand[k]] = true;
    }
  }
}

// Each output asks for one program at most, beside that over the whole space.
static int requests_most(const Kernel *kernel) {
  int most = 1;
  for (int i = 0; i < kernel->code_count; i++) {
    most += op_is_output(kernel->code[i].op);
  }
  return most;
}

// Collects the requests: the program over the whole space first, then those over fewer dims.
static int requests_collect(const Kernel *kernel, const bool *reduced, Request *request) {
  int count = 1;
  request[0].dims = kernel_dims(kernel);
  for (int i = 0; i < kernel->code_count; i++) {
    bool fixed;
    if (!op_is_output(kernel->code[i].op)) {
      continue;
    }
    const unsigned dims = kernel_output_dims(kernel, i, reduced, &fixed);
    int k = 0;
    while (k < count && request[k].dims != dims) {
      k++;
    }
    request[k].dims = dims;
    request[k].wanted[i] = true;
    request[k].fixed |= fixed;
    count += k == count;
  }
  return count;
}

// Whether output `at` of program `by` overwrites only what the same tile has read before: input port `input` is read
// by no other program, at the level of the output, and walked in the same way; and no place is visited twice.
static bool in_step(const Kernel *kernel, const Request *request, int count, int by, int at, int input) {
  const KernelInstruction *store = &kernel->code[at];
  if (store->op != KERNEL_STORE) {
    return false;
  }
  const unsigned visited = request[by].fixed ? kernel_dims_of_level(kernel, store->level) : request[by].dims;
  const int64_t *stride = kernel->port[store->port].stride;
  if (kernel_dims_of_stride(kernel, stride) != visited ||
      memcmp(stride, kernel->port[input].stride, sizeof *stride * (size_t)kernel->dim_count) != 0 ||
      kernel->port[store->port].type != kernel->port[input].type) {
    return false;
  }
  for (int k = 0; k < count; k++) {
    bool needed[KERNEL_MAX_CODE] = {false};
    mark_needed(kernel, &request[k], needed);
    for (int i = 0; i < kernel->code_count; i++) {
      const KernelInstruction *load = &kernel->code[i];
      const bool reads = needed[i] && load->op == KERNEL_LOAD && load->port == input;
      if (reads && (k != by || (request[k].fixed && (load->level ^ store->level) & LEVEL_COLUMN))) {
        return false;
      }
    }
  }
  return true;
}

static void shadows_find(const Kernel *kernel, const Place *places, int slots, const Request *request, int count,
                         bool *shadowed) {
  for (int by = 0; by < count; by++) {
    for (int at = 0; at < kernel->code_count; at++) {
      for (int p = 0; request[by].wanted[at] && p < kernel->port_count; p++) {
        if (kernel->port[p].kind == PORT_INPUT && ports_overlap(kernel, places, slots, kernel->code[at].port, p)) {
          shadowed[p] |= !in_step(kernel, request, count, by, at, p);
        }
      }
    }
  }
}

Fused *fused_build(Arena *arena, const Simd *simd, const Kernel *kernel, const Place *places, int slots) {
  Fused *fused = ARENA_NEW(arena, Fused);
  Request *request = ARENA_BORROW(arena, Request, requests_most(kernel));
  bool *shadowed = ARENA_ARRAY(arena, bool, kernel->port_count + 1);
  unsigned mask[KERNEL_MAX_CODE];
  bool reduced[KERNEL_MAX_CODE];
  kernel_analyse(kernel, mask, reduced);
  fused->port_count = kernel->port_count;
  fused->program_count = requests_collect(kernel, reduced, request);
  fused->program = ARENA_ARRAY(arena, Program, fused->program_count);
  shadows_find(kernel, places, slots, request, fused->program_count, shadowed);
  for (int k = 0; k < fused->program_count; k++) {
    Program *program = &fused->program[k];
    request[k].kernel = kernel;
    request[k].places = places;
    request[k].slots = slots;
    request[k].shadowed = shadowed;
    program_build(arena, simd, &request[k], program);
    fused->scratch_bytes = max_i64(fused->scratch_bytes, program->scratch_bytes);
    fused->shared_bytes += round_up(program->shared_bytes, 64);
  }
  fused->shadow = ARENA_ARRAY(arena, Shadow, kernel->port_count + 1);
  for (int p = 0; p < kernel->port_count; p++) {
    if (shadowed[p]) {
      const PortRange range = port_range(kernel, p);
      const int64_t bytes = range.high - range.low;
      fused->shadow[fused->shadow_count++] =
          (Shadow){.port = p, .first = range.low, .bytes = bytes, .offset = fused->shared_bytes};
      fused->shared_bytes += round_up(bytes, 64);
    }
  }
  arena_return(request);
  return fused;
}

// The dims of a program before they become sides: of the kernel's dims that are in it, then merged.
typedef struct {
  int count, outer;  // the first `outer` stay outer dims if the division is fixed
  int64_t size[KERNEL_MAX_DIMS];
  int64_t stride[KERNEL_MAX_PORTS][KERNEL_MAX_DIMS];
  unsigned from[KERNEL_MAX_DIMS];  // bits of the kernel's dims
} Dims;

static bool dims_merge_at(const Program *program, const Request *request, const Dims *dims, int at) {
  if (request->fixed && at + 1 == dims->outer) {
    return false;
  }
  for (int p = 0; p < program->port_count; p++) {
    if (dims->stride[p][at] != dims->stride[p][at + 1] * dims->size[at + 1]) {
      return false;
    }
  }
  return true;
}

static void dims_collect(const Program *program, const Request *request, Dims *dims) {
  const Kernel *kernel = request->kernel;
  *dims = (Dims){0};
  for (int d = 0; d < kernel->dim_count; d++) {
    if ((request->dims >> d & 1) == 0) {
      continue;
    }
    dims->outer += d < kernel->dim_count - kernel->inner_count;
    dims->size[dims->count] = kernel->size[d];
    dims->from[dims->count] = 1u << d;
    for (int p = 0; p < program->port_count; p++) {
      dims->stride[p][dims->count] = kernel->port[program->port[p].index].stride[d];
    }
    dims->count++;
  }
  for (int i = dims->count - 2; i >= 0; i--) {
    if (!dims_merge_at(program, request, dims, i)) {
      continue;
    }
    dims->size[i] *= dims->size[i + 1];
    dims->from[i] |= dims->from[i + 1];
    for (int p = 0; p < program->port_count; p++) {
      dims->stride[p][i] = dims->stride[p][i + 1];
    }
    for (int k = i + 1; k + 1 < dims->count; k++) {
      dims->size[k] = dims->size[k + 1];
      dims->from[k] = dims->from[k + 1];
      for (int p = 0; p < program->port_count; p++) {
        dims->stride[p][k] = dims->stride[p][k + 1];
      }
    }
    dims->outer -= i + 1 < dims->outer;
    dims->count--;
  }
}

static void side_take(Side *side, const Dims *dims, int begin, int end) {
  side->count = end - begin;
  side->total = 1;
  for (int i = begin; i < end; i++) {
    side->size[i - begin] = dims->size[i];
    side->total *= dims->size[i];
  }
}

// Even: linear coordinate c lies c * step elements from coordinate 0.
static bool side_even(const Side *side, const int64_t *stride, int64_t *step) {
  *step = side->count > 0 ? stride[side->count - 1] : 0;
  for (int i = 0; i + 1 < side->count; i++) {
    if (stride[i] != stride[i + 1] * side->size[i + 1]) {
      return false;
    }
  }
  return true;
}

static void ports_finish(Program *program, const Dims *dims, int split) {
  for (int p = 0; p < program->port_count; p++) {
    Port *port = &program->port[p];
    for (int i = 0; i < dims->count; i++) {
      (i < split ? port->row : port->column)[i < split ? i : i - split] = dims->stride[p][i];
      *(i < split ? &port->rows_repeat : &port->columns_repeat) |= dims->stride[p][i] == 0;
    }
    int64_t step;
    port->columns_dense = side_even(&program->inner, port->column, &step) && (program->inner.count == 0 || step == 1);
    port->rows_even = side_even(&program->outer, port->row, &port->row_step);
  }
}

// Chooses outer and inner; returns how many of the dims are outer.
static int divide(const Request *request, const Dims *dims) {
  if (request->fixed || dims->count == 0) {
    return dims->outer;
  }
  int split = dims->count - 1;
  int64_t inner = dims->size[split];
  while (inner < INNER_MIN && split > 0) {
    inner *= dims->size[--split];
  }
  return split;
}

static void ports_collect(Arena *arena, const Request *request, const bool *needed, Program *program, int *port_of) {
  const Kernel *kernel = request->kernel;
  program->port = ARENA_ARRAY(arena, Port, kernel->port_count + 1);
  for (int i = 0; i < kernel->code_count; i++) {
    const int index = kernel->code[i].port;
    if (!needed[i] || index < 0 || port_of[index] >= 0) {
      continue;
    }
    const KernelPort *port = &kernel->port[index];
    port_of[index] = program->port_count;
    program->port[program->port_count++] = (Port){
        .index = index, .type = port->type, .accumulate = port->accumulate, .bytes = element_type_bytes(port->type)};
  }
}

typedef struct {
  const Request *request;
  const Dims *dims;
  int split;
  const unsigned *mask;
} Levels;

// The level of an instruction's value in the program's space.
static KernelLevel level_of(const Levels *levels, int at) {
  if (levels->request->fixed) {
    return levels->request->kernel->code[at].level;
  }
  unsigned outer = 0, inner = 0;
  for (int i = 0; i < levels->dims->count; i++) {
    *(i < levels->split ? &outer : &inner) |= levels->dims->from[i];
  }
  if ((levels->mask[at] & (outer | inner)) == 0) {
    return LEVEL_SCALAR;
  }
  const unsigned row = levels->mask[at] & outer ? LEVEL_ROW : 0, column = levels->mask[at] & inner ? LEVEL_COLUMN : 0;
  return (KernelLevel)(levels->split == 0 ? LEVEL_FULL : row | column);
}

// The level that an output or reduction takes its operand at.
static KernelLevel level_taken(const Levels *levels, int at) {
  const Kernel *kernel = levels->request->kernel;
  const KernelInstruction *code = &kernel->code[at];
  if (op_is_row_reduction(code->op) || op_is_column_reduction(code->op) || !levels->request->fixed) {
    return LEVEL_FULL;
  }
  const KernelLevel level = op_is_total(code->op) ? kernel->code[code->a].level : code->level;
  return (level & LEVEL_COLUMN) ? LEVEL_FULL : LEVEL_ROW;
}

static unsigned singles(const Program *program, const Node *node) {
  unsigned single = 0;
  for (int k = 0; k < node->operand_count; k++) {
    const KernelLevel level = program->node[node->operand[k]].level;
    const bool varies = node->level == LEVEL_FULL ? (level & LEVEL_COLUMN) != 0 : level == node->level;
    single |= varies ? 0 : 1u << k;
  }
  return single;
}

static VectorFn function_of(const Program *program, const Node *node) {
  const VectorFn fn = program->simd->integer->op[node->op];
  if (node->op == KERNEL_LOAD) {  // a broadcast
    return node->integer ? fn : program->real->op[node->op];
  }
  return fn ? fn : program->real->op[node->op];
}

static int node_add(Program *program, Node node) {
  node.bytes = node.integer ? 4 : program->real_bytes;
  node.single = singles(program, &node);
  node.fn = node.operand_count > 0 ? function_of(program, &node) : NULL;
  node.reduction = -1;
  program->node[program->node_count] = node;
  return program->node_count++;
}

static void nodes_build(Arena *arena, const Levels *levels, const bool *needed, const int *port_of, Program *program) {
  const Kernel *kernel = levels->request->kernel;
  int node_of[KERNEL_MAX_CODE];
  program->node = ARENA_ARRAY(arena, Node, 2 * kernel->code_count);
  for (int i = 0; i < kernel->code_count; i++) {
    const KernelInstruction *code = &kernel->code[i];
    if (!needed[i]) {
      continue;
    }
    const bool reads = op_is_output(code->op) || op_is_row_reduction(code->op);
    Node node = {.op = code->op, .integer = code->integer, .source = i, .number = code->number};
    node.constant = code->constant;
    node.operand_count = kernel_op_operands(code->op);
    node.port = code->port >= 0 ? port_of[code->port] : -1;
    node.level = reads && !op_is_row_reduction(code->op) ? level_taken(levels, i) : level_of(levels, i);
    int operand[3];
    kernel_operands(code, operand);
    for (int k = 0; k < node.operand_count; k++) {
      node.operand[k] = node_of[operand[k]];
    }
    if (reads && program->node[node.operand[0]].level != level_taken(levels, i)) {
      const Node *from = &program->node[node.operand[0]];
      Node copy = {.op = KERNEL_LOAD, .integer = from->integer, .source = -1, .port = -1, .operand_count = 1};
      copy.level = level_taken(levels, i);
      copy.operand[0] = node.operand[0];
      node.operand[0] = node_add(program, copy);
    }
    node_of[i] = node_add(program, node);
  }
}

void program_build(Arena *arena, const Simd *simd, const Request *request, Program *program) {
  const Kernel *kernel = request->kernel;
  unsigned mask[KERNEL_MAX_CODE];
  bool reduced[KERNEL_MAX_CODE], needed[KERNEL_MAX_CODE] = {false};
  int port_of[KERNEL_MAX_PORTS];
  memset(port_of, -1, sizeof port_of);
  *program = (Program){.simd = simd, .real = kernel->real == TYPE_F32 ? simd->f32 : simd->f64};
  program->real_bytes = kernel->real == TYPE_F32 ? 4 : 8;
  kernel_analyse(kernel, mask, reduced);
  mark_needed(kernel, request, needed);
  ports_collect(arena, request, needed, program, port_of);
  Dims dims;
  dims_collect(program, request, &dims);
  const Levels levels = {request, &dims, divide(request, &dims), mask};
  side_take(&program->outer, &dims, 0, levels.split);
  side_take(&program->inner, &dims, levels.split, dims.count);
  program->parts = dims.count > 0 && (dims.from[0] & 1) ? kernel->parts : 0;
  program->chosen = kernel_chosen(kernel);
  ports_finish(program, &dims, levels.split);
  nodes_build(arena, &levels, needed, port_of, program);
  program_schedule(arena, request, program);
}
