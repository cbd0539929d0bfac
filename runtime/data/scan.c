// scan.c: pieces of ASCII text, by classes of bytes.
#include "runtime/data/scan.h"

#include <stdbool.h>
#include <string.h>

const char scan_gpt2_pattern[] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
const char scan_llama3_pattern[] =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| "
    "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
const char scan_cl100k_pattern[] =
    "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}++|\\p{N}{1,3}+| "
    "?[^\\s\\p{L}\\p{N}]++[\\r\\n]*+|\\s++$|\\s*[\\r\\n]|\\s+(?!\\S)|\\s";
const char scan_qwen_pattern[] =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| "
    "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

enum { LETTER = 1, DIGIT = 2, SPACE = 4, LINE = 8, OTHER = 16, BEYOND = 32 };

#define L LETTER
#define D DIGIT
#define S SPACE
#define N (SPACE | LINE)
#define O OTHER
#define B BEYOND
static const uint8_t classes[256] = {
    O, O, O, O, O, O, O, O, O, S, N, S, S, N, O, O, O, O, O, O, O, O, O, O, O, O, O, O, O, O, O, O,  // 0x00
    S, O, O, O, O, O, O, O, O, O, O, O, O, O, O, O, D, D, D, D, D, D, D, D, D, D, O, O, O, O, O, O,  // 0x20
    O, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, O, O, O, O, O,  // 0x40
    O, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, O, O, O, O, O,  // 0x60
    B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B,  // 0x80
    B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B,  // 0xa0
    B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B,  // 0xc0
    B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B,  // 0xe0
};
#undef L
#undef D
#undef S
#undef N
#undef O
#undef B

// Behind all bytes of a class, or 0: what follows is not ASCII, or there is nothing.
static size_t run(const uint8_t *text, size_t length, size_t at, uint8_t class) {
  while (at < length && (classes[text[at]] & class)) {
    at++;
  }
  return at < length && classes[text[at]] != BEYOND ? at : 0;
}

// 's and the like. *end 0: there is none. False: the end of what there is is too near.
static bool contraction(const uint8_t *text, size_t length, size_t at, bool any_case, size_t *end) {
  *end = 0;
  if (at + 3 >= length) {
    return false;
  }
  const uint8_t fold = any_case ? 0x20 : 0, one = text[at + 1] | fold, two = text[at + 2] | fold;
  if (text[at + 1] >= 0x80) {
    return false;
  }
  if (one == 's' || one == 't' || one == 'm' || one == 'd') {
    *end = at + 2;
  } else if ((one == 'r' && two == 'e') || (one == 'v' && two == 'e') || (one == 'l' && two == 'l')) {
    *end = at + 3;
  }
  return true;
}

// Spaces ahead of something: all but the last, or a single one.
static size_t spaces(size_t at, size_t end) {
  return end == 0 ? 0 : end - at > 1 ? end - 1 : end;
}

static size_t scan_gpt2(const uint8_t *text, size_t length, size_t at) {
  if (text[at] == '\'') {
    size_t end;
    if (!contraction(text, length, at, false, &end) || end) {
      return end;
    }
  }
  const size_t first = at + (text[at] == ' ');
  if (first >= length) {
    return 0;
  }
  const uint8_t class = classes[text[first]];
  if (class == BEYOND) {
    return 0;
  }
  return class & SPACE ? spaces(at, run(text, length, at, SPACE)) : run(text, length, first, class);
}

static size_t scan_modern(const uint8_t *text, size_t length, size_t at, size_t digits) {
  const uint8_t class = classes[text[at]];
  if (text[at] == '\'') {
    size_t end;
    if (!contraction(text, length, at, true, &end) || end) {
      return end;
    }
  }
  if (at + 1 >= length || class == BEYOND || classes[text[at + 1]] == BEYOND) {
    return 0;
  }
  if (class == LETTER) {
    return run(text, length, at, LETTER);
  }
  if (class == DIGIT) {
    const size_t most = at + digits < length ? at + digits : length;
    size_t end = at;
    while (end < most && classes[text[end]] == DIGIT) {
      end++;
    }
    return end < length && (end == at + digits || classes[text[end]] != BEYOND) ? end : 0;
  }
  if (!(class & LINE) && classes[text[at + 1]] == LETTER) {
    return run(text, length, at + 1, LETTER);
  }
  const size_t first = at + (text[at] == ' ');
  if (classes[text[first]] == OTHER) {
    const size_t end = run(text, length, first, OTHER);
    return end ? run(text, length, end, LINE) : 0;
  }
  const size_t end = run(text, length, at, SPACE);
  size_t line = end;
  while (line > at && !(classes[text[line - 1]] & LINE)) {
    line--;
  }
  return line > at ? line : spaces(at, end);
}

static size_t scan_three(const uint8_t *text, size_t length, size_t at) {
  return scan_modern(text, length, at, 3);
}

static size_t scan_one(const uint8_t *text, size_t length, size_t at) {
  return scan_modern(text, length, at, 1);
}

static const struct {
  const char *name, *pattern;
  Scan *scan;
} known[] = {{"gpt2", scan_gpt2_pattern, scan_gpt2},
             {"llama3", scan_llama3_pattern, scan_three},
             {"cl100k", scan_cl100k_pattern, scan_three},
             {"qwen", scan_qwen_pattern, scan_one}};
enum { KNOWN = sizeof known / sizeof *known };

const char *scan_pattern(const char *name) {
  for (int i = 0; i < KNOWN; i++) {
    if (strcmp(known[i].name, name) == 0) {
      return known[i].pattern;
    }
  }
  return NULL;
}

Scan *scan_of(const char *pattern, size_t length) {
  for (int i = 0; i < KNOWN; i++) {
    if (strlen(known[i].pattern) == length && memcmp(known[i].pattern, pattern, length) == 0) {
      return known[i].scan;
    }
  }
  return NULL;
}
