// library.c: dlopen and dlsym with messages.
#include "base/library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// By its names alone, which is how the system's loader finds it; then in the folders of MDL_LIBRARY_PATH.
static void *open_any(const char *const *names, char *why, size_t why_size) {
  void *library = NULL;
  for (int i = 0; names[i] && !library; i++) {
    library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    const char *text = library ? NULL : dlerror();
    if (text && i == 0) {
      snprintf(why, why_size, "%s", text);
    }
  }
  const char *folder = getenv("MDL_LIBRARY_PATH");
  while (folder && *folder && !library) {
    const size_t length = strcspn(folder, ":");
    for (int i = 0; names[i] && length > 0 && !library; i++) {
      char path[1024];
      const int written = snprintf(path, sizeof path, "%.*s/%s", (int)length, folder, names[i]);
      library = written > 0 && (size_t)written < sizeof path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    }
    folder += length + (folder[length] == ':');
  }
  return library;
}

bool library_open(const char *const *names, const LibrarySymbol *symbols, int count, void *table, void **handle,
                  char *message, size_t message_size) {
  char why[256] = "no reason was given";
  void *library = open_any(names, why, sizeof why);
  if (!library) {
    snprintf(message, message_size, "%s cannot be opened: %s", names[0], why);
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
