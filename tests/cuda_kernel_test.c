// cuda_kernel_test.c: fused kernels on a GPU: kernels drawn at random do what the CPU does, twice in a row, and formats
// of 8 bits are read and rounded to the bit as on the CPU.
//
// KERNEL_SEEDS=N draws N kernels of each kind. Without a GPU every test is skipped; cuda_generate_test emulates them.
#include <inttypes.h>

#include "kernels/cpu/convert.h"
#include "kernels/cuda/generate.h"
#include "tests/cuda_support.h"
#include "tests/kernel_random.h"
#include "tests/turned_cases.h"

enum { SEEDS = 60, LOWS = 8 };

static void open_or_skip(Gpu *gpu) {
  if (!gpu_open(gpu)) {
    skip();
  }
}

static CudaTarget target_of(const Gpu *gpu) {
  return (CudaTarget){.multiprocessors = gpu->device.multiprocessors, .shared_bytes = gpu->device.shared_bytes};
}

static GpuKernel kernel_load(const Gpu *gpu, const Kernel *kernel, Draw *random, Arena *arena, const char *name) {
  const CudaTarget target = target_of(gpu);
  int alignment[KERNEL_MAX_PORTS];
  const char *why = NULL;
  CudaKernel *made = ARENA_NEW(arena, CudaKernel);
  for (int p = 0; p < kernel->port_count; p++) {
    const int least = (int)element_type_bytes(kernel->port[p].type);
    alignment[p] = random && draw_below(random, 8) == 0 && least > 0 ? least : 16;
  }
  if (!cuda_generate(kernel, alignment, &target, arena, made, &why)) {
    fail_msg("%s is not covered: %s", name, why);
  }
  return gpu_load(gpu, name, made);
}

// --- at random ---

// The arena after the kernel.
static char *launch_once(const Gpu *gpu, const GpuKernel *loaded, const Maker *m, CudaAddress memory) {
  uint64_t slots[CUDA_MAX_SLOTS];
  char *after = malloc((size_t)m->bench->bytes);
  gpu_set(gpu, memory, m->bench->image, m->bench->bytes);
  for (int p = 0; p < m->kernel->port_count; p++) {
    const bool strides = m->kernel->port[p].kind == PORT_STRIDES;
    slots[p] = (strides ? 0 : memory) + (uint64_t)m->place[p].offset;
  }
  gpu_run(gpu, loaded, slots, m->bench->call.first);
  gpu_get(gpu, after, memory, m->bench->bytes);
  return after;
}

static bool is_as_on_the_cpu(const Gpu *gpu, Maker *m, Draw *random, const char *name) {
  const GpuKernel loaded = kernel_load(gpu, m->kernel, random, m->bench->arena, name);
  const CudaAddress memory = gpu_memory(gpu, NULL, m->bench->bytes);
  char *wanted = bench_run(m->bench, 1);
  bool good = true;
  for (int i = 0; i < 2 && good; i++) {
    char *got = launch_once(gpu, &loaded, m, memory);
    good = arenas_near(m->kernel, m->place, got, wanted, m->bench->bytes);
    if (!good) {
      Buffer text = {0};
      kernel_print(m->kernel, &text);
      print_message("%s (%s), launch %d, differs from the CPU:\n%s", name, loaded.kernel->form, i, text.text);
      buffer_free(&text);
    }
    free(got);
  }
  free(wanted);
  gpu_free(gpu, memory);
  gpu_unload(gpu, &loaded);
  return good;
}

static void random_kernels(void **state) {
  const char *words = getenv("KERNEL_SEEDS");
  const int seeds = words && atoi(words) > 0 ? atoi(words) : SEEDS;
  int wrong = 0;
  Gpu gpu;
  (void)state;
  open_or_skip(&gpu);
  for (int low = 0; low < 2; low++) {
    for (int seed = 1; seed <= seeds; seed++) {
      char name[64];
      Maker m = maker_create((uint64_t)seed + (low ? 7000 : 30000), low);
      Draw random = {(uint64_t)seed};
      m.bench->call.first = seed % 2 == 0;
      snprintf(name, sizeof name, "seed %d%s", seed, low ? " low" : "");
      wrong += !is_as_on_the_cpu(&gpu, &m, &random, name);
      bench_destroy(m.bench);
    }
  }
  gpu_close(&gpu);
  assert_int_equal(wrong, 0);
}

// --- two orders ---

static Maker turned_maker(TurnedCase which, int64_t rows, int64_t columns) {
  Maker m = {.random = {(uint64_t)which + 1}, .bench = bench_create()};
  m.kernel = turned_case(m.bench->arena, which, rows, columns);
  m.place = ARENA_ARRAY(m.bench->arena, Place, KERNEL_MAX_PORTS);
  for (int p = 0; p < m.kernel->port_count; p++) {
    const KernelPort *port = &m.kernel->port[p];
    const int64_t elements = 1 + (rows - 1) * port->stride[0] + (columns - 1) * port->stride[1];
    m.place[p] = bench_place(m.bench, elements * element_type_bytes(port->type));
    for (int64_t i = 0; i < elements && port->kind == PORT_INPUT; i++) {
      element_set_at(port->type, bench_at(m.bench, m.place[p]), i, draw_real(&m.random, 0.1, 1));
    }
  }
  bench_add_kernel(m.bench, m.kernel, m.place);
  m.bench->call.first = true;
  return m;
}

static void two_orders(void **state) {
  static const int64_t sizes[][2] = {{256, 192}, {130, 72}, {67, 101}, {1000, 1032}, {512, 4096}, {160, 8192}};
  int wrong = 0;
  Gpu gpu;
  (void)state;
  open_or_skip(&gpu);
  for (int i = 0; i < TURNED_CASES * (int)(sizeof sizes / sizeof *sizes); i++) {
    const TurnedCase which = (TurnedCase)(i % TURNED_CASES);
    char name[96];
    Maker m = turned_maker(which, sizes[i / TURNED_CASES][0], sizes[i / TURNED_CASES][1]);
    snprintf(name, sizeof name, "%s, %" PRId64 " x %" PRId64, turned_names[which], m.kernel->size[0],
             m.kernel->size[1]);
    wrong += !is_as_on_the_cpu(&gpu, &m, NULL, name);
    bench_destroy(m.bench);
  }
  gpu_close(&gpu);
  assert_int_equal(wrong, 0);
}

// --- 8 bits ---

static Kernel *copy_kernel(Arena *arena, ElementType from, ElementType to, int64_t count) {
  Kernel *kernel = ARENA_NEW(arena, Kernel);
  *kernel = (Kernel){.real = TYPE_F32, .dim_count = 1, .inner_count = 1, .port_count = 2, .code_count = 2};
  kernel->size[0] = count;
  kernel->port = ARENA_ARRAY(arena, KernelPort, 2);
  kernel->code = ARENA_ARRAY(arena, KernelInstruction, 2);
  kernel->port[0] = (KernelPort){.kind = PORT_INPUT, .type = from, .stride = {1}};
  kernel->port[1] = (KernelPort){.kind = PORT_OUTPUT, .type = to, .stride = {1}};
  kernel->code[0] = (KernelInstruction){.op = KERNEL_LOAD, .level = LEVEL_COLUMN, .a = -1, .b = -1, .c = -1, .port = 0};
  kernel->code[1] = (KernelInstruction){.op = KERNEL_STORE, .level = LEVEL_COLUMN, .a = 0, .b = -1, .c = -1, .port = 1};
  return kernel;
}

// `count` elements of one format as another, on the GPU.
static void convert(const Gpu *gpu, ElementType from, const void *in, ElementType to, void *out, int64_t count) {
  Arena *arena = arena_create();
  const GpuKernel loaded = kernel_load(gpu, copy_kernel(arena, from, to, count), NULL, arena, "a copy");
  const int64_t bytes = count * element_type_bytes(to);
  const CudaAddress source = gpu_memory(gpu, in, count * element_type_bytes(from)), end = gpu_memory(gpu, NULL, bytes);
  uint64_t slots[CUDA_MAX_SLOTS] = {source, end};
  gpu_run(gpu, &loaded, slots, true);
  gpu_get(gpu, out, end, bytes);
  gpu_free(gpu, source);
  gpu_free(gpu, end);
  gpu_unload(gpu, &loaded);
  arena_destroy(arena);
}

static void quarters_read(void **state) {
  static const ElementType types[] = {TYPE_E4M3, TYPE_E5M2};
  uint8_t code[256];
  float read[256];
  Gpu gpu;
  (void)state;
  open_or_skip(&gpu);
  for (int i = 0; i < 256; i++) {
    code[i] = (uint8_t)i;
  }
  for (int k = 0; k < 2; k++) {
    convert(&gpu, types[k], code, TYPE_F32, read, 256);
    for (int i = 0; i < 256; i++) {
      const float wanted = k ? f32_of_e5m2(code[i]) : f32_of_e4m3(code[i]);
      if (isnan(wanted) ? !isnan(read[i]) : f32_bits(read[i]) != f32_bits(wanted)) {
        fail_msg("%s %02x is %a, not %a", element_type_name(types[k]), (unsigned)i, (double)read[i], (double)wanted);
      }
    }
  }
  gpu_close(&gpu);
}

// Every sign, exponent and first 7 bits of a mantissa, with what decides ties behind them.
static void quarters_round(void **state) {
  static const ElementType types[] = {TYPE_E4M3, TYPE_E5M2};
  static const uint32_t low[LOWS] = {0, 1, 0x1234, 0x7fff, 0x8000, 0x8001, 0xabcd, 0xffff};
  const int count = (1 << 16) * LOWS;
  Gpu gpu;
  (void)state;
  open_or_skip(&gpu);
  float *x = malloc(sizeof *x * (size_t)count);
  uint8_t *code = malloc((size_t)count);
  for (int i = 0; i < count; i++) {
    x[i] = f32_of_bits((uint32_t)(i / LOWS) << 16 | low[i % LOWS]);
  }
  for (int k = 0; k < 2; k++) {
    convert(&gpu, TYPE_F32, x, types[k], code, count);
    for (int i = 0; i < count; i++) {
      const uint8_t wanted = k ? e5m2_of_f32(x[i]) : e4m3_of_f32(x[i]);
      const bool same = isnan(x[i]) ? isnan(k ? f32_of_e5m2(code[i]) : f32_of_e4m3(code[i])) : code[i] == wanted;
      if (!same) {
        fail_msg("%a is %02x in %s, not %02x", (double)x[i], code[i], element_type_name(types[k]), wanted);
      }
    }
  }
  free(x);
  free(code);
  gpu_close(&gpu);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(quarters_read), cmocka_unit_test(quarters_round),
                                     cmocka_unit_test(random_kernels), cmocka_unit_test(two_orders)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
