// device.c: errors of the runtime and the list of backends.
#include "runtime/device.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/plain.h"
#include "runtime/cuda/count.h"
#include "runtime/cuda/driver.h"

static const Backend *const backends[] = {&backend_cpu, &backend_cuda};

bool error_set(Error *error, int status, const char *format, ...) {
  va_list args;
  va_start(args, format);
  error->status = status;
  vsnprintf(error->text, sizeof error->text, format, args);
  plain_mask(error->text);  // names from files may hold anything
  va_end(args);
  return false;
}

bool error_set_plan(Error *error, const char *why) {
  return error_set(error, strncmp(why, "no memory", 9) == 0 ? 3 : 1, "%s", why);
}

const Backend *backend_find(const char *name) {
  for (size_t i = 0; i < sizeof backends / sizeof backends[0]; i++) {
    if (strcmp(backends[i]->name, name) == 0) {
      return backends[i];
    }
  }
  return NULL;
}

// A GPU for each rank. With several it is not this process that may start CUDA, but those of the ranks.
static bool cuda_enough(int64_t ranks, Error *error) {
  if (ranks == 1) {
    return cuda_present(error);
  }
  const int count = cuda_count_apart(error);
  return count >= ranks ||
         (count > 0 && error_set(error, 1,
                                 "the plan is for %lld ranks, each on a GPU of its own, and this machine has %d; "
                                 "--device cpu runs all of them here, as threads",
                                 (long long)ranks, count));
}

const Backend *backend_choose(const char *name, int64_t ranks, Error *error) {
  Error why;
  if (!name || strcmp(name, "auto") == 0) {
    return cuda_enough(ranks, &why) ? &backend_cuda : &backend_cpu;
  }
  const Backend *backend = backend_find(name);
  if (!backend) {
    error_set(error, 1, "there is no device '%s' in this build; cpu works everywhere, cuda on NVIDIA GPUs", name);
  } else if (backend == &backend_cuda && !cuda_enough(ranks, error)) {
    return NULL;
  }
  return backend;
}

const Backend *backend_choose_all(const char *name, int *devices, Error *error) {
  Error why;
  const bool any = !name || strcmp(name, "auto") == 0;
  const Backend *backend = any ? &backend_cuda : backend_choose(name, 0, error);
  *devices = backend == &backend_cuda ? cuda_count_apart(any ? &why : error) : 0;
  return backend != &backend_cuda || *devices > 0 ? backend : any ? &backend_cpu : NULL;
}

bool device_copy(const Backend *backend, Device *device, const CopyPiece *pieces, int count, char *memory,
                 Error *error) {
  bool done = true;
  if (backend->copy) {
    return backend->copy(device, pieces, count, memory, error);
  }
  for (int i = 0; done && i < count; i++) {
    const CopyPiece *piece = &pieces[i];
    done = backend->read(device, ARENA_PERSISTENT, piece->offset, memory + piece->to, piece->bytes, error);
  }
  return done;
}

bool device_copied(const Backend *backend, Device *device, Error *error) {
  return !backend->copy || backend->copied(device, error);
}
