// alphabet.c: bytes as printable characters.
#include "runtime/data/alphabet.h"

enum { FIRST_OTHER = 256, OTHERS = 68 };

static bool plain(unsigned byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xff && byte != 0xad);
}

uint16_t alphabet_letter(uint8_t byte) {
  if (plain(byte)) {
    return byte;
  }
  uint16_t letter = FIRST_OTHER;
  for (unsigned other = 0; other < byte; other++) {
    letter = (uint16_t)(letter + !plain(other));
  }
  return letter;
}

static int alphabet_byte(unsigned letter) {
  if (letter < FIRST_OTHER) {
    return plain(letter) ? (int)letter : -1;
  }
  int left = (int)letter - FIRST_OTHER;
  for (int byte = 0; byte < 256; byte++) {
    if (!plain((unsigned)byte) && left-- == 0) {
      return byte;
    }
  }
  return -1;
}

bool alphabet_bytes(const char *text, size_t length, uint8_t *out, int32_t *size) {
  *size = 0;
  for (size_t at = 0; at < length;) {
    const uint8_t lead = (uint8_t)text[at];
    const bool two = lead >= 0xc2 && lead < 0xe0 && at + 1 < length && ((uint8_t)text[at + 1] & 0xc0) == 0x80;
    const unsigned letter = two ? (unsigned)(lead & 31) << 6 | ((uint8_t)text[at + 1] & 63) : lead;
    const int byte = two || lead < 0x80 ? alphabet_byte(letter) : -1;
    if (byte < 0) {
      return false;
    }
    out[(*size)++] = (uint8_t)byte;
    at += two ? 2 : 1;
  }
  return true;
}

int alphabet_put(uint8_t byte, char out[2]) {
  const uint16_t letter = alphabet_letter(byte);
  if (letter < 0x80) {
    out[0] = (char)letter;
    return 1;
  }
  out[0] = (char)(0xc0 | letter >> 6);
  out[1] = (char)(0x80 | (letter & 63));
  return 2;
}
