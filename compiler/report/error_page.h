// error_page.h: a page about an error code, with a text that has the error, for `mdlc explain E022`.
#ifndef MDL_COMPILER_REPORT_ERROR_PAGE_H
#define MDL_COMPILER_REPORT_ERROR_PAGE_H

#include <stdbool.h>
#include <stdio.h>

typedef struct {
  const char *code, *text, *said;  // said: by `mdlc check`
} ErrorText;

extern const ErrorText error_texts[];  // made by the build from tests/errors; ends with a NULL code

bool error_page_asked(const char *argument);  // is it written like a code, E022 or e022?

// False, with a word on stderr, if there is no such code.
bool error_page_print(const char *argument, FILE *out);

#endif
