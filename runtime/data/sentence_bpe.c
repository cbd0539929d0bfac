// sentence_bpe.c: pieces by merging: of two neighbours that are a piece together those with the highest score become
// it, the leftmost of equals first.
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "runtime/data/sentence.h"

static int score_order(const void *a, const void *b) {
  const float x = *(const float *)a, y = *(const float *)b;
  return (x < y) - (x > y);
}

static int32_t rank_of(const float *scores, int32_t count, float score) {
  int32_t first = 0, last = count;
  while (last - first > 1) {
    const int32_t middle = first + (last - first) / 2;
    if (scores[middle] < score) {
      last = middle;
    } else {
      first = middle;
    }
  }
  return first;
}

// Characters inside of pieces get numbers behind those of pieces. Returns how many characters there are.
static size_t characters_set(Tokenizer *t, TrieText *characters) {
  Sentence *s = t->sentence;
  size_t count = 0;
  s->texts = t->sentence->count;
  for (int32_t i = 0; i < t->sentence->count; i++) {
    const SentencePiece *piece = &s->pieces[i];
    for (int32_t at = 0, size; piece_is_text(piece) && at < piece->length; at += size) {
      size = utf8_character(piece->text + at, (size_t)(piece->length - at));
      if (size == piece->length) {
        characters[count++] = (TrieText){piece->text, size, i, 0};
      } else if (map_get_bytes_or(&t->words, piece->text + at, (size_t)size, -1) < 0) {
        map_put_bytes(&t->words, piece->text + at, (size_t)size, s->texts);
        characters[count++] = (TrieText){piece->text + at, size, s->texts++, 0};
      }
    }
  }
  return count;
}

// Whatever two texts a piece is made of, they become it.
static bool merges_set(Tokenizer *t) {
  Sentence *s = t->sentence;
  size_t cuts = 0;
  int32_t count = 0, distinct = 0;
  float *scores = malloc(sizeof *scores * (size_t)t->sentence->count);
  if (!scores) {
    return false;
  }
  for (int32_t i = 0; i < t->sentence->count; i++) {
    const bool merged = s->pieces[i].kind == PIECE_NORMAL || s->pieces[i].kind == PIECE_UNUSED;
    cuts += merged ? (size_t)s->pieces[i].length : 0;
    scores[count] = s->pieces[i].score;
    count += merged;
  }
  qsort(scores, (size_t)count, sizeof *scores, score_order);
  for (int32_t i = 0; i < count; i++) {
    distinct += distinct == 0 || scores[i] < scores[distinct - 1];
    scores[distinct - 1] = scores[i];
  }
  tokenizer_merges_reserve(t, s->kind == SENTENCE_BPE ? cuts : 0);
  for (int32_t i = 0; i < t->sentence->count && s->kind == SENTENCE_BPE; i++) {
    const SentencePiece *p = &s->pieces[i];
    for (int32_t cut = 1; (p->kind == PIECE_NORMAL || p->kind == PIECE_UNUSED) && cut < p->length; cut++) {
      const int64_t first = map_get_bytes_or(&t->words, p->text, (size_t)cut, -1);
      const int64_t second = first < 0 ? -1 : map_get_bytes_or(&t->words, p->text + cut, (size_t)(p->length - cut), -1);
      if (second >= 0) {
        tokenizer_merge(t, (int32_t)first, (int32_t)second, rank_of(scores, distinct, p->score), i);
      }
    }
  }
  free(scores);
  return true;
}

// Texts of a segment, a symbol or a character each. Symbols have numbers behind those of texts, and no merges.
static int64_t symbols_set(const Tokenizer *t, const uint8_t *bytes, size_t length, int32_t *ids) {
  const Sentence *s = t->sentence;
  int64_t count = 0;
  bool open;
  for (size_t at = 0, size; at < length; at += size) {
    int32_t id = 0;
    size = trie_longest(&s->symbols, bytes + at, length - at, &id, &open);
    if (size > 0) {
      ids[count++] = s->texts + 1 + id;
      continue;
    }
    size = (size_t)utf8_character(bytes + at, length - at);
    ids[count++] = trie_longest(&s->characters, bytes + at, size, &id, &open) > 0 ? id : s->texts;
  }
  return count;
}

// The last two texts that a piece is merged of, where it is.
static void halves_find(const Tokenizer *t, int32_t piece, int32_t halves[2]) {
  int32_t ids[SENTENCE_LONGEST_PIECE];
  const SentencePiece *p = &t->sentence->pieces[piece];
  int64_t count = symbols_set(t, p->text, (size_t)p->length, ids);
  halves[0] = halves[1] = -1;
  while (count > 2) {
    const Merge *best = NULL;
    int64_t place = 0;
    for (int64_t i = 0; i + 1 < count; i++) {
      const Merge *merge = tokenizer_merge_find(t, ids[i], ids[i + 1]);
      if (merge && (!best || merge->rank < best->rank)) {
        best = merge;
        place = i;
      }
    }
    if (!best) {
      return;
    }
    ids[place] = best->token;
    count--;
    memmove(ids + place + 1, ids + place + 2, sizeof *ids * (size_t)(count - place - 1));
  }
  const Merge *last = count == 2 ? tokenizer_merge_find(t, ids[0], ids[1]) : NULL;
  if (last && last->token == piece) {
    halves[0] = ids[0];
    halves[1] = ids[1];
  }
}

// Which token each text is. With SENTENCE_CHAR, that may be one that is called so, but is no text.
static void tokens_set(Tokenizer *t, const TrieText *characters, size_t count, const Map *reserved) {
  Sentence *s = t->sentence;
  s->token_of = ARENA_ARRAY(t->arena, int32_t, s->texts);
  for (int32_t i = 0; i < s->texts; i++) {
    s->token_of[i] = i < t->sentence->count && s->pieces[i].kind != PIECE_UNUSED ? i : s->unknown;
  }
  for (size_t i = 0; i < count && s->kind == SENTENCE_CHAR; i++) {
    const TrieText *text = &characters[i];
    int32_t *token = &s->token_of[text->value];
    *token = (int32_t)map_get_bytes_or(reserved, text->bytes, (size_t)text->length, *token);
  }
}

bool sentence_bpe_tables(Tokenizer *tokenizer, const Map *reserved) {
  Sentence *s = tokenizer->sentence;
  Arena *arena = tokenizer->arena;
  size_t most = 0;
  for (int32_t i = 0; i < tokenizer->sentence->count; i++) {
    most += (size_t)s->pieces[i].length;
  }
  TrieText *characters = ARENA_ARRAY(arena, TrieText, most);
  const size_t count = characters_set(tokenizer, characters);
  tokens_set(tokenizer, characters, count, reserved);
  if (!trie_build(arena, characters, count, &s->characters) || !merges_set(tokenizer)) {
    return false;
  }
  s->halves = arena_alloc(arena, sizeof *s->halves * (size_t)tokenizer->sentence->count);
  for (int32_t i = 0; i < tokenizer->sentence->count; i++) {
    s->halves[i][0] = s->halves[i][1] = -1;
    if (s->pieces[i].kind == PIECE_UNUSED) {
      halves_find(tokenizer, i, s->halves[i]);
    }
  }
  return true;
}

// The tokens of a text that stands at bytes. Returns its length, 0 where memory is missing.
static size_t text_put(const Tokenizer *t, int32_t text, const uint8_t *bytes, size_t length, TokenList *out) {
  const Sentence *s = t->sentence;
  const int32_t piece = text < t->sentence->count ? text : text > s->texts ? text - s->texts - 1 : -1;
  const size_t size = piece >= 0 ? (size_t)s->pieces[piece].length : (size_t)utf8_character(bytes, length);
  const int32_t token = text < s->texts ? s->token_of[text] : piece >= 0 ? s->token_of[piece] : s->unknown;
  if (text < t->sentence->count && s->halves[text][0] >= 0) {  // it is UNUSED
    const size_t first = text_put(t, s->halves[text][0], bytes, length, out);
    return first > 0 && text_put(t, s->halves[text][1], bytes + first, length - first, out) > 0 ? size : 0;
  }
  if (token != s->unknown || !s->byte_fallback) {
    return tokens_add(out, token) ? size : 0;
  }
  for (size_t i = 0; i < size; i++) {
    if (!tokens_add(out, t->byte_token[bytes[i]])) {
      return 0;
    }
  }
  return size;
}

bool sentence_bpe(const Tokenizer *tokenizer, SentenceState *state) {
  const uint8_t *bytes = state->segment;
  int32_t *ids = merger_reserve(&state->merger, state->length);
  if (!ids) {
    return false;
  }
  const int64_t count = merge_symbols(&state->merger, tokenizer, symbols_set(tokenizer, bytes, state->length, ids));
  for (int64_t i = 0; i < count; i++) {
    const size_t size = text_put(tokenizer, state->merger.ids[i], bytes, state->length, &state->found);
    if (size == 0) {
      return false;
    }
    bytes += size;
  }
  return count >= 0;
}
