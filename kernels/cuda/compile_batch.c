// compile_batch.c: threads that take one text after the other.
#include "kernels/cuda/compile_batch.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/numeric.h"

enum { THREADS_MAX = 64, STACK_BYTES = 16 << 20 };

typedef struct {  // what the threads share
  const CudaBatch *batch;
  CudaJob *const *jobs;
  int count;
  char *version;  // written by the caller's thread
  atomic_int next, done;
  atomic_long compiled;
} Work;

static void work_do(Work *work, bool watched) {
  const CudaBatch *batch = work->batch;
  CudaCompiler *compiler = NULL;
  char message[CUDA_MESSAGE_MAX] = "";
  const bool open = cuda_compiler_open(batch->target, batch->cache, &compiler, message, sizeof message);
  if (open && watched && work->version) {
    snprintf(work->version, 32, "%s", cuda_compiler_version(compiler));
  }
  for (int i; (i = atomic_fetch_add(&work->next, 1)) < work->count;) {
    CudaJob *job = work->jobs[i];
    if (!job->binary.code) {
      if (!open) {
        memcpy(job->message, message, sizeof message);
      }
      job->failed =
          !open || !cuda_compile(compiler, job->name, job->text, &job->binary, job->message, sizeof job->message);
    }
    const int done = atomic_fetch_add(&work->done, 1) + 1;
    if (watched && batch->progress) {
      batch->progress(batch->context, done, work->count);
    }
  }
  if (open) {
    atomic_fetch_add(&work->compiled, (long)cuda_compiler_compiled(compiler));
    cuda_compiler_close(compiler);
  }
}

static void *work_main(void *argument) {
  numeric_enter();
  work_do(argument, false);
  return NULL;
}

int64_t cuda_compile_batch(const CudaBatch *batch, CudaJob *const *jobs, int count, char version[32]) {
  Work work = {.batch = batch, .jobs = jobs, .count = count, .version = version};
  pthread_t threads[THREADS_MAX];
  pthread_attr_t attributes;
  const long cores = sysconf(_SC_NPROCESSORS_ONLN);
  int wanted = cores < 1 ? 1 : cores > THREADS_MAX ? THREADS_MAX : (int)cores, started = 0;
  wanted = wanted > count ? count : wanted;
  if (version) {
    version[0] = '\0';
  }
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, STACK_BYTES);  // compilers recurse deeply
  while (started < wanted - 1 && pthread_create(&threads[started], &attributes, work_main, &work) == 0) {
    started++;
  }
  pthread_attr_destroy(&attributes);
  work_do(&work, true);
  for (int i = 0; i < started; i++) {
    pthread_join(threads[i], NULL);
  }
  if (batch->progress) {
    batch->progress(batch->context, count, count);
  }
  return (int64_t)work.compiled;
}
