// trained_of.c: what weights were trained on, by their checkpoint and the text of its run.
#include "runtime/trained_of.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "runtime/convert/changed.h"
#include "runtime/convert/hf_files.h"
#include "runtime/convert/peft.h"
#include "runtime/convert/source.h"
#include "runtime/frozen.h"
#include "runtime/run.h"

enum { TEXT_MOST = 1 << 24 };  // bytes

bool trained_text(const char *text, uint64_t program_hash) {
  size_t length = strlen(text);
  if (XXH3_64bits(text, length) == program_hash) {
    return true;
  }
  for (size_t begin = length; begin > 0;) {  // of the last line
    for (begin--; begin > 0 && text[begin - 1] != '\n';) {
      begin--;
    }
    if (strncmp(text + begin, "// ", 3) != 0) {
      break;
    }
    length = begin;
  }
  return length > 0 && XXH3_64bits(text, length - 1) == program_hash;  // without the empty line before them
}

void trained_of(const CheckpointFacts *facts, const char *text, Trained *trained) {
  for (int i = 0; i < facts->trained.count; i++) {
    TrainedOn on = facts->trained.at[i];
    // Of programs before which data was which tokens is not known, but for the tokenizer of the last.
    on.tokenizer =
        on.tokens == 0 && on.tokenizer == 0 && on.data == facts->data_hash ? facts->tokenizer_hash : on.tokenizer;
    trained_add(trained, &on);
  }
  if (facts->trained.count > 0 || facts->data_hash == 0) {
    return;
  }
  Arena *arena = text && facts->validation_hash == 0 ? arena_create() : NULL;
  const double share = arena ? 1 - text_held_out(arena, text) : 1;
  trained_add(trained, &(TrainedOn){.data = facts->data_hash, .share = share, .tokenizer = facts->tokenizer_hash});
  if (arena) {
    arena_destroy(arena);
  }
}

static bool of_checkpoint(const char *checkpoint, CheckpointFacts *facts, Trained *trained, Error *error) {
  char path[IO_PATH_MAX], *text = NULL;
  size_t size;
  Error unread = {0};
  if (!checkpoint_facts(checkpoint, facts, error)) {
    return false;
  }
  char run[IO_PATH_MAX];
  const bool read = io_path(run, &unread, "%s/../..", checkpoint) && run_own(run, "resolved.mdl", path, &unread) &&
                    io_read_file(path, TEXT_MOST, &text, &size, &unread);
  trained_of(facts, read && trained_text(text, facts->program_hash) ? text : NULL, trained);
  free(text);
  return true;
}

bool trained_of_weights(const char *path, Trained *trained, Error *error) {
  char found[IO_PATH_MAX];
  Error unfound = {0};
  CheckpointFacts facts = {0};
  if (hf_is(path) || peft_is(path)) {
    return true;
  }
  if (!source_find(path, found, error)) {
    return false;
  }
  if (peft_is(found)) {
    return true;
  }
  if (!of_checkpoint(found, &facts, trained, error)) {
    return false;
  }
  Arena *arena = facts.trained.count == 0 ? arena_create() : NULL;  // else it has what its frozen parameters bring
  Frozen *frozen = NULL;
  if (arena && checkpoint_frozen(arena, found, &frozen, &unfound) && frozen &&
      source_find(frozen->from, found, &unfound) && !hf_is(found) && !peft_is(found)) {
    of_checkpoint(found, &facts, trained, &unfound);
  }
  if (arena) {
    arena_destroy(arena);
  }
  return true;
}
