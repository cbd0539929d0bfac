// kernel_builder.c: see kernel_builder.h.
#include "compiler/lower/kernel_builder.h"

#include <string.h>

static int64_t extent(const Lower *l, AxisId axis) {
  return l->graph->axes.at[axis].size;
}

// Kernels are built on a few workbenches: a copy that one kernel turns out to need is built while it is.
void builder_start(Builder *b, Lower *l) {
  if (l->building == l->workbenches.count) {
    array_push(l->c->arena, &l->workbenches, ARENA_NEW(l->c->arena, Workbench));
  }
  Workbench *workbench = l->workbenches.at[l->building++];
  *b = (Builder){.l = l, .share = 1};
  b->kernel.real = l->graph->real;
  b->kernel.port = workbench->port;
  b->kernel.code = workbench->code;
  b->places = workbench->place;
  b->port_value = workbench->port_value;
  b->port_register = workbench->port_register;
  memset(b->places, 0, sizeof workbench->place);
  b->registers = map_create(l->c->arena);
}

void builder_space(Builder *b) {
  b->space = shape_union(b->outer, &b->inner);
  if (b->space.count > KERNEL_MAX_DIMS) {
    diag_error(b->l->c->diag, E090, b->l->node->span, "an operation has more than %d axes", KERNEL_MAX_DIMS);
    b->failed = true;
    return;
  }
  b->kernel.dim_count = b->space.count;
  b->kernel.inner_count = b->inner.count;
  for (int i = 0; i < b->space.count; i++) {
    b->kernel.size[i] = extent(b->l, b->space.axis[i]);
  }
}

int builder_port(Builder *b, PortKind kind, ElementType type) {
  if (b->kernel.port_count == KERNEL_MAX_PORTS) {
    diag_error(b->l->c->diag, E090, b->l->node->span, "one kernel would have more than %d operands", KERNEL_MAX_PORTS);
    b->failed = true;
    return 0;
  }
  int port = b->kernel.port_count++;
  b->kernel.port[port] = (KernelPort){.kind = kind, .type = type};
  b->port_value[port] = -1;
  return port;
}

void builder_chosen(Builder *b, ValueId chosen) {
  const int port = builder_port(b, PORT_CHOSEN, TYPE_INDEX);
  b->places[port] = place_of(b->l, storage_of(b->l, chosen));
  b->kernel.parts = b->kernel.size[0];
  b->share = rows_share(b->l, chosen);
}

KernelLevel builder_level(const Builder *b, const int64_t *stride) {
  int level = LEVEL_SCALAR;
  for (int i = 0; i < b->kernel.dim_count; i++) {
    if (stride[i] != 0 && b->kernel.size[i] > 1) {
      level |= i < b->kernel.dim_count - b->kernel.inner_count ? LEVEL_ROW : LEVEL_COLUMN;
    }
  }
  return (KernelLevel)level;
}

int builder_code(Builder *b, KernelInstruction instruction) {
  if (b->kernel.code_count == KERNEL_MAX_CODE) {
    diag_error(b->l->c->diag, E090, b->l->node->span, "one kernel would have more than %d instructions",
               KERNEL_MAX_CODE);
    b->failed = true;
    return 0;
  }
  b->kernel.code[b->kernel.code_count] = instruction;
  return b->kernel.code_count++;
}

KernelInstruction builder_blank(KernelOp op, bool integer, KernelLevel level) {
  return (KernelInstruction){.op = op, .integer = integer, .level = level, .a = -1, .b = -1, .c = -1, .port = -1};
}

void builder_strides(Builder *b, int port, const Shape *shape, const int64_t *stride) {
  for (int i = 0; i < b->space.count; i++) {
    int at = shape_find(shape, b->space.axis[i]);
    b->kernel.port[port].stride[i] = at < 0 || b->kernel.size[i] == 1 ? 0 : stride[at];
  }
}

KernelLevel builder_register_level(const Builder *b, int reg) {
  return b->kernel.code[reg].level;
}

static bool dims_merge(const Kernel *kernel, int d) {
  for (int i = 0; i < kernel->port_count; i++) {
    const int64_t *stride = kernel->port[i].stride;
    if (stride[d] != stride[d + 1] * kernel->size[d + 1]) {
      return false;
    }
  }
  return true;
}

static void drop_dim(Kernel *kernel, int d, bool inner) {
  for (int i = d; i + 1 < kernel->dim_count; i++) {
    kernel->size[i] = kernel->size[i + 1];
  }
  for (int p = 0; p < kernel->port_count; p++) {
    for (int i = d; i + 1 < kernel->dim_count; i++) {
      kernel->port[p].stride[i] = kernel->port[p].stride[i + 1];
    }
    kernel->port[p].stride[kernel->dim_count - 1] = 0;
  }
  kernel->inner_count -= inner;
  kernel->dim_count--;
}

// Fewer dims for the same work: those of size 1 go, neighbours that are contiguous in every port become one.
static void simplify_dims(Kernel *kernel) {
  for (int d = kernel->dim_count - 1; d >= 0; d--) {
    if (kernel->size[d] == 1 && kernel->dim_count > 1) {
      drop_dim(kernel, d, d >= kernel->dim_count - kernel->inner_count);
    }
  }
  for (int d = kernel->dim_count - 2; d >= 0; d--) {
    bool across = d + 1 == kernel->dim_count - kernel->inner_count;
    if (!across && dims_merge(kernel, d)) {
      kernel->size[d + 1] *= kernel->size[d];
      drop_dim(kernel, d, d >= kernel->dim_count - kernel->inner_count);
    }
  }
}

static int share_kernel(Lower *l, const Kernel *kernel) {
  KernelContent content = {0};
  kernel_content(kernel, l->c->arena, &content);
  const size_t bytes = sizeof *content.at * (size_t)content.count;
  int64_t known = map_get_bytes_or(&l->kernels->by_content, content.at, bytes, -1);
  if (known >= 0) {
    return (int)known;
  }
  Kernel *kept = arena_copy(l->keep, kernel, sizeof *kernel);
  kept->port = arena_copy(l->keep, kernel->port, sizeof *kernel->port * (size_t)kernel->port_count);
  kept->code = arena_copy(l->keep, kernel->code, sizeof *kernel->code * (size_t)kernel->code_count);
  array_push(l->keep, &l->kernels->all, kept);
  map_put_bytes(&l->kernels->by_content, content.at, bytes, l->kernels->all.count - 1);
  return l->kernels->all.count - 1;
}

static bool is_right(Builder *b) {
  Lower *l = b->l;
  if (kernel_too_large(&b->kernel)) {
    diag_error(l->c->diag, E090, l->node->span, "what is computed here for one rank has more than 2^50 elements");
    return false;
  }
  const char *wrong = kernel_verify(&b->kernel);
  if (wrong) {
    Buffer text = {0};
    kernel_print(&b->kernel, &text);
    Diagnostic *error = diag_error(l->c->diag, E099, l->node->span, "the compiler made a wrong kernel: %s", wrong);
    diag_help(l->c->diag, error, "the kernel:\n%s", text.text ? text.text : "");
    buffer_free(&text);
  }
  return !wrong;
}

int builder_keep(Builder *b) {
  b->l->building--;
  return !b->failed && is_right(b) ? share_kernel(b->l, &b->kernel) : -1;
}

// Bytes of memory that a port sees, each once.
static double touched_by(const Builder *b, int port) {
  const KernelPort *at = &b->kernel.port[port];
  double elements = 1;
  for (int d = 0; d < b->kernel.dim_count; d++) {
    elements *= at->stride[d] ? (double)b->kernel.size[d] : 1;
  }
  elements *= at->kind == PORT_CHOSEN ? (double)b->kernel.parts : at->stride[0] ? b->share : 1;
  return at->kind == PORT_STRIDES ? 0 : elements * (double)element_type_bytes(at->type);
}

// The same places but for a few along one dim: most of it is the same memory.
static bool is_shifted(const Builder *b, const KernelPort *port, int64_t bytes) {
  const int64_t apart = (bytes < 0 ? -bytes : bytes) / element_type_bytes(port->type);
  bool shifted = apart == 0;
  for (int d = 0; d < b->kernel.dim_count; d++) {
    const int64_t stride = port->stride[d];
    shifted = shifted || (stride > 0 && apart % stride == 0 && 2 * (apart / stride) < b->kernel.size[d]);
  }
  return shifted;
}

// Another slice of what a port before has read: memory moves it once.
static bool is_slice_again(const Builder *b, int port) {
  const KernelPort *at = &b->kernel.port[port];
  bool again = false;
  for (int i = 0; i < port && at->kind == PORT_INPUT; i++) {
    const KernelPort *other = &b->kernel.port[i];
    const Place *here = &b->places[port], *there = &b->places[i];
    again = again || (other->kind == PORT_INPUT && other->type == at->type && here->slot_stride == there->slot_stride &&
                      memcmp(other->stride, at->stride, sizeof at->stride) == 0 &&
                      is_shifted(b, at, here->offset - there->offset));
  }
  return again;
}

void builder_finish(Builder *b) {
  Lower *l = b->l;
  l->building--;
  if (b->failed) {
    return;
  }
  simplify_dims(&b->kernel);
  if (!is_right(b)) {
    return;
  }
  if (lower_as_squares(l, &b->kernel, b->places)) {
    return;
  }
  Instruction *instruction = new_instruction(l, INSTRUCTION_KERNEL);
  Place *places = arena_copy(l->keep, b->places, sizeof *places * (size_t)b->kernel.port_count);
  instruction->as.kernel = (KernelCall){share_kernel(l, &b->kernel), places};
  double elements = b->share;
  for (int i = 0; i < b->kernel.dim_count; i++) {
    elements *= (double)b->kernel.size[i];
  }
  for (int i = 0; i < b->kernel.port_count; i++) {
    instruction->bytes += is_slice_again(b, i) ? 0 : touched_by(b, i);
  }
  for (int i = 0; i < b->kernel.code_count; i++) {
    bool arithmetic = b->kernel.code[i].op >= KERNEL_ADD && b->kernel.code[i].op < KERNEL_STORE;
    instruction->flops += arithmetic && b->kernel.code[i].level == LEVEL_FULL ? elements : 0;
  }
}
