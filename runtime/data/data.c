// data.c: files of text and of tokens, mixes of them, and the order of samples.
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

#include "runtime/data/foreign_text.h"
#include "runtime/data/shares.h"
#include "runtime/data/token_file.h"
#include "runtime/io.h"

struct Data {
  int part_count;  // of a mix; 0: what follows is one source
  Data *parts[SHARES_MOST];
  Shares train, validation;  // whose each sample and window is
  TokenFile file;            // of text: its bytes are the tokens
  Tokenizer *tokenizer;      // NULL: bytes, or not known
  TokenList encoded;         // of text with a tokenizer: its tokens
  uint8_t *marks;            // with a tokenizer, of each token: MARK_
  bool text, byte_tokens;    // of a file of tokens: each is a byte
  char *path;
  int fd;
  int32_t kinds;  // tokens are below this; 0: who feeds them must look
  int64_t bytes, tokens;
  int64_t train_tokens, train_windows, validation_windows;
  int64_t sequence;
  int64_t shift_range;  // epoch offsets are in [0, shift_range)
  uint64_t seed;
  double bytes_per_token;
};

static const struct {  // what a recipe can name
  const char *kind, *type;
  bool text;
} kinds[] = {{"text", NULL, true}, {"tokens", NULL, false}, {"tokens_u16", "u16", false}, {"tokens_u32", "u32", false}};
enum { KIND_COUNT = sizeof kinds / sizeof *kinds, BYTE_KINDS = 256 };

enum {              // of a token, for where documents end
  MARK_END = 1,     // one ends with it
  MARK_BLANK = 2,   // it ends with an empty line
  MARK_LINE = 4,    // it is the end of a line, and the token before it too makes an empty one
  MARK_BEGINS = 8,  // it begins with the end of a line
};

enum { ENCODE_PIECE = 1 << 20 };
#define ENCODE_MOST (INT64_C(2) << 30)  // bytes of a text that is encoded when a run begins

// Where a file of the recipe is: the path, or base/path where it is relative and not there.
static bool file_find(const char *what, const char *path, const char *base, char found[PATH_MAX], Error *error) {
  char joined[PATH_MAX] = "";
  const bool there = access(path, F_OK) == 0;
  if (!there && errno == ENOENT && path[0] != '/' && base && *base &&
      snprintf(joined, sizeof joined, "%s/%s", base, path) < (int)sizeof joined && access(joined, F_OK) != 0) {
    return error_set(error, 1, "the %s %s is neither in the working directory nor beside the text (%s)%s", what, path,
                     joined, strcmp(what, "data file") == 0 ? "; --data FILE names another" : "");
  }
  return snprintf(found, PATH_MAX, "%s", *joined ? joined : path) < PATH_MAX ||
         error_set(error, 1, "the path is too long: %s", path);
}

// Data.path and fd are set.
static bool data_find(Data *data, const char *path, const char *base, Error *error) {
  char found[PATH_MAX];
  struct stat info;
  if (!path || !*path) {
    return error_set(error, 1, "the recipe names no data; write `data text(\"corpus.txt\")` or give --data FILE");
  }
  if (!file_find("data file", path, base, found, error)) {
    return false;
  }
  data->fd = open(found, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (data->fd < 0 || fstat(data->fd, &info) != 0) {
    return error_set(error, 1, "cannot read the data file %s: %s", path, strerror(errno));
  }
  if (!S_ISREG(info.st_mode)) {
    return error_set(error, 1, "the data file %s is not a regular file; data is read at random places", path);
  }
  data->path = strdup(found);
  data->bytes = info.st_size;
  return data->path || error_set(error, 3, "no memory");
}

bool data_tokenizer(const char *name, const char *base, Tokenizer **tokenizer, Error *error) {
  char path[PATH_MAX];
  *tokenizer = NULL;
  return !name || strcmp(name, TOKENIZER_BYTES) == 0 || strcmp(name, TOKENIZER_NONE) == 0 ||
         (file_find("tokenizer", name, base, path, error) && tokenizer_open(path, tokenizer, error));
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

static bool marks_set(Data *data, Error *error) {
  const int32_t count = tokenizer_kinds(data->tokenizer);
  data->marks = calloc((size_t)count + 1, 1);
  if (!data->marks) {
    return error_set(error, 3, "no memory");
  }
  for (int32_t token = 0; token < count; token++) {
    int32_t length;
    const char *bytes = (const char *)tokenizer_bytes(data->tokenizer, token, &length);
    if (!bytes || length == 0) {
      continue;
    }
    const bool line = bytes[length - 1] == '\n', blank = line && length > 1 && bytes[length - 2] == '\n';
    data->marks[token] = (uint8_t)((token == tokenizer_end(data->tokenizer) ? MARK_END : 0) | (blank ? MARK_BLANK : 0) |
                                   (line ? MARK_LINE : 0) | (bytes[0] == '\n' ? MARK_BEGINS : 0));
  }
  return true;
}

static bool ends_with(const char *path, const char *ending) {
  const size_t length = strlen(path), end = strlen(ending);
  return length > end && strcmp(path + length - end, ending) == 0;
}

// JSON in the place of text would be learned with all its braces.
static bool json_lines_check(const Data *data, Error *error) {
  char first[64] = "";
  const size_t size = data->bytes < (int64_t)sizeof first - 1 ? (size_t)data->bytes : sizeof first - 1;
  if (!ends_with(data->path, ".jsonl") && !ends_with(data->path, ".ndjson") && !ends_with(data->path, ".json")) {
    return true;
  }
  if (!io_read(data->fd, data->path, 0, first, size, error)) {
    return false;
  }
  const size_t blank = strspn(first, " \t\r\n[");
  return first[blank] != '{' ||
         error_set(
             error, 1,
             "%s is JSON, not text: a model would learn its braces and names. `mdl data encode %s --field text -o "
             "tokens.bin` takes a field of each line; under a name that does not end so it is read as it is",
             data->path, data->path);
}

// The tokens of a text, all of them in memory.
static bool data_encode(Data *data, Error *error) {
  if (data->bytes > ENCODE_MOST) {
    return error_set(error, 1,
                     "%s has %.1f GB, more than is encoded anew for every run; do it once: `mdl data encode %s "
                     "--tokenizer %s -o tokens.bin`, and then `data tokens(\"tokens.bin\", tokenizer = ...);`",
                     data->path, (double)data->bytes / 1e9, data->path, tokenizer_path(data->tokenizer));
  }
  Encoder *encoder = NULL;
  size_t size = ENCODE_PIECE, used = 1;
  char *piece = NULL;
  bool done = encoder_create(data->tokenizer, &encoder, error);
  for (int64_t at = 0; done && at < data->bytes; at += (int64_t)used) {
    size = used == 0 ? 2 * size : ENCODE_PIECE;  // a piece that is longer than that
    const size_t here = data->bytes - at < (int64_t)size ? (size_t)(data->bytes - at) : size;
    char *grown = realloc(piece, size);
    piece = grown ? grown : piece;
    done = (grown || error_set(error, 3, "no memory to encode %s", data->path)) &&
           io_read(data->fd, data->path, at, piece, here, error) &&
           encoder_add(encoder, piece, here, at + (int64_t)here < data->bytes, &used, &data->encoded, error);
  }
  free(piece);
  encoder_destroy(encoder);
  data->file.type = TOKEN_U32;
  data->file.count = data->encoded.count;
  return done;
}

// What the file holds, by the kind of data that the recipe names.
static bool data_read_file(Data *data, int kind, Error *error) {
  if (data->bytes == 0) {
    return error_set(error, 1, "the data file %s is empty", data->path);
  }
  data->text = kinds[kind].text;
  data->kinds = data->tokenizer ? tokenizer_kinds(data->tokenizer) : data->text || data->byte_tokens ? BYTE_KINDS : 0;
  if (data->tokenizer && !marks_set(data, error)) {
    return false;
  }
  if (!data->text) {
    return token_file_read(data->fd, data->path, data->bytes, kinds[kind].type, &data->file, error);
  }
  if (!foreign_text_check(data->fd, data->path, data->bytes, error) || !json_lines_check(data, error)) {
    return false;
  }
  data->file = (TokenFile){.format = "text", .type = TOKEN_BYTE, .count = data->bytes};
  return !data->tokenizer || data_encode(data, error);
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

// Tokens from number `begin` on.
static bool data_tokens(const Data *data, int64_t begin, int64_t count, int32_t *tokens, Error *error) {
  enum { PIECE = 4096 };
  char piece[PIECE];
  const int64_t size = token_bytes(data->file.type), per_piece = PIECE / size;
  if (data->encoded.at) {
    memcpy(tokens, data->encoded.at + begin, sizeof *tokens * (size_t)count);
    return true;
  }
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

// How long tokens are: of a file of tokens as many as are quickly read, from the validation part on.
static bool bytes_count(Data *data, Error *error) {
  enum { PIECE = 1024, MOST = 1 << 20 };
  int32_t tokens[PIECE], length;
  const int64_t first = data->train_tokens < data->tokens ? data->train_tokens : 0;
  int64_t bytes = 0, seen = 0;
  data->bytes_per_token = data->text ? (double)data->bytes / (double)data->tokens : data->byte_tokens ? 1 : NAN;
  for (int64_t at = first; !data->text && data->tokenizer && at < data->tokens && seen < MOST; at += PIECE) {
    const int64_t count = data->tokens - at < PIECE ? data->tokens - at : PIECE;
    if (!data_tokens(data, at, count, tokens, error)) {
      return false;
    }
    for (int64_t i = 0; i < count; i++) {
      tokenizer_bytes(data->tokenizer, tokens[i], &length);
      bytes += length;
    }
    seen += count;
  }
  data->bytes_per_token = seen > 0 ? (double)bytes / (double)seen : data->bytes_per_token;
  return true;
}

static bool source_open(const DataOptions *options, Data **data, Error *error) {
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
  made->byte_tokens = !kinds[kind].text && options->tokenizer && strcmp(options->tokenizer, TOKENIZER_BYTES) == 0;
  if (!data_find(made, named, options->base, error) ||
      !data_tokenizer(options->tokenizer, options->base, &made->tokenizer, error) ||
      !data_read_file(made, kind, error) || !data_split(made, options->validation_fraction, error) ||
      !bytes_count(made, error)) {
    data_close(made);
    return false;
  }
  *data = made;
  return true;
}

// The finaliser of splitmix64: every bit of the result depends on every bit of x.
static uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

// --- Mixes ---

// One source of a mix: a line of its name, weight, kind, tokenizer and path, with tabs between them.
typedef struct {
  char text[4 * PATH_MAX];
  char *field[5];  // name, weight, kind, tokenizer, path
} MixLine;

static bool line_split(const char *line, size_t length, MixLine *out) {
  if (length >= sizeof out->text) {
    return false;
  }
  memcpy(out->text, line, length);
  out->text[length] = '\0';
  char *at = out->text;
  for (int i = 0; i < 5; i++) {
    out->field[i] = at;
    at = strchr(at, '\t');
    if ((i < 4) != (at != NULL)) {
      return false;
    }
    if (at) {
      *at++ = '\0';
    }
  }
  return true;
}

// Sums of the parts, and whose each sample is.
static void mix_finish(Data *data, const double *weights) {
  double windows[SHARES_MOST];
  shares_set(&data->train, weights, data->part_count);
  data->bytes_per_token = 0;
  int64_t weighed = 0;
  for (int i = 0; i < data->part_count; i++) {
    const Data *part = data->parts[i];
    const int64_t weight = part->tokens - part->train_tokens > 0 ? part->tokens - part->train_tokens : 1;
    windows[i] = (double)part->validation_windows;
    data->bytes += part->bytes;
    data->tokens += part->tokens;
    data->train_tokens += part->train_tokens;
    data->train_windows += part->train_windows;
    data->validation_windows += part->validation_windows;
    data->kinds = part->kinds > data->kinds ? part->kinds : data->kinds;
    data->bytes_per_token += part->bytes_per_token * (double)weight;
    weighed += weight;
  }
  data->bytes_per_token /= (double)weighed;
  shares_set(&data->validation, windows, data->part_count);
}

static bool mix_open(const DataOptions *options, Data **data, Error *error) {
  Data *made = calloc(1, sizeof *made);
  MixLine *line = malloc(sizeof *line);
  double weights[SHARES_MOST];
  bool done = (made && line) || error_set(error, 3, "no memory");
  if (made) {
    made->fd = -1;
  }
  for (const char *at = options->path; done && *at;) {
    const size_t length = strcspn(at, "\n");
    const int i = made->part_count;
    DataOptions part = *options;
    char *end = NULL;
    done = (i < SHARES_MOST && line_split(at, length, line) && (weights[i] = strtod(line->field[1], &end)) > 0 &&
            weights[i] <= 1e12 && !*end && strcmp(line->field[2], "mix") != 0) ||
           error_set(error, 1, "the plan names a mix of data that cannot be read");
    if (done) {
      part.kind = line->field[2];
      part.tokenizer = line->field[3];
      part.path = line->field[4];
      part.seed = mix(options->seed + (uint64_t)i);
      done = source_open(&part, &made->parts[i], error);
      made->part_count += done;
    }
    at += length + (at[length] == '\n');
  }
  if (done) {
    done = made->part_count > 0 || error_set(error, 1, "the plan names a mix of no data");
  }
  if (done) {
    mix_finish(made, weights);
    const size_t room = strlen(made->parts[0]->path) + 32;
    made->path = malloc(room);
    done = made->path || error_set(error, 3, "no memory");
    if (done) {
      snprintf(made->path, room, "%s and %d more", made->parts[0]->path, made->part_count - 1);
    }
  }
  free(line);
  if (!done) {
    data_close(made);
    return false;
  }
  *data = made;
  return true;
}

bool data_open(const DataOptions *options, Data **data, Error *error) {
  const bool mixed = options->kind && strcmp(options->kind, "mix") == 0;
  if (!mixed) {
    return source_open(options, data, error);
  }
  if (options->path && strchr(options->path, '\t')) {
    return mix_open(options, data, error);
  }
  DataOptions one = *options;  // --data FILE in its place
  one.kind = "text";
  return source_open(&one, data, error);
}

const Data *data_train_part(const Data *data, int64_t *sample) {
  return data->part_count == 0 ? data : data->parts[shares_find(&data->train, *sample, sample)];
}

const Data *data_validation_part(const Data *data, int64_t *window) {
  return data->part_count == 0 ? data : data->parts[shares_find(&data->validation, *window, window)];
}

void data_close(Data *data) {
  if (!data) {
    return;
  }
  for (int i = 0; i < data->part_count; i++) {
    data_close(data->parts[i]);
  }
  if (data->part_count == 0 && data->fd >= 0) {
    close(data->fd);
  }
  tokenizer_close(data->tokenizer);
  tokens_free(&data->encoded);
  free(data->marks);
  free(data->path);
  free(data);
}

DataFacts data_facts(const Data *data) {
  bool unchecked = !data->text,
       documents = data->text || data->byte_tokens || (data->tokenizer && tokenizer_end(data->tokenizer) >= 0);
  for (int i = 0; i < data->part_count; i++) {
    const DataFacts part = data_facts(data->parts[i]);
    unchecked = part.unchecked || (i > 0 && unchecked);
    documents = part.documents && (i == 0 || documents);
  }
  return (DataFacts){
      .path = data->path,
      .bytes = data->bytes,
      .tokens = data->tokens,
      .train_tokens = data->train_tokens,
      .validation_tokens = data->tokens - data->train_tokens,
      .train_windows = data->train_windows,
      .validation_windows = data->validation_windows,
      .token_kinds = data->kinds,
      .unchecked = unchecked,
      .documents = documents,
      .bytes_per_token = data->bytes_per_token,
  };
}

int data_parts(const Data *data) {
  return data->part_count;
}

const Data *data_part(const Data *data, int index) {
  return data->parts[index];
}

const char *data_tokenizer_path(const Data *data) {
  return data->tokenizer ? tokenizer_path(data->tokenizer) : NULL;
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
  return data_tokens(data, begin, data->sequence + 1, tokens, error);
}

// The tokens from number `begin` on are in range of the model and of the tokenizer that they are said to be of.
static bool tokens_check(const Data *data, int64_t begin, int64_t count, const int32_t *tokens, int64_t bound,
                         Error *error) {
  const int64_t known = (data->tokenizer || data->byte_tokens) && data->kinds < bound ? data->kinds : bound;
  for (int64_t i = 0; i < count; i++) {
    if (tokens[i] >= known && tokens[i] < bound) {
      return error_set(error, 1,
                       "%s: token %lld, at byte %lld, is %u; the tokenizer %s has tokens below %lld: the file is of "
                       "another tokenizer or type",
                       data->path, (long long)(begin + i),
                       (long long)(data->file.begin + (begin + i) * token_bytes(data->file.type)), (unsigned)tokens[i],
                       data->tokenizer ? tokenizer_path(data->tokenizer) : TOKENIZER_BYTES, (long long)known);
    }
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
  for (int i = 0; i < data->part_count; i++) {
    if (!data_check_begin(data->parts[i], bound, error)) {
      return false;
    }
  }
  for (int64_t at = 0; data->part_count == 0 && at < data->tokens && at < MOST; at += PIECE) {
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

static uint8_t marks_of(const Data *data, int32_t token) {
  return token >= 0 && token < data->kinds ? data->marks[token] : 0;
}

bool data_document_begins(const Data *data, const int32_t *tokens, int64_t at) {
  if (at < 1) {
    return false;
  }
  if (data->tokenizer) {
    const uint8_t last = marks_of(data, tokens[at - 1]), before = at > 1 ? marks_of(data, tokens[at - 2]) : 0;
    const bool blank = last & MARK_BLANK || (last & MARK_LINE && last & MARK_BEGINS && before & MARK_LINE);
    return last & MARK_END || (data->text && blank && !(marks_of(data, tokens[at]) & MARK_BEGINS));
  }
  if (tokens[at - 1] == '\0') {
    return data->text || data->byte_tokens;
  }
  return data->text && at >= 2 && tokens[at - 1] == '\n' && tokens[at - 2] == '\n' && tokens[at] != '\n';
}
