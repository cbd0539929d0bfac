// constants.c: compares what two texts say in numbers: the weights alone do not show it.
#include "runtime/convert/constants.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/convert/source.h"
#include "runtime/run.h"

enum { TEXT_MAX = 64 << 20 };

typedef struct {
  Arena *arena;
  const ConstantsTaker *taker;
  ModelNumbers there;
  ARRAY(const char *) scaling;  // constants that scales of adapters are made of
} Comparison;

static void scaling_add(void *context, const char *name) {
  Comparison *c = context;
  array_push(c->arena, &c->scaling, name);
}

static bool is_scaling(const Comparison *c, const char *name) {
  for (int i = 0; i < c->scaling.count; i++) {
    if (strcmp(c->scaling.at[i], name) == 0) {
      return true;
    }
  }
  return false;
}

static bool differ(double a, double b) {
  return !(a == b || (isfinite(a) && isfinite(b) && fabs(a - b) <= 1e-12 * fmax(fabs(a), fabs(b))));
}

// Is this the size of an axis that training chooses, there and here, such as `key` beside `seq`?
static bool is_of_training(const Comparison *c, const ModelNumber *there, const ModelNumber *here) {
  static const char *const chosen[] = {"batch", "seq"};
  for (int i = 0; i < 2; i++) {
    const ModelNumber *a = model_number(&c->there, chosen[i]), *b = model_number(c->taker->numbers, chosen[i]);
    if (a && b && a->value == there->value && b->value == here->value) {
      return true;
    }
  }
  return false;
}

static bool weights_have(const Weights *weights, const char *axis) {
  for (int w = 0; w < weights->count; w++) {
    for (int a = 0; a < weights->at[w].axis_count; a++) {
      if (strcmp(weights->at[w].axis[a], axis) == 0) {
        return true;
      }
    }
  }
  return false;
}

static void others_compare(const Comparison *c, Unfit *others) {
  for (int i = 0; i < c->there.count; i++) {
    const ModelNumber *there = &c->there.at[i], *here = model_number(c->taker->numbers, there->name);
    if (!here || here->axis != there->axis || !differ(there->value, here->value) || is_scaling(c, there->name) ||
        (there->axis && (is_of_training(c, there, here) || weights_have(c->taker->weights, there->name)))) {
      continue;
    }
    unfit_add(others, "%.80s is %.10g there, %.10g here", there->name, there->value, here->value);
  }
}

// A scale that either text cannot say, since it has no such constants, is compared with nothing.
static void scale_compare(const Comparison *c, const char *formula, Unfit *scales) {
  Value there, here;
  Error ignored = {0};
  const char *wanted = "";
  if (!config_number(c->arena, c->taker->mapping, formula, &c->there, &there, &ignored) ||
      !config_number(c->arena, c->taker->mapping, formula, c->taker->numbers, &here, &ignored) ||
      there.kind != VALUE_NUMBER || here.kind != VALUE_NUMBER || !differ(there.number, here.number)) {
    return;
  }
  for (int i = 0; i < c->there.count; i++) {
    const ModelNumber *was = &c->there.at[i], *is = model_number(c->taker->numbers, was->name);
    if (is_scaling(c, was->name) && is && differ(was->value, is->value)) {
      wanted = arena_format(c->arena, "%s%s--set %.80s=%.10g", wanted, *wanted ? " " : "", was->name, was->value);
    }
  }
  unfit_add(
      scales,
      "its adapters were trained with %.80s = %.10g, which is %.10g in the model: %s makes it the same, --partial "
      "goes on as it is",
      formula, there.number, here.number, wanted);
}

bool constants_compare(Arena *arena, const Layer *layer, const ConstantsTaker *taker, Unfit *scales, Unfit *others,
                       Error *error) {
  Comparison c = {.arena = arena, .taker = taker};
  char path[IO_PATH_MAX], *text = NULL;
  size_t size;
  Error why = {0};
  const int lines = taker->mapping ? taker->mapping->adapters.count : 0;
  char run[IO_PATH_MAX];
  if (!io_path(run, error, "%s/../..", layer->path) || !run_own(run, "resolved.mdl", path, error)) {
    return false;
  }
  if (io_absent(path)) {  // a checkpoint by itself
    return true;
  }
  const bool read = io_read_file(path, TEXT_MAX, &text, &size, &why) && numbers_of_text(arena, text, &c.there, &why);
  free(text);
  if (!read) {
    unfit_add(others, "they cannot be compared with those of %.200s: %.200s", path, why.text);
    return why.status != 3 || error_set(error, 3, "%s", why.text);
  }
  for (int i = 0; i < lines; i++) {
    const char *formula = taker->mapping->adapters.at[i].scale;
    if (formula) {
      formula_names(arena, formula, scaling_add, &c);
    }
  }
  for (int i = 0; i < (taker->mapping ? taker->mapping->merged.count : 0); i++) {
    scaling_add(&c, taker->mapping->merged.at[i].name);
  }
  for (int i = 0; taker->adapters && i < lines; i++) {
    const char *formula = taker->mapping->adapters.at[i].scale;
    bool known = !formula;
    for (int j = 0; j < i && !known; j++) {
      const char *before = taker->mapping->adapters.at[j].scale;
      known = before && strcmp(before, formula) == 0;
    }
    if (!known) {
      scale_compare(&c, formula, scales);
    }
  }
  others_compare(&c, others);
  return true;
}

void constants_changed(Arena *arena, const char *before, const char *now, Unfit *changed) {
  ModelNumbers was, is;
  Error ignored = {0};
  if (!numbers_of_text(arena, before, &was, &ignored) || !numbers_of_text(arena, now, &is, &ignored)) {
    return;
  }
  for (int i = 0; i < was.count; i++) {
    const ModelNumber *other = model_number(&is, was.at[i].name);
    if (other && differ(was.at[i].value, other->value)) {
      unfit_add(changed, "%.80s was %.10g and is %.10g", was.at[i].name, was.at[i].value, other->value);
    }
  }
}
