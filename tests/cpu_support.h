// cpu_support.h: plans of a few instructions over one arena, run on the CPU backend, for tests.
#ifndef MDL_TESTS_CPU_SUPPORT_H
#define MDL_TESTS_CPU_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka.h needs the four above.
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/device.h"
#include "tests/elements.h"
#include "tests/splitmix.h"

enum { BENCH_MAX = 64, BENCH_ALIGN = 64 };

// Instructions of one segment and the memory they work on: an image of the arena that runs are begun with.
typedef struct {
  Arena *arena;
  Plan plan;
  PlanSegment segment;
  PlanCall call;
  Instruction instruction[BENCH_MAX];
  Kernel *kernel[BENCH_MAX];
  char *image;
  int64_t bytes;
} Bench;

static inline Bench *bench_create(void) {
  Bench *bench = calloc(1, sizeof *bench);
  bench->arena = arena_create();
  bench->plan.kernels = bench->kernel;
  bench->plan.segments = &bench->segment;
  bench->plan.segment_count = 1;
  bench->segment.name = "test";
  bench->segment.instructions = bench->instruction;
  bench->call.first = true;
  bench->plan.real = TYPE_F32;
  bench->plan.term_count = 1;
  bench->plan.terms = ARENA_NEW(bench->arena, PlanTerm);
  bench->plan.programs[PROGRAM_TRAIN].calls = &bench->call;
  bench->plan.programs[PROGRAM_TRAIN].call_count = 1;
  return bench;
}

static inline void bench_destroy(Bench *bench) {
  arena_destroy(bench->arena);
  free(bench->image);
  free(bench);
}

// Takes `bytes` of the arena; they are poisoned with NaN patterns until written.
static inline Place bench_place(Bench *bench, int64_t bytes) {
  const int64_t begin = (bench->bytes + BENCH_ALIGN - 1) / BENCH_ALIGN * BENCH_ALIGN + BENCH_ALIGN;
  bench->image = realloc(bench->image, (size_t)(begin + bytes + BENCH_ALIGN));
  memset(bench->image + bench->bytes, 0xff, (size_t)(begin + bytes + BENCH_ALIGN - bench->bytes));
  bench->bytes = begin + bytes + BENCH_ALIGN;
  bench->plan.arena_bytes[ARENA_TRANSIENT] = bench->bytes;
  return (Place){.arena = ARENA_TRANSIENT, .offset = begin};
}

static inline void *bench_at(const Bench *bench, Place place) {
  return bench->image + place.offset;
}

static inline Instruction *bench_add(Bench *bench, InstructionKind kind) {
  Instruction *instruction = &bench->instruction[bench->segment.count++];
  *instruction = (Instruction){.kind = kind, .name = "test", .span = SPAN_NONE};
  return instruction;
}

static inline void bench_add_kernel(Bench *bench, Kernel *kernel, Place *places) {
  bench->kernel[bench->plan.kernel_count] = kernel;
  Instruction *instruction = bench_add(bench, INSTRUCTION_KERNEL);
  instruction->as.kernel = (KernelCall){.kernel = bench->plan.kernel_count++, .place = places};
}

// Runs all instructions on a fresh device; the arena afterwards, to be freed by the caller.
static inline char *bench_run_on(const Bench *bench, const Backend *backend, int threads) {
  const DeviceOptions options = {.threads = threads};
  Device *device = NULL;
  Error error = {0};
  if (!backend->open(&bench->plan, &options, &device, &error)) {
    fail_msg("open: %s", error.text);
  }
  char *after = malloc((size_t)bench->bytes);
  assert_true(backend->write(device, ARENA_TRANSIENT, 0, bench->image, bench->bytes, &error));
  if (!backend->run(device, PROGRAM_TRAIN, &error)) {
    fail_msg("run: %s", error.text);
  }
  assert_true(backend->read(device, ARENA_TRANSIENT, 0, after, bench->bytes, &error));
  backend->close(device);
  return after;
}

static inline char *bench_run(const Bench *bench, int threads) {
  return bench_run_on(bench, &backend_cpu, threads);
}

// Runs on 1, 2 and 3 threads and demands the same bits; the arena afterwards.
static inline char *bench_run_threads(const Bench *bench) {
  char *one = bench_run(bench, 1);
  for (int threads = 2; threads <= 3; threads++) {
    char *more = bench_run(bench, threads);
    assert_memory_equal(one, more, (size_t)bench->bytes);
    free(more);
  }
  return one;
}

typedef struct {
  uint64_t state;
} Draw;

static inline uint64_t draw(Draw *random) {
  return splitmix64(&random->state);
}

static inline int64_t draw_below(Draw *random, int64_t n) {
  return (int64_t)(draw(random) % (uint64_t)n);
}

static inline double draw_real(Draw *random, double low, double high) {
  return low + (high - low) * (double)(draw(random) >> 11) * 0x1p-53;
}

static inline void real_fill(ElementType type, void *memory, int64_t count, Draw *random) {
  for (int64_t i = 0; i < count; i++) {
    const double value = draw_real(random, -1.0, 1.0);
    element_set_at(type, memory, i, element_type_floating(type) ? value : floor(value * 50));
  }
}

// What an operand of 8 bits is multiplied by in row `outer` of a, or column of b, at k.
static inline double scale_at(const Gemm *gemm, bool of_a, const void *scales, int64_t outer, int64_t k) {
  enum { BLOCK = 128 };
  const int64_t apart = of_a ? gemm->ld_scale_a : gemm->ld_scale_b;
  const bool square = of_a ? gemm->square_a : gemm->square_b;
  const int64_t at = gemm->block == 0 ? 0 : square ? outer / BLOCK * apart + k / BLOCK : k / BLOCK * apart + outer;
  return !gemm_scaled(gemm) ? 1 : (double)((const float *)scales)[at];
}

// Elements from the first scale of an operand to behind its last.
static inline int64_t scale_count(const Gemm *gemm, bool of_a) {
  return gemm_scale_rows(gemm, of_a) * (of_a ? gemm->ld_scale_a : gemm->ld_scale_b) + (gemm->block == 0);
}

// Blocks for one form in three: of none, of both operands, of 128 x 128 of one.
static inline void set_blocks(Gemm *gemm, int form) {
  gemm->block = 128;
  gemm->square_a = form % 3 == 1;
  gemm->square_b = form % 3 == 2;
  gemm->ld_scale_a = (gemm_scale_columns(gemm, true) + 3) / 4 * 4;
  gemm->ld_scale_b = (gemm_scale_columns(gemm, false) + 3) / 4 * 4;
}

// The same to `tolerance` relative to the larger of both and 1; NaN equals NaN, infinities are equal.
static inline bool real_near(double a, double b, double tolerance) {
  if (isnan(a) || isnan(b)) {
    return isnan(a) && isnan(b);
  }
  if (isinf(a) || isinf(b)) {
    return a == b;
  }
  return fabs(a - b) <= tolerance * fmax(1.0, fmax(fabs(a), fabs(b)));
}

#endif
