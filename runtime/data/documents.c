// documents.c: what each token says of where documents end, and separators.
#include "runtime/data/documents.h"

#include <stdlib.h>
#include <string.h>

enum {              // of a token, for where documents end
  MARK_END = 1,     // one ends with it
  MARK_LINE = 2,    // it ends with the end of a line
  MARK_BEGINS = 4,  // it begins with the end of a line
};

// The end of a line is "\n", or "\r\n" as other systems write it.
static bool line_begins(int32_t byte) {
  return byte == '\n' || byte == '\r';
}

static bool marks_set(Documents *documents, Error *error) {
  const Tokenizer *tokenizer = documents->tokenizer;
  const int32_t count = tokenizer_kinds(tokenizer);
  documents->marks = calloc((size_t)count + 1, 1);
  if (!documents->marks) {
    return error_set(error, 3, "no memory");
  }
  for (int32_t token = 0; token < count; token++) {
    int32_t length;
    const char *bytes = (const char *)tokenizer_bytes(tokenizer, token, &length);
    documents->marks[token] = token == tokenizer_end(tokenizer) ? MARK_END : 0;  // it may be no text
    if (!bytes || length == 0) {
      continue;
    }
    documents->marks[token] |=
        (uint8_t)((bytes[length - 1] == '\n' ? MARK_LINE : 0) | (line_begins(bytes[0]) ? MARK_BEGINS : 0));
  }
  return true;
}

bool documents_encode(const Tokenizer *tokenizer, const char *text, TokenList *tokens, Error *error) {
  Encoder *encoder = NULL;
  size_t used;
  const int32_t symbol = tokenizer ? tokenizer_symbol(tokenizer, text) : -1;
  if (symbol >= 0) {
    return tokens_add(tokens, symbol) || error_set(error, 3, "no memory for tokens");
  }
  if (tokenizer) {
    const bool done = encoder_create(tokenizer, &encoder, error) &&
                      encoder_add(encoder, text, strlen(text), false, &used, tokens, error);
    encoder_destroy(encoder);
    return done;
  }
  for (const char *c = text; *c; c++) {
    if (!tokens_add(tokens, (uint8_t)*c)) {
      return error_set(error, 3, "no memory for tokens");
    }
  }
  return true;
}

static bool separator_set(Documents *documents, const SourceOptions *options, const char *path, Error *error) {
  documents->told = options->separator_is != SEPARATOR_DEFAULT;
  if (options->separator_is == SEPARATOR_TOKEN) {
    const int32_t kinds = documents->tokenizer ? documents->kinds : documents->bytes ? BYTE_KINDS : INT32_MAX;
    if (options->separator_token >= kinds) {
      return error_set(error, 1,
                       "the separator of %s is the token %d, and %s has tokens below %d: no document would end", path,
                       options->separator_token,
                       documents->tokenizer ? tokenizer_path(documents->tokenizer) : TOKENIZER_BYTES, kinds);
    }
    return tokens_add(&documents->separator, options->separator_token) || error_set(error, 3, "no memory");
  }
  if (options->separator_is != SEPARATOR_TEXT) {
    return true;
  }
  if (!documents->tokenizer && !documents->bytes) {
    return error_set(error, 1,
                     "the separator of %s is text, but nothing says which text its tokens are: name the tokenizer, or "
                     "the number of the token, `separator = 50256`",
                     path);
  }
  if (!documents_encode(documents->tokenizer, options->separator, &documents->separator, error)) {
    return false;
  }
  return !documents->tokenizer || documents->separator.count == 1 ||
         error_set(error, 1,
                   "the separator '%s' of %s is %lld tokens of %s, and might be others inside of text; take text that "
                   "is one token, such as <|endoftext|>",
                   options->separator, path, (long long)documents->separator.count,
                   tokenizer_path(documents->tokenizer));
}

bool documents_set(Documents *documents, const Tokenizer *tokenizer, bool text, bool bytes,
                   const SourceOptions *options, const char *path, Error *error) {
  *documents = (Documents){.tokenizer = tokenizer, .text = text, .bytes = bytes};
  documents->kinds = tokenizer ? tokenizer_kinds(tokenizer) : 0;
  return (!tokenizer || marks_set(documents, error)) && separator_set(documents, options, path, error);
}

void documents_free(Documents *documents) {
  tokens_free(&documents->separator);
  free(documents->marks);
  *documents = (Documents){0};
}

bool documents_known(const Documents *documents) {
  return documents->told || documents->text || documents->bytes ||
         (documents->tokenizer && tokenizer_end(documents->tokenizer) >= 0);
}

int32_t documents_separator(const Documents *documents) {
  return documents->separator.count == 1 ? documents->separator.at[0] : -1;
}

static uint8_t marks_of(const Documents *documents, int32_t token) {
  return token >= 0 && token < documents->kinds ? documents->marks[token] : 0;
}

// True if the text of the tokens before `at` ends with an empty line.
static bool blank_before(const Documents *documents, const int32_t *tokens, int64_t at) {
  char last[3];  // bytes, from the end on
  int count = 0;
  for (int64_t i = at - 1; i >= 0 && count < 3; i--) {
    int32_t length = 1;
    const uint8_t byte = (uint8_t)tokens[i], *bytes = &byte;
    if (documents->tokenizer) {
      bytes = tokenizer_bytes(documents->tokenizer, tokens[i], &length);
    }
    if (!bytes || length == 0) {
      break;
    }
    for (int32_t k = length; k > 0 && count < 3; k--) {
      last[count++] = (char)bytes[k - 1];
    }
  }
  return (count >= 2 && memcmp(last, "\n\n", 2) == 0) || (count == 3 && memcmp(last, "\n\r\n", 3) == 0);
}

bool documents_begin(const Documents *documents, const int32_t *tokens, int64_t at) {
  const int64_t length = documents->separator.count;
  if (at < 1) {
    return false;
  }
  if (documents->told) {
    return length > 0 && at >= length &&
           memcmp(tokens + at - length, documents->separator.at, sizeof *tokens * (size_t)length) == 0;
  }
  if (documents->tokenizer) {
    const uint8_t last = marks_of(documents, tokens[at - 1]);
    return last & MARK_END || (documents->text && last & MARK_LINE &&
                               !(marks_of(documents, tokens[at]) & MARK_BEGINS) && blank_before(documents, tokens, at));
  }
  if (tokens[at - 1] == '\0') {
    return documents->bytes;
  }
  return documents->text && tokens[at - 1] == '\n' && !line_begins(tokens[at]) && blank_before(documents, tokens, at);
}
