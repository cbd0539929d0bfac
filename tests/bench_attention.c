// bench_attention.c: attention and its gradient on one GPU: our kernels, and cuDNN's of the same problem beside them.
//
//   bench_attention [ROW...]           times of all rows, or of some: lines `OURS` and `CUDNN`; --list: which there are
//   bench_attention --repeat N         N calls of both directions at several sizes: whether all give the same bits
//   bench_attention --registers        of every kernel for sm_90a, by NVRTC: registers, and bytes spilled
//
// Pairs of a query and a key that it sees are counted, 4 and 10 operations for each and element of a head. Ours and
// cuDNN's take turns in bursts, so that the chip is as warm for one as for the other; the times are medians. Inputs are
// of a normal distribution.
#include <getopt.h>

#include "base/array.h"
#include "kernels/cpu/convert.h"
#include "kernels/cuda/attention.h"
#include "kernels/cuda/target.h"
#include "runtime/cuda/cudnn_attention.h"
#include "tests/cuda_support.h"
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

static void kernels_make(const Row *row, const CudaTarget *target, Problem *problem) {
  const SampleScore score = {1 / sqrt((double)row->depth), row->cap, false, row->documents, row->window};
  *problem = (Problem){.arena = arena_create(), .row = row, .attention = attention_of(row)};
  for (int g = 0; g < 2; g++) {
    AttentionScores scores = {NULL, NULL};
    const char *why = NULL;
    if (row->window) {
      scores.score = sample_make(problem->arena, &problem->attention, TYPE_F32, &score, false);
      scores.gradient = g ? sample_make(problem->arena, &problem->attention, TYPE_F32, &score, true) : NULL;
    }
    if (!cuda_attention(&problem->attention, g, 16, &scores, target, problem->arena, &problem->kernel[g], &why)) {
      fprintf(stderr, "bench_attention: %s: %s\n", row->name, why);
      exit(1);
    }
  }
}

// 16-bit numbers of a normal distribution: a table of them, in another order for each tensor.
static CudaAddress numbers_make(const Gpu *gpu, int64_t count, int tensor) {
  enum { TABLE = 1 << 16 };
  static uint16_t table[TABLE];
  CudaDraw draw = {5};
  for (int i = 0; i < TABLE && table[0] == 0; i++) {
    double sum = 0;
    for (int j = 0; j < 12; j++) {
      sum += cuda_draw_real(&draw) / 2;
    }
    table[TABLE - 1 - i] = bf16_of_f32((float)sum);
  }
  uint16_t *const numbers = malloc((size_t)count * sizeof *numbers);
  for (int64_t i = 0; i < count; i++) {
    numbers[i] = table[(i * 7919 + tensor * 131 + (i >> 13) * 17) % TABLE];
  }
  const CudaAddress made = gpu_memory(gpu, numbers, count * 2);
  free(numbers);
  return made;
}

static void problem_open(const Bench *bench, const Row *row, Problem *problem) {
  const Gpu *gpu = &bench->gpu;
  CudaTarget target = {0};
  cuda_target_find(gpu->device.target, &target);
  target.multiprocessors = gpu->device.multiprocessors;
  target.shared_bytes = gpu->device.shared_bytes;
  kernels_make(row, &target, problem);
  for (int t = 0; t < TENSORS; t++) {
    const bool keys = t == K || t == V || t == DK || t == DV, value = t == V || t == O || t == D_O || t == DV;
    problem->count[t] =
        row->batch * row->length * row->heads * (keys ? 1 : row->groups) * (value ? row->value_depth : row->depth);
    problem->tensor[t] =
        t <= V || t == D_O ? numbers_make(gpu, problem->count[t], t) : gpu_memory(gpu, NULL, problem->count[t] * 2);
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

static int by_size(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

static void line_print(const char *who, const Row *row, int gradient, double seconds[BURSTS], int64_t scratch,
                       const char *form) {
  const double flops = (gradient ? 5.0 : 2.0) * pairs_of(row) * (double)(row->batch * row->heads * row->groups) *
                       (double)(row->depth + row->value_depth);
  qsort(seconds, BURSTS, sizeof *seconds, by_size);
  printf("%s %s %s us=%.1f TFLOPs=%.1f scratch=%lld %s\n", who, row->name, gradient ? "backward" : "forward",
         seconds[BURSTS / 2] * 1e6, flops / seconds[BURSTS / 2] / 1e12, (long long)scratch, form);
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

static void rows_time(const Bench *bench, int count, char **names) {
  for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
    bool wanted = count == 0;
    for (int i = 0; i < count; i++) {
      wanted |= strcmp(names[i], rows[r].name) == 0;
    }
    if (wanted) {
      Problem problem;
      problem_open(bench, &rows[r], &problem);
      direction_time(bench, &problem, 0);
      direction_time(bench, &problem, 1);
      problem_close(&bench->gpu, &problem);
    }
  }
}

// Results of one call, all together.
static void *results_get(const Gpu *gpu, const Problem *problem, size_t *bytes) {
  static const int results[] = {O, DQ, DK, DV};
  *bytes = 0;
  for (int i = 0; i < 4; i++) {
    *bytes += (size_t)problem->count[results[i]] * 2;
  }
  char *const all = malloc(*bytes);
  for (int i = 0, at = 0; i < 4; at += (int)problem->count[results[i]] * 2, i++) {
    gpu_get(gpu, all + at, problem->tensor[results[i]], problem->count[results[i]] * 2);
  }
  return all;
}

static int repeat(const Bench *bench, int times) {
  static const Row sizes[] = {
      {"d128", 1, 1000, 2, 2, 128, 128, 0, 0, false},
      {"d64", 1, 4097, 1, 2, 64, 64, 0, 0, false},
      {"window", 1, 1000, 2, 2, 128, 128, 200, 50, true},
      {"d96", 1, 127, 4, 2, 96, 96, 0, 0, false},
  };
  int wrong = 0;
  for (size_t r = 0; r < sizeof sizes / sizeof *sizes; r++) {
    Problem problem;
    size_t bytes = 0;
    void *first = NULL;
    int differ = 0;
    problem_open(bench, &sizes[r], &problem);
    for (int i = 0; i < times; i++) {
      gpu_run(&bench->gpu, &problem.loaded[0], problem.slots[0], true);
      gpu_run(&bench->gpu, &problem.loaded[1], problem.slots[1], true);
      void *const now = results_get(&bench->gpu, &problem, &bytes);
      differ += first && memcmp(first, now, bytes) != 0;
      free(first ? now : NULL);
      first = first ? first : now;
    }
    printf("REPEAT %s %d calls of both directions, %d differ from the first\n", sizes[r].name, times, differ);
    fflush(stdout);
    wrong += differ;
    free(first);
    problem_close(&bench->gpu, &problem);
  }
  return wrong > 0;
}

// Keeps the text of each kernel as a file and asks ptxas, which comes with the toolkit.
static int registers(void) {
  CudaTarget target;
  cuda_target_find("sm_90a", &target);
  for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
    Problem problem;
    kernels_make(&rows[r], &target, &problem);
    for (int g = 0; g < 2; g++) {
      char path[] = "/tmp/mdl_registers_XXXXXX.cu", command[512];
      FILE *file = fdopen(mkstemps(path, 3), "w");
      fputs(problem.kernel[g].text, file);
      fclose(file);
      printf("%s %s\n", rows[r].name, problem.kernel[g].form);
      fflush(stdout);
      snprintf(command, sizeof command,
               "nvcc -diag-suppress 177 -gencode=arch=compute_90a,code=sm_90a -cubin -Xptxas -v -o /dev/null %s 2>&1 | "
               "grep -E 'entry function|spill|Used|serialized' | sed 's/^/  /; s/ptxas info *: //'",
               path);
      if (system(command) != 0) {
        printf("  nvcc is not there\n");
      }
      unlink(path);
    }
    arena_destroy(problem.arena);
  }
  return 0;
}

int main(int argc, char **argv) {
  static const struct option options[] = {{"repeat", required_argument, NULL, 'r'},
                                          {"registers", no_argument, NULL, 'g'},
                                          {"list", no_argument, NULL, 'l'},
                                          {NULL, 0, NULL, 0}};
  int times = 0, option;
  Bench bench = {.arena = arena_create()};
  Error error;
  while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
    if (option == 'g') {
      return registers();
    }
    if (option == 'l') {
      for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        puts(rows[r].name);
      }
      return 0;
    }
    times = option == 'r' ? atoi(optarg) : -1;
    if (times < 2) {
      fprintf(stderr, "usage: bench_attention [--repeat N | --registers | --list | ROW...]\n");
      return 2;
    }
  }
  const char *unknown = unknown_row(argc - optind, argv + optind);
  if (unknown) {
    fprintf(stderr, "bench_attention: there is no row '%s'; --list says which there are\n", unknown);
    return 2;
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
    status = repeat(&bench, times);
  } else {
    rows_time(&bench, argc - optind, argv + optind);
  }
  cudnn_destroy(bench.cudnn);
  arena_destroy(bench.arena);
  gpu_close(&bench.gpu);
  return status;
}
