// fingerprint.c: hashes of files of data and tokenizers.
#include "runtime/data/fingerprint.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "runtime/data/data_internal.h"
#include "runtime/data/sentence_added.h"
#include "runtime/io.h"

typedef struct {
  int fd;
  const char *path;
  char *piece;
  XXH3_state_t *hash;
} Printing;

static bool range_add(const Printing *printing, int64_t begin, int64_t end, Error *error) {
  for (int64_t at = begin; at < end; at += FINGERPRINT_END) {
    const size_t now = (size_t)(end - at < FINGERPRINT_END ? end - at : FINGERPRINT_END);
    if (!io_read(printing->fd, printing->path, at, printing->piece, now, error)) {
      return false;
    }
    XXH3_64bits_update(printing->hash, printing->piece, now);
  }
  return true;
}

// `whole`: all bytes, however many there are.
static bool file_add(XXH3_state_t *hash, const char *path, bool whole, Error *error) {
  Printing printing = {.path = path, .hash = hash};
  int64_t bytes;
  if (!io_open_sized(path, &printing.fd, &bytes, error)) {
    return false;
  }
  printing.piece = malloc(bytes < FINGERPRINT_END ? (size_t)bytes + 1 : FINGERPRINT_END);
  bool done = printing.piece || error_set(error, 3, "no memory to read %s", path);
  XXH3_64bits_update(hash, &bytes, sizeof bytes);
  if (whole || bytes <= FINGERPRINT_WHOLE) {
    done = done && range_add(&printing, 0, bytes, error);
  } else {
    const int64_t between = (bytes - 2 * FINGERPRINT_END - FINGERPRINT_SAMPLE) / FINGERPRINT_SAMPLES;
    done = done && range_add(&printing, 0, FINGERPRINT_END, error) &&
           range_add(&printing, bytes - FINGERPRINT_END, bytes, error);
    for (int64_t i = 0; done && i < FINGERPRINT_SAMPLES; i++) {
      const int64_t at = FINGERPRINT_END + i * between;
      done = range_add(&printing, at, at + FINGERPRINT_SAMPLE, error);
    }
  }
  free(printing.piece);
  close(printing.fd);
  return done;
}

static bool corpus_add(const Data *data, XXH3_state_t *corpus, Error *error) {
  const int parts = data_parts(data);
  for (int i = 0; i < parts; i++) {
    if (!corpus_add(data_part(data, i), corpus, error)) {
      return false;
    }
  }
  const char *mask = data_mask_path(data);
  return parts > 0 ||
         (file_add(corpus, data_facts(data).path, false, error) && (!mask || file_add(corpus, mask, false, error)));
}

bool fingerprint_file(const char *path, uint64_t *print, Error *error) {
  XXH3_state_t *hash = XXH3_createState();
  bool done = hash || error_set(error, 3, "no memory");
  if (done) {
    XXH3_64bits_reset(hash);
    done = file_add(hash, path, false, error);
    *print = XXH3_64bits_digest(hash) | 1;
  }
  XXH3_freeState(hash);
  return done;
}

// Is it a .model of SentencePiece?
static bool is_model(const char *path, bool *model, Error *error) {
  enum { LOOK = 16 };
  char begin[LOOK];
  size_t length;
  const bool done = io_read_begin(path, begin, LOOK, &length, error);
  *model = done && sentence_looks(begin, length);
  return done;
}

// A file and what it is read with: tokens that files beside it add.
static bool tokenizer_add(XXH3_state_t *hash, const char *path, Error *error) {
  SentenceAdded added = {0};
  Buffer text = {0};
  bool model = false;
  Arena *arena = arena_create();
  bool done = (arena || error_set(error, 3, "no memory to read %s", path)) && file_add(hash, path, true, error) &&
              is_model(path, &model, error) && (!model || sentence_added_read(arena, path, &added, error));
  if (done && added.there) {
    sentence_added_text(&added, &text);
    done = !text.failed || error_set(error, 3, "no memory to read %s", path);
    XXH3_64bits_update(hash, text.text, text.length);
  }
  buffer_free(&text);
  arena_destroy(arena);
  return done;
}

static bool tokenizers_add(const Data *data, XXH3_state_t *tokenizer, Error *error) {
  const int parts = data_parts(data);
  for (int i = 0; i < parts; i++) {
    if (!tokenizers_add(data_part(data, i), tokenizer, error)) {
      return false;
    }
  }
  const char *path = parts > 0 || data_follows(data) ? NULL : data_tokenizer_path(data);  // a pattern has it once
  return !path || tokenizer_add(tokenizer, path, error);
}

// The sources that evaluations read, where the recipe names some.
static bool validation_add(const Data *data, XXH3_state_t *validation, bool *some, Error *error) {
  const char *name;
  for (int i = 0; i < data_set_count(data); i++) {
    const Data *set = data_set(data, i, &name);
    if (set == data) {
      continue;
    }
    *some = true;
    XXH3_64bits_update(validation, name, strlen(name) + 1);
    if (!corpus_add(set, validation, error)) {
      return false;
    }
  }
  return true;
}

// Tokenizers, templates of chats, names of fields and separators decide where in the text a token is.
static bool samples_add(const Data *data, XXH3_state_t *hash, Error *error) {
  enum { PLACES = 64, LOOK = 16 };
  const int parts = data_parts(data);
  for (int i = 0; i < parts; i++) {
    if (!samples_add(data_part(data, i), hash, error)) {
      return false;
    }
  }
  const int64_t all = data_facts(data).tokens, count = all < LOOK ? all : LOOK;
  int32_t tokens[LOOK];
  XXH3_64bits_update(hash, &all, sizeof all);
  for (int64_t i = 0; parts == 0 && i < PLACES; i++) {
    if (!data_tokens(data, (all - count) * i / PLACES, count, tokens, error)) {
      return false;
    }
    XXH3_64bits_update(hash, tokens, (size_t)count * sizeof *tokens);
  }
  return true;
}

bool data_fingerprint(const Data *data, DataPrint *print, Error *error) {
  XXH3_state_t *corpus = XXH3_createState();
  bool done = corpus || error_set(error, 3, "no memory"), some = false;
  if (done) {
    XXH3_64bits_reset(corpus);
    done = corpus_add(data, corpus, error) && data_fingerprint_tokenizers(data, &print->tokenizer, error);
  }
  if (done) {
    print->data = XXH3_64bits_digest(corpus) | 1;
    XXH3_64bits_reset(corpus);
    done = samples_add(data, corpus, error);
    print->tokens = XXH3_64bits_digest(corpus) | 1;
  }
  if (done) {
    XXH3_64bits_reset(corpus);
    done = validation_add(data, corpus, &some, error);
    print->validation = some ? XXH3_64bits_digest(corpus) | 1 : 0;
  }
  XXH3_freeState(corpus);
  return done;
}

// Of the data's, or of the one at a path.
static bool print_tokenizer(const Data *data, const char *path, uint64_t *print, Error *error) {
  XXH3_state_t *tokenizer = XXH3_createState();
  bool done = tokenizer || error_set(error, 3, "no memory");
  if (done) {
    XXH3_64bits_reset(tokenizer);
    done = data ? tokenizers_add(data, tokenizer, error) : !path || tokenizer_add(tokenizer, path, error);
    *print = XXH3_64bits_digest(tokenizer) | 1;
  }
  XXH3_freeState(tokenizer);
  return done;
}

bool data_fingerprint_tokenizers(const Data *data, uint64_t *print, Error *error) {
  return print_tokenizer(data, NULL, print, error);
}

bool fingerprint_tokenizer(const char *path, uint64_t *print, Error *error) {
  return print_tokenizer(NULL, path, print, error);
}

bool fingerprint_has_tokenizer(uint64_t print, const char *path, bool *has, Error *error) {
  enum { SOURCES = 32 };  // of a mix, at most
  XXH3_state_t *tokenizer = XXH3_createState();
  bool done = tokenizer || error_set(error, 3, "no memory");
  *has = false;
  if (done) {
    XXH3_64bits_reset(tokenizer);
  }
  for (int i = 0; i < (path ? SOURCES : 1) && done && !*has; i++) {
    done = !path || tokenizer_add(tokenizer, path, error);
    *has = done && (XXH3_64bits_digest(tokenizer) | 1) == print;
  }
  XXH3_freeState(tokenizer);
  return done;
}
