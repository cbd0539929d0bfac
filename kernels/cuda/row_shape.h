// row_shape.h: how the threads of a launch are divided among rows.
#ifndef MDL_KERNELS_CUDA_ROW_SHAPE_H
#define MDL_KERNELS_CUDA_ROW_SHAPE_H

#include "kernels/cuda/generate_internal.h"

typedef struct {
  bool held;                  // the row is in registers
  int threads, rows, chunks;  // for each row; rows of a block; chunks of a thread, or in flight
  int group;                  // rows that a block has one after the other: more than `rows` where ports are turned
  int64_t tile;               // bytes of the tiles of those
  bool columns, totals;       // the kernel reduces them
  bool persistent;            // a block goes through many rows
  bool many;                  // and has so many threads that the rows under way fill the multiprocessor
  bool once;                  // and keeps in registers what is the same for all of them
  int blocks;                 // of a multiprocessor
  int64_t fold;               // bytes of the sums of columns of one row
  int64_t vectors, grid, shared;
  bool cached[KERNEL_MAX_PORTS];  // in shared memory, of ports of the program
  int64_t cache[KERNEL_MAX_PORTS], cache_vectors[KERNEL_MAX_PORTS];
  int stages;                        // rows that are copied into shared memory ahead of their turn
  int64_t stage_bytes;               // of one such row, for the whole block
  int64_t staged[KERNEL_MAX_PORTS];  // where in a stage, or -1
} RowShape;

RowShape row_shape(Generator *g, CudaProgram *program);

bool is_wanted(const Generator *g, const CudaProgram *program, int code, bool (*is)(KernelOp));
// Totals are taken at the level that the kernel says: of each element, or once for each row.
bool is_element_total(const Generator *g, const CudaProgram *program, int code);
bool is_element_store(const Generator *g, const CudaProgram *program, int code);

#endif
