// modules.c: compiling and loading the generated kernels of a device.
#include "runtime/cuda/modules.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/map.h"
#include "kernels/cuda/compile_batch.h"
#include "kernels/cuda/target.h"
#include "runtime/cuda/maps.h"

typedef struct {
  uint64_t hash;
  CudaJob job;
  CudaModule module;
} Text;

typedef struct {
  Loaded loaded;
  int text;
} Entry;

struct Modules {
  const Cuda *cuda;
  const CudaDevice *device;
  const Plan *plan;
  Arena *arena;
  const char *cache;
  ARRAY(Text *) texts;
  ARRAY(Entry *) entries;
  Map by_text, entry_by_kernel;
  int64_t compiled;
};

Modules *modules_create(const Cuda *cuda, const CudaDevice *device, const Plan *plan, Arena *arena, const char *cache) {
  Modules *made = ARENA_NEW(arena, Modules);
  *made = (Modules){.cuda = cuda,
                    .device = device,
                    .plan = plan,
                    .arena = arena,
                    .cache = cache,
                    .by_text = map_create(arena),
                    .entry_by_kernel = map_create(arena)};
  return made;
}

void modules_destroy(Modules *modules) {
  for (int i = 0; modules && i < modules->texts.count; i++) {
    Text *text = modules->texts.at[i];
    cuda_binary_free(&text->job.binary);
    if (text->module) {
      modules->cuda->module_unload(text->module);
    }
  }
}

static int text_find(Modules *modules, const CudaKernel *kernel, const char *name) {
  const size_t bytes = strlen(kernel->text);
  const int64_t at = map_get_bytes_or(&modules->by_text, kernel->text, bytes, -1);
  if (at >= 0) {
    return (int)at;
  }
  Text *text = ARENA_NEW(modules->arena, Text);
  *text = (Text){.hash = cuda_text_hash(kernel->text), .job = {.text = kernel->text, .name = name}};
  map_put_bytes(&modules->by_text, kernel->text, bytes, modules->texts.count);
  array_push(modules->arena, &modules->texts, text);
  return modules->texts.count - 1;
}

Loaded *modules_add(Modules *modules, const CudaKernel *kernel, const char *name) {
  const int64_t at = map_get_or(&modules->entry_by_kernel, map_key(kernel), -1);
  if (at >= 0) {
    return &modules->entries.at[at]->loaded;
  }
  Entry *entry = ARENA_NEW(modules->arena, Entry);
  *entry = (Entry){.loaded = {.kernel = *kernel}, .text = text_find(modules, kernel, name)};
  map_put(&modules->entry_by_kernel, map_key(kernel), modules->entries.count);
  array_push(modules->arena, &modules->entries, entry);
  return &entry->loaded;
}

// The best code that the plan has for this chip. What the driver does not take (it may be older than the compiler was)
// is compiled here.
static void text_take(const Modules *modules, Text *text) {
  const Plan *plan = modules->plan;
  const CudaDevice *device = modules->device;
  for (int best = 3; best > 0 && !text->module; best--) {
    for (int t = 0; t < plan->target_count && !text->module; t++) {
      const PlanTarget *target = &plan->targets[t];
      const PlanCode *code = cuda_target_serves(target->target, device->major, device->minor) == best
                                 ? plan_code(target, text->hash)
                                 : NULL;
      if (code && modules->cuda->module_load(&text->module, code->code) != 0) {
        text->module = NULL;
      }
    }
  }
}

static bool texts_load(Modules *modules, Error *error) {
  CudaJob **jobs = ARENA_ARRAY(modules->arena, CudaJob *, modules->texts.count + 1);
  int count = 0;
  for (int i = 0; i < modules->texts.count; i++) {
    Text *text = modules->texts.at[i];
    text_take(modules, text);
    if (!text->module) {
      jobs[count++] = &text->job;
    }
  }
  const CudaBatch batch = {.target = modules->device->target, .cache = modules->cache};
  modules->compiled = count > 0 ? cuda_compile_batch(&batch, jobs, count, NULL) : 0;
  for (int i = 0; i < modules->texts.count; i++) {
    Text *text = modules->texts.at[i];
    if (text->job.failed) {
      return error_set(error, 1, "%s", text->job.message);
    }
    if (!text->module && !cuda_check(modules->cuda, modules->cuda->module_load(&text->module, text->job.binary.code),
                                     "loading a generated kernel", error)) {
      return false;
    }
  }
  return true;
}

static bool kernel_find(Modules *modules, Loaded *loaded, const Text *text, Error *error) {
  const Cuda *cuda = modules->cuda;
  for (int l = 0; l < loaded->kernel.launch_count; l++) {
    const CudaLaunch *launch = &loaded->kernel.launch[l];
    if (!cuda_check(cuda, cuda->module_function(&loaded->function[l], text->module, launch->function),
                    "finding a generated kernel", error)) {
      return false;
    }
    if (launch->shared_bytes > 0 &&
        !cuda_check(cuda, cuda->function_set(loaded->function[l], CUDA_FUNCTION_SHARED_MAX, (int)launch->shared_bytes),
                    "asking for shared memory", error)) {
      return false;
    }
  }
  return true;
}

bool modules_load(Modules *modules, Error *error) {
  if (!texts_load(modules, error)) {
    return false;
  }
  for (int i = 0; i < modules->entries.count; i++) {
    Entry *entry = modules->entries.at[i];
    if (!kernel_find(modules, &entry->loaded, modules->texts.at[entry->text], error)) {
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
  uint64_t block[CUDA_MAX_SLOTS];
  CudaTensorMap maps[CUDA_MAX_MAPS];
  void *parameters[] = {block, maps};
  if (!cuda_maps_encode(cuda, kernel, slots, maps, error)) {
    return false;
  }
  memcpy(block, slots, (size_t)kernel->port_count * sizeof *slots);
  cuda_slots_end(kernel, block, scratch, first);
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
