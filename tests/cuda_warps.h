// cuda_warps.h: runs texts of kernels/cuda/text on the host, one fiber for each thread of a block.
//
// The texts are C++: they are compiled by `c++` behind cuda_warps.hpp, which stands in for their intrinsics, and
// loaded. Blocks run one after the other, those of a cluster at once; shared memory and scratch are poisoned. What no
// order of the threads could finish, and writes past the shared memory asked for, abort.
#ifndef MDL_TESTS_CUDA_WARPS_H
#define MDL_TESTS_CUDA_WARPS_H

#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/cuda/kernel.h"
#include "tests/cuda_warps_hooks.h"
#include "tests/fiber.h"

enum { WARPS_THREADS = 1024, WARPS_CLUSTER = 2, WARPS_FIBERS = WARPS_THREADS * WARPS_CLUSTER };
enum { WARPS_STACK = 64 * 1024, WARPS_SHARED = 256 * 1024, WARPS_COPIES = 512 };

typedef struct {
  void *to;
  const void *from;
  int bytes, size, group;
} WarpsCopy;

typedef struct {
  FiberContext context;
  bool done;
  int copies, group;  // group: that copies belong to
  WarpsCopy copy[WARPS_COPIES];
} WarpsFiber;

typedef struct {  // two sets of values: a lane can be ahead of the others by one exchange
  WarpsValue values[2][32];
  int arrived, round;
} Warp;

typedef struct {  // threads that wait for each other: of a block, or of all blocks of a cluster
  int alive, arrived, round;
} WarpsGroup;

typedef struct {
  WarpsHooks hooks;
  FiberContext scheduler;
  WarpsFiber *fibers;
  Warp warp[WARPS_FIBERS / 32];
  char *stacks;
  int threads, now;  // of a block; fiber
  WarpsGroup block[WARPS_CLUSTER], cluster;
  WarpsTurn turn[WARPS_CLUSTER][WARPS_TURNS];
  unsigned char *shared;
  unsigned first;  // block of the cluster
  long progress;
  void (*call)(void (*function)(void), const void *slots, const void *maps);
  void (*function)(void);
  const void *slots, *maps;
} WarpsRun;

// Fibers find the run they belong to here: nothing is passed to them.
static WarpsRun warps_run;

// Makes a fiber the one that runs, as texts see it.
static inline void warps_enter(int now) {
  WarpsRun *run = &warps_run;
  const int rank = now / run->threads;
  run->now = now;
  run->hooks.thread.x = (unsigned)(now % run->threads);
  run->hooks.block.x = run->first + (unsigned)rank;
  run->hooks.rank = (unsigned)rank;
  run->hooks.shared = run->shared + (size_t)rank * WARPS_SHARED;
  run->hooks.turn = run->turn[rank];
}

static inline void warps_yield(void) {
  WarpsRun *run = &warps_run;
  const int now = run->now;
  fiber_switch(&run->fibers[now].context, &run->scheduler);
  warps_enter(now);
}

static inline void warps_moved(void) {
  warps_run.progress++;
}

static inline void warps_wait(WarpsGroup *group) {
  const int round = group->round;
  warps_run.progress++;
  group->arrived++;
  while (group->round == round) {
    warps_yield();
  }
}

// What nobody has waited for may still come: whatever else is put there by then is lost.
static inline void warps_copies_may_come(void) {
  const WarpsFiber *fiber = &warps_run.fibers[warps_run.now];
  for (int i = 0; i < fiber->copies; i++) {
    memset(fiber->copy[i].to, 0xff, (size_t)fiber->copy[i].size);
  }
}

static inline void warps_barrier(void) {
  warps_copies_may_come();
  warps_wait(&warps_run.block[warps_run.now / warps_run.threads]);
}

static inline void warps_cluster_barrier(void) {
  warps_wait(&warps_run.cluster);
}

// Those that have ended are not waited for.
static inline void warps_round(WarpsGroup *group) {
  if (group->arrived > 0 && group->arrived == group->alive) {
    group->arrived = 0;
    group->round++;
    warps_run.progress++;
  }
}

static inline const WarpsValue *warps_exchange(const WarpsValue *mine) {
  Warp *warp = &warps_run.warp[warps_run.now / 32];
  const int round = warp->round;
  warps_run.progress++;
  warp->values[round % 2][warps_run.now % 32] = *mine;
  if (++warp->arrived == 32) {
    warp->arrived = 0;
    warp->round++;
  }
  while (warp->round == round) {
    warps_yield();
  }
  return warp->values[round % 2];
}

static inline void warps_copy_later(void *to, const void *from, int bytes, int size) {
  WarpsFiber *fiber = &warps_run.fibers[warps_run.now];
  if (fiber->copies == WARPS_COPIES || (uintptr_t)to % (unsigned)size != 0 ||
      (bytes > 0 && (uintptr_t)from % (unsigned)size != 0)) {
    abort();
  }
  fiber->copy[fiber->copies++] = (WarpsCopy){to, from, bytes, size, fiber->group};
  memset(to, 0xff, (size_t)size);
}

static inline void warps_copies_close(void) {
  warps_run.fibers[warps_run.now].group++;
}

static inline void warps_copies_wait(int later) {
  WarpsFiber *fiber = &warps_run.fibers[warps_run.now];
  int left = 0;
  for (int i = 0; i < fiber->copies; i++) {
    const WarpsCopy copy = fiber->copy[i];
    if (copy.group >= fiber->group - later) {
      fiber->copy[left++] = copy;
      continue;
    }
    memset(copy.to, 0, (size_t)copy.size);
    if (copy.bytes > 0) {
      memcpy(copy.to, copy.from, (size_t)copy.bytes);
    }
  }
  fiber->copies = left;
}

static inline void warps_entry(void) {
  WarpsRun *run = &warps_run;
  run->call(run->function, run->slots, run->maps);
  run->fibers[run->now].done = true;
  run->block[run->now / run->threads].alive--;
  run->cluster.alive--;
  run->progress++;
  fiber_switch(&run->fibers[run->now].context, &run->scheduler);
}

// `blocks` of them from run->first on, at once.
static inline void warps_blocks(int blocks, uint32_t shared_bytes) {
  WarpsRun *run = &warps_run;
  run->cluster = (WarpsGroup){.alive = blocks * run->threads};
  memset(run->warp, 0, sizeof run->warp);
  memset(run->shared, 0xff, (size_t)blocks * WARPS_SHARED);
  memset(run->turn, 0, sizeof run->turn);
  for (int b = 0; b < blocks; b++) {
    run->block[b] = (WarpsGroup){.alive = run->threads};
  }
  for (int i = 0; i < blocks * run->threads; i++) {
    WarpsFiber *fiber = &run->fibers[i];
    fiber->done = false;
    fiber->copies = fiber->group = 0;
    fiber_make(&fiber->context, run->stacks + (size_t)i * WARPS_STACK, WARPS_STACK, warps_entry);
  }
  while (run->cluster.alive > 0) {
    const long before = run->progress;
    for (int i = 0; i < blocks * run->threads; i++) {
      if (!run->fibers[i].done) {
        warps_enter(i);
        fiber_switch(&run->scheduler, &run->fibers[i].context);
      }
    }
    for (int b = 0; b < blocks; b++) {
      warps_round(&run->block[b]);
    }
    warps_round(&run->cluster);
    if (run->progress == before) {
      fprintf(stderr, "threads wait for each other for ever\n");
      abort();
    }
  }
  for (int b = 0; b < blocks; b++) {
    for (size_t i = shared_bytes; i < WARPS_SHARED; i++) {
      if (run->shared[(size_t)b * WARPS_SHARED + i] != 0xff) {
        fprintf(stderr, "a write past the shared memory\n");
        abort();
      }
    }
  }
}

// What stands in for a CUtensorMap: the address, sizes, strides but for the first, and the box of two dims.
static inline void warps_map(const CudaMap *map, uint64_t address, uint64_t made[16]) {
  *made++ = address;
  for (int i = 0; i < CUDA_MAP_DIMS; i++) {
    *made++ = (uint64_t)map->size[i];
  }
  for (int i = 1; i < CUDA_MAP_DIMS; i++) {
    *made++ = (uint64_t)map->stride[i];
  }
  *made++ = (uint64_t)map->box[0];
  *made = (uint64_t)map->box[1];
}

// maps: of warps_map.
static inline void warps_launch(void *library, const CudaLaunch *launch, const void *slots, const void *maps) {
  WarpsRun *run = &warps_run;
  WarpsHooks **hooks = dlsym(library, "warps_hooks");
  void *function = dlsym(library, launch->function), *call = dlsym(library, "warps_call");
  const int threads = (int)launch->block[0], blocks = launch->cluster > 1 ? (int)launch->cluster : 1;
  if (!hooks || !function || !call || threads > WARPS_THREADS || blocks > WARPS_CLUSTER ||
      launch->grid[0] % (unsigned)blocks) {
    abort();
  }
  *hooks = &run->hooks;
  memcpy(&run->function, &function, sizeof function);
  memcpy(&run->call, &call, sizeof call);
  run->slots = slots;
  run->maps = maps;
  run->threads = threads;
  run->fibers = calloc((size_t)(blocks * threads), sizeof *run->fibers);
  run->stacks = malloc((size_t)(blocks * threads) * WARPS_STACK);
  run->shared = aligned_alloc(1024, (size_t)blocks * WARPS_SHARED);
  run->hooks = (WarpsHooks){.grid = {launch->grid[0], 1, 1},
                            .shared_apart = WARPS_SHARED,
                            .yield = warps_yield,
                            .moved = warps_moved,
                            .barrier = warps_barrier,
                            .cluster_barrier = warps_cluster_barrier,
                            .exchange = warps_exchange,
                            .copy_later = warps_copy_later,
                            .copies_close = warps_copies_close,
                            .copies_wait = warps_copies_wait};
  for (run->first = 0; run->first < launch->grid[0]; run->first += (unsigned)blocks) {
    warps_blocks(blocks, launch->shared_bytes);
  }
  free(run->shared);
  free(run->fibers);
  free(run->stacks);
}

// NULL if there is no C++ compiler, or it fails.
static inline void *warps_load(const CudaKernel *kernel) {
  char folder[] = "/tmp/mdl_warps_XXXXXX", path[64], command[512];
  const char *text = strstr(kernel->text, "struct Slots");  // after the intrinsics
  void *library = NULL;
  if (!mkdtemp(folder)) {
    return NULL;
  }
  snprintf(path, sizeof path, "%s/text.cpp", folder);
  FILE *file = fopen(path, "w");
  if (file) {
    fprintf(file,
            "#define WARPS_F16 %d\n#include \"tests/cuda_warps.hpp\"\n%s\nextern \"C\" void warps_call(void "
            "(*function)(), const void "
            "*slots, const void *maps) {\n  ((void (*)(Slots%s))function)(*(const Slots *)slots%s);\n}\n",
            strstr(text, "#define ELEMENT_F16 1") != NULL, text, kernel->map_count > 0 ? ", Maps" : "",
            kernel->map_count > 0 ? ", *(const Maps *)maps" : "");
    fclose(file);
    snprintf(command, sizeof command, "c++ -std=c++17 -O1 -w -Wno-psabi -fPIC -shared -I%s -o %s/text.so %s",
             MDL_SOURCE_DIR, folder, path);
    const bool made = system(command) == 0;
    unlink(path);
    snprintf(path, sizeof path, "%s/text.so", folder);
    library = made ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    unlink(path);
  }
  rmdir(folder);
  return library;
}

// Sanitizers lose track of stacks that are changed under them.
static inline bool warps_present(void) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return false;
#endif
  return system("c++ --version > /dev/null 2>&1") == 0;
}

#endif
