// utf8.c: characters of one to four bytes, without surrogates and longer spellings of shorter ones.
#include "base/utf8.h"

#include <string.h>

int utf8_character(const uint8_t *text, size_t length) {
  const uint8_t lead = text[0];
  if (lead < 0x80) {
    return 1;
  }
  const int size = lead >= 0xc2 && lead < 0xe0 ? 2 : (lead & 0xf0) == 0xe0 ? 3 : lead >= 0xf0 && lead < 0xf5 ? 4 : 0;
  const uint8_t least = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
  const uint8_t most = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
  for (int i = 1; i < size; i++) {
    if ((size_t)i >= length) {
      return -1;
    }
    if (text[i] < (i == 1 ? least : 0x80) || text[i] > (i == 1 ? most : 0xbf)) {
      return 0;
    }
  }
  return size;
}

size_t utf8_valid(const uint8_t *text, size_t length) {
  size_t at = 0;
  while (at < length) {
    uint64_t eight;
    while (at + sizeof eight <= length &&
           (memcpy(&eight, text + at, sizeof eight), (eight & 0x8080808080808080u) == 0)) {
      at += sizeof eight;
    }
    const int size = at < length ? utf8_character(text + at, length - at) : 0;
    if (size <= 0) {
      return at;
    }
    at += (size_t)size;
  }
  return at;
}
