// plain.c: control characters, of ASCII and those that UTF-8 writes with two bytes.
#include "base/plain.h"

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

void plain_mask(char *text) {
  while (*text) {
    const size_t control = plain_control(text);
    for (size_t i = 0; i < control; i++) {
      text[i] = '?';
    }
    text += control > 0 ? control : 1;
  }
}
