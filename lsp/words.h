// words.h: the words of the language, each with how it is written and what it does, for hovers and completion.
#ifndef MDL_LSP_WORDS_H
#define MDL_LSP_WORDS_H

#include <stddef.h>

typedef enum { WORD_KEYWORD, WORD_BUILTIN, WORD_NAME, WORD_RECIPE, WORD_LAYOUT, WORD_PRECISION } WordKind;

typedef struct {
  WordKind kind;  // RECIPE, LAYOUT, PRECISION: an entry of such a declaration
  const char *word, *form, *says;
} Word;

extern const Word words[];  // ends with a NULL word

// NULL: it is none. Of two of one spelling the first.
const Word *word_find(const char *text, size_t length);

#endif
