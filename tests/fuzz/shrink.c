// shrink.c: lines, then words between braces and semicolons, then single words are taken away, large parts first.
#include "tests/fuzz/shrink.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/fuzz/trial.h"

typedef enum { UNIT_LINE, UNIT_STATEMENT, UNIT_WORD, UNIT_COUNT } Unit;

// Where the unit that begins at `at` ends.
static size_t unit_end(const char *text, size_t length, size_t at, Unit unit) {
  if (unit == UNIT_WORD) {
    bool word = isalnum((unsigned char)text[at]) || text[at] == '_';
    for (at++; word && at < length && (isalnum((unsigned char)text[at]) || text[at] == '_'); at++) {
    }
    return at;
  }
  for (; at < length; at++) {
    if (unit == UNIT_LINE ? text[at] == '\n' : strchr(";{}", text[at]) != NULL) {
      return at + 1;
    }
  }
  return length;
}

static size_t without(char *out, const char *text, size_t length, size_t begin, size_t end) {
  memcpy(out, text, begin);
  memcpy(out + begin, text + end, length - end);
  return length - (end - begin);
}

size_t shrink(char *text, size_t length, const char *signature, double seconds) {
  char *smaller = malloc(length + 1);
  bool shrunk = smaller != NULL;
  const time_t until = time(NULL) + (time_t)seconds;
  while (shrunk && time(NULL) < until) {
    shrunk = false;
    for (Unit unit = UNIT_LINE; unit < UNIT_COUNT; unit++) {
      for (int count = 32; count > 0; count /= 2) {
        for (size_t at = 0; at < length && time(NULL) < until;) {
          size_t next = unit_end(text, length, at, unit), end = next;
          for (int i = 1; i < count && end < length; i++) {
            end = unit_end(text, length, end, unit);
          }
          size_t left = without(smaller, text, length, at, end);
          Trial trial = trial_run(smaller, left);
          if (trial.failed && strcmp(trial.signature, signature) == 0) {
            memcpy(text, smaller, left);
            length = left;
            shrunk = true;
          } else {
            at = next;
          }
        }
      }
    }
  }
  free(smaller);
  return length;
}
