// diag.h: source files, byte spans and collected diagnostics.
//
// A Diag owns nothing but what it puts in the arena it was made with. Nothing is
// printed until diag_print; nothing exits. Codes come from base/errors.def.
#ifndef MDL_BASE_DIAG_H
#define MDL_BASE_DIAG_H

#include <stdbool.h>
#include <stdio.h>

#include "base/array.h"
#include "base/names.h"

typedef struct {  // bytes [begin, end) of source file `file` (an index into Diag.sources; -1: nowhere)
  int32_t file;
  uint32_t begin, end;
} Span;

#define SPAN_NONE ((Span){-1, 0, 0})

typedef struct {
  const char *path;  // as shown to the user
  const char *text;  // NUL-terminated
  uint32_t length;
  bool library;  // it is a part of the standard library
} Source;

typedef enum { SEVERITY_ERROR, SEVERITY_WARNING, SEVERITY_NOTE } Severity;

typedef enum {
#define ERROR_CODE(code, title) code,
#include "base/errors.def"
#undef ERROR_CODE
  ERROR_CODE_COUNT
} ErrorCode;

typedef struct {
  Severity severity;
  ErrorCode code;
  Span span;
  const char *message;  // one sentence, no full stop: what was found and what was expected
  const char *label;    // beside the caret, or NULL
  const char *help;     // the fix, or NULL
  Span related;         // a second place shown under the first, or SPAN_NONE
  const char *related_label;
} Diagnostic;

typedef struct {
  Arena *arena;
  ARRAY(Source) sources;
  ARRAY(Diagnostic) all;
  int errors, warnings, notes;
  int reports;  // calls of diag_error so far: tells whether something went wrong since, also where it was said before
  int limit;    // errors after which no more are collected (0: 100)
  bool no_memory;                  // the machine had none: the text is not to blame
  bool allowed[ERROR_CODE_COUNT];  // warnings with these codes are not collected
} Diag;

Diag *diag_create(Arena *arena);
int diag_add_source(Diag *diag, const char *path, const char *text, size_t length);  // index of the file

// Adds a diagnostic and returns it for diag_label/help/related. The same code at the
// same span is collected once (a repeated body is elaborated many times); the
// earlier one is returned then.
Diagnostic *diag_error(Diag *diag, ErrorCode code, Span span, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
Diagnostic *diag_warning(Diag *diag, ErrorCode code, Span span, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
Diagnostic *diag_note(Diag *diag, ErrorCode code, Span span, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void diag_label(Diag *diag, Diagnostic *diagnostic, const char *format, ...) __attribute__((format(printf, 3, 4)));
void diag_help(Diag *diag, Diagnostic *diagnostic, const char *format, ...) __attribute__((format(printf, 3, 4)));
void diag_related(Diag *diag, Diagnostic *diagnostic, Span span, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

// How much was said so far; and everything that was said since is unsaid, for what may fail without harm.
typedef struct {
  int count, errors, warnings, notes, reports;
} DiagMark;
DiagMark diag_mark(const Diag *diag);
void diag_rewind(Diag *diag, DiagMark mark);

bool diag_in_library(const Diag *diag, Span span);  // is it a text of the standard library?

// Line and column of a byte, both from 1; the column counts UTF-8 characters.
void diag_position(const Diag *diag, Span span, int *line, int *column);

// Those that are shown. Beside errors, nothing is said of text that is right and probably not what was meant (E016,
// E038, E039): it may follow from them.
Diag diag_shown(const Diag *diag);

// Those that are shown in order of place, as text (colour: ANSI escapes) or as one JSON array.
void diag_print(const Diag *diag, FILE *out, bool colour);
// False: memory was missing, and objects are too.
bool diag_print_json(const Diag *diag, FILE *out);
bool diag_print_lines(const Diag *diag, FILE *out);  // the same objects, each in a line

// The same one by one, for other forms.
void diag_each(const Diag *diag, void (*each)(void *context, const Diag *diag, const Diagnostic *one), void *context);

// Whether a mistake of the compiler itself, E099, is among them.
bool diag_bug(const Diag *diag);

const char *severity_name(Severity severity);  // "error"
const char *error_code_name(ErrorCode code);   // "E021"
bool error_code_find(const char *name, ErrorCode *code);
const char *error_code_title(ErrorCode code);  // what the code stands for

#endif
