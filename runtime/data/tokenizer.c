// tokenizer.c: opening a tokenizer, and its tables.
#include "runtime/data/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/data/sentence_added.h"
#include "runtime/data/tokenizer_internal.h"
#include "runtime/hub.h"
#include "runtime/io.h"

enum { MOST_BYTES = 256 << 20 };

static const char *const end_names[] = {"<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>", "<|endofdocument|>"};

bool tokenizer_cut(Tokenizer *tokenizer, const char *pattern, size_t length, bool matches, bool between, Error *error) {
  if (tokenizer->cut_count == TOKENIZER_MOST_CUTS) {
    return error_set(error, 1, "%s cuts text in more than %d ways, one behind the other", tokenizer->path,
                     TOKENIZER_MOST_CUTS);
  }
  Cut *cut = &tokenizer->cuts[tokenizer->cut_count];
  *cut = (Cut){.matches = matches, .between = between, .scan = matches ? scan_of(pattern, length) : NULL};
  Error why = {0};
  if (!pattern_create(pattern, length, &cut->pattern, &why)) {
    return error_set(error, why.status, "%s: %s", tokenizer->path, why.text);
  }
  tokenizer->cut_count++;
  return true;
}

static uint64_t merge_pair(int32_t first, int32_t second) {
  return ((uint64_t)(uint32_t)first << 32 | (uint32_t)second) + 1;
}

static size_t merge_slot(const Tokenizer *tokenizer, uint64_t pair) {
  uint64_t hash = pair * 0x9e3779b97f4a7c15u;
  size_t slot = (size_t)(hash ^ hash >> 29) & (tokenizer->merge_capacity - 1);
  while (tokenizer->merges[slot].pair && tokenizer->merges[slot].pair != pair) {
    slot = (slot + 1) & (tokenizer->merge_capacity - 1);
  }
  return slot;
}

void tokenizer_merges_reserve(Tokenizer *tokenizer, size_t count) {
  tokenizer->merge_capacity = 64;
  while (tokenizer->merge_capacity < 2 * count) {
    tokenizer->merge_capacity *= 2;
  }
  tokenizer->merges = ARENA_ARRAY(tokenizer->arena, Merge, tokenizer->merge_capacity);
}

void tokenizer_merge(Tokenizer *tokenizer, int32_t first, int32_t second, int32_t rank, int32_t token) {
  Merge *merge = &tokenizer->merges[merge_slot(tokenizer, merge_pair(first, second))];
  tokenizer->merge_count += merge->pair == 0;
  *merge = (Merge){merge_pair(first, second), rank, token};
}

const Merge *tokenizer_merge_find(const Tokenizer *tokenizer, int32_t first, int32_t second) {
  const Merge *merge = &tokenizer->merges[merge_slot(tokenizer, merge_pair(first, second))];
  return merge->pair ? merge : NULL;
}

// What follows from texts, merges and added tokens.
static void tokenizer_finish(Tokenizer *tokenizer) {
  Arena *arena = tokenizer->arena;
  const int pairs = tokenizer->sentence ? 0 : 1 << 16;
  tokenizer->byte_pairs = ARENA_ARRAY(arena, Merge, pairs);
  for (int pair = 0; pair < pairs; pair++) {
    const int32_t first = tokenizer->byte_token[pair >> 8], second = tokenizer->byte_token[pair & 255];
    const Merge *merge = first >= 0 && second >= 0 ? tokenizer_merge_find(tokenizer, first, second) : NULL;
    tokenizer->byte_pairs[pair] = merge ? *merge : (Merge){.rank = -1};
  }
  tokenizer->words = tokenizer->characters ? tokenizer->words : map_create(arena);
  for (int32_t i = tokenizer->kinds - 1; i >= 0; i--) {
    const TokenText *text = &tokenizer->texts[i];
    tokenizer->longest = text->length > tokenizer->longest ? text->length : tokenizer->longest;
    if (tokenizer->whole && text->bytes && text->length > 0) {
      map_put_bytes(&tokenizer->words, text->bytes, (size_t)text->length, i);
    }
  }
  for (int i = 0; i < tokenizer->added_count; i++) {
    const Added *added = &tokenizer->added[i];
    if (added->form) {
      tokenizer->form_longest =
          added->form_length > tokenizer->form_longest ? added->form_length : tokenizer->form_longest;
      tokenizer->form_first[(uint8_t)added->form[0]] = true;
      tokenizer->form_first[' '] |= tokenizer->characters;  // it may be spelled as a letter
      continue;
    }
    tokenizer->added_left |= added->left;
    tokenizer->added_first[(uint8_t)added->text[0]] = true;
    tokenizer->added_longest = added->length > tokenizer->added_longest ? added->length : tokenizer->added_longest;
  }
  for (size_t i = 0; tokenizer->end < 0 && i < sizeof end_names / sizeof *end_names; i++) {
    tokenizer->end = tokenizer_symbol(tokenizer, end_names[i]);
  }
}

// `beside`: what lies beside the file may add tokens.
static bool tokenizer_make(const char *path, const char *text, size_t length, bool beside, Tokenizer **tokenizer,
                           Error *error) {
  Arena *arena = arena_create();
  if (!arena) {
    return error_set(error, 3, "no memory");
  }
  Tokenizer *made = ARENA_NEW(arena, Tokenizer);
  *made = (Tokenizer){.arena = arena, .path = arena_format(arena, "%s", path), .end = -1};
  memset(made->byte_token, -1, sizeof made->byte_token);
  const size_t blank = strspn(text, " \t\r\n");
  const bool json = blank < length && text[blank] == '{';
  const bool sentence = sentence_looks(text, length);
  if (!(sentence ? sentence_model(made, text, length, error) && (!beside || sentence_added(made, path, error))
        : json   ? tokenizer_json(made, text, length, error)
                 : tokenizer_ranks(made, text, length, error))) {
    tokenizer_close(made);
    return false;
  }
  tokenizer_finish(made);
  *tokenizer = made;
  return true;
}

bool tokenizer_read(const char *path, const char *text, size_t length, Tokenizer **tokenizer, Error *error) {
  return tokenizer_make(path, text, length, false, tokenizer, error);
}

bool tokenizer_cutter(const char *pattern, Tokenizer **tokenizer, Error *error) {
  const char *text = scan_pattern(pattern);
  Arena *arena = arena_create();
  if (!arena) {
    return error_set(error, 3, "no memory");
  }
  Tokenizer *made = ARENA_NEW(arena, Tokenizer);
  *made = (Tokenizer){.arena = arena, .path = "a tokenizer that is trained", .end = -1};
  if (!text) {
    error_set(error, 2, "there is no pattern '%s'; there are gpt2, llama3 and qwen", pattern);
  }
  if (!text || !tokenizer_cut(made, text, strlen(text), true, true, error)) {
    tokenizer_close(made);
    return false;
  }
  *tokenizer = made;
  return true;
}

bool tokenizer_open(const char *path, Tokenizer **tokenizer, Error *error) {
  char *text;
  size_t length;
  if (!io_read_file(path, MOST_BYTES, &text, &length, error)) {
    char why[ERROR_MAX], hint[HUB_HINT_MAX];
    if (io_absent(path) && *hub_hint(path, "the tokenizer is ", "/tokenizer.json", "tokenizer.json", hint)) {
      snprintf(why, sizeof why, "%s", error->text);
      error_set(error, error->status, "%.300s%s", why, hint);
    }
    return false;
  }
  const bool done = tokenizer_make(path, text, length, true, tokenizer, error);
  free(text);
  return done;
}

bool tokenizer_shared(Tokenizer *tokenizer, Tokenizer **again) {
  *again = tokenizer;
  if (tokenizer) {
    tokenizer->sharers++;
  }
  return true;
}

void tokenizer_close(Tokenizer *tokenizer) {
  if (tokenizer && tokenizer->sharers-- == 0) {
    for (int i = 0; i < tokenizer->cut_count; i++) {
      pattern_destroy(tokenizer->cuts[i].pattern);
    }
    arena_destroy(tokenizer->arena);
  }
}

const char *tokenizer_path(const Tokenizer *tokenizer) {
  return tokenizer->path;
}

int32_t tokenizer_kinds(const Tokenizer *tokenizer) {
  return tokenizer->kinds;
}

int32_t tokenizer_end(const Tokenizer *tokenizer) {
  return tokenizer->end;
}

bool tokenizer_leads(const Tokenizer *tokenizer) {
  const Sentence *sentence = tokenizer->sentence;
  return sentence ? sentence->prefix && !sentence->suffix : tokenizer->prefix != PREFIX_NONE;
}

int32_t tokenizer_longest(const Tokenizer *tokenizer) {
  return tokenizer->longest;
}

const uint8_t *tokenizer_bytes(const Tokenizer *tokenizer, int32_t token, int32_t *length) {
  const bool there = token >= 0 && token < tokenizer->kinds;
  *length = there ? tokenizer->texts[token].length : 0;
  return there ? tokenizer->texts[token].bytes : NULL;
}

int32_t tokenizer_added(const Tokenizer *tokenizer, const char *text) {
  for (int i = 0; i < tokenizer->added_count; i++) {
    if (strcmp(tokenizer->added[i].text, text) == 0) {
      return tokenizer->added[i].token;
    }
  }
  return tokenizer->sentence ? sentence_symbol(tokenizer, text, false) : -1;
}

int32_t tokenizer_symbol(const Tokenizer *tokenizer, const char *text) {
  const int32_t added = tokenizer_added(tokenizer, text);
  return added < 0 && tokenizer->sentence ? sentence_symbol(tokenizer, text, true) : added;
}

bool tokens_add(TokenList *tokens, int32_t token) {
  if (tokens->count == tokens->capacity) {
    const int64_t capacity = tokens->capacity ? 2 * tokens->capacity : 1024;
    int32_t *grown = realloc(tokens->at, sizeof *grown * (size_t)capacity);
    if (!grown) {
      return false;
    }
    tokens->at = grown;
    tokens->capacity = capacity;
  }
  tokens->at[tokens->count++] = token;
  return true;
}

void tokens_free(TokenList *tokens) {
  free(tokens->at);
  *tokens = (TokenList){0};
}
