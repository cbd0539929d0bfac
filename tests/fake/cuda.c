// cuda.c: a stand-in for NVIDIA's driver on machines without a GPU, for tests of what is done with streams, events,
// captured graphs and several processes. It runs no kernels.
//
// Memory of the device is memory of the process; a stream is a thread that does one thing after the other. It is strict
// where the driver is: a capture that is not joined again, a wait for a stream that captures, and a start in a process
// that was forked from one that had started it already are errors. FAKE_GPUS says how many GPUs there are.
#include "tests/fake/fake.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

CudaStatus cuGetProcAddress_v2(const char *symbol, void **function, int version, uint64_t flags, int *found);

enum { UNSUPPORTED = 801, CAPTURING = 900, UNJOINED = 904 };
enum { ISOLATION = 905, CAPTURED_EVENT = 907, FORKED_MAX = 64 };

typedef enum { OP_COPY, OP_FILL_BYTES, OP_FILL_WORDS, OP_WORD, OP_AWAIT, OP_RECORD, OP_WAIT, OP_CALL } OpKind;

typedef struct Op {
  OpKind kind;
  char *to;
  const char *from;
  size_t count;
  uint32_t value;
  CudaEvent event;
  uint64_t ticket;
  void (*call)(void *data);
  void *data;
  bool kept;  // the data is a graph's
  CudaStream stream;
  struct Op *next;
} Op;

typedef struct {
  int holders;  // graphs, and events recorded in it
  bool ended;
  CudaStream origin;
  CudaStream forked[FORKED_MAX];
  int forked_count;
  Op *first, **last;
  size_t count;
} Capture;

struct CUstream_st {
  pthread_t thread;
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  Op *first, **last;
  bool busy, stop;
  Capture *capture;
  uint64_t captured;  // ops, by which joins are known
  uint64_t joined;    // of them, those that the origin of the capture waits for
};

struct CUevent_st {
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  uint64_t recorded, done;
  Capture *capture;
  CudaStream stream;  // captured: where and after how many ops
  uint64_t at;
};

struct CUgraph_st {
  Capture *capture;
};

struct CUgraphExec_st {
  Capture *capture;
};

// --- streams ---

static void op_do(const Op *op) {
  switch (op->kind) {
    case OP_COPY:
      memcpy(op->to, op->from, op->count);
      return;
    case OP_FILL_BYTES:
      memset(op->to, (int)op->value, op->count);
      return;
    case OP_FILL_WORDS:
    case OP_WORD:
      for (size_t i = 0; i < op->count; i++) {
        __atomic_store_n((uint32_t *)(void *)op->to + i, op->value, __ATOMIC_SEQ_CST);
      }
      return;
    case OP_AWAIT:
      while (__atomic_load_n((const uint32_t *)(const void *)op->from, __ATOMIC_SEQ_CST) < op->value) {
        usleep(100);
      }
      return;
    case OP_CALL:
      op->call(op->data);
      return;
    default:
      pthread_mutex_lock(&op->event->mutex);
      if (op->kind == OP_RECORD) {
        op->event->done = op->ticket > op->event->done ? op->ticket : op->event->done;
        pthread_cond_broadcast(&op->event->changed);
      }
      while (op->event->done < op->ticket) {
        pthread_cond_wait(&op->event->changed, &op->event->mutex);
      }
      pthread_mutex_unlock(&op->event->mutex);
  }
}

static void op_free(Op *op) {
  if (!op->kept) {
    free(op->data);
  }
  free(op);
}

// For another capture, or NULL; what nobody holds any more is freed.
static void capture_hold(Capture **at, Capture *capture) {
  Capture *before = *at;
  if (capture) {
    __atomic_add_fetch(&capture->holders, 1, __ATOMIC_SEQ_CST);
  }
  *at = capture;
  if (!before || __atomic_sub_fetch(&before->holders, 1, __ATOMIC_SEQ_CST) > 0) {
    return;
  }
  for (Op *op = before->first, *next; op; op = next) {
    next = op->next;
    free(op->data);
    free(op);
  }
  free(before);
}

static void *stream_main(void *argument) {
  CudaStream stream = argument;
  pthread_mutex_lock(&stream->mutex);
  for (;;) {
    while (!stream->first && !stream->stop) {
      pthread_cond_wait(&stream->changed, &stream->mutex);
    }
    Op *op = stream->first;
    if (!op) {
      break;
    }
    stream->first = op->next;
    stream->last = stream->first ? stream->last : &stream->first;
    stream->busy = true;
    pthread_mutex_unlock(&stream->mutex);
    op_do(op);
    op_free(op);
    pthread_mutex_lock(&stream->mutex);
    stream->busy = false;
    pthread_cond_broadcast(&stream->changed);
  }
  pthread_mutex_unlock(&stream->mutex);
  return NULL;
}

static CudaStatus stream_submit(CudaStream stream, const Op *what) {
  Op *op = malloc(sizeof *op);
  *op = *what;
  op->next = NULL;
  if (op->kind == OP_RECORD || op->kind == OP_WAIT) {
    pthread_mutex_lock(&op->event->mutex);
    op->ticket = op->kind == OP_RECORD ? ++op->event->recorded : op->event->recorded;
    pthread_mutex_unlock(&op->event->mutex);
  }
  pthread_mutex_lock(&stream->mutex);
  *stream->last = op;
  stream->last = &op->next;
  pthread_cond_broadcast(&stream->changed);
  pthread_mutex_unlock(&stream->mutex);
  return 0;
}

static CudaStatus put(CudaStream stream, Op op) {
  Capture *capture = stream->capture;
  if (!capture) {
    return stream_submit(stream, &op);
  }
  Op *kept = malloc(sizeof *kept);
  *kept = op;
  kept->stream = stream;
  kept->kept = true;
  kept->next = NULL;
  *capture->last = kept;
  capture->last = &kept->next;
  capture->count++;
  stream->captured++;
  return 0;
}

CudaStatus fake_call(CudaStream stream, void (*call)(void *data), const void *data, size_t bytes) {
  Op op = {.kind = OP_CALL, .call = call, .data = malloc(bytes)};
  memcpy(op.data, data, bytes);
  return put(stream, op);
}

CudaStatus cuStreamCreate(CudaStream *stream, unsigned flags) {
  (void)flags;
  CudaStream made = calloc(1, sizeof *made);
  made->last = &made->first;
  pthread_mutex_init(&made->mutex, NULL);
  pthread_cond_init(&made->changed, NULL);
  *stream = made;
  return pthread_create(&made->thread, NULL, stream_main, made) == 0 ? 0 : DRIVER_INVALID;
}

CudaStatus cuStreamCreateWithPriority(CudaStream *stream, unsigned flags, int priority) {
  (void)priority;
  return cuStreamCreate(stream, flags);
}

CudaStatus cuStreamDestroy(CudaStream stream) {
  pthread_mutex_lock(&stream->mutex);
  stream->stop = true;
  pthread_cond_broadcast(&stream->changed);
  pthread_mutex_unlock(&stream->mutex);
  pthread_join(stream->thread, NULL);
  pthread_mutex_destroy(&stream->mutex);
  pthread_cond_destroy(&stream->changed);
  free(stream);
  return 0;
}

CudaStatus cuStreamSynchronize(CudaStream stream) {
  if (stream->capture) {
    return CAPTURING;
  }
  pthread_mutex_lock(&stream->mutex);
  while (stream->first || stream->busy) {
    pthread_cond_wait(&stream->changed, &stream->mutex);
  }
  pthread_mutex_unlock(&stream->mutex);
  return 0;
}

CudaStatus cuStreamQuery(CudaStream stream) {
  pthread_mutex_lock(&stream->mutex);
  const bool done = !stream->first && !stream->busy;
  pthread_mutex_unlock(&stream->mutex);
  return done ? 0 : CUDA_ERROR_NOT_READY;
}

CudaStatus cuStreamWaitEvent(CudaStream stream, CudaEvent event, unsigned flags) {
  (void)flags;
  Capture *capture = event->capture;
  if (capture && capture->ended) {
    return CAPTURED_EVENT;
  }
  if (!capture && stream->capture) {
    return ISOLATION;
  }
  if (capture && !stream->capture) {
    if (capture->forked_count == FORKED_MAX) {
      return DRIVER_INVALID;
    }
    stream->capture = capture;
    stream->captured = stream->joined = 0;
    capture->forked[capture->forked_count++] = stream;
  }
  if (capture && stream == capture->origin && event->stream != stream) {
    event->stream->joined = event->at > event->stream->joined ? event->at : event->stream->joined;
  }
  return put(stream, (Op){.kind = OP_WAIT, .event = event});
}

CudaStatus cuStreamWriteValue32(CudaStream stream, CudaAddress to, uint32_t value, unsigned flags) {
  (void)flags;
  if (getenv("FAKE_NO_WORDS") && stream->capture) {
    return UNSUPPORTED;
  }
  return put(stream, (Op){.kind = OP_WORD, .to = (char *)(uintptr_t)to, .count = 1, .value = value});
}

CudaStatus cuStreamWaitValue32(CudaStream stream, CudaAddress at, uint32_t least, unsigned flags) {
  (void)flags;
  return put(stream, (Op){.kind = OP_AWAIT, .from = (const char *)(uintptr_t)at, .value = least});
}

// --- events ---

CudaStatus cuEventCreate(CudaEvent *event, unsigned flags) {
  (void)flags;
  *event = calloc(1, sizeof **event);
  pthread_mutex_init(&(*event)->mutex, NULL);
  pthread_cond_init(&(*event)->changed, NULL);
  return 0;
}

CudaStatus cuEventDestroy(CudaEvent event) {
  capture_hold(&event->capture, NULL);
  pthread_mutex_destroy(&event->mutex);
  pthread_cond_destroy(&event->changed);
  free(event);
  return 0;
}

CudaStatus cuEventRecord(CudaEvent event, CudaStream stream) {
  const CudaStatus status = put(stream, (Op){.kind = OP_RECORD, .event = event});
  capture_hold(&event->capture, stream->capture);
  event->stream = stream;
  event->at = stream->captured;
  return status;
}

CudaStatus cuEventSynchronize(CudaEvent event) {
  if (event->capture) {
    return CAPTURED_EVENT;
  }
  pthread_mutex_lock(&event->mutex);
  for (const uint64_t ticket = event->recorded; event->done < ticket;) {
    pthread_cond_wait(&event->changed, &event->mutex);
  }
  pthread_mutex_unlock(&event->mutex);
  return 0;
}

CudaStatus cuEventQuery(CudaEvent event) {
  pthread_mutex_lock(&event->mutex);
  const bool done = event->done == event->recorded;
  pthread_mutex_unlock(&event->mutex);
  return done ? 0 : CUDA_ERROR_NOT_READY;
}

CudaStatus cuEventElapsedTime(float *milliseconds, CudaEvent from, CudaEvent to) {
  (void)from;
  (void)to;
  *milliseconds = 1;
  return 0;
}

// --- graphs ---

CudaStatus cuStreamBeginCapture(CudaStream stream, int mode) {
  if (stream->capture || mode != CUDA_CAPTURE_THREAD_LOCAL) {
    return DRIVER_INVALID;
  }
  stream->capture = calloc(1, sizeof *stream->capture);
  stream->capture->holders = 1;  // the stream, until it ends
  stream->capture->origin = stream;
  stream->capture->last = &stream->capture->first;
  return 0;
}

CudaStatus cuStreamEndCapture(CudaStream stream, CudaGraph *graph) {
  Capture *capture = stream->capture;
  CudaStatus status = 0;
  *graph = NULL;
  if (!capture || capture->origin != stream) {
    return DRIVER_INVALID;
  }
  for (int i = 0; i < capture->forked_count; i++) {
    CudaStream forked = capture->forked[i];
    status = forked->joined < forked->captured ? UNJOINED : status;
    forked->capture = NULL;
  }
  capture->ended = true;
  if (status == 0) {
    *graph = calloc(1, sizeof **graph);
    capture_hold(&(*graph)->capture, capture);
  }
  capture_hold(&stream->capture, NULL);
  return status;
}

CudaStatus cuGraphGetNodes(CudaGraph graph, CudaGraphNode *nodes, size_t *count) {
  (void)nodes;
  *count = graph->capture->count;
  return 0;
}

CudaStatus cuGraphInstantiateWithFlags(CudaGraphExec *exec, CudaGraph graph, unsigned long long flags) {
  (void)flags;
  *exec = calloc(1, sizeof **exec);
  capture_hold(&(*exec)->capture, graph->capture);
  return 0;
}

CudaStatus cuGraphUpload(CudaGraphExec exec, CudaStream stream) {
  (void)exec;
  return stream->capture ? CAPTURING : 0;
}

CudaStatus cuGraphLaunch(CudaGraphExec exec, CudaStream stream) {
  for (const Op *op = exec->capture->first; op; op = op->next) {
    stream_submit(op->stream == exec->capture->origin ? stream : op->stream, op);
  }
  return 0;
}

CudaStatus cuGraphExecDestroy(CudaGraphExec exec) {
  capture_hold(&exec->capture, NULL);
  free(exec);
  return 0;
}

CudaStatus cuGraphDestroy(CudaGraph graph) {
  capture_hold(&graph->capture, NULL);
  free(graph);
  return 0;
}

// --- copies ---

CudaStatus cuMemcpyHtoDAsync(CudaAddress to, const void *from, size_t bytes, CudaStream stream) {
  return put(stream, (Op){.kind = OP_COPY, .to = (char *)(uintptr_t)to, .from = from, .count = bytes});
}

CudaStatus cuMemcpyDtoHAsync(void *to, CudaAddress from, size_t bytes, CudaStream stream) {
  return put(stream, (Op){.kind = OP_COPY, .to = to, .from = (const char *)(uintptr_t)from, .count = bytes});
}

CudaStatus cuMemcpyDtoDAsync(CudaAddress to, CudaAddress from, size_t bytes, CudaStream stream) {
  return cuMemcpyHtoDAsync(to, (const void *)(uintptr_t)from, bytes, stream);
}

CudaStatus cuMemcpy2DAsync(const CudaRectangle *r, CudaStream stream) {
  const bool plain = r->from_kind == CUDA_MEMORY_DEVICE && r->to_kind == CUDA_MEMORY_DEVICE && r->from_x == 0 &&
                     r->from_y == 0 && r->to_x == 0 && r->to_y == 0;
  if (!plain || r->from_pitch < r->width || r->to_pitch < r->width) {
    return DRIVER_INVALID;
  }
  CudaStatus status = 0;
  for (size_t i = 0; i < r->height && status == 0; i++) {
    status = cuMemcpyDtoDAsync(r->to + i * r->to_pitch, r->from + i * r->from_pitch, r->width, stream);
  }
  return status;
}

CudaStatus cuMemsetD8Async(CudaAddress to, unsigned char value, size_t count, CudaStream stream) {
  return put(stream, (Op){.kind = OP_FILL_BYTES, .to = (char *)(uintptr_t)to, .count = count, .value = value});
}

CudaStatus cuMemsetD32Async(CudaAddress to, unsigned value, size_t count, CudaStream stream) {
  return put(stream, (Op){.kind = OP_FILL_WORDS, .to = (char *)(uintptr_t)to, .count = count, .value = value});
}

// --- the table ---

static CudaStatus unsupported(void) {
  return UNSUPPORTED;
}

CudaStatus cuGetProcAddress_v2(const char *symbol, void **function, int version, uint64_t flags, int *found) {
  static const struct {
    const char *name;
    void (*function)(void);
  } known[] = {
#define KNOWN(name) {#name, (void (*)(void))name}
      KNOWN(cuInit),
      KNOWN(cuDriverGetVersion),
      KNOWN(cuDeviceGetCount),
      KNOWN(cuDeviceGet),
      KNOWN(cuDeviceGetName),
      KNOWN(cuDeviceGetAttribute),
      KNOWN(cuDeviceTotalMem),
      KNOWN(cuDevicePrimaryCtxRetain),
      KNOWN(cuDevicePrimaryCtxRelease),
      KNOWN(cuCtxSetCurrent),
      KNOWN(cuCtxSynchronize),
      KNOWN(cuTensorMapEncodeTiled),
      KNOWN(cuGetErrorName),
      KNOWN(cuGetErrorString),
      KNOWN(cuMemGetInfo),
      KNOWN(cuMemAlloc),
      KNOWN(cuMemFree),
      KNOWN(cuMemHostAlloc),
      KNOWN(cuMemFreeHost),
      KNOWN(cuMemHostRegister),
      KNOWN(cuMemHostUnregister),
      KNOWN(cuMemHostGetDevicePointer),
      KNOWN(cuMemcpyHtoDAsync),
      KNOWN(cuMemcpyDtoHAsync),
      KNOWN(cuMemcpyDtoDAsync),
      KNOWN(cuMemcpy2DAsync),
      KNOWN(cuMemsetD8Async),
      KNOWN(cuMemsetD32Async),
      KNOWN(cuStreamCreate),
      KNOWN(cuStreamCreateWithPriority),
      KNOWN(cuStreamDestroy),
      KNOWN(cuStreamSynchronize),
      KNOWN(cuStreamQuery),
      KNOWN(cuStreamWaitEvent),
      KNOWN(cuStreamWriteValue32),
      KNOWN(cuStreamWaitValue32),
      KNOWN(cuStreamBeginCapture),
      KNOWN(cuStreamEndCapture),
      KNOWN(cuGraphGetNodes),
      KNOWN(cuGraphInstantiateWithFlags),
      KNOWN(cuGraphUpload),
      KNOWN(cuGraphLaunch),
      KNOWN(cuGraphExecDestroy),
      KNOWN(cuGraphDestroy),
      KNOWN(cuEventCreate),
      KNOWN(cuEventDestroy),
      KNOWN(cuEventRecord),
      KNOWN(cuEventQuery),
      KNOWN(cuEventSynchronize),
      KNOWN(cuEventElapsedTime)
#undef KNOWN
  };
  void (*answer)(void) = (void (*)(void))unsupported;
  (void)version;
  (void)flags;
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    answer = strcmp(known[i].name, symbol) == 0 ? known[i].function : answer;
  }
  memcpy(function, &answer, sizeof answer);
  if (found) {
    *found = 0;
  }
  return 0;
}
