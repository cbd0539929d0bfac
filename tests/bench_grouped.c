// bench_grouped.c: mixtures of experts on one GPU: the order of rows, the gathers there and back, and all products.
//
//   bench_grouped [ROW...]             times of all rows, or of some: lines `OURS`, beside them `CUBLAS`, which
//   multiplies
//                                      expert by expert with counts that the host knows; --list: which rows there are
//   bench_grouped --counts [ROW...]    lines `COUNTS`: how many rows each expert has, for peers
//   bench_grouped --forms [ROW...]     lines `FORM`: the products with other tiles, stages and clusters
//   bench_grouped --repeat N [ROW...]  N calls of each product: whether all give the same bits
//   bench_grouped --registers sm_90a   a table of the kernels: registers, bytes spilled, shared memory
//
// Operations are those of rows that are there, not of those that fill blocks. Ours and the library take turns in
// bursts, so that the chip is as warm for one as for the other; the times are medians. Numbers are of a normal
// distribution.
#include <getopt.h>

#include "base/integer.h"
#include "kernels/cuda/grouped.h"
#include "kernels/cuda/order.h"
#include "kernels/cuda/take.h"
#include "runtime/cuda/gemm.h"
#include "tests/bench_bursts.h"
#include "tests/bench_copy.h"
#include "tests/cuda_registers.h"
#include "tests/grouped_reference.h"

enum { BURSTS = 5, BLOCK = 128, EXPERTS_MOST = 64 };
static const double BURST_SECONDS = 0.2;

typedef struct {
  const char *name;
  int64_t tokens, choices, experts, embed, ffn;
  double skew;  // expert number i has a share of 1 / (i + 1)^skew; below 0: one has all
} Row;

static const Row rows[] = {
    {"olmoe_even", 16384, 8, 64, 2048, 1024, 0},        {"olmoe_skewed", 16384, 8, 64, 2048, 1024, 0.5},
    {"olmoe_one", 16384, 8, 64, 2048, 1024, -1},        {"mixtral_even", 8192, 2, 8, 4096, 14336, 0},
    {"mixtral_skewed", 8192, 2, 8, 4096, 14336, 0.5},   {"deepseek_even", 16384, 6, 64, 2048, 1408, 0},
    {"deepseek_skewed", 16384, 6, 64, 2048, 1408, 0.5},
};

typedef struct {
  const char *name;
  bool sums, turned, of_ffn;  // of_ffn: what is multiplied, or has the columns of the result, is of the width ffn
  ElementType type_c;
} Way;

// With w_up [experts][embed][ffn] and w_down [experts][ffn][embed]: forward, gradients of rows, gradients of matrices.
static const Way ways[] = {
    {"up", false, false, false, TYPE_BF16},   {"down", false, false, true, TYPE_BF16},
    {"up_dx", false, true, true, TYPE_BF16},  {"down_dx", false, true, false, TYPE_BF16},
    {"up_dw", true, false, true, TYPE_BF16},  {"down_dw", true, false, false, TYPE_BF16},
    {"up_dw32", true, false, true, TYPE_F32},
};
enum { WAYS = sizeof ways / sizeof *ways };

static int64_t positions_of(const Row *row) {
  return row->tokens * row->choices;
}

static int64_t capacity_of(const Row *row) {
  return order_holding(positions_of(row), row->experts, BLOCK);
}

// All positions' experts, shuffled, so that a skew of 0 is even to the last one.
static void experts_draw(const Row *row, int32_t *index) {
  const int64_t count = positions_of(row);
  double share[EXPERTS_MOST], all = 0, sum = 0;
  CudaDraw draw = {17};
  int64_t at = 0;
  for (int64_t e = 0; e < row->experts; e++) {
    share[e] = row->skew < 0 ? e == 5 : pow((double)e + 1, -row->skew);
    all += share[e];
  }
  for (int64_t e = 0; e < row->experts; e++) {
    sum += share[e];
    for (; at < (int64_t)(sum / all * (double)count + 0.5); at++) {
      index[at] = (int32_t)e;
    }
  }
  for (int64_t i = count - 1; i > 0; i--) {
    const int64_t other = cuda_draw(&draw) % (i + 1);
    const int32_t kept = index[i];
    index[i] = index[other];
    index[other] = kept;
  }
}

static void counts_of(const Row *row, const int32_t *index, int64_t *counts) {
  memset(counts, 0, sizeof *counts * (size_t)row->experts);
  for (int64_t i = 0; i < positions_of(row); i++) {
    counts[index[i]]++;
  }
}

static Grouped grouped_of(const Row *row, const Way *way) {
  const int64_t to = way->of_ffn == way->sums ? row->ffn : row->embed, from = row->embed + row->ffn - to;
  Grouped g = {.type = TYPE_BF16,
               .type_c = way->type_c,
               .transpose_b = way->turned,
               .write = way->type_c == TYPE_F32 ? WRITE_ADD : WRITE_STORE,
               .rows = capacity_of(row),
               .block = BLOCK,
               .extent = row->experts};
  g.m = way->sums ? from : 1;
  g.n = g.ldc = to;
  g.k = way->sums ? 1 : from;
  g.lda = from;
  g.ldb = way->turned ? from : to;
  g.stride = from * to;
  return g;
}

static Order order_of(const Row *row) {
  return (Order){.count = positions_of(row), .extent = row->experts, .block = BLOCK, .capacity = capacity_of(row)};
}

// Rows from tokens; back, the sum of the rows of all choices.
static Take take_of(const Row *row, bool back) {
  const int64_t d = row->embed;
  Take t = {.type = TYPE_BF16, .type_out = TYPE_BF16, .stride_axis = d};
  const int64_t there[][4] = {{capacity_of(row), d}, {0, 1}, {1, 0}, {d, 1}};
  const int64_t again[][4] = {{row->tokens, d, row->choices}, {0, 1, 0}, {row->choices, 0, 1}, {d, 1, 0}};
  const int64_t(*const dims)[4] = back ? again : there;
  t.dim_count = back ? 3 : 2;
  t.summed = back ? 1 : 0;
  t.extent = back ? capacity_of(row) : row->tokens;
  memcpy(t.size, dims[0], sizeof *dims);
  memcpy(t.stride_x, dims[1], sizeof *dims);
  memcpy(t.stride_index, dims[2], sizeof *dims);
  memcpy(t.stride_out, dims[3], sizeof *dims);
  return t;
}

// --- what is there on the GPU ---

typedef struct {
  Gpu gpu;
  Gemms *gemms;  // NULL: there is no library
  CudaAddress workspace;
  CudaTarget target;
  double copies;  // bytes a second
  Arena *arena;
} Bench;

typedef struct {
  const Row *row;
  int64_t counts[EXPERTS_MOST], begin[EXPERTS_MOST];          // rows of each expert, and the first of them
  CudaAddress index, place, from, chosen, token;              // token: of each row
  CudaAddress tokens, wide, narrow, weights, out, gradients;  // wide, narrow: rows of ffn and embed
} Problem;

typedef struct {  // one kernel with its operands
  CudaKernel kernel;
  GpuKernel loaded;
  uint64_t slots[8];
} Job;

static void made_or_exit(bool made, const char *what, const char *why) {
  if (!made) {
    fprintf(stderr, "bench_grouped: %s: %s\n", what, why);
    exit(1);
  }
}

static Job job_load(const Bench *bench, const char *name, CudaKernel kernel, const uint64_t *ports) {
  Job job = {.kernel = kernel};
  CudaKernel *kept = arena_copy(bench->arena, &kernel, sizeof kernel);
  memcpy(job.slots, ports, sizeof *ports * (size_t)kernel.port_count);
  job.loaded = gpu_load(&bench->gpu, name, kept);
  return job;
}

static Job order_job(const Bench *bench, const Problem *p) {
  const Order o = order_of(p->row);
  const uint64_t ports[] = {p->index, p->place, p->from, p->chosen};
  CudaKernel kernel;
  const char *why = NULL;
  made_or_exit(cuda_order(&o, bench->arena, &kernel, &why), "order", why);
  return job_load(bench, "order", kernel, ports);
}

static Job take_job(const Bench *bench, const Problem *p, bool back) {
  static const int aligned[] = {16, 16, 16};
  const Take t = take_of(p->row, back);
  const uint64_t ports[] = {back ? p->narrow : p->tokens, back ? p->place : p->token, back ? p->out : p->narrow};
  CudaKernel kernel;
  const char *why = NULL;
  made_or_exit(cuda_take(&t, t.type, t.type_out, aligned, bench->arena, &kernel, &why), "take", why);
  return job_load(bench, "take", kernel, ports);
}

static void operands_of(const Problem *p, const Way *way, uint64_t *ports) {
  const bool a_wide = way->sums ? !way->of_ffn : way->of_ffn;
  ports[0] = a_wide ? p->wide : p->narrow;
  ports[1] = !way->sums ? p->weights : a_wide ? p->narrow : p->wide;
  ports[2] = way->sums ? p->gradients : p->out;
  ports[3] = p->chosen;
}

static Job product_job(const Bench *bench, const Problem *p, const Way *way, const CudaForm *form) {
  const Grouped g = grouped_of(p->row, way);
  CudaTarget target = bench->target;
  CudaKernel kernel;
  uint64_t ports[4];
  const char *why = NULL;
  target.form = form;
  operands_of(p, way, ports);
  made_or_exit(cuda_grouped(&g, way->sums, 16, &target, bench->arena, &kernel, &why), way->name, why);
  return job_load(bench, way->name, kernel, ports);
}

static void problem_open(Bench *bench, const Row *row, Problem *p) {
  const Gpu *gpu = &bench->gpu;
  const int64_t count = positions_of(row), capacity = capacity_of(row), matrix = row->embed * row->ffn;
  int32_t *const index = malloc((size_t)count * 4), *const token = malloc((size_t)capacity * 4);
  *p = (Problem){.row = row};
  experts_draw(row, index);
  counts_of(row, index, p->counts);
  for (int64_t e = 1; e < row->experts; e++) {
    p->begin[e] = p->begin[e - 1] + round_up(p->counts[e - 1], BLOCK);
  }
  p->index = gpu_memory(gpu, index, count * 4);
  p->place = gpu_memory(gpu, NULL, count * 4);
  p->from = gpu_memory(gpu, NULL, capacity * 4);
  p->chosen = gpu_memory(gpu, NULL, capacity / BLOCK * 4);
  Job order = order_job(bench, p);
  gpu_run(gpu, &order.loaded, order.slots, true);
  gpu_unload(gpu, &order.loaded);
  gpu_get(gpu, token, p->from, capacity * 4);
  for (int64_t r = 0; r < capacity; r++) {
    token[r] = token[r] < 0 ? -1 : token[r] / (int32_t)row->choices;
  }
  p->token = gpu_memory(gpu, token, capacity * 4);
  p->tokens = bursts_numbers(gpu, row->tokens * row->embed, 0);
  p->wide = bursts_numbers(gpu, capacity * row->ffn, 1);
  p->narrow = bursts_numbers(gpu, capacity * row->embed, 2);
  p->weights = bursts_numbers(gpu, row->experts * matrix, 3);
  p->out = gpu_memory(gpu, NULL, capacity * max_i64(row->embed, row->ffn) * 2);
  p->gradients = gpu_memory(gpu, NULL, row->experts * matrix * 4);
  gpu_check(gpu, gpu->cuda.fill_bytes(p->gradients, 0, (size_t)(row->experts * matrix * 4), gpu->stream), "filling");
  free(index);
  free(token);
}

static void problem_close(const Gpu *gpu, const Problem *p) {
  const CudaAddress all[] = {p->index, p->place,  p->from,    p->chosen, p->token,    p->tokens,
                             p->wide,  p->narrow, p->weights, p->out,    p->gradients};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    gpu_free(gpu, all[i]);
  }
}

// --- the library, expert by expert ---

typedef struct {
  int count;
  GemmProblem *problem[EXPERTS_MOST];
  CudaAddress operands[EXPERTS_MOST][GEMM_ADDRESSES];
} Loop;

static Loop loop_of(const Bench *bench, const Problem *p, const Way *way) {
  const Grouped g = grouped_of(p->row, way);
  const int alignment[GEMM_OPERANDS] = {16, 16, 16, 16};
  Loop loop = {0};
  Error error;
  uint64_t ports[4];
  operands_of(p, way, ports);
  for (int64_t e = 0; bench->gemms && e < p->row->experts; e++) {
    const int64_t begin = p->begin[e], count = p->counts[e], bytes_c = element_type_bytes(g.type_c);
    const uint64_t c = ports[2] + (uint64_t)((way->sums ? e * g.stride : begin * g.ldc) * bytes_c);
    Gemm gemm = {.type = g.type, .type_b = g.type, .type_c = g.type_c, .write = g.write};
    gemm.transpose_a = way->sums;
    gemm.transpose_b = way->turned;
    gemm.m = way->sums ? g.m : count;
    gemm.n = g.n;
    gemm.k = way->sums ? count : g.k;
    gemm.lda = g.lda;
    gemm.ldb = g.ldb;
    gemm.ldc = g.ldc;
    if (count == 0) {
      continue;
    }
    const CudaAddress operands[] = {ports[0] + (uint64_t)(begin * g.lda * 2),
                                    ports[1] + (uint64_t)((way->sums ? begin * g.ldb : e * g.stride) * 2),
                                    c,
                                    c,
                                    c,
                                    c};
    memcpy(loop.operands[loop.count], operands, sizeof operands);
    made_or_exit(
        gemm_prepare(bench->gemms, &gemm, alignment, way->name, &loop.problem[loop.count], &error) &&
            gemm_tune(bench->gemms, loop.problem[loop.count], operands, bench->workspace, bench->gpu.stream, &error),
        way->name, error.text);
    loop.count++;
  }
  return loop;
}

static void loop_launch(const Bench *bench, const Loop *loop) {
  Error error;
  for (int i = 0; i < loop->count; i++) {
    made_or_exit(gemm_launch(bench->gemms, loop->problem[i], loop->operands[i], false, bench->workspace,
                             bench->gpu.stream, &error),
                 "a product", error.text);
  }
}

// --- times ---

// Seconds of one launch, of `count` together; of ours, or of the library.
static double burst(const Bench *bench, Job *job, const Loop *loop, int count) {
  const Gpu *gpu = &bench->gpu;
  float milliseconds = 0;
  gpu_check(gpu, gpu->cuda.event_record(gpu->begin, gpu->stream), "timing");
  for (int i = 0; i < count; i++) {
    if (loop) {
      loop_launch(bench, loop);
    } else {
      gpu_launch(gpu, &job->loaded, job->slots, true);
    }
  }
  gpu_check(gpu, gpu->cuda.event_record(gpu->end, gpu->stream), "timing");
  gpu_check(gpu, gpu->cuda.event_synchronize(gpu->end), "timing");
  gpu_check(gpu, gpu->cuda.event_elapsed(&milliseconds, gpu->begin, gpu->end), "timing");
  return (double)milliseconds / 1e3 / count;
}

static int launches_for(double once) {
  return once * 1000 > BURST_SECONDS ? (int)(BURST_SECONDS / once) + 1 : 1000;
}

// The medians of both, in seconds; theirs only where there is a loop.
static void turns(const Bench *bench, Job *job, const Loop *loop, double *mine, double *theirs) {
  double ours[BURSTS], its[BURSTS] = {0};
  const int count = launches_for(burst(bench, job, NULL, 3)),
            its_count = loop ? launches_for(burst(bench, job, loop, 1)) : 0;
  for (int i = -1; i < BURSTS; i++) {  // the first is not counted
    const double one = burst(bench, job, NULL, count), other = loop ? burst(bench, job, loop, its_count) : 0;
    if (i >= 0) {
      ours[i] = one;
      its[i] = other;
    }
  }
  *mine = bursts_median(ours, BURSTS);
  *theirs = bursts_median(its, BURSTS);
}

static double flops_of(const Row *row) {
  return 2.0 * (double)positions_of(row) * (double)row->embed * (double)row->ffn;
}

static void product_time(const Bench *bench, const Problem *p, const Way *way) {
  Job job = product_job(bench, p, way, NULL);
  const Loop loop = loop_of(bench, p, way);
  double mine, theirs;
  turns(bench, &job, loop.count ? &loop : NULL, &mine, &theirs);
  printf("OURS %s %s us=%.1f TFLOPs=%.1f %s\n", p->row->name, way->name, mine * 1e6, flops_of(p->row) / mine / 1e12,
         job.kernel.form);
  if (loop.count) {
    printf("CUBLAS %s %s us=%.1f TFLOPs=%.1f %d products\n", p->row->name, way->name, theirs * 1e6,
           flops_of(p->row) / theirs / 1e12, loop.count);
  }
  fflush(stdout);
  gpu_unload(&bench->gpu, &job.loaded);
}

// What moves memory, beside a copy of as many bytes.
static void move_time(const Bench *bench, const Row *row, const char *name, Job job) {
  double mine, none;
  turns(bench, &job, NULL, &mine, &none);
  printf("OURS %s %s us=%.1f GBs=%.0f ofcopy=%.3f %s\n", row->name, name, mine * 1e6, job.kernel.bytes / mine / 1e9,
         job.kernel.bytes / mine / bench->copies, job.kernel.form);
  fflush(stdout);
  gpu_unload(&bench->gpu, &job.loaded);
}

static void row_time(Bench *bench, const Row *row) {
  Problem p;
  problem_open(bench, row, &p);
  move_time(bench, row, "order", order_job(bench, &p));
  move_time(bench, row, "gather", take_job(bench, &p, false));
  move_time(bench, row, "back", take_job(bench, &p, true));
  for (int w = 0; w < WAYS; w++) {
    product_time(bench, &p, &ways[w]);
  }
  problem_close(&bench->gpu, &p);
}

static void row_forms(Bench *bench, const Row *row) {
  static const CudaForm forms[] = {{.cluster = 1},
                                   {.cluster = 2},
                                   {.cluster = 1, .stages = 3},
                                   {.cluster = 2, .stages = 3},
                                   {.cluster = 1, .columns = 192},
                                   {.cluster = 2, .columns = 192},
                                   {.cluster = 1, .columns = 128},
                                   {.cluster = 2, .columns = 128}};
  Problem p;
  problem_open(bench, row, &p);
  for (int w = 0; w < WAYS; w++) {
    for (size_t f = 0; f < sizeof forms / sizeof *forms; f++) {
      Job job = product_job(bench, &p, &ways[w], &forms[f]);
      double mine, none;
      turns(bench, &job, NULL, &mine, &none);
      printf("FORM %s %s us=%.1f TFLOPs=%.1f %s\n", row->name, ways[w].name, mine * 1e6, flops_of(row) / mine / 1e12,
             job.kernel.form);
      fflush(stdout);
      gpu_unload(&bench->gpu, &job.loaded);
    }
  }
  problem_close(&bench->gpu, &p);
}

// --- the same bits ---

static uint64_t result_hash(const Gpu *gpu, CudaAddress from, void *room, int64_t bytes) {
  uint64_t hash = 1469598103934665603u;
  gpu_get(gpu, room, from, bytes);
  for (int64_t i = 0; i < bytes / 8; i++) {
    hash = (hash ^ ((const uint64_t *)room)[i]) * 1099511628211u;
    hash ^= hash >> 29;
  }
  return hash;
}

// How many calls differ from the first.
static int row_repeat(Bench *bench, const Row *row, int times) {
  const Gpu *gpu = &bench->gpu;
  const int64_t rows_bytes = capacity_of(row) * 2, matrix = row->experts * row->embed * row->ffn;
  int differ = 0;
  Problem p;
  problem_open(bench, row, &p);
  for (int w = 0; w < WAYS; w++) {
    const Grouped g = grouped_of(row, &ways[w]);
    const int64_t bytes = ways[w].sums ? matrix * element_type_bytes(g.type_c) : rows_bytes * g.n;
    void *const room = malloc((size_t)bytes);
    Job job = product_job(bench, &p, &ways[w], NULL);
    uint64_t first = 0;
    for (int i = 0; i < times; i++) {
      gpu_poison(gpu, job.slots[2], g.write == WRITE_STORE ? bytes : 0);
      gpu_poison(gpu, job.loaded.scratch, job.kernel.scratch_bytes);
      if (g.write != WRITE_STORE) {
        gpu_check(gpu, gpu->cuda.fill_bytes(job.slots[2], 0, (size_t)bytes, gpu->stream), "filling");
      }
      gpu_run(gpu, &job.loaded, job.slots, true);
      const uint64_t hash = result_hash(gpu, job.slots[2], room, bytes);
      first = i == 0 ? hash : first;
      differ += hash != first;
    }
    free(room);
    gpu_unload(gpu, &job.loaded);
  }
  printf("REPEAT %s %d calls of %d products, %d differ from the first\n", row->name, times, WAYS, differ);
  fflush(stdout);
  problem_close(gpu, &p);
  return differ;
}

// --- without a GPU ---

static void row_counts(const Row *row) {
  int32_t *const index = malloc((size_t)positions_of(row) * 4);
  int64_t counts[EXPERTS_MOST];
  experts_draw(row, index);
  counts_of(row, index, counts);
  printf("COUNTS %s tokens=%lld choices=%lld embed=%lld ffn=%lld", row->name, (long long)row->tokens,
         (long long)row->choices, (long long)row->embed, (long long)row->ffn);
  for (int64_t e = 0; e < row->experts; e++) {
    printf(" %lld", (long long)counts[e]);
  }
  puts("");
  free(index);
}

static void row_registers(const char *name, const Row *row) {
  Arena *arena = arena_create();
  CudaTarget target;
  CudaKernel kernel;
  const char *why = NULL;
  cuda_target_find(name, &target);
  for (int w = 0; w < WAYS; w++) {
    const Grouped g = grouped_of(row, &ways[w]);
    made_or_exit(cuda_grouped(&g, ways[w].sums, 16, &target, arena, &kernel, &why), ways[w].name, why);
    registers_print(name, arena_format(arena, "%s %s", row->name, ways[w].name), &kernel);
  }
  const Order o = order_of(row);
  static const int aligned[] = {16, 16, 16};
  made_or_exit(cuda_order(&o, arena, &kernel, &why), "order", why);
  registers_print(name, arena_format(arena, "%s order", row->name), &kernel);
  for (int back = 0; back < 2; back++) {
    const Take t = take_of(row, back);
    made_or_exit(cuda_take(&t, t.type, t.type_out, aligned, arena, &kernel, &why), "take", why);
    registers_print(name, arena_format(arena, "%s %s", row->name, back ? "back" : "gather"), &kernel);
  }
  arena_destroy(arena);
}

// --- the command ---

typedef enum { TIMES, LIST, COUNTS, FORMS, REPEAT, REGISTERS } Subject;

static bool is_wanted(const Row *row, int count, char **names) {
  bool wanted = count == 0;
  for (int i = 0; i < count; i++) {
    wanted |= strcmp(names[i], row->name) == 0;
  }
  return wanted;
}

static bool bench_open(Bench *bench) {
  Error error;
  if (!gpu_open(&bench->gpu)) {
    return false;
  }
  const Gpu *gpu = &bench->gpu;
  cuda_target_find(gpu->device.target, &bench->target);
  bench->target.multiprocessors = gpu->device.multiprocessors;
  bench->target.shared_bytes = gpu->device.shared_bytes;
  made_or_exit(copy_rate(&gpu->cuda, gpu->stream, &bench->copies, &error), "copying", error.text);
  printf("copy %.2f TB/s read and written\n", bench->copies / 1e12);
  if (gemms_create(&gpu->cuda, &gpu->device, NULL, bench->arena, &bench->gemms, &error)) {
    bench->workspace = gpu_memory(gpu, NULL, gemms_workspace(bench->gemms));
  } else {
    printf("# CUBLAS: %s\n", error.text);
    bench->gemms = NULL;
  }
  return true;
}

static int rows_run(Subject subject, int times, const char *target, int count, char **names) {
  Bench bench = {.arena = arena_create()};
  int status = 0;
  if (subject == REGISTERS) {
    puts(REGISTERS_HEAD);
  } else if (subject != LIST && subject != COUNTS && !bench_open(&bench)) {
    return 1;
  }
  for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
    if (!is_wanted(&rows[r], count, names)) {
      continue;
    }
    switch (subject) {
      case LIST:
        puts(rows[r].name);
        break;
      case COUNTS:
        row_counts(&rows[r]);
        break;
      case REGISTERS:
        row_registers(target, &rows[r]);
        break;
      case FORMS:
        row_forms(&bench, &rows[r]);
        break;
      case REPEAT:
        status |= row_repeat(&bench, &rows[r], times) > 0;
        break;
      default:
        row_time(&bench, &rows[r]);
    }
  }
  gemms_destroy(bench.gemms);
  arena_destroy(bench.arena);
  return status;
}

int main(int argc, char **argv) {
  static const struct option options[] = {
      {"repeat", required_argument, NULL, REPEAT}, {"registers", required_argument, NULL, REGISTERS},
      {"list", no_argument, NULL, LIST},           {"counts", no_argument, NULL, COUNTS},
      {"forms", no_argument, NULL, FORMS},         {NULL, 0, NULL, 0}};
  Subject subject = TIMES;
  const char *target = NULL;
  CudaTarget figures;
  int times = 2, option;
  while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
    subject = (Subject)option;
    target = option == REGISTERS ? optarg : target;
    times = option == REPEAT ? atoi(optarg) : times;
    if (option == '?' || times < 2 || (option == REGISTERS && !cuda_target_find(target, &figures))) {
      fprintf(stderr,
              "usage: bench_grouped [--list | --counts | --forms | --repeat N | --registers TARGET] [ROW...]\n");
      return 2;
    }
  }
  for (int i = optind; i < argc; i++) {
    bool known = false;
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
      known |= strcmp(argv[i], rows[r].name) == 0;
    }
    if (!known) {
      fprintf(stderr, "bench_grouped: there is no row '%s'; --list says which there are\n", argv[i]);
      return 2;
    }
  }
  return rows_run(subject, times, target, argc - optind, argv + optind);
}
