// device.c: errors of the runtime and the list of backends.
#include "runtime/device.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const Backend *const backends[] = {&backend_cpu};

bool error_set(Error *error, int status, const char *format, ...) {
  va_list args;
  va_start(args, format);
  error->status = status;
  vsnprintf(error->text, sizeof error->text, format, args);
  va_end(args);
  return false;
}

const Backend *backend_find(const char *name) {
  if (strcmp(name, "auto") == 0) {
    return backends[0];
  }
  for (size_t i = 0; i < sizeof backends / sizeof backends[0]; i++) {
    if (strcmp(backends[i]->name, name) == 0) {
      return backends[i];
    }
  }
  return NULL;
}
