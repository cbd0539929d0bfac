// diag.c: collecting diagnostics and showing them as text or JSON.
#include "base/diag.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/json_guard.h"

enum { DIAG_LIMIT = 100, TAB_WIDTH = 4, SNIPPET_WIDTH = 160, SNIPPET_BEFORE = 60, GUTTER = 5 };

typedef struct {
  const char *code, *title;
} ErrorInfo;

static const ErrorInfo *error_info(ErrorCode code) {
  static const ErrorInfo infos[] = {
#define ERROR_CODE(name, text) {#name, text},
#include "base/errors.def"
#undef ERROR_CODE
  };
  static const ErrorInfo unknown = {"E???", "an unknown code"};
  return (unsigned)code < ERROR_CODE_COUNT ? &infos[code] : &unknown;
}

const char *error_code_name(ErrorCode code) {
  return error_info(code)->code;
}

const char *error_code_title(ErrorCode code) {
  return error_info(code)->title;
}

bool error_code_find(const char *name, ErrorCode *code) {
  for (int i = 0; i < ERROR_CODE_COUNT; i++) {
    if (strcmp(error_code_name((ErrorCode)i), name) == 0) {
      *code = (ErrorCode)i;
      return true;
    }
  }
  return false;
}

// ---- Collecting

Diag *diag_create(Arena *arena) {
  Diag *diag = ARENA_NEW(arena, Diag);
  diag->arena = arena;
  return diag;
}

int diag_add_source(Diag *diag, const char *path, const char *text, size_t length) {
  uint32_t kept = length < UINT32_MAX ? (uint32_t)length : UINT32_MAX - 1;
  array_push(diag->arena, &diag->sources, ((Source){path, text, kept, false}));
  return diag->sources.count - 1;
}

bool diag_bug(const Diag *diag) {
  for (int i = 0; i < diag->all.count; i++) {
    if (diag->all.at[i].code == E099) {
      return true;
    }
  }
  return false;
}

static const char *format_text(Arena *arena, const char *format, va_list args) {
  va_list again;
  va_copy(again, args);
  int length = vsnprintf(NULL, 0, format, args);
  char *text = arena_alloc(arena, (size_t)length + 1);
  vsnprintf(text, (size_t)length + 1, format, again);
  va_end(again);
  return text;
}

static Diagnostic *diag_add(Diag *diag, Severity severity, ErrorCode code, Span span, const char *message) {
  diag->reports += severity == SEVERITY_ERROR;
  const Diagnostic diagnostic = {severity, code, span, message, NULL, NULL, SPAN_NONE, NULL};
  if (severity == SEVERITY_WARNING && diag->allowed[code]) {
    return arena_copy(diag->arena, &diagnostic, sizeof diagnostic);  // never shown
  }
  for (int i = 0; i < diag->all.count; i++) {
    Diagnostic *other = &diag->all.at[i];
    if (other->code == code && other->severity == severity && other->span.file == span.file &&
        other->span.begin == span.begin && other->span.end == span.end &&
        (span.file >= 0 || strcmp(other->message, message) == 0)) {
      return other;
    }
  }
  int *count = severity == SEVERITY_ERROR     ? &diag->errors
               : severity == SEVERITY_WARNING ? &diag->warnings
                                              : &diag->notes;
  if ((*count)++ >= (diag->limit > 0 ? diag->limit : DIAG_LIMIT)) {
    return arena_copy(diag->arena, &diagnostic, sizeof diagnostic);  // counted, but never shown
  }
  array_push(diag->arena, &diag->all, diagnostic);
  return &diag->all.at[diag->all.count - 1];
}

Diagnostic *diag_error(Diag *diag, ErrorCode code, Span span, const char *format, ...) {
  va_list args;
  va_start(args, format);
  const char *message = format_text(diag->arena, format, args);
  va_end(args);
  return diag_add(diag, SEVERITY_ERROR, code, span, message);
}

Diagnostic *diag_warning(Diag *diag, ErrorCode code, Span span, const char *format, ...) {
  va_list args;
  va_start(args, format);
  const char *message = format_text(diag->arena, format, args);
  va_end(args);
  return diag_add(diag, SEVERITY_WARNING, code, span, message);
}

Diagnostic *diag_note(Diag *diag, ErrorCode code, Span span, const char *format, ...) {
  va_list args;
  va_start(args, format);
  const char *message = format_text(diag->arena, format, args);
  va_end(args);
  return diag_add(diag, SEVERITY_NOTE, code, span, message);
}

DiagMark diag_mark(const Diag *diag) {
  return (DiagMark){diag->all.count, diag->errors, diag->warnings, diag->notes, diag->reports};
}

void diag_rewind(Diag *diag, DiagMark mark) {
  diag->all.count = mark.count;
  diag->errors = mark.errors;
  diag->warnings = mark.warnings;
  diag->notes = mark.notes;
  diag->reports = mark.reports;
}

void diag_label(Diag *diag, Diagnostic *diagnostic, const char *format, ...) {
  va_list args;
  va_start(args, format);
  diagnostic->label = format_text(diag->arena, format, args);
  va_end(args);
}

void diag_help(Diag *diag, Diagnostic *diagnostic, const char *format, ...) {
  va_list args;
  va_start(args, format);
  diagnostic->help = format_text(diag->arena, format, args);
  va_end(args);
}

void diag_related(Diag *diag, Diagnostic *diagnostic, Span span, const char *format, ...) {
  va_list args;
  va_start(args, format);
  diagnostic->related = span;
  diagnostic->related_label = format_text(diag->arena, format, args);
  va_end(args);
}

// ---- Places

static const Source *source_of(const Diag *diag, Span span) {
  return span.file >= 0 && span.file < diag->sources.count ? &diag->sources.at[span.file] : NULL;
}

static bool starts_character(char c) {
  return ((unsigned char)c & 0xc0) != 0x80;
}

bool diag_in_library(const Diag *diag, Span span) {
  const Source *source = source_of(diag, span);
  return source && source->library;
}

static uint32_t within(const Source *source, uint32_t at) {
  return at < source->length ? at : source->length;
}

static uint32_t line_begin(const Source *source, uint32_t at) {
  while (at > 0 && source->text[at - 1] != '\n') {
    at--;
  }
  return at;
}

static uint32_t line_end(const Source *source, uint32_t at) {
  while (at < source->length && source->text[at] != '\n') {
    at++;
  }
  return at > 0 && source->text[at - 1] == '\r' ? at - 1 : at;
}

void diag_position(const Diag *diag, Span span, int *line, int *column) {
  *line = *column = 1;
  const Source *source = source_of(diag, span);
  if (!source) {
    return;
  }
  uint32_t at = within(source, span.begin), begin = line_begin(source, at);
  const char *const end = source->text + begin;
  for (const char *c = source->text; c < end && (c = memchr(c, '\n', (size_t)(end - c))) != NULL; c++) {
    ++*line;
  }
  for (uint32_t i = begin; i < at; i++) {
    *column += starts_character(source->text[i]);
  }
}

const char *severity_name(Severity severity) {
  return severity == SEVERITY_ERROR ? "error" : severity == SEVERITY_WARNING ? "warning" : "note";
}

static int span_order(Span a, Span b) {
  if (a.file != b.file) {
    return a.file < b.file ? -1 : 1;
  }
  return a.begin != b.begin ? (a.begin < b.begin ? -1 : 1) : 0;
}

static int diagnostic_order(const void *a, const void *b) {
  const Diagnostic *left = *(const Diagnostic *const *)a, *right = *(const Diagnostic *const *)b;
  int order = span_order(left->span, right->span);
  return order ? order : (left > right) - (left < right);
}

static const Diagnostic **diag_sorted(const Diag *diag) {
  const Diagnostic **sorted = ARENA_ARRAY(diag->arena, const Diagnostic *, diag->all.count + 1);
  for (int i = 0; i < diag->all.count; i++) {
    sorted[i] = &diag->all.at[i];
  }
  qsort(sorted, (size_t)diag->all.count, sizeof *sorted, diagnostic_order);
  return sorted;
}

// ---- Text

typedef struct {
  FILE *out;
  const char *bold, *error, *warning, *frame, *reset;
} Style;

static Style style_of(FILE *out, bool colour) {
  if (colour) {
    return (Style){out, "\033[1m", "\033[1;31m", "\033[1;33m", "\033[34m", "\033[0m"};
  }
  return (Style){out, "", "", "", "", ""};
}

// The screen column, from 0, of byte `at` of the line that begins at `begin`; tabs are shown as blanks.
static int screen_column(const Source *source, uint32_t begin, uint32_t at) {
  int column = 0;
  for (uint32_t i = begin; i < at; i++) {
    if (source->text[i] == '\t') {
      column += TAB_WIDTH - column % TAB_WIDTH;
    } else {
      column += starts_character(source->text[i]);
    }
  }
  return column;
}

typedef struct {
  const Source *source;
  int line;             // its number
  uint32_t begin, end;  // its bytes
  int caret, width;     // screen columns of the mark
  int skipped;          // screen columns left out at the left of a very long line
} Snippet;

static Snippet snippet_of(const Diag *diag, Span span) {
  Snippet s = {.source = source_of(diag, span)};
  int column;
  diag_position(diag, span, &s.line, &column);
  uint32_t begin = within(s.source, span.begin), end = within(s.source, span.end);
  s.begin = line_begin(s.source, begin);
  s.end = line_end(s.source, begin);
  s.end = s.end < s.begin ? s.begin : s.end;
  s.caret = screen_column(s.source, s.begin, begin);
  int until = screen_column(s.source, s.begin, end < s.end ? end : s.end);
  s.width = until > s.caret ? until - s.caret : 1;
  if (screen_column(s.source, s.begin, s.end) > SNIPPET_WIDTH) {
    s.skipped = s.caret > SNIPPET_BEFORE ? s.caret - SNIPPET_BEFORE : 0;
    if (s.caret - s.skipped + s.width > SNIPPET_WIDTH) {
      s.width = SNIPPET_WIDTH - (s.caret - s.skipped);
    }
  }
  return s;
}

static void print_blanks(FILE *out, int count) {
  fprintf(out, "%*s", count > 0 ? count : 0, "");
}

static void print_line(const Style *style, const Snippet *s) {
  fprintf(style->out, "%s%*d |%s", style->frame, GUTTER, s->line, style->reset);
  if (s->begin < s->end) {
    fputc(' ', style->out);
  }
  int column = 0;
  for (uint32_t i = s->begin; i < s->end; i++) {
    char c = s->source->text[i];
    int next = c == '\t' ? column + TAB_WIDTH - column % TAB_WIDTH : column + starts_character(c);
    int shown = starts_character(c) ? column : column - 1;
    if (shown >= s->skipped && shown < s->skipped + SNIPPET_WIDTH) {
      if (c == '\t') {
        print_blanks(style->out, next - column);
      } else {
        bool control = (unsigned char)c < ' ' || c == 0x7f;
        fputc(control ? '?' : c, style->out);
      }
    }
    column = next;
  }
  fputc('\n', style->out);
}

static void print_carets(const Style *style, const char *colour, int width) {
  fputs(colour, style->out);
  for (int i = 0; i < width; i++) {
    fputc('^', style->out);
  }
  fputs(style->reset, style->out);
}

static void print_frame(const Style *style, const char *mark) {
  fprintf(style->out, "%s%*s %s%s ", style->frame, GUTTER, "", mark, style->reset);
}

static void print_snippet(const Style *style, const char *colour, const Snippet *s, const char *label) {
  print_line(style, s);
  print_frame(style, "|");
  print_blanks(style->out, s->caret - s->skipped);
  print_carets(style, colour, s->width);
  fprintf(style->out, "%s%s\n", label ? " " : "", label ? label : "");
}

// Both marks under one line, with the one label behind them.
static void print_joined(const Style *style, const char *colour, const Snippet *a, const Snippet *b,
                         const char *label) {
  const Snippet *left = a->caret < b->caret ? a : b, *right = left == a ? b : a;
  print_line(style, a);
  print_frame(style, "|");
  print_blanks(style->out, left->caret);
  print_carets(style, colour, left->width);
  print_blanks(style->out, right->caret - left->caret - left->width);
  print_carets(style, colour, right->width);
  fprintf(style->out, " %s\n", label);
}

static void print_related(const Diag *diag, const Style *style, const Diagnostic *d) {
  Snippet related = snippet_of(diag, d->related);
  if (d->related.file != d->span.file) {
    int line, column;
    diag_position(diag, d->related, &line, &column);
    print_frame(style, "=");
    fprintf(style->out, "in %s:%d:%d\n", related.source->path, line, column);
  }
  print_snippet(style, style->frame, &related, d->related_label);
}

static void print_places(const Diag *diag, const Style *style, const Diagnostic *d, const char *colour) {
  bool has_related = source_of(diag, d->related) != NULL;
  if (source_of(diag, d->span)) {
    Snippet s = snippet_of(diag, d->span);
    if (has_related && d->related.file == d->span.file && !(d->label && d->related_label)) {
      Snippet related = snippet_of(diag, d->related);
      bool apart = s.caret + s.width <= related.caret || related.caret + related.width <= s.caret;
      bool label_fits = d->label || related.caret > s.caret;  // it is written behind the mark on the right
      if (related.begin == s.begin && apart && label_fits && s.skipped == 0 && related.skipped == 0) {
        print_joined(style, colour, &s, &related, d->label ? d->label : d->related_label ? d->related_label : "");
        return;
      }
    }
    print_snippet(style, colour, &s, d->label);
  }
  if (has_related) {
    print_related(diag, style, d);
  }
}

static void print_diagnostic(const Diag *diag, const Style *style, const Diagnostic *d) {
  const Source *source = source_of(diag, d->span);
  const char *colour = d->severity == SEVERITY_ERROR     ? style->error
                       : d->severity == SEVERITY_WARNING ? style->warning
                                                         : style->frame;
  if (source) {
    int line, column;
    diag_position(diag, d->span, &line, &column);
    fprintf(style->out, "%s%s:%d:%d:%s ", style->bold, source->path, line, column, style->reset);
  }
  fprintf(style->out, "%s%s[%s]:%s %s%s%s\n", colour, severity_name(d->severity), error_code_name(d->code),
          style->reset, style->bold, d->message, style->reset);
  print_places(diag, style, d, colour);
  if (d->help) {
    print_frame(style, "=");
    fprintf(style->out, "help: %s\n", d->help);
  }
}

Diag diag_shown(const Diag *diag) {
  Diag kept = *diag;
  if (diag->errors == 0) {
    return kept;
  }
  kept.all.count = kept.all.capacity = 0;
  kept.all.at = NULL;
  for (int i = 0; i < diag->all.count; i++) {
    const Diagnostic *one = &diag->all.at[i];
    const bool lint = one->code == E016 || one->code == E038 || one->code == E039;
    if (lint) {
      kept.warnings--;
    } else {
      array_push(kept.arena, &kept.all, *one);
    }
  }
  return kept;
}

static void print_count(FILE *out, int count, const char *what) {
  fprintf(out, "%d %s%s", count, what, count == 1 ? "" : "s");
}

void diag_print(const Diag *all, FILE *out, bool colour) {
  const Diag shown = diag_shown(all), *diag = &shown;
  int said = diag->errors + diag->warnings + diag->notes;
  if (said == 0) {
    return;
  }
  Style style = style_of(out, colour);
  const Diagnostic **sorted = diag_sorted(diag);
  for (int i = 0; i < diag->all.count; i++) {
    print_diagnostic(diag, &style, sorted[i]);
    fputc('\n', out);
  }
  int left_out = said - diag->all.count;
  if (left_out > 0) {
    fprintf(out, "%d more like these %s left out\n", left_out, left_out == 1 ? "was" : "were");
  }
  if (diag->errors) {
    print_count(out, diag->errors, "error");
  }
  if (diag->warnings) {
    fputs(diag->errors ? ", " : "", out);
    print_count(out, diag->warnings, "warning");
  }
  fputs(diag->errors + diag->warnings ? "\n" : "", out);
}

void diag_each(const Diag *all, void (*each)(void *context, const Diag *diag, const Diagnostic *one), void *context) {
  const Diag shown = diag_shown(all);
  const Diagnostic **sorted = diag_sorted(&shown);
  for (int i = 0; i < shown.all.count; i++) {
    each(context, &shown, sorted[i]);
  }
}

// ---- JSON

static void json_place(const Diag *diag, json_t *object, Span span, bool with_end) {
  const Source *source = source_of(diag, span);
  json_object_set_new(object, "file", json_text(source ? source->path : NULL));
  if (!source) {
    return;
  }
  int line, column;
  diag_position(diag, span, &line, &column);
  json_object_set_new(object, "line", json_integer(line));
  json_object_set_new(object, "column", json_integer(column));
  if (with_end) {
    diag_position(diag, (Span){span.file, span.end, span.end}, &line, &column);
    json_object_set_new(object, "end_line", json_integer(line));
    json_object_set_new(object, "end_column", json_integer(column));
  }
}

static const char bug_help[] =
    "this is a bug of the compiler: report it with its version, the command line and the text";

static json_t *json_diagnostic(const Diag *diag, const Diagnostic *d) {
  json_t *object = json_object(), *related = json_null();
  json_object_set_new(object, "code", json_text(error_code_name(d->code)));
  json_object_set_new(object, "severity", json_text(severity_name(d->severity)));
  json_place(diag, object, d->span, true);
  json_object_set_new(object, "message", json_text(d->message));
  json_object_set_new(object, "label", json_text(d->label));
  json_object_set_new(object, "help", json_text(d->help || d->code != E099 ? d->help : bug_help));
  if (source_of(diag, d->related)) {
    related = json_object();
    json_place(diag, related, d->related, false);
    json_object_set_new(related, "label", json_text(d->related_label));
  }
  json_object_set_new(object, "related", related);
  return object;
}

static void json_append(void *array, const Diag *diag, const Diagnostic *d) {
  json_array_append_new(array, json_diagnostic(diag, d));
}

static json_t *json_all(void *diag) {
  json_t *array = json_array();
  diag_each(diag, json_append, array);
  return array;
}

bool diag_print_json(const Diag *all, FILE *out) {
  char *text = json_made(json_all, (void *)all, JSON_INDENT(2));
  const bool made = text != NULL;
  if (made) {
    fprintf(out, "%s\n", text);
  }
  json_guard_free(text);
  return made;
}

typedef struct {
  FILE *out;
  const Diag *diag;
  const Diagnostic *of;
  bool failed;
} Lines;

static json_t *json_said(void *context) {
  const Lines *lines = context;
  return json_diagnostic(lines->diag, lines->of);
}

static void json_print(void *context, const Diag *diag, const Diagnostic *d) {
  Lines *lines = context;
  lines->diag = diag;
  lines->of = d;
  char *text = json_made(json_said, lines, JSON_COMPACT | JSON_REAL_PRECISION(9));
  if (text) {
    fprintf(lines->out, "%s\n", text);
  }
  lines->failed |= !text;
  json_guard_free(text);
}

bool diag_print_lines(const Diag *all, FILE *out) {
  Lines lines = {.out = out};
  diag_each(all, json_print, &lines);
  return !lines.failed;
}
