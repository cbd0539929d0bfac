// sentence_added.h: tokens that files of transformers add to a .model of SentencePiece that they lie beside.
#ifndef MDL_RUNTIME_DATA_SENTENCE_ADDED_H
#define MDL_RUNTIME_DATA_SENTENCE_ADDED_H

#include "runtime/data/sentence.h"

typedef struct {
  bool there;  // files say something of it
  bool once;   // a space stands ahead of the first part of a text alone
  ARRAY(Added) list;
  ARRAY(const char *) special;  // by text; they are pieces of the model, if the list does not have them
} SentenceAdded;

// What the files in the directory of the .model at `path` say.
bool sentence_added_read(Arena *arena, const char *path, SentenceAdded *added, Error *error);
void sentence_added_text(const SentenceAdded *added, Buffer *text);  // the same for the same tokens, for a hash

// Adds them to a tokenizer that was read from there, ahead of what follows from them.
bool sentence_added(Tokenizer *tokenizer, const char *path, Error *error);

#endif
