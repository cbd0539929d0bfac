// cuda_gemm_test.c: products through cuBLASLt against plain loops: their biases, how they are cut, and operands of 8
// bits with their scales.
//
// Without a GPU the library and the driver are stand-ins (tests/fake), one of which knows no biases.
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "compiler/compile.h"
#include "kernels/cuda/instruction.h"
#include "runtime/cuda/gemm.h"
#include "tests/cpu_support.h"
#include "tests/effort.h"
#include "tests/fake/stand_ins.h"

enum { GAP = 3, GUARD = 64 };  // elements between rows, bytes behind the last
enum { SCALED_GAP = 16 };      // where rows must begin at multiples of 16 bytes

typedef struct {
  Cuda cuda;
  CudaDevice gpu;
  CudaStream stream;
  Arena *arena;
  Gemms *gemms;
  CudaAddress workspace;
} Gpu;

typedef struct {
  CudaAddress at;
  char *host;
  int64_t bytes;
} Memory;

static bool gpu_open(Gpu *gpu) {
  Error error = {0};
  *gpu = (Gpu){.arena = arena_create()};
  if (!cuda_open(&gpu->cuda, &error) || !cuda_device_open(&gpu->cuda, 0, &gpu->gpu, &error) ||
      !gemms_create(&gpu->cuda, &gpu->gpu, NULL, gpu->arena, &gpu->gemms, &error)) {
    print_message("skipped: %s\n", error.text);
    return false;
  }
  assert_int_equal(gpu->cuda.stream_create(&gpu->stream, CUDA_STREAM_NON_BLOCKING), 0);
  assert_int_equal(gpu->cuda.memory_allocate(&gpu->workspace, (size_t)gemms_workspace(gpu->gemms)), 0);
  return true;
}

static void gpu_close(Gpu *gpu) {
  gemms_destroy(gpu->gemms);
  gpu->cuda.memory_free(gpu->workspace);
  gpu->cuda.stream_destroy(gpu->stream);
  cuda_device_close(&gpu->cuda, &gpu->gpu);
  cuda_close(&gpu->cuda);
  arena_destroy(gpu->arena);
}

static Memory memory_make(const Gpu *gpu, ElementType type, int64_t count, Draw *random) {
  Memory memory = {.bytes = count * element_type_bytes(type) + GUARD};
  memory.host = malloc((size_t)memory.bytes);
  memset(memory.host, 0x5a, (size_t)memory.bytes);
  real_fill(type, memory.host, count, random);
  assert_int_equal(gpu->cuda.memory_allocate(&memory.at, (size_t)memory.bytes), 0);
  assert_int_equal(gpu->cuda.copy_in(memory.at, memory.host, (size_t)memory.bytes, gpu->stream), 0);
  assert_int_equal(gpu->cuda.stream_synchronize(gpu->stream), 0);
  return memory;
}

static void memory_drop(const Gpu *gpu, Memory *memory) {
  gpu->cuda.memory_free(memory->at);
  free(memory->host);
}

static double wanted(const Gemm *g, const Memory *operands, int64_t row, int64_t column) {
  double sum = 0;
  for (int64_t k = 0; k < g->k; k++) {
    sum += element_at(g->type, operands[0].host, g->transpose_a ? k * g->lda + row : row * g->lda + k) *
           element_at(g->type_b, operands[1].host, g->transpose_b ? column * g->ldb + k : k * g->ldb + column) *
           scale_at(g, true, operands[4].host, row, k) * scale_at(g, false, operands[5].host, column, k);
  }
  sum += g->epilogue == EPILOGUE_BIAS ? element_at(g->type_c, operands[3].host, column) : 0;
  return sum + (g->write != WRITE_STORE ? element_at(g->type_c, operands[2].host, row * g->ldc + column) : 0);
}

// Of a result. Matrix units keep some 14 bits of sums of products of 8 bits.
static double tolerance_of(const Gemm *g) {
  const double rounded = g->type_c == TYPE_F64 ? 1e-12 : g->type_c == TYPE_BF16 ? 4e-3 : 1e-5;
  return (gemm_scaled(g) && rounded < 2e-4 ? 2e-4 : rounded) * sqrt((double)g->k + 1);
}

// All of c: the product in its columns, nothing new in the gaps.
static void compare(const Gemm *g, const Memory *operands, const char *after) {
  const Memory *c = &operands[2];
  const int64_t size = element_type_bytes(g->type_c);
  const double tolerance = tolerance_of(g);
  for (int64_t row = 0; row < g->m; row++) {
    for (int64_t column = 0; column < g->ldc; column++) {
      const int64_t at = row * g->ldc + column;
      const double got = element_at(g->type_c, after, at), sum = wanted(g, operands, row, column < g->n ? column : 0);
      if (column >= g->n ? memcmp(after + at * size, c->host + at * size, (size_t)size) != 0
                         : !(fabs(got - sum) <= tolerance * fmax(fabs(sum), 1))) {
        fail_msg("%s %s %dx%dx%d %d%d epilogue %d: [%d, %d] is %.17g, not %.17g", element_type_name(g->type),
                 element_type_name(g->type_b), (int)g->m, (int)g->n, (int)g->k, g->transpose_a, g->transpose_b,
                 (int)g->epilogue, (int)row, (int)column, got, sum);
      }
    }
  }
  assert_memory_equal(after + c->bytes - GUARD, c->host + c->bytes - GUARD, GUARD);
}

static void check(Gpu *gpu, Gemm g, Draw *random) {
  Error error = {0};
  const int alignment[] = {16, 16, 16, 16};
  GemmProblem *problem = NULL;
  const int gap = gemm_scaled(&g) ? SCALED_GAP : GAP;
  g.lda = (g.transpose_a ? g.m : g.k) + gap;
  g.ldb = (g.transpose_b ? g.k : g.n) + gap;
  g.ldc = g.n + gap;
  Memory operands[] = {memory_make(gpu, g.type, g.lda * (g.transpose_a ? g.k : g.m), random),
                       memory_make(gpu, g.type_b, g.ldb * (g.transpose_b ? g.n : g.k), random),
                       memory_make(gpu, g.type_c, g.ldc * g.m, random),
                       memory_make(gpu, g.type_c, g.n, random),
                       memory_make(gpu, TYPE_F32, scale_count(&g, true), random),
                       memory_make(gpu, TYPE_F32, scale_count(&g, false), random)};
  CudaAddress addresses[GEMM_ADDRESSES];
  for (int i = 0; i < GEMM_ADDRESSES; i++) {
    addresses[i] = operands[i].at;
  }
  char *after = malloc((size_t)operands[2].bytes);
  if (!gemm_prepare(gpu->gemms, &g, alignment, "test", &problem, &error) ||
      !gemm_tune(gpu->gemms, problem, addresses, gpu->workspace, gpu->stream, &error) ||
      gpu->cuda.copy_in(operands[2].at, operands[2].host, (size_t)operands[2].bytes, gpu->stream) != 0 ||
      !gemm_launch(gpu->gemms, problem, addresses, false, gpu->workspace, gpu->stream, &error) ||
      gpu->cuda.copy_out(after, operands[2].at, (size_t)operands[2].bytes, gpu->stream) != 0 ||
      gpu->cuda.stream_synchronize(gpu->stream) != 0) {
    fail_msg("%s", error.text);
  }
  assert_true(gemm_tuned(problem));
  assert_true(gemm_launches(problem) >= 1);
  compare(&g, operands, after);
  free(after);
  for (int i = 0; i < GEMM_ADDRESSES; i++) {
    memory_drop(gpu, &operands[i]);
  }
}

static void products(void **state) {
  static const int64_t shapes[][3] = {{1, 1, 1}, {7, 5, 3}, {33, 64, 16}, {9, 261, 12}, {20, 16, 259}, {5, 263, 261}};
  static const ElementType types[] = {TYPE_F32, TYPE_F64};
  Draw random = {1};
  Gpu gpu;
  (void)state;
  if (!gpu_open(&gpu)) {
    arena_destroy(gpu.arena);
    skip();
  }
  for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
    for (int form = 0; form < 24; form++) {
      if (effort_samples_out(s + (size_t)form, 5)) {
        continue;
      }
      Gemm g = {.type = types[form & 1],
                .type_b = types[form & 1],
                .type_c = types[form & 1],
                .transpose_a = form >> 1 & 1,
                .transpose_b = form >> 2 & 1,
                .write = form < 8 ? WRITE_ADD : WRITE_STORE,
                .epilogue = form < 16 ? EPILOGUE_NONE : EPILOGUE_BIAS};
      g.m = shapes[s][0];
      g.n = shapes[s][1];
      g.k = shapes[s][2];
      check(&gpu, g, &random);
    }
  }
  gpu_close(&gpu);
}

// A library that does not add them: the rows are the bias before the product is added.
static void biases_without_epilogue(void **state) {
  if (!stands_in()) {
    print_message("skipped: the library of this machine adds them\n");
    skip();
  }
  setenv("FAKE_NO_BIAS", "1", 1);
  products(state);
  unsetenv("FAKE_NO_BIAS");
}

// Both operands with k contiguous, which is how the library takes 8 bits.
static void products_of_quarters(void **state) {
  static const int64_t shapes[][3] = {{16, 16, 16}, {48, 32, 64}, {7, 16, 32}, {33, 272, 48}, {64, 48, 400}};
  static const ElementType types[][2] = {{TYPE_E4M3, TYPE_E4M3}, {TYPE_E5M2, TYPE_E4M3}, {TYPE_E4M3, TYPE_E5M2}};
  Draw random = {2};
  Gpu gpu;
  (void)state;
  if (!gpu_open(&gpu)) {
    arena_destroy(gpu.arena);
    skip();
  }
  if (10 * gpu.gpu.major + gpu.gpu.minor < 89) {
    print_message("skipped: this GPU does not multiply 8 bits\n");
    gpu_close(&gpu);
    skip();
  }
  for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
    for (int form = 0; form < 18; form++) {
      if (effort_samples_out(s + (size_t)form, 5)) {
        continue;
      }
      Gemm g = {.type = types[form % 3][0],
                .type_b = types[form % 3][1],
                .type_c = form / 3 % 2 ? TYPE_F32 : TYPE_BF16,
                .transpose_b = true,
                .fast = form % 3 == 0 && s % 2 == 0,
                .write = form < 6 ? WRITE_ADD : WRITE_STORE,
                .epilogue = form < 12 ? EPILOGUE_NONE : EPILOGUE_BIAS};
      g.m = shapes[s][0];
      g.n = shapes[s][1];
      g.k = shapes[s][2];
      check(&gpu, g, &random);
    }
  }
  gpu_close(&gpu);
}

static bool has_blocks(const Gpu *gpu) {
  return gpu->gpu.major == 9 && gpu->gpu.minor == 0;
}

// With a scale for each 128 elements along k, or for each 128 by 128 of one operand.
static void products_of_blocks(void **state) {
  static const int64_t shapes[][3] = {{128, 128, 128}, {256, 128, 384}, {128, 384, 640}};
  static const ElementType types[][2] = {{TYPE_E4M3, TYPE_E4M3}, {TYPE_E5M2, TYPE_E4M3}, {TYPE_E4M3, TYPE_E5M2}};
  Draw random = {4};
  Gpu gpu;
  (void)state;
  if (!gpu_open(&gpu)) {
    arena_destroy(gpu.arena);
    skip();
  }
  if (!has_blocks(&gpu)) {
    print_message("skipped: this GPU has no scales of blocks\n");
    gpu_close(&gpu);
    skip();
  }
  for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
    for (int form = 0; form < 18; form++) {
      if (effort_samples_out(s + (size_t)form, 5)) {
        continue;
      }
      Gemm g = {.type = types[form % 3][0],
                .type_b = types[form % 3][1],
                .type_c = form % 2 ? TYPE_F32 : TYPE_BF16,
                .transpose_b = true,
                .write = form / 3 % 2 ? WRITE_ADD : WRITE_STORE};
      const int vectors = form / 6 == 0;  // outer sizes that make no blocks
      g.m = shapes[s][0] - 48 * vectors;
      g.n = shapes[s][1] - 16 * vectors;
      g.k = shapes[s][2];
      set_blocks(&g, form / 6);
      check(&gpu, g, &random);
    }
  }
  gpu_close(&gpu);
}

// What the library cannot multiply in 8 bits is refused in words.
static void quarters_refused(void **state) {
  static const char *const words[] = {"does not have the axes last in memory", "does not have the axes last in memory",
                                      "multiples of 16 bytes", "multiples of 16 bytes", "multiples of 16 bytes"};
  Error error = {0};
  Gpu gpu;
  (void)state;
  if (!gpu_open(&gpu)) {
    arena_destroy(gpu.arena);
    skip();
  }
  for (int i = 0; i < 5; i++) {
    const int alignment[] = {16, i == 4 ? 8 : 16, 16, 16};
    GemmProblem *problem = NULL;
    Gemm g = {
        .type = TYPE_E4M3, .type_b = TYPE_E4M3, .type_c = TYPE_BF16, .transpose_a = i == 0, .transpose_b = i != 1};
    g.m = g.n = 32;
    g.k = i == 2 ? 40 : 32;
    g.lda = g.ldb = i == 3 ? 56 : 64;
    g.ldc = 64;
    assert_false(gemm_prepare(gpu.gemms, &g, alignment, "test", &problem, &error));
    if (10 * gpu.gpu.major + gpu.gpu.minor >= 89 && !strstr(error.text, words[i])) {
      fail_msg("%s", error.text);
    }
  }
  gpu_close(&gpu);
}

// Every product in 8 bits of a plan is one that the library takes.
static void check_plan(Gpu *gpu, const char *model, const char *recipe, const char *precision) {
  Arena *arena = arena_create();
  Diag *diag = diag_create(arena);
  Plan *plan = NULL;
  Error error = {0};
  int quarters = 0;
  const CompileOptions options = {
      .file = arena_format(arena, "%s/models/%s.mdl", MDL_SOURCE_DIR, model), .recipe = recipe, .precision = precision};
  assert_true(compile_plan(arena, diag, &options, &plan));
  for (int s = 0; s < plan->segment_count; s++) {
    for (int i = 0; i < plan->segments[s].count; i++) {
      const Instruction *at = &plan->segments[s].instructions[i];
      const Gemm *gemm = &at->as.gemm;
      if (at->kind != INSTRUCTION_GEMM || !gemm_scaled(gemm)) {
        continue;
      }
      const Place *places[GEMM_OPERANDS] = {&gemm->a, &gemm->b, &gemm->c,
                                            gemm->epilogue == EPILOGUE_BIAS ? &gemm->bias : &gemm->c};
      int alignment[GEMM_OPERANDS];
      GemmProblem *problem = NULL;
      for (int p = 0; p < GEMM_OPERANDS; p++) {
        alignment[p] = cuda_place_alignment(plan, places[p]);
      }
      quarters++;
      if (!gemm_prepare(gpu->gemms, gemm, alignment, at->name, &problem, &error)) {
        fail_msg("%s %s %s: %s", model, recipe, precision, error.text);
      }
    }
  }
  assert_true(quarters > 0);
  arena_destroy(arena);
}

static void quarters_of_plans(void **state) {
  static const char *const recipes[][2] = {{"gpt2", "tiny"},   {"gpt2", "gpt2_124m"}, {"gpt2", "gpt2_1558m"},
                                           {"llama", "small"}, {"llama", "llama_1b"}, {"llama", "llama3_8b"}};
  Gpu gpu;
  (void)state;
  if (!gpu_open(&gpu)) {
    arena_destroy(gpu.arena);
    skip();
  }
  const size_t count = effort_short() ? 1 : sizeof recipes / sizeof *recipes;
  for (size_t i = 0; i < count && 10 * gpu.gpu.major + gpu.gpu.minor >= 89; i++) {
    check_plan(&gpu, recipes[i][0], recipes[i][1], "fp8_current");
    check_plan(&gpu, recipes[i][0], recipes[i][1], "fp8_hybrid");
    if (has_blocks(&gpu) && i != 0 && i != 2) {  // whose parameters make no blocks
      check_plan(&gpu, recipes[i][0], recipes[i][1], "fp8_block");
    }
  }
  gpu_close(&gpu);
}

int main(int count, char **words) {
  Error ignored = {0};
  (void)count;
  if (!stands_in() && !cuda_present(&ignored)) {
    run_on_stand_ins(words, "1");
  }
  const struct CMUnitTest tests[] = {cmocka_unit_test(products),
                                     cmocka_unit_test(biases_without_epilogue),
                                     cmocka_unit_test(products_of_quarters),
                                     cmocka_unit_test(products_of_blocks),
                                     cmocka_unit_test(quarters_refused),
                                     cmocka_unit_test(quarters_of_plans)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
