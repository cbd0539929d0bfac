// checkpoint_amend.c: what is known of a checkpoint once it was saved: its manifest is replaced, and nothing else.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/json_guard.h"
#include "runtime/checkpoint.h"
#include "runtime/checkpoint_files.h"

typedef struct {
  const json_t *root;
  const CheckpointLoss *loss;
  char *text;  // NULL: no memory
} Amending;

static bool word_set(json_t *root, const char *key, uint64_t number) {
  char text[17];
  snprintf(text, sizeof text, "%016llx", (unsigned long long)number);
  return json_object_set_new(root, key, json_string(text)) == 0;
}

// The loss stands where saving writes it.
static json_t *with_loss(const json_t *manifest, double val_loss) {
  json_t *root = json_object(), *value;
  const char *key;
  bool made = root != NULL;
  json_object_foreach((json_t *)manifest, key, value) {
    made = made && (strcmp(key, "seed") != 0 || json_object_set_new(root, "val_loss", json_real(val_loss)) == 0) &&
           json_object_set_new(root, key, json_deep_copy(value)) == 0;
  }
  return made ? root : NULL;
}

// On a copy: work that memory is missing for leaves what was there as it was.
static void amend_work(void *context) {
  Amending *amending = context;
  const CheckpointLoss *loss = amending->loss;
  const bool hashed = json_object_get(amending->root, CHECKPOINT_MANIFEST_HASH) != NULL;
  char hash[17];
  json_t *root = with_loss(amending->root, loss->val_loss);
  bool made = root &&
              json_object_set_new(root, "validated_from", json_integer((json_int_t)loss->validated_from)) == 0 &&
              (loss->validated_with == 0 || word_set(root, "validated_with", loss->validated_with));
  if (made && hashed) {
    made = checkpoint_manifest_hash_within(root, hash) &&
           json_object_set_new(root, CHECKPOINT_MANIFEST_HASH, json_string(hash)) == 0;
  }
  amending->text = made ? json_dumped(root, JSON_INDENT(1)) : NULL;
  json_decref(root);
}

bool checkpoint_amend(Io *io, const char *path, const CheckpointLoss *loss, bool *amended, Error *error) {
  json_t *root;
  CheckpointFacts facts;
  char file[IO_PATH_MAX];
  *amended = false;
  if (!io_path(file, error, "%s/manifest.json", path) || !checkpoint_facts(path, &facts, error)) {
    return false;
  }
  if (!isfinite(loss->val_loss) || !isnan(facts.val_loss)) {
    return true;
  }
  if (!checkpoint_manifest(path, &root, error)) {
    return false;
  }
  Amending amending = {.root = root, .loss = loss};
  Buffer text = {0};
  bool done = (json_guarded(amend_work, &amending) && amending.text) || error_set(error, 3, "no memory for %s", file);
  json_decref(root);
  if (done) {
    buffer_format(&text, "%s\n", amending.text);
    json_guard_free(amending.text);
    done = io_replace_text(io, file, &text, error) && io_sync_directory(io, path, error);
  }
  *amended = done;
  return done;
}
