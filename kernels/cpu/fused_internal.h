// fused_internal.h: what fused_build.c decides and fused_run.c carries out.
#ifndef MDL_KERNELS_CPU_FUSED_INTERNAL_H
#define MDL_KERNELS_CPU_FUSED_INTERNAL_H

#include "base/integer.h"
#include "kernels/cpu/fused.h"

enum { FUSED_MAX_NODES = 2 * KERNEL_MAX_CODE };

typedef enum {
  HOME_NONE,    // outputs
  HOME_TILE,    // a buffer of the tile: rows of the group by columns of the chunk
  HOME_WHOLE,   // a buffer of the group's rows by all columns of the task, for values that outlive a phase
  HOME_ROW,     // one value for each row of the group
  HOME_COLUMN,  // one value for each column of the task, computed once
  HOME_SCALAR,
  HOME_PORT,  // no buffer: the memory of the port itself
} Home;

// A dim list of one side of the space, after neighbours that all ports walk alike were merged.
typedef struct {
  int count;
  int64_t size[KERNEL_MAX_DIMS], total;
} Side;

typedef struct {
  int index;  // into the kernel's ports
  ElementType type;
  bool accumulate;
  int64_t bytes;  // of one element
  int64_t row[KERNEL_MAX_DIMS], column[KERNEL_MAX_DIMS];
  bool columns_dense;  // column c lies c elements after column 0
  bool rows_even;      // row r lies r * row_step elements after row 0
  bool rows_repeat;    // stride 0 on an outer dim: an output writes only coordinate 0 of it
  bool columns_repeat;
  int64_t row_step;
} Port;

typedef struct {
  KernelOp op;
  KernelLevel level;
  bool integer;
  int operand_count, operand[3];
  int source;  // instruction of the kernel, or -1 for a broadcast that was put in
  int port;    // into Program.port, or -1
  double number;
  int64_t constant;
  int phase;       // in which it runs; a row reduction can be used from the next phase on
  int last_phase;  // of its uses
  Home home;
  int slot;         // HOME_TILE and HOME_WHOLE: which buffer
  int home_port;    // HOME_PORT
  int64_t offset;   // into the scratch of a worker
  int bytes;        // of one element
  int reduction;    // row reductions, column reductions, totals: number among their kind; else -1
  unsigned single;  // operands that are one value for each row of this node's loop
  VectorFn fn;      // elementwise nodes
} Node;

typedef struct {
  int row_count, tile_count, value_count;
  int16_t *row;    // nodes that run once for a group of rows, before the tiles
  int16_t *tile;   // nodes that run for each tile
  int16_t *value;  // FULL values whose address changes from tile to tile
} Phase;

typedef struct {
  const Simd *simd;
  const SimdReal *real;
  int real_bytes;
  Side outer, inner;
  int node_count, port_count, phase_count;
  Node *node;
  Port *port;
  Phase *phase;
  int scalar_count, column_count;
  int16_t *scalar, *column;  // nodes that run once for a task
  int row_reductions, column_reductions, totals;
  int16_t *column_node, *total_node;
  int64_t group_rows, chunk;          // of a tile
  int64_t block_rows, block_columns;  // of a task
  int64_t row_blocks, column_blocks;
  int64_t parts;  // Kernel.parts, in order, of the rows, or of the columns where there is one row; 0: all are computed
  int chosen;     // the port that says which
  int64_t accumulator_offset;  // of the row reductions in scratch
  int64_t scratch_bytes, shared_bytes;
} Program;

// An input that is overwritten in another order than it is read: it is copied before anything runs.
typedef struct {
  int port;
  int64_t first, bytes;  // from its place on; before it where strides are negative
  int64_t offset;        // into the shared memory
} Shadow;

struct Fused {
  int program_count, port_count, shadow_count;
  Program *program;
  Shadow *shadow;
  int64_t scratch_bytes, shared_bytes;
};

// What one program computes: the outputs of the kernel it makes and the dims it runs over.
typedef struct {
  const Kernel *kernel;
  const Place *places;
  int slots;
  const bool *shadowed;          // [port]
  unsigned dims;                 // bits: dims of the kernel that are in the space
  bool wanted[KERNEL_MAX_CODE];  // outputs that it makes
  bool fixed;                    // outer and inner as the kernel says, for its reductions
} Request;

typedef struct {  // bytes [low, high)
  int64_t low, high;
} PortRange;

// Of a port, counted from its place: strides may be negative.
static inline PortRange port_range(const Kernel *kernel, int port) {
  PortRange range = {0, 1};
  for (int i = 0; i < kernel->dim_count; i++) {
    const int64_t reach = (kernel->size[i] - 1) * kernel->port[port].stride[i];
    *(reach < 0 ? &range.low : &range.high) += reach;
  }
  const int64_t bytes = element_type_bytes(kernel->port[port].type);
  return (PortRange){range.low * bytes, range.high * bytes};
}

// What steps of a stride add to it.
static inline void range_reach(PortRange *range, int64_t steps, int64_t stride) {
  *(stride < 0 ? &range->low : &range->high) += steps * stride;
}

// Whether two ports can share memory in some call.
static inline bool ports_overlap(const Kernel *kernel, const Place *places, int slots, int a, int b) {
  const Place *p = &places[a], *q = &places[b];
  PortRange of_p = port_range(kernel, a), of_q = port_range(kernel, b);
  if (p->slot_stride != q->slot_stride) {
    range_reach(&of_p, slots - 1, p->slot_stride);
    range_reach(&of_q, slots - 1, q->slot_stride);
  }
  if (p->lane_stride != q->lane_stride) {  // there are no more lanes than slots
    range_reach(&of_p, slots - 1, p->lane_stride);
    range_reach(&of_q, slots - 1, q->lane_stride);
  }
  return p->arena == q->arena && p->offset + of_p.low < q->offset + of_q.high &&
         q->offset + of_q.low < p->offset + of_p.high;
}

void program_build(Arena *arena, const Simd *simd, const Request *request, Program *program);  // fused_space.c
void program_schedule(Arena *arena, const Request *request, Program *program);                 // fused_schedule.c
void program_run(const Program *program, Pool *pool, void *const *ports, bool first, char *const *scratch,
                 char *shared);  // fused_run.c

// fused_memory.c: values between memory and tiles.
typedef struct {
  const Program *program;
  void *const *ports;
  bool first;
} Binding;

// Element offset of linear coordinate `at` in a side of the space.
int64_t side_offset(const Side *side, const int64_t *stride, int64_t at);
// A source node (LOAD, IOTA, UNIFORM, NORMAL) for `rows` x `columns` elements from (row, column), into `out`.
void source_fill(const Binding *binding, const Node *node, uint32_t step, void *out, int64_t out_stride, int64_t row,
                 int64_t rows, int64_t column, int64_t columns);
// The contrary for an output port; a line of `x` is dense, lines are x_stride elements apart.
void port_store(const Binding *binding, const Port *port, KernelLevel level, bool integer, const void *x,
                int64_t x_stride, int64_t row, int64_t rows, int64_t column, int64_t columns);

#endif
