// json_text.h: text of any bytes as a JSON string.
#ifndef MDL_BASE_JSON_TEXT_H
#define MDL_BASE_JSON_TEXT_H

#include <jansson.h>

// Bytes that are not UTF-8 become `?`; NULL becomes null.
json_t *json_text(const char *text);

#endif
