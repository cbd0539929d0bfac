// export_peft.c: chooses the tensors of PEFT that a checkpoint's adapters become, and makes their configuration.
#include "runtime/convert/export_peft.h"

#include <stdlib.h>
#include <string.h>

#include "compiler/plan/artefact.h"
#include "runtime/convert/adapters.h"
#include "runtime/convert/peft.h"
#include "runtime/run.h"

typedef struct {
  Saved *saved;
  const Mapping *model;
  Mapping mapping;
  Pairs all, *kept;
  Error *error;
} Choice;

// PEFT has no place for a parameter that is trained beside adapters.
static bool trained_alone(const Choice *c) {
  char plan[IO_PATH_MAX];
  const char *why;
  if (!run_own(c->saved->run, "plan.mdlx", plan, c->error)) {
    return false;
  }
  const PlanSet *set = artefact_read(c->saved->arena, plan, &why);
  if (!set) {
    return error_set_plan(c->error, why);
  }
  for (int p = 0; p < set->count; p++) {
    for (int i = 0; i < set->plans[p]->state_count; i++) {
      const PlanState *state = &set->plans[p]->states[i];
      if (state->role == STATE_PARAMETER && !state->frozen && !adapter_names(c->model, state->name)) {
        return error_set(c->error, 1,
                         "'%.100s' is trained and no adapter, and a directory of PEFT holds adapters alone; --merge "
                         "--to hf writes the whole model",
                         state->name);
      }
    }
  }
  return true;
}

static bool is_zero(Choice *c, int part, bool *zero) {
  const Weight *weight = &c->saved->weights.at[part];
  const size_t bytes = (size_t)(weight_count(weight) * element_type_bytes(weight->type));
  unsigned char *elements = malloc(bytes + 1);
  const bool done = (elements || error_set(c->error, 3, "no memory to read '%.100s'", weight->name)) &&
                    saved_read(c->saved, weight, elements, c->error);
  *zero = done;
  for (size_t i = 0; *zero && i < bytes; i++) {
    *zero = elements[i] == 0;
  }
  free(elements);
  return done;
}

static bool all_zero(Choice *c, const Pair *pair, bool *zero) {
  bool done = true;
  *zero = true;
  for (int p = 0; done && *zero && p < pair->part_count; p++) {
    done = is_zero(c, pair->part[p], zero);
  }
  return done;
}

// Tensors come in twos, the factors of one module.
static bool choose(Choice *c) {
  Arena *arena = c->saved->arena;
  *c->kept = (Pairs){0};
  for (int i = 0; i < c->all.count; i++) {
    bool second, zero;
    const char *module = peft_module(arena, &c->mapping, c->all.at[i].name, &second);
    if (!second) {
      continue;
    }
    if (!all_zero(c, &c->all.at[i], &zero)) {
      return false;
    }
    for (int j = 0; !zero && j < c->all.count; j++) {
      bool other;
      if (strcmp(peft_module(arena, &c->mapping, c->all.at[j].name, &other), module) == 0) {
        array_push(arena, c->kept, c->all.at[j]);
      }
    }
  }
  if (c->kept->count == 0) {
    *c->kept = c->all;
  }
  return true;
}

static const char *last_word(const char *module) {
  const char *dot = strrchr(module, '.');
  return dot ? dot + 1 : module;
}

static int count_of(const Choice *c, const Pairs *pairs, const char *word) {
  int count = 0;
  for (int i = 0; i < pairs->count; i++) {
    bool second;
    count += strcmp(last_word(peft_module(c->saved->arena, &c->mapping, pairs->at[i].name, &second)), word) == 0;
  }
  return count;
}

// The last word of a module stands for all that end so; where some of these have no adapter, whole names are said.
// NULL: no memory.
static json_t *target_modules(const Choice *c) {
  json_t *names = json_array();
  for (int i = 0; i < c->kept->count; i++) {
    bool second, there = false;
    const char *module = peft_module(c->saved->arena, &c->mapping, c->kept->at[i].name, &second);
    const char *word = last_word(module);
    const char *name = count_of(c, c->kept, word) == count_of(c, &c->all, word) ? word : module;
    size_t n;
    json_t *said;
    json_array_foreach(names, n, said) {
      there |= strcmp(json_string_value(said), name) == 0;
    }
    if (!there && json_array_append_new(names, json_string(name)) != 0) {
      json_decref(names);
      return NULL;
    }
  }
  return names;
}

// Are weights stored as rows in, columns out (Conv1D of GPT-2)? Of the model's lines the first one with an adapter says
// it.
static bool stored_in_out(const Choice *c) {
  const MappingAdapter *names = &c->mapping.adapters.at[0];
  for (int i = 0; i < c->model->tensors.count; i++) {
    const MappingTensor *line = &c->model->tensors.at[i], *in = &c->mapping.tensors.at[0];
    const char *stem;
    size_t length;
    if (pattern_fits(names->into, line->name, &stem, &length) &&
        strcmp(pattern_name(c->saved->arena, names->factor[0], stem, length), in->name) == 0) {
      // The first factor is [rank, what goes in].
      for (int f = 0; f < line->factor_count; f++) {
        if (strcmp(line->factor[f].axis, in->factor[1].axis) == 0) {
          return line->factor[f].dimension == 0;
        }
      }
    }
  }
  return false;
}

// The directory of Hugging Face that training began with, if there was one.
static const char *base_model(const Saved *saved) {
  return saved->frozen && hf_is(saved->frozen->from) ? saved->frozen->from : NULL;
}

bool export_peft(Saved *saved, const Mapping *model, Pairs *pairs, json_t **config, bool *base, Error *error) {
  Choice c = {.saved = saved, .model = model, .kept = pairs, .error = error};
  Arena *arena = saved->arena;
  if (!saved_adapter(saved, model)) {
    return error_set(error, 1, "%s has no adapters that %s names: there is nothing for a directory of PEFT",
                     saved->checkpoint, model->path);
  }
  if (!trained_alone(&c) || !peft_mapping(arena, model, &saved->weights, &c.mapping, error) ||
      !peft_pairs(arena, &c.mapping, model, &saved->numbers, &saved->weights, &c.all, NULL, error) || !choose(&c) ||
      !config_make(arena, &c.mapping, &saved->numbers, NULL, NULL, config, error)) {
    return false;
  }
  const char *from = base_model(saved);
  *base = from != NULL;
  return (json_object_set_new(*config, "target_modules", target_modules(&c)) == 0 &&
          json_object_set_new(*config, "fan_in_fan_out", json_boolean(stored_in_out(&c))) == 0 &&
          json_object_set_new(*config, "base_model_name_or_path", from ? json_string(from) : json_null()) == 0) ||
         error_set(error, 3, "no memory for " PEFT_CONFIG);
}
