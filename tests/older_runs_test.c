// older_runs_test.c: checkpoints as programs before wrote them, or as other programs did: what is not known of them is
// said, and they are gone on with; and copies of a state in memory, of which no other bytes can be read.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka.h wants the four above first.
#include <cmocka.h>
#include <jansson.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "compiler/plan/artefact.h"
#include "runtime/checkpoint.h"
#include "runtime/checkpoint_files.h"
#include "runtime/frozen.h"
#include "runtime/restore.h"
#include "runtime/snapshot.h"
#include "runtime/train.h"
#include "runtime/verify_path.h"
#include "tests/place.h"
#include "tests/plan_sample.h"

static bool trained(const World *world, Plan *plan, int64_t steps, bool resume, Error *error) {
  char out[IO_PATH_MAX];
  TrainResult result;
  path_in(world, out, "run");
  const TrainOptions options = {
      .out = out, .resume = resume, .steps = steps, .save_every = 1, .eval_every = -1, .log_every = -1, .keep = 3};
  return train_run(&(PlanSet){1, &plan}, &toy_backend, &options, &result, error);
}

static void expect_log(const World *world, const char *words) {
  char path[IO_PATH_MAX], *text;
  size_t size;
  Error error = {0};
  path_in(world, path, "run/log.txt");
  assert_true(io_read_file(path, 1 << 20, &text, &size, &error));
  expect_words(text, words);
  free(text);
}

// --- manifests ---

static void manifest_put(const World *world, const char *name, json_t *root) {
  char path[IO_PATH_MAX];
  path_in(world, path, name);
  assert_int_equal(json_dump_file(root, path, JSON_INDENT(1)), 0);
  json_decref(root);
}

static json_t *manifest_of(const World *world, const char *name) {
  char path[IO_PATH_MAX];
  path_in(world, path, name);
  json_t *root = json_load_file(path, 0, NULL);
  assert_non_null(root);
  return root;
}

// Of version 1: without a hash, fingerprints, the number of the batch and what was added since.
static void test_first_version(void **state) {
  static const char *const since[] = {"manifest_xxh3_64", "data_hash", "tokenizer_hash", "batch",
                                      "bad_steps",        "finite",    "val_loss"};
  static const char name[] = "run/checkpoints/step-00000002/manifest.json";
  const World *world = *state;
  Error error = {0};
  CheckpointFacts facts;
  Buffer out = {0};
  int64_t damaged;
  char path[IO_PATH_MAX];
  if (!trained(world, toy_plan(world->arena, world->text, 8, 16, 2, false), 2, false, &error)) {
    fail_msg("%s", error.text);
  }
  json_t *root = manifest_of(world, name);
  for (size_t i = 0; i < sizeof since / sizeof *since; i++) {
    json_object_del(root, since[i]);
  }
  json_object_set_new(root, "version", json_integer(1));
  json_object_set_new(root, "data_bytes", json_integer(19999));
  json_object_set_new(root, "seed", json_string("8"));
  json_object_set_new(root, "program_hash", json_string("5"));
  manifest_put(world, name, root);
  path_in(world, path, "run/checkpoints/step-00000002");
  assert_true(checkpoint_facts(path, &facts, &error));
  assert_true(facts.version == 1 && facts.batch == 2 && facts.bad_steps == 0 && facts.data_hash == 0);
  assert_true(isnan(facts.val_loss) && !facts.not_finite[0]);
  assert_true(verify_path(path, &out, &damaged, &error));
  expect_words(out.text, "whole, but for the manifest, which has no hash (version 1)");
  buffer_free(&out);
  if (!trained(world, toy_plan(world->arena, world->text, 8, 16, 2, false), 3, true, &error)) {
    fail_msg("%s", error.text);
  }
  expect_log(world, "has a manifest without a hash of its own");
  expect_log(world, "had 19999 bytes when this run was saved, now 20000");
  expect_log(world, "the seed is not the one this run began with");
  expect_log(world, "the text is not the one this run began with");
}

// Precisions of the same length differ too.
static void test_other_precision(void **state) {
  const World *world = *state;
  Error error = {0};
  Plan *plan = toy_plan(world->arena, world->text, 8, 16, 2, false);
  char path[IO_PATH_MAX];
  plan->resolved = "recipe r {\n  precision bf16;\n}\n";
  if (!trained(world, plan, 1, false, &error)) {
    fail_msg("%s", error.text);
  }
  path_in(world, path, "run/metrics.jsonl");
  FILE *file = fopen(path, "a");
  fputs("none\nnor this\n", file);  // behind what the manifest knows: as if it were torn
  fclose(file);
  plan->resolved = "recipe r {\n  precision fp16;\n}\n";
  if (!trained(world, plan, 2, true, &error)) {
    fail_msg("%s", error.text);
  }
  expect_log(world, "the precision was `bf16`, from here on it is `fp16`");
  expect_log(world, "2 lines of");
}

// --- a copy of the state ---

static int pinned;

static bool toy_pin(Device *device, void *memory, int64_t bytes, Error *error) {
  (void)device;
  (void)memory;
  (void)bytes;
  (void)error;
  return ++pinned > 0;
}

static void toy_unpin(Device *device, void *memory) {
  (void)device;
  (void)memory;
  pinned--;
}

static void facts_of_a_gpu(const Device *device, DeviceFacts *facts) {
  toy_facts(device, facts);
  facts->memory_bytes = INT64_C(1) << 40;  // of its own: its arenas take none of the machine
}

static PlanState vector(const char *name, int64_t size, int64_t stride, int64_t offset) {
  return (PlanState){.name = name,
                     .role = STATE_PARAMETER,
                     .type = TYPE_F32,
                     .axis_count = 1,
                     .axis = {"a"},
                     .size = {size},
                     .stride = {stride},
                     .offset = offset};
}

// One tensor lies between the elements of another, and one is larger than what is hashed at a time.
static void test_copies(void **state) {
  enum { LARGE = 300000, FAR = 1 << 20 };
  World *world = *state;
  Backend gpu = toy_backend;
  gpu.pin = toy_pin;
  gpu.unpin = toy_unpin;
  gpu.facts = facts_of_a_gpu;
  Plan *plan = toy_plan(world->arena, "text", 4, 8, 1, false);
  PlanState *states = ARENA_ARRAY(world->arena, PlanState, 3);
  states[0] = vector("wide", 8, 2, 256);
  states[1] = vector("between", 1, 1, 260);
  states[2] = vector("large", LARGE, 1, FAR);
  plan->states = states;
  plan->state_count = 3;
  plan->arena_bytes[ARENA_PERSISTENT] = FAR + 4 * LARGE;
  Session session;
  Snapshot *snapshot;
  Error error = {0};
  float value = 7, back[2] = {0};
  assert_true(session_open(&session, plan, &gpu, 1, &error));
  assert_true(toy_write(session.device, ARENA_PERSISTENT, 260, &value, 4, &error));
  assert_true(snapshot_create(&session, &snapshot, &error));
  assert_int_equal(pinned, 1);
  assert_int_equal(snapshot_bytes(snapshot), 60 + 4 * LARGE);
  assert_true(snapshot_take(snapshot, &error) && snapshot_taken(snapshot, &error));
  const StateReader reader = snapshot_reader(snapshot);
  const char *held = reader.at(reader.context, 0, 256, 8, &error);
  assert_non_null(held);
  memcpy(back, held, 8);
  assert_true(back[0] == 0 && back[1] == 7);
  static const int64_t others[][2] = {{0, 4}, {252, 8}, {256, 64}, {FAR - 4, 4}, {FAR + 4 * LARGE, 4}};
  for (int i = 0; i < 5; i++) {
    error = (Error){0};
    assert_null(reader.at(reader.context, 0, others[i][0], others[i][1], &error));
    expect_words(error.text, "are not among those that were copied");
  }
  CheckpointFacts facts = {.step = 1, .val_loss = NAN};
  Buffer tuning = {0};
  char path[IO_PATH_MAX];
  assert_true(checkpoint_save_from(NULL, &reader, &tuning, world->directory, &facts, NULL, &error));
  path_in(world, path, "step-00000001");
  assert_true(checkpoint_load(&session, path, true, &facts, &error));
  snapshot_destroy(snapshot);
  assert_int_equal(pinned, 0);
  snapshot_destroy(NULL);
  session_close(&session);
}

// --- what is kept, and what is put aside ---

static void test_later_ones_stay(void **state) {
  World *world = *state;
  Session session;
  char path[IO_PATH_MAX], name[64];
  bool found;
  Error error = {0};
  Buffer notes = {0};
  assert_true(session_open(&session, toy_plan(world->arena, "text", 4, 8, 1, false), &toy_backend, 1, &error));
  const CheckpointKeep one = {.newest = 1};
  for (int i = 0; i < 4; i++) {
    CheckpointFacts facts = {.step = (int[]){1, 2, 3, 2}[i], .val_loss = NAN};
    assert_true(checkpoint_save(NULL, &session, world->directory, &facts, i == 3 ? &one : NULL, &error));
  }
  // A run that went on from step 1 has come to step 2: step 3 is what it will come to.
  assert_true(there(world, "step-00000003") && there(world, "step-00000002") && !there(world, "step-00000001"));
  // Where there is no name left, a damaged one stays where it is.
  for (int i = 0; i < 100; i++) {
    snprintf(name, sizeof name, i ? "damaged-00000003-%d/inside" : "damaged-00000003/inside", i);
    path_in(world, path, name);
    assert_true(io_make_path(path, &error));
  }
  path_in(world, path, "step-00000003/model.safetensors");
  assert_int_equal(truncate(path, 100), 0);
  CheckpointFacts facts;
  assert_true(checkpoint_resume(&session, world->directory, path, &found, &facts, &notes, &error));
  assert_true(found && facts.step == 2 && there(world, "step-00000003"));
  expect_words(notes.text, "it stays where it is, ");
  buffer_free(&notes);
  session_close(&session);
}

// --- frozen parameters ---

static void test_what_was_frozen(void **state) {
  (void)state;
  static const float narrow[] = {1, 2.5f, -3};
  static const double wide[] = {1, 2.5, -3}, other[] = {1, 2.5, -4};
  static const uint16_t half[] = {0, 0, 0};
  const FrozenTensor of_f32 = {.hash = XXH3_64bits(narrow, sizeof narrow)};
  const FrozenTensor of_f64 = {.hash = XXH3_64bits(wide, sizeof wide)};
  assert_true(frozen_is(&of_f32, TYPE_F32, TYPE_F32, narrow, 3));
  assert_true(frozen_is(&of_f64, TYPE_F64, TYPE_F64, wide, 3));
  assert_false(frozen_is(&of_f64, TYPE_F64, TYPE_F64, other, 3));
  assert_true(frozen_is(&of_f32, TYPE_F32, TYPE_F64, wide, 3));
  assert_false(frozen_is(&of_f32, TYPE_F32, TYPE_F64, other, 3));
  assert_true(frozen_is(&of_f32, TYPE_F32, TYPE_BF16, half, 3));  // nobody can say
}

// --- plans of GPUs, and of several ranks ---

static void test_plans_of_others(void **state) {
  World *world = *state;
  Error error = {0};
  const char *why = NULL;
  char run[IO_PATH_MAX], path[IO_PATH_MAX];
  Plan *plan = toy_plan(world->arena, world->text, 8, 16, 2, false);
  const PlanSet set = {1, &plan};
  Restored restored = {0};
  const RestoreOptions trusted = {.threads = 1, .program = PROGRAM_GENERATE, .trust = true},
                       generate = {.threads = 1, .program = PROGRAM_GENERATE};
  if (!trained(world, plan, 1, false, &error)) {
    fail_msg("%s", error.text);
  }
  targets_set(world->arena, plan);
  path_in(world, run, "run");
  path_in(world, path, "run/plan.mdlx");
  if (!artefact_write(world->arena, &set, path, &why)) {
    fail_msg("%s", why);
  }
  assert_true(restore_open(&restored, run, &toy_backend, &trusted, &error));
  assert_string_equal(restored.whole, "the plan's kernels were compiled ahead of time");
  restore_close(&restored);
  assert_true(restore_open(&restored, run, &toy_backend, &generate, &error));  // its code is left out
  expect_words(restored.whole, "does not compile for one rank");
  restore_close(&restored);
  plan->target_count = 0;
  plan->mesh_count = 1;
  plan->mesh[0] = (PlanMesh){"dp", 2};
  if (!artefact_write(world->arena, &set, path, &why)) {
    fail_msg("%s", why);
  }
  assert_false(restore_open(&restored, run, &toy_backend, &generate, &error));
  expect_words(error.text, "does not compile for one rank");
  restore_close(&restored);
  const RestoreOptions evaluate = {.threads = 1, .program = PROGRAM_EVALUATE};
  assert_false(restore_open(&restored, run, &toy_backend, &evaluate, &error));
  expect_words(error.text, "does not compile for one rank");
  restore_close(&restored);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_first_version, world_open, world_close),
      cmocka_unit_test_setup_teardown(test_other_precision, world_open, world_close),
      cmocka_unit_test_setup_teardown(test_copies, world_open, world_close),
      cmocka_unit_test_setup_teardown(test_later_ones_stay, world_open, world_close),
      cmocka_unit_test(test_what_was_frozen),
      cmocka_unit_test_setup_teardown(test_plans_of_others, world_open, world_close),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
