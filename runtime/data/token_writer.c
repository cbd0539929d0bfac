// token_writer.c: documents are encoded as they are read, and tokens written as they come.
#include "runtime/data/token_writer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "runtime/data/chat.h"
#include "runtime/data/doubts.h"
#include "runtime/data/fingerprint.h"
#include "runtime/data/token_file.h"
#include "runtime/data/tokenizer.h"
#include "runtime/io.h"

enum { FLUSH = 1 << 16, NARROW_KINDS = 65536 };

typedef struct {
  Tokenizer *tokenizer;  // NULL: bytes
  Encoder *encoder;
  TokenList tokens;  // that are not written yet
  TokenType type;
  int32_t end;  // -1: none
  uint8_t *bytes;
  size_t capacity;
  char out[IO_PATH_MAX];   // where links of its name lead
  char path[IO_PATH_MAX];  // of the file until it is whole
  int fd;
  Chat *chat;  // NULL: no conversations
  Buffer flags;
  char mask_out[IO_PATH_MAX], mask[IO_PATH_MAX];
  int mask_fd;
  int64_t count;   // written
  uint64_t print;  // of the tokenizer
  bool raw;
} TokenWriter;

static bool writer_flush(TokenWriter *w, Error *error) {
  const size_t width = (size_t)token_bytes(w->type), size = width * (size_t)w->tokens.count;
  if (size > w->capacity) {
    uint8_t *grown = realloc(w->bytes, size);
    if (!grown) {
      return error_set(error, 3, "no memory for tokens");
    }
    w->bytes = grown;
    w->capacity = size;
  }
  for (int64_t i = 0; i < w->tokens.count; i++) {
    for (size_t b = 0; b < width; b++) {
      w->bytes[width * (size_t)i + b] = (uint8_t)((uint32_t)w->tokens.at[i] >> (8 * b));
    }
  }
  w->count += w->tokens.count;
  w->tokens.count = 0;
  if (!w->raw && w->count > INT32_MAX) {
    return error_set(error, 1,
                     "more than %d tokens, which the header of a token file cannot count; write several files, or one "
                     "without a header: --raw",
                     INT32_MAX);
  }
  const size_t masked = w->flags.length;
  w->flags.length = 0;
  return io_write(NULL, w->fd, w->path, w->bytes, size, error) &&
         (!w->chat || io_write(NULL, w->mask_fd, w->mask, w->flags.text, masked, error));
}

static bool writer_line(void *context, const char *path, int64_t number, const char *line, size_t length,
                        Error *error) {
  TokenWriter *w = context;
  return chat_add(w->chat, path, number, line, length, &w->tokens, &w->flags, error) &&
         (w->tokens.count < FLUSH || writer_flush(w, error));
}

static bool writer_bytes(TokenWriter *w, const char *text, size_t length, Error *error) {
  for (size_t i = 0; i < length; i++) {
    if (!tokens_add(&w->tokens, (uint8_t)text[i])) {
      return error_set(error, 3, "no memory for tokens");
    }
  }
  return true;
}

static bool writer_text(void *context, const char *text, size_t length, bool more, size_t *used, Error *error) {
  TokenWriter *w = context;
  *used = length;
  if (!(w->tokenizer ? encoder_add(w->encoder, text, length, more, used, &w->tokens, error)
                     : writer_bytes(w, text, length, error))) {
    return false;
  }
  if (!more && w->end >= 0 && !tokens_add(&w->tokens, w->end)) {
    return error_set(error, 3, "no memory for tokens");
  }
  return w->tokens.count < FLUSH || writer_flush(w, error);
}

static bool part_taken(const char *out, Error *error) {
  return error_set(error, 1, "another program is writing %s; wait for it or give another name to what is made", out);
}

// A file under a name that is not its own yet, locked while it is written. What stands there without a lock is of a
// program that was ended; a file system without locks is used without one.
static bool part_create(const char *out, char path[IO_PATH_MAX], int *fd, Error *error) {
  struct stat info, named;
  if (!io_path(path, error, "%s" TOKENS_PART, out)) {
    return false;
  }
  const int left = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
  const bool odd = left < 0 && errno != ENOENT;
  bool taken = left >= 0 && flock(left, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  // Nothing but what was opened is removed: another program may have put its own there since.
  if (odd ||
      (left >= 0 && !taken && fstat(left, &info) == 0 && lstat(path, &named) == 0 && info.st_ino == named.st_ino)) {
    unlink(path);
  }
  bool done = !taken && io_create(NULL, path, fd, error);
  taken |= !done && !taken && errno == EEXIST && !io_is_directory(path);
  done = taken ? part_taken(out, error) : done;
  if (done && ((flock(*fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) ||
               (fstat(*fd, &info) == 0 && info.st_nlink == 0))) {  // one that began at the same moment
    close(*fd);
    *fd = -1;
    done = part_taken(out, error);
  }
  if (left >= 0) {
    close(left);
  }
  if (*fd < 0) {
    path[0] = '\0';  // it is not this program's to remove
  }
  return done;
}

// The names of what is made, none of which is read.
static bool writer_names(TokenWriter *w, const TokenWriterOptions *options, const char *tokenizer, Error *error) {
  char mask[IO_PATH_MAX];
  if (!reader_apart(&options->read, tokenizer, options->out, TOKENS_PART, error) ||
      !io_target(options->out, w->out, error) || !reader_apart(&options->read, tokenizer, w->out, TOKENS_PART, error)) {
    return false;
  }
  return !options->chat ||
         (io_path(mask, error, "%s" MASK_ENDING, options->out) &&
          reader_apart(&options->read, tokenizer, mask, TOKENS_PART, error) && io_target(mask, w->mask_out, error) &&
          reader_apart(&options->read, tokenizer, w->mask_out, TOKENS_PART, error));
}

static bool writer_open(TokenWriter *w, const TokenWriterOptions *options, Error *error) {
  const bool bytes = !options->tokenizer || strcmp(options->tokenizer, TOKENIZER_BYTES) == 0;
  const uint8_t header[LLMC_HEADER] = {0};
  if (options->type && strcmp(options->type, "u16") != 0 && strcmp(options->type, "u32") != 0) {
    return error_set(error, 2, "tokens are written as u16 or u32, not as '%s'", options->type);
  }
  if (!writer_names(w, options, bytes ? NULL : options->tokenizer, error)) {
    return false;
  }
  if (!bytes && (!tokenizer_open(options->tokenizer, &w->tokenizer, error) ||
                 !encoder_create(w->tokenizer, &w->encoder, error))) {
    return false;
  }
  if (!fingerprint_tokenizer(bytes ? NULL : options->tokenizer, &w->print, error)) {
    return false;
  }
  const int32_t kinds = bytes ? 256 : tokenizer_kinds(w->tokenizer);
  w->end = bytes ? 0 : tokenizer_end(w->tokenizer);
  w->raw = options->raw;
  w->type = options->type           ? (strcmp(options->type, "u16") == 0 ? TOKEN_U16 : TOKEN_U32)
            : kinds <= NARROW_KINDS ? TOKEN_U16
                                    : TOKEN_U32;
  if (w->type == TOKEN_U16 && kinds > NARROW_KINDS) {
    return error_set(error, 2, "u16 holds tokens up to %d, but those of %s go up to %d; use --type u32",
                     NARROW_KINDS - 1, options->tokenizer, kinds - 1);
  }
  const SourceOptions told = {.template = options->template};
  return (!options->chat || (chat_create(w->tokenizer, &told, &w->chat, error) &&
                             part_create(w->mask_out, w->mask, &w->mask_fd, error))) &&
         part_create(w->out, w->path, &w->fd, error) &&
         (w->raw || io_write(NULL, w->fd, w->path, header, sizeof header, error));
}

static bool name_sync(const char *path, Error *error) {
  return file_sync_name(path) || io_failed("write the directory of", path, error);
}

// The file, which was flushed, in the place that is its own, and only then without its lock.
static bool file_finish(int *fd, const char *path, const char *out, Error *error) {
  Error ignored;
  const bool placed = io_rename(NULL, path, out, error);
  const bool closed = io_close(*fd, out, placed ? error : &ignored);
  *fd = -1;
  return placed && closed && name_sync(out, error);
}

// A mask of other tokens, which is gone also after a power loss before the tokens have their name.
static bool mask_remove(const char *path, Error *error) {
  return unlink(path) == 0 ? name_sync(path, error) : errno == ENOENT || io_failed("replace", path, error);
}

static bool writer_finish(TokenWriter *w, Error *error) {
  const bool narrow = w->type == TOKEN_U16;
  if (!writer_flush(w, error)) {
    return false;
  }
  if (w->count == 0) {
    return error_set(error, 1, "there is no text: the files are empty");
  }
  const int32_t header[LLMC_WORDS] = {narrow ? LLMC_U16 : LLMC_U32, narrow ? LLMC_U16_VERSION : LLMC_U32_VERSION,
                                      (int32_t)w->count, (int32_t)(uint32_t)w->print, (int32_t)(w->print >> 32)};
  if (!w->raw && (lseek(w->fd, 0, SEEK_SET) != 0 || !io_write(NULL, w->fd, w->path, header, sizeof header, error))) {
    return false;
  }
  if (w->chat && chat_answers(w->chat) == 0) {
    return chat_unanswered(w->chat, "what is read", error);
  }
  // Both are on the disk before either has its name: where one has no space, what was there stays as it was. Tokens
  // never stand beside a mask of others: where one cannot be named, or a kill or a power loss comes in between, there
  // is no mask.
  return (!w->chat || io_sync(NULL, w->mask_fd, w->mask, error)) && io_sync(NULL, w->fd, w->path, error) &&
         (!w->chat || mask_remove(w->mask_out, error)) && file_finish(&w->fd, w->path, w->out, error) &&
         (!w->chat || file_finish(&w->mask_fd, w->mask, w->mask_out, error));
}

// A mask that an earlier --chat left beside tokens of the same name is of other tokens.
static void doubt_mask(const TokenWriterOptions *options, Buffer *lines) {
  char mask[IO_PATH_MAX];
  Error ignored;
  if (io_path(mask, &ignored, "%s" MASK_ENDING, options->out) && io_named(mask)) {
    buffer_format(lines, "%s stands beside it, and is of other tokens: remove it\n", mask);
  }
}

bool token_writer_run(const TokenWriterOptions *options, TokenWriterFacts *facts, Error *error) {
  TokenWriter w = {.fd = -1, .mask_fd = -1};
  ReaderOptions read = options->read;
  read.line = options->chat ? writer_line : NULL;
  const bool done = writer_open(&w, options, error) && reader_run(&read, writer_text, &w, &facts->read, error) &&
                    writer_finish(&w, error);
  if (done && w.chat && read.doubts) {
    const ChatOdd odd = chat_odd(w.chat);
    doubts_chat("what is read", &odd, read.doubts);
  }
  if (done && !w.chat && read.doubts) {
    doubt_mask(options, read.doubts);
  }
  facts->read.text_bytes = w.chat ? chat_text_bytes(w.chat) : facts->read.text_bytes;
  facts->tokens = w.count;
  facts->type = w.type == TOKEN_U16 ? "u16" : "u32";
  facts->ends = w.end >= 0;
  if (w.fd >= 0) {
    close(w.fd);
  }
  if (!done && w.path[0]) {
    unlink(w.path);
  }
  if (w.mask_fd >= 0) {
    close(w.mask_fd);
    unlink(w.mask);
  }
  chat_destroy(w.chat);
  buffer_free(&w.flags);
  encoder_destroy(w.encoder);
  tokenizer_close(w.tokenizer);
  tokens_free(&w.tokens);
  free(w.bytes);
  return done;
}
