// fingerprint.h: whether data is what a run was trained on, from its size and samples of its bytes.
#ifndef MDL_RUNTIME_DATA_FINGERPRINT_H
#define MDL_RUNTIME_DATA_FINGERPRINT_H

#include "runtime/data/data.h"

typedef struct {  // never 0, but for the last
  uint64_t data;  // sizes and bytes: of files, masks too, up to FINGERPRINT_WHOLE all, else ends and samples between
  uint64_t tokenizer;  // all of its file, and tokens that others beside it add; of tokens that have none, that they
                       // have none
  uint64_t tokens;  // how many tokens the data is, and samples of them: what has another number of the same bytes has
                    // its parts, such as what is held out, elsewhere in the text
  uint64_t validation;  // of the sources that are validated with, as `data`; 0: they are a part of the data
} DataPrint;

enum {
  FINGERPRINT_WHOLE = 64 << 20,
  FINGERPRINT_END = 4 << 20,
  FINGERPRINT_SAMPLES = 256,
  FINGERPRINT_SAMPLE = 1 << 16
};

bool data_fingerprint(const Data *data, DataPrint *print, Error *error);

// Of one file, as DataPrint.data of a source that has no mask.
bool fingerprint_file(const char *path, uint64_t *print, Error *error);

// Of all tokenizers of the data, or of one by its path (NULL: bytes, or none), as DataPrint.tokenizer.
bool data_fingerprint_tokenizers(const Data *data, uint64_t *print, Error *error);
bool fingerprint_tokenizer(const char *path, uint64_t *print, Error *error);
// Is `print` that of data whose sources, one or a few, all have the tokenizer of this path (NULL: bytes, or none)?
bool fingerprint_has_tokenizer(uint64_t print, const char *path, bool *has, Error *error);

#endif
