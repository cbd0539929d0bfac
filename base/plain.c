// plain.c: control characters, of ASCII and those that UTF-8 writes with two bytes.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "base/plain.h"

#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

size_t plain_control(const char *text) {
  const unsigned char first = (unsigned char)text[0];
  if (first == 0xc2) {
    const unsigned char second = (unsigned char)text[1];
    return second >= 0x80 && second <= 0x9f ? 2 : 0;
  }
  return (first > 0 && first < 0x20 && first != '\n' && first != '\t') || first == 0x7f ? 1 : 0;
}

void plain_put(FILE *out, const char *text) {
  while (*text) {
    const size_t control = plain_control(text);
    for (size_t i = 0; i < control; i++) {
      fprintf(out, "\\x%02x", (unsigned char)text[i]);
    }
    if (control == 0) {
      fputc(*text, out);
    }
    text += control > 0 ? control : 1;
  }
}

// What comes in one piece is looked at as one: stdio cuts between pieces, seldom within a character.
static ssize_t plain_write(void *cookie, const char *text, size_t size) {
  FILE *out = cookie;
  char *whole = malloc(size + 1);
  if (!whole) {
    return 0;
  }
  memcpy(whole, text, size);
  whole[size] = '\0';
  plain_put(out, whole);
  free(whole);
  return fflush(out) == 0 ? (ssize_t)size : 0;
}

FILE *plain_open(FILE *out) {
  FILE *made = fopencookie(out, "w", (cookie_io_functions_t){.write = plain_write});
  if (made) {
    setvbuf(made, NULL, _IOLBF, BUFSIZ);
  }
  return made;
}

void plain_mask(char *text) {
  while (*text) {
    const size_t control = plain_control(text);
    for (size_t i = 0; i < control; i++) {
      text[i] = '?';
    }
    text += control > 0 ? control : 1;
  }
}
