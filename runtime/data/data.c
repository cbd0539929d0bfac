// data.c: text files as tokens, and the order of samples.
#include "runtime/data/data.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/data/token_file.h"
#include "runtime/io.h"

struct Data {
  TokenFile file;  // of text: its bytes are the tokens
  char *path;
  int fd;
  int32_t kinds;  // tokens are below this; 0: who feeds them must look
  int64_t bytes, tokens;
  int64_t train_tokens, train_windows, validation_windows;
  int64_t sequence;
  int64_t shift_range;  // epoch offsets are in [0, shift_range)
  uint64_t seed;
};

static const struct {  // what a recipe can name
  const char *kind, *type;
  bool text;
} kinds[] = {{"text", NULL, true}, {"tokens", NULL, false}, {"tokens_u16", "u16", false}, {"tokens_u32", "u32", false}};
enum { KIND_COUNT = sizeof kinds / sizeof *kinds, BYTE_KINDS = 256 };

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

static bool kind_find(const char *kind, int *found, Error *error) {
  for (*found = 0; *found < KIND_COUNT; ++*found) {
    if (strcmp(kinds[*found].kind, kind ? kind : "text") == 0) {
      return true;
    }
  }
  return error_set(error, 1, "the plan asks for data of kind %s; this version reads text and tokens", kind);
}

// What the file holds, by the kind of data that the recipe names.
static bool data_read_file(Data *data, int kind, Error *error) {
  if (data->bytes == 0) {
    return error_set(error, 1, "the data file %s is empty", data->path);
  }
  if (kinds[kind].text) {
    data->file = (TokenFile){.format = "text", .type = TOKEN_BYTE, .count = data->bytes};
    data->kinds = BYTE_KINDS;
    return true;
  }
  return token_file_read(data->fd, data->path, data->bytes, kinds[kind].type, &data->file, error);
}

static bool data_split(Data *data, double fraction, Error *error) {
  const int64_t sequence = data->sequence;
  data->tokens = data->file.count;
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
  char path[PATH_MAX];
  int kind;
  if (!kind_find(options->kind, &kind, error)) {
    return false;
  }
  if (options->sequence < 1) {
    return error_set(error, 1, "a sample must have at least one token, not %lld", (long long)options->sequence);
  }
  const char *named = options->path;
  if (named && !kinds[kind].text) {
    if (!token_file_path(named, path, sizeof path, error)) {
      return false;
    }
    named = path;
  }
  Data *made = calloc(1, sizeof *made);
  if (!made) {
    return error_set(error, 3, "no memory");
  }
  made->fd = -1;
  made->sequence = options->sequence;
  made->seed = options->seed;
  if (!data_find(made, named, options->base, error) || !data_read_file(made, kind, error) ||
      !data_split(made, options->validation_fraction, error)) {
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
      .token_kinds = data->kinds,
      .documents = data->kinds == BYTE_KINDS,
      .bytes_per_token = data->kinds == BYTE_KINDS ? 1 : NAN,
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

// Tokens from number `begin` on.
static bool data_tokens(const Data *data, int64_t begin, int64_t count, int32_t *tokens, Error *error) {
  enum { PIECE = 4096 };
  char piece[PIECE];
  const int64_t size = token_bytes(data->file.type), per_piece = PIECE / size;
  for (int64_t at = 0; at < count; at += per_piece) {
    const int64_t now = count - at < per_piece ? count - at : per_piece;
    const int64_t offset = data->file.begin + (begin + at) * size;
    if (!io_read(data->fd, data->path, offset, piece, (size_t)(now * size), error)) {
      return false;
    }
    token_widen(data->file.type, piece, now, tokens + at);
  }
  return true;
}

static bool data_read(const Data *data, int64_t begin, int32_t *tokens, Error *error) {
  return data_tokens(data, begin, data->sequence + 1, tokens, error);
}

// The tokens from number `begin` on are in range.
static bool tokens_check(const Data *data, int64_t begin, int64_t count, const int32_t *tokens, int64_t bound,
                         Error *error) {
  for (int64_t i = 0; i < count; i++) {
    if (tokens[i] < 0 || tokens[i] >= bound) {
      return error_set(error, 1,
                       "%s: token %lld, at byte %lld, is %u; the model has tokens below %lld (give that axis its size "
                       "by --set), or the file is of another type or tokenizer",
                       data->path, (long long)(begin + i),
                       (long long)(data->file.begin + (begin + i) * token_bytes(data->file.type)), (unsigned)tokens[i],
                       (long long)bound);
    }
  }
  return true;
}

bool data_check_begin(const Data *data, int64_t bound, Error *error) {
  enum { PIECE = 1024, MOST = 1 << 24 };
  int32_t tokens[PIECE];
  for (int64_t at = 0; at < data->tokens && at < MOST; at += PIECE) {
    const int64_t count = data->tokens - at < PIECE ? data->tokens - at : PIECE;
    if (!data_tokens(data, at, count, tokens, error) || !tokens_check(data, at, count, tokens, bound, error)) {
      return false;
    }
  }
  return true;
}

bool data_check_train(const Data *data, int64_t sample, const int32_t *tokens, int64_t bound, Error *error) {
  return tokens_check(data, data_train_begin(data, sample), data->sequence + 1, tokens, bound, error);
}

bool data_check_validation(const Data *data, int64_t window, const int32_t *tokens, int64_t bound, Error *error) {
  return tokens_check(data, data->train_tokens + window * data->sequence, data->sequence + 1, tokens, bound, error);
}

bool data_train_window(const Data *data, int64_t sample, int32_t *tokens, Error *error) {
  return data_read(data, data_train_begin(data, sample), tokens, error);
}

bool data_validation_window(const Data *data, int64_t window, int32_t *tokens, Error *error) {
  return data_read(data, data->train_tokens + window * data->sequence, tokens, error);
}

bool data_document_begins(const Data *data, const int32_t *tokens, int64_t at) {
  if (at < 1 || !data_facts(data).documents) {
    return false;
  }
  if (tokens[at - 1] == '\0') {
    return true;
  }
  return at >= 2 && tokens[at - 1] == '\n' && tokens[at - 2] == '\n' && tokens[at] != '\n';
}
