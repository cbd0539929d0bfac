// json_text.c: text of any bytes as a JSON string.
#include "base/json_text.h"

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
