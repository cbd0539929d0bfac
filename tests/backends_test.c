// backends_test.c: every instruction of whole programs, on the CPU and on the GPU from the same memory: the results are
// those of the CPU within the formats' tolerances, and nothing else is touched.
//
// Without a GPU the CPU stands for it, for some of the instructions: that shows that the test itself works, and nothing
// else.
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "runtime/cuda/driver.h"
#include "runtime/element.h"
#include "runtime/session.h"
#include "tests/effort.h"
#include "tests/plan_run.h"

enum { PLACES_MAX = 160, NO_GPU_STEP = 16 };

// The CPU is opened anew for each instruction: on a machine of many cores most of that would be making threads.
static const DeviceOptions few_threads = {.threads = 4};
static const double REST = 1e-2;  // of the terms of a sum, for what rounding leaves where they cancel

typedef struct {  // memory that an instruction writes
  ArenaClass arena;
  int64_t offset, count;      // bytes, elements
  ElementType type, rounded;  // of an element; the roughest that goes into it
  double terms;               // the largest sum of absolute values that an element may be the rest of
} Region;

typedef struct {
  Arena *arena;
  const char *text;
  Plan *plan;
  const Backend *backend;  // of the GPU, or once more of the CPU
  Device *cpu, *gpu;
  char *before[ARENA_CLASS_COUNT], *cpu_after[ARENA_CLASS_COUNT], *gpu_after[ARENA_CLASS_COUNT];
  char *owned[ARENA_CLASS_COUNT];  // 1: a byte that the instruction may write
  double worst;
} Pair;

static Region region_of(const Place *place, const PlanCall *call, ElementType type, int64_t count) {
  return (Region){.arena = place->arena,
                  .offset = place->offset + call->slot * place->slot_stride + call->lane * place->lane_stride,
                  .count = count,
                  .type = type,
                  .rounded = type};
}

static int64_t reach(const int64_t *size, const int64_t *stride, int count) {
  int64_t last = 1;
  for (int i = 0; i < count; i++) {
    last += (size[i] - 1) * stride[i];
  }
  return last;
}

// The largest absolute value that a kernel reads.
static double largest_input(const Pair *pair, const KernelCall *call, const PlanCall *at) {
  const Kernel *kernel = pair->plan->kernels[call->kernel];
  double largest = 0;
  for (int p = 0; p < kernel->port_count; p++) {
    const KernelPort *port = &kernel->port[p];
    const Region in = region_of(&call->place[p], at, port->type, reach(kernel->size, port->stride, kernel->dim_count));
    for (int64_t i = 0; i < in.count && port->kind == PORT_INPUT && element_type_floating(port->type); i++) {
      const double x =
          fabs(element_get(port->type, pair->before[in.arena] + in.offset + i * element_type_bytes(port->type)));
      largest = isfinite(x) && x > largest ? x : largest;
    }
  }
  return largest;
}

// Sums over many elements may cancel: a gradient that is zero but for rounding.
static int kernel_regions(const Pair *pair, const KernelCall *call, const PlanCall *at, Region *regions) {
  const Kernel *kernel = pair->plan->kernels[call->kernel];
  const double largest = largest_input(pair, call, at);
  double space = 1;
  int count = 0;
  for (int d = 0; d < kernel->dim_count; d++) {
    space *= (double)kernel->size[d];
  }
  for (int p = 0; p < kernel->port_count; p++) {
    const KernelPort *port = &kernel->port[p];
    if (port->kind == PORT_OUTPUT) {
      regions[count++] =
          region_of(&call->place[p], at, port->type, reach(kernel->size, port->stride, kernel->dim_count));
      regions[count - 1].terms = largest * sqrt(space / (double)regions[count - 1].count);
    }
  }
  return count;
}

static int attention_regions(const Attention *a, InstructionKind kind, ElementType real, const PlanCall *at,
                             Region *regions) {
  const int64_t queries[] = {a->batch, a->queries, a->heads, a->groups}, keys[] = {a->batch, a->keys, a->heads};
  const ElementType made = a->wide ? real : a->type;
  if (kind == INSTRUCTION_ATTENTION_CAPTURED) {
    const int64_t all[] = {a->batch, a->heads, a->groups, a->keys, a->queries};
    regions[0] = region_of(&a->d_captured, at, real, reach(all, a->stride_captured, SCORE_DIMS));
    regions[0].rounded = a->type;
    return 1;
  }
  if (kind == INSTRUCTION_ATTENTION) {
    regions[0] = region_of(&a->o, at, made, reach(queries, a->stride_o, 4) + a->value_depth - 1);
    regions[1] = region_of(&a->statistics, at, real, a->batch * a->queries * a->heads * a->groups);
    regions[0].rounded = a->type;
    if (a->large) {
      regions[2] = region_of(&a->lost, at, real, a->batch * a->queries * a->heads * a->groups);
      regions[2].terms = 100;  // what each has lost of its own: a share of the last digit of a statistic
    }
    return a->large ? 3 : 2;
  }
  regions[0] = region_of(&a->dq, at, made, reach(queries, a->stride_dq, 4) + a->depth - 1);
  regions[1] = region_of(&a->dk, at, made, reach(keys, a->stride_dk, 3) + a->depth - 1);
  regions[2] = region_of(&a->dv, at, made, reach(keys, a->stride_dv, 3) + a->value_depth - 1);
  regions[0].rounded = regions[1].rounded = regions[2].rounded = a->type;
  return 3;
}

static int regions_of(const Pair *pair, const Instruction *instruction, const PlanCall *at, Region *regions) {
  const Take *take = &instruction->as.take;
  const Window *window = &instruction->as.window;
  const Gemm *gemm = &instruction->as.gemm;
  const Grouped *grouped = &instruction->as.grouped;
  int64_t x;
  switch (instruction->kind) {
    case INSTRUCTION_KERNEL:
      return kernel_regions(pair, &instruction->as.kernel, at, regions);
    case INSTRUCTION_GEMM:
      x = (gemm->m - 1) * gemm->ldc + gemm->n + reach(gemm->batch, gemm->stride_c, gemm->batch_count) - 1;
      regions[0] = region_of(&gemm->c, at, gemm->type_c, x);
      return 1;
    case INSTRUCTION_ORDER:
      regions[0] = region_of(&instruction->as.order.place, at, TYPE_INDEX, instruction->as.order.count);
      regions[1] = region_of(&instruction->as.order.from, at, TYPE_INDEX, instruction->as.order.capacity);
      regions[2] = region_of(&instruction->as.order.chosen, at, TYPE_INDEX,
                             instruction->as.order.capacity / instruction->as.order.block);
      return 3;
    case INSTRUCTION_GROUPED:
      regions[0] = region_of(&grouped->c, at, grouped->type_c, (grouped->rows - 1) * grouped->ldc + grouped->n);
      return 1;
    case INSTRUCTION_GROUPED_SUM:
      x = (grouped->m - 1) * grouped->ldc + grouped->n + (grouped->extent - 1) * grouped->stride;
      regions[0] = region_of(&grouped->c, at, grouped->type_c, x);
      return 1;
    case INSTRUCTION_TAKE:
      regions[0] = region_of(&take->out, at, take->type_out, reach(take->size, take->stride_out, take->dim_count));
      return 1;
    case INSTRUCTION_PUT:
      x = reach(take->size, take->stride_x, take->dim_count) + (take->extent - 1) * take->stride_axis;
      regions[0] = region_of(&take->x, at, take->type, take->x_elements > x ? take->x_elements : x);
      return 1;
    case INSTRUCTION_WINDOW:
      x = reach(window->size, window->stride_out, window->dim_count) + (window->taps - 1) * window->stride_tap;
      regions[0] = region_of(&window->out, at, window->type, x);
      return 1;
    case INSTRUCTION_FOLD:
      regions[0] = region_of(&window->x, at, window->type, reach(window->size, window->stride_x, window->dim_count));
      return 1;
    case INSTRUCTION_PIECE:
      regions[0] = region_of(&instruction->as.piece.to, at, instruction->as.piece.type, instruction->as.piece.count);
      return 1;
    case INSTRUCTION_SQUARES:
      regions[0] =
          region_of(&instruction->as.squares.to, at, instruction->as.squares.type, instruction->as.squares.part_count);
      return 1;
    case INSTRUCTION_ATTENTION:
    case INSTRUCTION_ATTENTION_GRAD:
    case INSTRUCTION_ATTENTION_CAPTURED:
      return attention_regions(&instruction->as.attention, instruction->kind, pair->plan->real, at, regions);
    default:
      return 0;
  }
}

// Relative to the element and to the root mean square of the tensor: sums are made in another order, transcendental
// functions have other last bits, and results are rounded to the format: of 8 bits another way where they lie in the
// middle. Attention also rounds its weights to it; matrix units keep some 14 bits of sums of products of 8 bits.
static double tolerance_of(const Instruction *instruction, ElementType type) {
  const bool attends = instruction_attends(instruction);
  const Gemm *gemm = instruction->kind == INSTRUCTION_GEMM ? &instruction->as.gemm : NULL;
  const bool grouped = instruction_multiplies(instruction) && !gemm;
  const bool rough = (gemm && (gemm->tf32 || gemm_scaled(gemm))) || (grouped && instruction->as.grouped.tf32);
  switch (type) {
    case TYPE_F64:
      return 1e-11;
    case TYPE_F32:
      return rough ? 4e-3 : 4e-5;
    case TYPE_F16:
      return attends ? 8e-3 : 2e-3;
    case TYPE_BF16:
      return attends ? 4e-2 : 1.2e-2;
    case TYPE_E4M3:
      return 0.13;
    case TYPE_E5M2:
      return 0.26;
    default:
      return 0;
  }
}

static void region_compare(Pair *pair, const Instruction *instruction, const Region *region) {
  const int64_t size = element_type_bytes(region->type);
  const char *cpu = pair->cpu_after[region->arena] + region->offset;
  const char *gpu = pair->gpu_after[region->arena] + region->offset;
  memset(pair->owned[region->arena] + region->offset, 1, (size_t)(region->count * size));
  double square = 0, least = tolerance_of(instruction, region->rounded);
  for (int64_t i = 0; i < region->count; i++) {
    const double wanted = element_get(region->type, cpu + i * size);
    square += isfinite(wanted) ? wanted * wanted : 0;
  }
  const double mean = sqrt(square / (double)region->count);
  for (int64_t i = 0; i < region->count; i++) {
    if (memcmp(cpu + i * size, gpu + i * size, (size_t)size) == 0) {
      continue;
    }
    const double wanted = element_get(region->type, cpu + i * size), got = element_get(region->type, gpu + i * size);
    const double error = fabs(got - wanted) / (fabs(wanted) + mean + REST * region->terms + 1e-30);
    if (isnan(wanted) && isnan(got)) {
      continue;
    }
    pair->worst = error > pair->worst ? error : pair->worst;
    if (!(error <= least)) {
      char place[128];
      plan_source(pair->plan, instruction->span, place, sizeof place);
      fail_msg("%s: %s '%s' (%s): element %lld of %lld %s is %.9g on the GPU, %.9g on the CPU (rms %.3g)", pair->text,
               instruction_kind_name(instruction->kind), instruction->name ? instruction->name : "?", place,
               (long long)i, (long long)region->count, element_type_name(region->type), got, wanted, mean);
    }
  }
}

static void arenas_read(const Backend *backend, Device *device, const Plan *plan, char **to) {
  Error error = {0};
  for (int a = 0; a < ARENA_CLASS_COUNT; a++) {
    must(backend->read(device, (ArenaClass)a, 0, to[a], plan->arena_bytes[a], &error), "read", &error);
  }
}

static void arenas_write(const Backend *backend, Device *device, const Plan *plan, char **from) {
  Error error = {0};
  for (int a = 0; a < ARENA_CLASS_COUNT; a++) {
    must(backend->write(device, (ArenaClass)a, 0, from[a], plan->arena_bytes[a], &error), "write", &error);
  }
}

// Inputs and outputs travel apart from the rest: results there are compared by what the backends return.
static void untouched(Pair *pair, const Instruction *instruction) {
  for (int a = 0; a < ARENA_HOST; a++) {
    for (int64_t i = 0; i < pair->plan->arena_bytes[a]; i++) {
      if (!pair->owned[a][i] && pair->gpu_after[a][i] != pair->before[a][i]) {
        fail_msg("%s: %s '%s' changed byte %lld of arena %d, which is not its own", pair->text,
                 instruction_kind_name(instruction->kind), instruction->name ? instruction->name : "?", (long long)i,
                 a);
      }
    }
  }
}

// Runs the program, which is one instruction, on what the memory was before. The CPU lists what a program runs when it
// opens a plan.
static void run_alone(Pair *pair, const Backend *backend, Device **device, char **after) {
  const Plan *plan = pair->plan;
  Error error = {0};
  if (backend == &backend_cpu) {
    backend_cpu.close(*device);
    must(backend_cpu.open(plan, &few_threads, device, &error), "open the CPU", &error);
  }
  arenas_write(backend, *device, plan, pair->before);
  must(backend->run(*device, PROGRAM_TRAIN, &error) && backend->wait(*device, 0, &error), "run", &error);
  arenas_read(backend, *device, plan, after);
}

static void one_compare(Pair *pair, const PlanCall *call) {
  Plan *plan = pair->plan;
  const Instruction *instruction = &plan->segments[call->segment].instructions[0];
  Region regions[PLACES_MAX];
  PlanCall one = *call;
  PlanProgram *program = &plan->programs[PROGRAM_TRAIN];
  const PlanProgram whole = *program;
  program->calls = &one;
  program->call_count = 1;
  run_alone(pair, &backend_cpu, &pair->cpu, pair->cpu_after);
  run_alone(pair, pair->backend, &pair->gpu, pair->gpu_after);
  *program = whole;
  for (int a = 0; a < ARENA_CLASS_COUNT; a++) {
    memset(pair->owned[a], 0, (size_t)plan->arena_bytes[a]);
  }
  const int count = regions_of(pair, instruction, call, regions);
  for (int r = 0; r < count; r++) {
    region_compare(pair, instruction, &regions[r]);
  }
  untouched(pair, instruction);
  for (int a = 0; a < ARENA_CLASS_COUNT; a++) {
    memcpy(pair->before[a], pair->cpu_after[a], (size_t)plan->arena_bytes[a]);
  }
}

// Each instruction becomes a segment by itself, so that one can be run alone.
static void plan_split(Arena *arena, Plan *plan) {
  const PlanProgram program = plan->programs[PROGRAM_TRAIN];
  int segments = plan->segment_count, calls = 0, begins[256];
  for (int s = 0; s < plan->segment_count; s++) {
    begins[s] = segments;
    segments += plan->segments[s].count;
  }
  for (int c = 0; c < program.call_count; c++) {
    calls += plan->segments[program.calls[c].segment].count;
  }
  PlanSegment *split = ARENA_ARRAY(arena, PlanSegment, segments);
  PlanCall *call = ARENA_ARRAY(arena, PlanCall, calls);
  for (int s = 0; s < plan->segment_count; s++) {
    split[s] = plan->segments[s];
    for (int i = 0; i < plan->segments[s].count; i++) {
      split[begins[s] + i] = plan->segments[s];
      split[begins[s] + i].instructions = &plan->segments[s].instructions[i];
      split[begins[s] + i].count = 1;
    }
  }
  calls = 0;
  for (int c = 0; c < program.call_count; c++) {
    for (int i = 0; i < plan->segments[program.calls[c].segment].count; i++) {
      call[calls] = program.calls[c];
      call[calls++].segment = begins[program.calls[c].segment] + i;
    }
  }
  plan->segments = split;
  plan->segment_count = segments;
  plan->programs[PROGRAM_TRAIN].calls = call;
  plan->programs[PROGRAM_TRAIN].call_count = calls;
}

// The plan of rank 0 of several becomes one of a single rank: what would come from others is what this one sends.
// Blocks of keys keep the positions that they have on their owners.
static void plan_alone(Plan *plan) {
  const int first[PLAN_MAX_MESH] = {0};
  for (int s = 0; s < plan->segment_count; s++) {
    for (int i = 0; i < plan->segments[s].count; i++) {
      Instruction *instruction = &plan->segments[s].instructions[i];
      Attention *a = &instruction->as.attention;
      int owner[PLAN_MAX_MESH];
      if (instruction->kind == INSTRUCTION_COLLECTIVE) {
        const Collective c = instruction->as.collective;
        instruction->kind = INSTRUCTION_PIECE;
        const bool stays = c.from.arena == c.to.arena && c.from.offset == c.to.offset;
        const int64_t count = stays ? 0 : c.count;
        instruction->as.piece = (Piece){.type = c.type, .piece = c.count, .count = count, .from = c.from, .to = c.to};
      } else if (instruction_attends(instruction)) {
        plan_before(plan, a->ring, a->ring_step, first, owner);
        for (int p = 0; p < 2; p++) {
          a->key_origin[p] += plan_term(plan, a->key_origin_term[p], owner);
          a->key_origin_term[p] = 0;
        }
      }
    }
  }
  for (int m = 0; m < plan->mesh_count; m++) {
    plan->mesh[m].size = 1;
  }
}

static void inputs_fill(Pair *pair) {
  const PlanProgram *program = &pair->plan->programs[PROGRAM_TRAIN];
  Error error = {0};
  uint32_t draw = 12345;
  for (int i = 0; i < program->input_count; i++) {
    const PlanInput *input = &program->inputs[i];
    const int64_t count = elements_of(input->size, input->axis_count), size = element_type_bytes(input->type);
    for (int64_t e = 0; e < count * (input->place.slot_stride ? program->slots : 1); e++) {
      char value[8];
      draw = draw * 1664525u + 1013904223u;
      const bool step = strcmp(input->name, "step") == 0;
      element_put(input->type, value,
                  step ? 1 : (double)(draw >> 8) / 16777216 * (double)(input->bound ? input->bound : 2));
      const int64_t at = input->place.offset + e / count * input->place.slot_stride + e % count * size;
      must(backend_cpu.write(pair->cpu, input->place.arena, at, value, size, &error), "input", &error);
    }
  }
}

static void program_compare(const char *file, const char *recipe, const char *precision, const char *layout) {
  static const char *const small[] = {"batch=2", "seq=96", "layers=2"};
  static size_t number;
  if (effort_samples_out(number++, 3)) {
    return;
  }
  Error error = {0};
  Cuda cuda;
  Pair pair = {.arena = arena_create(), .text = file, .backend = &backend_cuda};
  if (cuda_open(&cuda, &error)) {
    cuda_close(&cuda);
  } else {
    pair.backend = &backend_cpu;
  }
  CompileOptions options = {.file = file, .recipe = recipe, .precision = precision, .layout = layout};
  if (strcmp(recipe, "test") != 0) {
    options.set = small;
    options.set_count = 3;
  }
  pair.plan = compile_or_fail(pair.arena, &options);
  Plan *plan = pair.plan;
  plan_alone(plan);
  plan_split(pair.arena, plan);
  for (int a = 0; a < ARENA_CLASS_COUNT; a++) {
    const size_t bytes = (size_t)plan->arena_bytes[a] + 1;
    pair.before[a] = calloc(bytes, 1);
    pair.cpu_after[a] = calloc(bytes, 1);
    pair.gpu_after[a] = calloc(bytes, 1);
    pair.owned[a] = calloc(bytes, 1);
  }
  must(backend_cpu.open(plan, &few_threads, &pair.cpu, &error), "open the CPU", &error);
  must(pair.backend->open(plan, &(DeviceOptions){0}, &pair.gpu, &error), "open the GPU", &error);
  if (pair.backend == &backend_cuda) {
    backend_cuda.trace(pair.gpu, true);  // instructions one by one, not the captured program
  }
  must(backend_cpu.run(pair.cpu, PROGRAM_INITIALISE, &error), "initialise", &error);
  if (plan->programs[PROGRAM_REFRESH].call_count > 0) {
    must(backend_cpu.run(pair.cpu, PROGRAM_REFRESH, &error), "refresh", &error);
  }
  inputs_fill(&pair);
  arenas_read(&backend_cpu, pair.cpu, plan, pair.before);
  const PlanProgram program = plan->programs[PROGRAM_TRAIN];
  for (int c = 0; c < program.call_count; c += pair.backend == &backend_cpu ? NO_GPU_STEP : 1) {
    one_compare(&pair, &program.calls[c]);
  }
  print_message("%s %s %s: %d instructions, worst difference %.2g%s\n", file, precision ? precision : "",
                layout ? layout : "", program.call_count, pair.worst, pair.backend == &backend_cpu ? " (no GPU)" : "");
  backend_cpu.close(pair.cpu);
  pair.backend->close(pair.gpu);
  for (int a = 0; a < ARENA_CLASS_COUNT; a++) {
    free(pair.before[a]);
    free(pair.cpu_after[a]);
    free(pair.gpu_after[a]);
    free(pair.owned[a]);
  }
  arena_destroy(pair.arena);
}

#define MODEL(name) MDL_SOURCE_DIR "/models/" name ".mdl"
#define LAYOUTS(name) MDL_SOURCE_DIR "/tests/layouts/" name ".mdl"
#define PROGRAM(name) MDL_SOURCE_DIR "/tests/programs/" name ".mdl"

static void programs_fp32(void **state) {
  static const char *const names[] = {
      PROGRAM("alibi"),        PROGRAM("attention_called"), PROGRAM("attention_mask"), PROGRAM("attention_spelled"),
      PROGRAM("batch_merged"), PROGRAM("biases"),           PROGRAM("block"),          PROGRAM("convolution"),
      PROGRAM("dropout"),      PROGRAM("functions"),        PROGRAM("hazard"),         PROGRAM("integers"),
      PROGRAM("mlp"),          PROGRAM("optimizers"),       PROGRAM("parameters"),     PROGRAM("shapes"),
      PROGRAM("state"),        PROGRAM("sum_of_products"),  PROGRAM("sum_of_turned"),  PROGRAM("tied")};
  (void)state;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    program_compare(names[i], "test", "fp32", NULL);
  }
}

static void gpt2_fp32(void **state) {
  (void)state;
  program_compare(MODEL("gpt2"), "tiny", "fp32", NULL);
}

static void llama_fp32(void **state) {
  (void)state;
  program_compare(MODEL("llama"), "small", "fp32", NULL);
}

// Linear biases through cuDNN, and through kernels of our own.
static void bloom(void **state) {
  (void)state;
  program_compare(MODEL("bloom"), "tiny", "bf16", NULL);
  program_compare(LAYOUTS("alibi"), "test", "bf16", "ringz");
  program_compare(LAYOUTS("alibi"), "test", "fp32", "ringpad3");
}

// Scores of the model's text: windows, caps, prefixes, documents, biases, rows that see nothing.
static void scores(void **state) {
  (void)state;
  program_compare(PROGRAM("scores"), "test", "fp32", NULL);
  program_compare(PROGRAM("scores_long"), "test", "fp32", NULL);
  program_compare(PROGRAM("scores_long"), "test", "bf16", NULL);
  program_compare(PROGRAM("scores_learned"), "test", "fp32", NULL);
  program_compare(PROGRAM("scores_learned"), "test", "bf16", NULL);
  program_compare(LAYOUTS("finite"), "test", "fp32", "zigzag");
  program_compare(LAYOUTS("finite"), "test", "bf16", "ring");
}

static void gpt2_bf16(void **state) {
  (void)state;
  program_compare(MODEL("gpt2"), "tiny", "bf16", NULL);
}

// The GPU's library may add biases in one format and not in another.
static void biases(void **state) {
  static const char *const precisions[] = {"bf16", "bf16_fp32_residual", "tf32", "fp64"};
  (void)state;
  for (size_t i = 0; i < sizeof precisions / sizeof *precisions; i++) {
    program_compare(PROGRAM("biases"), "test", precisions[i], NULL);
  }
}

static void llama_bf16(void **state) {
  (void)state;
  program_compare(MODEL("llama"), "small", "bf16", NULL);
}

// Few rows for each block of a kernel: what is fetched ahead is not yet there when the last row is done.
static void experts(void **state) {
  (void)state;
  program_compare(MODEL("mixtral"), "tiny", "fp32", NULL);
  program_compare(MODEL("mixtral"), "tiny", "bf16", NULL);
  program_compare(MODEL("olmoe"), "tiny", "bf16", NULL);
  program_compare(MODEL("deepseek"), "tiny", "bf16", NULL);
}

static void quarters(void **state) {
  (void)state;
  program_compare(MODEL("gpt2"), "tiny", "fp8_current", NULL);
  program_compare(MODEL("gpt2"), "tiny", "fp8_hybrid", NULL);
  program_compare(MODEL("llama"), "small", "fp8_current", NULL);
  program_compare(MODEL("llama"), "small", "fp8_hybrid", NULL);
}

static void rings(void **state) {
  (void)state;
  program_compare(LAYOUTS("llama"), "r", "fp32", "ring2");
  program_compare(LAYOUTS("llama"), "r", "fp32", "ring4z");
  program_compare(LAYOUTS("llama"), "r", "bf16", "ring2z");
  program_compare(LAYOUTS("llama"), "r", "bf16", "ringmixed");
  program_compare(LAYOUTS("cross"), "test", "fp32", "ring4");
  program_compare(LAYOUTS("cross"), "test", "bf16", "two");
}

static void scans(void **state) {
  (void)state;
  program_compare(PROGRAM("scans"), "test", "fp32", NULL);
  program_compare(LAYOUTS("scans"), "test", "fp32", NULL);
  program_compare(LAYOUTS("scans"), "test", "bf16", NULL);
  program_compare(MODEL("mamba2"), "small", "bf16", NULL);
}

// backends_test [PATTERN]: the tests whose names match, * and ? as in file names.
int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(programs_fp32), cmocka_unit_test(gpt2_fp32),  cmocka_unit_test(llama_fp32),
      cmocka_unit_test(gpt2_bf16),     cmocka_unit_test(llama_bf16), cmocka_unit_test(biases),
      cmocka_unit_test(rings),         cmocka_unit_test(bloom),      cmocka_unit_test(scores),
      cmocka_unit_test(quarters),      cmocka_unit_test(scans),      cmocka_unit_test(experts),
  };
  if (argc > 1) {
    cmocka_set_test_filter(argv[1]);
  }
  return cmocka_run_group_tests(tests, NULL, NULL);
}
