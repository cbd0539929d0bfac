// error_page.c: a page about an error code, with a text that has the error.
#include "compiler/report/error_page.h"

#include <ctype.h>
#include <string.h>

#include "base/diag.h"

enum { CODE_LENGTH = 4 };

bool error_page_asked(const char *argument) {
  bool code = strlen(argument) == CODE_LENGTH && (argument[0] == 'E' || argument[0] == 'e');
  for (int i = 1; code && i < CODE_LENGTH; i++) {
    code = isdigit((unsigned char)argument[i]) != 0;
  }
  return code;
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
  const char name[CODE_LENGTH + 1] = {'E', argument[1], argument[2], argument[3], 0};
  ErrorCode code;
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
