// encoded.h: the tokens of texts by a tokenizer, handed to it in pieces of any size.
#ifndef MDL_TESTS_ENCODED_H
#define MDL_TESTS_ENCODED_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka.h wants the four above first.
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/data/tokenizer.h"

// plain: as encoder_plain says.
static inline TokenList encoded_as(const Tokenizer *tokenizer, const char *text, size_t length, size_t chunk,
                                   bool plain) {
  Encoder *encoder;
  Error error = {0};
  TokenList tokens = {0};
  size_t used = 0, size = chunk;
  assert_true(encoder_create(tokenizer, &encoder, &error));
  encoder_plain(encoder, plain);
  for (size_t at = 0; at < length; at += used) {
    const size_t here = length - at < size ? length - at : size;
    char *copy = malloc(here);  // of its own, so that reading behind it is noticed
    memcpy(copy, text + at, here);
    if (!encoder_add(encoder, copy, here, at + here < length, &used, &tokens, &error)) {
      fail_msg("%s", error.text);
    }
    free(copy);
    size = used ? chunk : 2 * size;
  }
  encoder_destroy(encoder);
  return tokens;
}

static inline TokenList encoded(const Tokenizer *tokenizer, const char *text, size_t length, size_t chunk) {
  return encoded_as(tokenizer, text, length, chunk, false);
}

static inline void expect_tokens(const Tokenizer *tokenizer, const char *text, const int32_t *wanted, int count) {
  TokenList tokens = encoded(tokenizer, text, strlen(text), 1 << 20);
  for (int i = 0; i < count && i < tokens.count; i++) {
    if (tokens.at[i] != wanted[i]) {
      fail_msg("token %d of '%s' is %d, not %d", i, text, tokens.at[i], wanted[i]);
    }
  }
  assert_int_equal(tokens.count, count);
  tokens_free(&tokens);
}

#define EXPECT(tokenizer, text, ...)                             \
  expect_tokens(tokenizer, text, (const int32_t[]){__VA_ARGS__}, \
                sizeof((const int32_t[]){__VA_ARGS__}) / sizeof(int32_t))

#endif
