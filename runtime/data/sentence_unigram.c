// sentence_unigram.c: the pieces whose scores have the highest sum, among all ways to divide a text.
//
// Scores are added up from the beginning of the text on, in float, and the sum begins anew where it grows large, all as
// sentencepiece 0.2.3 does it: of ways that are nearly as good as each other, rounding decides.
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "base/utf8.h"
#include "runtime/data/sentence.h"

bool sentence_unigram_tables(Tokenizer *tokenizer) {
  static const float unknown_penalty = 10;
  Sentence *s = tokenizer->sentence;
  TrieText *texts = ARENA_ARRAY(tokenizer->arena, TrieText, tokenizer->sentence->count);
  float least = FLT_MAX;
  size_t count = 0;
  s->scores = ARENA_ARRAY(tokenizer->arena, float, tokenizer->sentence->count);
  for (int32_t i = 0; i < tokenizer->sentence->count; i++) {
    const SentencePiece *piece = &s->pieces[i];
    least = piece->kind == PIECE_NORMAL ? fminf(least, piece->score) : least;
  }
  s->unknown_score = least - unknown_penalty;
  s->widest = fabsf(s->unknown_score);
  for (int32_t i = 0; i < tokenizer->sentence->count; i++) {
    const SentencePiece *piece = &s->pieces[i];
    // Symbols of the user are better than all pieces, whose scores are logarithms of probabilities; long ones most of
    // all.
    s->scores[i] = piece->kind == PIECE_USER ? (float)(0.1 * (double)(piece->length - 1)) : piece->score;
    if (piece->kind == PIECE_NORMAL || piece->kind == PIECE_USER) {
      texts[count++] = (TrieText){piece->text, piece->length, i, s->scores[i]};
      s->widest = fmaxf(s->widest, fabsf(s->scores[i]));
    }
  }
  return trie_build(tokenizer->arena, texts, count, &s->trie);
}

static bool nodes_reserve(SentenceState *state) {
  if (state->length >= state->node_capacity) {
    const size_t capacity = 2 * (state->length + 64);
    SentenceNode *grown = realloc(state->nodes, sizeof *grown * capacity);
    if (!grown) {
      return false;
    }
    state->nodes = grown;
    state->node_capacity = capacity;
  }
  return true;
}

// A way that ends at `node` by a token from `begin` on.
static inline void offer(SentenceNode *node, float score, int32_t token, size_t begin, float *margin) {
  if (node->begin >= 0) {
    const float by = score - node->score, far = fabsf(by);
    *margin = far < *margin ? far : *margin;
    if (!(by > 0)) {
      return;
    }
  }
  *node = (SentenceNode){score, token, (int32_t)begin};
}

// A sum that is large leaves no room for small differences: what all ways have in common is taken away.
static void lighten(SentenceNode *nodes, size_t begin, size_t last) {
  const float common = nodes[begin].score;
  if (fabsf(common) > SENTENCE_HEAVY) {
    for (size_t i = begin; i <= last; i++) {
      nodes[i].score -= i == begin || nodes[i].begin >= 0 ? common : 0;
    }
  }
}

// All ways to go on from `begin` with a character of so many bytes. Returns the last byte that any way so far has.
static size_t go_on(const Sentence *s, SentenceState *state, size_t begin, size_t size, size_t last, float *margin) {
  const uint8_t *text = state->segment;
  const float before = state->nodes[begin].score;
  bool single = false;
  size_t at = begin;
  for (int32_t place = TRIE_ROOT; s->trie.nodes && at < state->length;) {
    place = trie_step(&s->trie, place, text[at++]);
    if (place == TRIE_NONE) {
      break;
    }
    const int32_t token = s->trie.nodes[place].value;
    if (token != TRIE_NONE) {
      offer(&state->nodes[at], s->trie.nodes[place].score + before, token, begin, margin);
      single |= at - begin == size;
      last = at > last ? at : last;
    }
  }
  if (!single) {
    offer(&state->nodes[begin + size], s->unknown_score + before, s->unknown, begin, margin);
    last = begin + size > last ? begin + size : last;
  }
  return last;
}

static bool tokens_put(const Tokenizer *t, SentenceState *state) {
  const Sentence *s = t->sentence;
  const int64_t first = state->found.count;
  for (size_t end = state->length; end > 0;) {  // from the end on
    const SentenceNode *node = &state->nodes[end];
    const size_t begin = (size_t)node->begin;
    const bool bytes = node->token == s->unknown && s->byte_fallback;
    if (!bytes && !tokens_add(&state->found, node->token)) {
      return false;
    }
    for (size_t at = end; bytes && at > begin; at--) {
      if (!tokens_add(&state->found, t->byte_token[state->segment[at - 1]])) {
        return false;
      }
    }
    end = begin;
  }
  int32_t *tokens = state->found.at + first;
  for (int64_t i = 0, last = state->found.count - first - 1; i < last; i++, last--) {
    const int32_t token = tokens[i];
    tokens[i] = tokens[last];
    tokens[last] = token;
  }
  return true;
}

bool sentence_unigram(const Tokenizer *tokenizer, SentenceState *state, float *margin) {
  const Sentence *s = tokenizer->sentence;
  float least = FLT_MAX;
  size_t last = 0;
  if (state->length > INT32_MAX / 4 || !nodes_reserve(state)) {
    return false;
  }
  for (size_t i = 0; i <= state->length; i++) {
    state->nodes[i].begin = -1;
  }
  state->nodes[0].score = state->score;
  for (size_t begin = 0, size; begin < state->length; begin += size) {
    size = (size_t)utf8_character(state->segment + begin, state->length - begin);
    lighten(state->nodes, begin, last);
    last = go_on(s, state, begin, size, last, &least);
  }
  state->score = state->nodes[state->length].score;
  *margin = least;
  return tokens_put(tokenizer, state);
}
