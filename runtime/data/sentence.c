// sentence.c: text becomes tokens of a model of SentencePiece, segment by segment: what lies between two places at
// which no piece holds the text together.
#include "runtime/data/sentence.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/data/slots.h"

void sentence_state_free(SentenceState *state) {
  free(state->segment);
  free(state->nodes);
  merger_free(&state->merger);
  tokens_free(&state->found);
  *state = (SentenceState){0};
}

void sentence_state_end(SentenceState *state, bool goes_on) {
  state->begun &= goes_on;
  state->spaced &= goes_on;
  state->unknown &= goes_on;
  state->score = goes_on ? state->score : 0;
}

typedef struct {
  const Tokenizer *tokenizer;
  const Sentence *sentence;
  SentenceState *state;
  Slot *slots;
  TokenList *tokens;
  Error *error;
  uint32_t last;       // character of the segment
  bool begun, spaced;  // as of the state, behind the segment
} Job;

// --- Tokens of a segment ---

// Unknown tokens that follow each other are one.
static bool tokens_append(const Job *job, const int32_t *tokens, int64_t count) {
  const int32_t unknown = job->sentence->unknown;
  for (int64_t i = 0; i < count; i++) {
    const bool again = tokens[i] == unknown && job->state->unknown;
    if (!again && !tokens_add(job->tokens, tokens[i])) {
      return error_set(job->error, 3, "no memory for tokens");
    }
    job->state->unknown = tokens[i] == unknown;
  }
  return true;
}

// How large the sum of all scores ahead may be for this segment to be divided as if it stood alone: rounding then
// decides nothing. Below 0: it always may.
static float reach_of(const Job *job, float margin, const int32_t *tokens, int64_t count) {
  const SentenceState *state = job->state;
  const float characters = (float)state->length, rounding = 4 * characters * 0x1p-24f;
  for (int64_t i = 0; i < count; i++) {
    if (tokens[i] == job->sentence->unknown || job->sentence->pieces[tokens[i]].kind == PIECE_BYTE) {
      return -1;  // its score is that of an unknown character, which the token does not tell
    }
  }
  return fminf(margin / rounding, SENTENCE_HEAVY) - (characters + 1) * job->sentence->widest;
}

// Adds up scores as a division of the segment does.
static void score_add(const Job *job, const Slot *slot) {
  for (int i = 0; i < slot->count; i++) {
    job->state->score = job->sentence->scores[slot->tokens[i]] + job->state->score;
  }
}

static bool segment_find(const Job *job, Slot *slot) {
  SentenceState *state = job->state;
  const float before = state->score;
  float margin = 0;
  state->found.count = 0;
  if (job->sentence->kind != SENTENCE_UNIGRAM) {
    const bool done = sentence_bpe(job->tokenizer, state);
    if (done && slot) {
      slot_put(slot, state->segment, state->length, state->found.at, state->found.count);
    }
    return done;
  }
  if (slot && slot->length == 0) {  // its margins are those of the beginning of a text
    state->score = 0;
    if (!sentence_unigram(job->tokenizer, state, &margin)) {
      return false;
    }
    const float reach = reach_of(job, margin, state->found.at, state->found.count);
    slot_put(slot, state->segment, state->length, state->found.at, state->found.count);
    slot->reach = reach;
    state->score = before;
    state->found.count = 0;
  }
  return sentence_unigram(job->tokenizer, state, &margin);
}

static bool segment_end(Job *job) {
  SentenceState *state = job->state;
  Slot *slot = NULL;
  bool met = false, done = true;
  if (state->length == 0) {
    return true;
  }
  if (state->length <= SLOT_LONGEST) {
    slot = slot_find(job->slots, state->segment, state->length, &met);
  }
  if (met && (job->sentence->kind != SENTENCE_UNIGRAM || fabsf(state->score) < slot->reach)) {
    if (job->sentence->kind == SENTENCE_UNIGRAM) {
      score_add(job, slot);
    }
    done = tokens_append(job, slot->tokens, slot->count);
  } else {
    done = segment_find(job, met ? NULL : slot) ||
           error_set(job->error, 3, "no memory to encode a piece of %lld bytes", (long long)state->length);
    done = done && tokens_append(job, state->found.at, state->found.count);
  }
  state->length = 0;
  return done;
}

// --- Segments of a text ---

static bool segment_reserve(const Job *job, size_t more) {
  SentenceState *state = job->state;
  if (state->length + more > state->capacity) {
    const size_t capacity = 2 * (state->length + more + 64);
    uint8_t *grown = realloc(state->segment, capacity);
    if (!grown) {
      return error_set(job->error, 3, "no memory for a piece of text");
    }
    state->segment = grown;
    state->capacity = capacity;
  }
  return true;
}

static size_t space_put(const Sentence *sentence, uint8_t *to) {
  const size_t size = sentence->escape ? strlen(SENTENCE_SPACE) : 1;
  memcpy(to, sentence->escape ? SENTENCE_SPACE : " ", size);
  return size;
}

// The first character of some bytes, and the last one.
static uint32_t first_code(const Sentence *s, const uint8_t *bytes, size_t length) {
  size_t size = 1;
  while (size < length && (bytes[size] & 0xc0) == 0x80) {
    size++;
  }
  return *bytes == ' ' ? SPACE_CODE : sentence_code(s, bytes, size);
}

static uint32_t last_code(const Sentence *s, const uint8_t *bytes, size_t length) {
  size_t begin = length - 1;
  while (begin > 0 && (bytes[begin] & 0xc0) == 0x80) {
    begin--;
  }
  return sentence_code(s, bytes + begin, length - begin);
}

// Appends what a part of the text is in the normal form, without spaces at its beginning that follow on others. A
// segment ends ahead of it where it can: not between two spaces, which may all be at the end of the text.
static bool unit_put(Job *job, const uint8_t *bytes, size_t length, bool *cut) {
  const Sentence *s = job->sentence;
  SentenceState *state = job->state;
  while (job->spaced && length > 0 && *bytes == ' ') {
    bytes++;
    length--;
  }
  *cut = false;
  if (length == 0) {
    return true;
  }
  const uint32_t first = first_code(s, bytes, length);
  if (state->length > 0 && !(job->last == SPACE_CODE && first == SPACE_CODE) && !sentence_joined(s, job->last, first)) {
    state->begun = true;
    state->spaced = job->spaced;
    *cut = true;
    if (!segment_end(job)) {
      return false;
    }
  }
  if (!segment_reserve(job, 3 * length)) {
    return false;
  }
  if (length == 1) {
    if (*bytes == ' ') {
      state->length += space_put(s, state->segment + state->length);
    } else {
      state->segment[state->length++] = *bytes;
    }
    job->last = first;
  } else {
    for (size_t i = 0; i < length; i++) {
      if (bytes[i] == ' ') {
        state->length += space_put(s, state->segment + state->length);
      } else {
        state->segment[state->length++] = bytes[i];
      }
    }
    job->last = last_code(s, state->segment, state->length);
  }
  job->spaced = s->collapse && bytes[length - 1] == ' ';
  return true;
}

// The end of a text: spaces there go.
static bool text_end(Job *job, bool goes_on) {
  const Sentence *s = job->sentence;
  SentenceState *state = job->state;
  uint8_t space[4];
  const size_t size = space_put(s, space);
  while (!goes_on && s->collapse && state->length >= size &&
         memcmp(state->segment + state->length - size, space, size) == 0) {
    state->length -= size;
  }
  if (!goes_on && job->begun && s->prefix && s->suffix) {
    bool cut;
    job->spaced = false;
    if (!unit_put(job, (const uint8_t *)" ", 1, &cut)) {
      return false;
    }
  }
  if (!segment_end(job)) {
    return false;
  }
  state->begun = job->begun;
  state->spaced = job->spaced;
  sentence_state_end(state, goes_on);
  return true;
}

bool sentence_add(const Tokenizer *tokenizer, SentenceState *state, Slot *slots, const uint8_t *text, size_t length,
                  bool more, bool goes_on, size_t *used, TokenList *tokens, Error *error) {
  const Sentence *s = tokenizer->sentence;
  Job job = {tokenizer, s, state, slots, tokens, error, 0, state->begun, state->spaced};
  state->length = 0;
  *used = 0;
  for (size_t at = 0; at < length;) {
    const uint8_t byte = text[at];
    const bool plain = byte < 128 && s->plain[byte] && (at + 1 < length ? text[at + 1] < 128 : !more);
    const SentenceUnit unit = plain ? (SentenceUnit){text + at, 1, 1} : sentence_unit(s, text + at, length - at, more);
    bool cut;
    if (unit.taken == 0) {
      return true;
    }
    if (!job.begun && s->collapse && unit.length == 1 && *unit.bytes == ' ') {
      at += unit.taken;
      *used = at;
      continue;
    }
    if (!job.begun && s->prefix && !s->suffix && !unit_put(&job, (const uint8_t *)" ", 1, &cut)) {
      return false;
    }
    job.spaced = job.begun ? job.spaced : s->collapse;
    job.begun = true;
    if (!unit_put(&job, unit.bytes, unit.length, &cut)) {
      return false;
    }
    *used = cut ? at : *used;
    at += unit.taken;
  }
  if (more) {
    return true;
  }
  *used = length;
  return text_end(&job, goes_on);
}
