// oniguruma.h: regular expressions as the package tokenizers reads them, spelled for PCRE2.
//
// The two agree in most of what tokenizers use. Oniguruma, in its syntax of Ruby, has sets within sets and
// intersections of them; ^ and $ are at every line; {1,3}+ is a repetition of {1,3}, not a possessive one; \w and what
// is made of it count marks among letters; \h is a hexadecimal digit; and (?i) holds for all alternatives behind it.
#ifndef MDL_RUNTIME_DATA_ONIGURUMA_H
#define MDL_RUNTIME_DATA_ONIGURUMA_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"

// The same bytes where both agree. False: PCRE2 has nothing of the kind, *what names it.
bool oniguruma_spell(const char *text, size_t length, Buffer *out, const char **what);

#endif
