// verify_run.c: what a plan says about its run, and the names in it that become paths, JSON and words on a screen.
#include <math.h>

#include "compiler/plan/check.h"

static bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// A word of the language, which may end in primes; with `dots` several of them, or numbers, with dots between:
// layers.3.q'.w.
static bool is_name(const char *text, bool dots) {
  bool begins = true, ends = false;  // a word
  for (const char *c = text; *c; c++) {
    if (dots && *c == '.' && !begins) {
      begins = true;
      ends = false;
    } else if (*c == '\'' && !begins) {
      ends = true;
    } else if (!ends && (is_letter(*c) || (is_digit(*c) && (dots || !begins)))) {
      begins = false;
    } else {
      return false;
    }
  }
  return !begins;
}

static bool check_name(PlanCheck *v, const char *what, const char *text, bool dots) {
  v->what = what;
  return !text || is_name(text, dots) ||
         check_fail(v, "is no name: names have letters, digits and _, and primes at their ends");
}

// Phrases such as `bf16 until 3, then fp8_hybrid`, and axes such as embed', may be anything that can be printed.
static bool check_phrase(PlanCheck *v, const char *what, const char *text) {
  for (const char *c = text ? text : ""; *c; c++) {
    if (*c < ' ' || *c > '~') {
      v->what = what;
      return check_fail(v, "cannot be printed");
    }
  }
  return true;
}

// Words that are shown, in any script.
static bool check_path(PlanCheck *v, const char *what, const char *text) {
  for (const char *c = text ? text : ""; *c; c++) {
    if ((uint8_t)*c < ' ' || *c == 0x7f) {
      v->what = what;
      return check_fail(v, "cannot be printed");
    }
  }
  return true;
}

static bool axes_hold(PlanCheck *v, int count, const char *const *axis) {
  bool good = true;
  for (int i = 0; good && i < count; i++) {
    good = check_phrase(v, "the name of an axis", axis[i]);
  }
  return good;
}

bool check_names(PlanCheck *v) {
  const Plan *plan = v->plan;
  const PlanRun *run = &plan->run;
  bool good = check_name(v, "model", run->model, false) && check_name(v, "recipe", run->recipe, false) &&
              check_name(v, "layout", run->layout, false) && check_phrase(v, "precision", run->precision) &&
              check_phrase(v, "optimizer", run->optimizer) && check_name(v, "data", run->data_kind, false) &&
              check_path(v, "tokenizer", run->tokenizer);
  for (int i = 0; good && i < plan->mesh_count; i++) {
    good = check_name(v, "a mesh axis", plan->mesh[i].name, false);
  }
  for (int i = 0; good && i < plan->phase_count && i < PLAN_MAX_PHASES; i++) {
    good = check_name(v, "precision", plan->phases[i].precision, false);
  }
  for (int i = 0; good && i < plan->state_count; i++) {
    const PlanState *state = &plan->states[i];
    good = check_name(v, "a state", state->name, true) && axes_hold(v, state->axis_count, state->axis);
  }
  for (int p = 0; p < PROGRAM_COUNT; p++) {
    const PlanProgram *program = &plan->programs[p];
    for (int i = 0; good && i < program->input_count; i++) {
      const PlanInput *input = &program->inputs[i];
      good = check_name(v, "an input", input->name, true) && axes_hold(v, input->axis_count, input->axis);
    }
    for (int i = 0; good && i < program->output_count; i++) {
      const PlanOutput *output = &program->outputs[i];
      good = check_name(v, "an output", output->name, true) && axes_hold(v, output->axis_count, output->axis);
    }
  }
  return good;
}

// Rising, apart, and from 1 on.
static bool skip_holds(PlanCheck *v, const PlanRun *run) {
  int64_t end = 1;
  for (int i = 0; i < run->skip_count; i++) {
    const PlanRange *skip = &run->skip[i];
    if (skip->first < end || skip->first > PLAN_MOST_STEPS || skip->count < 1 || skip->count > PLAN_MOST_STEPS) {
      return check_fail(v, "passes over batches that do not follow each other");
    }
    end = skip->first + skip->count;
  }
  return true;
}

bool check_run(PlanCheck *v) {
  const PlanRun *run = &v->plan->run;
  const int slots = v->plan->programs[PROGRAM_TRAIN].slots;
  const int64_t counts[] = {run->steps, run->eval_every, run->save_every, run->log_every, run->eval_batches};
  v->what = "run";
  if (v->plan->real != TYPE_F32 && v->plan->real != TYPE_F64) {
    return check_fail(v, "computes in neither f32 nor f64");
  }
  if (!(run->validation_fraction >= 0 && run->validation_fraction < 1)) {
    return check_fail(v, "keeps all of its data for validation, or a part that is none");
  }
  if (!isfinite(run->parameters) || run->parameters < 0) {
    return check_fail(v, "has an impossible number of parameters");
  }
  for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
    if (counts[i] < 0 || counts[i] > PLAN_MOST_STEPS) {
      return check_fail(v, "has a count of steps or batches that nothing can reach");
    }
  }
  const int64_t batch[] = {run->batch, run->sequence};
  int64_t tokens = 1;
  if (run->batch < 0 || run->sequence < 0 || !product_fits(batch, 2, &tokens) ||
      run->eval_batches > PLAN_MOST_BYTES / (slots > 0 ? slots : 1)) {
    return check_fail(v, "has an impossible batch");
  }
  return skip_holds(v, run);
}
