// reader.h: the documents of text files, or of a field of JSON lines, piece by piece.
#ifndef MDL_RUNTIME_DATA_READER_H
#define MDL_RUNTIME_DATA_READER_H

#include <stdio.h>

#include "base/buffer.h"
#include "runtime/device.h"

// Gets a line as it is, with its number from 1 on.
typedef bool ReaderLine(void *context, const char *path, int64_t number, const char *line, size_t length, Error *error);

typedef struct {
  const char *const *files;
  int file_count;
  const char *field;  // of an object in each line; NULL: files are text, each one document
  FILE *screen;       // told how far it is; NULL: nobody
  const char *what;   // "encoded", "read"
  ReaderLine *line;   // files are lines, each one document, and go here but for empty ones; or NULL
  Buffer *doubts;     // gets a line for each file of text that is hardly any (doubts.h); or NULL
  bool packed;        // files may be packed, and `-` is standard input (unpack.h)
} ReaderOptions;

typedef struct {
  int64_t bytes, documents, text_bytes;  // of files, unpacked; of documents, but for those that `line` takes
} ReaderFacts;

// Gets text. `more`: the document goes on, and what is left (*used) comes again with what follows.
typedef bool ReaderText(void *context, const char *text, size_t length, bool more, size_t *used, Error *error);

// What is made, `out`, is none of the files that are read, nor is the file that stands in its place until it is whole,
// whose name has `ending` behind it: else a text would be lost. Nor is standard input named twice. `tokenizer`: read
// too; NULL: none.
bool reader_apart(const ReaderOptions *options, const char *tokenizer, const char *out, const char *ending,
                  Error *error);

bool reader_run(const ReaderOptions *options, ReaderText *text, void *context, ReaderFacts *facts, Error *error);

#endif
