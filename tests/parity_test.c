// parity_test.c: ten steps of a tiny GPT-2, Llama and BLOOM against PyTorch: losses, gradients, norms, weights at the
// end.
//
// The figures in tests/parity/*.safetensors come from tests/parity/make.py, which says what they are.
#include <math.h>
#include <stdio.h>

#include "runtime/element.h"
#include "runtime/safetensors.h"
#include "tests/plan_run.h"

enum { PARITY_STEPS = 10 };

typedef struct {
  const char *name;
  Safetensors *file;
  Arena *arena;
  double worst_loss, worst_gradient, worst_weights;  // errors as shares of what is allowed
} Parity;

static Parity parity_open(const char *name) {
  Parity parity = {.name = name, .arena = arena_create()};
  Error error = {0};
  const char *path = arena_format(parity.arena, "%s/tests/parity/%s.safetensors", MDL_SOURCE_DIR, name);
  must(safetensors_open(path, &parity.file, &error), path, &error);
  return parity;
}

static void parity_close(Parity *parity) {
  safetensors_close(parity->file);
  arena_destroy(parity->arena);
}

// A tensor of the file as doubles; *count its elements.
static double *figures(Parity *parity, int64_t *count, const char *format, ...) {
  char name[256];
  va_list list;
  va_start(list, format);
  vsnprintf(name, sizeof name, format, list);
  va_end(list);
  const SafetensorsTensor *tensor = safetensors_find(parity->file, name);
  if (!tensor) {
    fail_msg("%s.safetensors has no '%s': run tests/parity/make.py", parity->name, name);
  }
  Error error = {0};
  int64_t elements = elements_of(tensor->size, tensor->axis_count);
  char *bytes = ARENA_ARRAY(parity->arena, char, tensor->end - tensor->begin + 1);
  must(safetensors_read(parity->file, tensor, bytes, &error), name, &error);
  double *out = ARENA_ARRAY(parity->arena, double, elements + 1);
  const ElementType type = strcmp(tensor->dtype, "BF16") == 0  ? TYPE_BF16
                           : strcmp(tensor->dtype, "F64") == 0 ? TYPE_F64
                                                               : TYPE_INT;
  for (int64_t i = 0; i < elements; i++) {
    out[i] = element_get(type, bytes + i * element_type_bytes(type));
  }
  *count = elements;
  return out;
}

static double figure(Parity *parity, const char *name, int at) {
  int64_t count;
  double *all = figures(parity, &count, "%s", name);
  assert_true(at < count);
  return all[at];
}

static double larger(double a, double b) {
  return a > b || isnan(a) ? a : b;
}

// What the run is told and how exact it must be.
typedef struct {
  const char *precision, *layout;
  const char *set;         // or NULL
  double loss, gradient;   // relative; gradients: of the largest element
  double nothing;          // as large as this share of all gradients, an element is 0: the gradient of a key's bias is
  double gradient_factor;  // a mistake put into the gradients that are read
} Case;

static const Case exact = {
    .precision = "fp64", .loss = 1e-10, .gradient = 1e-9, .nothing = 1e-13, .gradient_factor = 1};
static const Case single = {.precision = "fp32", .loss = 1e-5, .gradient = 1e-4, .nothing = 1e-6, .gradient_factor = 1};

static void give_weights(Parity *parity, PlanRunner *runner) {
  for (int i = 0; i < runner->plan->state_count; i++) {
    const PlanState *state = &runner->plan->states[i];
    int64_t count = elements_of(state->size, state->axis_count), found;
    double *data = ARENA_ARRAY(parity->arena, double, count + 1);  // moments begin as zeros
    if (state->role == STATE_PARAMETER) {
      data = figures(parity, &found, "weight.%s", state->name);
      assert_int_equal(found, count);
    }
    runner_set_state(runner, state->name, data);
  }
}

static void compare_gradients(Parity *parity, PlanRunner *runner, const Case *how, int step) {
  double all = figure(parity, "grad_norm", step - 1);
  for (int i = 0; i < runner->plan->state_count; i++) {
    const char *name = runner->plan->states[i].name;
    int64_t count, one;
    if (runner->plan->states[i].role != STATE_PARAMETER) {
      continue;
    }
    double *expected = figures(parity, &count, "gradient.%d.%s", step, name);
    double scale = *figures(parity, &one, "scale.%d.%s", step, name);
    Dense stored = runner_output(runner, PROGRAM_TRAIN, arena_format(runner->arena, "gradient.%s", name));
    Dense found = dense_ordered(runner->arena, &stored, runner->plan->states[i].axis);
    assert_int_equal(found.count, count);
    double allowed = how->gradient * scale * 2147483647.0 + how->nothing * all, worst = 0;
    for (int64_t j = 0; j < count; j++) {
      worst = larger(fabs(found.data[j] * how->gradient_factor - expected[j] * scale), worst);
    }
    parity->worst_gradient = larger(worst / allowed, parity->worst_gradient);
    if (getenv("PARITY_VERBOSE")) {
      printf("%s step %d gradient of %s: error %.1e of %.1e allowed\n", parity->name, step, name, worst, allowed);
    }
  }
}

static void compare_step(Parity *parity, PlanRunner *runner, const Case *how, int step) {
  bool is_single = strcmp(how->precision, "fp32") == 0;
  double expected = figure(parity, is_single ? "loss.f32" : "loss", step - 1);
  double loss = *runner_output(runner, PROGRAM_TRAIN, "loss").data;
  parity->worst_loss = larger(fabs(loss / expected - 1) / how->loss, parity->worst_loss);
  double norm = *runner_output(runner, PROGRAM_TRAIN, "grad_norm").data,
         lr = *runner_output(runner, PROGRAM_TRAIN, "lr").data;
  parity->worst_gradient =
      larger(fabs(norm / figure(parity, "grad_norm", step - 1) - 1) / how->gradient, parity->worst_gradient);
  parity->worst_weights = larger(fabs(lr / figure(parity, "lr", step - 1) - 1) / 1e-6, parity->worst_weights);
  if (step == 1 || step == PARITY_STEPS) {
    compare_gradients(parity, runner, how, step);
  }
  if (getenv("PARITY_VERBOSE")) {
    printf("%s %s step %d: loss %.12f, %.1e off\n", parity->name, how->precision, step, loss, loss / expected - 1);
  }
}

// The gradient of a key's bias is 0 but for rounding, which adamw follows where it leads: its weights say nothing.
static bool has_gradient(Parity *parity, const Case *how, const char *name) {
  int64_t one;
  double largest = *figures(parity, &one, "scale.1.%s", name) * 2147483647.0;
  return largest > how->nothing * figure(parity, "grad_norm", 0);
}

static void compare_weights(Parity *parity, PlanRunner *runner, const Case *how) {
  for (int i = 0; i < runner->plan->state_count; i++) {
    const PlanState *state = &runner->plan->states[i];
    if (state->role == STATE_PARAMETER && has_gradient(parity, how, state->name)) {
      Dense now = runner_state(runner, state->name);
      int64_t one;
      double squares = 0, expected = *figures(parity, &one, "norm.%s", state->name);
      for (int64_t j = 0; j < now.count; j++) {
        squares += now.data[j] * now.data[j];
      }
      parity->worst_weights = larger(fabs(sqrt(squares) / expected - 1) / how->gradient, parity->worst_weights);
    }
  }
}

static void train_beside(Parity *parity, const Case *how) {
  const char *file = arena_format(parity->arena, "%s/tests/parity/%s.mdl", MDL_SOURCE_DIR, parity->name);
  CompileOptions options = {.file = file,
                            .recipe = "parity",
                            .precision = how->precision,
                            .layout = how->layout,
                            .set = &how->set,
                            .set_count = how->set ? 1 : 0,
                            .gradients = true,
                            .program = PROGRAM_TRAIN};
  PlanRunner runner = runner_open(&options);
  int64_t count;
  double *tokens = figures(parity, &count, "tokens"), *targets = figures(parity, &count, "targets");
  give_weights(parity, &runner);
  for (int step = 1; step <= PARITY_STEPS; step++) {
    double number = step;
    int64_t at = count / PARITY_STEPS * (step - 1);
    runner_set_input(&runner, PROGRAM_TRAIN, "tokens", tokens + at);
    runner_set_input(&runner, PROGRAM_TRAIN, "targets", targets + at);
    runner_set_input(&runner, PROGRAM_TRAIN, "step", &number);
    runner_run(&runner, PROGRAM_TRAIN);
    compare_step(parity, &runner, how, step);
  }
  compare_weights(parity, &runner, how);
  runner_close(&runner);
}

static void expect_parity(const char *name, const Case *how) {
  Parity parity = parity_open(name);
  train_beside(&parity, how);
  if (!(parity.worst_loss <= 1 && parity.worst_gradient <= 1 && parity.worst_weights <= 1)) {
    fail_msg("%s in %s: %.3g times the allowed error in losses, %.3g in gradients, %.3g in weights", name,
             how->precision, parity.worst_loss, parity.worst_gradient, parity.worst_weights);
  }
  parity_close(&parity);
}

// A mistake must show in the losses (or, if it is one of reading gradients, there).
static void expect_difference(const char *name, Case how, const char *mistake) {
  Parity parity = parity_open(name);
  train_beside(&parity, &how);
  bool seen = how.gradient_factor != 1 ? parity.worst_gradient > 1 : parity.worst_loss > 1 && parity.worst_gradient > 1;
  if (!seen) {
    fail_msg("%s in %s: %s is not seen", name, how.precision, mistake);
  }
  parity_close(&parity);
}

static void test_gpt2_fp64(void **state) {
  (void)state;
  expect_parity("gpt2", &exact);
}

static void test_gpt2_fp32(void **state) {
  (void)state;
  expect_parity("gpt2", &single);
}

static void test_llama_fp64(void **state) {
  (void)state;
  expect_parity("llama", &exact);
}

static void test_llama_fp32(void **state) {
  (void)state;
  expect_parity("llama", &single);
}

static void test_bloom(void **state) {
  (void)state;
  expect_parity("bloom", &exact);
  expect_parity("bloom", &single);
}

static void test_microbatches(void **state) {
  (void)state;
  Case how = exact;
  how.layout = "microbatches4";
  expect_parity("llama", &how);
  expect_parity("gpt2", &how);
}

static void test_mistakes_are_seen(void **state) {
  (void)state;
  Case eps = single, theta = single, twice = single, slightly = exact, z = exact;
  eps.set = "eps=1e-3";
  theta.set = "theta=5000";
  z.set = "z_weight=0.0";
  twice.gradient_factor = 2;
  slightly.gradient_factor = 1 + 1e-8;
  expect_difference("llama", eps, "a wrong epsilon");
  expect_difference("llama", theta, "a wrong theta");
  expect_difference("llama", z, "a missing z-loss");
  expect_difference("llama", twice, "a gradient that is counted twice");
  expect_difference("gpt2", twice, "a gradient that is counted twice");
  expect_difference("gpt2", slightly, "a gradient that is 1e-8 too large");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_gpt2_fp64),         cmocka_unit_test(test_gpt2_fp32),    cmocka_unit_test(test_llama_fp64),
      cmocka_unit_test(test_llama_fp32),        cmocka_unit_test(test_microbatches), cmocka_unit_test(test_bloom),
      cmocka_unit_test(test_mistakes_are_seen),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
