// token_file.c: recognises files of tokens by what they begin with, and checks that they are whole.
#include "runtime/data/token_file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/data/tokenizer.h"
#include "runtime/io.h"

enum { INDEX_HEADER = 34, INDEX_PIECE = 1024, SAMPLE = 256, SAMPLE_NUL = 1 << 16 };

int64_t token_bytes(TokenType type) {
  return type == TOKEN_BYTE ? 1 : type == TOKEN_U16 ? 2 : 4;
}

void token_widen(TokenType type, const void *from, int64_t count, int32_t *tokens) {
  const uint8_t *bytes = from;
  for (int64_t i = 0; i < count; i++) {
    const uint8_t *at = bytes + i * token_bytes(type);
    uint32_t token = at[0];
    if (type != TOKEN_BYTE) {
      token |= (uint32_t)at[1] << 8;
    }
    if (type == TOKEN_U32) {
      token |= (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
    }
    tokens[i] = (int32_t)token;
  }
}

static bool ends_with(const char *path, const char *ending) {
  const size_t length = strlen(path), end = strlen(ending);
  return length > end && strcmp(path + length - end, ending) == 0;
}

bool token_file_path(const char *path, char *tokens, size_t most, Error *error) {
  const int stem = (int)(strlen(path) - (ends_with(path, ".idx") ? strlen(".idx") : 0));
  const int length = snprintf(tokens, most, "%.*s%s", stem, path, path[stem] ? ".bin" : "");
  return length < (int)most || error_set(error, 1, "the path is too long: %s", path);
}

static const char *type_name(TokenType type) {
  return type == TOKEN_BYTE ? "u8" : type == TOKEN_U16 ? "u16" : "u32";
}

static bool type_agrees(const char *path, const char *type, const TokenFile *file, Error *error) {
  return !type || strcmp(type, type_name(file->type)) == 0 ||
         error_set(error, 1, "the recipe says that %s holds tokens of %s, but its %s says %s", path, type,
                   strcmp(file->format, "llm.c") == 0 ? "header of llm.c" : "index", type_name(file->type));
}

// --- llm.c ---

static bool llmc_read(const char *path, int64_t bytes, const int32_t header[LLMC_WORDS], TokenFile *file,
                      Error *error) {
  const bool narrow = header[0] == LLMC_U16;
  const int32_t version = narrow ? LLMC_U16_VERSION : LLMC_U32_VERSION;
  *file = (TokenFile){.format = "llm.c", .type = narrow ? TOKEN_U16 : TOKEN_U32, .begin = LLMC_HEADER};
  file->count = header[2];
  file->tokenizer = (uint64_t)(uint32_t)header[4] << 32 | (uint32_t)header[3];
  if (header[1] != version) {
    return error_set(error, 1, "%s begins like a token file of llm.c, but has version %d at byte 4, not %d", path,
                     header[1], version);
  }
  const int64_t end = LLMC_HEADER + file->count * token_bytes(file->type);
  if (file->count < 0 || end != bytes) {
    return error_set(error, 1,
                     "%s says at byte 8 that it holds %d tokens of %s, which end at byte %lld, but the file ends at "
                     "byte %lld: it is %s",
                     path, header[2], type_name(file->type), (long long)end, (long long)bytes,
                     file->count < 0 || end < bytes ? "another file, or one that was written to twice" : "truncated");
  }
  return true;
}

// --- Megatron ---

static uint64_t get_u64(const uint8_t *at) {
  uint64_t number;
  memcpy(&number, at, sizeof number);
  return number;
}

// Every sequence must lie behind the one before it: tokens are then one row, whatever the sequences.
static bool sequences_check(int fd, const char *path, int64_t sequences, int64_t size, int64_t *bytes, Error *error) {
  uint8_t lengths[INDEX_PIECE * 4], offsets[INDEX_PIECE * 8];
  *bytes = 0;
  for (int64_t at = 0; at < sequences; at += INDEX_PIECE) {
    const int64_t here = sequences - at < INDEX_PIECE ? sequences - at : INDEX_PIECE;
    const int64_t first = INDEX_HEADER + 4 * sequences + 8 * at;
    if (!io_read(fd, path, INDEX_HEADER + 4 * at, lengths, (size_t)here * 4, error) ||
        !io_read(fd, path, first, offsets, (size_t)here * 8, error)) {
      return false;
    }
    for (int64_t i = 0; i < here; i++) {
      int32_t length;
      memcpy(&length, lengths + 4 * i, sizeof length);
      if (length < 0 || get_u64(offsets + 8 * i) != (uint64_t)*bytes) {
        return error_set(error, 1,
                         "%s: sequence %lld, at byte %lld, has length %d and begins at byte %lld of the tokens; the "
                         "one before it ends at byte %lld, and this version reads sequences in a row",
                         path, (long long)(at + i), (long long)(first + 8 * i), length,
                         (long long)get_u64(offsets + 8 * i), (long long)*bytes);
      }
      *bytes += length * size;
    }
  }
  return true;
}

static bool index_type(const char *path, uint8_t code, TokenFile *file, Error *error) {
  if (code != 1 && code != 4 && code != 8) {
    return error_set(error, 1,
                     "%s says at byte 17 that tokens have type %d; this version reads u8 (1), i32 (4) and u16 "
                     "(8)",
                     path, code);
  }
  file->type = code == 1 ? TOKEN_BYTE : code == 4 ? TOKEN_U32 : TOKEN_U16;
  return true;
}

static bool index_check(int fd, const char *path, int64_t index_bytes, const char *tokens, int64_t bytes,
                        TokenFile *file, Error *error) {
  uint8_t header[INDEX_HEADER];
  *file = (TokenFile){.format = "Megatron"};
  if (index_bytes >= INDEX_HEADER && !io_read(fd, path, 0, header, sizeof header, error)) {
    return false;
  }
  if (index_bytes < INDEX_HEADER || memcmp(header, TOKEN_INDEX_MAGIC, sizeof TOKEN_INDEX_MAGIC) != 0) {
    return error_set(error, 1, "%s is no index of Megatron: it does not begin with MMIDIDX", path);
  }
  if (get_u64(header + 9) != 1) {
    return error_set(error, 1, "%s is an index of version %llu, at byte 9; this version reads 1", path,
                     (unsigned long long)get_u64(header + 9));
  }
  if (!index_type(path, header[17], file, error)) {
    return false;
  }
  const uint64_t sequences = get_u64(header + 18), documents = get_u64(header + 26);
  const uint64_t most = (uint64_t)index_bytes / 8;
  const uint64_t wanted = sequences > most || documents > most ? 0 : INDEX_HEADER + 12 * sequences + 8 * documents;
  if (wanted != (uint64_t)index_bytes) {
    return error_set(error, 1,
                     "%s says at byte 18 that it has %llu sequences and %llu marks of documents, but it ends at byte "
                     "%lld: it is truncated or another file",
                     path, (unsigned long long)sequences, (unsigned long long)documents, (long long)index_bytes);
  }
  int64_t reached;
  if (!sequences_check(fd, path, (int64_t)sequences, token_bytes(file->type), &reached, error)) {
    return false;
  }
  file->count = reached / token_bytes(file->type);
  return reached == bytes ||
         error_set(error, 1, "%s ends at byte %lld, but by %s at byte %lld: %s", tokens, (long long)bytes, path,
                   (long long)reached, bytes < reached ? "it is truncated" : "they do not belong together");
}

// The index beside NAME.bin. *found: there is one.
static bool index_read(const char *tokens, int64_t bytes, TokenFile *file, bool *found, Error *error) {
  char path[IO_PATH_MAX];
  int64_t index_bytes;
  int fd;
  *found = false;
  if (!ends_with(tokens, ".bin") || !io_path(path, error, "%.*s.idx", (int)strlen(tokens) - 4, tokens) ||
      io_absent(path)) {
    return true;
  }
  *found = true;
  if (!io_open_sized(path, &fd, &index_bytes, error)) {
    return false;
  }
  const bool done = index_check(fd, path, index_bytes, tokens, bytes, file, error);
  close(fd);
  return done;
}

// --- Raw ---

// Text in the place of tokens: as u16 it would pass for tokens, most of which are in range.
static bool is_text(const uint8_t *bytes, int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    if (bytes[i] > '~' || (bytes[i] < ' ' && bytes[i] != '\n' && bytes[i] != '\t' && bytes[i] != '\r')) {
      return false;
    }
  }
  return count >= 32;
}

// Numbers of another width: every second token is 0, and not all of the others are.
static bool is_wider(const uint8_t *bytes, int64_t count, TokenType type) {
  const int64_t size = token_bytes(type), tokens = count / size;
  bool some = false, second = false;
  for (int64_t i = 0; i < tokens; i++) {
    for (int64_t j = 0; j < size; j++) {
      *(i % 2 ? &second : &some) |= bytes[i * size + j] != 0;
    }
  }
  return tokens >= 16 && some && !second;
}

static bool text_error(const char *path, int64_t sample, const char *type, const char *tokenizer, Error *error) {
  char text[IO_PATH_MAX], word[IO_PATH_MAX], by[IO_PATH_MAX], to[IO_PATH_MAX];
  const char *of = type ? " of " : "", *name = type ? type : "";
  if (!tokenizer) {
    return error_set(error, 1,
                     "%s is text, not tokens%s%s: its first %lld bytes are letters; make tokens of it first, `mdl data "
                     "encode %s -o tokens.bin`, or have the recipe read text: `data text(%s);`",
                     path, of, name, (long long)sample, buffer_word(word, sizeof word, path),
                     buffer_string(text, sizeof text, path));
  }
  const bool plain = strcmp(tokenizer, TOKENIZER_BYTES) == 0;
  return error_set(error, 1,
                   "%s is text, not tokens%s%s: its first %lld bytes are letters; make tokens of it first, `mdl data "
                   "encode %s --tokenizer %s -o tokens.bin`, or have the recipe read text: `data text(%s, tokenizer "
                   "= %s);`",
                   path, of, name, (long long)sample, buffer_word(word, sizeof word, path),
                   plain ? tokenizer : buffer_word(by, sizeof by, tokenizer), buffer_string(text, sizeof text, path),
                   plain ? tokenizer : buffer_string(to, sizeof to, tokenizer));
}

static bool raw_read(const char *path, int64_t bytes, const char *type, const char *tokenizer, const uint8_t *begin,
                     TokenFile *file, Error *error) {
  const int64_t sample = bytes < SAMPLE ? bytes : SAMPLE;
  if (is_text(begin, sample)) {
    return text_error(path, sample, type, tokenizer, error);
  }
  if (!type) {
    char string[IO_PATH_MAX];
    return error_set(
        error, 1,
        "%s is neither a token file of llm.c nor one of Megatron, with its .idx beside it; raw tokens are "
        "read where the recipe says of which type they are, `data tokens(%s, u16);`, and `mdl data encode` "
        "writes files that say it themselves",
        path, buffer_string(string, sizeof string, path));
  }
  *file = (TokenFile){.format = "raw", .type = strcmp(type, "u16") == 0 ? TOKEN_U16 : TOKEN_U32};
  if (memcmp(begin, "\x93NUMPY", 6) == 0) {
    return error_set(error, 1,
                     "%s is an array of numpy.save, with a header ahead of its numbers; write them alone: "
                     "`array.astype(numpy.%s).tofile(\"tokens.bin\")`",
                     path, strcmp(type, "u16") == 0 ? "uint16" : "uint32");
  }
  const int64_t size = token_bytes(file->type);
  if (is_wider(begin, sample, file->type)) {
    return error_set(error, 1,
                     "%s is not of %s: every second token at its beginning is 0, as in numbers of %lld or more bits; "
                     "write it anew, with numpy `array.astype(numpy.%s).tofile(...)`",
                     path, type, (long long)size * 16, size == 2 ? "uint16" : "uint32");
  }
  file->count = bytes / size;
  return bytes % size == 0 ||
         error_set(error, 1, "%s ends at byte %lld, in the middle of a token of %s: it is truncated or of another type",
                   path, (long long)bytes, type);
}

bool token_file_told(const char *path, bool *told, bool *nul, Error *error) {
  const bool index = ends_with(path, ".idx"), tokens = ends_with(path, ".bin");
  char beside[IO_PATH_MAX];
  uint8_t begin[SAMPLE_NUL];
  struct stat info;
  int32_t first = 0;
  size_t look;
  if (!io_read_begin(path, begin, SAMPLE_NUL, &look, error)) {
    return false;
  }
  memcpy(&first, begin, look < sizeof first ? 0 : sizeof first);
  *nul |= memchr(begin, 0, look) != NULL;
  *told = first == LLMC_U16 || first == LLMC_U32 ||
          (look >= sizeof TOKEN_INDEX_MAGIC && memcmp(begin, TOKEN_INDEX_MAGIC, sizeof TOKEN_INDEX_MAGIC) == 0);
  if (*told || !(index || tokens)) {
    return true;
  }
  if (!io_path(beside, error, "%.*s%s", (int)strlen(path) - 4, path, index ? ".bin" : ".idx")) {
    return false;
  }
  *told = stat(beside, &info) == 0;
  return *told || errno == ENOENT || errno == ENOTDIR || io_failed("read", beside, error);
}

bool token_file_read(int fd, const char *path, int64_t bytes, const char *type, const char *tokenizer, TokenFile *file,
                     Error *error) {
  uint8_t begin[SAMPLE] = {0};
  int32_t header[LLMC_WORDS];
  bool indexed;
  if (!io_read(fd, path, 0, begin, (size_t)(bytes < SAMPLE ? bytes : SAMPLE), error)) {
    return false;
  }
  if (memcmp(begin, TOKEN_INDEX_MAGIC, sizeof TOKEN_INDEX_MAGIC) == 0) {
    return error_set(error, 1, "%s is an index of Megatron, not its tokens: give it the name NAME.idx, beside NAME.bin",
                     path);
  }
  if (!index_read(path, bytes, file, &indexed, error)) {
    return false;
  }
  memcpy(header, begin, sizeof header);
  if (indexed) {
    return type_agrees(path, type, file, error);
  }
  if (header[0] == LLMC_U16 || header[0] == LLMC_U32) {
    return llmc_read(path, bytes, header, file, error) && type_agrees(path, type, file, error);
  }
  return raw_read(path, bytes, type, tokenizer, begin, file, error);
}
