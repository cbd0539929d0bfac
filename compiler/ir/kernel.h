// kernel.h: a fused group of elementwise operations and row reductions, as straight-line code over one
// iteration space. Both backends run the same Kernel: the CPU tile by tile, CUDA as generated source.
//
// The space is dims size[0..dim_count), the last inner_count of them "inner", the others "outer". A row is one
// coordinate of the outer dims. With row_reductions false nothing ties the elements of a row together, and an
// implementation may cut the space anywhere. Every value has a level: what it varies over.
//   FULL outer and inner   ROW outer only   COLUMN inner only   SCALAR neither
// An operand of lower level is broadcast. Kernels know no addresses; an instruction of the plan binds each memory
// port to a place. Kernels are shared by all instructions with equal content (kernel_content).
// Outputs may alias inputs only elementwise: same place, same strides, same type.
//
// The first dim may be an axis of which the device alone knows how much is used (rows of ORDER): then it has `parts`
// equal parts, and a port of kind CHOSEN a number for each. Where that is negative nothing has to be computed, and what
// outputs hold there is undefined. All outputs vary on that dim, and nothing is reduced along it.
#ifndef MDL_COMPILER_IR_KERNEL_H
#define MDL_COMPILER_IR_KERNEL_H

#include "base/arena.h"
#include "base/array.h"
#include "base/buffer.h"
#include "compiler/ir/types.h"

enum { KERNEL_MAX_DIMS = 8, KERNEL_MAX_PORTS = 128, KERNEL_MAX_CODE = 320 };

typedef enum {
#define KERNEL_OP(NAME, text, operands, takes, gives) KERNEL_##NAME,
#include "compiler/ir/kernel.def"
#undef KERNEL_OP
  KERNEL_OP_COUNT
} KernelOp;

typedef enum { LEVEL_SCALAR = 0, LEVEL_ROW = 1, LEVEL_COLUMN = 2, LEVEL_FULL = 3 } KernelLevel;

typedef enum {
  PORT_INPUT,
  PORT_OUTPUT,
  PORT_STRIDES,  // no memory (IOTA, UNIFORM, NORMAL)
  PORT_CHOSEN,   // Kernel.parts numbers without gaps; no instruction reads it
  PORT_KIND_COUNT
} PortKind;

typedef struct {
  PortKind kind;
  ElementType type;
  bool accumulate;                  // an output adds to what is there, unless the call is the first (plan.h)
  int64_t stride[KERNEL_MAX_DIMS];  // in elements, for each dim of the space; 0 where the value does not vary
} KernelPort;

typedef struct {
  KernelOp op;
  KernelLevel level;  // of the result; of the port for outputs
  bool integer;       // the result register is of class I (for outputs: the operand)
  int16_t a, b, c;    // operand registers (numbers of earlier instructions), -1 where unused
  int16_t port;       // LOAD, IOTA, UNIFORM, NORMAL and outputs; else -1
  double number;      // CONST
  int64_t constant;   // INTEGER, IOTA base, random key
} KernelInstruction;

typedef struct {
  int dim_count, inner_count;
  bool row_reductions;
  int64_t size[KERNEL_MAX_DIMS];
  int64_t parts;     // of the first dim, each with a number of PORT_CHOSEN; 0: all of it is computed
  ElementType real;  // arithmetic of class R: TYPE_F32 or TYPE_F64
  int port_count, code_count;
  KernelPort *port;
  KernelInstruction *code;
} Kernel;

const char *kernel_op_name(KernelOp op);
int kernel_op_operands(KernelOp op);

// The port that says which parts are computed, or -1.
static inline int kernel_chosen(const Kernel *kernel) {
  int port = kernel->parts > 0 ? kernel->port_count - 1 : -1;
  while (port >= 0 && kernel->port[port].kind != PORT_CHOSEN) {
    port--;
  }
  return port;
}

static inline bool op_is_output(KernelOp op) {
  return op >= KERNEL_STORE && op <= KERNEL_TOTAL_MIN;
}

static inline bool op_is_row_reduction(KernelOp op) {
  return op >= KERNEL_ROW_SUM && op <= KERNEL_ROW_MIN;
}

static inline bool op_is_column_reduction(KernelOp op) {
  return op >= KERNEL_COLUMN_SUM && op <= KERNEL_COLUMN_MIN;
}

static inline bool op_is_total(KernelOp op) {
  return op >= KERNEL_TOTAL_SUM && op <= KERNEL_TOTAL_MIN;
}

void kernel_operands(const KernelInstruction *code, int operand[3]);  // a, b and c

// Dims of the space as bits, without those of size 1: all, those of a level, those with a stride.
unsigned kernel_dims(const Kernel *kernel);
unsigned kernel_dims_of_level(const Kernel *kernel, KernelLevel level);
unsigned kernel_dims_of_stride(const Kernel *kernel, const int64_t *stride);

// Of each instruction: the dims that its value varies on (an output's: and its port), and whether it needs a row
// reduction.
void kernel_analyse(const Kernel *kernel, unsigned *dims, bool *reduced);
// The dims that an output must run over by itself, given `reduced` of kernel_analyse; for a total, those of its
// operand's level. *fixed: it needs the kernel's division into outer and inner dims, and so all of them.
unsigned kernel_output_dims(const Kernel *kernel, int output, const bool *reduced, bool *fixed);

// All that a kernel computes from, as words: two kernels are the same only if these are.
typedef ARRAY(uint64_t) KernelContent;
void kernel_content(const Kernel *kernel, Arena *arena, KernelContent *content);
void kernel_print(const Kernel *kernel, Buffer *out);

// What is wrong with a kernel (operand order, classes, levels, ports), or NULL; the text is static.
const char *kernel_verify(const Kernel *kernel);

bool kernel_too_large(const Kernel *kernel);  // its space has more elements than there may be

#endif
