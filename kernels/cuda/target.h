// target.h: kinds of GPUs that kernels are compiled for ahead of time, and which chips run the code of which.
#ifndef MDL_KERNELS_CUDA_TARGET_H
#define MDL_KERNELS_CUDA_TARGET_H

#include <stdbool.h>

// Choices that are forced, to compare their speed; 0: what the rules choose.
typedef struct {
  int threads;      // rows: of each row
  int rows;         // rows: of a block
  int group;        // rows: that are turned together
  int stages;       // rows: how many are fetched ahead; -1: none
  int once;         // rows: 1 keeps what all rows share in registers, -1 does not
  int blocks;       // of a multiprocessor, for rows and columns
  int unroll;       // vectors in flight of a thread, where all elements do not lie in registers
  int width;        // columns: threads across
  int columns;      // products of chosen matrices: of a tile
  int cluster;      // products of chosen matrices: blocks that share an operand; `stages` is theirs, too
  bool persistent;  // rows: a block goes through many
  bool again;       // rows: not in registers
} CudaForm;

typedef struct {  // of the GPU
  int multiprocessors;
  int shared_bytes;      // that one block can have
  bool warpgroups;       // products of warpgroups, and copies of boxes: sm_90a
  const CudaForm *form;  // NULL: the rules choose
} CudaTarget;

#define CUDA_TARGET_NAMES "sm_80, sm_86, sm_89, sm_90a, sm_100a or compute_80"

// The figures of a target: those of its largest usual GPU, and of PTX such that every chip has as much. False: it is
// not one of CUDA_TARGET_NAMES.
bool cuda_target_find(const char *name, CudaTarget *target);

bool cuda_target_is_text(const char *name);  // PTX, which the driver compiles

// How well code for a target serves a chip of this compute capability: 0 not at all, else the more the better: PTX, a
// cubin of an older chip of its generation, its own cubin.
int cuda_target_serves(const char *name, int major, int minor);

#endif
