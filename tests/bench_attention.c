// bench_attention.c: attention and its gradient on one GPU: our kernels, and cuDNN's of the same problem beside them.
//
//   bench_attention [ROW...]           times of all rows, or of some: lines `OURS` and `CUDNN`; --list: which there are
//   bench_attention --repeat N         N calls of both directions at several sizes: whether all give the same bits
//   bench_attention --registers sm_90a a table of every kernel for a target, or of the ROW... that follow: registers,
//                                      bytes spilled, shared memory
//
// Pairs of a query and a key that it sees are counted, 4 and 10 operations for each and element of a head. Ours and
// cuDNN's take turns in bursts, so that the chip is as warm for one as for the other; the times are medians. Inputs are
// of a normal distribution.
#include <getopt.h>

#include "base/array.h"
#include "kernels/cuda/attention.h"
#include "kernels/cuda/target.h"
#include "runtime/cuda/cudnn_attention.h"
#include "tests/bench_bursts.h"
#include "tests/cuda_registers.h"
#include "tests/score_sample.h"

enum { BURSTS = 5, TENSORS = 8, DOCUMENTS = 7 };
enum { Q, K, V, O, D_O, DQ, DK, DV };

typedef struct {
  const char *name;
  int64_t batch, length, heads, groups, depth, value_depth;
  int64_t window;  // 0: causal alone
  double cap;
  bool documents;
} Row;

// 32 heads on 8 where nothing is said.
static const Row rows[] = {
    {"d128_4k", 2, 4096, 8, 4, 128, 128, 0, 0, false},
    {"d128_32k", 1, 32768, 8, 4, 128, 128, 0, 0, false},
    {"d64_1k", 16, 1024, 8, 4, 64, 64, 0, 0, false},
    {"d64_4k", 4, 4096, 8, 4, 64, 64, 0, 0, false},
    {"d64_1k_mha", 64, 1024, 12, 1, 64, 64, 0, 0, false},
    {"d96_4k", 2, 4096, 8, 4, 96, 96, 0, 0, false},
    {"d256_4k", 2, 4096, 8, 2, 256, 256, 0, 0, false},
    {"mla_4k", 2, 4096, 16, 1, 192, 128, 0, 0, false},
    {"window_8k", 1, 8192, 8, 4, 128, 128, 1024, 0, false},
    {"cap_8k", 1, 8192, 8, 4, 128, 128, 1 << 20, 50, false},
    {"documents_8k", 1, 8192, 8, 4, 128, 128, 1 << 20, 0, true},
};

// Of 512 to 2048 tokens, 8192 together.
static const int64_t document_end[DOCUMENTS] = {1024, 1536, 3072, 5120, 5888, 7168, 8192};

static int document_of(int64_t position) {
  int at = 0;
  while (at < DOCUMENTS - 1 && position >= document_end[at]) {
    at++;
  }
  return at;
}

static double pairs_of(const Row *row) {
  double pairs = 0;
  for (int64_t q = 0; q < row->length; q++) {
    int64_t seen = q + 1;
    seen = row->window && row->window < seen ? row->window : seen;
    const int document = document_of(q);
    const int64_t begin = document ? document_end[document - 1] : 0;
    pairs += (double)(row->documents && q + 1 - begin < seen ? q + 1 - begin : seen);
  }
  return pairs;
}

typedef struct {
  Gpu gpu;
  Cudnn *cudnn;
  Arena *arena;  // of cuDNN's plans
} Bench;

typedef struct {
  Arena *arena;
  const Row *row;
  Attention attention;
  CudaKernel kernel[2];
  GpuKernel loaded[2];
  CudaAddress tensor[TENSORS], statistics, captured[SAMPLE_PORTS - SCORE_CAPTURED];
  int64_t count[TENSORS];
  uint64_t slots[2][32];
} Problem;

static Attention attention_of(const Row *row) {
  Attention a = {.type = TYPE_BF16,
                 .causal = true,
                 .window = row->window < row->length ? row->window : 0,
                 .score = row->window > 0,
                 .score_gradient = row->window > 0 ? 2 : 0,
                 .scale = row->window ? 1 : 1 / sqrt((double)row->depth),
                 .batch = row->batch,
                 .queries = row->length,
                 .keys = row->length,
                 .heads = row->heads,
                 .groups = row->groups,
                 .depth = row->depth,
                 .value_depth = row->value_depth};
  int64_t *const strides[TENSORS] = {a.stride_q,  a.stride_k,  a.stride_v,  a.stride_o,
                                     a.stride_do, a.stride_dq, a.stride_dk, a.stride_dv};
  for (int t = 0; t < TENSORS; t++) {
    const bool keys = t == K || t == V || t == DK || t == DV, value = t == V || t == O || t == D_O || t == DV;
    const int64_t line = value ? row->value_depth : row->depth, groups = keys ? 1 : row->groups;
    strides[t][2] = line * groups;
    strides[t][1] = line * groups * row->heads;
    strides[t][0] = line * groups * row->heads * row->length;
    if (!keys) {
      strides[t][3] = line;
    }
  }
  return a;
}

// False, with the reason printed: the target has no kernel for it.
static bool kernels_make(const Row *row, const CudaTarget *target, Problem *problem) {
  const SampleScore score = {1 / sqrt((double)row->depth), row->cap, false, row->documents, row->window, 0};
  *problem = (Problem){.arena = arena_create(), .row = row, .attention = attention_of(row)};
  for (int g = 0; g < 2; g++) {
    AttentionScores scores = {NULL, NULL};
    const char *why = NULL;
    if (row->window) {
      scores.score = sample_make(problem->arena, &problem->attention, TYPE_F32, &score, false);
      scores.gradient = g ? sample_make(problem->arena, &problem->attention, TYPE_F32, &score, true) : NULL;
    }
    if (!cuda_attention(&problem->attention, g ? INSTRUCTION_ATTENTION_GRAD : INSTRUCTION_ATTENTION, 16, &scores,
                        target, problem->arena, &problem->kernel[g], &why)) {
      fprintf(stderr, "bench_attention: %s: %s\n", row->name, why);
      return false;
    }
  }
  return true;
}

static void problem_open(const Gpu *gpu, const Row *row, Problem *problem) {
  CudaTarget target = {0};
  cuda_target_find(gpu->device.target, &target);
  target.multiprocessors = gpu->device.multiprocessors;
  target.shared_bytes = gpu->device.shared_bytes;
  if (!kernels_make(row, &target, problem)) {
    exit(1);
  }
  for (int t = 0; t < TENSORS; t++) {
    const bool keys = t == K || t == V || t == DK || t == DV, value = t == V || t == O || t == D_O || t == DV;
    problem->count[t] =
        row->batch * row->length * row->heads * (keys ? 1 : row->groups) * (value ? row->value_depth : row->depth);
    problem->tensor[t] =
        t <= V || t == D_O ? bursts_numbers(gpu, problem->count[t], t) : gpu_memory(gpu, NULL, problem->count[t] * 2);
  }
  problem->statistics = gpu_memory(gpu, NULL, row->batch * row->length * row->heads * row->groups * 4);
  int *const document = malloc((size_t)row->length * sizeof *document);
  for (int64_t i = 0; i < row->length; i++) {
    document[i] = document_of(i);
  }
  for (int p = 0; p < SAMPLE_PORTS - SCORE_CAPTURED; p++) {
    problem->captured[p] = gpu_memory(gpu, document, row->length * 4);
  }
  free(document);
  for (int g = 0; g < 2; g++) {
    const CudaAddress *t = problem->tensor;
    const uint64_t all[] = {t[Q], t[K], t[V], t[O], problem->statistics, t[D_O], t[DQ], t[DK], t[DV]};
    const int captured = SAMPLE_PORTS - SCORE_CAPTURED;
    int count = g ? 9 : 5;
    memcpy(problem->slots[g], all, sizeof all);
    for (int i = 0; row->window && i < (g + 1) * captured; i++) {
      problem->slots[g][count++] = problem->captured[i % captured];
    }
    problem->slots[g][count] = problem->slots[g][count + 1] = 0;
    problem->loaded[g] = gpu_load(gpu, row->name, &problem->kernel[g]);
  }
}

static void problem_close(const Gpu *gpu, Problem *problem) {
  for (int t = 0; t < TENSORS; t++) {
    gpu_free(gpu, problem->tensor[t]);
  }
  for (int p = 0; p < SAMPLE_PORTS - SCORE_CAPTURED; p++) {
    gpu_free(gpu, problem->captured[p]);
  }
  gpu_free(gpu, problem->statistics);
  gpu_unload(gpu, &problem->loaded[0]);
  gpu_unload(gpu, &problem->loaded[1]);
  arena_destroy(problem->arena);
}

typedef struct {
  CudnnAttention *plan;
  CudaAddress workspace;
} Library;

// Seconds of one launch, of `count` together.
static double burst(const Bench *bench, const Problem *problem, int gradient, const Library *library, int count) {
  const Gpu *gpu = &bench->gpu;
  uint64_t slots[32];
  float milliseconds = 0;
  Error error;
  memcpy(slots, problem->slots[gradient], sizeof slots);
  gpu_check(gpu, gpu->cuda.event_record(gpu->begin, gpu->stream), "timing");
  for (int i = 0; i < count; i++) {
    if (!library) {
      gpu_launch(gpu, &problem->loaded[gradient], slots, true);
    } else if (!cudnn_attention_launch(bench->cudnn, library->plan, slots, library->workspace, gpu->stream, &error)) {
      fail_msg("%s", error.text);
    }
  }
  gpu_check(gpu, gpu->cuda.event_record(gpu->end, gpu->stream), "timing");
  gpu_check(gpu, gpu->cuda.event_synchronize(gpu->end), "timing");
  gpu_check(gpu, gpu->cuda.event_elapsed(&milliseconds, gpu->begin, gpu->end), "timing");
  return (double)milliseconds / 1e3 / count;
}

static void line_print(const char *who, const Row *row, int gradient, double seconds[BURSTS], int64_t scratch,
                       const char *form) {
  const double flops = (gradient ? 5.0 : 2.0) * pairs_of(row) * (double)(row->batch * row->heads * row->groups) *
                       (double)(row->depth + row->value_depth);
  const double median = bursts_median(seconds, BURSTS);
  printf("%s %s %s us=%.1f TFLOPs=%.1f scratch=%lld %s\n", who, row->name, gradient ? "backward" : "forward",
         median * 1e6, flops / median / 1e12, (long long)scratch, form);
  fflush(stdout);
}

static void direction_time(const Bench *bench, const Problem *problem, int gradient) {
  const char *why = NULL;
  double ours[BURSTS], theirs[BURSTS];
  Library library = {NULL, 0};
  const bool both = bench->cudnn && cudnn_attention_prepare(bench->cudnn, &problem->attention, gradient, bench->arena,
                                                            &library.plan, &why);
  const int64_t workspace = both ? cudnn_attention_workspace(library.plan) : 0;
  library.workspace = gpu_memory(&bench->gpu, NULL, workspace);
  const double once = burst(bench, problem, gradient, NULL, 3);
  const int count = once * 100 > 0.3 ? 20 : 100;
  for (int i = -1; i < BURSTS; i++) {  // the first is not counted
    const double mine = burst(bench, problem, gradient, NULL, count);
    const double its = both ? burst(bench, problem, gradient, &library, count) : 0;
    if (i >= 0) {
      ours[i] = mine;
      theirs[i] = its;
    }
  }
  line_print("OURS", problem->row, gradient, ours, problem->kernel[gradient].scratch_bytes,
             problem->kernel[gradient].form);
  if (both) {
    line_print("CUDNN", problem->row, gradient, theirs, workspace, cudnn_attention_form(library.plan));
  } else {
    printf("# CUDNN %s %s: %s\n", problem->row->name, gradient ? "backward" : "forward", why ? why : "it is not there");
  }
  gpu_free(&bench->gpu, library.workspace);
}

// The first name that no row has; NULL: there is none.
static const char *unknown_row(int count, char **names) {
  for (int i = 0; i < count; i++) {
    size_t r = 0;
    while (r < sizeof rows / sizeof *rows && strcmp(names[i], rows[r].name) != 0) {
      r++;
    }
    if (r == sizeof rows / sizeof *rows) {
      return names[i];
    }
  }
  return NULL;
}

static bool is_wanted(const Row *row, int count, char **names) {
  bool wanted = count == 0;
  for (int i = 0; i < count; i++) {
    wanted |= strcmp(names[i], row->name) == 0;
  }
  return wanted;
}

static void rows_time(const Bench *bench, int count, char **names) {
  for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
    if (is_wanted(&rows[r], count, names)) {
      Problem problem;
      problem_open(&bench->gpu, &rows[r], &problem);
      direction_time(bench, &problem, 0);
      direction_time(bench, &problem, 1);
      problem_close(&bench->gpu, &problem);
    }
  }
}

// Sets a mark where two tensors differ. Slots: both, the mark, how many numbers of 16 bits.
static const CudaKernel comparison = {
    .text =
        "struct Slots { unsigned long long at[6]; };\n"
        "extern \"C\" __global__ void differ(const Slots slots) {\n"
        "  const unsigned short *a = (const unsigned short *)slots.at[0];\n"
        "  const unsigned short *b = (const unsigned short *)slots.at[1];\n"
        "  unsigned long long i = (unsigned long long)blockIdx.x * 256 + threadIdx.x;\n"
        "  for (; i < slots.at[3]; i += 264 * 256) {\n"
        "    if (a[i] != b[i]) {\n"
        "      *(unsigned *)slots.at[2] = 1;\n"
        "    }\n"
        "  }\n"
        "}\n",
    .form = "comparison",
    .port_count = 4,
    .launch_count = 1,
    .launch = {{"differ", {264, 1, 1}, {256, 1, 1}, 0, 0}}};

enum { RESULTS = 5 };

typedef struct {  // what both directions make
  CudaAddress now[RESULTS], first[RESULTS];
  int64_t bytes[RESULTS];
} Results;

static Results results_of(const Gpu *gpu, const Problem *p) {
  const Row *row = p->row;
  Results results = {.now = {p->tensor[O], p->statistics, p->tensor[DQ], p->tensor[DK], p->tensor[DV]},
                     .bytes = {p->count[O] * 2, row->batch * row->length * row->heads * row->groups * 4,
                               p->count[DQ] * 2, p->count[DK] * 2, p->count[DV] * 2}};
  for (int i = 0; i < RESULTS; i++) {
    results.first[i] = gpu_memory(gpu, NULL, results.bytes[i]);
  }
  return results;
}

// One call of both directions into poisoned memory.
static void results_make(const Gpu *gpu, Problem *problem, const Results *results) {
  for (int i = 0; i < RESULTS; i++) {
    gpu_poison(gpu, results->now[i], results->bytes[i]);
  }
  for (int g = 0; g < 2; g++) {
    gpu_poison(gpu, problem->loaded[g].scratch, problem->kernel[g].scratch_bytes);
    gpu_launch(gpu, &problem->loaded[g], problem->slots[g], true);
  }
}

static void results_keep(const Gpu *gpu, const Results *results) {
  for (int i = 0; i < RESULTS; i++) {
    void *const copy = malloc((size_t)results->bytes[i]);
    gpu_get(gpu, copy, results->now[i], results->bytes[i]);
    gpu_set(gpu, results->first[i], copy, results->bytes[i]);
    free(copy);
  }
}

static void results_compare(const Gpu *gpu, const GpuKernel *compare, const Results *results, CudaAddress mark) {
  for (int i = 0; i < RESULTS; i++) {
    uint64_t slots[6] = {results->now[i], results->first[i], mark, (uint64_t)results->bytes[i] / 2};
    gpu_launch(gpu, compare, slots, true);
  }
}

static int marks_count(const Gpu *gpu, CudaAddress marks, int count) {
  uint32_t *const all = malloc((size_t)count * sizeof *all);
  int set = 0;
  gpu_get(gpu, all, marks, (int64_t)count * 4);
  for (int i = 0; i < count; i++) {
    set += all[i] != 0;
  }
  free(all);
  return set;
}

// Whether a bit that is turned in each result is noticed.
static bool comparison_notices(const Gpu *gpu, const GpuKernel *compare, const Results *results, CudaAddress mark) {
  bool notices = true;
  for (int i = 0; i < RESULTS; i++) {
    const CudaAddress place = results->first[i] + (CudaAddress)results->bytes[i] - 2;
    const uint32_t none = 0;
    uint16_t last;
    gpu_get(gpu, &last, place, 2);
    const uint16_t turned = last ^ 1;
    gpu_set(gpu, place, &turned, 2);
    gpu_set(gpu, mark, &none, 4);
    results_compare(gpu, compare, results, mark);
    notices = notices && marks_count(gpu, mark, 1) == 1;
    gpu_set(gpu, place, &last, 2);
  }
  return notices;
}

// How many calls of a size give other bits than the first, -1: the comparison is of no use.
static int size_repeat(const Gpu *gpu, const GpuKernel *compare, const Row *size, int times) {
  Problem problem;
  problem_open(gpu, size, &problem);
  const Results results = results_of(gpu, &problem);
  uint32_t *const none = calloc((size_t)times, sizeof *none);
  const CudaAddress marks = gpu_memory(gpu, none, (int64_t)times * 4);
  results_make(gpu, &problem, &results);
  results_keep(gpu, &results);
  for (int i = 1; i < times; i++) {
    results_make(gpu, &problem, &results);
    results_compare(gpu, compare, &results, marks + (CudaAddress)i * 4);
  }
  int differ = marks_count(gpu, marks, times);
  printf("REPEAT %s %d calls of both directions, %d differ from the first\n", size->name, times, differ);
  results_make(gpu, &problem, &results);
  if (differ == 0 && !comparison_notices(gpu, compare, &results, marks)) {
    printf("REPEAT %s FAILED: a turned bit is not noticed\n", size->name);
    differ = -1;
  }
  fflush(stdout);
  for (int i = 0; i < RESULTS; i++) {
    gpu_free(gpu, results.first[i]);
  }
  gpu_free(gpu, marks);
  free(none);
  problem_close(gpu, &problem);
  return differ;
}

// Odd lengths, and sizes of more blocks than an H200 runs at once, whose order then changes from call to call.
static int repeat(const Gpu *gpu, int times) {
  static const Row sizes[] = {
      {"d128", 1, 1000, 2, 2, 128, 128, 0, 0, false},     {"d64", 1, 4097, 1, 2, 64, 64, 0, 0, false},
      {"window", 1, 1000, 2, 2, 128, 128, 200, 50, true}, {"d96", 1, 127, 4, 2, 96, 96, 0, 0, false},
      {"d128_4k", 1, 4096, 8, 4, 128, 128, 0, 0, false},  {"d64_4k", 1, 4096, 8, 4, 64, 64, 0, 0, false},
      {"d96_4k", 1, 4096, 4, 4, 96, 96, 0, 0, false},     {"d256_2k", 1, 2048, 4, 4, 256, 256, 0, 0, false},
      {"mla_2k", 1, 2048, 16, 1, 192, 128, 0, 0, false},  {"documents_4k", 1, 4096, 8, 4, 128, 128, 1024, 50, true},
  };
  const GpuKernel compare = gpu_load(gpu, "comparison", &comparison);
  int wrong = 0;
  for (size_t r = 0; r < sizeof sizes / sizeof *sizes; r++) {
    wrong += size_repeat(gpu, &compare, &sizes[r], times) != 0;
  }
  gpu_unload(gpu, &compare);
  return wrong > 0;
}

static int registers(const char *name, int count, char **names) {
  CudaTarget target;
  if (strncmp(name, "sm_", 3) != 0 || !cuda_target_find(name, &target)) {
    fprintf(stderr, "bench_attention: --registers takes sm_80, sm_86, sm_89, sm_90a or sm_100a, not '%s'\n", name);
    return 2;
  }
  puts(REGISTERS_HEAD);
  for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
    Problem problem;
    if (!is_wanted(&rows[r], count, names)) {
      continue;
    }
    if (kernels_make(&rows[r], &target, &problem)) {
      registers_print(name, rows[r].name, &problem.kernel[0]);
      registers_print(name, rows[r].name, &problem.kernel[1]);
    }
    arena_destroy(problem.arena);
  }
  return 0;
}

int main(int argc, char **argv) {
  static const struct option options[] = {{"repeat", required_argument, NULL, 'r'},
                                          {"registers", required_argument, NULL, 'g'},
                                          {"list", no_argument, NULL, 'l'},
                                          {NULL, 0, NULL, 0}};
  const char *target = NULL;
  int times = 0, option;
  Bench bench = {.arena = arena_create()};
  Error error;
  while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
    if (option == 'g') {
      target = optarg;
      continue;
    }
    if (option == 'l') {
      for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        puts(rows[r].name);
      }
      return 0;
    }
    times = option == 'r' ? atoi(optarg) : -1;
    if (times < 2) {
      fprintf(stderr, "usage: bench_attention [--repeat N | --registers TARGET [ROW...] | --list | ROW...]\n");
      return 2;
    }
  }
  const char *unknown = unknown_row(argc - optind, argv + optind);
  if (unknown) {
    fprintf(stderr, "bench_attention: there is no row '%s'; --list says which there are\n", unknown);
    return 2;
  }
  if (target) {
    return registers(target, argc - optind, argv + optind);
  }
  if (!gpu_open(&bench.gpu)) {
    return 1;
  }
  if (times == 0 && !cudnn_create(&bench.gpu.cuda, &bench.gpu.device, false, &bench.cudnn, &error)) {
    printf("# no cuDNN: %s\n", error.text);
    bench.cudnn = NULL;
  }
  int status = 0;
  if (times > 0) {
    status = repeat(&bench.gpu, times);
  } else {
    rows_time(&bench, argc - optind, argv + optind);
  }
  cudnn_destroy(bench.cudnn);
  arena_destroy(bench.arena);
  gpu_close(&bench.gpu);
  return status;
}
