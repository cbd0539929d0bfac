// readers_data.c: readers of what is trained on: files of tokens, tokenizers, conversations, JSON lines, packed texts,
// mixes.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/data/chat.h"
#include "runtime/data/data.h"
#include "runtime/data/fingerprint.h"
#include "runtime/data/reader.h"
#include "runtime/data/unpack.h"
#include "tests/fuzz/readers.h"
#include "tests/fuzz/scratch.h"

enum { SEQUENCE = 8, SAMPLES = 8, INDEX_TOKENS = 100, KINDS = 50257 };

static void wrong(const char *what) {
  fprintf(stderr, "%s\n", what);
  abort();
}

// --- data ---

// Samples and validation windows of data, each asked of the source that it is of.
static void windows_played(const Data *data) {
  const DataFacts facts = data_facts(data);
  Error error = {0};
  int32_t window[SEQUENCE + 1];
  uint8_t flags[SEQUENCE + 1];
  for (int64_t i = 0; i < SAMPLES && facts.train_windows > 0; i++) {
    int64_t sample = i;
    const Data *part = data_train_part(data, &sample);
    if (!data_train_window(part, sample, window, &error) || !data_train_flags(part, sample, window, flags, &error)) {
      wrong(error.text);
    }
    data_check_train(part, sample, window, KINDS, &error);
    data_document_begins(part, window, SEQUENCE / 2);
  }
  for (int64_t i = 0; i < SAMPLES && i < facts.validation_windows; i++) {
    int64_t at = i;
    const Data *part = data_validation_part(data, &at);
    if (!data_validation_window(part, at, window, &error) || !data_validation_flags(part, at, window, flags, &error)) {
      wrong(error.text);
    }
    data_check_validation(part, at, window, KINDS, &error);
  }
}

static bool data_played(const DataOptions *options) {
  Data *data = NULL;
  Error error = {0};
  if (!data_open(options, &data, &error)) {
    scratch_answered(false, &error);
    return false;
  }
  windows_played(data);
  for (int i = 0; i < data_set_count(data); i++) {
    const char *name;
    windows_played(data_set(data, i, &name));
  }
  data_check_begin(data, KINDS, &error);
  DataPrint print;
  if (!data_fingerprint(data, &print, &error) || print.data == 0) {
    wrong("data has no fingerprint");
  }
  data_close(data);
  return true;
}

static DataOptions options_of(const char *kind, const char *path) {
  return (DataOptions){.path = path,
                       .kind = kind,
                       .base = ".",
                       .tokenizer = kind[0] == 't' && kind[1] == 'o' ? TOKENIZER_NONE : TOKENIZER_BYTES,
                       .validation_fraction = 0.2,
                       .sequence = SEQUENCE,
                       .seed = 1};
}

bool read_tokens(const uint8_t *bytes, size_t length) {
  static const char *const kinds[] = {"tokens", "tokens_u16", "tokens_u32", "text"};
  const char *path = scratch_file("tokens.bin", bytes, length);
  bool good = false;
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    const DataOptions options = options_of(kinds[i], path);
    good |= data_played(&options) && i < 3;
  }
  return good;
}

bool read_index(const uint8_t *bytes, size_t length) {
  static const uint16_t tokens[INDEX_TOKENS];
  static bool there;
  if (!there) {
    scratch_file("index.bin", tokens, sizeof tokens);
    there = true;
  }
  const DataOptions options = options_of("tokens", scratch_file("index.idx", bytes, length));
  return data_played(&options);
}

bool read_mix(const uint8_t *bytes, size_t length) {
  static const char letters[] = "a text of some words\n\nand of others, which are more or less the same\n\n";
  static char text[8 * sizeof letters];
  if (!text[0]) {
    for (size_t i = 0; i + sizeof letters < sizeof text; i += sizeof letters - 1) {
      memcpy(text + i, letters, sizeof letters);
    }
    scratch_file("a.txt", text, strlen(text));
    scratch_file("b.bin", text, strlen(text));
  }
  char *table = scratch_text(bytes, length), base[IO_PATH_MAX];
  snprintf(base, sizeof base, "%s", scratch_path("a.txt"));
  *strrchr(base, '/') = '\0';
  DataOptions options = options_of("mix", table);
  options.base = base;
  const bool good = data_played(&options);
  free(table);
  return good;
}

// --- tokenizers ---

static const char odd_text[] =
    "The licence's terms, 12345 of them:\r\n\n  \t\tif (x != 0) { return 'LL; }\n\xe6\x97\xa5\xe6\x9c\xac \xff\xfe "
    "\xe6\x97<|endoftext|>aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

// Whole and in pieces; the tokens have texts.
static bool encoded(const Tokenizer *tokenizer) {
  const size_t size = sizeof odd_text - 1;
  TokenList whole = {0}, pieces = {0};
  Encoder *encoder;
  Error error = {0};
  size_t used, step = 7;
  if (!encoder_create(tokenizer, &encoder, &error)) {
    scratch_answered(false, &error);
    return false;
  }
  const bool good = encoder_add(encoder, odd_text, size, false, &used, &whole, &error);
  scratch_answered(good, &error);
  bool again = good;
  for (size_t at = 0; again && at < size; at += used) {
    const size_t here = size - at < step ? size - at : step;
    again = encoder_add(encoder, odd_text + at, here, at + here < size, &used, &pieces, &error);
    step = used ? 7 : 2 * step;
  }
  for (int64_t i = 0; i < whole.count; i++) {
    int32_t length;
    if (!tokenizer_bytes(tokenizer, whole.at[i], &length)) {
      wrong("a token of a text has no text");
    }
  }
  encoder_destroy(encoder);
  tokens_free(&whole);
  tokens_free(&pieces);
  return good;
}

bool read_tokenizer(const uint8_t *bytes, size_t length) {
  Tokenizer *tokenizer = NULL;
  Error error = {0};
  char *text = scratch_text(bytes, length);
  bool good = tokenizer_read("input", text, length, &tokenizer, &error);
  scratch_answered(good, &error);
  if (good) {
    tokenizer_added(tokenizer, "<|endoftext|>");
    good = encoded(tokenizer);
    tokenizer_close(tokenizer);
  }
  free(text);
  return good;
}

// --- conversations ---

// The first line: the options of the source, or nothing. The others: a conversation each.
bool read_chat(const uint8_t *bytes, size_t length) {
  char *text = scratch_text(bytes, length);
  static SourceOptions options;
  Chat *chat = NULL;
  Error error = {0};
  TokenList tokens = {0};
  Buffer flags = {0}, question = {0};
  char *line = text + strcspn(text, "\n");
  const bool more = *line == '\n';
  *line = '\0';
  bool good = source_options(*text ? text : NULL, &options, &error) && chat_create(NULL, &options, &chat, &error);
  scratch_answered(good, &error);
  good = good && chat_question(chat, "be brief", "why?", &question, &error) && more;
  for (int64_t number = 2; good && line < text + length; number++) {
    char *begin = line + 1, *end = memchr(begin, '\n', (size_t)(text + length - begin));
    line = end ? end : text + length;
    good = chat_add(chat, "input", number, begin, (size_t)(line - begin), &tokens, &flags, &error);
    scratch_answered(good, &error);
    if (good && (int64_t)flags.length != tokens.count) {
      wrong("tokens of a conversation have no flags");
    }
  }
  chat_destroy(chat);
  buffer_free(&flags);
  buffer_free(&question);
  tokens_free(&tokens);
  free(text);
  return good;
}

// --- JSON lines ---

static bool take_all(void *context, const char *text, size_t length, bool more, size_t *used, Error *error) {
  size_t *sum = context;
  (void)more;
  (void)error;
  for (size_t i = 0; i < length; i++) {
    *sum += (unsigned char)text[i];
  }
  *used = length;
  return true;
}

bool read_lines(const uint8_t *bytes, size_t length) {
  const char *path = scratch_file("lines.jsonl", bytes, length);
  const ReaderOptions options = {.files = &path, .file_count = 1, .field = "text", .what = "read"};
  ReaderFacts facts;
  Error error = {0};
  size_t sum = 0;
  const bool good = reader_run(&options, take_all, &sum, &facts, &error);
  scratch_answered(good, &error);
  return good && facts.documents > 0;
}

bool read_packed(const uint8_t *bytes, size_t length) {
  enum { MOST = 1 << 20 };  // of what a small file may become
  static uint8_t text[4096];
  const char *path = scratch_file("packed", bytes, length);
  Error error = {0};
  Unpack *file = unpack_open(path, true, &error);
  bool good = file != NULL;
  for (size_t all = 0, got = sizeof text; good && got == sizeof text && all < MOST; all += got) {
    good = unpack_read(file, text, sizeof text, &got, &error);
  }
  unpack_close(file);
  scratch_answered(good, &error);
  return good;
}
