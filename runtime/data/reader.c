// reader.c: files are read in pieces that grow where a document needs more at once.
#include "runtime/data/reader.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/file.h"
#include "base/json_guard.h"
#include "base/units.h"
#include "runtime/clock.h"
#include "runtime/data/doubts.h"
#include "runtime/data/foreign_text.h"
#include "runtime/io.h"

enum { PIECE = 1 << 20, FIELDS_SHOWN = 200 };  // bytes
#define PIECE_MOST ((size_t)1 << 31)

typedef struct {
  const ReaderOptions *options;
  ReaderText *text;
  void *context;
  ReaderFacts *facts;
  Error *error;
  int64_t total;       // bytes of all files
  double begun, told;  // seconds
  char *piece;
  size_t capacity;
  const char *path;  // what is read now
  int64_t line;
} Reader;

static void tell(Reader *r) {
  const double now = clock_seconds();
  char done[UNITS_MAX], all[UNITS_MAX], speed[UNITS_MAX];
  if (r->options->screen && now - r->told > 2) {
    r->told = now;
    fprintf(r->options->screen, "%s %s of %s, %s a second\n", r->options->what,
            units_bytes(done, (double)r->facts->bytes), units_bytes(all, (double)r->total),
            units_bytes(speed, (double)r->facts->bytes / (now - r->begun)));
    fflush(r->options->screen);
  }
}

// Room for the `here` bytes of a piece that may have `size`.
static bool reserve(Reader *r, size_t size, size_t here) {
  if (size <= PIECE_MOST && here <= r->capacity) {
    return true;
  }
  if (size > PIECE_MOST) {
    return error_set(r->error, 1, "%s has a piece of more than %lld bytes that cannot be cut", r->path,
                     (long long)r->capacity);
  }
  char *grown = realloc(r->piece, here);
  if (!grown) {
    return error_set(r->error, 3, "no memory for a piece of %zu bytes of %s", size, r->path);
  }
  r->piece = grown;
  r->capacity = here;
  return true;
}

static bool read_text(Reader *r, int fd, int64_t bytes) {
  size_t size = PIECE, used = 1;
  for (int64_t at = 0; at < bytes; at += (int64_t)used) {
    size = used == 0 ? 2 * size : PIECE;
    const size_t here = bytes - at < (int64_t)size ? (size_t)(bytes - at) : size;
    if (!reserve(r, size, here) || !io_read(fd, r->path, at, r->piece, here, r->error) ||
        !r->text(r->context, r->piece, here, at + (int64_t)here < bytes, &used, r->error)) {
      return false;
    }
    r->facts->bytes += (int64_t)used;
    r->facts->text_bytes += (int64_t)used;
    tell(r);
  }
  r->facts->documents += bytes > 0;
  return true;
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
    r->facts->text_bytes += (int64_t)length;
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

static bool read_lines(Reader *r, int fd, int64_t bytes) {
  size_t size = PIECE;
  r->line = 0;
  for (int64_t at = 0; at < bytes;) {
    const size_t here = bytes - at < (int64_t)size ? (size_t)(bytes - at) : size;
    size_t used = 0;
    if (!reserve(r, size, here + 1) || !io_read(fd, r->path, at, r->piece, here, r->error)) {
      return false;
    }
    r->piece[here] = '\0';
    while (used < here) {
      const char *end = memchr(r->piece + used, '\n', here - used);
      if (!end && at + (int64_t)here < bytes) {
        break;
      }
      const size_t length = end ? (size_t)(end - r->piece) - used : here - used;
      if (!read_line(r, r->piece + used, length)) {
        return false;
      }
      used += length + (end != NULL);
    }
    size = used == 0 ? 2 * size : PIECE;
    at += (int64_t)used;
  }
  return true;
}

static bool ends_with(const char *path, const char *ending) {
  const size_t length = strlen(path), end = strlen(ending);
  return length > end && strcmp(path + length - end, ending) == 0;
}

// What is obviously something else than it is read as.
static bool kind_check(const Reader *r) {
  if (!r->options->field && !r->options->line && (ends_with(r->path, ".jsonl") || ends_with(r->path, ".ndjson"))) {
    return error_set(r->error, 1, "%s is JSON lines; say which field is the text: --field text", r->path);
  }
  return true;
}

static bool apart(const char *read, const char *made, const char *out, Error *error) {
  return !file_same(read, made) ||
         error_set(error, 2, "%s is read, and -o %s would overwrite it; give another name to what is made", read, out);
}

bool reader_apart(const ReaderOptions *options, const char *tokenizer, const char *out, const char *ending,
                  Error *error) {
  char temporary[IO_PATH_MAX];
  if (!io_path(temporary, error, "%s%s", out, ending)) {
    return false;
  }
  for (int i = tokenizer ? -1 : 0; i < options->file_count; i++) {
    const char *read = i < 0 ? tokenizer : options->files[i];
    if (!apart(read, out, out, error) || !apart(read, temporary, out, error)) {
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
    r.total += stat(options->files[i], &info) == 0 ? info.st_size : 0;
  }
  r.begun = r.told = clock_seconds();
  for (int i = 0; done && i < options->file_count; i++) {
    int fd = -1;
    r.path = options->files[i];
    int64_t bytes;
    done = kind_check(&r) && io_open_sized(r.path, &fd, &bytes, error);
    if (done) {
      done = foreign_text_check(fd, r.path, bytes, error) &&
             (options->field || options->line || !options->doubts ||
              doubts_text(r.path, fd, bytes, options->doubts, error)) &&
             (options->field || options->line ? read_lines(&r, fd, bytes) : read_text(&r, fd, bytes));
      close(fd);
    }
  }
  free(r.piece);
  return done;
}
