// compile.c: NVRTC and the cache of its results.
#include "kernels/cuda/compile.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/file.h"
#include "base/library.h"

typedef struct NvrtcProgram NvrtcProgram;

typedef struct {  // the interface of NVRTC, our declaration; results: 0 is success
  int (*version)(int *major, int *minor);
  const char *(*error_text)(int result);
  int (*create)(NvrtcProgram **program, const char *text, const char *name, int headers, const char *const *header,
                const char *const *include);
  int (*destroy)(NvrtcProgram **program);
  int (*compile)(NvrtcProgram *program, int count, const char *const *options);
  int (*log_size)(NvrtcProgram *program, size_t *bytes);
  int (*log)(NvrtcProgram *program, char *log);
  int (*cubin_size)(NvrtcProgram *program, size_t *bytes);
  int (*cubin)(NvrtcProgram *program, char *code);
  int (*ptx_size)(NvrtcProgram *program, size_t *bytes);
  int (*ptx)(NvrtcProgram *program, char *code);
} Nvrtc;

static const LibrarySymbol nvrtc_symbols[] = {
    {"nvrtcVersion", offsetof(Nvrtc, version), false},
    {"nvrtcGetErrorString", offsetof(Nvrtc, error_text), false},
    {"nvrtcCreateProgram", offsetof(Nvrtc, create), false},
    {"nvrtcDestroyProgram", offsetof(Nvrtc, destroy), false},
    {"nvrtcCompileProgram", offsetof(Nvrtc, compile), false},
    {"nvrtcGetProgramLogSize", offsetof(Nvrtc, log_size), false},
    {"nvrtcGetProgramLog", offsetof(Nvrtc, log), false},
    {"nvrtcGetCUBINSize", offsetof(Nvrtc, cubin_size), false},
    {"nvrtcGetCUBIN", offsetof(Nvrtc, cubin), false},
    {"nvrtcGetPTXSize", offsetof(Nvrtc, ptx_size), false},
    {"nvrtcGetPTX", offsetof(Nvrtc, ptx), false},
};

enum { PATH_MAX_BYTES = 1024, NVRTC_LEAST_MAJOR = 12 };

static const char options_version[] = "1";  // of the options that texts are compiled with

struct CudaCompiler {
  Nvrtc nvrtc;
  void *handle;
  int major, minor;
  bool ptx;  // the target is compute_*, which gives text for the driver to compile
  char target[16], version[32], cache[PATH_MAX_BYTES];
  int64_t compiled;
};

typedef struct {  // of a file of the cache; the code follows
  char magic[8];
  uint64_t name_hash, code_hash, bytes;
} CacheHeader;

static const char cache_magic[8] = "mdlcubin";

static bool folders_make(const char *path) {
  char part[PATH_MAX_BYTES];
  const size_t length = strlen(path);
  for (size_t i = 1; i <= length && i < sizeof part; i++) {
    if (path[i] == '/' || path[i] == '\0') {
      memcpy(part, path, i);
      part[i] = '\0';
      if (mkdir(part, 0777) != 0 && errno != EEXIST) {
        return false;
      }
    }
  }
  return true;
}

bool cuda_cache_folder(const char *cache, char *path, size_t size) {
  if (!*cache) {
    return file_cache_folder(path, size) && folders_make(path);
  }
  const int length = snprintf(path, size, "%s", cache);
  return length > 0 && (size_t)length < size && folders_make(path);
}

bool cuda_compiler_open(const char *target, const char *cache, CudaCompiler **out, char *message, size_t size) {
  static const char *const names[] = {"libnvrtc.so.13",
                                      "libnvrtc.so.12",
                                      "/usr/local/cuda/lib64/libnvrtc.so",
                                      "/usr/local/cuda/lib/libnvrtc.so",
                                      "libnvrtc.so",
                                      NULL};
  CudaCompiler *compiler = calloc(1, sizeof *compiler);
  if (!compiler) {
    snprintf(message, size, "no memory");
    return false;
  }
  snprintf(compiler->target, sizeof compiler->target, "%s", target);
  compiler->ptx = strncmp(target, "compute_", 8) == 0;
  if (!compiler->ptx && strncmp(target, "sm_", 3) != 0) {
    snprintf(message, size, "the target '%s' is neither sm_… nor compute_…", target);
    free(compiler);
    return false;
  }
  if (!library_open(names, nvrtc_symbols, sizeof nvrtc_symbols / sizeof *nvrtc_symbols, &compiler->nvrtc,
                    &compiler->handle, message, size)) {
    free(compiler);
    return false;
  }
  compiler->nvrtc.version(&compiler->major, &compiler->minor);
  snprintf(compiler->version, sizeof compiler->version, "NVRTC %d.%d", compiler->major, compiler->minor);
  if (compiler->major < NVRTC_LEAST_MAJOR) {
    snprintf(message, size, "%s is too old: %d.0 or newer is needed", compiler->version, NVRTC_LEAST_MAJOR);
    cuda_compiler_close(compiler);
    return false;
  }
  if (!cache || !cuda_cache_folder(cache, compiler->cache, sizeof compiler->cache - 64)) {
    compiler->cache[0] = '\0';
  }
  *out = compiler;
  return true;
}

void cuda_compiler_close(CudaCompiler *compiler) {
  free(compiler);  // the library stays open: it does not give back all of its memory when it is closed
}

bool cuda_compiler_present(const char *target) {
  char message[256];
  CudaCompiler *compiler = NULL;
  const bool present = cuda_compiler_open(target, NULL, &compiler, message, sizeof message);
  cuda_compiler_close(present ? compiler : NULL);
  return present;
}

const char *cuda_compiler_version(const CudaCompiler *compiler) {
  return compiler->version;
}

int64_t cuda_compiler_compiled(const CudaCompiler *compiler) {
  return compiler->compiled;
}

uint64_t cuda_text_hash(const char *text) {
  return XXH64(text, strlen(text), strtoull(options_version, NULL, 10));
}

uint64_t cuda_compiler_hash(const CudaCompiler *compiler, const char *text) {
  char key[64];
  snprintf(key, sizeof key, "%s %s %d.%d", options_version, compiler->target, compiler->major, compiler->minor);
  return XXH64(text, strlen(text), XXH64(key, strlen(key), 0));
}

void cuda_binary_free(CudaBinary *binary) {
  free(binary->code);
  *binary = (CudaBinary){0};
}

static void cache_path(const CudaCompiler *compiler, uint64_t hash, char path[PATH_MAX_BYTES]) {
  snprintf(path, PATH_MAX_BYTES, "%.*s/%016" PRIx64 ".%s", (int)(PATH_MAX_BYTES - 40), compiler->cache, hash,
           compiler->ptx ? "ptx" : "cubin");
}

static bool cache_read(const CudaCompiler *compiler, uint64_t hash, CudaBinary *binary) {
  char path[PATH_MAX_BYTES];
  CacheHeader header;
  cache_path(compiler, hash, path);
  FILE *file = fopen(path, "rb");
  if (!file) {
    return false;
  }
  bool good = fread(&header, sizeof header, 1, file) == 1 && memcmp(header.magic, cache_magic, 8) == 0 &&
              header.name_hash == hash && header.bytes > 0 && header.bytes < (uint64_t)1 << 31;
  if (good) {
    *binary = (CudaBinary){malloc(header.bytes), header.bytes};
    good = binary->code && fread(binary->code, 1, header.bytes, file) == header.bytes &&
           XXH64(binary->code, header.bytes, 0) == header.code_hash;
    if (!good) {
      cuda_binary_free(binary);
    }
  }
  fclose(file);
  return good;
}

// A cache that cannot be written is no error: it is only slower next time.
static void cache_write(const CudaCompiler *compiler, uint64_t hash, const CudaBinary *binary) {
  char path[PATH_MAX_BYTES], beside[PATH_MAX_BYTES + 32];
  CacheHeader header = {.name_hash = hash, .code_hash = XXH64(binary->code, binary->bytes, 0), .bytes = binary->bytes};
  memcpy(header.magic, cache_magic, sizeof header.magic);
  cache_path(compiler, hash, path);
  snprintf(beside, sizeof beside, "%s.XXXXXX", path);
  const int descriptor = mkstemp(beside);
  FILE *file = descriptor < 0 ? NULL : fdopen(descriptor, "wb");
  if (!file) {
    if (descriptor >= 0) {
      close(descriptor);
      unlink(beside);
    }
    return;
  }
  bool good =
      fwrite(&header, sizeof header, 1, file) == 1 && fwrite(binary->code, 1, binary->bytes, file) == binary->bytes;
  good = fclose(file) == 0 && good;
  if (!good || rename(beside, path) != 0) {
    unlink(beside);
  }
}

static bool program_take(const CudaCompiler *compiler, NvrtcProgram *program, CudaBinary *binary) {
  const Nvrtc *nvrtc = &compiler->nvrtc;
  size_t bytes = 0;
  if ((compiler->ptx ? nvrtc->ptx_size : nvrtc->cubin_size)(program, &bytes) != 0 || bytes == 0) {
    return false;
  }
  *binary = (CudaBinary){malloc(bytes), bytes};
  if (binary->code && (compiler->ptx ? nvrtc->ptx : nvrtc->cubin)(program, binary->code) == 0) {
    return true;
  }
  cuda_binary_free(binary);
  return false;
}

static void log_take(const CudaCompiler *compiler, NvrtcProgram *program, const char *name, const char *why,
                     char *message, size_t size) {
  size_t bytes = 0;
  compiler->nvrtc.log_size(program, &bytes);
  char *log = calloc(1, bytes + 1);
  if (log) {
    compiler->nvrtc.log(program, log);
  }
  snprintf(message, size, "%s did not compile for %s with %s: %s\n%s", name, compiler->target, compiler->version, why,
           log ? log : "");
  free(log);
}

static bool text_compile(CudaCompiler *compiler, const char *name, const char *text, CudaBinary *binary, char *message,
                         size_t size) {
  const Nvrtc *nvrtc = &compiler->nvrtc;
  char architecture[48];
  snprintf(architecture, sizeof architecture, "--gpu-architecture=%s", compiler->target);
  const char *const options[] = {architecture, "--std=c++17", "--fmad=true"};
  const int count = (int)(sizeof options / sizeof *options);
  NvrtcProgram *program = NULL;
  int result = nvrtc->create(&program, text, name, 0, NULL, NULL);
  if (result != 0) {
    snprintf(message, size, "%s: %s", name, nvrtc->error_text(result));
    return false;
  }
  result = nvrtc->compile(program, count, options);
  const bool good = result == 0 && program_take(compiler, program, binary);
  if (!good) {
    log_take(compiler, program, name, nvrtc->error_text(result), message, size);
  }
  nvrtc->destroy(&program);
  compiler->compiled++;
  return good;
}

bool cuda_compile(CudaCompiler *compiler, const char *name, const char *text, CudaBinary *binary, char *message,
                  size_t size) {
  const uint64_t hash = cuda_compiler_hash(compiler, text);
  if (compiler->cache[0] && cache_read(compiler, hash, binary)) {
    return true;
  }
  if (!text_compile(compiler, name, text, binary, message, size)) {
    return false;
  }
  if (compiler->cache[0]) {
    cache_write(compiler, hash, binary);
  }
  return true;
}
