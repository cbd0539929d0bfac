// alphabet.h: the letters in which a tokenizer.json writes bytes.
//
// Bytes that can be printed stand for themselves, as Unicode's first 256 characters; the others, in their order, are
// the characters from 256 on.
#ifndef MDL_RUNTIME_DATA_ALPHABET_H
#define MDL_RUNTIME_DATA_ALPHABET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

uint16_t alphabet_letter(uint8_t byte);
// The bytes that a text in these letters stands for, into `out` of at least `length` bytes; false: it has other
// characters.
bool alphabet_bytes(const char *text, size_t length, uint8_t *out, int32_t *size);
// The letter of a byte in UTF-8, two bytes at most; returns their number.
int alphabet_put(uint8_t byte, char out[2]);

#endif
