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
#include "runtime/mdl.h"
#include "tests/plan_sample.h"

enum { HEADER = 32 };

static char directory[64];

static const char *file_in(const char *name) {
  static char path[128];
  snprintf(path, sizeof path, "%s/%s", directory, name);
  return path;
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
  assert_int_equal(back->segments[0].instructions[11].as.order.capacity, 16);
  assert_int_equal(back->segments[0].instructions[13].as.grouped.stride, 32);
  assert_int_equal(back->segments[0].instructions[14].as.take.summed, 1);
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

// Machine code cannot be checked: it is left out, but of plans that are trusted.
static void test_code_is_left_out(void **state) {
  (void)state;
  Arena *arena = arena_create();
  const char *why = NULL;
  Plan *plan = sample_plan(arena);
  targets_set(arena, plan);
  assert_true(artefact_write(arena, set_of(arena, 1, plan, NULL), file_in("with.mdlx"), &why));
  for (int trust = 0; trust < 2; trust++) {
    MdlPlan *opened = NULL;
    MdlError error;
    assert_int_equal((trust ? mdl_plan_open_trusted : mdl_plan_open)(file_in("with.mdlx"), &opened, &error), MDL_DONE);
    assert_int_equal(mdl_plan_left_code(opened), !trust);
    assert_int_equal(mdl_plan_write(opened, file_in("again.mdlx"), &error), MDL_DONE);
    mdl_plan_close(opened);
    const PlanSet *set = artefact_read(arena, file_in("again.mdlx"), &why);
    assert_non_null(set);
    assert_int_equal(set->plans[0]->target_count, trust ? 2 : 0);
  }
  arena_destroy(arena);
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

int main(void) {
  snprintf(directory, sizeof directory, "/tmp/mdl-artefact-XXXXXX");
  if (!mkdtemp(directory)) {
    return 1;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_round_trip),
      cmocka_unit_test(test_code_for_targets),
      cmocka_unit_test(test_code_is_left_out),
      cmocka_unit_test(test_damaged_files),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  io_remove_tree(directory);
  return failed;
}
