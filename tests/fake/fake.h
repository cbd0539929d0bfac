// fake.h: what the stand-ins for the driver and its libraries know of each other.
#ifndef MDL_TESTS_FAKE_H
#define MDL_TESTS_FAKE_H

#include "runtime/cuda/driver.h"

enum { DRIVER_INVALID = 1, DRIVER_NOT_INITIALISED = 3, DRIVER_NOT_PERMITTED = 800 };  // CudaStatus

// What runtime/cuda/driver.h looks up, under the names of the library.
#define FAKE_FUNCTION(name, symbol, version, parameters) CudaStatus symbol parameters;
CUDA_DRIVER_FUNCTIONS(FAKE_FUNCTION)
#undef FAKE_FUNCTION

// Puts a call on a stream, or into what it captures: `bytes` of data are copied and given to each call.
CudaStatus fake_call(CudaStream stream, void (*call)(void *data), const void *data, size_t bytes);

#endif
