// cuda_warps_hooks.h: what a text compiled for the host sees of the threads around it.
#ifndef MDL_TESTS_CUDA_WARPS_HOOKS_H
#define MDL_TESTS_CUDA_WARPS_HOOKS_H

typedef struct {
  unsigned x, y, z;
} WarpsIndex;

typedef struct {
  unsigned char bytes[24];
} WarpsValue;

typedef struct {
  int arrived, round;
} WarpsTurn;

typedef struct {
  WarpsIndex thread, block, grid;
  unsigned char *shared;
  WarpsTurn turn[16];   // barriers of the block, by number
  void (*yield)(void);  // to the other threads, while this one waits
  void (*moved)(void);  // something has happened that others may wait for
  void (*barrier)(void);
  const WarpsValue *(*exchange)(const WarpsValue *mine);  // by all lanes of a warp; 32 values, good until the next
  void (*copy_later)(void *to, const void *from, int bytes, int size);  // `bytes` of `size`, the others 0
  void (*copies_wait)(void);
} WarpsHooks;

#endif
