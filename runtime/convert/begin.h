// begin.h: the token that the package transformers puts ahead of each text.
#ifndef MDL_RUNTIME_CONVERT_BEGIN_H
#define MDL_RUNTIME_CONVERT_BEGIN_H

#include "runtime/convert/convert.h"

// By `file`, one of CONVERT_TOKENIZER_, and tokenizer_config.json in that directory. "": none, or nobody says so.
void convert_begin(const char *directory, const char *file, char *text, size_t size);

#endif
