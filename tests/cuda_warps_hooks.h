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

enum { WARPS_TURNS = 16 };

typedef struct {
  WarpsIndex thread, block, grid;
  unsigned rank;          // of the block in its cluster
  unsigned char *shared;  // of the block; that of the next one of the cluster is `shared_apart` bytes on
  unsigned shared_apart;
  WarpsTurn *turn;      // barriers of the block, by number
  void (*yield)(void);  // to the other threads, while this one waits
  void (*moved)(void);  // something has happened that others may wait for
  void (*barrier)(void);
  void (*cluster_barrier)(void);
  const WarpsValue *(*exchange)(const WarpsValue *mine);  // by all lanes of a warp; 32 values, good until the next
  void (*copy_later)(void *to, const void *from, int bytes, int size);  // `bytes` of `size`, the others 0
  void (*copies_close)(void);                                           // what was copied since the last one is a group
  void (*copies_wait)(int later);                                       // for all groups but the last ones
} WarpsHooks;

#endif
