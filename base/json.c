// json.c: objects in a line.
#include "base/json.h"

#include <math.h>
#include <stdlib.h>

#include "base/buffer.h"

json_t *json_text(const char *text) {
  if (!text) {
    return json_null();
  }
  json_t *value = json_string(text);
  if (!value) {
    Buffer buffer = {0};
    for (const char *c = text; *c; c++) {
      buffer_bytes(&buffer, (unsigned char)*c < 0x80 ? c : "?", 1);
    }
    value = json_string(buffer.text ? buffer.text : "");
    buffer_free(&buffer);
  }
  return value;
}

json_t *json_finite(double number) {
  return isfinite(number) ? json_real(number) : json_null();
}

bool json_line(FILE *out, json_t *line) {
  char *text = line ? json_dumps(line, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
  json_decref(line);
  if (!text) {
    return false;
  }
  fprintf(out, "%s\n", text);
  fflush(out);
  free(text);
  return true;
}
