// data.h: where training and validation tokens come from, and which window of it each sample is.
//
// The first part of the text is trained on, the last part validated with. Both are cut into windows of sequence + 1
// tokens that overlap in one token, so that every token but the first is a target once. Which window sample k of
// batch n is depends on the seed, n and k alone: an epoch visits the windows in the order of a keyed permutation, and
// shifts them all by an offset of its own.
#ifndef MDL_RUNTIME_DATA_DATA_H
#define MDL_RUNTIME_DATA_DATA_H

#include <limits.h>

#include "runtime/data/order.h"
#include "runtime/data/tokenizer.h"

typedef struct Data Data;

#define TOKENIZER_NONE "none"  // of files of tokens: nobody says which text a token is

typedef struct {
  const char *path;       // as opened
  const char *described;  // of several sources: as PlanRun.data_path, by absolute paths, with the file that was named
  int files;              // that patterns found; 0: there is no pattern
  int64_t bytes, tokens;
  int64_t train_tokens, validation_tokens;
  int64_t train_windows, validation_windows;
  int32_t token_kinds;  // tokens are below this, or should be; 0: not known
  bool unchecked;       // tokens come from elsewhere, and data_check must be asked
  bool documents;       // it is known where documents end
  bool answers;         // and which tokens are of answers
  int32_t separator;    // the one token that documents are told to end with; -1: none
} DataFacts;

typedef struct {
  const char *kind, *path, *base, *tokenizer;  // as in PlanRun; a mix whose path is a file is that text
  const char *options;                         // of a source of a table (source.h); NULL: none
  const char *file;                            // in the place of what is trained on; NULL: none
  const Data *like;                            // whose tokenizer it has, and shares; NULL: it opens its own
  bool all;                                    // no validation sources are read
  bool held_out;                               // what the recipe's `validation` names: no other takes its place
  double validation_fraction;                  // 1: all of it is validation data
  int64_t sequence;
  uint64_t seed;
} DataOptions;

// The tokenizer that a recipe names, looked for as data is. *tokenizer NULL: there is none, or tokens are bytes.
bool data_tokenizer(const char *name, const char *base, Tokenizer **tokenizer, Error *error);

// The absolute path of a file that is looked for as data is. False: it is not there.
bool data_place(const char *path, const char *base, char placed[PATH_MAX]);

// Looks for a relative path in the working directory, then in base.
bool data_open(const DataOptions *options, Data **data, Error *error);
void data_close(Data *data);
DataFacts data_facts(const Data *data);
// Is it known where documents end? Else the error names the source of which it is not; `input`: of the model, reads it.
bool data_documents_hold(const Data *data, const char *input, Error *error);
// The sources of a mix; 0: it is none. And the file of the tokenizer of what is none; NULL: it has no tokenizer.
int data_parts(const Data *data);
const Data *data_part(const Data *data, int index);
bool data_follows(const Data *data);  // a part: of the same pattern as the one before it
const char *data_tokenizer_path(const Data *data);
// The file that says which tokens are of answers, of a mix the first that there is; NULL: none.
const char *data_mask_path(const Data *data);

// Which source of a mix a sample, or a validation window, is of: all that follows is asked of that source, with the
// number that the sample has there. Of each weight samples have their share at any time, and validation windows come
// once each, those of all sources spread evenly. Without a mix it is the data itself.
const Data *data_train_part(const Data *data, int64_t *sample);
const Data *data_validation_part(const Data *data, int64_t *window);

// sequence + 1 tokens of sample number `sample` (from 0: row k of batch n is (n - 1) * rows + k).
bool data_train_window(const Data *data, int64_t sample, int32_t *tokens, Error *error);
// Of validation window number `window`, in the order of the text.
bool data_validation_window(const Data *data, int64_t window, int32_t *tokens, Error *error);
// Where the window of a sample begins: for tests and inspection.
int64_t data_train_begin(const Data *data, int64_t sample);

// Are the tokens of a window that was read, or the first 16 million of all, below `bound`? Else `error` says which is
// not, and at which byte of the file. For data that is unchecked.
bool data_check_train(const Data *data, int64_t sample, const int32_t *tokens, int64_t bound, Error *error);
bool data_check_validation(const Data *data, int64_t window, const int32_t *tokens, int64_t bound, Error *error);
bool data_check_begin(const Data *data, int64_t bound, Error *error);

// True if a document ends before tokens[at] (documents.h). Not of chats, which know by themselves: TOKEN_BEGINS.
// Bytes of text that the token stands for; 0: it ends a document; -1: not known.
int64_t data_token_bytes(const Data *data, int32_t token);
bool data_document_begins(const Data *data, const int32_t *tokens, int64_t at);

// Of each token of a window that was read: TOKEN_ANSWER, TOKEN_BEGINS (chat.h). Where nothing says which tokens are
// answers, all are.
bool data_train_flags(const Data *data, int64_t sample, const int32_t *tokens, uint8_t *flags, Error *error);
bool data_validation_flags(const Data *data, int64_t window, const int32_t *tokens, uint8_t *flags, Error *error);

// What an evaluation reads, one after the other: sources of their own, with the names that the recipe gives them ("":
// it has none), or the last part of the data, without a name. Of each all validation windows are asked.
enum { DATA_SETS_MOST = 8 };
int data_set_count(const Data *data);
const Data *data_set(const Data *data, int set, const char **name);

#endif
