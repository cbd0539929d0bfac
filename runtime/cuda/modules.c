// modules.c: compiling and loading the generated kernels of a device.
#include "runtime/cuda/modules.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/array.h"
#include "kernels/cuda/compile.h"

enum { COMPILE_THREADS_MAX = 16 };
static const uint32_t STATIC_SHARED_LIMIT = 48 * 1024;

typedef struct {
  uint64_t hash;
  const char *text, *name;
  CudaBinary binary;
  CudaModule module;
  bool failed;
  char message[ERROR_MAX];
} Text;

struct Modules {
  const Cuda *cuda;
  const CudaDevice *device;
  Arena *arena;
  const char *cache;
  ARRAY(Text *) texts;
  ARRAY(Loaded *) kernels;
  ARRAY(int) text_of;  // by kernel
  int64_t compiled;
};

typedef struct {  // what compiling threads share
  Modules *modules;
  atomic_int next;
  atomic_long compiled;
} Work;

Modules *modules_create(const Cuda *cuda, const CudaDevice *device, Arena *arena, const char *cache) {
  Modules *made = ARENA_NEW(arena, Modules);
  *made = (Modules){.cuda = cuda, .device = device, .arena = arena, .cache = cache};
  return made;
}

void modules_destroy(Modules *modules) {
  for (int i = 0; modules && i < modules->texts.count; i++) {
    Text *text = modules->texts.at[i];
    cuda_binary_free(&text->binary);
    if (text->module) {
      modules->cuda->module_unload(text->module);
    }
  }
}

static int text_find(Modules *modules, const CudaKernel *kernel, const char *name) {
  const uint64_t hash = XXH3_64bits(kernel->text, strlen(kernel->text));
  for (int i = 0; i < modules->texts.count; i++) {
    const Text *text = modules->texts.at[i];
    if (text->hash == hash && strcmp(text->text, kernel->text) == 0) {
      return i;
    }
  }
  Text *text = ARENA_NEW(modules->arena, Text);
  *text = (Text){.hash = hash, .text = kernel->text, .name = name};
  array_push(modules->arena, &modules->texts, text);
  return modules->texts.count - 1;
}

Loaded *modules_add(Modules *modules, const CudaKernel *kernel, const char *name) {
  Loaded *loaded = ARENA_NEW(modules->arena, Loaded);
  *loaded = (Loaded){.kernel = *kernel};
  array_push(modules->arena, &modules->kernels, loaded);
  array_push(modules->arena, &modules->text_of, text_find(modules, kernel, name));
  return loaded;
}

static void *compile_main(void *argument) {
  Work *work = argument;
  Modules *modules = work->modules;
  CudaCompiler *compiler = NULL;
  char message[ERROR_MAX];
  const bool open = cuda_compiler_open(modules->device->target, modules->cache, &compiler, message, sizeof message);
  for (int i; (i = atomic_fetch_add(&work->next, 1)) < modules->texts.count;) {
    Text *text = modules->texts.at[i];
    if (text->binary.code) {
      continue;
    }
    if (!open) {
      memcpy(text->message, message, sizeof message);
    }
    text->failed =
        !open || !cuda_compile(compiler, text->name, text->text, &text->binary, text->message, sizeof text->message);
  }
  if (open) {
    atomic_fetch_add(&work->compiled, (long)cuda_compiler_compiled(compiler));
    cuda_compiler_close(compiler);
  }
  return NULL;
}

static void texts_compile(Modules *modules) {
  Work work = {.modules = modules};
  pthread_t threads[COMPILE_THREADS_MAX];
  const long cores = sysconf(_SC_NPROCESSORS_ONLN);
  int count = cores < 1 ? 1 : cores > COMPILE_THREADS_MAX ? COMPILE_THREADS_MAX : (int)cores, started = 0;
  count = count > modules->texts.count ? modules->texts.count : count;
  for (; started < count - 1; started++) {
    if (pthread_create(&threads[started], NULL, compile_main, &work) != 0) {
      break;
    }
  }
  compile_main(&work);
  for (int i = 0; i < started; i++) {
    pthread_join(threads[i], NULL);
  }
  modules->compiled = (int64_t)work.compiled;
}

static bool kernel_find(Modules *modules, Loaded *loaded, const Text *text, Error *error) {
  const Cuda *cuda = modules->cuda;
  for (int l = 0; l < loaded->kernel.launch_count; l++) {
    const CudaLaunch *launch = &loaded->kernel.launch[l];
    if (!cuda_check(cuda, cuda->module_function(&loaded->function[l], text->module, launch->function),
                    "finding a generated kernel", error)) {
      return false;
    }
    if (launch->shared_bytes > STATIC_SHARED_LIMIT &&
        !cuda_check(cuda, cuda->function_set(loaded->function[l], CUDA_FUNCTION_SHARED_MAX, (int)launch->shared_bytes),
                    "asking for shared memory", error)) {
      return false;
    }
  }
  return true;
}

bool modules_load(Modules *modules, Error *error) {
  texts_compile(modules);
  for (int i = 0; i < modules->texts.count; i++) {
    Text *text = modules->texts.at[i];
    if (text->failed) {
      return error_set(error, 1, "%s", text->message);
    }
    if (!text->module && !cuda_check(modules->cuda, modules->cuda->module_load(&text->module, text->binary.code),
                                     "loading a generated kernel", error)) {
      return false;
    }
  }
  for (int k = 0; k < modules->kernels.count; k++) {
    if (!kernel_find(modules, modules->kernels.at[k], modules->texts.at[modules->text_of.at[k]], error)) {
      return false;
    }
  }
  return true;
}

int modules_texts(const Modules *modules) {
  return modules->texts.count;
}

int64_t modules_compiled(const Modules *modules) {
  return modules->compiled;
}

bool modules_launch(const Cuda *cuda, const Loaded *loaded, const uint64_t *slots, CudaAddress scratch, bool first,
                    CudaStream stream, Error *error) {
  const CudaKernel *kernel = &loaded->kernel;
  uint64_t block[CUDA_MAX_PORTS + 2];
  void *parameters[] = {block};
  memcpy(block, slots, (size_t)kernel->port_count * sizeof *slots);
  block[kernel->port_count] = scratch;
  block[kernel->port_count + 1] = first ? CUDA_SLOT_FIRST : 0;
  for (int l = 0; l < kernel->launch_count; l++) {
    const CudaLaunch *launch = &kernel->launch[l];
    if (!cuda_check(
            cuda,
            cuda->launch(loaded->function[l], launch->grid[0], launch->grid[1], launch->grid[2], launch->block[0],
                         launch->block[1], launch->block[2], launch->shared_bytes, stream, parameters, NULL),
            launch->function, error)) {
      return false;
    }
  }
  return true;
}
