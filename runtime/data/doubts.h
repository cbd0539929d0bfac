// doubts.h: data that can be read, and is probably not what was meant.
#ifndef MDL_RUNTIME_DATA_DOUBTS_H
#define MDL_RUNTIME_DATA_DOUBTS_H

#include "base/buffer.h"
#include "runtime/data/data.h"

// A line for each doubt: text that is hardly any, tokens of another tokenizer, answers by another name, separators
// that occur nowhere, and sources to validate with that are trained on too. Looks at the beginnings of texts, and at
// files as fingerprints do.
bool data_doubts(const Data *data, Buffer *lines, Error *error);

// The last of these alone; and which sources, by the numbers of data_set, are trained on too, or some of their files.
bool doubts_sets(const Data *data, bool are[DATA_SETS_MOST], Buffer *lines, Error *error);

// The same of one text, and of the conversations of one file: messages that others call answers, beside those that are.
// `text`: the bytes that the file begins with.
void doubts_text(const char *path, const char *text, size_t length, Buffer *lines);
struct ChatOdd;  // chat.h
void doubts_chat(const char *path, const struct ChatOdd *odd, Buffer *lines);

// Where the data says which tokens are of answers and the model does not read it, what comes of it; NULL: it is not so.
const char *doubts_answers(const Data *data, bool masks);

// Tokens that name no tokenizer, and were made by another one than those that a run was trained on. `trained` is a file
// of tokens of the run; what cannot be read of it is not looked at.
void doubts_trained(const Data *data, const DataOptions *trained, Buffer *lines);

#endif
