// compile.h: CUDA C text to machine code through NVRTC, opened at run time; a cache of the results on disk.
//
// The cache is a folder of files named by a hash of text, target, options and NVRTC's version; they are written beside
// and renamed, so that programs that run at once cannot see half of one. A file that is not what was written (its hash
// is inside) is compiled again.
#ifndef MDL_KERNELS_CUDA_COMPILE_H
#define MDL_KERNELS_CUDA_COMPILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct CudaCompiler CudaCompiler;

// The folder of the cache, made if missing: `cache` itself, or with "" the user's (MDL_CACHE, or XDG_CACHE_HOME/mdl, or
// ~/.cache/mdl). False: there is none, or its name is too long.
bool cuda_cache_folder(const char *cache, char *path, size_t size);

typedef struct {
  void *code;  // malloc'ed
  size_t bytes;
} CudaBinary;

// target: sm_80, sm_90a, ..., or compute_80 for PTX. cache: as above; NULL: none. On failure `message` says which
// library or version is missing.
bool cuda_compiler_open(const char *target, const char *cache, CudaCompiler **compiler, char *message, size_t size);
bool cuda_compiler_present(const char *target);  // whether one would open
void cuda_compiler_close(CudaCompiler *compiler);
const char *cuda_compiler_version(const CudaCompiler *compiler);  // "NVRTC 13.0"

// The name is for messages. On failure `message` holds the first errors of the compiler's log.
bool cuda_compile(CudaCompiler *compiler, const char *name, const char *text, CudaBinary *binary, char *message,
                  size_t size);
void cuda_binary_free(CudaBinary *binary);
int64_t cuda_compiler_compiled(const CudaCompiler *compiler);  // texts that were not in the cache

// A hash of text, target, options and version: what names a kernel in the cache.
uint64_t cuda_compiler_hash(const CudaCompiler *compiler, const char *text);

// A hash of text and options, the same on every machine: what names a kernel in a plan's file, where target and version
// stand beside it.
uint64_t cuda_text_hash(const char *text);

#endif
