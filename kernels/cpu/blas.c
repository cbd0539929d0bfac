// blas.c: opening OpenBLAS.
#include "kernels/cpu/blas.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/units.h"

static const char *const library_names[] = {"libopenblas.so.0", "libopenblas.so"};

// The library's buffer for a product: 128 MiB of addresses in version 0.3.21, of which it touches what it needs. It
// keeps a buffer once it has it, and gives it to whichever thread asks next.
static const int64_t BUFFER_BYTES = 128 << 20;
enum { LIBRARY_BYTES = 40 << 20, BUFFERS_MOST = 64 };

// Of the library, which the devices of a process share. Once it is open it stays so, with its buffers: to open it again
// takes longer than a small program runs.
static struct {
  pthread_mutex_t mutex;
  void *library;
  int threads;  // of all devices that are open
  int buffers;  // that the library has been made to take; of more than BUFFERS_MOST it takes the rest when it needs
                // them
} taken = {.mutex = PTHREAD_MUTEX_INITIALIZER};

// What the library reads from the environment when it is loaded. Its detection does not know newer processors and
// then falls back to code without AVX; and it would start threads that we never use. What the user set stays.
static void prepare_environment(void) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl")) {
    setenv("OPENBLAS_CORETYPE", "SKYLAKEX", 0);
  } else if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    setenv("OPENBLAS_CORETYPE", "HASWELL", 0);
  }
#endif
  setenv("OPENBLAS_NUM_THREADS", "1", 0);
}

static bool find(void *library, const char *name, void *function) {
  void *address = dlsym(library, name);
  memcpy(function, &address, sizeof address);
  return address != NULL;
}

// Is there so much memory? Takes it as the library does, piece by piece, and gives it back.
static bool memory_probe(int64_t pieces, int64_t bytes) {
  int64_t have = 0;
  void **piece = calloc((size_t)pieces, sizeof *piece);
  for (; piece && have < pieces; have++) {
    piece[have] = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (piece[have] == MAP_FAILED) {
      break;
    }
  }
  const bool done = piece && have == pieces;
  while (have > 0) {
    munmap(piece[--have], (size_t)bytes);
  }
  free(piece);
  return done;
}

static bool out_of_memory(int64_t bytes, Error *error) {
  char size[UNITS_MAX];
  return error_set(error, 3,
                   "no memory for OpenBLAS: it needs %s of addresses, %s for each thread; ask for fewer threads with "
                   "--threads, or raise the limit (ulimit -v)",
                   units_bytes(size, (double)bytes), "128 MiB");
}

// Makes the library take a buffer for each thread of all devices. One without these functions is asked by the first
// product.
static void buffers_take(Blas *blas, int count) {
  void *(*take)(int) = NULL;
  void (*give)(void *) = NULL;
  if (!find(blas->library, "blas_memory_alloc", &take) || !find(blas->library, "blas_memory_free", &give)) {
    return;
  }
  void **buffer = calloc((size_t)count, sizeof *buffer);
  for (int i = 0; buffer && i < count; i++) {
    buffer[i] = take(0);
  }
  for (int i = 0; buffer && i < count; i++) {
    give(buffer[i]);
  }
  free(buffer);
}

static bool threads_add(Blas *blas, int threads, Error *error) {
  pthread_mutex_lock(&taken.mutex);
  int wanted = taken.threads + threads;
  wanted = wanted < BUFFERS_MOST ? wanted : BUFFERS_MOST;
  const int more = wanted - taken.buffers;
  const bool done = more <= 0 || memory_probe(more, BUFFER_BYTES) || out_of_memory(more * BUFFER_BYTES, error);
  if (done) {
    if (more > 0) {
      buffers_take(blas, wanted);
      taken.buffers = wanted;
    }
    blas->threads = threads;
    taken.threads += threads;
  }
  pthread_mutex_unlock(&taken.mutex);
  return done;
}

// The loader tells of memory in words of its own, some of which it also uses for a file system without programs.
static bool loader_lacks_memory(const char *why) {
  static const char *const words[] = {
      "failed to map segment", "cannot map zero-fill", "cannot create", "cannot extend", "allocate", "memory"};
  bool found = strstr(why, strerror(ENOMEM)) != NULL;
  for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
    found |= strstr(why, words[i]) != NULL;
  }
  return found && !strstr(why, strerror(EPERM)) && !strstr(why, strerror(EACCES));
}

// `why`: what the loader said.
static bool not_opened(const char *why, Error *error) {
  const char *what = library_names[0];
  if (loader_lacks_memory(why)) {
    return error_set(error, 3, "no memory to open OpenBLAS: %s", why);
  }
  if (strstr(why, strerror(ENOENT))) {
    return error_set(error, 1,
                     "the CPU backend needs OpenBLAS, and %s could not be opened: %s; install it (Debian package "
                     "libopenblas0-pthread)",
                     what, why);
  }
  return error_set(error, 1, "the CPU backend needs OpenBLAS, and %s could not be opened: %s", what, why);
}

// The library takes a buffer for itself when it is opened.
static void *library_open(Error *error) {
  char why[512] = "";  // of the first name, unless that is not there
  pthread_mutex_lock(&taken.mutex);
  const bool fits = taken.library || memory_probe(1, BUFFER_BYTES + LIBRARY_BYTES);
  for (size_t i = 0; fits && !taken.library && i < sizeof library_names / sizeof library_names[0]; i++) {
    taken.library = dlopen(library_names[i], RTLD_NOW | RTLD_LOCAL);
    const char *said = taken.library ? NULL : dlerror();
    if (said && (i == 0 || (strstr(why, strerror(ENOENT)) && !strstr(said, strerror(ENOENT))))) {
      snprintf(why, sizeof why, "%s", said);
    }
  }
  void *library = taken.library;
  pthread_mutex_unlock(&taken.mutex);
  if (!fits) {
    out_of_memory(BUFFER_BYTES + LIBRARY_BYTES, error);
  } else if (!library) {
    not_opened(why, error);
  }
  return library;
}

bool blas_open(Blas *blas, int threads, Error *error) {
  *blas = (Blas){0};
  prepare_environment();
  blas->library = library_open(error);
  if (!blas->library) {
    return false;
  }
  void (*set_threads)(int) = NULL;
  if (!find(blas->library, "cblas_sgemm", &blas->sgemm) || !find(blas->library, "cblas_dgemm", &blas->dgemm)) {
    blas_close(blas);
    return error_set(error, 1,
                     "%s has no cblas_sgemm or cblas_dgemm; install OpenBLAS with its C interface (Debian package "
                     "libopenblas0-pthread)",
                     library_names[0]);
  }
  if (find(blas->library, "openblas_set_num_threads", &set_threads)) {
    set_threads(1);
  }
  if (!threads_add(blas, threads, error)) {
    blas_close(blas);
    return false;
  }
  return true;
}

void blas_close(Blas *blas) {
  pthread_mutex_lock(&taken.mutex);
  taken.threads -= blas->threads;
  pthread_mutex_unlock(&taken.mutex);
  *blas = (Blas){0};
}

void blas_gemm(const Blas *blas, const BlasGemm *gemm, const void *a, const void *b, void *c) {
  const int transpose_a = gemm->transpose_a ? BLAS_TRANSPOSE : BLAS_NO_TRANSPOSE;
  const int transpose_b = gemm->transpose_b ? BLAS_TRANSPOSE : BLAS_NO_TRANSPOSE;
  const int m = (int)gemm->m, n = (int)gemm->n, k = (int)gemm->k;
  const int lda = (int)gemm->lda, ldb = (int)gemm->ldb, ldc = (int)gemm->ldc;
  if (gemm->type == TYPE_F32) {
    blas->sgemm(BLAS_ROW_MAJOR, transpose_a, transpose_b, m, n, k, (float)gemm->alpha, a, lda, b, ldb,
                (float)gemm->beta, c, ldc);
  } else {
    blas->dgemm(BLAS_ROW_MAJOR, transpose_a, transpose_b, m, n, k, gemm->alpha, a, lda, b, ldb, gemm->beta, c, ldc);
  }
}
