// copies.c: see copies.h.
#include "runtime/cuda/copies.h"

#include <string.h>

bool copies_open(const Cuda *cuda, Copies *copies, Error *error) {
  *copies = (Copies){.cuda = cuda};
  CudaStatus status = cuda->stream_create(&copies->stream, CUDA_STREAM_NON_BLOCKING);
  status = status ? status : cuda->event_create(&copies->behind, CUDA_EVENT_NO_TIMING);
  status = status ? status : cuda->event_create(&copies->done, CUDA_EVENT_NO_TIMING);
  return cuda_check(cuda, status, "making a stream for copies", error);
}

void copies_close(Copies *copies) {
  if (copies->behind) {
    copies->cuda->event_destroy(copies->behind);
  }
  if (copies->done) {
    copies->cuda->event_destroy(copies->done);
  }
  if (copies->stream) {
    copies->cuda->stream_destroy(copies->stream);
  }
  *copies = (Copies){0};
}

bool copies_begin(Copies *copies, CudaStream main, CudaAddress from, const CopyPiece *pieces, int count, char *memory,
                  Error *error) {
  const Cuda *cuda = copies->cuda;
  CudaStatus status = cuda->event_record(copies->behind, main);
  status = status ? status : cuda->stream_wait(copies->stream, copies->behind, 0);
  for (int i = 0; i < count && !status; i++) {
    status = pieces[i].bytes == 0 ? 0
                                  : cuda->copy_out(memory + pieces[i].to, from + (uint64_t)pieces[i].offset,
                                                   (size_t)pieces[i].bytes, copies->stream);
  }
  copies->any = true;
  const CudaStatus recorded = cuda->event_record(copies->done, copies->stream);
  return cuda_check(cuda, status ? status : recorded, "copying out of the GPU", error);
}

bool copies_wait(Copies *copies, Error *error) {
  return !copies->any ||
         cuda_check(copies->cuda, copies->cuda->event_synchronize(copies->done), "copying out of the GPU", error);
}

void copies_run(Copies *copies) {
  memset(copies->held, 0, sizeof copies->held);
}

bool copies_hold(Copies *copies, int queue, CudaStream stream, bool captures, Error *error) {
  if (copies->held[queue] || !(captures || copies->any)) {
    return true;
  }
  copies->held[queue] = true;
  return cuda_check(copies->cuda,
                    copies->cuda->stream_wait(stream, copies->done, captures ? CUDA_EVENT_WAIT_EXTERNAL : 0),
                    "waiting for copies out of the GPU", error);
}
