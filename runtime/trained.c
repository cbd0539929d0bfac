// trained.c: fingerprints of data, with the share of it that was not held out.
#include "runtime/trained.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "runtime/convert/model_text.h"
#include "runtime/evaluate.h"

enum { WINDOWS_LOOKED_AT = 64 };

static const double SAME_SHARE = 1e-9;  // shares come as fractions of a recipe, and differ by less where they are one

void trained_add(Trained *trained, const TrainedOn *on) {
  for (int i = 0; i < trained->count; i++) {
    TrainedOn *at = &trained->at[i];
    if (at->data == on->data && at->tokens == on->tokens && at->tokenizer == on->tokenizer) {
      at->share = fmax(at->share, on->share);
      return;
    }
  }
  if (trained->count == TRAINED_MOST) {
    memmove(trained->at, trained->at + 1, sizeof *trained->at * (TRAINED_MOST - 1));
    trained->count--;
  }
  trained->at[trained->count++] = *on;
}

void trained_otherwise(Trained *trained, uint64_t data) {
  for (int i = 0; i < trained->count; i++) {
    if (trained->at[i].data == data && trained->at[i].tokens == 0) {
      trained->at[i].tokens = TRAINED_OTHERWISE;
    }
  }
}

double trained_share(const Trained *trained, uint64_t data) {
  double share = 0;
  for (int i = 0; i < trained->count; i++) {
    share = trained->at[i].data == data ? fmax(share, trained->at[i].share) : share;
  }
  return share;
}

// Was some of what is behind `part` of the data trained on, or can that not be known?
static bool trained_behind(const Trained *trained, const DataPrint *print, double part) {
  bool behind = false;
  for (int i = 0; i < trained->count; i++) {
    const TrainedOn *on = &trained->at[i];
    const bool other =
        on->tokens != 0 ? on->tokens != print->tokens : on->tokenizer != 0 && on->tokenizer != print->tokenizer;
    behind |= on->data == print->data && on->share > (other ? 0 : part + SAME_SHARE);
  }
  return behind;
}

static bool word_add(json_t *one, const char *key, uint64_t number) {
  char hash[17];
  snprintf(hash, sizeof hash, "%016llx", (unsigned long long)number);
  return number == 0 || json_object_set_new(one, key, json_string(hash)) == 0;
}

json_t *trained_json(const Trained *trained) {
  json_t *all = json_array();
  for (int i = 0; i < trained->count; i++) {
    const TrainedOn *on = &trained->at[i];
    json_t *one = json_object();
    word_add(one, "data_hash", on->data);
    json_object_set_new(one, "share", json_real(on->share));
    word_add(one, "tokens_hash", on->tokens);
    word_add(one, "tokenizer_hash", on->tokenizer);
    json_array_append_new(all, one);
  }
  return all;
}

static bool word_read(const json_t *one, const char *key, uint64_t *number) {
  const char *hash = json_string_value(json_object_get(one, key));
  char *end = NULL;
  *number = hash ? strtoull(hash, &end, 16) : 0;
  return hash && *hash && !*end;
}

bool trained_read(const json_t *value, Trained *trained) {
  *trained = (Trained){0};
  for (size_t i = 0; i < json_array_size(value); i++) {
    const json_t *one = json_array_get(value, i), *share = json_object_get(one, "share");
    TrainedOn on = {.share = json_number_value(share)};
    if (!word_read(one, "data_hash", &on.data) || !json_is_number(share) || !(on.share >= 0 && on.share <= 1) ||
        (json_object_get(one, "tokens_hash") && !word_read(one, "tokens_hash", &on.tokens)) ||
        (json_object_get(one, "tokenizer_hash") && !word_read(one, "tokenizer_hash", &on.tokenizer))) {
      return false;
    }
    trained_add(trained, &on);
  }
  return json_is_array(value);
}

double trained_part(const DataPrint *print, double held_out) {
  return print->validation != 0 ? 1 : 1 - held_out;
}

bool trained_held(const Trained *trained, const Data *data, const DataPrint *print, double part,
                  bool are[DATA_SETS_MOST], Error *error) {
  if (print->validation == 0) {
    are[0] = trained_behind(trained, print, part);
    return true;
  }
  bool others = false;
  for (int i = 0; i < trained->count; i++) {
    others |= trained->at[i].data != print->data;
  }
  for (int i = 0; others && i < data_set_count(data); i++) {
    const char *name;
    DataPrint set;
    if (!data_fingerprint(data_set(data, i, &name), &set, error)) {
      return false;
    }
    are[i] = trained_share(trained, set.data) > 0;
  }
  return true;
}

// What stands in windows may be other than the files are: chats are written as a template says, documents end with a
// separator. Goes on from `words`.
static bool words_add(const Data *set, int64_t sequence, uint64_t *words, Error *error) {
  const DataFacts facts = data_facts(set);
  if (facts.separator >= 0) {
    *words = XXH3_64bits_withSeed(&facts.separator, sizeof facts.separator, *words);
  }
  if (!facts.answers || facts.validation_windows == 0) {
    return true;
  }
  const size_t size = sizeof(int32_t) * (size_t)(sequence + 1);
  const int64_t all = facts.validation_windows, looks = all < WINDOWS_LOOKED_AT ? all : WINDOWS_LOOKED_AT;
  int32_t *tokens = malloc(size);
  bool done = tokens || error_set(error, 3, "no memory");
  for (int64_t i = 0; done && i < looks; i++) {
    int64_t window = all / looks * i;
    const Data *part = data_validation_part(set, &window);
    done = data_validation_window(part, window, tokens, error);
    *words = done ? XXH3_64bits_withSeed(tokens, size, *words) : *words;
  }
  free(tokens);
  return done;
}

bool trained_windows(const Data *data, const DataPrint *print, double held_out, int64_t limit, int64_t rows,
                     int64_t sequence, uint64_t *windows, Error *error) {
  struct {
    uint64_t data, tokenizer;
    double held_out;
    int64_t sequence, count[DATA_SETS_MOST];
  } of = {0};
  uint64_t words = 0;
  of.data = print->validation != 0 ? print->validation : print->data;
  of.tokenizer = print->tokenizer;
  of.held_out = print->validation != 0 ? 0 : held_out;
  of.sequence = sequence;
  for (int i = 0; i < data_set_count(data) && i < DATA_SETS_MOST; i++) {
    const char *name;
    const Data *set = data_set(data, i, &name);
    const int64_t all = data_facts(set).validation_windows;
    of.count[i] = limit > 0 && limit <= all / rows ? limit * rows : all;
    if (!words_add(set, sequence, &words, error)) {
      return false;
    }
  }
  const uint64_t hash = XXH3_64bits_withSeed(&of, sizeof of, words);
  *windows = hash != 0 ? hash : 1;
  return true;
}

bool trained_losses(const PlanSet *set, uint64_t *windows, Error *error) {
  const Plan *plan = set->plans[0];
  const LossUnit unit = evaluate_unit_of(set);
  if (unit == LOSS_NATS) {
    return true;
  }
  Arena *arena = arena_create();
  if (!arena) {
    return error_set(error, 3, "no memory");
  }
  const uint64_t of[] = {(uint64_t)unit, (uint64_t)plan->run.batch, model_text_hash(arena, plan->resolved)};
  *windows = XXH3_64bits_withSeed(of, sizeof of, *windows) | 1;
  arena_destroy(arena);
  return true;
}
