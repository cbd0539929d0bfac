// data.c: changes tokenizers and files of tokens at random: reading them ends in a tokenizer, in tokens, or in words.
//
//   fuzz_data [--seconds N] [--seed N] TOKENIZER...    hunts; what it is at lies in fuzz_data.input, if it does not end
//
// What can be read encodes a text, whole and in pieces, and gives it back. Meant for a build with MDL_SANITIZE.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/file.h"
#include "runtime/data/data.h"

enum { TEXTS_MOST = 16, INPUT_MOST = 1 << 20 };

typedef struct {
  char *bytes;
  size_t length;
  bool tokens;  // a file of tokens
} Seed;

static Seed seeds[TEXTS_MOST];
static int seed_count;
static uint64_t state;
static long tried, read_well;

static const char odd_text[] =
    "The licence's terms, 12345 of them:\r\n\n  \t\tif (x != 0) { return 'LL; }\n\xe6\x97\xa5\xe6\x9c\xac \xff\xfe "
    "\xe6\x97"
    "<|endoftext|>"
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

static uint64_t draw(uint64_t below) {
  state += 0x9e3779b97f4a7c15u;
  uint64_t x = state;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return (x ^ x >> 31) % below;
}

static void change(char *bytes, size_t *length) {
  static const char *const words[] = {
      "null", "\"Removed\"", "-1",        "4194303",   "\"\"",          "[]",     "{}", "99999999999",
      "true", "(?i:",        "\\\\p{L}+", "\"Split\"", "\"ByteLevel\"", "\\u0000"};
  const size_t at = draw(*length + 1), left = *length - at, size = draw(1 + (left < 40 ? left : 40));
  const char *word = words[draw(sizeof words / sizeof *words)];
  switch (draw(5)) {
    case 0:
      if (left > 0) {
        bytes[at] = (char)draw(256);
      }
      break;
    case 1:  // without some of it
      memmove(bytes + at, bytes + at + size, left - size);
      *length -= size;
      break;
    case 2:  // some of it twice
      if (*length + size < INPUT_MOST) {
        memmove(bytes + at + size, bytes + at, left);
        *length += size;
      }
      break;
    case 3:  // a word in its place
      if (left > strlen(word)) {
        memcpy(bytes + at, word, strlen(word));
      }
      break;
    default:
      *length = draw(20) == 0 ? at : *length;
  }
}

static void fail(const char *what) {
  fprintf(stderr, "fuzz_data: %s; the input is fuzz_data.input\n", what);
  exit(1);
}

static void encode(const Tokenizer *tokenizer) {
  const size_t size = sizeof odd_text - 1;
  TokenList whole = {0}, pieces = {0};
  Encoder *encoder;
  Error error = {0};
  size_t used, step = 7;
  if (!encoder_create(tokenizer, &encoder, &error)) {
    return;
  }
  const bool good = encoder_add(encoder, odd_text, size, false, &used, &whole, &error);
  bool again = good;
  for (size_t at = 0; again && at < size; at += used) {
    const size_t here = size - at < step ? size - at : step;
    again = encoder_add(encoder, odd_text + at, here, at + here < size, &used, &pieces, &error);
    step = used ? 7 : 2 * step;
  }
  for (int64_t i = 0; i < whole.count; i++) {
    int32_t length;
    if (!tokenizer_bytes(tokenizer, whole.at[i], &length)) {
      fail("a token of a text has no text");
    }
  }
  read_well += good;
  encoder_destroy(encoder);
  tokens_free(&whole);
  tokens_free(&pieces);
}

static void try_tokenizer(const char *bytes, size_t length) {
  Tokenizer *tokenizer = NULL;
  Error error = {0};
  char *copy = malloc(length + 1);  // of its own size
  if (!copy) {
    abort();
  }
  memcpy(copy, bytes, length);
  copy[length] = '\0';
  if (tokenizer_read("input", copy, length, &tokenizer, &error)) {
    encode(tokenizer);
    tokenizer_close(tokenizer);
  } else if (error.status == 0 || !error.text[0]) {
    fail("refused without words");
  }
  free(copy);
}

static void try_tokens(void) {
  static const char *const kinds[] = {"tokens", "tokens_u16", "tokens_u32"};
  DataOptions options = {.path = "fuzz_data.input", .kind = kinds[draw(3)], .validation_fraction = 0.1, .sequence = 8};
  Data *data = NULL;
  Error error = {0};
  int32_t window[9];
  if (!data_open(&options, &data, &error)) {
    if (error.status == 0 || !error.text[0]) {
      fail("refused without words");
    }
    return;
  }
  for (int64_t sample = 0; sample < 20; sample++) {
    if (!data_train_window(data, sample, window, &error)) {
      fail(error.text);
    }
  }
  data_check_begin(data, 50257, &error);
  read_well++;
  data_close(data);
}

static void seed_add(char *bytes, size_t length, bool tokens) {
  if (bytes && seed_count < TEXTS_MOST && length < INPUT_MOST / 2) {
    seeds[seed_count++] = (Seed){bytes, length, tokens};
  }
}

// A rank file and a token file of llm.c.
static void seeds_make(void) {
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  Buffer ranks = {0};
  for (int byte = 0; byte < 256; byte++) {
    buffer_format(&ranks, "%c%c== %d\n", digits[byte >> 2], digits[(byte & 3) << 4], byte);
  }
  buffer_text(&ranks, "dGg= 256\ndGhl 257\nIHRoZQ== 258\nYWE= 259\nYWFh 260\n");
  seed_add(ranks.text, ranks.length, false);
  int32_t *header = calloc(1, 1024 + 400);
  if (header) {
    header[0] = 20240520;
    header[1] = 1;
    header[2] = 200;
  }
  seed_add((char *)header, 1024 + 400, true);
}

static void input_write(const char *bytes, size_t length) {
  FILE *file = fopen("fuzz_data.input", "w");
  if (!file || fwrite(bytes, 1, length, file) != length || fclose(file) != 0) {
    abort();
  }
}

int main(int argc, char **argv) {
  double seconds = 10;
  static char bytes[INPUT_MOST];
  FileError error;
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--seconds") == 0 && i + 1 < argc) {
      seconds = strtod(argv[++i], NULL);
    } else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc) {
      state = strtoull(argv[++i], NULL, 10);
    } else {
      size_t length = 0;
      seed_add(file_read(argv[i], &length, &error), length, false);
    }
  }
  seeds_make();
  for (const time_t begun = time(NULL); difftime(time(NULL), begun) < seconds; tried++) {
    const Seed *seed = &seeds[draw((uint64_t)seed_count)];
    size_t length = seed->length;
    memcpy(bytes, seed->bytes, length);
    for (uint64_t changes = draw(6); changes > 0; changes--) {
      change(bytes, &length);
    }
    input_write(bytes, length);
    if (seed->tokens) {
      try_tokens();
    } else {
      try_tokenizer(bytes, length);
    }
  }
  remove("fuzz_data.input");
  for (int i = 0; i < seed_count; i++) {
    free(seeds[i].bytes);
  }
  printf("%ld inputs, %ld of them read\n", tried, read_well);
  return read_well > 0 ? 0 : 1;
}
