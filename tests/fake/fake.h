// fake.h: what the stand-in for NCCL wants of the stand-in for the driver.
#ifndef MDL_TESTS_FAKE_H
#define MDL_TESTS_FAKE_H

#include "runtime/cuda/driver.h"

// Puts a call on a stream, or into what it captures: `bytes` of data are copied and given to each call.
CudaStatus fake_call(CudaStream stream, void (*call)(void *data), const void *data, size_t bytes);

#endif
