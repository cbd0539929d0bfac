// cuda_support.h: texts of generators compiled, run and timed on a GPU, for tests. Without one, they are skipped or run
// by threads of the host (cuda_warps.h).
#ifndef MDL_TESTS_CUDA_SUPPORT_H
#define MDL_TESTS_CUDA_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka.h needs the four above.
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/compile.h"
#include "kernels/cuda/kernel.h"
#include "runtime/cuda/driver.h"
#include "runtime/cuda/maps.h"
#include "tests/cuda_warps.h"
#include "tests/elements.h"

typedef struct {
  bool emulated;  // then memory is that of the host, and there is nothing else
  Cuda cuda;
  CudaDevice device;
  CudaCompiler *compiler;
  CudaStream stream;
  CudaEvent begin, end;
} Gpu;

typedef struct {
  const CudaKernel *kernel;
  void *library;  // emulated
  CudaModule module;
  CudaFunction function[CUDA_MAX_LAUNCHES];
  CudaAddress scratch;
} GpuKernel;

static inline void gpu_check(const Gpu *gpu, CudaStatus status, const char *what) {
  Error error;
  if (!cuda_check(&gpu->cuda, status, what, &error)) {
    fail_msg("%s", error.text);
  }
}

// False, with the reason printed, where there is no GPU or no compiler.
static inline bool gpu_open(Gpu *gpu) {
  Error error;
  char message[ERROR_MAX];
  *gpu = (Gpu){0};
  if (!cuda_open(&gpu->cuda, &error)) {
    print_message("no GPU: %s\n", error.text);
    return false;
  }
  if (!cuda_device_open(&gpu->cuda, 0, &gpu->device, &error)) {
    print_message("no GPU: %s\n", error.text);
    cuda_close(&gpu->cuda);
    return false;
  }
  if (!cuda_compiler_open(gpu->device.target, "", &gpu->compiler, message, sizeof message)) {
    print_message("skipped: %s\n", message);
    cuda_device_close(&gpu->cuda, &gpu->device);
    cuda_close(&gpu->cuda);
    return false;
  }
  gpu_check(gpu, gpu->cuda.stream_create(&gpu->stream, CUDA_STREAM_NON_BLOCKING), "a stream");
  gpu_check(gpu, gpu->cuda.event_create(&gpu->begin, CUDA_EVENT_DEFAULT), "an event");
  gpu_check(gpu, gpu->cuda.event_create(&gpu->end, CUDA_EVENT_DEFAULT), "an event");
  return true;
}

// A GPU, or what stands in for one; false, with the reason printed, if there is no C++ compiler either.
static inline bool gpu_open_any(Gpu *gpu) {
  if (gpu_open(gpu)) {
    return true;
  }
  *gpu = (Gpu){.emulated = warps_present()};
  print_message(gpu->emulated ? "emulated instead\n" : "not emulated either: there is no c++\n");
  return gpu->emulated;
}

static inline void gpu_close(Gpu *gpu) {
  if (gpu->emulated) {
    return;
  }
  gpu->cuda.event_destroy(gpu->begin);
  gpu->cuda.event_destroy(gpu->end);
  gpu->cuda.stream_destroy(gpu->stream);
  cuda_compiler_close(gpu->compiler);
  cuda_device_close(&gpu->cuda, &gpu->device);
  cuda_close(&gpu->cuda);
}

// Memory of the device with a copy of data, or poisoned without.
static inline CudaAddress gpu_memory(const Gpu *gpu, const void *data, int64_t bytes) {
  const size_t size = ((size_t)bytes + 511) / 256 * 256;
  CudaAddress address = 0;
  if (gpu->emulated) {
    void *memory = aligned_alloc(256, size);
    memset(memory, 0xff, size);
    memcpy(memory, data ? data : memory, data ? (size_t)bytes : 0);
    return (uintptr_t)memory;
  }
  gpu_check(gpu, gpu->cuda.memory_allocate(&address, size), "memory");
  gpu_check(gpu, gpu->cuda.fill_bytes(address, 0xff, size, gpu->stream), "poisoning");
  if (data) {
    gpu_check(gpu, gpu->cuda.copy_in(address, data, (size_t)bytes, gpu->stream), "copying in");
  }
  gpu_check(gpu, gpu->cuda.stream_synchronize(gpu->stream), "copying in");
  return address;
}

// What is in it is read as NaN; in the order of launches.
static inline void gpu_poison(const Gpu *gpu, CudaAddress address, int64_t bytes) {
  if (gpu->emulated) {
    memset((void *)(uintptr_t)address, 0xff, (size_t)bytes);
  } else if (bytes > 0) {
    gpu_check(gpu, gpu->cuda.fill_bytes(address, 0xff, (size_t)bytes, gpu->stream), "poisoning");
  }
}

static inline void gpu_free(const Gpu *gpu, CudaAddress address) {
  if (gpu->emulated) {
    free((void *)(uintptr_t)address);
  } else {
    gpu->cuda.memory_free(address);
  }
}

static inline void gpu_set(const Gpu *gpu, CudaAddress address, const void *data, int64_t bytes) {
  if (gpu->emulated) {
    memcpy((void *)(uintptr_t)address, data, (size_t)bytes);
    return;
  }
  gpu_check(gpu, gpu->cuda.copy_in(address, data, (size_t)bytes, gpu->stream), "copying in");
  gpu_check(gpu, gpu->cuda.stream_synchronize(gpu->stream), "copying in");
}

static inline void gpu_get(const Gpu *gpu, void *data, CudaAddress address, int64_t bytes) {
  if (gpu->emulated) {
    memcpy(data, (const void *)(uintptr_t)address, (size_t)bytes);
    return;
  }
  gpu_check(gpu, gpu->cuda.copy_out(data, address, (size_t)bytes, gpu->stream), "copying out");
  gpu_check(gpu, gpu->cuda.stream_synchronize(gpu->stream), "copying out");
}

static inline GpuKernel gpu_load(const Gpu *gpu, const char *name, const CudaKernel *kernel) {
  GpuKernel loaded = {.kernel = kernel, .scratch = gpu_memory(gpu, NULL, kernel->scratch_bytes)};
  CudaBinary binary = {0};
  char message[ERROR_MAX];
  if (gpu->emulated) {
    loaded.library = warps_load(kernel);
    assert_non_null(loaded.library);
    return loaded;
  }
  if (!cuda_compile(gpu->compiler, name, kernel->text, &binary, message, sizeof message)) {
    fail_msg("%s", message);
  }
  gpu_check(gpu, gpu->cuda.module_load(&loaded.module, binary.code), "loading");
  for (int i = 0; i < kernel->launch_count; i++) {
    gpu_check(gpu, gpu->cuda.module_function(&loaded.function[i], loaded.module, kernel->launch[i].function), name);
    gpu_check(gpu,
              gpu->cuda.function_set(loaded.function[i], CUDA_FUNCTION_SHARED_MAX, (int)kernel->launch[i].shared_bytes),
              "shared memory");
  }
  cuda_binary_free(&binary);
  return loaded;
}

static inline void gpu_unload(const Gpu *gpu, const GpuKernel *loaded) {
  gpu_free(gpu, loaded->scratch);
  if (gpu->emulated) {
    dlclose(loaded->library);
  } else {
    gpu->cuda.module_unload(loaded->module);
  }
}

// slots: the ports, with room for what comes after them.
static inline void gpu_launch(const Gpu *gpu, const GpuKernel *loaded, uint64_t *slots, bool first) {
  const CudaKernel *kernel = loaded->kernel;
  CudaTensorMap maps[CUDA_MAX_MAPS];
  void *parameters[] = {slots, maps};
  Error error;
  cuda_slots_end(kernel, slots, loaded->scratch, first);
  for (int i = 0; i < kernel->map_count && gpu->emulated; i++) {
    warps_map(&kernel->map[i], slots[kernel->map[i].port], maps[i].at);
  }
  if (!gpu->emulated && !cuda_maps_encode(&gpu->cuda, kernel, slots, maps, &error)) {
    fail_msg("%s", error.text);
  }
  for (int i = 0; i < kernel->launch_count; i++) {
    const CudaLaunch *launch = &kernel->launch[i];
    if (gpu->emulated) {
      warps_launch(loaded->library, launch, slots, maps);
      continue;
    }
    gpu_check(gpu,
              gpu->cuda.launch(loaded->function[i], launch->grid[0], launch->grid[1], launch->grid[2], launch->block[0],
                               launch->block[1], launch->block[2], launch->shared_bytes, gpu->stream, parameters, NULL),
              launch->function);
  }
}

static inline void gpu_run(const Gpu *gpu, const GpuKernel *loaded, uint64_t *slots, bool first) {
  gpu_launch(gpu, loaded, slots, first);
  if (!gpu->emulated) {
    gpu_check(gpu, gpu->cuda.stream_synchronize(gpu->stream), loaded->kernel->form);
  }
}

// Seconds of one call, the mean of `rounds` after a few that are not counted.
static inline double gpu_time(const Gpu *gpu, const GpuKernel *loaded, uint64_t *slots, int rounds) {
  float milliseconds = 0;
  for (int i = 0; i < rounds + 3; i++) {
    if (i == 3) {
      gpu_check(gpu, gpu->cuda.event_record(gpu->begin, gpu->stream), "timing");
    }
    gpu_launch(gpu, loaded, slots, true);
  }
  gpu_check(gpu, gpu->cuda.event_record(gpu->end, gpu->stream), "timing");
  gpu_check(gpu, gpu->cuda.event_synchronize(gpu->end), loaded->kernel->form);
  gpu_check(gpu, gpu->cuda.event_elapsed(&milliseconds, gpu->begin, gpu->end), "timing");
  return (double)milliseconds / 1e3 / rounds;
}

// Seconds of each launch alone: for tables of speed.
static inline void gpu_time_launches(const Gpu *gpu, const GpuKernel *loaded, uint64_t *slots, int rounds) {
  for (int i = 0; i < loaded->kernel->launch_count; i++) {
    CudaKernel one = *loaded->kernel;
    GpuKernel alone = *loaded;
    one.launch[0] = one.launch[i];
    one.launch_count = 1;
    alone.kernel = &one;
    alone.function[0] = loaded->function[i];
    print_message("    %-18s %9.1f us\n", one.launch[0].function, gpu_time(gpu, &alone, slots, rounds) * 1e6);
  }
}

typedef struct {
  uint64_t state;
} CudaDraw;

static inline uint32_t cuda_draw(CudaDraw *draw) {
  draw->state = draw->state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(draw->state >> 33);
}

static inline double cuda_draw_real(CudaDraw *draw) {  // in [-1, 1)
  return (double)cuda_draw(draw) / (double)((uint32_t)1 << 30) - 1.0;
}

// --- compiling without a GPU ---

// Compiles a text for each target; false, with the reason printed, if the compiler cannot be opened.
static inline bool cuda_texts_compile(const char *name, const CudaKernel *kernel, const char *const *targets) {
  for (; *targets; targets++) {
    CudaCompiler *compiler;
    CudaBinary binary = {0};
    char message[ERROR_MAX];
    if (!cuda_compiler_open(*targets, "", &compiler, message, sizeof message)) {
      print_message("skipped: %s\n", message);
      return false;
    }
    if (!cuda_compile(compiler, name, kernel->text, &binary, message, sizeof message)) {
      fail_msg("%s", message);
    }
    cuda_binary_free(&binary);
    cuda_compiler_close(compiler);
  }
  return true;
}

static inline void cuda_geometry_check(const CudaKernel *kernel) {
  assert_in_range(kernel->launch_count, 1, CUDA_MAX_LAUNCHES);
  assert_true(kernel->bytes > 0 && kernel->form && kernel->scratch_bytes >= 0);
  for (int i = 0; i < kernel->launch_count; i++) {
    const CudaLaunch *launch = &kernel->launch[i];
    char function[64];
    snprintf(function, sizeof function, " %s(Slots", launch->function);
    assert_non_null(strstr(kernel->text, function));
    assert_true(launch->grid[0] >= 1 && launch->grid[1] == 1 && launch->grid[2] == 1);
    assert_true(launch->block[0] >= 32 && launch->block[0] <= 1024 && launch->block[0] % 32 == 0);
    assert_true(launch->shared_bytes <= 163 * 1024);  // what a block of sm_80 may have
  }
}

#endif
