// types.c: the table of element types.
#include "compiler/ir/types.h"

#include <string.h>

static const struct {
  const char *name;
  int64_t bytes;
  bool floating;
  const char *dtype;
} table[] = {
#define ELEMENT_TYPE(constant, name, bytes, floating, dtype) {name, bytes, floating, dtype},
    ELEMENT_TYPES(ELEMENT_TYPE)
#undef ELEMENT_TYPE
};

const char *element_type_name(ElementType type) {
  return table[type].name;
}

int64_t element_type_bytes(ElementType type) {
  return table[type].bytes;
}

bool element_type_floating(ElementType type) {
  return table[type].floating;
}

const char *element_type_dtype(ElementType type) {
  return table[type].dtype;
}

bool element_type_of(const char *name, ElementType *type) {
  for (int i = 0; i < ELEMENT_TYPE_COUNT; i++) {
    if (strcmp(table[i].name, name) == 0) {
      *type = (ElementType)i;
      return true;
    }
  }
  return false;
}
