// source.c: fields of lines and options, each ended in place.
#include "runtime/data/source.h"

#include <stdlib.h>
#include <string.h>

bool source_line(const char *line, size_t length, SourceLine *out) {
  char **const fields[] = {&out->name, &out->weight, &out->kind, &out->tokenizer, &out->path, &out->options};
  if (length >= sizeof out->text) {
    return false;
  }
  memcpy(out->text, line, length);
  out->text[length] = '\0';
  char *at = out->text;
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
    *fields[i] = at;
    at = at ? strchr(at, '\t') : NULL;
    if (i < 4 && !at) {
      return false;
    }
    if (at) {
      *at++ = '\0';
    }
  }
  return at == NULL;
}

int source_count(const char *table) {
  SourceLine line;
  int count = 0;
  for (const char *at = table; *at; at += strcspn(at, "\n"), at += *at == '\n') {
    count += source_line(at, strcspn(at, "\n"), &line) && strtod(line.weight, NULL) > 0;
  }
  return count;
}

// Undoes the spelling of a value in place, and returns where the next option begins; NULL: it does not end.
static char *value_end(char *value) {
  char *to = value;
  for (char *from = value; *from; from++) {
    if (*from == ';') {
      *to = '\0';
      return from + 1;
    }
    if (*from == '\\') {
      from++;
      *from = (char)(*from == 'n' ? '\n' : *from == 't' ? '\t' : *from == 's' ? ';' : *from);
    }
    if (!*from) {
      return NULL;
    }
    *to++ = *from;
  }
  return NULL;
}

static bool option_set(SourceOptions *out, const char *name, char mark, const char *value) {
  if (strcmp(name, "separator") == 0) {
    out->separator_is = mark == '-' ? SEPARATOR_NONE : mark == '#' ? SEPARATOR_TOKEN : SEPARATOR_TEXT;
    out->separator = value;
    out->separator_token = (int32_t)strtol(value, NULL, 10);
    return true;
  }
  const char **const place = strcmp(name, "template") == 0                   ? &out->template
                             : strcmp(name, "begin") == 0                    ? &out->begin
                             : strcmp(name, SOURCE_MASK) == 0 && mark == '=' ? &out->mask
                                                                             : NULL;
  const bool own = strcmp(name, SOURCE_MASK) == 0 && mark == '#';
  if (place) {
    *place = value;
  }
  out->own_mask |= own;
  return place || own;
}

bool source_options(const char *text, SourceOptions *out, Error *error) {
  out->separator_is = SEPARATOR_DEFAULT;
  out->own_mask = false;
  out->separator = out->template = out->begin = out->mask = NULL;
  if (text && strlen(text) >= sizeof out->text) {
    return error_set(error, 1, "the options of a source of data are longer than %d bytes", SOURCE_OPTIONS_MOST - 1);
  }
  strcpy(out->text, text ? text : "");
  for (char *at = out->text; *at;) {
    char *const mark = at + strcspn(at, "=-#;"), kind = *mark;
    char *const next = kind && kind != ';' ? value_end(mark + 1) : NULL;
    *mark = '\0';
    if (!next || !option_set(out, at, kind, mark + 1)) {
      return error_set(error, 1, "the plan has an option of data that cannot be read: %.80s", at);
    }
    at = next;
  }
  return true;
}
