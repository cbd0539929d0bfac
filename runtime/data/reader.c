// reader.c: files are read in pieces that grow where a document needs more at once.
#include "runtime/data/reader.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/file.h"
#include "base/json_guard.h"
#include "base/units.h"
#include "runtime/clock.h"
#include "runtime/data/doubts.h"
#include "runtime/data/foreign_text.h"
#include "runtime/data/unpack.h"
#include "runtime/io.h"

enum { PIECE = 1 << 20, FIELDS_SHOWN = 200 };  // bytes
#define PIECE_MOST ((size_t)1 << 31)

typedef struct {
  const ReaderOptions *options;
  ReaderText *text;
  void *context;
  ReaderFacts *facts;
  Error *error;
  int64_t total;       // bytes of all files; -1: one is a pipe
  double begun, told;  // seconds
  int64_t passed;      // bytes of the files that were read whole, as they are on the disk
  Unpack *file;        // what is read now
  const char *path;    // its name for messages
  char *piece;
  size_t capacity, there;  // bytes of the piece that were read and not taken
  bool ended;              // no more come behind them
  int64_t line;
} Reader;

static void tell(Reader *r) {
  const double now = clock_seconds();
  char done[UNITS_MAX], all[UNITS_MAX], speed[UNITS_MAX];
  if (r->options->screen && now - r->told > 2) {
    const int64_t taken = r->passed + unpack_taken(r->file);
    r->told = now;
    fprintf(r->options->screen, "%s %s%s%s, %s a second\n", r->options->what, units_bytes(done, (double)taken),
            r->total >= 0 ? " of " : "", r->total >= 0 ? units_bytes(all, (double)r->total) : "",
            units_bytes(speed, (double)r->facts->bytes / (now - r->begun)));
    fflush(r->options->screen);
  }
}

// Sets *here to the bytes of a piece, `size` unless the file ends, and `ended` to whether it ends with them. One byte
// behind them is there, or a zero.
static bool fill(Reader *r, size_t size, size_t *here) {
  if (size > PIECE_MOST) {
    return error_set(r->error, 1, "%s has a piece of more than %zu bytes that cannot be cut", r->path, size / 2);
  }
  if (size + 1 > r->capacity) {
    char *grown = realloc(r->piece, size + 1);
    if (!grown) {
      return error_set(r->error, 3, "no memory for a piece of %zu bytes of %s", size, r->path);
    }
    r->piece = grown;
    r->capacity = size + 1;
  }
  if (r->there <= size) {
    size_t got;
    if (!unpack_read(r->file, r->piece + r->there, size + 1 - r->there, &got, r->error)) {
      return false;
    }
    r->there += got;
  }
  r->ended = r->there <= size;
  *here = r->ended ? r->there : size;
  if (r->ended) {
    r->piece[r->there] = '\0';
  }
  return true;
}

static void take(Reader *r, size_t used) {
  memmove(r->piece, r->piece + used, r->there - used);
  r->there -= used;
}

static bool read_text(Reader *r) {
  size_t size = PIECE, used = 1, here;
  for (bool any = false;; any = true) {
    size = used == 0 ? 2 * size : PIECE;
    if (!fill(r, size, &here)) {
      return false;
    }
    if (here == 0) {
      r->facts->documents += any;
      return true;
    }
    if (!r->text(r->context, r->piece, here, !r->ended, &used, r->error)) {
      return false;
    }
    take(r, used);
    r->facts->bytes += (int64_t)used;
    r->facts->text_bytes += (int64_t)used;
    tell(r);
  }
}

// A line of which no text is taken, and which texts it has.
static bool field_missing(const Reader *r, const json_t *root, const json_t *field) {
  Buffer names = {0};
  const char *key;
  json_t *value;
  json_object_foreach((json_t *)(uintptr_t)root, key, value) {
    if (json_is_string(value) && names.length < FIELDS_SHOWN) {
      buffer_format(&names, "%s'%.60s'", names.length > 0 ? ", " : "", key);
    }
  }
  error_set(r->error, 1, "%s:%lld: %s; --field is '%s'%s%s", r->path, (long long)r->line,
            !json_is_object(root) ? "the line is no object {...}"
            : field               ? "the field is no text"
                                  : "the object has no such field",
            r->options->field, names.length > 0 ? ", and what is text in it is " : "",
            names.length > 0 ? names.text : "");
  buffer_free(&names);
  return false;
}

static bool read_line(Reader *r, const char *line, size_t length) {
  json_error_t problem;
  size_t used;
  bool starved;
  r->line++;
  r->facts->bytes += (int64_t)length + 1;
  if (r->line == 1 && length >= 3 && memcmp(line, "\xef\xbb\xbf", 3) == 0) {  // a byte order mark is none of the text
    line += 3;
    length -= 3;
  }
  if (strspn(line, " \t\r") >= length) {
    return true;
  }
  if (r->options->line) {
    r->facts->documents++;
    tell(r);
    return r->options->line(r->context, r->path, r->line, line, length, r->error);
  }
  json_t *root = json_read(line, length, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, &problem, &starved);
  const json_t *field = json_object_get(root, r->options->field);
  bool done = false;
  if (starved) {
    return error_set(r->error, 3, "no memory for line %lld of %s", (long long)r->line, r->path);
  }
  if (!root) {
    error_set(r->error, 1, "%s:%lld: no JSON, at byte %d of the line: %s", r->path, (long long)r->line,
              problem.position, problem.text);
  } else if (!json_is_string(field)) {
    field_missing(r, root, field);
  } else {
    done = r->text(r->context, json_string_value(field), json_string_length(field), false, &used, r->error);
    r->facts->text_bytes += (int64_t)json_string_length(field);
    r->facts->documents++;
  }
  json_decref(root);
  tell(r);
  return done;
}

static bool read_lines(Reader *r) {
  size_t size = PIECE, here;
  for (r->line = 0;;) {
    size_t used = 0;
    if (!fill(r, size, &here)) {
      return false;
    }
    if (here == 0) {
      return true;
    }
    const char behind = r->piece[here];
    r->piece[here] = '\0';
    while (used < here) {
      const char *end = memchr(r->piece + used, '\n', here - used);
      if (!end && !r->ended) {
        break;
      }
      const size_t length = end ? (size_t)(end - r->piece) - used : here - used;
      if (!read_line(r, r->piece + used, length)) {
        return false;
      }
      used += length + (end != NULL);
    }
    r->piece[here] = behind;
    take(r, used);
    size = used == 0 ? 2 * size : PIECE;
  }
}

// Does the name end so, where it is that of a packed file without the ending of that?
static bool ends_with(const char *path, const char *ending) {
  const size_t end = strlen(ending);
  size_t length;
  unpack_ending(path, &length);
  return length > end && strncasecmp(path + length - end, ending, end) == 0;
}

// What is obviously something else than it is read as.
static bool kind_check(const Reader *r, const char *path) {
  if (!r->options->field && !r->options->line && (ends_with(path, ".jsonl") || ends_with(path, ".ndjson"))) {
    return error_set(r->error, 1, "%s is JSON lines; say which field is the text: --field text", path);
  }
  return true;
}

static bool read_file(Reader *r, const char *path) {
  const bool lines = r->options->field || r->options->line;
  size_t here;
  r->file = kind_check(r, path) ? unpack_open(path, r->options->packed, r->error) : NULL;
  if (!r->file) {
    return false;
  }
  r->path = unpack_name(r->file);
  r->there = 0;
  bool done = fill(r, PIECE, &here) && foreign_text_check(r->path, r->piece, here, r->options->packed, r->error);
  if (done && !lines && r->options->doubts) {
    doubts_text(r->path, r->piece, here, r->options->doubts);
  }
  done = done && (lines ? read_lines(r) : read_text(r));
  r->passed += unpack_taken(r->file);
  unpack_close(r->file);
  return done;
}

static bool is_stdin(const ReaderOptions *options, int file) {
  return options->packed && strcmp(options->files[file], UNPACK_STDIN) == 0;
}

// Of file -1, the tokenizer, and the others: is it what is made, or what stands in its place until that is whole?
static bool apart(const ReaderOptions *options, int file, const char *tokenizer, const char *made, const char *out,
                  Error *error) {
  const bool in = file >= 0 && is_stdin(options, file);
  const char *read = file < 0 ? tokenizer : options->files[file];
  return !(in ? file_open_as(STDIN_FILENO, made) : file_same(read, made)) ||
         error_set(error, 2, "%s is read, and -o %s would overwrite it; give another name to what is made",
                   in ? UNPACK_STDIN_NAME : read, out);
}

// It can be read once: named again it would be empty.
static bool one_stdin(const ReaderOptions *options, Error *error) {
  int named = 0;
  for (int i = 0; i < options->file_count; i++) {
    named += is_stdin(options, i);
  }
  return named < 2 || error_set(error, 2, "`-`, standard input, is named %d times, and can be read once", named);
}

bool reader_apart(const ReaderOptions *options, const char *tokenizer, const char *out, const char *ending,
                  Error *error) {
  char temporary[IO_PATH_MAX];
  if (!io_path(temporary, error, "%s%s", out, ending) || !one_stdin(options, error)) {
    return false;
  }
  for (int i = tokenizer ? -1 : 0; i < options->file_count; i++) {
    if (!apart(options, i, tokenizer, out, out, error) || !apart(options, i, tokenizer, temporary, out, error)) {
      return false;
    }
  }
  return true;
}

bool reader_run(const ReaderOptions *options, ReaderText *text, void *context, ReaderFacts *facts, Error *error) {
  Reader r = {.options = options, .text = text, .context = context, .facts = facts, .error = error};
  struct stat info;
  bool done = true;
  *facts = (ReaderFacts){0};
  for (int i = 0; i < options->file_count; i++) {
    const bool known = stat(options->files[i], &info) == 0 && !is_stdin(options, i);
    r.total = known && r.total >= 0 ? r.total + info.st_size : -1;
  }
  r.begun = r.told = clock_seconds();
  for (int i = 0; done && i < options->file_count; i++) {
    done = read_file(&r, options->files[i]);
  }
  free(r.piece);
  return done;
}
