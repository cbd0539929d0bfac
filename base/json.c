// json.c: objects in a line.
#include "base/json.h"

#include <math.h>
#include <string.h>

#include "base/buffer.h"
#include "base/json_guard.h"

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

bool json_line(FILE *out, json_t *line) {
  char *text = json_dumped(line, JSON_COMPACT | JSON_REAL_PRECISION(9));
  json_decref(line);
  if (!text) {
    return false;
  }
  fprintf(out, "%s\n", text);
  fflush(out);
  json_guard_free(text);
  return true;
}
