// cuda_emulator.h: runs the CUDA texts of kernels/cuda on the host, one fiber for each thread of a block.
//
// Texts are gathered, compiled together by the C compiler `cc` behind a header that stands in for CUDA, and loaded.
// Blocks run one after the other. A fiber runs until it waits at a barrier or a shuffle; what no order of the threads
// could finish (a barrier that some threads have left, a shuffle without its partner) is an error. Shared memory is
// poisoned before each block.
#ifndef MDL_TESTS_CUDA_EMULATOR_H
#define MDL_TESTS_CUDA_EMULATOR_H

#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buffer.h"
#include "kernels/cuda/kernel.h"
#include "tests/fiber.h"

enum { EMULATOR_STACK = 64 * 1024, EMULATOR_MAX_THREADS = 1024, EMULATOR_COPIES = 1024 };

typedef struct {
  unsigned x, y, z;
} EmulatorIndex;

typedef struct {  // what the texts see; declared again in emulator_header
  EmulatorIndex thread, block, grid;
  unsigned char *shared;
  void (*barrier)(void);
  void (*group_barrier)(int threads);
  void (*copy)(void *to, const void *from, int bytes, int size);
  void (*copies_close)(void);
  void (*copies_wait)(int later);
  double (*shuffle)(double value, int with);
} EmulatorHooks;

typedef enum { FIBER_RUNS, FIBER_AT_BARRIER, FIBER_AT_GROUP, FIBER_AT_SHUFFLE, FIBER_DONE } FiberState;

typedef struct {  // that has not arrived yet
  void *to;
  const void *from;
  int bytes, size, group;
} EmulatorCopy;

typedef struct {
  FiberContext context;
  FiberState state;
  double value, result;
  int with;
  int group, copies;
  EmulatorCopy copy[EMULATOR_COPIES];
} Fiber;

typedef struct {
  char folder[64];
  int units;
  void *library;
  Buffer command;
} Emulator;

typedef struct {
  EmulatorHooks hooks;
  FiberContext scheduler;
  Fiber *fiber;
  char *stacks;
  int running;
  void (*function)(const void *slots);
  const void *slots;
} EmulatorRun;

// Fibers find the run they belong to here: nothing is passed to them.
static EmulatorRun emulator_run;

static const char emulator_header[] =
    "#define EMULATED 1\n"
    "#include <math.h>\n"
    "#include <string.h>\n"
    "#include \"kernels/cpu/convert.h\"\n"
    "typedef struct { unsigned x, y, z; } EmulatorIndex;\n"
    "typedef struct {\n"
    "  EmulatorIndex thread, block, grid;\n"
    "  unsigned char *shared;\n"
    "  void (*barrier)(void);\n"
    "  void (*group_barrier)(int threads);\n"
    "  void (*copy)(void *to, const void *from, int bytes, int size);\n"
    "  void (*copies_close)(void);\n"
    "  void (*copies_wait)(int later);\n"
    "  double (*shuffle)(double value, int with);\n"
    "} EmulatorHooks;\n"
    "extern EmulatorHooks *emulator;\n"
    "#define threadIdx emulator->thread\n"
    "#define blockIdx emulator->block\n"
    "#define gridDim emulator->grid\n"
    "#define __shared__ static\n"
    "#define __syncthreads() emulator->barrier()\n"
    "#define SHARED_MEMORY unsigned char *const dynamic_shared = emulator->shared\n"
    "#define DEVICE static inline\n"
    "#define KERNEL_BLOCKS(name, threads, blocks) KERNEL(name, threads)\n"
    "#define JOIN_(a, b) a##_##b\n"
    "#define JOIN(a, b) JOIN_(a, b)\n"
    "#define KERNEL(name, threads)                    \\\n"
    "  static void name##_body(const Slots);          \\\n"
    "  void JOIN(name, UNIT)(const void *slots) {     \\\n"
    "    Slots s;                                     \\\n"
    "    memcpy(&s, slots, sizeof s);                 \\\n"
    "    name##_body(s);                              \\\n"
    "  }                                              \\\n"
    "  static void name##_body\n"
    "typedef struct { unsigned x, y, z, w; } __attribute__((aligned(16))) uint4;\n"
    "typedef struct { unsigned x, y; } __attribute__((aligned(8))) uint2;\n"
    "DEVICE uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return (uint4){x, y, z, w}; }\n"
    "DEVICE uint2 make_uint2(unsigned x, unsigned y) { return (uint2){x, y}; }\n"
    "DEVICE float bits_float(unsigned x) { return f32_of_bits(x); }\n"
    "DEVICE unsigned float_bits(float x) { return f32_bits(x); }\n"
    "DEVICE double bits_double(unsigned long long x) { return f64_of_bits(x); }\n"
    "DEVICE unsigned long long double_bits(double x) { return f64_bits(x); }\n"
    "DEVICE unsigned multiply_high(unsigned a, unsigned b) { return (unsigned)((unsigned long long)a * b >> 32); }\n"
    "DEVICE unsigned bytes_of(unsigned low, unsigned high, unsigned which) {\n"
    "  const unsigned long long both = (unsigned long long)high << 32 | low;\n"
    "  unsigned y = 0;\n"
    "  for (int i = 0; i < 4; i++) y |= (unsigned)(both >> (which >> 4 * i & 7) * 8 & 0xff) << 8 * i;\n"
    "  return y;\n"
    "}\n"
    "DEVICE unsigned pack_bf16(float low, float high) {\n"
    "  return (unsigned)bf16_of_f32(low) | (unsigned)bf16_of_f32(high) << 16;\n"
    "}\n"
    "DEVICE unsigned pack_f16(float low, float high) {\n"
    "  return (unsigned)f16_of_f32(low) | (unsigned)f16_of_f32(high) << 16;\n"
    "}\n"
    "DEVICE unsigned short float_bf16(float x) { return bf16_of_f32(x); }\n"
    "DEVICE unsigned short float_f16(float x) { return f16_of_f32(x); }\n"
    "#define PACK(of, a, b, c, d) ((unsigned)of(a) | (unsigned)of(b) << 8 | (unsigned)of(c) << 16 | (unsigned)of(d) << "
    "24)\n"
    "DEVICE unsigned pack_e4m3(float a, float b, float c, float d) { return PACK(e4m3_of_f32, a, b, c, d); }\n"
    "DEVICE unsigned pack_e5m2(float a, float b, float c, float d) { return PACK(e5m2_of_f32, a, b, c, d); }\n"
    "DEVICE float e4m3_float(unsigned char x) { return f32_of_e4m3(x); }\n"
    "DEVICE float e5m2_float(unsigned char x) { return f32_of_e5m2(x); }\n"
    "DEVICE float bf16_float(unsigned short x) { return f32_of_bf16(x); }\n"
    "DEVICE float f16_float(unsigned short x) { return f32_of_f16(x); }\n"
    "DEVICE float reciprocal_fast(float x) { return 1.0f / x; }\n"
    "DEVICE float exp2_fast(float x) { return exp2f(x); }\n"
    "DEVICE float larger_f32(float a, float b) { return a > b || a != a ? a : b; }\n"
    "DEVICE float smaller_f32(float a, float b) { return a < b || a != a ? a : b; }\n"
    "#define copy_ahead16(shared, from) emulator->copy(shared, from, 16, 16)\n"
    "#define copy_ahead4(shared, from) emulator->copy(shared, from, 4, 4)\n"
    "#define copy_ahead_part(shared, from, bytes) emulator->copy(shared, from, bytes, 16)\n"
    "#define copies_close() emulator->copies_close()\n"
    "#define COPIES_WAIT(later) emulator->copies_wait(later)\n"
    "#define group_barrier(group, threads) emulator->group_barrier(threads)\n"
    "#define COUNTER(name) static unsigned name\n"
    "DEVICE int counted_last(unsigned *counter, unsigned blocks) {\n"
    "  *counter = *counter == blocks - 1u ? 0u : *counter + 1u;\n"
    "  return *counter == 0u;\n"
    "}\n"
    "DEVICE float shuffle_f32(float x, int with) { return (float)emulator->shuffle(x, with); }\n"
    "DEVICE double shuffle_f64(double x, int with) { return emulator->shuffle(x, with); }\n"
    "DEVICE float rsqrtf(float x) { return 1.0f / sqrtf(x); }\n"
    "#define sinpi(x) sin(3.14159265358979323846 * (x))\n"
    "#define cospi(x) cos(3.14159265358979323846 * (x))\n";

static inline bool emulator_write(const Emulator *emulator, const char *name, const char *begin, const char *text) {
  char path[128];
  snprintf(path, sizeof path, "%s/%s", emulator->folder, name);
  FILE *file = fopen(path, "w");
  if (!file) {
    return false;
  }
  fputs(begin, file);
  fputs(text, file);
  return fclose(file) == 0;
}

static inline bool emulator_create(Emulator *emulator) {
  *emulator = (Emulator){.folder = "/tmp/mdl_emulator_XXXXXX"};
  if (!mkdtemp(emulator->folder) || !emulator_write(emulator, "cuda.h", emulator_header, "") ||
      !emulator_write(emulator, "main.c", "#include \"cuda.h\"\nEmulatorHooks *emulator;\n", "")) {
    return false;
  }
  buffer_format(&emulator->command,
                "cc -std=gnu17 -O1 -w -fPIC -shared -fno-strict-aliasing -ffp-contract=off -I%s -o %s/all.so %s/main.c",
                MDL_SOURCE_DIR, emulator->folder, emulator->folder);
  return true;
}

// The number of the unit, for emulator_launch.
static inline int emulator_add(Emulator *emulator, const char *text) {
  char name[32], begin[64];
  const int unit = emulator->units++;
  snprintf(name, sizeof name, "unit%d.c", unit);
  snprintf(begin, sizeof begin, "#define UNIT %d\n#include \"cuda.h\"\n", unit);
  if (!emulator_write(emulator, name, begin, text)) {
    return -1;
  }
  buffer_format(&emulator->command, " %s/%s", emulator->folder, name);
  return unit;
}

static inline bool emulator_compile(Emulator *emulator) {
  char path[128];
  buffer_text(&emulator->command, " -lm");
  const int status = system(emulator->command.text);
  snprintf(path, sizeof path, "%s/all.so", emulator->folder);
  emulator->library = status == 0 ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
  return emulator->library != NULL;
}

static inline void emulator_destroy(Emulator *emulator) {
  char command[128];
  if (emulator->library) {
    dlclose(emulator->library);
  }
  snprintf(command, sizeof command, "rm -rf '%s'", emulator->folder);
  if (system(command) != 0) {
    fprintf(stderr, "cannot remove %s\n", emulator->folder);
  }
  buffer_free(&emulator->command);
  free(emulator_run.fiber);
  free(emulator_run.stacks);
  emulator_run = (EmulatorRun){0};
}

static inline void fiber_wait(FiberState state) {
  Fiber *fiber = &emulator_run.fiber[emulator_run.running];
  fiber->state = state;
  fiber_switch(&fiber->context, &emulator_run.scheduler);
}

// What nobody has waited for may still come: whatever else is put there by then is lost.
static inline void copies_may_come(void) {
  const Fiber *fiber = &emulator_run.fiber[emulator_run.running];
  for (int i = 0; i < fiber->copies; i++) {
    memset(fiber->copy[i].to, 0xff, (size_t)fiber->copy[i].size);
  }
}

static inline void emulator_barrier(void) {
  copies_may_come();
  fiber_wait(FIBER_AT_BARRIER);
}

// Of the threads of this one's group: groups are of so many, one after the other.
static inline void emulator_group_barrier(int threads) {
  copies_may_come();
  emulator_run.fiber[emulator_run.running].with = threads;
  fiber_wait(FIBER_AT_GROUP);
}

// Until somebody waits for it, a copy has destroyed what was there and brought nothing.
static inline void emulator_copy(void *to, const void *from, int bytes, int size) {
  Fiber *fiber = &emulator_run.fiber[emulator_run.running];
  if (fiber->copies == EMULATOR_COPIES || (uintptr_t)to % (unsigned)size != 0 ||
      (bytes > 0 && (uintptr_t)from % (unsigned)size != 0)) {
    abort();
  }
  memset(to, 0xff, (size_t)size);
  fiber->copy[fiber->copies++] = (EmulatorCopy){to, from, bytes < size ? bytes : size, size, fiber->group};
}

static inline void emulator_copies_close(void) {
  emulator_run.fiber[emulator_run.running].group++;
}

static inline void emulator_copies_wait(int later) {
  Fiber *fiber = &emulator_run.fiber[emulator_run.running];
  int left = 0;
  for (int i = 0; i < fiber->copies; i++) {
    const EmulatorCopy copy = fiber->copy[i];
    if (copy.group >= fiber->group - later) {
      fiber->copy[left++] = copy;
      continue;
    }
    memset(copy.to, 0, (size_t)copy.size);
    memcpy(copy.to, copy.from, copy.bytes > 0 ? (size_t)copy.bytes : 0);
  }
  fiber->copies = left;
}

static inline double emulator_shuffle(double value, int with) {
  Fiber *fiber = &emulator_run.fiber[emulator_run.running];
  fiber->value = value;
  fiber->with = with;
  fiber_wait(FIBER_AT_SHUFFLE);
  return fiber->result;
}

static inline void fiber_main(void) {
  emulator_run.function(emulator_run.slots);
  fiber_wait(FIBER_DONE);
}

static inline bool groups_release(int threads) {
  Fiber *fiber = emulator_run.fiber;
  bool moved = false;
  for (int i = 0; i < threads; i++) {
    const int size = fiber[i].state == FIBER_AT_GROUP ? fiber[i].with : 0;
    bool all = size > 0 && i % size == 0 && i + size <= threads;
    for (int k = i; k < i + size && all; k++) {
      all = fiber[k].state == FIBER_AT_GROUP && fiber[k].with == size;
    }
    for (int k = i; k < i + size && all; k++) {
      fiber[k].state = FIBER_RUNS;
      moved = true;
    }
  }
  return moved;
}

// Lets those go on that can; false if nobody can.
static inline bool fibers_release(int threads) {
  Fiber *fiber = emulator_run.fiber;
  int at_barrier = 0, done = 0;
  bool moved = groups_release(threads);
  for (int i = 0; i < threads; i++) {
    at_barrier += fiber[i].state == FIBER_AT_BARRIER;
    done += fiber[i].state == FIBER_DONE;
  }
  for (int warp = 0; warp < threads; warp += 32) {
    bool all = warp + 32 <= threads;
    for (int i = warp; i < warp + 32 && all; i++) {
      all = fiber[i].state == FIBER_AT_SHUFFLE;
    }
    for (int i = warp; i < warp + 32 && all; i++) {
      fiber[i].result = fiber[warp + ((i - warp) ^ fiber[i].with)].value;
    }
    for (int i = warp; i < warp + 32 && all; i++) {
      fiber[i].state = FIBER_RUNS;
      moved = true;
    }
  }
  for (int i = 0; i < threads && at_barrier == threads; i++) {
    fiber[i].state = FIBER_RUNS;
    moved = true;
  }
  return moved || done == threads;
}

static inline void fiber_start(Fiber *fiber, char *stack) {
  fiber->state = FIBER_RUNS;
  fiber->group = fiber->copies = 0;
  fiber_make(&fiber->context, stack, EMULATOR_STACK, fiber_main);
}

static inline bool emulator_block(int threads) {
  EmulatorRun *run = &emulator_run;
  for (int i = 0; i < threads; i++) {
    fiber_start(&run->fiber[i], run->stacks + (size_t)i * EMULATOR_STACK);
  }
  for (int left = threads; left > 0;) {
    for (int i = 0; i < threads; i++) {
      if (run->fiber[i].state == FIBER_RUNS) {
        run->running = i;
        run->hooks.thread = (EmulatorIndex){(unsigned)i, 0, 0};
        fiber_switch(&run->scheduler, &run->fiber[i].context);
        left -= run->fiber[i].state == FIBER_DONE;
      }
    }
    if (!fibers_release(threads)) {
      return false;
    }
  }
  return true;
}

// Runs one launch of a unit; what is wrong, or NULL.
static inline const char *emulator_launch(Emulator *emulator, int unit, const CudaLaunch *launch, const void *slots) {
  EmulatorRun *run = &emulator_run;
  char name[64];
  const int threads = (int)launch->block[0];
  snprintf(name, sizeof name, "%s_%d", launch->function, unit);
  void *found = dlsym(emulator->library, name);
  EmulatorHooks **hooks = dlsym(emulator->library, "emulator");
  if (!found || !hooks) {
    return "there is no such function";
  }
  if (threads < 1 || threads > EMULATOR_MAX_THREADS || launch->block[1] != 1 || launch->block[2] != 1) {
    return "the block is not of 1 to 1024 threads along x";
  }
  if (!run->fiber) {
    run->fiber = calloc(EMULATOR_MAX_THREADS, sizeof *run->fiber);
    run->stacks = malloc((size_t)EMULATOR_MAX_THREADS * EMULATOR_STACK);
  }
  memcpy(&run->function, &found, sizeof found);
  run->slots = slots;
  const size_t shared = (launch->shared_bytes + 31) / 16 * 16;
  run->hooks = (EmulatorHooks){.grid = {launch->grid[0], launch->grid[1], launch->grid[2]},
                               .shared = aligned_alloc(16, shared),
                               .barrier = emulator_barrier,
                               .group_barrier = emulator_group_barrier,
                               .copy = emulator_copy,
                               .copies_close = emulator_copies_close,
                               .copies_wait = emulator_copies_wait,
                               .shuffle = emulator_shuffle};
  *hooks = &run->hooks;
  const char *wrong = NULL;
  const uint64_t blocks = (uint64_t)launch->grid[0] * launch->grid[1] * launch->grid[2];
  for (uint64_t i = 0; i < blocks && !wrong; i++) {
    run->hooks.block =
        (EmulatorIndex){(unsigned)(i % launch->grid[0]), (unsigned)(i / launch->grid[0] % launch->grid[1]),
                        (unsigned)(i / launch->grid[0] / launch->grid[1])};
    memset(run->hooks.shared, 0xff, shared);
    wrong = emulator_block(threads) ? NULL : "threads wait for others that never come";
  }
  free(run->hooks.shared);
  return wrong;
}

#endif
