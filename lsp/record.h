// record.h: what names and calls of a text stand for, kept while the text is elaborated and divided among ranks.
#ifndef MDL_LSP_RECORD_H
#define MDL_LSP_RECORD_H

#include "compiler/pass/compilation.h"
#include "lang/elaborate.h"

enum { RECORD_ORIGIN_WORDS = 5 + SHAPE_MAX_AXES };

typedef struct {  // what stays the same of a value in all passes: name, place, scope, axes
  uint64_t words[RECORD_ORIGIN_WORDS];
} RecordOrigin;

typedef struct {
  Span span;
  bool call;             // the whole call at the span; else the name there
  const char *title;     // without the name: `real[batch, seq, embed]`
  const char *detail;    // lines, each with its end; or ""
  RecordOrigin *origin;  // of a value that has a name; or NULL
} RecordEntry;

typedef struct {
  Arena *arena;
  Map index;  // of a place to its entry
  ARRAY(RecordEntry) all;
  const Graph *graph;  // of the training step that is recorded: the first one
  bool divided;        // what ranks hold of it is known too
  int64_t parameters;  // numbers in all of them
  int tensors;
  TextWatch text;
  PassWatch pass;
} Record;

// Its watches are for CompileOptions. The arena must outlive what is compiled.
Record *record_create(Arena *arena);

#endif
