// tokenizer_ranks.c: rank files of tiktoken: lines of a token's bytes in base64 and its number.
//
// The file does not say how text is cut nor which tokens are added; for known numbers of ranks both are known, others
// are cut as GPT-2 does.
#include <string.h>

#include "runtime/data/tokenizer_internal.h"

static const char o200k_pattern[] =
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|"
    "'d)?"
    "|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*(?i:'s|'t|'re|'ve|'m|'"
    "ll|'d)?"
    "|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

static const struct {
  int32_t ranks;
  const char *pattern, *end_text;
  int32_t end;
} known[] = {{50256, scan_gpt2_pattern, "<|endoftext|>", 50256},
             {50280, scan_gpt2_pattern, "<|endoftext|>", 50256},
             {100256, scan_cl100k_pattern, "<|endoftext|>", 100257},
             {128000, scan_llama3_pattern, "<|end_of_text|>", 128001},
             {199998, o200k_pattern, "<|endoftext|>", 199999}};

static int sextet(char c) {
  return c >= 'A' && c <= 'Z'   ? c - 'A'
         : c >= 'a' && c <= 'z' ? c - 'a' + 26
         : c >= '0' && c <= '9' ? c - '0' + 52
         : c == '+'             ? 62
         : c == '/'             ? 63
                                : -1;
}

// The bytes of base64 text; -1: it is none.
static int32_t decode(const char *text, size_t length, uint8_t *out) {
  int32_t size = 0;
  while (length > 0 && length % 4 == 0 && text[length - 1] == '=') {
    length--;
    if (length % 4 == 3 && text[length - 1] == '=') {
      length--;
      break;
    }
  }
  uint32_t bits = 0;
  for (size_t i = 0; i < length; i++) {
    const int six = sextet(text[i]);
    if (six < 0) {
      return -1;
    }
    bits = bits << 6 | (uint32_t)six;
    if (i % 4 != 0) {
      out[size++] = (uint8_t)(bits >> (6 - 2 * (i % 4)));
    }
  }
  return length % 4 == 1 ? -1 : size;
}

typedef struct {
  TokenText text;
  int32_t rank;
} Line;

// A line `base64 rank`.
static bool line_read(Arena *arena, const char *at, size_t length, Line *line) {
  const char *space = memchr(at, ' ', length);
  const size_t coded = space ? (size_t)(space - at) : 0, digits = length - coded - 1;
  if (coded == 0 || digits == 0 || digits > 8) {
    return false;
  }
  uint8_t *bytes = ARENA_ARRAY(arena, uint8_t, coded);
  line->text = (TokenText){bytes, decode(at, coded, bytes)};
  line->rank = 0;
  for (size_t i = 0; i < digits; i++) {
    if (space[1 + i] < '0' || space[1 + i] > '9') {
      return false;
    }
    line->rank = line->rank * 10 + (space[1 + i] - '0');
  }
  return line->text.length > 0 && line->rank < TOKENIZER_MOST_KINDS;
}

static bool lines_read(Tokenizer *tokenizer, const char *text, size_t length, Line *lines, int32_t *count,
                       Error *error) {
  int64_t number = 0;
  int32_t last = -1;
  *count = 0;
  for (size_t at = 0; at < length;) {
    const char *end = memchr(text + at, '\n', length - at);
    size_t size = end ? (size_t)(end - text) - at : length - at;
    const size_t next = at + size + 1;
    number++;
    size -= size > 0 && text[at + size - 1] == '\r';
    if (size > 0 && !line_read(tokenizer->arena, text + at, size, &lines[*count])) {
      return error_set(error, 1,
                       "%s: line %lld, at byte %lld, is no token in base64 and its rank: the file is neither a "
                       "tokenizer.json nor a rank file of tiktoken, nor a .model of SentencePiece",
                       tokenizer->path, (long long)number, (long long)at);
    }
    if (size > 0) {
      last = lines[*count].rank > last ? lines[*count].rank : last;
      ++*count;
    }
    at = next;
  }
  tokenizer->kinds = last + 1;
  return *count > 0 || error_set(error, 1, "%s holds no tokens", tokenizer->path);
}

// A pair becomes the token that has the bytes of both: the one of the lowest rank first.
static void merges_make(Tokenizer *tokenizer, int32_t kinds) {
  size_t pairs = 0;
  for (int32_t i = 0; i < kinds; i++) {
    pairs += tokenizer->texts[i].length > 1 ? (size_t)tokenizer->texts[i].length - 1 : 0;
  }
  tokenizer_merges_reserve(tokenizer, pairs);
  for (int32_t i = 0; i < kinds; i++) {
    const TokenText *text = &tokenizer->texts[i];
    for (int32_t cut = 1; cut < text->length; cut++) {
      const int64_t first = map_get_bytes_or(&tokenizer->words, text->bytes, (size_t)cut, -1);
      const int64_t second =
          first < 0 ? -1 : map_get_bytes_or(&tokenizer->words, text->bytes + cut, (size_t)(text->length - cut), -1);
      if (second >= 0) {
        tokenizer_merge(tokenizer, (int32_t)first, (int32_t)second, i, i);
      }
    }
  }
}

static bool end_add(Tokenizer *tokenizer, int32_t ranks, Error *error) {
  Arena *arena = tokenizer->arena;
  const char *pattern = scan_gpt2_pattern;
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    if (known[i].ranks == ranks && (known[i].end >= tokenizer->kinds || !tokenizer->texts[known[i].end].bytes)) {
      const int32_t size = (int32_t)strlen(known[i].end_text), end = known[i].end;
      pattern = known[i].pattern;
      tokenizer->added = ARENA_NEW(arena, Added);
      *tokenizer->added = (Added){.text = known[i].end_text, .length = size, .token = end};
      tokenizer->added_count = 1;
      tokenizer->kinds = tokenizer->kinds > end ? tokenizer->kinds : end + 1;
      tokenizer->texts[end] = (TokenText){(const uint8_t *)known[i].end_text, size};
    }
  }
  return tokenizer_cut(tokenizer, pattern, strlen(pattern), true, true, error);
}

bool tokenizer_ranks(Tokenizer *tokenizer, const char *text, size_t length, Error *error) {
  enum { ROOM = 4 };  // for the token that ends documents, behind the ranks
  Arena *arena = tokenizer->arena;
  size_t lines = 2;
  for (size_t i = 0; i < length; i++) {
    lines += text[i] == '\n';
  }
  Line *all = ARENA_ARRAY(arena, Line, lines);
  int32_t count;
  if (!lines_read(tokenizer, text, length, all, &count, error)) {
    return false;
  }
  tokenizer->texts = ARENA_ARRAY(arena, TokenText, tokenizer->kinds + ROOM);
  tokenizer->words = map_create(arena);
  tokenizer->whole = true;
  for (int32_t i = 0; i < count; i++) {
    TokenText *to = &tokenizer->texts[all[i].rank];
    if (to->bytes) {
      return error_set(error, 1, "%s gives rank %d twice", tokenizer->path, all[i].rank);
    }
    *to = all[i].text;
    map_put_bytes(&tokenizer->words, to->bytes, (size_t)to->length, all[i].rank);
    if (to->length == 1) {
      tokenizer->byte_token[to->bytes[0]] = all[i].rank;
    }
  }
  merges_make(tokenizer, tokenizer->kinds);
  return end_add(tokenizer, count, error);
}
