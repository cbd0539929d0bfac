// cuda_generate_test.c: kernels as CUDA: all are covered, NVRTC takes the texts, and emulated they do what the CPU
// does.
//
// GENERATE_TEXTS=N compiles every N-th text for the newest target, GENERATE_KERNELS=N emulates every N-th small kernel
// of the models (1: all), GENERATE_SEEDS=N draws N kernels of each kind.
#include <inttypes.h>

#include "compiler/compile.h"
#include "kernels/cuda/compile.h"
#include "kernels/cuda/generate.h"
#include "tests/cuda_emulator.h"
#include "tests/effort.h"
#include "tests/kernel_random.h"
#include "tests/parts_cases.h"
#include "tests/turned_cases.h"

enum { CASES_MAX = 4096, SETTINGS = 3 };

typedef struct {
  const char *file, *recipe;
  const char *set[SETTINGS];
  const char *precision;  // NULL: fp32
} ModelSource;

static const ModelSource sources[] = {
    {"models/gpt2.mdl", "gpt2_124m", {NULL}, NULL},
    {"models/gpt2.mdl", "tiny", {NULL}, NULL},
    {"models/gpt2.mdl", "gpt2_1558m", {NULL}, NULL},
    {"models/bloom.mdl", "tiny", {NULL}, NULL},
    {"models/llama.mdl", "small", {NULL}, NULL},
    {"models/llama.mdl", "llama_1b", {NULL}, NULL},
    {"models/llama.mdl", "llama3_8b", {NULL}, NULL},
    {"models/mixtral.mdl", "tiny", {NULL}, "bf16"},
    {"models/gpt2.mdl", "tiny", {"vocab=1003", "batch=1", "seq=64"}, NULL},
    {"models/gpt2.mdl", "tiny", {"vocab=15001", "batch=1", "seq=16"}, NULL},
    {"models/llama.mdl", "small", {"vocab=12000", "batch=1", "seq=20"}, NULL},
    {"models/llama.mdl", "small", {"vocab=30000", "batch=1", "seq=8"}, NULL},
    {"tests/programs/attention_called.mdl", NULL, {NULL}, NULL},
    {"tests/programs/attention_mask.mdl", NULL, {NULL}, NULL},
    {"tests/programs/attention_spelled.mdl", NULL, {NULL}, NULL},
    {"tests/programs/batch_merged.mdl", NULL, {NULL}, NULL},
    {"tests/programs/block.mdl", NULL, {NULL}, NULL},
    {"tests/programs/convolution.mdl", NULL, {NULL}, NULL},
    {"tests/programs/dropout.mdl", NULL, {NULL}, NULL},
    {"tests/programs/functions.mdl", NULL, {NULL}, NULL},
    {"tests/programs/hazard.mdl", NULL, {NULL}, NULL},
    {"tests/programs/integers.mdl", NULL, {NULL}, NULL},
    {"tests/programs/mlp.mdl", NULL, {NULL}, NULL},
    {"tests/programs/optimizers.mdl", NULL, {NULL}, NULL},
    {"tests/programs/parameters.mdl", NULL, {NULL}, NULL},
    {"tests/programs/shapes.mdl", NULL, {NULL}, NULL},
    {"tests/programs/state.mdl", NULL, {NULL}, NULL},
    {"tests/programs/sum_of_products.mdl", NULL, {NULL}, NULL},
    {"tests/programs/sum_of_turned.mdl", NULL, {NULL}, NULL},
    {"tests/programs/tied.mdl", NULL, {NULL}, NULL},
    {"tests/programs/unused_draw.mdl", NULL, {NULL}, NULL},
    {"models/gpt2.mdl", "tiny", {NULL}, "fp8_current"},
    {"models/gpt2.mdl", "tiny", {NULL}, "fp8_hybrid"},
    {"models/llama.mdl", "small", {NULL}, "fp8_current"},
    {"models/llama.mdl", "small", {NULL}, "fp8_hybrid"},
    {"models/llama.mdl", "llama3_8b", {NULL}, "fp8_current"},
    {"models/llama.mdl", "llama3_8b", {NULL}, "fp8_block"},
    {"tests/programs/quantised.mdl", "test", {NULL}, "eight"},
    {"tests/programs/blocks.mdl", "test", {NULL}, "eight"},
};
enum { SOURCES = sizeof sources / sizeof *sources };

static const CudaTarget hopper = {.multiprocessors = 132, .shared_bytes = 227 * 1024};
static const CudaTarget small = {.multiprocessors = 2, .shared_bytes = 40 * 1024};

typedef struct {
  Bench *bench;
  Kernel *kernel;
  Place *place;
  CudaKernel made;
  int unit;
  char name[96];
} Case;

typedef struct {
  Arena *arena;
  int count;
  Case at[CASES_MAX];
} Cases;

static int64_t number_of(const char *name, int64_t otherwise) {
  const char *value = getenv(name);
  return value && atoll(value) > 0 ? atoll(value) : otherwise;
}

static Plan *plan_of(Arena *arena, const ModelSource *source) {
  Plan *plan = NULL;
  Diag *diag = diag_create(arena);
  int set = 0;
  while (set < SETTINGS && source->set[set]) {
    set++;
  }
  const CompileOptions options = {.file = arena_format(arena, "%s/%s", MDL_SOURCE_DIR, source->file),
                                  .recipe = source->recipe,
                                  .precision = source->precision,
                                  .set = source->set,
                                  .set_count = set};
  if (!compile_plan(arena, diag, &options, &plan)) {
    diag_print(diag, stderr, false);
    fail_msg("%s does not compile", source->file);
  }
  return plan;
}

static int64_t port_elements(const Kernel *kernel, int port) {
  int64_t last = 0;
  for (int d = 0; d < kernel->dim_count; d++) {
    last += (kernel->size[d] - 1) * kernel->port[port].stride[d];
  }
  return last + 1;
}

// A copy in which tensors are bf16, as mixed precision has them.
static Kernel *kernel_low(Arena *arena, const Kernel *from) {
  Kernel *kernel = arena_copy(arena, from, sizeof *from);
  kernel->port = arena_copy(arena, from->port, sizeof *from->port * (size_t)from->port_count);
  for (int p = 0; p < kernel->port_count; p++) {
    const bool big = kernel->port[p].kind != PORT_STRIDES && port_elements(kernel, p) > 1;
    kernel->port[p].type = big && kernel->port[p].type == TYPE_F32 ? TYPE_BF16 : kernel->port[p].type;
  }
  return kernel;
}

static void generate_or_fail(Arena *arena, const Kernel *kernel, const int *alignment, const CudaTarget *target,
                             CudaKernel *made, const char *name) {
  const char *why = NULL;
  if (!cuda_generate(kernel, alignment, target, arena, made, &why)) {
    Buffer text = {0};
    kernel_print(kernel, &text);
    fail_msg("%s is not covered: %s\n%s", name, why, text.text);
  }
  assert_true(made->launch_count <= CUDA_MAX_LAUNCHES);
  for (int i = 0; i < made->launch_count; i++) {
    const CudaLaunch *launch = &made->launch[i];
    assert_true(launch->grid[0] > 0 && launch->grid[1] > 0 && launch->grid[1] < 65536 && launch->grid[2] == 1);
    assert_true(launch->block[0] > 0 && launch->block[0] <= 1024 && launch->block[0] % 32 == 0);
    assert_true((int64_t)launch->shared_bytes <= target->shared_bytes);
    assert_non_null(strstr(made->text, launch->function));
  }
}

static void compile_text(CudaCompiler *compiler, const CudaKernel *made, const char *name) {
  char message[2048];
  CudaBinary binary;
  if (!cuda_compile(compiler, name, made->text, &binary, message, sizeof message)) {
    fail_msg("%s: %s\n%s", name, message, made->text);
  }
  cuda_binary_free(&binary);
}

static bool has_quarters(const Kernel *kernel) {
  for (int p = 0; p < kernel->port_count; p++) {
    if (kernel->port[p].kind != PORT_STRIDES && element_type_bytes(kernel->port[p].type) == 1) {
      return true;
    }
  }
  return false;
}

// All kernels of all sources are covered, at both precisions; some of the texts are compiled for each target, of
// those with 8 bits ten times as many.
static void covers_the_models(void **state) {
  (void)state;
  static const char *const targets[] = {"sm_90a", "sm_80", "compute_80"};
  const int64_t every = number_of("GENERATE_TEXTS", 200);
  CudaCompiler *compiler[3] = {NULL};
  char message[512];
  for (int i = 0; i < 3; i++) {
    if (!cuda_compiler_open(targets[i], "", &compiler[i], message, sizeof message)) {
      printf("texts are not compiled for %s: %s\n", targets[i], message);
    }
  }
  int64_t texts = 0;
  for (int s = 0; s < SOURCES; s++) {
    Arena *arena = arena_create();
    const Plan *plan = plan_of(arena, &sources[s]);
    for (int k = 0; k < plan->kernel_count; k++) {
      int alignment[KERNEL_MAX_PORTS];
      CudaKernel made;
      for (int low = 0; low < 2; low++) {
        const Kernel *kernel = low ? kernel_low(arena, plan->kernels[k]) : plan->kernels[k];
        for (int p = 0; p < kernel->port_count; p++) {
          alignment[p] = 16;
        }
        generate_or_fail(arena, kernel, alignment, &hopper, &made, sources[s].file);
        texts++;
        const int64_t one_of = !low && has_quarters(kernel) && every > 10 ? every / 10 : every;
        for (int i = 0; i < 3; i++) {
          if (compiler[i] && (texts + i) % (one_of * (i == 0 ? 1 : 3)) == 0) {
            compile_text(compiler[i], &made, sources[s].file);
          }
        }
      }
    }
    arena_destroy(arena);
  }
  for (int i = 0; i < 3; i++) {
    cuda_compiler_close(compiler[i]);
  }
}

static void case_add(Cases *cases, Emulator *emulator, Draw *random, const CudaForm *form, Bench *bench, Kernel *kernel,
                     Place *place, const char *name) {
  const CudaTarget target = {small.multiprocessors, small.shared_bytes, false, form};
  int alignment[KERNEL_MAX_PORTS];
  assert_true(cases->count < CASES_MAX);
  Case *new = &cases->at[cases->count++];
  *new = (Case){.bench = bench, .kernel = kernel, .place = place};
  snprintf(new->name, sizeof new->name, "%s", name);
  for (int p = 0; p < kernel->port_count; p++) {
    const int least = (int)element_type_bytes(kernel->port[p].type);
    alignment[p] = draw_below(random, 8) == 0 && least > 0 ? least : 16;
  }
  generate_or_fail(cases->arena, kernel, alignment, &target, &new->made, name);
  new->unit = emulator_add(emulator, new->made.text);
  assert_true(new->unit >= 0);
}

// The arena after the launches.
static char *case_emulate(const Case *at, Emulator *emulator) {
  const int64_t bytes = (at->bench->bytes + 63) / 64 * 64;
  char *memory = aligned_alloc(64, (size_t)bytes),
       *scratch = aligned_alloc(256, (size_t)(at->made.scratch_bytes + 256));
  uint64_t slots[CUDA_MAX_SLOTS];
  memcpy(memory, at->bench->image, (size_t)at->bench->bytes);
  memset(scratch, 0xff, (size_t)(at->made.scratch_bytes + 256));
  for (int p = 0; p < at->kernel->port_count; p++) {
    const bool strides = at->kernel->port[p].kind == PORT_STRIDES;
    slots[p] = strides ? (uint64_t)at->place[p].offset : (uint64_t)(uintptr_t)(memory + at->place[p].offset);
  }
  cuda_slots_end(&at->made, slots, (uint64_t)(uintptr_t)scratch, at->bench->call.first);
  for (int i = 0; i < at->made.launch_count; i++) {
    const char *wrong = emulator_launch(emulator, at->unit, &at->made.launch[i], slots);
    if (wrong) {
      fail_msg("%s: %s: %s\n%s", at->name, at->made.launch[i].function, wrong, at->made.text);
    }
  }
  for (int i = 0; i < 256; i++) {
    assert_int_equal((unsigned char)scratch[at->made.scratch_bytes + i], 0xff);
  }
  free(scratch);
  return memory;
}

static void cases_check(Cases *cases, Emulator *emulator) {
  int wrong = 0;
  if (!emulator_compile(emulator)) {
    fail_msg("the texts do not compile: %s", dlerror());
  }
  for (int i = 0; i < cases->count; i++) {
    const Case *at = &cases->at[i];
    char *got = case_emulate(at, emulator), *wanted = bench_run(at->bench, 1);
    if (!arenas_near(at->kernel, at->place, got, wanted, at->bench->bytes)) {
      Buffer text = {0};
      kernel_print(at->kernel, &text);
      printf("%s (%s, first %d) differs from the CPU:\n%s", at->name, at->made.form, at->bench->call.first, text.text);
      buffer_free(&text);
      wrong++;
    }
    free(got);
    free(wanted);
    bench_destroy(at->bench);
  }
  assert_int_equal(wrong, 0);
}

static Cases *cases_create(Emulator *emulator) {
  Cases *cases = calloc(1, sizeof *cases);
  cases->arena = arena_create();
  assert_true(emulator_create(emulator));
  return cases;
}

static void cases_destroy(Cases *cases, Emulator *emulator) {
  emulator_destroy(emulator);
  arena_destroy(cases->arena);
  free(cases);
}

static bool has_compiler(void) {
#ifdef __SANITIZE_THREAD__
  printf("kernels are not emulated: the sanitizer of threads does not know fibers\n");
  return false;
#endif
  if (system("cc --version > /dev/null 2>&1") == 0) {
    return true;
  }
  printf("kernels are not emulated: there is no C compiler `cc`\n");
  return false;
}

static CudaForm form_draw(Draw *random) {
  static const int threads[] = {0, 0, 32, 64, 96, 128}, widths[] = {0, 8, 16, 32}, groups[] = {0, 16, 32, 64};
  return (CudaForm){.threads = threads[draw_below(random, 6)],
                    .rows = (int)draw_below(random, 5),
                    .group = groups[draw_below(random, 4)],
                    .stages = (int)draw_below(random, 5) - 1,
                    .once = (int)draw_below(random, 3) - 1,
                    .blocks = (int)draw_below(random, 4),
                    .unroll = (int)draw_below(random, 4),
                    .width = widths[draw_below(random, 4)],
                    .persistent = draw_below(random, 2) == 0,
                    .again = draw_below(random, 8) == 0};
}

// forced: forms that the rules would not choose for kernels of this size.
static void emulates_random_kernels(bool low, bool forced) {
  const int64_t few = forced ? 1 : 3;  // forms that are forced unroll far
  const int64_t seeds = number_of("GENERATE_SEEDS", effort_long() ? 40 : effort_short() ? few : 10);
  const int64_t first = number_of("GENERATE_FIRST", 1);
  if (!has_compiler()) {
    return;
  }
  Emulator emulator;
  Cases *cases = cases_create(&emulator);
  for (int64_t seed = first; seed < first + seeds; seed++) {
    Maker m = maker_create((uint64_t)seed + (low ? 5000 : 0) + (forced ? 10100 : 0), low);
    Draw random = {(uint64_t)seed};
    const CudaForm form = form_draw(&random);
    m.bench->call.first = seed % 2 == 0;
    char name[64];
    snprintf(name, sizeof name, "seed %" PRId64 "%s%s", seed, low ? " low" : "", forced ? " forced" : "");
    case_add(cases, &emulator, &random, forced ? &form : NULL, m.bench, m.kernel, m.place, name);
  }
  int turned = 0;
  for (int i = 0; i < cases->count; i++) {
    turned += strstr(cases->at[i].made.form, "tile") || strstr(cases->at[i].made.form, "turned");
  }
  assert_true(20 * turned >= cases->count || cases->count < 40);
  cases_check(cases, &emulator);
  cases_destroy(cases, &emulator);
}

static void emulates_random_f64(void **state) {
  (void)state;
  emulates_random_kernels(false, false);
}

static void emulates_random_low(void **state) {
  (void)state;
  emulates_random_kernels(true, false);
}

static void emulates_forced_forms(void **state) {
  (void)state;
  emulates_random_kernels(false, true);
  emulates_random_kernels(true, true);
}

// Memory for the ports of a kernel of a plan; integers are small, as indices of small axes are.
static Bench *bench_of(Kernel *kernel, Draw *random, Place **places) {
  Bench *bench = bench_create();
  Place *place = *places = ARENA_ARRAY(bench->arena, Place, KERNEL_MAX_PORTS);
  for (int p = 0; p < kernel->port_count; p++) {
    const KernelPort *port = &kernel->port[p];
    if (port->kind == PORT_STRIDES) {
      place[p].offset = draw_below(random, 3) == 0 ? draw_below(random, 1000) : 0;
      continue;
    }
    const int64_t elements = port_elements(kernel, p);
    place[p] = bench_place(bench, elements * element_type_bytes(port->type));
    for (int64_t i = 0; i < elements && (port->kind == PORT_INPUT || port->accumulate); i++) {
      const double value = port->type == TYPE_BOOL             ? (double)draw_below(random, 2)
                           : element_type_floating(port->type) ? draw_real(random, 0.1, 1.0)
                                                               : (double)draw_below(random, 7);
      element_set_at(port->type, bench_at(bench, place[p]), i, value);
    }
  }
  bench_add_kernel(bench, kernel, place);
  return bench;
}

static int64_t space_of(const Kernel *kernel) {
  int64_t elements = 1;
  for (int d = 0; d < kernel->dim_count; d++) {
    elements *= kernel->size[d];
  }
  return elements;
}

static void emulates_the_models(void **state) {
  (void)state;
  const int64_t every = number_of("GENERATE_KERNELS", effort_short() ? 60 : 24);
  if (!has_compiler()) {
    return;
  }
  Emulator emulator;
  Cases *cases = cases_create(&emulator);
  Draw random = {7};
  int64_t kernels = 0;
  for (int s = 0; s < SOURCES; s++) {
    const Plan *plan = plan_of(cases->arena, &sources[s]);
    for (int k = 0; k < plan->kernel_count; k++) {
      if (space_of(plan->kernels[k]) > 300000 || kernels++ % every != 0) {
        continue;
      }
      Kernel *kernel = kernels % 2 == 0 ? plan->kernels[k] : kernel_low(cases->arena, plan->kernels[k]);
      Place *place;
      Bench *bench = bench_of(kernel, &random, &place);
      char name[96];
      snprintf(name, sizeof name, "%s kernel %d", sources[s].file, k);
      bench->call.first = kernels % 3 != 0;
      case_add(cases, &emulator, &random, NULL, bench, kernel, place, name);
    }
  }
  cases_check(cases, &emulator);
  cases_destroy(cases, &emulator);
}

// Ports that lie across, in sizes that tiles divide and in odd ones; at full size their texts compile.
// GENERATE_KEEP=DIR keeps those.
static void turns_the_cases(void **state) {
  static const int64_t sizes[][2] = {{256, 192}, {130, 72}, {33, 1000}, {1000, 33}, {67, 101}, {16, 2048}};
  (void)state;
  if (!has_compiler()) {
    return;
  }
  Emulator emulator;
  Cases *cases = cases_create(&emulator);
  Draw random = {11};
  for (int which = 0; which < TURNED_CASES; which++) {
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
      Kernel *kernel = turned_case(cases->arena, (TurnedCase)which, sizes[i][0], sizes[i][1]);
      Place *place;
      Bench *bench = bench_of(kernel, &random, &place);
      char name[96];
      snprintf(name, sizeof name, "%s, %" PRId64 " x %" PRId64, turned_names[which], sizes[i][0], sizes[i][1]);
      bench->call.first = true;
      case_add(cases, &emulator, &random, NULL, bench, kernel, place, name);
    }
  }
  cases_check(cases, &emulator);
  cases_destroy(cases, &emulator);
}

// Parts that are not chosen stay as they are, also where vectors and rows are many.
static void leaves_parts_out(void **state) {
  static const int64_t columns[] = {8, 40, 33, 1000};
  (void)state;
  if (!has_compiler()) {
    return;
  }
  Emulator emulator;
  Cases *cases = cases_create(&emulator);
  Draw random = {13};
  int chosen = 0;
  for (int i = 0; i < 4 * PARTS_CASES; i++) {
    const PartsMade made = parts_make((PartsCase)(i % PARTS_CASES), columns[i / PARTS_CASES]);
    char name[64];
    snprintf(name, sizeof name, "parts, %s, %" PRId64, parts_names[i % PARTS_CASES], columns[i / PARTS_CASES]);
    assert_null(kernel_verify(made.kernel));
    case_add(cases, &emulator, &random, NULL, made.bench, made.kernel, made.place, name);
    chosen += strstr(cases->at[i].made.form, "chosen parts") != NULL;
  }
  assert_true(chosen >= 3 * PARTS_CASES);
  cases_check(cases, &emulator);
  cases_destroy(cases, &emulator);
}

static void text_keep(const char *text, const char *name) {
  const char *folder = getenv("GENERATE_KEEP");
  char path[512];
  if (folder) {
    snprintf(path, sizeof path, "%s/%s.cu", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
  }
}

static void compiles_the_turned_cases(void **state) {
  static const int64_t widths[] = {2048, 4096, 8192};
  CudaCompiler *compiler = NULL;
  char message[512];
  int alignment[KERNEL_MAX_PORTS];
  (void)state;
  if (!cuda_compiler_open("sm_90a", "", &compiler, message, sizeof message)) {
    printf("texts are not compiled: %s\n", message);
    return;
  }
  for (int p = 0; p < KERNEL_MAX_PORTS; p++) {
    alignment[p] = 16;
  }
  for (int i = 0; i < TURNED_CASES * 3; i++) {
    Arena *arena = arena_create();
    const Kernel *kernel = turned_case(arena, (TurnedCase)(i / 3), 8192, widths[i % 3]);
    CudaKernel made;
    char name[64];
    snprintf(name, sizeof name, "turned_%d_%" PRId64, i / 3, widths[i % 3]);
    generate_or_fail(arena, kernel, alignment, &hopper, &made, turned_names[i / 3]);
    assert_true(strstr(made.form, "tile") || strstr(made.form, "turned"));
    text_keep(made.text, name);
    compile_text(compiler, &made, turned_names[i / 3]);
    arena_destroy(arena);
  }
  cuda_compiler_close(compiler);
}

// Texts that are wrong: a sum that subtracts, a barrier that a thread leaves out, a shuffle without its partners.
static void notices_wrong_texts(void **state) {
  (void)state;
  if (!has_compiler()) {
    return;
  }
  Emulator emulator;
  Cases *cases = cases_create(&emulator);
  const char *const sum = "fold_sum(R a, R b) { return a + b; }";
  Draw random = {3};
  int changed = 0, noticed = 0;
  for (uint64_t seed = 1; seed <= 40 && changed < 8; seed++) {
    Maker m = maker_create(seed, false);
    case_add(cases, &emulator, &random, NULL, m.bench, m.kernel, m.place, "changed");
    Case *at = &cases->at[cases->count - 1];
    char *text =
        strstr(at->made.text, "_sum(v") || strstr(at->made.text, "fold_sum(z") ? strstr(at->made.text, sum) : NULL;
    if (!text) {
      bench_destroy(m.bench);
      cases->count--;
      continue;
    }
    char *copy = arena_copy(cases->arena, at->made.text, strlen(at->made.text) + 1);
    copy[text - at->made.text + (ptrdiff_t)strlen(sum) - 5] = '-';
    at->unit = emulator_add(&emulator, copy);
    changed++;
  }
  const int leaves = emulator_add(&emulator,
                                  "typedef struct { int none; } Slots;\n"
                                  "KERNEL(barrier, 64)(const Slots s) { if (threadIdx.x < 32u) __syncthreads(); }\n"
                                  "KERNEL(shuffled, 64)(const Slots s) { if (threadIdx.x) shuffle_f32(1.0f, 1); }\n");
  assert_true(changed >= 4 && emulator_compile(&emulator));
  for (int i = 0; i < cases->count; i++) {
    const Case *at = &cases->at[i];
    char *got = case_emulate(at, &emulator), *wanted = bench_run(at->bench, 1);
    noticed += !arenas_near(at->kernel, at->place, got, wanted, at->bench->bytes);
    free(got);
    free(wanted);
    bench_destroy(at->bench);
  }
  assert_true(2 * noticed >= changed);
  const uint64_t slots[1] = {0};
  CudaLaunch launch = {.function = "barrier", .grid = {1, 1, 1}, .block = {64, 1, 1}};
  assert_non_null(emulator_launch(&emulator, leaves, &launch, slots));
  launch.function = "shuffled";
  assert_non_null(emulator_launch(&emulator, leaves, &launch, slots));
  cases_destroy(cases, &emulator);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(covers_the_models),     cmocka_unit_test(emulates_the_models),
      cmocka_unit_test(emulates_random_f64),   cmocka_unit_test(emulates_random_low),
      cmocka_unit_test(emulates_forced_forms), cmocka_unit_test(notices_wrong_texts),
      cmocka_unit_test(turns_the_cases),       cmocka_unit_test(compiles_the_turned_cases),
      cmocka_unit_test(leaves_parts_out),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
