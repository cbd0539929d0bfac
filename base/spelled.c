// spelled.c: numbers of other languages by their prefixes, marks and suffixes.
#include "base/spelled.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST = 40 };

static const char *write_one(char to[SPELLED_MAX], double number) {
  snprintf(to, SPELLED_MAX, number == floor(number) && number < 9007199254740992 ? "write `%.0f`" : "write `%.15g`",
           number);
  return to;
}

// 0x100, 0b11, 0o17.
static const char *of_base(const char *text, char to[SPELLED_MAX]) {
  const char mark = (char)tolower((unsigned char)text[1]);
  const int base = text[0] != '0' ? 0 : mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 0;
  char *end = NULL;
  if (base == 0 || !isxdigit((unsigned char)text[2])) {
    return NULL;
  }
  const unsigned long long number = strtoull(text + 2, &end, base);
  return *end ? NULL : write_one(to, (double)number);
}

// 1_000, and 1,000 where every mark stands before three digits; `0,5`, which is a fraction elsewhere.
static const char *of_marks(const char *text, char to[SPELLED_MAX]) {
  char plain[LONGEST + 1];
  size_t length = 0, since = 0;
  int marks = 0, commas = 0;
  bool threes = true;
  for (const char *at = text; *at; at++) {
    const bool comma = *at == ',';
    if (comma || *at == '_') {
      threes = threes && (commas == 0 ? since <= 3 && since > 0 && text[0] != '0' : since == 3);
      commas += comma;
      marks++;
      since = 0;
    } else if (isdigit((unsigned char)*at) || (*at == '.' && commas == 0)) {
      plain[length++] = *at;
      since++;
    } else {
      return NULL;
    }
  }
  plain[length] = '\0';
  if (marks == 0 || (commas > 0 && commas != marks) || since == 0) {
    return NULL;
  }
  if (commas > 0 && !(threes && since == 3)) {
    const char *comma = strchr(text, ',');
    if (commas > 1 || comma == text) {
      return NULL;
    }
    snprintf(to, SPELLED_MAX, "write `%.*s.%s`", (int)(comma - text), text, comma + 1);
    return to;
  }
  return write_one(to, strtod(plain, NULL));
}

// 32k, 4GB, 2MiB, 7b; 10L, 1e-3f.
static const char *of_suffix(const char *text, char to[SPELLED_MAX]) {
  static const char units[] = "kmgt", typed[] = "l u ul ll ull ";
  char *end = NULL, word[8] = "";
  const double number = strtod(text, &end);
  const size_t length = strlen(end);
  if (!isdigit((unsigned char)text[0]) || length == 0 || length > 3 || !isfinite(number)) {
    return NULL;
  }
  for (size_t i = 0; i < length; i++) {
    word[i] = (char)tolower((unsigned char)end[i]);
  }
  const char *unit = strchr(units, word[0]);
  const bool binary = word[1] == 'i', bytes = word[1] == 'b' && !word[2];
  if (unit && (!word[1] || bytes || (binary && (!word[2] || word[2] == 'b')))) {
    const int power = (int)(unit - units) + 1;
    const double tens = number * pow(1000, power), twos = number * pow(1024, power);
    if (binary || twos != floor(twos) || tens != floor(tens)) {
      return write_one(to, binary ? twos : tens);
    }
    snprintf(to, SPELLED_MAX, "write `%.0f`, or `%.0f` where %c is 2^%d", tens, twos, end[0], 10 * power);
    return to;
  }
  if (strcmp(word, "b") == 0) {
    return write_one(to, number * 1e9);
  }
  const char *found = strstr(typed, word);
  const bool fraction = strcspn(text, ".eE") < (size_t)(end - text);  // 2d may be a name
  const bool real = fraction && (strcmp(word, "f") == 0 || strcmp(word, "d") == 0);
  if (real || (found && (found == typed || found[-1] == ' ') && found[length] == ' ')) {
    snprintf(to, SPELLED_MAX, "write `%.*s`", (int)(end - text), text);
    return to;
  }
  return NULL;
}

const char *spelled_number(const char *text, size_t length, bool whole, char to[SPELLED_MAX]) {
  char word[LONGEST + 1];
  if (length == 0 || length > LONGEST || !isdigit((unsigned char)text[0])) {
    return NULL;
  }
  memcpy(word, text, length);
  word[length] = '\0';
  const char *help = of_base(word, to);
  help = help ? help : of_marks(word, to);
  if (help || of_suffix(word, to)) {
    return to;
  }
  char *end = NULL;
  const double number = strtod(word, &end);
  const bool spelled = strpbrk(word, ".eE") && *end == '\0' && number == floor(number) && number < 1e15;
  return whole && spelled ? write_one(to, number) : NULL;
}
