// override.c: how a file is read that takes the place of what a recipe trains on.
#include "runtime/data/override.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buffer.h"
#include "runtime/data/files.h"
#include "runtime/data/find.h"
#include "runtime/data/foreign_text.h"
#include "runtime/data/source.h"
#include "runtime/data/token_file.h"
#include "runtime/io.h"

// The sources to train on.
typedef struct {
  const char *at;  // the line of the one that is the file itself, else of the last; so long
  size_t length;
  int count;
  bool same;          // one is the file itself
  bool tokens;        // all are files of tokens
  bool masked;        // one has a mask
  bool typed, types;  // some say a type of their tokens; not all of these the same
  char type[32];      // their kind
} Replaced;

static bool is_tokens(const char *kind) {
  return strncmp(kind, "tokens", strlen("tokens")) == 0;
}

// Do they name the same file, or the index of one and its tokens?
static bool is_same(const SourceLine *line, const char *file, const char *base) {
  char a[PATH_MAX], b[PATH_MAX];
  Error ignored;
  return find_same(file, line->path, base) ||
         (is_tokens(line->kind) && token_file_path(file, a, sizeof a, &ignored) &&
          token_file_path(line->path, b, sizeof b, &ignored) && find_same(a, b, base));
}

static bool has_mask(const char *options) {
  const size_t length = strlen(SOURCE_MASK);
  for (const char *at = options; at && *at; at += strcspn(at, ";"), at += *at == ';') {
    if (strncmp(at, SOURCE_MASK, length) == 0 && (at[length] == '=' || at[length] == '#')) {
      return true;
    }
  }
  return false;
}

static void replaced_add(Replaced *r, const SourceLine *line, const char *at, size_t length, const char *file,
                         const char *base) {
  const bool typed = is_tokens(line->kind) && strcmp(line->kind, "tokens") != 0;
  r->tokens = is_tokens(line->kind) && (r->count == 0 || r->tokens);
  r->masked |= has_mask(line->options);
  r->types |= typed && r->typed && strcmp(r->type, line->kind) != 0;
  if (typed && !r->typed) {
    snprintf(r->type, sizeof r->type, "%s", line->kind);
  }
  r->typed |= typed;
  if (!r->same) {
    r->at = at;
    r->length = length;
    r->same = is_same(line, file, base);
  }
  r->count++;
}

// Is it packed, or something else that is neither a text nor bare tokens? What is called .bin may begin with anything.
static bool is_foreign(const char *path, Error *error) {
  char begin[FOREIGN_TEXT_LOOK];
  const char *ending = strrchr(path, '.');
  size_t look;
  return !(ending && strcmp(ending, ".bin") == 0) && !(io_read_begin(path, begin, sizeof begin, &look, error) &&
                                                       foreign_text_check(path, begin, look, false, error));
}

// What is no regular file is an error of whoever reads it. alone: it can be nothing but tokens.
static bool look_at(const char *path, bool alone, bool *told, bool *nul, Error *error) {
  struct stat info;
  if (stat(path, &info) != 0) {
    return find_unreadable(DATA_FILE, path, error);
  }
  return !S_ISREG(info.st_mode) ||
         (token_file_told(path, told, nul, error) && (*told || alone || !is_foreign(path, error)));
}

// Does it say that it is a file of tokens? Of a pattern, one of its files. And does one have a NUL among its first
// bytes, as no text does?
static bool look(const char *path, const char *base, bool alone, bool *told, bool *nul, Error *error) {
  char found[PATH_MAX];
  Files files = {.count = 0};
  if (files_pattern(path, base)) {
    bool done = files_find(DATA_FILE, path, base, &files, error);
    for (int i = 0; done && i < files.count && !*told; i++) {
      done = look_at(files.at[i], alone, told, nul, error);
    }
    files_free(&files);
    return done;
  }
  return find_file(DATA_FILE, path, base, found, error) && look_at(found, alone, told, nul, error);
}

// The kind of a file in the place of several sources. A mix that names no tokenizer is of tokens alone.
static bool kind_find(const Replaced *r, const char *file, const char *tokenizer, const char *base, const char **kind,
                      Error *error) {
  const char *const raw = r->typed && !r->types ? r->type : "tokens";
  const bool alone = strcmp(tokenizer, TOKENIZER_NONE) == 0;
  bool told = false, nul = false;
  if (!look(file, base, alone, &told, &nul, error)) {
    return false;
  }
  *kind = told ? "tokens" : alone ? raw : r->tokens && r->typed && nul ? raw : "text";
  return true;
}

// Options for another file: a mask is of one.
static void put_options(Buffer *out, const char *options) {
  for (const char *at = options; at && *at;) {
    const size_t length = strcspn(at, ";") + 1;
    if (strncmp(at, SOURCE_MASK "=", strlen(SOURCE_MASK) + 1) == 0) {
      buffer_text(out, SOURCE_MASK "#;");
    } else {
      buffer_bytes(out, at, at[length - 1] ? length : length - 1);
    }
    at += at[length - 1] ? length : length - 1;
  }
}

static bool put_file(Buffer *out, const Replaced *r, const char *file, const DataOptions *options, Error *error) {
  const char *const tokenizer = options->tokenizer ? options->tokenizer : TOKENIZER_BYTES, *kind;
  SourceLine line;
  if ((r->count == 1 || r->same) && source_line(r->at, r->length, &line)) {
    buffer_format(out, "%s\t%s\t%s\t%s\t%s%s", line.name, r->count == 1 ? line.weight : "1", line.kind, line.tokenizer,
                  file, line.options ? "\t" : "");
    if (r->same) {
      buffer_text(out, line.options ? line.options : "");
    } else {
      put_options(out, line.options);
    }
    buffer_text(out, "\n");
    return true;
  }
  if (!kind_find(r, file, tokenizer, options->base, &kind, error)) {
    return false;
  }
  buffer_format(out, "data\t1\t%s\t%s\t%s%s\n", kind, tokenizer, file,
                r->masked && is_tokens(kind) ? "\t" SOURCE_MASK "#;" : "");
  return true;
}

bool override_describe(const DataOptions *options, char **described, Error *error) {
  char found[PATH_MAX];
  const char *const file = realpath(options->file, found) ? found : options->file;
  if (strpbrk(file, "\t\n")) {  // which end what a table says of a source
    return error_set(error, 1, "a file with a tab or a new line in its name cannot stand in the place of a mix: %s",
                     file);
  }
  Replaced replaced = {.count = 0};
  Buffer text = {0}, others = {0};
  SourceLine line;
  for (const char *at = options->path; *at; at += strcspn(at, "\n"), at += *at == '\n') {
    const size_t length = strcspn(at, "\n");
    if (!source_line(at, length, &line)) {
      break;
    }
    if (strtod(line.weight, NULL) > 0) {
      replaced_add(&replaced, &line, at, length, file, options->base);
    } else {
      buffer_bytes(&others, at, length);
      buffer_text(&others, "\n");
    }
  }
  const bool done = put_file(&text, &replaced, file, options, error);
  buffer_bytes(&text, others.text ? others.text : "", others.length);
  const bool memory = !text.failed && !others.failed;
  buffer_free(&others);
  *described = text.text;
  return done && (memory || error_set(error, 3, "no memory"));
}
