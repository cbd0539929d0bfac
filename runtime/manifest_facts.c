// manifest_facts.c: facts of a checkpoint into its manifest, and from it.
#include "runtime/manifest_facts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static json_t *word(uint64_t number) {
  char text[32];
  snprintf(text, sizeof text, "%016llx", (unsigned long long)number);
  return json_string(text);
}

bool manifest_facts_write(json_t *root, const CheckpointFacts *facts) {
  char seed[32];
  const struct {
    const char *key;
    json_t *value;
  } entries[] = {{"batch", json_integer((json_int_t)facts->batch)},
                 {"tokens", json_integer((json_int_t)facts->tokens)},
                 {"skipped", json_integer((json_int_t)facts->skipped)},
                 {"bad_steps", json_integer((json_int_t)facts->bad_steps)},
                 {"finite", json_boolean(!facts->not_finite[0])},
                 {"not_finite", facts->not_finite[0] ? json_string(facts->not_finite) : NULL},
                 {"val_loss", isfinite(facts->val_loss) ? json_real(facts->val_loss) : NULL},
                 {"kept", facts->kept ? json_true() : NULL},
                 {"keeps_best", facts->keeps_best ? json_true() : NULL},
                 {"seed", (snprintf(seed, sizeof seed, "%llu", (unsigned long long)facts->seed), json_string(seed))},
                 {"program_hash", word(facts->program_hash)},
                 {"text_hash", facts->text_hash ? word(facts->text_hash) : NULL},
                 {"state_hash", word(facts->state_hash)},
                 {"data_bytes", json_integer((json_int_t)facts->data_bytes)},
                 {"data_hash", word(facts->data_hash)},
                 {"tokenizer_hash", word(facts->tokenizer_hash)},
                 {"validation_hash", facts->validation_hash ? word(facts->validation_hash) : NULL},
                 {"trained_on", facts->trained.count > 0 ? trained_json(&facts->trained) : NULL},
                 {"validated_with", facts->validated_with ? word(facts->validated_with) : NULL},
                 {"validated_from", json_integer((json_int_t)facts->validated_from)},
                 {"metrics_bytes", json_integer((json_int_t)facts->metrics_bytes)}};
  bool made = true;
  for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
    made = (!entries[i].value || json_object_set_new(root, entries[i].key, entries[i].value) == 0) && made;
  }
  return made;
}

bool manifest_number(const json_t *root, const char *key, int64_t *value) {
  const json_t *number = json_object_get(root, key);
  *value = (int64_t)json_integer_value(number);
  return json_is_integer(number) && *value >= 0;
}

bool manifest_word(const json_t *root, const char *key, int base, uint64_t *value) {
  const char *text = json_string_value(json_object_get(root, key));
  char *end = NULL;
  *value = text ? strtoull(text, &end, base) : 0;
  return text && *text && *end == '\0';
}

// The same of a fingerprint that need not be there.
static bool manifest_print(const json_t *root, const char *key, uint64_t *value) {
  return !json_object_get(root, key) || manifest_word(root, key, 16, value);
}

// What manifests of before do not say is not known, and no mistake.
static bool manifest_more(const json_t *root, CheckpointFacts *facts) {
  const json_t *loss = json_object_get(root, "val_loss"), *finite = json_object_get(root, "finite");
  const char *odd = json_string_value(json_object_get(root, "not_finite"));
  facts->version = (int64_t)json_integer_value(json_object_get(root, "version"));
  facts->val_loss = json_is_number(loss) ? json_number_value(loss) : NAN;
  facts->keeps_best = json_is_true(json_object_get(root, "keeps_best"));
  if (json_is_false(finite)) {
    snprintf(facts->not_finite, sizeof facts->not_finite, "%s", odd && *odd ? odd : "?");
  }
  facts->kept = json_is_true(json_object_get(root, "kept"));
  facts->spike_losses = json_object_get(json_object_get(root, "tensors"), PLAN_SPIKE_LOSSES) != NULL;
  return (!json_object_get(root, "bad_steps") || manifest_number(root, "bad_steps", &facts->bad_steps)) &&
         manifest_print(root, "text_hash", &facts->text_hash) && manifest_print(root, "data_hash", &facts->data_hash) &&
         manifest_print(root, "tokenizer_hash", &facts->tokenizer_hash) &&
         manifest_print(root, "validation_hash", &facts->validation_hash) &&
         manifest_print(root, "validated_with", &facts->validated_with) &&
         (!json_object_get(root, "validated_from") || manifest_number(root, "validated_from", &facts->validated_from));
}

// Numbers that a run can come to, so that counting on from them does not overflow.
static bool facts_hold(const CheckpointFacts *facts) {
  return facts->step <= PLAN_MOST_STEPS && facts->batch <= 2 * PLAN_MOST_STEPS && facts->skipped <= PLAN_MOST_STEPS &&
         facts->tokens <= INT64_MAX / 2;
}

const char *manifest_facts_read(const json_t *root, CheckpointFacts *facts) {
  bool good =
      manifest_number(root, "step", &facts->step) && manifest_number(root, "tokens", &facts->tokens) &&
      manifest_number(root, "skipped", &facts->skipped) && manifest_number(root, "data_bytes", &facts->data_bytes) &&
      manifest_number(root, "metrics_bytes", &facts->metrics_bytes) && manifest_word(root, "seed", 10, &facts->seed) &&
      manifest_word(root, "program_hash", 16, &facts->program_hash) &&
      manifest_word(root, "state_hash", 16, &facts->state_hash);
  if (!json_object_get(root, "batch")) {  // of before batches could be passed over
    facts->batch = facts->step;
  } else {
    good = good && manifest_number(root, "batch", &facts->batch);
  }
  good = good && manifest_more(root, facts);
  const json_t *trained = json_object_get(root, "trained_on");
  return !good                                                ? "lacks a number"
         : trained && !trained_read(trained, &facts->trained) ? "says of what it was trained on what no run does"
         : !facts_hold(facts) ? "has a step, or a count of batches or tokens, that no run comes to"
                              : NULL;
}
