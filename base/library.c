// library.c: dlopen and dlsym with messages.
#include "base/library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

bool library_open(const char *const *names, const LibrarySymbol *symbols, int count, void *table, void **handle,
                  char *message, size_t message_size) {
  void *library = NULL;
  for (int i = 0; names[i] && !library; i++) {
    library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
  }
  if (!library) {
    const char *why = dlerror();
    snprintf(message, message_size, "%s cannot be opened: %s", names[0], why ? why : "no reason was given");
    return false;
  }
  for (int i = 0; i < count; i++) {
    void *function = dlsym(library, symbols[i].name);
    if (!function && !symbols[i].optional) {
      snprintf(message, message_size, "%s has no function %s: it is too old", names[0], symbols[i].name);
      dlclose(library);
      return false;
    }
    memcpy((char *)table + symbols[i].offset, &function, sizeof function);
  }
  *handle = library;
  return true;
}

void library_close(void *handle) {
  if (handle) {
    dlclose(handle);
  }
}
