// bench_cuda.c: what the GPU and its driver can do, before any of ours: copy bandwidth, CUDA graphs by their size.
//
//   bench_cuda copy       bytes read and written a second by a device copy of 2 GiB
//   bench_cuda graphs     graphs of 500, 5,000 and 50,000 nodes: seconds to capture, make and launch, time of a node
//   bench_cuda epilogues  matrix products of GPT-2 by cuBLASLt, plain and with each epilogue that could serve them
//   bench_cuda products   matrix products of a Llama 8B in bf16 and in 8 bits, forward and gradients
//   bench_cuda stores     kernels that store in two orders, against the rate of a copy
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/compile.h"
#include "runtime/clock.h"
#include "runtime/cuda/driver.h"
#include "tests/bench_copy.h"
#include "tests/bench_epilogues.h"
#include "tests/bench_products.h"
#include "tests/bench_stores.h"

enum { LAUNCH_ROUNDS = 10, WIDE = 132 };

typedef struct {
  Cuda cuda;
  CudaDevice gpu;
  CudaStream stream;
  CudaEvent begin, end;
} Bench;

static void check(const Bench *bench, CudaStatus status, const char *what) {
  Error error;
  if (!cuda_check(&bench->cuda, status, what, &error)) {
    fprintf(stderr, "bench_cuda: %s\n", error.text);
    exit(1);
  }
}

static double elapsed(const Bench *bench) {
  float milliseconds = 0;
  check(bench, bench->cuda.event_synchronize(bench->end), "waiting");
  check(bench, bench->cuda.event_elapsed(&milliseconds, bench->begin, bench->end), "timing");
  return (double)milliseconds / 1e3;
}

static void copy(const Bench *bench) {
  double rate;
  Error error;
  if (!copy_rate(&bench->cuda, bench->stream, &rate, &error)) {
    fprintf(stderr, "bench_cuda: %s\n", error.text);
    exit(1);
  }
  printf("copy %.2f TB/s read and written, of %.2f by the memory's clock, on %s\n", rate / 1e12,
         bench->gpu.memory_rate / 1e12, bench->gpu.name);
}

static CudaFunction touch_load(const Bench *bench) {
  static const char text[] =
      "struct Slots { unsigned long long at[3]; };\n"
      "extern \"C\" __global__ void touch(Slots slots) {\n"
      "  ((float *)slots.at[0])[blockIdx.x * 256 + threadIdx.x] += 1.0f;\n"
      "}\n";
  CudaCompiler *compiler = NULL;
  CudaBinary binary;
  CudaModule module = NULL;
  CudaFunction function = NULL;
  char message[1024];
  if (!cuda_compiler_open(bench->gpu.target, NULL, &compiler, message, sizeof message) ||
      !cuda_compile(compiler, "touch", text, &binary, message, sizeof message)) {
    fprintf(stderr, "bench_cuda: %s\n", message);
    exit(1);
  }
  check(bench, bench->cuda.module_load(&module, binary.code), "loading");
  check(bench, bench->cuda.module_function(&function, module, "touch"), "finding");
  cuda_binary_free(&binary);
  cuda_compiler_close(compiler);
  return function;
}

static void graph(const Bench *bench, CudaFunction touch, CudaAddress memory, int nodes) {
  const Cuda *cuda = &bench->cuda;
  uint64_t slots[3] = {memory, 0, 0};
  void *parameters[] = {slots};
  CudaGraph made = NULL;
  CudaGraphExec exec = NULL;
  const double start = clock_seconds();
  check(bench, cuda->capture_begin(bench->stream, CUDA_CAPTURE_THREAD_LOCAL), "capturing");
  for (int i = 0; i < nodes; i++) {
    check(bench, cuda->launch(touch, WIDE, 1, 1, 256, 1, 1, 0, bench->stream, parameters, NULL), "launching");
  }
  check(bench, cuda->capture_end(bench->stream, &made), "capturing");
  const double captured = clock_seconds();
  check(bench, cuda->graph_instantiate(&exec, made, 0), "making a graph");
  check(bench, cuda->graph_upload(exec, bench->stream), "uploading");
  check(bench, cuda->stream_synchronize(bench->stream), "uploading");
  const double instantiated = clock_seconds();
  double host = 1e30, device = 1e30;
  for (int i = 0; i < LAUNCH_ROUNDS; i++) {
    const double before = clock_seconds();
    check(bench, cuda->event_record(bench->begin, bench->stream), "timing");
    check(bench, cuda->graph_launch(exec, bench->stream), "launching a graph");
    check(bench, cuda->event_record(bench->end, bench->stream), "timing");
    const double launched = clock_seconds() - before, seconds = elapsed(bench);
    host = launched < host ? launched : host;
    device = seconds < device ? seconds : device;
  }
  double pair = 1e30;  // two launches one behind the other: what is between them
  for (int i = 0; i < LAUNCH_ROUNDS; i++) {
    check(bench, cuda->event_record(bench->begin, bench->stream), "timing");
    check(bench, cuda->graph_launch(exec, bench->stream), "launching a graph");
    check(bench, cuda->graph_launch(exec, bench->stream), "launching a graph");
    check(bench, cuda->event_record(bench->end, bench->stream), "timing");
    const double seconds = elapsed(bench);
    pair = seconds < pair ? seconds : pair;
  }
  printf(
      "graph of %5d nodes: capture %.1f ms, make %.1f ms, launch %.0f us on the host, %.2f us a node, gap between two "
      "launches %.1f us\n",
      nodes, (captured - start) * 1e3, (instantiated - captured) * 1e3, host * 1e6, device / nodes * 1e6,
      (pair - 2 * device) * 1e6);
  cuda->graph_exec_destroy(exec);
  cuda->graph_destroy(made);
}

static void graphs(const Bench *bench) {
  CudaAddress memory = 0;
  const CudaFunction touch = touch_load(bench);
  check(bench, bench->cuda.memory_allocate(&memory, WIDE * 256 * sizeof(float)), "allocating");
  for (int nodes = 500; nodes <= 50000; nodes *= 10) {
    graph(bench, touch, memory, nodes);
  }
  bench->cuda.memory_free(memory);
}

static void epilogues(const Bench *bench) {
  epilogues_print(&bench->cuda, bench->stream, bench->begin, bench->end);
}

static void products(const Bench *bench) {
  products_print(&bench->cuda, &bench->gpu, bench->stream, bench->begin, bench->end);
}

static void stores(const Bench *bench) {
  stores_print(&bench->cuda, &bench->gpu, bench->stream, bench->begin, bench->end);
}

typedef struct {
  const char *word;
  void (*run)(const Bench *bench);
} Subject;

static const Subject subjects[] = {
    {"copy", copy}, {"graphs", graphs}, {"epilogues", epilogues}, {"products", products}, {"stores", stores}};

int main(int count, char **words) {
  Bench bench = {0};
  Error error;
  const Subject *subject = NULL;
  for (size_t i = 0; count == 2 && i < sizeof subjects / sizeof *subjects; i++) {
    subject = strcmp(words[1], subjects[i].word) == 0 ? &subjects[i] : subject;
  }
  if (!subject) {
    fprintf(stderr, "usage: bench_cuda copy|graphs|epilogues|products|stores\n");
    return 2;
  }
  if (!cuda_open(&bench.cuda, &error) || !cuda_device_open(&bench.cuda, 0, &bench.gpu, &error)) {
    fprintf(stderr, "bench_cuda: %s\n", error.text);
    return 1;
  }
  check(&bench, bench.cuda.stream_create(&bench.stream, CUDA_STREAM_NON_BLOCKING), "making a stream");
  check(&bench, bench.cuda.event_create(&bench.begin, CUDA_EVENT_DEFAULT), "making an event");
  check(&bench, bench.cuda.event_create(&bench.end, CUDA_EVENT_DEFAULT), "making an event");
  subject->run(&bench);
  cuda_device_close(&bench.cuda, &bench.gpu);
  cuda_close(&bench.cuda);
  return 0;
}
