// artefact_test.c: plans as files: what is written is read, and nothing else is believed.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka.h wants the four above first.
#include <cmocka.h>
#include <stdio.h>
#include <unistd.h>
#include <xxhash.h>

#include "compiler/plan/artefact.h"
#include "compiler/plan/verify.h"
#include "runtime/io.h"
#include "tests/toy.h"

enum { HEADER = 32, INSTRUCTIONS = 11 };

static char directory[64];

static const char *file_in(const char *name) {
  static char path[128];
  snprintf(path, sizeof path, "%s/%s", directory, name);
  return path;
}

// y = x + 1, elementwise over 4 rows of 8.
static Kernel *sample_kernel(Arena *arena) {
  Kernel *kernel = ARENA_NEW(arena, Kernel);
  *kernel =
      (Kernel){.dim_count = 2, .inner_count = 1, .size = {4, 8}, .real = TYPE_F32, .port_count = 2, .code_count = 4};
  kernel->port = ARENA_ARRAY(arena, KernelPort, 2);
  kernel->port[0] = (KernelPort){.kind = PORT_INPUT, .type = TYPE_F32, .stride = {8, 1}};
  kernel->port[1] = (KernelPort){.kind = PORT_OUTPUT, .type = TYPE_F32, .stride = {8, 1}};
  kernel->code = ARENA_ARRAY(arena, KernelInstruction, 4);
  kernel->code[0] = (KernelInstruction){KERNEL_LOAD, LEVEL_FULL, false, -1, -1, -1, 0, 0, 0};
  kernel->code[1] = (KernelInstruction){KERNEL_CONST, LEVEL_SCALAR, false, -1, -1, -1, -1, 1.0, 0};
  kernel->code[2] = (KernelInstruction){KERNEL_ADD, LEVEL_FULL, false, 0, 1, -1, -1, 0, 0};
  kernel->code[3] = (KernelInstruction){KERNEL_STORE, LEVEL_FULL, false, 2, -1, -1, 1, 0, 0};
  return kernel;
}

static Instruction *instruction_of(Plan *plan, int index, InstructionKind kind) {
  Instruction *instruction = &plan->segments[0].instructions[index];
  *instruction = (Instruction){.kind = kind, .span = {0, 2, 7}, .name = "layers.0.x", .flops = 1e3, .bytes = 64};
  return instruction;
}

static const Place transient = {.arena = ARENA_TRANSIENT};

static void attention_set(Attention *a) {
  *a = (Attention){.type = TYPE_F32,
                   .causal = true,
                   .scale = 0.5,
                   .parts = 2,
                   .origin = {4, 24},
                   .more = true,
                   .key_parts = 2,
                   .key_origin = {8, 20},
                   .key_end = 30,
                   .biased = true,
                   .slopes = transient,
                   .batch = 2,
                   .queries = 4,
                   .keys = 4,
                   .heads = 2,
                   .groups = 2,
                   .depth = 8,
                   .value_depth = 8};
  const int64_t query[4] = {128, 32, 16, 8}, key[3] = {64, 16, 8};
  int64_t *const queries[] = {a->stride_q, a->stride_o, a->stride_dq, a->stride_do};
  int64_t *const keys[] = {a->stride_k, a->stride_v, a->stride_dk, a->stride_dv};
  for (int i = 0; i < 4; i++) {
    memcpy(queries[i], query, sizeof query);
    memcpy(keys[i], key, sizeof key);
  }
}

static void gemms_set(Plan *plan) {
  Gemm *gemm = &instruction_of(plan, 1, INSTRUCTION_GEMM)->as.gemm;
  *gemm = (Gemm){.type = TYPE_F32,
                 .type_b = TYPE_F32,
                 .type_c = TYPE_F32,
                 .transpose_b = true,
                 .m = 4,
                 .n = 8,
                 .k = 16,
                 .lda = 16,
                 .ldb = 16,
                 .ldc = 8};
  gemm->batch_count = 1;
  gemm->batch[0] = 2;
  gemm->stride_a[0] = 64;
  gemm->stride_c[0] = 32;
  gemm->a = gemm->b = gemm->c = transient;
  Gemm *biased = &instruction_of(plan, 9, INSTRUCTION_GEMM)->as.gemm;
  *biased = *gemm;
  biased->batch_count = 0;
  biased->epilogue = EPILOGUE_BIAS;
  biased->bias = (Place){.arena = ARENA_TRANSIENT, .offset = 512};
}

// The toy plan with an instruction of each kind.
static Plan *sample_plan(Arena *arena) {
  Plan *plan = toy_plan(arena, "text", 4, 8, 2, true);
  plan->source_count = 1;
  plan->sources = ARENA_NEW(arena, Source);
  plan->sources[0] = (Source){"a.mdl", "model toy {}\n", 13};
  plan->kernel_count = 1;
  plan->kernels = ARENA_NEW(arena, Kernel *);
  plan->kernels[0] = sample_kernel(arena);
  plan->arena_bytes[ARENA_TRANSIENT] = 4096;
  plan->segments[0].count = INSTRUCTIONS;
  plan->segments[0].instructions = ARENA_ARRAY(arena, Instruction, INSTRUCTIONS);
  KernelCall *call = &instruction_of(plan, 0, INSTRUCTION_KERNEL)->as.kernel;
  call->place = ARENA_ARRAY(arena, Place, 2);
  call->place[0] = (Place){.arena = ARENA_TRANSIENT, .slot_stride = 64};
  call->place[1] = (Place){.arena = ARENA_TRANSIENT, .offset = 256};
  gemms_set(plan);
  static const PlanRange parts[] = {{0, 100}, {128, 28}};
  Squares *squares = &instruction_of(plan, 10, INSTRUCTION_SQUARES)->as.squares;
  *squares = (Squares){.type = TYPE_F32, .part_count = 2, .from = transient, .to = transient};
  squares->part = arena_copy(arena, parts, sizeof parts);
  squares->to.offset = 1024;
  for (int i = 2; i < 4; i++) {
    Take *take = &instruction_of(plan, i, i == 2 ? INSTRUCTION_TAKE : INSTRUCTION_PUT)->as.take;
    *take = (Take){.type = TYPE_F32,
                   .type_out = TYPE_F32,
                   .dim_count = 2,
                   .size = {4, 8},
                   .stride_x = {0, 1},
                   .stride_index = {1, 0},
                   .stride_out = {8, 1},
                   .extent = 16,
                   .stride_axis = 8,
                   .x_elements = 128};
    take->x = take->index = take->out = transient;
  }
  Window *window = &instruction_of(plan, 4, INSTRUCTION_WINDOW)->as.window;
  *window = (Window){.type = TYPE_F32,
                     .dim_count = 2,
                     .windowed = 0,
                     .size = {4, 8},
                     .stride_x = {8, 1},
                     .stride_out = {32, 4},
                     .taps = 4,
                     .stride_tap = 1};
  window->x = window->out = transient;
  for (int i = 5; i < 7; i++) {
    Attention *attention =
        &instruction_of(plan, i, i == 5 ? INSTRUCTION_ATTENTION : INSTRUCTION_ATTENTION_GRAD)->as.attention;
    attention_set(attention);
    attention->q = attention->k = attention->v = attention->o = attention->statistics = transient;
    attention->d_o = attention->dq = attention->dk = attention->dv = transient;
  }
  plan->arena_bytes[ARENA_OFFLOAD] = 256;
  for (int i = 7; i < 9; i++) {
    const InstructionKind kind = (InstructionKind)(INSTRUCTION_OFFLOAD + i - 7);
    instruction_of(plan, i, kind)->as.offload =
        (Offload){.bytes = 128, .device = transient, .host = {.arena = ARENA_OFFLOAD, .offset = 64}};
  }
  static const PlanCall calls[] = {{.slot = 0, .first = true}, {.slot = 1}};
  plan->programs[PROGRAM_TRAIN].calls = arena_copy(arena, calls, sizeof calls);
  plan->programs[PROGRAM_TRAIN].call_count = 2;
  plan->programs[PROGRAM_TRAIN].values = ARENA_ARRAY(arena, PlanValue, 1);
  plan->programs[PROGRAM_TRAIN].values[0] = (PlanValue){"layers.*.x", {0, 6, 9}, 1024, 2};
  plan->programs[PROGRAM_TRAIN].value_count = 1;
  return plan;
}

static PlanSet *set_of(Arena *arena, int count, Plan *first, Plan *second) {
  PlanSet *set = ARENA_NEW(arena, PlanSet);
  set->count = count;
  set->plans = ARENA_ARRAY(arena, Plan *, 2);
  set->plans[0] = first;
  set->plans[1] = second;
  return set;
}

static char *bytes_of(const char *path, size_t *size) {
  Error error;
  char *bytes = NULL;
  assert_true(io_read_file(path, 1 << 24, &bytes, size, &error));
  return bytes;
}

static void write_bytes(const char *path, const char *bytes, size_t size) {
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  assert_int_equal(fwrite(bytes, 1, size, file), size);
  fclose(file);
}

static void test_round_trip(void **state) {
  (void)state;
  Arena *arena = arena_create();
  const char *why = NULL;
  Plan *plan = sample_plan(arena);
  assert_null(plan_verify(arena, plan));
  if (!artefact_write(arena, set_of(arena, 1, plan, NULL), file_in("a.mdlx"), &why)) {
    fail_msg("%s", why);
  }
  assert_true(artefact_is(file_in("a.mdlx")));
  size_t size, again_size;
  char *bytes = bytes_of(file_in("a.mdlx"), &size);
  const char head[16] = {'M', 'D', 'L', 'X', '\r', '\n', '\x1a', '\n', PLAN_VERSION};
  assert_memory_equal(bytes, head, sizeof head);
  PlanSet *back_set = artefact_read(arena, file_in("a.mdlx"), &why);
  if (!back_set) {
    fail_msg("%s", why);
  }
  Plan *back = back_set->plans[0];
  assert_string_equal(back->run.model, "toy");
  assert_string_equal(back->segments[0].instructions[6].name, "layers.0.x");
  assert_int_equal(back->segments[0].instructions[1].as.gemm.stride_c[0], 32);
  const Gemm *biased = &back->segments[0].instructions[9].as.gemm;
  assert_int_equal(biased->epilogue, EPILOGUE_BIAS);
  assert_int_equal(biased->bias.offset, 512);
  const Squares *squares = &back->segments[0].instructions[10].as.squares;
  assert_int_equal(squares->part_count, 2);
  assert_true(squares->part[1].first == 128 && squares->part[1].count == 28);
  KernelContent was = {0}, is = {0};
  kernel_content(plan->kernels[0], arena, &was);
  kernel_content(back->kernels[0], arena, &is);
  assert_int_equal(was.count, is.count);
  assert_memory_equal(was.at, is.at, sizeof *was.at * (size_t)was.count);
  assert_string_equal(back->sources[0].text, "model toy {}\n");
  assert_null(back->programs[PROGRAM_TRAIN].inputs[0].axis[2]);
  assert_int_equal(back->programs[PROGRAM_TRAIN].value_count, 1);
  assert_string_equal(back->programs[PROGRAM_TRAIN].values[0].name, "layers.*.x");
  assert_int_equal(back->programs[PROGRAM_TRAIN].values[0].bytes, 1024);
  assert_true(artefact_write(arena, back_set, file_in("b.mdlx"), &why));
  char *again = bytes_of(file_in("b.mdlx"), &again_size);
  assert_int_equal(size, again_size);
  assert_memory_equal(bytes, again, size);
  free(bytes);
  free(again);
  arena_destroy(arena);
}

// Code for two targets, that of two texts each: an ELF header with nothing behind it, and PTX.
static void targets_set(Arena *arena, Plan *plan) {
  plan->target_count = 2;
  plan->targets = ARENA_ARRAY(arena, PlanTarget, 2);
  for (int t = 0; t < 2; t++) {
    PlanTarget *target = &plan->targets[t];
    *target = (PlanTarget){.target = t ? "compute_80" : "sm_90a",
                           .compiler = "NVRTC 13.0",
                           .multiprocessors = 132,
                           .shared_bytes = 232448,
                           .count = 2};
    target->codes = ARENA_ARRAY(arena, PlanCode, 2);
    for (int i = 0; i < 2; i++) {
      uint8_t *code = arena_alloc(arena, 64);
      memcpy(code,
             t ? ".version 9.0"
               : "\x7f"
                 "ELF\2\1",
             t ? 12 : 6);
      target->codes[i] = (PlanCode){.text = (uint64_t)(7 + i) << 60, .code = code, .bytes = t ? 13 : 64};
    }
  }
}

static void test_code_for_targets(void **state) {
  (void)state;
  Arena *arena = arena_create();
  const char *why = NULL;
  Plan *plan = sample_plan(arena);
  targets_set(arena, plan);
  assert_null(plan_verify(arena, plan));
  assert_true(artefact_write(arena, set_of(arena, 1, plan, NULL), file_in("t.mdlx"), &why));
  PlanSet *back = artefact_read(arena, file_in("t.mdlx"), &why);
  if (!back) {
    fail_msg("%s", why);
  }
  const PlanTarget *target = &back->plans[0]->targets[1];
  assert_int_equal(back->plans[0]->target_count, 2);
  assert_string_equal(target->target, "compute_80");
  assert_string_equal(target->compiler, "NVRTC 13.0");
  assert_int_equal(target->shared_bytes, 232448);
  assert_null(plan_code(target, 0));
  assert_null(plan_code(target, UINT64_MAX));
  for (int i = 0; i < 2; i++) {
    const PlanCode *code = plan_code(target, plan->targets[1].codes[i].text);
    assert_ptr_equal(code, &target->codes[i]);
    assert_int_equal(code->bytes, 13);
    assert_string_equal((const char *)code->code, ".version 9.0");
    assert_int_equal((uintptr_t)code->code % 16, 0);
  }
  arena_destroy(arena);
}

// What a driver would read past the end, and what would not be found.
static void test_unsound_code(void **state) {
  (void)state;
  static const char *const wanted[] = {"neither machine code nor text", "neither machine code nor text",
                                       "neither machine code nor text", "no order", "nothing in it"};
  for (int which = 0; which < 5; which++) {
    Arena *arena = arena_create();
    Plan *plan = sample_plan(arena);
    targets_set(arena, plan);
    PlanTarget *cubins = &plan->targets[0], *texts = &plan->targets[1];
    switch (which) {
      case 0:
        texts->codes[1].bytes = 12;  // without its end
        break;
      case 1:
        cubins->codes[1].bytes = 63;
        break;
      case 2:
        ((uint8_t *)cubins->codes[0].code)[58] = 64;  // bytes of a section's header
        ((uint8_t *)cubins->codes[0].code)[60] = 2;
        break;
      case 3:
        cubins->codes[1].text = cubins->codes[0].text;
        break;
      default:
        texts->multiprocessors = 0;
    }
    const char *why = plan_verify(arena, plan);
    assert_non_null(why);
    assert_non_null(strstr(why, wanted[which]));
    arena_destroy(arena);
  }
}

static const char *read_error(const char *path) {
  static char text[512];
  Arena *arena = arena_create();
  const char *why = NULL;
  PlanSet *set = artefact_read(arena, path, &why);
  snprintf(text, sizeof text, "%s", set ? "" : why);
  arena_destroy(arena);
  return text;
}

static void put_hash(char *bytes, size_t size) {
  uint64_t hash = XXH3_64bits(bytes + HEADER, size - HEADER), length = size - HEADER;
  for (int i = 0; i < 8; i++) {
    bytes[16 + i] = (char)(length >> (8 * i));
    bytes[24 + i] = (char)(hash >> (8 * i));
  }
}

static void test_damaged_files(void **state) {
  (void)state;
  Arena *arena = arena_create();
  const char *why = NULL;
  Plan *plan = sample_plan(arena);
  targets_set(arena, plan);
  assert_true(artefact_write(arena, set_of(arena, 1, plan, NULL), file_in("a.mdlx"), &why));
  size_t size;
  char *bytes = bytes_of(file_in("a.mdlx"), &size);
  assert_non_null(strstr(read_error(file_in("absent.mdlx")), "absent.mdlx"));
  for (size_t cut = 0; cut < size; cut += cut < 64 ? 1 : 97) {
    write_bytes(file_in("c.mdlx"), bytes, cut);
    assert_non_null(strstr(read_error(file_in("c.mdlx")), cut < HEADER ? "is no plan" : "is cut short or damaged"));
  }
  char *copy = malloc(size);
  memcpy(copy, bytes, size);
  copy[size / 2] ^= 1;
  write_bytes(file_in("c.mdlx"), copy, size);
  assert_non_null(strstr(read_error(file_in("c.mdlx")), "its hash does not fit its bytes"));
  memcpy(copy, bytes, size);
  copy[8] = PLAN_VERSION + 1;
  write_bytes(file_in("c.mdlx"), copy, size);
  assert_non_null(
      strstr(read_error(file_in("c.mdlx")),
             arena_format(arena, "is a plan of format %d; this program reads %d", PLAN_VERSION + 1, PLAN_VERSION)));
  // The payload cut short under a header that fits it.
  for (size_t cut = HEADER; cut < size; cut += 13) {
    memcpy(copy, bytes, cut);
    put_hash(copy, cut);
    write_bytes(file_in("c.mdlx"), copy, cut);
    assert_non_null(strstr(read_error(file_in("c.mdlx")), "its bytes do not form a plan"));
  }
  // Bytes changed at random under a hash that fits: read or refused, never a crash; what is read is sound.
  uint32_t random = 1;
  int refused = 0;
  for (int round = 0; round < 3000; round++) {
    memcpy(copy, bytes, size);
    for (int change = 0; change <= round % 3; change++) {
      random = random * 1664525u + 1013904223u;
      size_t at = HEADER + (random >> 8) % (size - HEADER);
      random = random * 1664525u + 1013904223u;
      copy[at] = round % 2 ? (char)(random >> 24) : (char)0xff;
    }
    put_hash(copy, size);
    write_bytes(file_in("c.mdlx"), copy, size);
    refused += read_error(file_in("c.mdlx"))[0] != '\0';
  }
  assert_true(refused > 1000);
  free(copy);
  free(bytes);
  arena_destroy(arena);
}

static void spoil_attention(Attention *attention, int which) {
  switch (which) {
    case 0:
      attention->parts = 3;
      break;
    case 1:
      attention->origin_term[1] = 1;
      break;
    case 2:
      attention->origin[0] = INT64_MAX;
      break;
    case 3:
      attention->key_parts = 3;
      break;
    case 4:
      attention->key_origin_term[1] = 1;
      break;
    case 5:
      attention->key_end = -1;
      break;
    case 6:
      attention->ring_step = 1;
      break;
    case 7:
      attention->ring = 1;
      break;
    case 8:
      attention->keys = 3;
      break;
    default:
      attention->queries = 3;
  }
}

// Each case spoils one thing in a sound plan.
static void spoil(Plan *plan, int which) {
  Instruction *at = plan->segments[0].instructions;
  switch (which) {
    case 0:
      at[0].as.kernel.place[0].offset = 4096 - 64;
      break;
    case 1:
      at[0].as.kernel.place[0].slot_stride = 4096;
      break;
    case 2:
      at[0].as.kernel.kernel = 1;
      break;
    case 3:
      at[1].as.gemm.ldc = 7;
      break;
    case 4:
      at[1].as.gemm.batch[0] = INT64_MAX / 2;
      break;
    case 5:
      at[1].as.gemm.m = 0;
      break;
    case 6:
      at[2].as.take.extent = 4096;
      break;
    case 7:
      at[3].as.take.x_elements = 2000;
      break;
    case 8:
      at[4].as.window.windowed = 2;
      break;
    case 9:
      at[4].as.window.taps = 1000;
      break;
    case 10:
      at[5].as.attention.stride_k[1] = -1;
      break;
    case 11:
      at[6].as.attention.dv.offset = 4096;
      break;
    case 12:
      at[6].as.attention.groups = INT64_MAX;
      break;
    case 13:
      at[0].span.end = 14;
      break;
    case 14:
      plan->programs[PROGRAM_TRAIN].calls[1].slot = 2;
      break;
    case 15:
      plan->programs[PROGRAM_TRAIN].calls[1].segment = -1;
      break;
    case 16:
      plan->states[1].offset += 4;
      break;
    case 17:
      plan->states[1].stride[0] = 0;
      break;
    case 18:
      plan->programs[PROGRAM_TRAIN].inputs[0].place.slot_stride = INT64_MAX;
      break;
    case 19:
      plan->programs[PROGRAM_GENERATE].outputs[0].stride[0] = 1 << 20;
      break;
    case 20:
      plan->kernels[0]->code[2].a = 2;
      break;
    case 21:
      at[2].as.take.out.offset = 2;
      break;
    case 22:
      plan->programs[PROGRAM_TRAIN].transient_bytes = 4097;
      break;
    case 23:
      at[2].as.take.index.offset = -4;
      break;
    default:
      spoil_attention(&at[5].as.attention, which - 24);
  }
}

// The types of two instructions that do not go together; biases.
static void spoil_types(Plan *plan, int which) {
  Gemm *gemm = &plan->segments[0].instructions[1].as.gemm, *biased = &plan->segments[0].instructions[9].as.gemm;
  Squares *squares = &plan->segments[0].instructions[10].as.squares;
  switch (which) {
    case 0:
      gemm->type_c = TYPE_BF16;
      break;
    case 1:
      gemm->type = gemm->type_b = gemm->type_c = TYPE_BF16;
      gemm->tf32 = true;
      break;
    case 2:
      plan->segments[0].instructions[2].as.take.type_out = TYPE_INT;
      break;
    case 4:
      biased->bias.offset = 4096 - 16;
      break;
    case 5:
      biased->write = WRITE_ADD;
      break;
    case 17:
      gemm->type_b = TYPE_BF16;
      break;
    case 18:
      gemm->type = gemm->type_b = TYPE_E5M2;
      break;
    case 19:
      gemm->type = gemm->type_c = TYPE_E4M3;
      gemm->type_b = TYPE_E5M2;
      break;
    case 20:
      gemm->type = gemm->type_b = TYPE_E4M3;
      gemm->scale_b = (Place){.arena = ARENA_TRANSIENT, .offset = 4096};
      break;
    case 21:
      gemm->fast = true;
      break;
    case 7:
      plan->programs[PROGRAM_GENERATE].outputs[0].place.arena = ARENA_TRANSIENT;
      break;
    case 6:
      gemm->epilogue = EPILOGUE_BIAS;  // of a batch
      break;
    case 8:
      plan->segments[0].instructions[8].as.offload.host.offset = 0;  // where nothing was offloaded to
      break;
    case 9:
      plan->segments[0].instructions[7].as.offload.device.arena = ARENA_OFFLOAD;
      break;
    case 10:
      plan->segments[0].instructions[7].as.offload.bytes = 0;
      break;
    case 11:
      gemm->a.arena = ARENA_OFFLOAD;  // which only copies use
      break;
    case 12:
      squares->part[0].count = 1025;  // of 1024 in the arena
      break;
    case 13:
      squares->part[1].first = -1;
      break;
    case 14:
      squares->part[1].count = INT64_MAX;
      break;
    case 15:
      squares->part_count = 0;
      break;
    case 16:
      squares->type = TYPE_BF16;
      break;
    default:
      plan->segments[0].instructions[5].as.attention.type = TYPE_BF16;  // to which a block of a ring adds
  }
}

static void test_unsound_plans(void **state) {
  (void)state;
  for (int which = 0; which <= 55; which++) {
    Arena *arena = arena_create();
    Plan *plan = sample_plan(arena);
    assert_null(plan_verify(arena, plan));
    (which > 33 ? spoil_types : spoil)(plan, which > 33 ? which - 34 : which);
    const char *why = plan_verify(arena, plan);
    if (!why) {
      fail_msg("case %d was not found", which);
    }
    assert_true(strlen(why) > 10);
    arena_destroy(arena);
  }
}

int main(void) {
  snprintf(directory, sizeof directory, "/tmp/mdl-artefact-XXXXXX");
  if (!mkdtemp(directory)) {
    return 1;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_round_trip),    cmocka_unit_test(test_code_for_targets),
      cmocka_unit_test(test_unsound_code),  cmocka_unit_test(test_damaged_files),
      cmocka_unit_test(test_unsound_plans),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  io_remove_tree(directory);
  return failed;
}
