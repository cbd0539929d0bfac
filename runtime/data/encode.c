// encode.c: text is cut at added tokens, at what is no UTF-8, and by patterns; each piece is encoded by itself.
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/utf8.h"
#include "runtime/data/merge.h"
#include "runtime/data/sentence.h"
#include "runtime/data/slots.h"

struct Encoder {
  const Tokenizer *tokenizer;
  Matcher *matcher;
  Merger merger;
  Slot *slots;
  bool plain;
  EncoderPiece *piece;  // who gets pieces; NULL: they are encoded
  void *context;
  bool inside;   // of text between added tokens, which goes on: no space ahead of it
  bool begun;    // something of the text was seen
  bool goes_on;  // the text does, where what is added ends
  Buffer spelled, work;
  SentenceState sentence;  // in the place of all that, for a model of SentencePiece
};

bool encoder_create(const Tokenizer *tokenizer, Encoder **encoder, Error *error) {
  Encoder *made = calloc(1, sizeof *made);
  if (made) {
    made->tokenizer = tokenizer;
    made->slots = slots_create();
  }
  if (!made || !made->slots || !matcher_create(&made->matcher, error)) {
    encoder_destroy(made);
    return error_set(error, 3, "no memory");
  }
  *encoder = made;
  return true;
}

void encoder_destroy(Encoder *encoder) {
  if (encoder) {
    matcher_destroy(encoder->matcher);
    merger_free(&encoder->merger);
    buffer_free(&encoder->spelled);
    buffer_free(&encoder->work);
    sentence_state_free(&encoder->sentence);
    free(encoder->slots);
    free(encoder);
  }
}

void encoder_plain(Encoder *encoder, bool plain) {
  encoder->plain = plain;
}

void encoder_go_on(Encoder *encoder, bool goes_on) {
  encoder->goes_on = goes_on;
  encoder->begun &= goes_on;
  encoder->inside &= goes_on;
  sentence_state_end(&encoder->sentence, goes_on);
}

void encoder_pieces(Encoder *encoder, EncoderPiece *piece, void *context) {
  encoder->piece = piece;
  encoder->context = context;
}

static bool tokens_append(TokenList *list, const int32_t *tokens, int64_t count) {
  if (list->count + count > list->capacity) {
    int64_t capacity = list->capacity ? list->capacity : 1024;
    while (capacity < list->count + count) {
      capacity *= 2;
    }
    int32_t *grown = realloc(list->at, sizeof *grown * (size_t)capacity);
    if (!grown) {
      return false;
    }
    list->at = grown;
    list->capacity = capacity;
  }
  for (int64_t i = 0; i < count; i++) {
    list->at[list->count + i] = tokens[i];
  }
  list->count += count;
  return true;
}

static bool bytes_known(const Tokenizer *tokenizer, const uint8_t *piece, size_t length, Error *error) {
  for (size_t i = 0; i < length; i++) {
    if (tokenizer->byte_token[piece[i]] < 0) {
      return error_set(error, 1, "%s has no token for the byte 0x%02x, which the text has: '%.*s'", tokenizer->path,
                       piece[i], length < 80 ? (int)length : 80, (const char *)piece);
    }
  }
  return true;
}

// A piece that is not in the slots.
static bool piece_encode(Encoder *e, const uint8_t *piece, size_t length, const int32_t **tokens, int64_t *count,
                         Error *error) {
  const Tokenizer *tokenizer = e->tokenizer;
  const int64_t whole = tokenizer->whole ? map_get_bytes_or(&tokenizer->words, piece, length, -1) : -1;
  if (whole < 0 && !bytes_known(tokenizer, piece, length, error)) {
    return false;
  }
  const uint8_t one = 0;
  *count = merge_piece(&e->merger, tokenizer, whole < 0 ? piece : &one, whole < 0 ? length : 1);
  if (*count < 0) {
    return error_set(error, 3, "no memory to encode a piece of %lld bytes", (long long)length);
  }
  if (whole >= 0) {
    e->merger.ids[0] = (int32_t)whole;
  }
  *tokens = e->merger.ids;
  return true;
}

static bool piece_add(Encoder *e, const uint8_t *piece, size_t length, TokenList *list, Error *error) {
  Slot *slot = NULL;
  const int32_t *tokens = NULL;
  int64_t count = 0;
  bool met = false;
  if (e->piece) {
    return e->piece(e->context, piece, length) || error_set(error, 3, "no memory for pieces of text");
  }
  if (length <= SLOT_LONGEST) {
    slot = slot_find(e->slots, piece, length, &met);
  }
  if (met) {
    return tokens_append(list, slot->tokens, slot->count) || error_set(error, 3, "no memory for tokens");
  }
  if (!piece_encode(e, piece, length, &tokens, &count, error)) {
    return false;
  }
  if (slot) {
    slot_put(slot, piece, length, tokens, count);
  }
  return tokens_append(list, tokens, count) || error_set(error, 3, "no memory for tokens");
}

typedef struct {
  Encoder *encoder;
  TokenList *list;
  Error *error;
} Job;

// Cuts by the patterns from `level` on. With `more` what the rest of the text might change is left: *used.
static bool cut(const Job *job, int level, const uint8_t *text, size_t length, bool more, size_t *used) {
  Encoder *e = job->encoder;
  *used = more ? 0 : length;
  if (level == e->tokenizer->cut_count) {
    return more || piece_add(e, text, length, job->list, job->error);
  }
  const Cut *by = &e->tokenizer->cuts[level];
  Scan *scan = e->plain ? NULL : by->scan;
  const bool last = level + 1 == e->tokenizer->cut_count;
  size_t inside;
  if (more && pattern_looks_behind(by->pattern)) {  // at the piece before: all of the text has to be here
    return true;
  }
  for (size_t at = 0; at < length; *used = at) {
    size_t begin = at, end = scan ? scan(text, length, at) : 0;
    if (end == 0) {
      const Match match = pattern_next(by->pattern, e->matcher, (const char *)text, length, at, more, &begin, &end);
      if (match == MATCH_STARVED) {
        return error_set(job->error, 3, "no memory to cut text");
      }
      if (match == MATCH_FAILED || (match == MATCH_FOUND && end <= begin)) {
        return error_set(job->error, 1, "%s: a pattern that cuts text %s", e->tokenizer->path,
                         match == MATCH_FAILED ? "cannot be matched" : "matches nothing at all");
      }
      if (more && match != MATCH_FOUND) {
        return true;
      }
      begin = match == MATCH_FOUND ? begin : length;
      end = match == MATCH_FOUND ? end : length;
      if (begin > at && by->between && !cut(job, level + 1, text + at, begin - at, false, &inside)) {
        return false;
      }
    }
    if (end > begin && by->matches &&
        !(last ? piece_add(e, text + begin, end - begin, job->list, job->error)
               : cut(job, level + 1, text + begin, end - begin, false, &inside))) {
      return false;
    }
    at = end;
  }
  *used = more ? *used : length;
  return true;
}

// Where the last character begins that no later one changes.
static size_t last_apart(NormalForm form, const uint8_t *text, size_t length) {
  size_t at = length, size;
  while (at > 0 && ((text[at - 1] & 0xc0) == 0x80 || !normal_apart(form, text + at - 1, length - at + 1, &size))) {
    at--;
  }
  return at > 0 ? at - 1 : 0;
}

static bool all_apart(NormalForm form, const uint8_t *text, size_t length) {
  size_t size;
  for (size_t at = 0; at < length; at += size) {
    if (!normal_apart(form, text + at, length - at, &size)) {
      return false;
    }
  }
  return true;
}

// The longest token that begins here of those that are looked for in the form of a text, or NULL.
static const Added *form_at(const Tokenizer *tokenizer, const uint8_t *text, size_t length, size_t at) {
  const Added *found = NULL;
  for (int i = 0; i < tokenizer->added_count; i++) {
    const Added *added = &tokenizer->added[i];
    if (added->form && (size_t)added->form_length <= length - at &&
        memcmp(text + at, added->form, (size_t)added->form_length) == 0 &&
        (!found || added->form_length > found->form_length)) {
      found = added;
    }
  }
  return found;
}

// Cuts a text in its form, at added tokens that are looked for there first. `more` as in cut.
static bool form_cut(const Job *job, const uint8_t *text, size_t length, bool more, size_t *used) {
  const Tokenizer *tokenizer = job->encoder->tokenizer;
  const size_t longest = (size_t)tokenizer->form_longest;
  size_t safe = !more ? length : length > longest ? length - longest : 0, taken;
  if (longest == 0) {
    return cut(job, 0, text, length, more, used);
  }
  for (; safe > 0 && safe < length && (text[safe] & 0xc0) == 0x80; safe--) {
  }
  for (*used = 0;;) {
    const size_t begin = *used;
    size_t at = begin;
    const Added *found = NULL;
    while (at < safe && !(tokenizer->form_first[text[at]] && (found = form_at(tokenizer, text, length, at)))) {
      at++;
    }
    if (at > begin && !cut(job, 0, text + begin, at - begin, more && !found, &taken)) {
      return false;
    }
    *used = begin + (at > begin ? taken : 0);
    if (!found) {
      return true;
    }
    if (!tokens_add(job->list, found->token)) {
      return error_set(job->error, 3, "no memory for tokens");
    }
    *used = at + (size_t)found->form_length;
  }
}

// Cuts the normal form of a text. What is left of that must be the form of what is left of the text.
static bool normal_cut(const Job *job, const uint8_t *text, size_t length, bool more, size_t *used) {
  Encoder *e = job->encoder;
  const NormalForm form = e->tokenizer->normal;
  const int64_t before = job->list->count;
  size_t limit = more && form ? last_apart(form, text, length) : length, done;
  if (!form || all_apart(form, text, limit)) {
    return form_cut(job, text, limit, more, used);
  }
  for (*used = 0; limit > 0;) {
    if (!normal_put(form, text, limit, &e->spelled, job->error) ||
        !form_cut(job, (const uint8_t *)e->spelled.text, e->spelled.length, more, &done)) {
      return false;
    }
    *used = more ? normal_place(form, text, limit, done, &limit, &e->work, job->error) : length;
    if (*used != SIZE_MAX) {
      return true;
    }
    if (job->error->status) {
      return false;
    }
    job->list->count = before;  // up to the last character, whose form was cut
    *used = 0;
  }
  return true;
}

// Text without added tokens: characters by the patterns, other bytes by themselves.
static bool plain_add(const Job *job, const uint8_t *text, size_t length, bool more, size_t *used) {
  for (*used = 0; *used < length;) {
    const uint8_t *at = text + *used;
    const size_t left = length - *used, valid = utf8_valid(at, left);
    const bool open = more && (valid == left || utf8_character(at + valid, left - valid) < 0);
    size_t taken;
    if (valid > 0 && !normal_cut(job, at, valid, open, &taken)) {
      return false;
    }
    *used += valid > 0 ? taken : 0;
    if (open) {
      return true;
    }
    at = text + *used;  // behind the valid ones
    size_t wrong = 0;
    for (int size = 0; *used + wrong < length && size == 0; wrong += size == 0) {
      size = utf8_character(at + wrong, length - *used - wrong);
      size = size < 0 && !more ? 0 : size;
    }
    if (more && *used + wrong == length) {
      return true;
    }
    if (wrong > 0 && !piece_add(job->encoder, at, wrong, job->list, job->error)) {
      return false;
    }
    *used += wrong;
  }
  return true;
}

// The longest added token that begins here, or NULL.
static const Added *added_at(const Tokenizer *tokenizer, const uint8_t *text, size_t length, size_t at) {
  const Added *found = NULL;
  for (int i = 0; i < tokenizer->added_count; i++) {
    const Added *added = &tokenizer->added[i];
    const size_t size = (size_t)added->length;
    if (!added->form && size <= length - at && memcmp(text + at, added->text, size) == 0 &&
        (!found || added->length > found->length)) {
      found = added;
    }
  }
  return found;
}

static const char space_letter[] = "\xe2\x96\x81";

static size_t spelled_space(const uint8_t *text, size_t length) {
  return text[0] == ' ' ? 1 : length >= 3 && memcmp(text, space_letter, 3) == 0 ? 3 : 0;
}

// Text without added tokens, of which tokens are characters: a piece is spaces and what follows up to the next ones.
static bool characters_add(const Job *job, const uint8_t *text, size_t length, bool more, size_t *used) {
  Encoder *e = job->encoder;
  const Tokenizer *tokenizer = e->tokenizer;
  for (*used = 0; *used < length;) {
    size_t end = *used, size;
    while (end < length && (size = spelled_space(text + end, length - end)) > 0) {
      end += size;
    }
    while (end < length && (!tokenizer->severable || spelled_space(text + end, length - end) == 0)) {
      end++;
    }
    if (more && length - end < 3) {
      return true;
    }
    const bool has = spelled_space(text + *used, length - *used) > 0;
    const bool ahead = !e->inside && !(tokenizer->prefix_once && has) &&
                       (tokenizer->prefix == PREFIX_EACH || (tokenizer->prefix == PREFIX_FIRST && !e->begun));
    e->spelled.length = 0;
    buffer_text(&e->spelled, ahead ? space_letter : "");
    for (size_t i = *used; i < end; i++) {
      buffer_bytes(&e->spelled, text[i] == ' ' ? space_letter : (const char *)text + i, text[i] == ' ' ? 3 : 1);
    }
    if (e->spelled.failed) {
      return error_set(job->error, 3, "no memory for a piece of text");
    }
    if (!piece_add(e, (const uint8_t *)e->spelled.text, e->spelled.length, job->list, job->error)) {
      return false;
    }
    e->inside = e->begun = true;
    *used = end;
  }
  return true;
}

// How many bytes of a text are this one, in which spaces are letters; 0: it does not begin so.
static size_t spelled_match(const uint8_t *text, size_t length, const char *form) {
  size_t at = 0, size;
  while (*form) {
    const bool letter = strncmp(form, space_letter, strlen(space_letter)) == 0;
    size = at == length ? 0 : letter ? spelled_space(text + at, length - at) : text[at] == (uint8_t)*form;
    if (size == 0) {
      return 0;
    }
    at += size;
    form += letter ? strlen(space_letter) : 1;
  }
  return at;
}

// The longest token that begins here, and its bytes, of those that are looked for in the form of a text. Where the form
// puts a space ahead of each text, it is a part of them: `ahead`, it stands here, else it is one of the text.
static const Added *spelled_at(const Tokenizer *tokenizer, const uint8_t *text, size_t length, bool ahead,
                               size_t *bytes) {
  const Added *found = tokenizer->prefix_once ? form_at(tokenizer, text, length, 0) : NULL;
  const bool behind = tokenizer->prefix == PREFIX_EACH && !ahead;
  const size_t space = behind ? spelled_space(text, length) : 0;
  if (tokenizer->prefix_once) {  // a text is its own form: spaces are spelled later
    *bytes = found ? (size_t)found->form_length : 0;
    return found;
  }
  if (behind ? space == 0 : !tokenizer->form_first[text[0]]) {
    return NULL;
  }
  for (int i = 0; i < tokenizer->added_count; i++) {
    const Added *added = &tokenizer->added[i];
    const size_t size = added->form ? spelled_match(text + space, length - space, added->form) : 0;
    if (size > 0 && (!found || added->form_length > found->form_length)) {
      found = added;
      *bytes = space + size;
    }
  }
  return found;
}

// Text without added tokens that are looked for as they are, of which tokens are characters.
static bool spelled_add(const Job *job, const uint8_t *text, size_t length, bool more, size_t *used) {
  Encoder *e = job->encoder;
  const Tokenizer *tokenizer = e->tokenizer;
  const size_t longest = tokenizer->form_longest > 0 ? (size_t)tokenizer->form_longest + 3 : 0;
  const size_t safe = !more ? length : length > longest ? length - longest : 0;
  if (longest == 0) {
    return characters_add(job, text, length, more, used);
  }
  for (*used = 0;;) {
    const size_t begin = *used;
    const bool ahead = !e->inside && tokenizer->prefix == PREFIX_EACH && !tokenizer->prefix_once;
    size_t at = begin, bytes = 0, taken = 0;
    bool first = ahead && at < safe;  // what is put ahead of the text may be a part of the token
    const Added *found = first ? spelled_at(tokenizer, text + at, length - at, true, &bytes) : NULL;
    first = found != NULL;
    while (!found && at < safe && !(found = spelled_at(tokenizer, text + at, length - at, false, &bytes))) {
      at++;
    }
    if (!characters_add(job, text + begin, at - begin, more && !found, &taken)) {
      return false;
    }
    *used = begin + taken;
    if (!found) {
      return true;
    }
    if (ahead && !first && at == begin && !piece_add(e, (const uint8_t *)space_letter, 3, job->list, job->error)) {
      return false;
    }
    if (!tokens_add(job->list, found->token)) {
      return error_set(job->error, 3, "no memory for tokens");
    }
    e->inside = !tokenizer->prefix_once;
    e->begun = true;
    *used = at + bytes;
  }
}

// The bytes of the space that begins here, as Unicode has it; 0: none does. `spelled`: U+2581 is one as well.
static size_t space_at(const uint8_t *text, size_t length, bool spelled) {
  static const char *const wide[] = {"\xc2\x85",     "\xc2\xa0",     "\xe1\x9a\x80", "\xe2\x80\xa8",
                                     "\xe2\x80\xa9", "\xe2\x80\xaf", "\xe2\x81\x9f", "\xe3\x80\x80"};
  if (length > 0 && (text[0] == ' ' || (text[0] >= '\t' && text[0] <= '\r'))) {
    return 1;
  }
  for (size_t i = 0; i < sizeof wide / sizeof *wide; i++) {
    if (strlen(wide[i]) <= length && memcmp(text, wide[i], strlen(wide[i])) == 0) {
      return strlen(wide[i]);
    }
  }
  const bool letter = spelled && length >= 3 && memcmp(text, space_letter, 3) == 0;
  return letter || (length >= 3 && text[0] == 0xe2 && text[1] == 0x80 && text[2] >= 0x80 && text[2] <= 0x8a) ? 3 : 0;
}

// The end of a text without the spaces that it ends with.
static size_t spaces_cut(const uint8_t *text, size_t begin, size_t end, bool spelled) {
  for (size_t size = 1; size <= 3;) {
    const bool space = end >= begin + size && space_at(text + end - size, size, spelled) == size;
    end -= space ? size : 0;
    size = space ? 1 : size + 1;
  }
  return end;
}

// Text between added tokens: a text of its own, but that a space may stand ahead of the first alone.
static bool sentence_part(const Job *job, const uint8_t *text, size_t length, bool more, bool ends, size_t *used) {
  Encoder *e = job->encoder;
  return sentence_add(e->tokenizer, &e->sentence, e->slots, text, length, more, e->goes_on && ends, used, job->list,
                      job->error);
}

// A text that begins with an added token: of those without a name the space ahead of the text is a part of its own.
static bool prefix_put(const Job *job, const Added *added) {
  Encoder *e = job->encoder;
  size_t used;
  if (!e->tokenizer->sentence || e->tokenizer->prefix != PREFIX_FIRST || added->bare ||
      !e->tokenizer->sentence->prefix) {
    return true;
  }
  e->sentence.begun = true;
  return sentence_part(job, (const uint8_t *)" ", 1, false, false, &used);
}

// Behind an added token.
static void part_begin(Encoder *encoder) {
  encoder->inside = false;
  encoder->begun = true;
  sentence_state_end(&encoder->sentence, false);
  encoder->sentence.begun = encoder->tokenizer->prefix == PREFIX_FIRST;
}

bool encoder_add(Encoder *encoder, const char *text, size_t length, bool more, size_t *used, TokenList *tokens,
                 Error *error) {
  const Tokenizer *tokenizer = encoder->tokenizer;
  const Job job = {encoder, tokens, error};
  const uint8_t *bytes = (const uint8_t *)text;
  if (tokenizer->sentence && tokenizer->added_count == 0) {
    return sentence_part(&job, bytes, length, more, true, used);
  }
  // There U+2581 was made a space before text is cut.
  const bool spelled = tokenizer->sentence && tokenizer->prefix == PREFIX_FIRST;
  // Behind `safe` an added token may begin whose end is not here yet, or a neighbour that it must not have.
  const size_t longest = tokenizer->added_count > 0 ? (size_t)tokenizer->added_longest + 1 : 0;
  const size_t safe = !more ? length : length > longest ? length - longest : 0;
  for (*used = 0; *used < length;) {
    const size_t begin = *used;
    const Added *added = NULL;
    size_t at = begin;
    while (at < safe && !(tokenizer->added_first[bytes[at]] && (added = added_at(tokenizer, bytes, length, at)))) {
      at++;
    }
    size_t end = at, taken;
    const bool left = added ? added->left : more && tokenizer->added_left;  // or may be
    end = left ? spaces_cut(bytes, begin, end, spelled) : end;
    const bool open = !added && more, first = end == begin && !encoder->begun && !encoder->sentence.begun;
    if (!(tokenizer->sentence     ? sentence_part(&job, bytes + begin, end - begin, open, !added, &taken)
          : tokenizer->characters ? spelled_add(&job, bytes + begin, end - begin, open, &taken)
                                  : plain_add(&job, bytes + begin, end - begin, open, &taken))) {
      return false;
    }
    if (!added) {
      *used += taken;
      encoder->inside &= more || encoder->goes_on;
      encoder->begun &= more || encoder->goes_on;
      return true;
    }
    size_t behind = at + (size_t)added->length;
    for (size_t size = 1; added->right && size > 0; behind += size) {
      size = space_at(bytes + behind, length - behind, spelled);
    }
    if (more && added->right && length - behind < 3) {  // more spaces may follow
      *used = end;
      return true;
    }
    if (first && !prefix_put(&job, added)) {
      return false;
    }
    if (!tokens_add(tokens, added->token)) {
      return error_set(error, 3, "no memory for tokens");
    }
    *used = behind;
    part_begin(encoder);
  }
  encoder->begun &= more || encoder->goes_on;
  encoder->inside &= more || encoder->goes_on;
  sentence_state_end(&encoder->sentence, more || encoder->goes_on);
  return true;
}
