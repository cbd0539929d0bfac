// source.h: a source of data as a plan describes it: lines of fields, and the options of one.
//
// lang/settings_data.c writes both. A line has a name, weight, kind, tokenizer and path, with tabs between them, and
// options behind one more where there are some. Options are `name=value;`, in which \n, \t, \s and \\ spell ends of
// lines, tabs, semicolons and backslashes.
#ifndef MDL_RUNTIME_DATA_SOURCE_H
#define MDL_RUNTIME_DATA_SOURCE_H

#include <limits.h>
#include <stddef.h>

#include "runtime/device.h"

#define SOURCE_MASK "mask"  // the name of that option

enum { SOURCE_LINE_MOST = 4 * PATH_MAX, SOURCE_OPTIONS_MOST = 4096 };

typedef struct {
  char text[SOURCE_LINE_MOST];
  char *name, *weight, *kind, *tokenizer, *path, *options;  // options NULL: none
} SourceLine;

typedef struct {
  enum { SEPARATOR_DEFAULT, SEPARATOR_NONE, SEPARATOR_TEXT, SEPARATOR_TOKEN } separator_is;
  const char *separator;                // of SEPARATOR_TEXT
  int32_t separator_token;              // of SEPARATOR_TOKEN
  const char *template, *begin, *mask;  // NULL: not told
  bool own_mask;                        // `mask#;`: each file has NAME.mask where that is beside it
  char text[SOURCE_OPTIONS_MOST];
} SourceOptions;

// False where it is no such line.
bool source_line(const char *line, size_t length, SourceLine *out);
int source_count(const char *table);  // of those to train on
// The options of a source; `text` NULL: none are told. They end with `out`.
bool source_options(const char *text, SourceOptions *out, Error *error);

#endif
