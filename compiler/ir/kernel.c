// kernel.c: what the instructions of a fused kernel are called, when two kernels are equal, what makes one legal.
#include "compiler/ir/kernel.h"

#include <inttypes.h>
#include <string.h>

#include "base/map.h"

typedef struct {
  const char *name;
  int operands;
  char takes, gives;
} OpInfo;

static const OpInfo op_table[] = {
#define KERNEL_OP(NAME, text, operands, takes, gives) {text, operands, takes, gives},
#include "compiler/ir/kernel.def"
#undef KERNEL_OP
};

static const char *const level_names[] = {"scalar", "row", "column", "full"};
static const char *const port_names[] = {"input", "output", "strides", "chosen"};

const char *kernel_op_name(KernelOp op) {
  return op_table[op].name;
}

int kernel_op_operands(KernelOp op) {
  return op_table[op].operands;
}

static uint64_t double_bits(double number) {
  uint64_t bits;
  memcpy(&bits, &number, sizeof bits);
  return bits;
}

static uint64_t word(int64_t value) {
  return (uint64_t)value;
}

static uint64_t half(int value) {
  return (uint32_t)value;
}

void kernel_content(const Kernel *kernel, Arena *arena, KernelContent *content) {
  content->count = 0;
  array_push(arena, content, word(kernel->real) | word(kernel->row_reductions) << 32);
  array_push(arena, content, word(kernel->dim_count) | word(kernel->inner_count) << 32);
  array_push(arena, content, word(kernel->port_count) | word(kernel->code_count) << 32);
  array_push(arena, content, word(kernel->parts));
  for (int i = 0; i < kernel->dim_count; i++) {
    array_push(arena, content, word(kernel->size[i]));
  }
  for (int i = 0; i < kernel->port_count; i++) {
    const KernelPort *port = &kernel->port[i];
    array_push(arena, content, word(port->kind) | word(port->type) << 16 | word(port->accumulate) << 32);
    for (int j = 0; j < kernel->dim_count; j++) {
      array_push(arena, content, word(port->stride[j]));
    }
  }
  for (int i = 0; i < kernel->code_count; i++) {
    const KernelInstruction *code = &kernel->code[i];
    array_push(arena, content, word(code->op) | word(code->level) << 32);
    array_push(arena, content, word(code->integer));
    array_push(arena, content, half(code->a) | half(code->b) << 32);
    array_push(arena, content, half(code->c) | half(code->port) << 32);
    array_push(arena, content, double_bits(code->number));
    array_push(arena, content, word(code->constant));
  }
}

static void print_list(Buffer *out, const int64_t *value, int begin, int end) {
  for (int i = begin; i < end; i++) {
    buffer_format(out, "%s%" PRId64, i > begin ? ", " : "", value[i]);
  }
}

static void print_ports(const Kernel *kernel, Buffer *out) {
  for (int i = 0; i < kernel->port_count; i++) {
    const KernelPort *port = &kernel->port[i];
    buffer_format(out, "  port %d %s %s [", i, port_names[port->kind], element_type_name(port->type));
    print_list(out, port->stride, 0, kernel->dim_count);
    buffer_format(out, "]%s\n", port->accumulate ? " accumulate" : "");
  }
}

static void print_instruction(const KernelInstruction *code, int number, Buffer *out) {
  const OpInfo *info = &op_table[code->op];
  buffer_text(out, "  ");
  if (info->gives != '-') {
    buffer_format(out, "%%%d = ", number);
  }
  buffer_text(out, info->name);
  const int operand[] = {code->a, code->b, code->c};
  for (int i = 0; i < info->operands; i++) {
    buffer_format(out, " %%%d", operand[i]);
  }
  if (code->op == KERNEL_CONST) {
    buffer_format(out, " %.17g", code->number);
  }
  if (code->op == KERNEL_INTEGER || code->op == KERNEL_IOTA || code->op == KERNEL_UNIFORM ||
      code->op == KERNEL_NORMAL) {
    buffer_format(out, " %" PRId64, code->constant);
  }
  if (code->port >= 0) {
    buffer_format(out, " port %d", code->port);
  }
  buffer_format(out, " : %s %s\n", level_names[code->level], code->integer ? "int" : "real");
}

void kernel_print(const Kernel *kernel, Buffer *out) {
  buffer_format(out, "kernel %s [", element_type_name(kernel->real));
  int outer = kernel->dim_count - kernel->inner_count;
  print_list(out, kernel->size, 0, outer);
  buffer_text(out, outer > 0 ? " | " : "| ");
  print_list(out, kernel->size, outer, kernel->dim_count);
  buffer_format(out, "]%s", kernel->row_reductions ? " rows" : "");
  if (kernel->parts > 0) {
    buffer_format(out, " in %" PRId64 " parts", kernel->parts);
  }
  buffer_text(out, "\n");
  print_ports(kernel, out);
  for (int i = 0; i < kernel->code_count; i++) {
    print_instruction(&kernel->code[i], i, out);
  }
}

void kernel_operands(const KernelInstruction *code, int operand[3]) {
  operand[0] = code->a;
  operand[1] = code->b;
  operand[2] = code->c;
}

unsigned kernel_dims(const Kernel *kernel) {
  unsigned mask = 0;
  for (int i = 0; i < kernel->dim_count; i++) {
    mask |= kernel->size[i] > 1 ? 1u << i : 0;
  }
  return mask;
}

unsigned kernel_dims_of_level(const Kernel *kernel, KernelLevel level) {
  const unsigned outer = (1u << (kernel->dim_count - kernel->inner_count)) - 1;
  return kernel_dims(kernel) & (((level & LEVEL_ROW) ? outer : 0) | ((level & LEVEL_COLUMN) ? ~outer : 0));
}

unsigned kernel_dims_of_stride(const Kernel *kernel, const int64_t *stride) {
  unsigned mask = 0;
  for (int i = 0; i < kernel->dim_count; i++) {
    mask |= stride[i] != 0 ? 1u << i : 0;
  }
  return mask & kernel_dims(kernel);
}

void kernel_analyse(const Kernel *kernel, unsigned *dims, bool *reduced) {
  for (int i = 0; i < kernel->code_count; i++) {
    const KernelInstruction *code = &kernel->code[i];
    int operand[3];
    kernel_operands(code, operand);
    dims[i] = code->port >= 0 ? kernel_dims_of_stride(kernel, kernel->port[code->port].stride) : 0;
    reduced[i] = op_is_row_reduction(code->op);
    for (int k = 0; k < kernel_op_operands(code->op); k++) {
      dims[i] |= dims[operand[k]];
      reduced[i] |= reduced[operand[k]];
    }
    if (op_is_row_reduction(code->op)) {
      dims[i] &= kernel_dims_of_level(kernel, LEVEL_ROW);
    }
  }
}

unsigned kernel_output_dims(const Kernel *kernel, int output, const bool *reduced, bool *fixed) {
  const KernelInstruction *code = &kernel->code[output];
  *fixed = reduced[output] || op_is_column_reduction(code->op);
  if (*fixed) {
    return kernel_dims(kernel);
  }
  return op_is_total(code->op) ? kernel_dims_of_level(kernel, kernel->code[code->a].level)
                               : kernel_dims_of_stride(kernel, kernel->port[code->port].stride);
}

// Low enough that sums of a few do not overflow.
#define MOST_POSITION (INT64_C(1) << 56)

// Positions have no arena that they lie in: how far their strides reach is bounded here.
static bool positions_fit(const Kernel *kernel, const KernelPort *port) {
  int64_t all = 0;
  for (int i = 0; i < kernel->dim_count; i++) {
    int64_t reach;
    if (__builtin_mul_overflow(port->stride[i], kernel->size[i] - 1, &reach) || reach > MOST_POSITION ||
        reach < -MOST_POSITION) {
      return false;
    }
    all += reach < 0 ? -reach : reach;
  }
  return all <= MOST_POSITION;
}

// Of a space: what an implementation keeps of each, for all of a kernel's instructions, can be counted in bytes.
#define MOST_ELEMENTS (INT64_C(1) << 50)

bool kernel_too_large(const Kernel *kernel) {
  double elements = 1;
  for (int i = 0; i < kernel->dim_count; i++) {
    elements *= (double)kernel->size[i];
  }
  return elements > (double)MOST_ELEMENTS;
}

static const char *verify_space(const Kernel *kernel) {
  if (kernel->dim_count < 0 || kernel->dim_count > KERNEL_MAX_DIMS) {
    return "a kernel has between 0 and 8 dims";
  }
  if (kernel->inner_count < 0 || kernel->inner_count > kernel->dim_count) {
    return "the inner dims are more than the dims";
  }
  if (kernel->real != TYPE_F32 && kernel->real != TYPE_F64) {
    return "the real type of a kernel is f32 or f64";
  }
  if (kernel->port_count < 0 || kernel->port_count > KERNEL_MAX_PORTS) {
    return "too many ports";
  }
  if (kernel->code_count < 0 || kernel->code_count > KERNEL_MAX_CODE) {
    return "too many instructions";
  }
  for (int i = 0; i < kernel->dim_count; i++) {
    if (kernel->size[i] < 1 || kernel_too_large(kernel)) {
      return "the size of a dim is not positive, or the space is too large";
    }
  }
  for (int i = 0; i < kernel->port_count; i++) {
    const KernelPort *port = &kernel->port[i];
    if ((unsigned)port->kind >= PORT_KIND_COUNT || (unsigned)port->type >= ELEMENT_TYPE_COUNT) {
      return "a port has no such kind or type";
    }
    if (port->kind != PORT_STRIDES && element_type_bytes(port->type) == 0) {
      return "the element type of a port was not chosen";
    }
    if (port->kind == PORT_STRIDES && !positions_fit(kernel, port)) {
      return "positions are beyond what can be counted";
    }
    if (port->accumulate && port->kind != PORT_OUTPUT) {
      return "only an output accumulates";
    }
  }
  return NULL;
}

// Operands: count, order, and the class that the operation takes (WHERE and INT_WHERE take I first).
static const char *verify_operands(const Kernel *kernel, int at) {
  const KernelInstruction *code = &kernel->code[at];
  const OpInfo *info = &op_table[code->op];
  const int operand[] = {code->a, code->b, code->c};
  for (int i = 0; i < 3; i++) {
    if (i >= info->operands) {
      if (operand[i] != -1) {
        return "an operand that the operation does not take is not -1";
      }
      continue;
    }
    if (operand[i] < 0 || operand[i] >= at) {
      return "an operand is not the result of an earlier instruction";
    }
    const KernelInstruction *from = &kernel->code[operand[i]];
    if (op_is_output(from->op)) {
      return "an operand is an output, which has no result";
    }
    bool condition = i == 0 && (code->op == KERNEL_WHERE || code->op == KERNEL_INT_WHERE);
    bool integer = condition || info->takes == 'I' || (info->takes == '=' && code->integer);
    if (from->integer != integer) {
      return "an operand has the wrong class";
    }
    bool reduces = op_is_output(code->op) || op_is_row_reduction(code->op);
    if (!reduces && (from->level & ~code->level) != 0) {
      return "an operand varies over more than the result";
    }
  }
  return NULL;
}

static const char *verify_port(const Kernel *kernel, const KernelInstruction *code) {
  bool load = code->op == KERNEL_LOAD, output = op_is_output(code->op);
  bool wanted = load || output || code->op == KERNEL_IOTA || code->op == KERNEL_UNIFORM || code->op == KERNEL_NORMAL;
  if (!wanted) {
    return code->port == -1 ? NULL : "the operation has no port";
  }
  if (code->port < 0 || code->port >= kernel->port_count) {
    return "there is no such port";
  }
  const KernelPort *port = &kernel->port[code->port];
  if (port->kind != (load ? PORT_INPUT : output ? PORT_OUTPUT : PORT_STRIDES)) {
    return "the port is of another kind than the operation";
  }
  if (code->op == KERNEL_IOTA && (code->constant > MOST_POSITION || code->constant < -MOST_POSITION)) {
    return "a position begins beyond what can be counted";
  }
  if ((load || output) && element_type_floating(port->type) == code->integer) {
    return "the port's element type is of another class than the value";
  }
  if ((kernel_dims_of_stride(kernel, port->stride) & ~kernel_dims_of_level(kernel, code->level)) != 0) {
    return "the port has a stride on a dim that its value does not vary over";
  }
  return NULL;
}

static const char *verify_level(const Kernel *kernel, const KernelInstruction *code) {
  KernelLevel from = op_table[code->op].operands > 0 ? kernel->code[code->a].level : LEVEL_SCALAR;
  switch (code->op) {
    case KERNEL_ROW_SUM:
    case KERNEL_ROW_MAX:
    case KERNEL_ROW_MIN:
      if (!kernel->row_reductions) {
        return "a row reduction in a kernel that says it has none";
      }
      return code->level == LEVEL_ROW ? NULL : "a row reduction gives a row value";
    case KERNEL_STORE:
      return (from & ~code->level) == 0 ? NULL : "a store drops a level of its value";
    case KERNEL_COLUMN_SUM:
    case KERNEL_COLUMN_MAX:
    case KERNEL_COLUMN_MIN:
      return code->level == LEVEL_COLUMN ? NULL : "a column reduction gives a column value";
    case KERNEL_TOTAL_SUM:
    case KERNEL_TOTAL_MAX:
    case KERNEL_TOTAL_MIN:
      return code->level == LEVEL_SCALAR ? NULL : "a total is a scalar";
    case KERNEL_UNIFORM:
    case KERNEL_NORMAL:
      return from == LEVEL_SCALAR ? NULL : "the counter of random values is a scalar";
    case KERNEL_CONST:
    case KERNEL_INTEGER:
      return code->level == LEVEL_SCALAR ? NULL : "a constant is a scalar";
    default:
      return NULL;
  }
}

static const char *verify_instruction(const Kernel *kernel, int at) {
  const KernelInstruction *code = &kernel->code[at];
  if ((unsigned)code->op >= KERNEL_OP_COUNT || (unsigned)code->level > LEVEL_FULL) {
    return "there is no such operation or level";
  }
  char gives = op_table[code->op].gives, takes = op_table[code->op].takes;
  bool real = gives == 'R' || (gives == '-' && takes == 'R');
  if ((real && code->integer) || (gives == 'I' && !code->integer)) {
    return "an instruction has the wrong class";
  }
  const char *why = verify_operands(kernel, at);
  why = why ? why : verify_port(kernel, code);
  return why ? why : verify_level(kernel, code);
}

// Every place of an output is written by exactly one element: the port has a stride wherever the value varies, and
// one instruction writes it.
static const char *verify_outputs(const Kernel *kernel) {
  unsigned mask[KERNEL_MAX_CODE];
  bool reduced[KERNEL_MAX_CODE], written[KERNEL_MAX_PORTS] = {false};
  kernel_analyse(kernel, mask, reduced);
  for (int i = 0; i < kernel->code_count; i++) {
    const KernelInstruction *code = &kernel->code[i];
    if (!op_is_output(code->op)) {
      continue;
    }
    if (written[code->port]) {
      return "two instructions write one port";
    }
    written[code->port] = true;
    unsigned kept = code->op == KERNEL_STORE ? mask[i] : mask[i] & kernel_dims_of_level(kernel, code->level);
    if ((kept & ~kernel_dims_of_stride(kernel, kernel->port[code->port].stride)) != 0) {
      return "an output has no stride on a dim that its value varies over";
    }
  }
  return NULL;
}

// One port says which parts of the first dim are computed, all outputs are cut into these parts, and nothing is
// computed across them.
static const char *verify_parts(const Kernel *kernel) {
  int chosen = 0;
  for (int i = 0; i < kernel->port_count; i++) {
    const KernelPort *port = &kernel->port[i];
    chosen += port->kind == PORT_CHOSEN;
    if (port->kind == PORT_CHOSEN && (port->type != TYPE_INDEX || kernel_dims_of_stride(kernel, port->stride) != 0)) {
      return "what says which parts are computed is no index without strides";
    }
  }
  if (kernel->parts == 0) {
    return chosen == 0 ? NULL : "parts of a kernel that has none are chosen";
  }
  if (chosen != 1 || kernel->parts < 0 || kernel->size[0] % kernel->parts != 0) {
    return "the first dim has no such parts, or not one port says which are computed";
  }
  if (kernel->row_reductions && kernel->dim_count == kernel->inner_count) {
    return "rows are reduced along the dim whose parts are chosen";
  }
  for (int i = 0; i < kernel->code_count; i++) {
    const KernelInstruction *code = &kernel->code[i];
    if (op_is_output(code->op) &&
        (code->op != KERNEL_STORE || (kernel->size[0] > 1 && kernel->port[code->port].stride[0] == 0))) {
      return "an output is not that of one part";
    }
  }
  return NULL;
}

const char *kernel_verify(const Kernel *kernel) {
  const char *why = verify_space(kernel);
  for (int i = 0; !why && i < kernel->code_count; i++) {
    why = verify_instruction(kernel, i);
  }
  why = why ? why : verify_parts(kernel);
  return why ? why : verify_outputs(kernel);
}
