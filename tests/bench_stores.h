// bench_stores.h: kernels that store in two orders, against the rate of a copy.
#ifndef MDL_TESTS_BENCH_STORES_H
#define MDL_TESTS_BENCH_STORES_H

#include <stdio.h>
#include <stdlib.h>

#include "kernels/cuda/compile.h"
#include "kernels/cuda/generate.h"
#include "tests/bench_copy.h"
#include "tests/turned_cases.h"

enum { STORES_ROUNDS = 20 };

typedef struct {
  const Cuda *cuda;
  const CudaDevice *gpu;
  CudaStream stream;
  CudaEvent begin, end;
  CudaCompiler *compiler;
  Arena *arena;
  double rate;
  Error error;
} Stores;

static void stores_check(Stores *stores, CudaStatus status, const char *what) {
  if (!cuda_check(stores->cuda, status, what, &stores->error)) {
    fprintf(stderr, "bench_cuda: %s\n", stores->error.text);
    exit(1);
  }
}

static CudaModule stores_load(Stores *stores, const CudaKernel *made, CudaFunction *function) {
  char message[2048];
  CudaBinary binary;
  CudaModule module = NULL;
  if (!cuda_compile(stores->compiler, "stores", made->text, &binary, message, sizeof message)) {
    fprintf(stderr, "bench_cuda: %s\n", message);
    exit(1);
  }
  stores_check(stores, stores->cuda->module_load(&module, binary.code), "loading");
  for (int i = 0; i < made->launch_count; i++) {
    stores_check(stores, stores->cuda->module_function(&function[i], module, made->launch[i].function), "finding");
    stores_check(stores,
                 stores->cuda->function_set(function[i], CUDA_FUNCTION_SHARED_MAX, (int)made->launch[i].shared_bytes),
                 "shared memory");
  }
  cuda_binary_free(&binary);
  return module;
}

// The best of some rounds: what else the machine does only makes it slower.
static double stores_time(Stores *stores, const CudaKernel *made, const CudaFunction *function, uint64_t *slots) {
  void *parameters[] = {slots};
  double best = 1e30;
  for (int round = 0; round < STORES_ROUNDS; round++) {
    float milliseconds = 0;
    stores_check(stores, stores->cuda->event_record(stores->begin, stores->stream), "timing");
    for (int i = 0; i < made->launch_count; i++) {
      const CudaLaunch *l = &made->launch[i];
      stores_check(stores,
                   stores->cuda->launch(function[i], l->grid[0], l->grid[1], l->grid[2], l->block[0], l->block[1],
                                        l->block[2], l->shared_bytes, stores->stream, parameters, NULL),
                   "launching");
    }
    stores_check(stores, stores->cuda->event_record(stores->end, stores->stream), "timing");
    stores_check(stores, stores->cuda->event_synchronize(stores->end), "waiting");
    stores_check(stores, stores->cuda->event_elapsed(&milliseconds, stores->begin, stores->end), "timing");
    best = (double)milliseconds / 1e3 < best ? (double)milliseconds / 1e3 : best;
  }
  return best;
}

static void stores_case(Stores *stores, TurnedCase which, int64_t rows, int64_t columns, const CudaForm *form) {
  const CudaTarget target = {stores->gpu->multiprocessors, stores->gpu->shared_bytes, false, form};
  const Kernel *kernel = turned_case(stores->arena, which, rows, columns);
  int alignment[KERNEL_MAX_PORTS];
  uint64_t slots[CUDA_MAX_SLOTS] = {0};
  CudaFunction function[CUDA_MAX_LAUNCHES];
  CudaAddress scratch = 0;
  CudaKernel made;
  const char *why;
  for (int p = 0; p < kernel->port_count; p++) {
    alignment[p] = 16;
    stores_check(stores, stores->cuda->memory_allocate(&slots[p], (size_t)(4 * rows * columns)), "allocating");
    stores_check(stores, stores->cuda->fill_words(slots[p], 0x3c3c3c3c, (size_t)(rows * columns), stores->stream),
                 "filling");
  }
  if (!cuda_generate(kernel, alignment, &target, stores->arena, &made, &why)) {
    fprintf(stderr, "bench_cuda: %s\n", why);
    exit(1);
  }
  stores_check(stores, stores->cuda->memory_allocate(&scratch, (size_t)made.scratch_bytes + 256), "allocating");
  cuda_slots_end(&made, slots, scratch, true);
  CudaModule module = stores_load(stores, &made, function);
  const double seconds = stores_time(stores, &made, function, slots);
  const double share = (made.bytes / stores->rate + 4e-6) / seconds;
  printf("%-28s %6lld x %-6lld %8.1f us %8.0f GB/s %5.0f%%  %s\n", turned_names[which], (long long)rows,
         (long long)columns, seconds * 1e6, made.bytes / seconds / 1e9, 100 * share, made.form);
  stores->cuda->module_unload(module);
  stores->cuda->memory_free(scratch);
  for (int p = 0; p < kernel->port_count; p++) {
    stores->cuda->memory_free(slots[p]);
  }
}

static void stores_print(const Cuda *cuda, const CudaDevice *gpu, CudaStream stream, CudaEvent begin, CudaEvent end) {
  static const struct {
    TurnedCase which;
    int64_t rows, columns;
  } cases[] = {{TURNED_SWIGLU, 8192, 14336},   {TURNED_SWIGLU_GRAD, 8192, 14336}, {TURNED_QUANTISE, 8192, 4096},
               {TURNED_NORM, 8192, 2048},      {TURNED_NORM, 8192, 4096},         {TURNED_NORM, 8192, 8192},
               {TURNED_NORM_GRAD, 8192, 2048}, {TURNED_NORM_GRAD, 8192, 4096},    {TURNED_NORM_GRAD, 8192, 8192},
               {TURNED_COPY8, 8192, 4096},     {TURNED_COPY8, 14336, 4096},       {TURNED_COPY16, 8192, 4096},
               {TURNED_COPY32, 8192, 4096}};
  static const CudaForm forms[] = {{.group = 32},
                                   {.group = 16, .rows = 1},
                                   {.group = 16, .rows = 2},
                                   {.group = 16, .rows = 8},
                                   {.group = 16, .stages = -1},
                                   {.group = 16, .rows = 8, .stages = -1}};
  char message[1024];
  Stores stores = {.cuda = cuda, .gpu = gpu, .stream = stream, .begin = begin, .end = end, .arena = arena_create()};
  if (!copy_rate(cuda, stream, &stores.rate, &stores.error) ||
      !cuda_compiler_open(gpu->target, NULL, &stores.compiler, message, sizeof message)) {
    fprintf(stderr, "bench_cuda: no copy, or no compiler\n");
    exit(1);
  }
  printf("share: of what the bytes take at %.2f TB/s, as copies reach, and 4 us\n", stores.rate / 1e12);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    stores_case(&stores, cases[i].which, cases[i].rows, cases[i].columns, NULL);
  }
  printf("norms in other forms\n");
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
    stores_case(&stores, TURNED_NORM, 8192, 4096, &forms[i]);
    stores_case(&stores, TURNED_NORM_GRAD, 8192, 4096, &forms[i]);
  }
  cuda_compiler_close(stores.compiler);
  arena_destroy(stores.arena);
}

#endif
