// data.c: text files as tokens, and the order of samples.
#include "runtime/data.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/names.h"
#include "runtime/io.h"

typedef struct {  // a kind of data file
  const char *kind, *tokenizer;
  int64_t token_bytes;  // of one token in the file
  int32_t token_kinds;
  void (*widen)(const void *from, int64_t count, int32_t *tokens);
  bool (*document_begins)(const int32_t *tokens, int64_t at);
} DataKind;

struct Data {
  const DataKind *kind;
  char *path;
  int fd;
  int64_t bytes, tokens;
  int64_t train_tokens, train_windows, validation_windows;
  int64_t sequence;
  int64_t shift_range;  // epoch offsets are in [0, shift_range)
  uint64_t seed;
};

static void bytes_widen(const void *from, int64_t count, int32_t *tokens) {
  const uint8_t *bytes = from;
  for (int64_t i = 0; i < count; i++) {
    tokens[i] = bytes[i];
  }
}

static bool bytes_document_begins(const int32_t *tokens, int64_t at) {
  if (at < 1) {
    return false;
  }
  if (tokens[at - 1] == '\0') {
    return true;
  }
  return at >= 2 && tokens[at - 1] == '\n' && tokens[at - 2] == '\n' && tokens[at] != '\n';
}

static const DataKind kinds[] = {
    {"text", "bytes", 1, 256, bytes_widen, bytes_document_begins},
};
enum { KIND_COUNT = sizeof kinds / sizeof *kinds };

static const DataKind *kind_find(const DataOptions *options, Error *error) {
  const char *kind = options->kind ? options->kind : "text";
  const char *tokenizer = options->tokenizer ? options->tokenizer : "bytes";
  char known[256] = "";
  for (int i = 0; i < KIND_COUNT; i++) {
    if (strcmp(kinds[i].kind, kind) == 0 && strcmp(kinds[i].tokenizer, tokenizer) == 0) {
      return &kinds[i];
    }
    size_t used = strlen(known);
    snprintf(known + used, sizeof known - used, "%s%s with tokenizer %s", i ? ", " : "", kinds[i].kind,
             kinds[i].tokenizer);
  }
  error_set(error, 1, "the recipe asks for data of kind %s with tokenizer %s; this version reads: %s", kind, tokenizer,
            known);
  return NULL;
}

// Opens path, or base/path where path is relative and not there. Data.path and fd are set.
static bool data_find(Data *data, const char *path, const char *base, Error *error) {
  char joined[PATH_MAX] = "";
  if (!path || !*path) {
    return error_set(error, 1, "the recipe names no data; write `data text(\"corpus.txt\")` or give --data FILE");
  }
  data->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (data->fd < 0 && errno == ENOENT && path[0] != '/' && base && *base) {
    if (snprintf(joined, sizeof joined, "%s/%s", base, path) < (int)sizeof joined) {
      data->fd = open(joined, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    }
  }
  if (data->fd < 0 && errno == ENOENT && *joined) {
    return error_set(error, 1,
                     "the data file %s is neither in the working directory nor beside the text (%s); --data FILE names "
                     "another",
                     path, joined);
  }
  if (data->fd < 0) {
    return error_set(error, 1, "cannot read the data file %s: %s", path, strerror(errno));
  }
  struct stat info;
  if (fstat(data->fd, &info) != 0) {
    return error_set(error, 1, "cannot read the data file %s: %s", path, strerror(errno));
  }
  if (!S_ISREG(info.st_mode)) {
    return error_set(error, 1, "the data file %s is not a regular file; data is read at random places", path);
  }
  data->path = strdup(*joined ? joined : path);
  data->bytes = info.st_size;
  return data->path || error_set(error, 3, "no memory");
}

static int64_t windows_of(int64_t tokens, int64_t sequence) {
  return tokens > sequence ? (tokens - 1) / sequence : 0;
}

static bool data_split(Data *data, double fraction, Error *error) {
  int64_t size = data->kind->token_bytes, sequence = data->sequence;
  if (data->bytes == 0) {
    return error_set(error, 1, "the data file %s is empty", data->path);
  }
  if (data->bytes % size) {
    return error_set(error, 1, "the data file %s has %lld bytes, which is no multiple of the %lld of a token",
                     data->path, (long long)data->bytes, (long long)size);
  }
  data->tokens = data->bytes / size;
  fraction = !(fraction > 0) ? 0 : fraction > 1 ? 1 : fraction;
  int64_t validation = (int64_t)((double)data->tokens * fraction);
  data->train_tokens = data->tokens - validation;
  data->validation_windows = windows_of(validation, sequence);
  data->train_windows = windows_of(data->train_tokens, sequence);
  if (fraction < 1 && data->train_windows == 0) {
    return error_set(error, 1,
                     "the data file %s has %lld tokens to train on, but one sample takes %lld (seq + 1); use more text "
                     "or a shorter seq",
                     data->path, (long long)data->train_tokens, (long long)sequence + 1);
  }
  // One window is given up so that the shift has its full range.
  if (data->train_windows > 1) {
    data->train_windows = (data->train_tokens - sequence) / sequence;
  }
  int64_t range = data->train_tokens - data->train_windows * sequence;
  data->shift_range = range < 1 ? 1 : range > sequence ? sequence : range;
  return true;
}

bool data_open(const DataOptions *options, Data **data, Error *error) {
  const DataKind *kind = kind_find(options, error);
  if (!kind) {
    return false;
  }
  if (options->sequence < 1) {
    return error_set(error, 1, "a sample must have at least one token, not %lld", (long long)options->sequence);
  }
  Data *made = calloc(1, sizeof *made);
  if (!made) {
    return error_set(error, 3, "no memory");
  }
  made->kind = kind;
  made->fd = -1;
  made->sequence = options->sequence;
  made->seed = options->seed;
  if (!data_find(made, options->path, options->base, error) || !data_split(made, options->validation_fraction, error)) {
    data_close(made);
    return false;
  }
  *data = made;
  return true;
}

void data_close(Data *data) {
  if (!data) {
    return;
  }
  if (data->fd >= 0) {
    close(data->fd);
  }
  free(data->path);
  free(data);
}

DataFacts data_facts(const Data *data) {
  return (DataFacts){
      .path = data->path,
      .bytes = data->bytes,
      .tokens = data->tokens,
      .train_tokens = data->train_tokens,
      .validation_tokens = data->tokens - data->train_tokens,
      .train_windows = data->train_windows,
      .validation_windows = data->validation_windows,
      .token_kinds = data->kind->token_kinds,
      .bytes_per_token = (double)data->bytes / (double)data->tokens,
  };
}

// The finaliser of splitmix64: every bit of the result depends on every bit of x.
static uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

int64_t data_permute(uint64_t key, int64_t count, int64_t index) {
  int half = 1;  // bits of one half of the Feistel network's block, which covers at least `count`
  while (half < 31 && (int64_t)1 << (2 * half) < count) {
    half++;
  }
  uint64_t mask = ((uint64_t)1 << half) - 1;
  uint64_t x = (uint64_t)index;
  do {  // walks the cycle until it is back inside: the block is at most four times as large
    uint64_t left = x >> half, right = x & mask;
    for (uint64_t round = 0; round < 4; round++) {
      uint64_t next = left ^ (mix(key ^ mix(right ^ round << 56)) & mask);
      left = right;
      right = next;
    }
    x = left << half | right;
  } while (x >= (uint64_t)count);
  return (int64_t)x;
}

int64_t data_train_begin(const Data *data, int64_t sample) {
  uint64_t epoch = (uint64_t)(sample / data->train_windows);
  uint64_t key = mix(data->seed ^ mix(epoch));
  int64_t window = data_permute(key, data->train_windows, sample % data->train_windows);
  int64_t shift = (int64_t)(mix(key ^ 0x5f5f5f5f) % (uint64_t)data->shift_range);
  return window * data->sequence + shift;
}

static bool data_read(const Data *data, int64_t begin, int32_t *tokens, Error *error) {
  enum { PIECE = 4096 };
  char piece[PIECE];
  int64_t size = data->kind->token_bytes, per_piece = PIECE / size, count = data->sequence + 1;
  for (int64_t at = 0; at < count; at += per_piece) {
    int64_t now = count - at < per_piece ? count - at : per_piece;
    if (!io_read(data->fd, data->path, (begin + at) * size, piece, (size_t)(now * size), error)) {
      return false;
    }
    data->kind->widen(piece, now, tokens + at);
  }
  return true;
}

bool data_train_window(const Data *data, int64_t sample, int32_t *tokens, Error *error) {
  return data_read(data, data_train_begin(data, sample), tokens, error);
}

bool data_validation_window(const Data *data, int64_t window, int32_t *tokens, Error *error) {
  return data_read(data, data->train_tokens + window * data->sequence, tokens, error);
}

bool data_document_begins(const Data *data, const int32_t *tokens, int64_t at) {
  return data->kind->document_begins(tokens, at);
}
