// bench_cpu.c: how fast the kernels of the CPU backend are: GFLOP/s of products and attention, GB/s of fused kernels.
//
//   bench_cpu [threads [part of a name]]
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/device.h"

enum { REPEATS = 8, CODE_MAX = 64, PORT_MAX = 16 };

typedef struct {
  const char *name;
  const char *filter;
  int threads;
  Kernel kernel;
  KernelPort port[PORT_MAX];
  KernelInstruction code[CODE_MAX];
  Place place[PORT_MAX];
  Instruction instruction;
  int64_t bytes;   // of the arena
  double traffic;  // bytes that must move
} Bench;

typedef struct {
  int threads;
  const char *filter;  // NULL: all
} Settings;

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static Place take(Bench *bench, int64_t bytes) {
  const Place place = {.arena = ARENA_TRANSIENT, .offset = bench->bytes};
  bench->bytes += (bytes + PLAN_ALIGN - 1) / PLAN_ALIGN * PLAN_ALIGN;
  return place;
}

// Seconds of the fastest of some runs.
static double measure(Bench *bench) {
  Kernel *kernels[] = {&bench->kernel};
  PlanSegment segment = {.name = "bench", .count = 1, .instructions = &bench->instruction};
  PlanCall call = {.first = true};
  Plan plan = {.kernels = kernels, .kernel_count = 1, .segments = &segment, .segment_count = 1};
  plan.programs[PROGRAM_TRAIN] = (PlanProgram){.calls = &call, .call_count = 1};
  plan.arena_bytes[ARENA_TRANSIENT] = bench->bytes;
  Device *device = NULL;
  Error error = {0};
  const DeviceOptions options = {.threads = bench->threads};
  if (!backend_cpu.open(&plan, &options, &device, &error)) {
    fprintf(stderr, "bench_cpu: %s\n", error.text);
    exit(1);
  }
  const int64_t part = 1 << 20;
  float *data = malloc((size_t)part);
  for (int64_t at = 0; at < bench->bytes; at += part) {
    for (int64_t i = 0; i < part / 4; i++) {
      data[i] = (float)((i * 7919 + at) % 1000) * 1e-3f + 1e-3f;
    }
    backend_cpu.write(device, ARENA_TRANSIENT, at, data, bench->bytes - at < part ? bench->bytes - at : part, &error);
  }
  free(data);
  double best = 1e30;
  const double start = now();
  for (int i = 0; i < REPEATS || now() - start < 0.4; i++) {
    const double begin = now();
    backend_cpu.run(device, PROGRAM_TRAIN, &error);
    const double seconds = now() - begin;
    best = seconds < best ? seconds : best;
  }
  backend_cpu.close(device);
  return best;
}

static Bench *bench_create(const char *name, const Settings *settings) {
  Bench *bench = calloc(1, sizeof *bench);
  bench->name = name;
  bench->threads = settings->threads;
  bench->filter = settings->filter;
  return bench;
}

static void report(Bench *bench, double flops, const char *extra) {
  if (bench->filter && !strstr(bench->name, bench->filter)) {
    free(bench);
    return;
  }
  const double seconds = measure(bench);
  printf("%-34s %9.3f ms", bench->name, seconds * 1e3);
  if (flops > 0) {
    printf("  %7.1f GFLOP/s", flops / seconds * 1e-9);
  }
  if (bench->traffic > 0) {
    printf("  %7.1f GB/s", bench->traffic / seconds * 1e-9);
  }
  printf("  %s\n", extra);
  fflush(stdout);
  free(bench);
}

static void bench_gemm(const Settings *settings, int64_t m, int64_t n, int64_t k, bool transpose_a, bool transpose_b) {
  char name[64];
  snprintf(name, sizeof name, "gemm %lldx%lldx%lld %c%c", (long long)m, (long long)n, (long long)k,
           transpose_a ? 'T' : 'N', transpose_b ? 'T' : 'N');
  Bench *bench = bench_create(name, settings);
  bench->instruction.kind = INSTRUCTION_GEMM;
  bench->instruction.as.gemm = (Gemm){.type = TYPE_F32,
                                      .type_b = TYPE_F32,
                                      .type_c = TYPE_F32,
                                      .transpose_a = transpose_a,
                                      .transpose_b = transpose_b,
                                      .m = m,
                                      .n = n,
                                      .k = k,
                                      .lda = transpose_a ? m : k,
                                      .ldb = transpose_b ? k : n,
                                      .ldc = n,
                                      .a = take(bench, m * k * 4),
                                      .b = take(bench, k * n * 4),
                                      .c = take(bench, m * n * 4)};
  report(bench, 2.0 * (double)m * (double)n * (double)k, "");
}

static void bench_attention(const Settings *settings, int64_t batch, int64_t length, int64_t heads, int64_t depth,
                            bool gradient) {
  char name[64];
  snprintf(name, sizeof name, "attention %s %lldx%lld %lldx%lld", gradient ? "grad" : "fwd", (long long)batch,
           (long long)length, (long long)heads, (long long)depth);
  Bench *bench = bench_create(name, settings);
  const int64_t bytes = batch * length * heads * depth * 4;
  Attention a = {.type = TYPE_F32, .causal = true, .scale = 0.125, .batch = batch, .queries = length, .keys = length};
  a.heads = heads;
  a.groups = 1;
  a.depth = a.value_depth = depth;
  int64_t *stride[] = {a.stride_q, a.stride_o, a.stride_dq, a.stride_do,
                       a.stride_k, a.stride_v, a.stride_dk, a.stride_dv};
  Place *place[] = {&a.q, &a.o, &a.dq, &a.d_o, &a.k, &a.v, &a.dk, &a.dv};
  for (int i = 0; i < 8; i++) {
    stride[i][0] = length * heads * depth;
    stride[i][1] = heads * depth;
    stride[i][2] = depth;
    *place[i] = take(bench, bytes);
  }
  a.statistics = take(bench, batch * heads * length * 4);
  bench->instruction.kind = gradient ? INSTRUCTION_ATTENTION_GRAD : INSTRUCTION_ATTENTION;
  bench->instruction.as.attention = a;
  const double pairs = (double)batch * (double)heads * (double)length * (double)(length + 1) / 2;
  report(bench, pairs * (double)depth * (gradient ? 10.0 : 4.0), "(causal flops)");
}

// Building kernels: each function appends one instruction and returns its register.
static int emit(Bench *bench, KernelInstruction code) {
  bench->code[bench->kernel.code_count] = code;
  return bench->kernel.code_count++;
}

static int port(Bench *bench, PortKind kind, ElementType type, KernelLevel level) {
  Kernel *kernel = &bench->kernel;
  KernelPort *p = &bench->port[kernel->port_count];
  *p = (KernelPort){.kind = kind, .type = type};
  int64_t elements = 1;
  for (int d = kernel->dim_count - 1; d >= 0; d--) {
    const bool inner = d >= kernel->dim_count - kernel->inner_count;
    if ((level & (inner ? LEVEL_COLUMN : LEVEL_ROW)) != 0) {
      p->stride[d] = elements;
      elements *= kernel->size[d];
    }
  }
  if (kind != PORT_STRIDES) {
    bench->place[kernel->port_count] = take(bench, elements * 4);
    bench->traffic += (double)elements * 4;
  }
  return kernel->port_count++;
}

static int load(Bench *bench, ElementType type, KernelLevel level) {
  const int at = port(bench, PORT_INPUT, type, level);
  return emit(bench, (KernelInstruction){.op = KERNEL_LOAD,
                                         .level = level,
                                         .integer = type == TYPE_INDEX,
                                         .a = -1,
                                         .b = -1,
                                         .c = -1,
                                         .port = (int16_t)at});
}

static int constant(Bench *bench, double number) {
  return emit(bench, (KernelInstruction){.op = KERNEL_CONST, .a = -1, .b = -1, .c = -1, .port = -1, .number = number});
}

static int op(Bench *bench, KernelOp what, int a, int b, int c) {
  const int operand[] = {a, b, c};
  KernelInstruction code = {.op = what, .a = (int16_t)a, .b = (int16_t)b, .c = (int16_t)c, .port = -1};
  for (int i = 0; i < 3; i++) {
    code.level |= operand[i] >= 0 ? bench->code[operand[i]].level : 0;
  }
  if (op_is_row_reduction(what)) {
    code.level = LEVEL_ROW;
    bench->kernel.row_reductions = true;
  }
  code.integer = what == KERNEL_INT_EQUAL;
  return emit(bench, code);
}

static int op1(Bench *bench, KernelOp what, int a) {
  return op(bench, what, a, -1, -1);
}

static int op2(Bench *bench, KernelOp what, int a, int b) {
  return op(bench, what, a, b, -1);
}

static void output(Bench *bench, KernelOp what, KernelLevel level, int a) {
  const int at = port(bench, PORT_OUTPUT, TYPE_F32, level);
  emit(bench, (KernelInstruction){.op = what, .level = level, .a = (int16_t)a, .b = -1, .c = -1, .port = (int16_t)at});
}

// Stores over the input whose load is register `over`.
static void store_over(Bench *bench, int over, int a) {
  const int64_t bytes = bench->bytes;
  output(bench, KERNEL_STORE, bench->code[over].level, a);
  bench->bytes = bytes;
  bench->place[bench->kernel.port_count - 1] = bench->place[bench->code[over].port];
}

static Bench *kernel_create(const char *name, const Settings *settings, int64_t rows, int64_t columns) {
  Bench *bench = bench_create(name, settings);
  bench->kernel = (Kernel){.dim_count = 2, .inner_count = 1, .size = {rows, columns}, .real = TYPE_F32};
  bench->kernel.port = bench->port;
  bench->kernel.code = bench->code;
  bench->instruction.kind = INSTRUCTION_KERNEL;
  bench->instruction.as.kernel.place = bench->place;
  return bench;
}

static void kernel_report(Bench *bench) {
  const char *why = kernel_verify(&bench->kernel);
  if (why) {
    fprintf(stderr, "bench_cpu: %s: %s\n", bench->name, why);
    exit(1);
  }
  char extra[64];
  const double elements = (double)bench->kernel.size[0] * (double)bench->kernel.size[1];
  snprintf(extra, sizeof extra, "%.1f M elements, %d instructions", elements * 1e-6, bench->kernel.code_count);
  report(bench, 0, extra);
}

static void bench_copy(const Settings *settings, int64_t rows, int64_t columns) {
  Bench *b = kernel_create("add: z = x + y", settings, rows, columns);
  const int x = load(b, TYPE_F32, LEVEL_FULL), y = load(b, TYPE_F32, LEVEL_FULL);
  output(b, KERNEL_STORE, LEVEL_FULL, op2(b, KERNEL_ADD, x, y));
  kernel_report(b);
}

static void bench_layer_norm(const Settings *settings, int64_t rows, int64_t columns) {
  Bench *b = kernel_create("layer norm", settings, rows, columns);
  const int x = load(b, TYPE_F32, LEVEL_FULL), w = load(b, TYPE_F32, LEVEL_COLUMN), v = load(b, TYPE_F32, LEVEL_COLUMN);
  const int per = constant(b, 1.0 / (double)columns), eps = constant(b, 1e-5);
  const int mean = op2(b, KERNEL_MUL, op1(b, KERNEL_ROW_SUM, x), per);
  const int centred = op2(b, KERNEL_SUB, x, mean);
  const int variance = op2(b, KERNEL_MUL, op1(b, KERNEL_ROW_SUM, op2(b, KERNEL_MUL, centred, centred)), per);
  const int scale = op1(b, KERNEL_RSQRT, op2(b, KERNEL_ADD, variance, eps));
  const int y = op2(b, KERNEL_ADD, op2(b, KERNEL_MUL, op2(b, KERNEL_MUL, centred, scale), w), v);
  output(b, KERNEL_STORE, LEVEL_FULL, y);
  output(b, KERNEL_STORE, LEVEL_ROW, mean);
  output(b, KERNEL_STORE, LEVEL_ROW, scale);
  kernel_report(b);
}

static void bench_layer_norm_grad(const Settings *settings, int64_t rows, int64_t columns) {
  Bench *b = kernel_create("layer norm gradient", settings, rows, columns);
  const int x = load(b, TYPE_F32, LEVEL_FULL), dy = load(b, TYPE_F32, LEVEL_FULL), w = load(b, TYPE_F32, LEVEL_COLUMN);
  const int mean = load(b, TYPE_F32, LEVEL_ROW), scale = load(b, TYPE_F32, LEVEL_ROW),
            per = constant(b, 1.0 / (double)columns);
  const int z = op2(b, KERNEL_MUL, op2(b, KERNEL_SUB, x, mean), scale);
  const int dz = op2(b, KERNEL_MUL, dy, w), dyz = op2(b, KERNEL_MUL, dy, z);
  const int a = op2(b, KERNEL_MUL, op1(b, KERNEL_ROW_SUM, dz), per);
  const int c = op2(b, KERNEL_MUL, op1(b, KERNEL_ROW_SUM, op2(b, KERNEL_MUL, dz, z)), per);
  const int inside = op2(b, KERNEL_SUB, op2(b, KERNEL_SUB, dz, a), op2(b, KERNEL_MUL, z, c));
  store_over(b, dy, op2(b, KERNEL_MUL, inside, scale));
  output(b, KERNEL_COLUMN_SUM, LEVEL_COLUMN, dyz);
  output(b, KERNEL_COLUMN_SUM, LEVEL_COLUMN, dy);
  kernel_report(b);
}

static void bench_gelu(const Settings *settings, int64_t rows, int64_t columns) {
  Bench *b = kernel_create("bias + gelu", settings, rows, columns);
  const int x0 = load(b, TYPE_F32, LEVEL_FULL), bias = load(b, TYPE_F32, LEVEL_COLUMN);
  const int half = constant(b, 0.5), one = constant(b, 1), k = constant(b, 0.7978845608), third = constant(b, 0.044715);
  const int x = op2(b, KERNEL_ADD, x0, bias);
  const int cube = op2(b, KERNEL_MUL, op2(b, KERNEL_MUL, x, x), x);
  const int inside = op2(b, KERNEL_MUL, op2(b, KERNEL_ADD, x, op2(b, KERNEL_MUL, cube, third)), k);
  const int right = op2(b, KERNEL_ADD, op1(b, KERNEL_TANH, inside), one);
  output(b, KERNEL_STORE, LEVEL_FULL, x);
  output(b, KERNEL_STORE, LEVEL_FULL, op2(b, KERNEL_MUL, op2(b, KERNEL_MUL, x, half), right));
  kernel_report(b);
}

static void bench_adamw(const Settings *settings, int64_t rows, int64_t columns) {
  Bench *b = kernel_create("adamw", settings, rows, columns);
  const int p = load(b, TYPE_F32, LEVEL_FULL), m = load(b, TYPE_F32, LEVEL_FULL), v = load(b, TYPE_F32, LEVEL_FULL);
  const int g0 = load(b, TYPE_F32, LEVEL_FULL), clip = load(b, TYPE_F32, LEVEL_SCALAR),
            lr = load(b, TYPE_F32, LEVEL_SCALAR);
  const int b1 = constant(b, 0.9), c1 = constant(b, 0.1), b2 = constant(b, 0.95), c2 = constant(b, 0.05);
  const int u1 = load(b, TYPE_F32, LEVEL_SCALAR), u2 = load(b, TYPE_F32, LEVEL_SCALAR), eps = constant(b, 1e-8);
  const int decay = constant(b, 0.1), g = op2(b, KERNEL_MUL, g0, clip);
  const int m1 = op2(b, KERNEL_ADD, op2(b, KERNEL_MUL, m, b1), op2(b, KERNEL_MUL, g, c1));
  const int v1 = op2(b, KERNEL_ADD, op2(b, KERNEL_MUL, v, b2), op2(b, KERNEL_MUL, op2(b, KERNEL_MUL, g, c2), g));
  const int root = op2(b, KERNEL_ADD, op1(b, KERNEL_SQRT, op2(b, KERNEL_MUL, v1, u2)), eps);
  const int move = op2(b, KERNEL_DIV, op2(b, KERNEL_MUL, m1, u1), root);
  const int all = op2(b, KERNEL_ADD, move, op2(b, KERNEL_MUL, p, decay));
  store_over(b, p, op2(b, KERNEL_SUB, p, op2(b, KERNEL_MUL, all, lr)));
  store_over(b, m, m1);
  store_over(b, v, v1);
  kernel_report(b);
}

static void bench_cross_entropy(const Settings *settings, int64_t rows, int64_t columns) {
  Bench *b = kernel_create("cross-entropy and gradient", settings, rows, columns);
  const int x = load(b, TYPE_F32, LEVEL_FULL), target = load(b, TYPE_INDEX, LEVEL_ROW),
            per = constant(b, 1.0 / (double)rows);
  const int zero = constant(b, 0), place = port(b, PORT_STRIDES, TYPE_INDEX, LEVEL_COLUMN);
  const int here = emit(b, (KernelInstruction){.op = KERNEL_IOTA,
                                               .level = LEVEL_COLUMN,
                                               .integer = true,
                                               .a = -1,
                                               .b = -1,
                                               .c = -1,
                                               .port = (int16_t)place});
  const int max = op1(b, KERNEL_ROW_MAX, x);
  const int e = op1(b, KERNEL_EXP, op2(b, KERNEL_SUB, x, max));
  const int sum = op1(b, KERNEL_ROW_SUM, e), hit = op2(b, KERNEL_INT_EQUAL, here, target);
  const int logit = op1(b, KERNEL_ROW_SUM, op(b, KERNEL_WHERE, hit, x, zero));
  const int p = op2(b, KERNEL_MUL, e, op1(b, KERNEL_RECIPROCAL, sum));
  const int one = constant(b, 1);
  const int d = op2(b, KERNEL_SUB, p, op(b, KERNEL_WHERE, hit, one, zero));
  output(b, KERNEL_STORE, LEVEL_ROW, op2(b, KERNEL_SUB, op2(b, KERNEL_ADD, op1(b, KERNEL_LOG, sum), max), logit));
  store_over(b, x, op2(b, KERNEL_MUL, d, per));
  kernel_report(b);
}

static void bench_bias_grad(const Settings *settings, int64_t rows, int64_t columns) {
  Bench *b = kernel_create("column sum", settings, rows, columns);
  output(b, KERNEL_COLUMN_SUM, LEVEL_COLUMN, load(b, TYPE_F32, LEVEL_FULL));
  kernel_report(b);
}

static void bench_norm(const Settings *settings, int64_t rows, int64_t columns) {
  Bench *b = kernel_create("sum of squares", settings, rows, columns);
  const int x = load(b, TYPE_F32, LEVEL_FULL);
  output(b, KERNEL_TOTAL_SUM, LEVEL_SCALAR, op2(b, KERNEL_MUL, x, x));
  kernel_report(b);
}

static void bench_normal(const Settings *settings, int64_t rows, int64_t columns) {
  Bench *b = kernel_create("normal", settings, rows, columns);
  const int step =
      emit(b, (KernelInstruction){.op = KERNEL_INTEGER, .integer = true, .a = -1, .b = -1, .c = -1, .port = -1});
  const int at = port(b, PORT_STRIDES, TYPE_INDEX, LEVEL_FULL);
  const int x =
      emit(b, (KernelInstruction){
                  .op = KERNEL_NORMAL, .level = LEVEL_FULL, .a = (int16_t)step, .b = -1, .c = -1, .port = (int16_t)at});
  output(b, KERNEL_STORE, LEVEL_FULL, x);
  kernel_report(b);
}

int main(int argc, char **argv) {
  const Settings chosen = {.threads = argc > 1 ? atoi(argv[1]) : 0, .filter = argc > 2 ? argv[2] : NULL};
  const Settings *settings = &chosen;
  bench_gemm(settings, 1024, 3072, 768, false, false);
  bench_gemm(settings, 1024, 768, 3072, false, true);
  bench_gemm(settings, 768, 3072, 1024, true, false);
  bench_gemm(settings, 1024, 768, 768, false, false);
  bench_gemm(settings, 768, 768, 1024, true, false);
  bench_gemm(settings, 1024, 50257, 768, false, true);
  bench_gemm(settings, 1024, 768, 50257, false, false);
  bench_gemm(settings, 50257, 768, 1024, true, false);
  bench_copy(settings, 50257, 768);
  bench_copy(settings, 1024, 768);
  bench_layer_norm(settings, 1024, 768);
  bench_layer_norm_grad(settings, 1024, 768);
  bench_gelu(settings, 1024, 3072);
  bench_adamw(settings, 50257, 768);
  bench_cross_entropy(settings, 1024, 50257);
  bench_bias_grad(settings, 1024, 3072);
  bench_norm(settings, 50257, 768);
  bench_normal(settings, 4096, 768);
  bench_attention(settings, 4, 256, 12, 64, false);
  bench_attention(settings, 4, 256, 12, 64, true);
  bench_attention(settings, 32, 256, 4, 64, false);
  bench_attention(settings, 32, 256, 4, 64, true);
  bench_attention(settings, 4, 1024, 12, 64, false);
  bench_attention(settings, 4, 1024, 12, 64, true);
  return 0;
}
