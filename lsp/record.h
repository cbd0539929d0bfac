// record.h: what names and calls of a text stand for, kept while the text is elaborated and divided among ranks.
#ifndef MDL_LSP_RECORD_H
#define MDL_LSP_RECORD_H

#include "compiler/pass/compilation.h"

typedef struct {
  Span span;
  bool call;           // the whole call at the span; else the name there
  const char *title;   // without the name: `real[batch, seq, embed]`
  const char *detail;  // lines, each with its end; or ""
  ValueId value;       // or -1
  Name name;           // of the value, and its place: what finds it again when passes have moved it
  Span place;
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
