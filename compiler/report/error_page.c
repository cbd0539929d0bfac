// error_page.c: a page about an error code, with a text that has the error.
#include "compiler/report/error_page.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"

enum { MOST_DIGITS = 3 };

// E22 too, for E022.
bool error_page_asked(const char *argument) {
  const size_t digits = argument[0] == 'E' || argument[0] == 'e' ? strspn(argument + 1, "0123456789") : 0;
  return digits > 0 && digits <= MOST_DIGITS && argument[1 + digits] == '\0';
}

// What stands there, two columns to the right; without the first line if that holds options.
static void print_indented(const char *text, FILE *out) {
  static const char options[] = "// options: ";
  while (*text) {
    const size_t length = strcspn(text, "\n");
    if (strncmp(text, options, sizeof options - 1) == 0) {
      fprintf(out, "  // with %.*s\n", (int)(length - (sizeof options - 1)), text + sizeof options - 1);
    } else {
      fprintf(out, length > 0 ? "  %.*s\n" : "%.*s\n", (int)length, text);
    }
    text += length + (text[length] == '\n');
  }
}

bool error_page_print(const char *argument, FILE *out) {
  char name[16];
  ErrorCode code;
  snprintf(name, sizeof name, "E%03d", atoi(argument + 1));
  if (!error_code_find(name, &code)) {
    fprintf(stderr, "mdlc explain: there is no error %s; docs/errors.md lists them all\n", name);
    return false;
  }
  fprintf(out, "%s: %s\n", name, error_code_title(code));
  for (const ErrorText *one = error_texts; one->code; one++) {
    if (strcmp(one->code, name) == 0) {
      fputs("\nA text that has it:\n\n", out);
      print_indented(one->text, out);
      fputs("\nWhat `mdlc check` says of it:\n\n", out);
      print_indented(one->said, out);
    }
  }
  return true;
}
