// pattern.h: regular expressions that cut text into pieces, by PCRE2.
//
// A Pattern is immutable; a Matcher is the working memory of one thread, for any pattern.
#ifndef MDL_RUNTIME_DATA_PATTERN_H
#define MDL_RUNTIME_DATA_PATTERN_H

#include <stddef.h>

#include "runtime/device.h"

typedef struct Pattern Pattern;
typedef struct Matcher Matcher;
// MORE: it depends on what follows. STARVED: there is no memory for it.
typedef enum { MATCH_FOUND, MATCH_NONE, MATCH_MORE, MATCH_FAILED, MATCH_STARVED } Match;

// As Oniguruma and Rust read it: \s is Unicode's White_Space, $ the very end.
bool pattern_create(const char *text, size_t length, Pattern **pattern, Error *error);
bool pattern_looks_behind(const Pattern *pattern);  // at what stands ahead of a match, as ^ and \b do
bool pattern_knows_script(const char *name, size_t length);
void pattern_destroy(Pattern *pattern);
bool matcher_create(Matcher **matcher, Error *error);
void matcher_destroy(Matcher *matcher);

// The first match that begins at `at` or later, in valid UTF-8. `more`: the text goes on behind `length`; for
// MATCH_MORE *begin is where the match in question begins.
Match pattern_next(const Pattern *pattern, Matcher *matcher, const char *text, size_t length, size_t at, bool more,
                   size_t *begin, size_t *end);

#endif
