// bench_copy.h: how many bytes a second a GPU's own copy reads and writes: what kernels that move memory are held to.
#ifndef MDL_TESTS_BENCH_COPY_H
#define MDL_TESTS_BENCH_COPY_H

#include "runtime/cuda/driver.h"

enum { COPY_ROUNDS = 20 };
static const size_t COPY_BYTES = (size_t)1 << 30;

static bool copy_rounds(const Cuda *cuda, CudaStream stream, CudaAddress to, CudaAddress from, double *rate,
                        Error *error) {
  CudaEvent begin = NULL, end = NULL;
  bool good = cuda_check(cuda, cuda->event_create(&begin, CUDA_EVENT_DEFAULT), "making an event", error) &&
              cuda_check(cuda, cuda->event_create(&end, CUDA_EVENT_DEFAULT), "making an event", error);
  for (int i = 0; good && i < COPY_ROUNDS; i++) {
    float milliseconds = 0;
    good = cuda_check(cuda, cuda->event_record(begin, stream), "timing", error) &&
           cuda_check(cuda, cuda->copy_within(to, from, COPY_BYTES, stream), "copying", error) &&
           cuda_check(cuda, cuda->event_record(end, stream), "timing", error) &&
           cuda_check(cuda, cuda->event_synchronize(end), "waiting", error) &&
           cuda_check(cuda, cuda->event_elapsed(&milliseconds, begin, end), "timing", error);
    const double reached = 2 * (double)COPY_BYTES / ((double)milliseconds / 1e3);
    *rate = good && reached > *rate ? reached : *rate;
  }
  if (begin) {
    cuda->event_destroy(begin);
  }
  if (end) {
    cuda->event_destroy(end);
  }
  return good;
}

// The best of 20 copies of 1 GiB, bytes read and written together, on the device whose context is current.
static bool copy_rate(const Cuda *cuda, CudaStream stream, double *rate, Error *error) {
  CudaAddress from = 0, to = 0;
  *rate = 0;
  const bool good = cuda_check(cuda, cuda->memory_allocate(&from, COPY_BYTES), "allocating", error) &&
                    cuda_check(cuda, cuda->memory_allocate(&to, COPY_BYTES), "allocating", error) &&
                    cuda_check(cuda, cuda->fill_words(from, 0x3f80a1b2, COPY_BYTES / 4, stream), "filling", error) &&
                    copy_rounds(cuda, stream, to, from, rate, error);
  if (from) {
    cuda->memory_free(from);
  }
  if (to) {
    cuda->memory_free(to);
  }
  return good;
}

#endif
