// fit_test.c: layouts that would make a plan fit: what is proposed does, and is written as a user writes it.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "compiler/compile.h"
#include "compiler/fit.h"

static const char text[] =
    "import \"" MDL_SOURCE_DIR
    "/models/gpt2.mdl\";\n"
    "recipe small {\n  model gpt2(vocab = 256, places = 64, embed = 64, layers = 6, heads = 2);\n"
    "  data text(\"" MDL_SOURCE_DIR
    "/LICENSE\", tokenizer = bytes);\n  batch = 16;\n  seq = 64;\n  optimizer adamw(lr = 1e-3);\n}\n"
    "layout plain {}\nlayout parts { microbatches = 4; }\nlayout two { mesh tp = 2; heads, ffn -> tp; microbatches = "
    "2; }\n";

typedef struct {
  Arena *arena;
  char path[64];
} World;

static World world_make(const char *more) {
  World world = {.arena = arena_create(), .path = "/tmp/mdl-fit-test-XXXXXX"};
  const int file = mkstemp(world.path);
  assert_true(file >= 0);
  FILE *out = fdopen(file, "w");
  fprintf(out, "%s%s\n", text, more);
  assert_int_equal(fclose(out), 0);
  return world;
}

static void world_end(World *world) {
  unlink(world->path);
  arena_destroy(world->arena);
}

// recipe: NULL, the only one. layout: NULL, the recipe's.
static const Plan *plan_of(const World *world, const char *recipe, const char *layout) {
  PlanSet *set;
  Diag *diag = diag_create(world->arena);
  const CompileOptions options = {.file = world->path, .recipe = recipe, .layout = layout};
  if (!compile_plans(world->arena, diag, &options, &set)) {
    diag_print(diag, stderr, false);
    fail();
  }
  return set->plans[0];
}

static const Plan *plan_with(const World *world, const char *layout) {
  return plan_of(world, NULL, layout);
}

static int64_t bytes_of(const Plan *plan, int64_t staged) {
  int64_t bytes = staged * plan_inputs_end(plan);
  for (int i = 0; i < ARENA_CLASS_COUNT; i++) {
    bytes += i == ARENA_OFFLOAD ? 0 : plan->arena_bytes[i];
  }
  return bytes;
}

// With `most` bytes, `expected` is proposed for a layout, and takes what the layout `same` takes, which is so written.
static void proposes(const World *world, const char *layout, int64_t most, const char *expected, const char *same) {
  const FitRoom room = {.staged = 2, .most = most};
  int64_t bytes = 0;
  const char *settings = fit_find(world->arena, plan_with(world, layout), &room, &bytes);
  if (!settings || !expected) {
    assert_ptr_equal(settings, expected);
    return;
  }
  assert_string_equal(settings, expected);
  assert_true(bytes <= most);
  assert_int_equal(bytes, bytes_of(plan_with(world, same), 2));
}

static void what_fits_is_proposed(void **state) {
  (void)state;
  World world = world_make(
      "layout m2 { microbatches = 2; }\nlayout m8 { microbatches = 8; }\nlayout again { recompute layers; }\n"
      "layout both { recompute layers; microbatches = 16; }\nlayout two_m4 { mesh tp = 2; heads, ffn -> tp; "
      "microbatches = 4; }\n");
  const int64_t plain = bytes_of(plan_with(&world, "plain"), 2);
  proposes(&world, NULL, plain - 1, "`microbatches = 2;`", "m2");
  proposes(&world, "plain", plain - 1, "`microbatches = 2;`", "m2");
  proposes(&world, "plain", bytes_of(plan_with(&world, "m8"), 2), "`microbatches = 8;`", "m8");
  proposes(&world, "parts", bytes_of(plan_with(&world, "parts"), 2) - 1, "`microbatches = 8;`", "m8");
  proposes(&world, "two", bytes_of(plan_with(&world, "two"), 2) - 1, "`microbatches = 4;`", "two_m4");
  proposes(&world, "plain", bytes_of(plan_with(&world, "both"), 2), "`recompute layers; microbatches = 16;`", "both");
  proposes(&world, "plain", bytes_of(plan_with(&world, "both"), 2) / 2, NULL, NULL);
  world_end(&world);
}

// What layers begin with is most of what is left of a deep and narrow model.
static void what_is_left_goes_to_the_host(void **state) {
  (void)state;
  World world = world_make(
      "recipe deep {\n  model gpt2(vocab = 16, places = 256, embed = 32, layers = 24, heads = 2);\n"
      "  data text(\"" MDL_SOURCE_DIR
      "/LICENSE\", tokenizer = bytes);\n  batch = 1;\n  seq = 256;\n  optimizer adamw(lr = 1e-3);\n}\n"
      "layout again { recompute layers; }\nlayout all { recompute layers; offload layers; }\n");
  const int64_t most = bytes_of(plan_of(&world, "deep", "all"), 2);
  assert_true(most < bytes_of(plan_of(&world, "deep", "again"), 2));
  const FitRoom room = {.staged = 2, .most = most};
  int64_t bytes = 0;
  const char *settings = fit_find(world.arena, plan_of(&world, "deep", NULL), &room, &bytes);
  assert_non_null(settings);
  assert_string_equal(settings, "`recompute layers; offload layers;`");
  assert_int_equal(bytes, most);
  world_end(&world);
}

// No number of rows divides: nothing but recomputing is left.
static void what_does_not_divide_is_not(void **state) {
  (void)state;
  World world = world_make(
      "recipe odd {\n  model gpt2(vocab = 256, places = 64, embed = 64, layers = 6, heads = 2);\n"
      "  data text(\"" MDL_SOURCE_DIR
      "/LICENSE\", tokenizer = bytes);\n  batch = 15;\n  seq = 64;\n"
      "  optimizer adamw(lr = 1e-3);\n}\nlayout again { recompute layers; }\n");
  const Plan *plan = plan_of(&world, "odd", NULL);
  const FitRoom room = {.staged = 0, .most = bytes_of(plan, 0) - 1};
  int64_t bytes = 0;
  const char *settings = fit_find(world.arena, plan, &room, &bytes);
  assert_non_null(settings);
  assert_string_equal(settings, "`recompute layers;`");
  world_end(&world);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_fits_is_proposed),
      cmocka_unit_test(what_is_left_goes_to_the_host),
      cmocka_unit_test(what_does_not_divide_is_not),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
