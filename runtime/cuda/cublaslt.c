// cublaslt.c: opens cuBLASLt.
#include "runtime/cuda/cublaslt.h"

#include <stddef.h>

#include "base/library.h"

static const LibrarySymbol cublaslt_symbols[] = {
#define CUBLASLT_FUNCTION(name, symbol, parameters) {#symbol, offsetof(CublasLt, name), false},
    CUBLASLT_FUNCTIONS(CUBLASLT_FUNCTION)
#undef CUBLASLT_FUNCTION
        {"cublasLtGetVersion", offsetof(CublasLt, version), false},
    {"cublasLtGetStatusString", offsetof(CublasLt, status_text), false},
};

bool cublaslt_open(CublasLt *lt, Error *error) {
  static const char *const names[] = {"libcublasLt.so.13", "libcublasLt.so.12", "/usr/local/cuda/lib64/libcublasLt.so",
                                      "libcublasLt.so", NULL};
  char message[512];
  *lt = (CublasLt){0};
  if (!library_open(names, cublaslt_symbols, sizeof cublaslt_symbols / sizeof *cublaslt_symbols, lt, &lt->handle,
                    message, sizeof message)) {
    return error_set(error, 1, "matrix products need cuBLASLt: %s", message);
  }
  const size_t version = lt->version();
  if (version < CUBLASLT_LEAST) {
    cublaslt_close(lt);
    return error_set(error, 1, "cuBLASLt is version %zu.%zu; %d.%d or newer is needed", version / 10000,
                     version % 10000 / 100, CUBLASLT_LEAST / 10000, CUBLASLT_LEAST % 10000 / 100);
  }
  return true;
}

void cublaslt_close(CublasLt *lt) {
  library_close(lt->handle);
  *lt = (CublasLt){0};
}

bool cublaslt_check(const CublasLt *lt, CublasStatus status, const char *what, Error *error) {
  return status == 0 || error_set(error, 1, "%s failed: %s", what, lt->status_text(status));
}
