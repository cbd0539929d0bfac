// blas.c: opening OpenBLAS.
#include "kernels/cpu/blas.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

static const char *const library_names[] = {"libopenblas.so.0", "libopenblas.so"};

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

bool blas_open(Blas *blas, Error *error) {
  *blas = (Blas){0};
  prepare_environment();
  for (size_t i = 0; !blas->library && i < sizeof library_names / sizeof library_names[0]; i++) {
    blas->library = dlopen(library_names[i], RTLD_NOW | RTLD_LOCAL);
  }
  if (!blas->library) {
    return error_set(error, 1,
                     "the CPU backend needs OpenBLAS, and %s could not be opened: %s; install it (Debian package "
                     "libopenblas0-pthread)",
                     library_names[0], dlerror());
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
  return true;
}

void blas_close(Blas *blas) {
  if (blas->library) {
    dlclose(blas->library);
  }
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
