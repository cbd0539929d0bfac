// data.c: files of text, chats and tokens, and the order of samples.
#include "runtime/data/data.h"

#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/data/chat.h"
#include "runtime/data/data_internal.h"
#include "runtime/data/find.h"
#include "runtime/data/foreign_text.h"
#include "runtime/data/order.h"
#include "runtime/data/reader.h"
#include "runtime/io.h"

static const struct {  // what a recipe can name
  const char *kind, *type;
  bool text, chat;
} kinds[] = {{"text", NULL, true, false},
             {"chat", NULL, false, true},
             {"tokens", NULL, false, false},
             {"tokens_u16", "u16", false, false},
             {"tokens_u32", "u32", false, false}};
enum { KIND_COUNT = sizeof kinds / sizeof *kinds };

enum { ENCODE_PIECE = 1 << 20 };
#define ENCODE_MOST (INT64_C(2) << 30)  // bytes of a text that is encoded when a run begins

// Data.path and fd are set.
static bool data_find(Data *data, const char *what, const char *path, const char *base, Error *error) {
  char found[PATH_MAX];
  struct stat info;
  if (!path || !*path) {
    return error_set(error, 1, "the recipe names no data; write `data text(\"corpus.txt\")` or give --data FILE");
  }
  if (!find_file(what, path, base, found, error)) {
    return false;
  }
  data->fd = open(found, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (data->fd < 0 || fstat(data->fd, &info) != 0) {
    return find_unreadable(what, path, error);
  }
  if (S_ISDIR(info.st_mode)) {
    const size_t length = strlen(path);
    return error_set(error, 1, "the %s %s is a directory; a pattern names the files in it, such as \"%.*s/*.txt\"",
                     what, path, (int)(path[length - 1] == '/' ? length - 1 : length), path);
  }
  if (!S_ISREG(info.st_mode)) {
    return error_set(error, 1, "the %s %s is not a regular file; data is read at random places", what, path);
  }
  data->path = strdup(found);
  data->bytes = info.st_size;
  return data->path || error_set(error, 3, "no memory");
}

bool data_tokenizer(const char *name, const char *base, Tokenizer **tokenizer, Error *error) {
  char path[PATH_MAX];
  *tokenizer = NULL;
  return !name || strcmp(name, TOKENIZER_BYTES) == 0 || strcmp(name, TOKENIZER_NONE) == 0 ||
         (find_file(TOKENIZER_FILE, name, base, path, error) && tokenizer_open(path, tokenizer, error));
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
  return error_set(error, 1, "the plan asks for data of kind %s; this version reads text, chats and tokens", kind);
}

static bool ends_with(const char *path, const char *ending) {
  const size_t length = strlen(path), end = strlen(ending);
  return length > end && strcasecmp(path + length - end, ending) == 0;
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
  char word[IO_PATH_MAX], string[IO_PATH_MAX];
  return first[blank] != '{' ||
         error_set(
             error, 1,
             "%s is JSON, not text: a model would learn its braces and names. `data chat(%s)` reads conversations, "
             "{\"messages\": ...} in each line; `mdl data encode %s --field text -o tokens.bin` takes a field of each "
             "line; under a name that does not end so it is read as it is",
             data->path, buffer_string(string, sizeof string, data->path), buffer_word(word, sizeof word, data->path));
}

// Is it small enough to be encoded when a run begins?
static bool data_encodes(const Data *data, Error *error) {
  char word[IO_PATH_MAX], tokenizer[IO_PATH_MAX];
  return data->bytes <= ENCODE_MOST ||
         error_set(error, 1,
                   "%s has %.1f GB, more than is encoded anew for every run; do it once: `mdl data encode %s "
                   "--tokenizer %s%s -o tokens.bin`, and then `data tokens(\"tokens.bin\", tokenizer = ...%s);`",
                   data->path, (double)data->bytes / 1e9, buffer_word(word, sizeof word, data->path),
                   data->tokenizer ? buffer_word(tokenizer, sizeof tokenizer, tokenizer_path(data->tokenizer))
                                   : TOKENIZER_BYTES,
                   data->chat ? " --chat" : "", data->chat ? ", mask = \"tokens.bin.mask\"" : "");
}

typedef struct {
  Data *data;
  Chat *chat;
} ChatReader;

static bool chat_line(void *context, const char *path, int64_t number, const char *line, size_t length, Error *error) {
  ChatReader *r = context;
  return chat_add(r->chat, path, number, line, length, &r->data->encoded, &r->data->flags, error);
}

// The tokens of conversations, all of them in memory.
static bool data_converse(Data *data, const SourceOptions *options, Error *error) {
  ChatReader r = {.data = data};
  ReaderFacts facts;
  const char *const file = data->path;
  const ReaderOptions reader = {.files = &file, .file_count = 1, .line = chat_line};
  const bool done = data_encodes(data, error) && chat_create(data->tokenizer, options, &r.chat, error) &&
                    reader_run(&reader, NULL, &r, &facts, error) &&
                    (chat_answers(r.chat) > 0 || chat_unanswered(r.chat, data->path, error));
  data->odd = r.chat ? chat_odd(r.chat) : (ChatOdd){0};
  chat_destroy(r.chat);
  data->file = (TokenFile){.format = "chat", .type = TOKEN_U32, .count = data->encoded.count};
  return done;
}

// The tokens of a text, all of them in memory.
static bool data_encode(Data *data, Error *error) {
  if (!data_encodes(data, error)) {
    return false;
  }
  Encoder *encoder = NULL;
  size_t size = ENCODE_PIECE, used = 1;
  char *piece = NULL;
  bool done = encoder_create(data->tokenizer, &encoder, error);
  for (int64_t at = 0; done && at < data->bytes; at += (int64_t)used) {
    size = used == 0 ? 2 * size : ENCODE_PIECE;  // a piece that is longer than that
    const size_t here = data->bytes - at < (int64_t)size ? (size_t)(data->bytes - at) : size;
    char *grown = realloc(piece, here);
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

// Is there an answer? The first one is found soon, where there are any.
static bool mask_check(const Data *data, Error *error) {
  enum { PIECE = 1 << 16 };
  uint8_t *piece = malloc(PIECE);
  bool done = piece || error_set(error, 3, "no memory to read %s", data->mask_path), any = false;
  for (int64_t at = 0; done && !any && at < data->file.count; at += PIECE) {
    const size_t here = data->file.count - at < PIECE ? (size_t)(data->file.count - at) : PIECE;
    done = io_read(data->mask_fd, data->mask_path, at, piece, here, error);
    for (size_t i = 0; done && !any && i < here; i++) {
      any = piece[i] & TOKEN_ANSWER;
    }
  }
  free(piece);
  return done && (any || error_set(error, 1, "the mask %s has no answers: no byte of it is 1 or 3", data->mask_path));
}

// A byte for each token beside a file of them.
static bool mask_open(Data *data, const SourceOptions *options, const char *base, Error *error) {
  char found[PATH_MAX];
  struct stat info;
  if (options->own_mask) {
    data->own_mask = true;
    if (!io_path(found, error, "%s" MASK_ENDING, data->path)) {
      return false;
    }
    if (io_absent(found)) {
      return true;
    }
  } else if (!options->mask) {
    return true;
  } else if (!find_file("mask", options->mask, base, found, error)) {
    return false;
  }
  data->mask_fd = open(found, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  data->mask_path = strdup(found);
  if (!data->mask_path || data->mask_fd < 0 || fstat(data->mask_fd, &info) != 0) {
    return find_unreadable("mask", found, error);
  }
  if (!S_ISREG(info.st_mode)) {
    return error_set(error, 1, "the mask %s is not a regular file; masks are read at random places", found);
  }
  if (info.st_size != data->file.count) {
    return error_set(
        error, 1,
        "the mask %s has %lld bytes, but %s has %lld tokens; a mask has one byte for each: 1 for a token of "
        "an answer, and 2 more where a document begins",
        found, (long long)info.st_size, data->path, (long long)data->file.count);
  }
  return mask_check(data, error);
}

// What the file holds, by the kind of data that the recipe names.
static bool data_read_file(Data *data, int kind, const SourceOptions *options, const char *base, Error *error) {
  if (data->bytes == 0) {
    return error_set(error, 1, "the data file %s is empty", data->path);
  }
  data->text = kinds[kind].text;
  data->chat = kinds[kind].chat;
  data->kinds = data->tokenizer ? tokenizer_kinds(data->tokenizer) : data->text || data->byte_tokens ? BYTE_KINDS : 0;
  if (data->chat) {
    return data_converse(data, options, error);
  }
  if (!documents_set(&data->documents, data->tokenizer, data->text, data->text || data->byte_tokens, options,
                     data->path, error)) {
    return false;
  }
  if (!data->text) {
    const char *tokenizer = data->tokenizer     ? tokenizer_path(data->tokenizer)
                            : data->byte_tokens ? TOKENIZER_BYTES
                                                : NULL;
    return token_file_read(data->fd, data->path, data->bytes, kinds[kind].type, tokenizer, &data->file, error) &&
           mask_open(data, options, base, error);
  }
  char begin[FOREIGN_TEXT_LOOK];
  const size_t look = data->bytes < FOREIGN_TEXT_LOOK ? (size_t)data->bytes : FOREIGN_TEXT_LOOK;
  if (!io_read(data->fd, data->path, 0, begin, look, error) ||
      !foreign_text_check(data->path, begin, look, false, error) || !json_lines_check(data, error)) {
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

bool data_tokens(const Data *data, int64_t begin, int64_t count, int32_t *tokens, Error *error) {
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

bool data_source_open(const DataOptions *options, Data **data, Error *error) {
  char path[PATH_MAX];
  int kind;
  if (!kind_find(options->kind, &kind, error)) {
    return false;
  }
  if (options->sequence < 1) {
    return error_set(error, 1, "a sample must have at least one token, not %lld", (long long)options->sequence);
  }
  SourceOptions told;
  if (!source_options(options->options, &told, error)) {
    return false;
  }
  const char *named = options->path;
  if (named && !kinds[kind].text && !kinds[kind].chat) {
    if (!token_file_path(named, path, sizeof path, error)) {
      return false;
    }
    named = path;
  }
  Data *made = calloc(1, sizeof *made);
  if (!made) {
    return error_set(error, 3, "no memory");
  }
  made->fd = made->mask_fd = -1;
  made->sequence = options->sequence;
  made->seed = options->seed;
  made->byte_tokens = !kinds[kind].text && options->tokenizer && strcmp(options->tokenizer, TOKENIZER_BYTES) == 0;
  if (!data_find(made, options->held_out ? VALIDATION_FILE : DATA_FILE, named, options->base, error) ||
      !(options->like ? tokenizer_shared(options->like->tokenizer, &made->tokenizer)
                      : data_tokenizer(options->tokenizer, options->base, &made->tokenizer, error)) ||
      !data_read_file(made, kind, &told, options->base, error) ||
      !data_split(made, options->validation_fraction, error)) {
    data_close(made);
    return false;
  }
  *data = made;
  return true;
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
  if (data->fd >= 0) {
    close(data->fd);
  }
  if (data->mask_fd >= 0) {
    close(data->mask_fd);
  }
  for (int i = 0; i < data->set_count; i++) {
    data_close(data->sets[i].data);
    free(data->sets[i].name);
  }
  free(data->parts);
  shares_free(&data->train);
  shares_free(&data->validation);
  free(data->described);
  tokenizer_close(data->tokenizer);
  tokens_free(&data->encoded);
  documents_free(&data->documents);
  buffer_free(&data->flags);
  free(data->mask_path);
  free(data->path);
  free(data);
}

DataFacts data_facts(const Data *data) {
  bool unchecked = !data->text && !data->chat, answers = data->chat || data->mask_fd >= 0,
       documents = answers || documents_known(&data->documents);
  int32_t separator = documents_separator(&data->documents);
  for (int i = 0; i < data->part_count; i++) {
    const DataFacts part = data_facts(data->parts[i]);
    unchecked = part.unchecked || (i > 0 && unchecked);
    documents = part.documents && (i == 0 || documents);
    answers |= part.answers;
    separator = part.separator > separator ? part.separator : separator;
  }
  return (DataFacts){
      .path = data->path,
      .described = data->described,
      .files = data->files,
      .bytes = data->bytes,
      .tokens = data->tokens,
      .train_tokens = data->train_tokens,
      .validation_tokens = data->tokens - data->train_tokens,
      .train_windows = data->train_windows,
      .validation_windows = data->validation_windows,
      .token_kinds = data->kinds,
      .unchecked = unchecked,
      .separator = separator,
      .documents = documents,
      .answers = answers,
  };
}

bool data_documents_hold(const Data *data, const char *input, Error *error) {
  for (int i = 0; i < data->part_count; i++) {
    if (!data_documents_hold(data->parts[i], input, error)) {
      return false;
    }
  }
  return data->part_count > 0 || data_facts(data).documents ||
         error_set(error, 1,
                   "the model has an input '%s', but nothing says where the documents of %s end; name what stands "
                   "between them, `data tokens(..., separator = 50256);`%s",
                   input, data->path,
                   data->tokenizer ? ", since its tokenizer has no token for it"
                                   : ", or the tokenizer that its tokens are of, `tokenizer = \"tokenizer.json\"`");
}

int data_parts(const Data *data) {
  return data->part_count;
}

const Data *data_part(const Data *data, int index) {
  return data->parts[index];
}

bool data_follows(const Data *data) {
  return data->follows;
}

const char *data_tokenizer_path(const Data *data) {
  return data->tokenizer ? tokenizer_path(data->tokenizer) : NULL;
}

const char *data_mask_path(const Data *data) {
  const char *mask = data->mask_path;
  for (int i = 0; i < data->part_count && !mask; i++) {
    mask = data_mask_path(data->parts[i]);
  }
  return mask;
}

int64_t data_train_begin(const Data *data, int64_t sample) {
  uint64_t epoch = (uint64_t)(sample / data->train_windows);
  uint64_t key = order_mix(data->seed ^ order_mix(epoch));
  int64_t window = data_permute(key, data->train_windows, sample % data->train_windows);
  int64_t shift = (int64_t)(order_mix(key ^ 0x5f5f5f5f) % (uint64_t)data->shift_range);
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

// The first `most` tokens of one source, or a part of them of each of a mix.
static bool check_first(const Data *data, int64_t most, int64_t bound, Error *error) {
  enum { PIECE = 1024 };
  int32_t tokens[PIECE];
  for (int i = 0; i < data->part_count; i++) {
    if (!check_first(data->parts[i], most / data->part_count + PIECE, bound, error)) {
      return false;
    }
  }
  for (int64_t at = 0; data->part_count == 0 && at < data->tokens && at < most; at += PIECE) {
    const int64_t count = data->tokens - at < PIECE ? data->tokens - at : PIECE;
    if (!data_tokens(data, at, count, tokens, error) || !tokens_check(data, at, count, tokens, bound, error)) {
      return false;
    }
  }
  return true;
}

bool data_check_begin(const Data *data, int64_t bound, Error *error) {
  enum { MOST = 1 << 24 };
  return check_first(data, MOST, bound, error);
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

int64_t data_token_bytes(const Data *data, int32_t token) {
  int32_t length = data->text || data->byte_tokens || data->chat ? 1 : -1;
  if (data->tokenizer) {
    tokenizer_bytes(data->tokenizer, token, &length);
    length = token == tokenizer_end(data->tokenizer) ? 0 : length;
  }
  return length;
}

bool data_document_begins(const Data *data, const int32_t *tokens, int64_t at) {
  return documents_begin(&data->documents, tokens, at);
}

static bool flags_read(const Data *data, int64_t begin, const int32_t *tokens, uint8_t *flags, Error *error) {
  const int64_t count = data->sequence + 1;
  if (data->chat) {
    memcpy(flags, data->flags.text + begin, (size_t)count);
    return true;
  }
  if (data->mask_fd >= 0 && !io_read(data->mask_fd, data->mask_path, begin, flags, (size_t)count, error)) {
    return false;
  }
  for (int64_t i = 0; i < count; i++) {
    const uint8_t told = data->mask_fd >= 0 ? flags[i] : TOKEN_ANSWER;
    if (told > (TOKEN_ANSWER | TOKEN_BEGINS)) {
      return error_set(error, 1, "the mask %s has the value %d for token %lld; values are from 0 to 3", data->mask_path,
                       told, (long long)(begin + i));
    }
    flags[i] = told | (documents_begin(&data->documents, tokens, i) ? TOKEN_BEGINS : 0);
  }
  return true;
}

bool data_train_flags(const Data *data, int64_t sample, const int32_t *tokens, uint8_t *flags, Error *error) {
  return flags_read(data, data_train_begin(data, sample), tokens, flags, error);
}

bool data_validation_flags(const Data *data, int64_t window, const int32_t *tokens, uint8_t *flags, Error *error) {
  return flags_read(data, data->train_tokens + window * data->sequence, tokens, flags, error);
}
