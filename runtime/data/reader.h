// reader.h: the documents of text files, or of a field of JSON lines, piece by piece.
#ifndef MDL_RUNTIME_DATA_READER_H
#define MDL_RUNTIME_DATA_READER_H

#include <stdio.h>

#include "runtime/device.h"

typedef struct {
  const char *const *files;
  int file_count;
  const char *field;  // of an object in each line; NULL: files are text, each one document
  FILE *screen;       // told how far it is; NULL: nobody
  const char *what;   // "encoded", "read"
} ReaderOptions;

typedef struct {
  int64_t bytes, documents, text_bytes;  // of files; of documents
} ReaderFacts;

// Gets text. `more`: the document goes on, and what is left (*used) comes again with what follows.
typedef bool ReaderText(void *context, const char *text, size_t length, bool more, size_t *used, Error *error);

bool reader_run(const ReaderOptions *options, ReaderText *text, void *context, ReaderFacts *facts, Error *error);

#endif
