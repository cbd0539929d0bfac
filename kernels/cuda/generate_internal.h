// generate_internal.h: what the files of the generator know of a kernel.
//
// A program is what one launch computes: some outputs of the kernel and the dims they vary on, divided into an outer
// and an inner side. A value of a program is an element value if it varies on the inner side, a row value if on the
// outer side alone, else a scalar. Phases count row reductions: a value of phase n needs the results of n rounds of
// them.
//
// Names in the text: s the slots, aP the address of port P, bP the address of its part of the row, xP what was loaded
// of it, yP what is stored to it, vN the value of instruction N, rD and cD the coordinates on the sides.
#ifndef MDL_KERNELS_CUDA_GENERATE_INTERNAL_H
#define MDL_KERNELS_CUDA_GENERATE_INTERNAL_H

#include "base/integer.h"
#include "kernels/cuda/generate.h"
#include "kernels/cuda/text.h"

enum { GENERATE_MAX_PROGRAMS = 6, GENERATE_BLOCK = 256, GENERATE_MAX_VECTOR = 16, GENERATE_OFFSET = 512 };

typedef struct {
  int count;
  int64_t size[KERNEL_MAX_DIMS], total;
} CudaSide;

typedef enum {
  ACCESS_VECTOR,    // the elements of a vector lie side by side: xP[u][words]
  ACCESS_ELEMENTS,  // they do not: xP[u][elements], each read by itself
  ACCESS_ONCE,      // one for all elements of a vector: xP[u]
  ACCESS_TURNED,    // they lie in another order, and pass through a tile in shared memory: xP[u][words]
} CudaAccess;

// How a port that is turned passes through shared memory (turned.c). There the elements lie in the order of the loop,
// in rows; in memory they lie along a dim that goes from row to row.
typedef struct {
  int64_t at, pitch;  // of the tile and from row to row, in bytes
  int group;          // rows: 16 bytes of memory
  int columns;        // that four bytes of a row have: they are turned together
  int lanes;          // groups that threads side by side take, up to a line of memory
  int gap;            // bytes after a group, so that those lanes have banks of their own
  int grain;          // bytes of an access to memory
} CudaTurn;

typedef struct {
  int index;  // into the kernel's ports
  PortKind kind;
  ElementType type;
  bool accumulate, shadowed;
  int64_t bytes;                                          // of one element
  int64_t row[KERNEL_MAX_DIMS], column[KERNEL_MAX_DIMS];  // strides on the sides
  CudaAccess access;
  int grain;      // ACCESS_VECTOR: bytes of one access
  CudaTurn turn;  // ACCESS_TURNED
} CudaPort;

typedef struct {
  int number;
  unsigned dims;  // bits of the kernel's dims
  bool fixed;     // outer and inner are the kernel's, for its reductions
  bool wanted[KERNEL_MAX_CODE], needed[KERNEL_MAX_CODE];
  KernelLevel level[KERNEL_MAX_CODE];
  int phase[KERNEL_MAX_CODE];
  int phases;  // rounds of row reductions
  CudaSide outer, inner;
  int port_count, port_of[KERNEL_MAX_PORTS];
  CudaPort port[KERNEL_MAX_PORTS];
  int vector;    // elements of one access, a power of two
  int64_t tail;  // elements of the inner side that the vectors leave
  // Rows begin anywhere: vectors lie at multiples of their size in memory, those at the ends of a row hold part of it,
  // and row coordinate d moves the first one by shift[d] elements.
  bool ragged;
  int64_t shift[KERNEL_MAX_DIMS];
  int64_t vectors;  // of a row, or of all
  int64_t part;     // rows of one of Kernel.parts, or elements where there are no rows; 0: all are computed
} CudaProgram;

typedef struct {  // partial results of a reduction, added up at the end
  const CudaProgram *program;
  int code;
  int64_t parts, columns, offset;  // real values [parts][columns] at this offset of the scratch
  bool ends_itself;                // the last block of its own launch adds it up
} CudaPartial;

typedef struct {
  Arena *arena;
  const Kernel *kernel;
  const int *alignment;
  const CudaTarget *target;
  CudaText text;
  CudaKernel *made;
  int real_bytes;
  bool wide;  // 64-bit indices
  bool low;   // results are rounded to 16 bits, whatever the ports
  int program_count, partial_count;
  CudaProgram *program;
  CudaPartial partial[2 * KERNEL_MAX_PORTS];
  int64_t shadow[KERNEL_MAX_PORTS];  // offset in the scratch of a copy of the port; -1: none
  unsigned mask[KERNEL_MAX_CODE];    // dims that each value varies on
  bool reduced[KERNEL_MAX_CODE];     // needs a row reduction
  int key_slot[KERNEL_MAX_CODE];     // that the key of random numbers comes in; 0: it is in the text
} Generator;

static inline bool op_is_sum(KernelOp op) {
  return op == KERNEL_ROW_SUM || op == KERNEL_COLUMN_SUM || op == KERNEL_TOTAL_SUM;
}

static inline bool is_element(const CudaProgram *program, int code) {
  return (program->level[code] & LEVEL_COLUMN) != 0;
}

static inline bool port_varies(const CudaProgram *program, const CudaPort *port) {  // from row to row
  for (int d = 0; d < program->outer.count; d++) {
    if (port->row[d] != 0) {
      return true;
    }
  }
  return false;
}

// The kernel, or one with its sides exchanged that computes the same in a better order (generate_turn.c).
const Kernel *kernel_turned(Arena *arena, const Kernel *kernel);

// --- generate_space.c ---

// Fills in sides, ports and levels of a program whose dims and wanted outputs are set.
void cuda_program_build(Generator *g, CudaProgram *program);
// Chooses the vector of a program and how each port is accessed with it.
void cuda_program_vector(Generator *g, CudaProgram *program, int64_t most);
void cuda_program_ragged(Generator *g, CudaProgram *program);        // where only single elements are aligned
bool port_is_big(const CudaProgram *program, const CudaPort *port);  // as nearly all elements have one each
void cuda_program_access(Generator *g, CudaProgram *program, int vector);
// Marks the element values that the sink (an output or reduction) needs; rows: row values too.
void closure_add(const Generator *g, const CudaProgram *program, int sink, bool rows, bool *closure);

// --- expression.c ---

const char *random_key_text(const Generator *g, int at);  // the key of a UNIFORM or NORMAL, as CUDA C
void expression_prelude(Generator *g);
// `const R v12 = ...;`: all but loads and runs of random numbers. index: the text of the position in the port, for
// those that have one.
void expression_emit(Generator *g, int code, const char *index);
const char *value_type(bool integer);
const char *fold_function(KernelOp op);  // the name of a function of two reals
const char *fold_identity(KernelOp op);  // what it begins with

// --- access.c ---

// A row ahead: ports may be copied to shared memory in the background, each thread what it will need itself, and taken
// from there when the row's turn comes.
typedef enum { STAGE_NONE, STAGE_COPY, STAGE_TAKE } CudaStage;

// Which of the ports a loop loads: those that differ from row to row, or those that do not.
typedef enum { LOADS_ALL, LOADS_OF_ROWS, LOADS_OF_COLUMNS } CudaLoads;

// How the chunks of a loop are loaded, worked on and stored. A chunk is a vector of the row, or, by_row, a row.
typedef struct {
  Generator *g;
  const CudaProgram *program;
  int indent;
  int unroll;                          // chunks in flight
  bool by_row;                         // ports that do not vary over rows are loaded once, before (loads_once)
  const char *where;                   // what says which chunk it is: `const Index k = ...;` or `row`
  bool located;                        // where has the coordinates too
  const char *tile_row, *tile_column;  // of a chunk, for ports that are turned
  const char *guard;                   // condition of a chunk, or NULL
  // Of ports of the program: offset of a copy of the row in shared memory, or -1; and whether it is there already.
  int64_t cache[KERNEL_MAX_PORTS];
  int64_t cache_vectors[KERNEL_MAX_PORTS];  // how many of the row are there, from the first
  bool cached[KERNEL_MAX_PORTS];
  CudaLoads loads;
  CudaStage stage;
  const char *stage_at;              // where the stage begins in shared memory
  int threads;                       // of the block, for stages
  int64_t staged[KERNEL_MAX_PORTS];  // offset in a stage, or -1
  bool values[KERNEL_MAX_CODE];      // that the loop makes
  bool stores[KERNEL_MAX_CODE];      // outputs that it writes
} Emit;

void emit_line(Generator *g, int indent, const char *format, ...) __attribute__((format(printf, 3, 4)));
Emit emit_create(Generator *g, const CudaProgram *program, int indent, int unroll);
// Opens a function: pointers, what is the same everywhere. blocks: that a multiprocessor must have room for, or 0.
void kernel_open(Generator *g, const CudaProgram *program, const char *name, int threads, int blocks);
void row_coordinates(Generator *g, const CudaProgram *program, int indent);
void row_bases(Generator *g, const CudaProgram *program, int indent);
void column_bases(Generator *g, const CudaProgram *program, int indent);  // of what does not differ from row to row
// staged: where values of the row were copied to, as Emit has it; NULL: they are in memory.
void row_values(Generator *g, const CudaProgram *program, int phase, const Emit *staged, int indent);
void row_values_ahead(const Emit *e);  // starts the copies of those
// The condition that the part of row or vector `at`, of so many, is computed.
const char *part_text(const Generator *g, const char *at, int64_t part);
void column_coordinates(Generator *g, const CudaProgram *program, int vector, int indent);  // from k
void loads_declare(const Emit *e, bool once);
void loads_once(const Emit *e);
void loads_emit(const Emit *e);
bool loads_chunk(const Emit *e, int indent);  // of an open chunk; whether there are any. indent 0: emits nothing
void chunk_open(const Emit *e);
void chunk_close(const Emit *e);
// Between them: the loop over the elements of a vector, with the values. In a ragged row there are two: for vectors
// that are whole, without a branch at each element, and for those at the ends. False: that was all.
bool lanes_open(const Emit *e, int time);
void lanes_close(const Emit *e, int time);
void whole_open(const Emit *e, int indent);  // in a ragged row: the branch of vectors that are whole
const char *inside_text(const Emit *e);      // the condition of an element of one that may not be

const CudaPort *port_of_code(const Emit *e, int code);
bool port_is_packed(const CudaPort *port);  // its chunks are words
const char *port_value_type(const CudaPort *port);
// The sum of coordinate times stride over the dims of a side, in elements, in text of GENERATE_OFFSET bytes.
void offset_text(const CudaSide *side, const int64_t *stride, char letter, char *text);
int words_of(const CudaProgram *program, const CudaPort *port);  // of a vector

// --- stores.c ---

void stores_emit(const Emit *e);
void row_store(Generator *g, const CudaProgram *program, int code, int indent);
// Stores a reduced column, at coordinates of the inner side, or a total.
void result_store(Generator *g, const CudaProgram *program, int code, const char *value, int indent);

// --- turned.c ---

// What moves between memory and a tile, all threads of the block together.
typedef struct {
  int rows, threads;
  int64_t columns;           // elements of a row
  const char *where;         // coordinates of row tr and column tc; NULL: they count from row group0 and column 0
  const char *rows_left;     // how many rows there are from tr on
  const char *columns_left;  // how many columns there are from tc on; NULL: all
} CudaTile;

// Makes a port pass through the next bytes of shared memory. It lies along dim `across` of the inner side, or of the
// outer one if `of_rows`.
void turned_set(const Generator *g, const CudaProgram *program, CudaPort *port, bool of_rows, int across,
                const CudaTile *tile, int64_t *shared);
void turned_load(const Emit *e, const CudaPort *port, const char *chunk, int indent);
void turned_store(const Emit *e, const CudaPort *port, int indent);
void turned_move(Generator *g, const CudaProgram *program, const CudaPort *port, const CudaTile *tile, bool out,
                 int indent);

// --- templates ---

void form_add(Generator *g, const char *form);
int64_t scratch_take(Generator *g, int64_t bytes);
void launch_add(Generator *g, const char *function, int64_t grid_x, int64_t grid_y, int threads, int64_t shared);

void template_flat(Generator *g, CudaProgram *program);
bool template_tile(Generator *g, CudaProgram *program);  // false, and nothing done, if no port is turned
void template_row(Generator *g, CudaProgram *program);
void template_column(Generator *g, CudaProgram *program);
void template_finish(Generator *g);  // nothing where all partials end themselves

// --- partials.c ---

// Real values [parts][columns] of a reduction, folded into its port at the end.
void partial_add(Generator *g, const CudaProgram *program, int code, int64_t parts, int64_t columns);
const char *partial_pointer(Generator *g, int code);
// Totals of a program: declared before its loops, folded in them, folded over the block at the end. Each is a partial
// with one part for each block.
void totals_open(Generator *g, const CudaProgram *program, int64_t blocks);
void total_fold(Generator *g, int code, int indent);
void totals_close(Generator *g, const CudaProgram *program, int threads);

#endif
