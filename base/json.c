// json.c: objects in a line.
#include "base/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// The bytes of the character that begins here; 0: none does.
static size_t character(const char *text, size_t length) {
  for (size_t size = 1; size <= 4 && size <= length; size++) {
    json_t *one = json_stringn(text, size);
    if (one) {
      json_decref(one);
      return size;
    }
  }
  return 0;
}

json_t *json_bytes(const char *text, size_t length) {
  json_t *value = json_stringn(text, length);
  if (!value) {
    Buffer buffer = {0};
    for (size_t at = 0; at < length;) {
      const size_t size = character(text + at, length - at);
      buffer_bytes(&buffer, size > 0 ? text + at : "\xef\xbf\xbd", size > 0 ? size : 3);
      at += size > 0 ? size : 1;
    }
    value = buffer.failed ? NULL : json_stringn(buffer.text, buffer.length);
    buffer_free(&buffer);
  }
  return value;
}

json_t *json_text(const char *text) {
  return text ? json_bytes(text, strlen(text)) : json_null();
}

json_t *json_finite(double number) {
  return isfinite(number) ? json_real(number) : json_null();
}

const char *json_shortest(char text[32], double number) {
  if (!isfinite(number)) {
    return "null";
  }
  for (int digits = 6; digits <= 17; digits++) {
    snprintf(text, 32, "%.*g", digits, number);
    double back = strtod(text, NULL);
    if (back == number || ((double)(float)number == number && (double)(float)back == number)) {
      break;
    }
  }
  return text;
}

bool json_shorten(const char *text, Buffer *out) {
  while (*text) {
    size_t length = 1;
    if (*text == '"') {
      while (text[length] != '"') {
        length += text[length] == '\\' ? 2 : 1;
      }
      length++;
    } else if (*text == '-' || (*text >= '0' && *text <= '9')) {
      length = strspn(text, "+-.0123456789Ee");
      if (strcspn(text, ".Ee") < length) {
        char number[32];
        const char *shortest = json_shortest(number, strtod(text, NULL));
        buffer_format(out, "%s%s", shortest, strpbrk(shortest, ".e") ? "" : ".0");
        text += length;
        continue;
      }
    }
    buffer_bytes(out, text, length);
    text += length;
  }
  return !out->failed;
}

bool json_line(FILE *out, const char *command, JsonMake *make, void *context) {
  char *text = json_made(make, context, JSON_COMPACT | JSON_REAL_PRECISION(17));
  Buffer shown = {0};
  const bool done = text && json_shorten(text, &shown);
  if (done) {
    fprintf(out, "%s\n", shown.text);
    fflush(out);
  } else {
    fprintf(stderr, "%s: no memory for the line of --json\n", command);
  }
  buffer_free(&shown);
  json_guard_free(text);
  return done;
}
