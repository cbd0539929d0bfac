// shown.c: names of outputs, the keys they get, and their values.
#include "runtime/shown.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/metrics.h"

enum { SHOWN_MAX = 1024 };

static bool key_taken(const char *name) {
  for (int i = 0; metrics_keys[i]; i++) {
    if (strcmp(metrics_keys[i], name) == 0) {
      return true;
    }
  }
  return strncmp(name, "val_", 4) == 0;
}

static bool list_make(ShownList *list, const char *const *names, int count, const char *prefix, Error *error) {
  list->at = count > 0 ? calloc((size_t)count, sizeof *list->at) : NULL;
  for (int i = 0; list->at && i < count; i++) {
    const char *apart = !*prefix && key_taken(names[i]) ? "output." : prefix;
    const size_t size = strlen(apart) + strlen(names[i]) + 1;
    char *key = malloc(size);
    if (!key) {
      break;
    }
    snprintf(key, size, "%s%s", apart, names[i]);
    list->at[list->count++] = (Shown){names[i], key, NAN};
  }
  return list->count == count || error_set(error, 3, "no memory for %d outputs", count);
}

bool shown_open(ShownList *list, const Session *session, ProgramKind program, const char *prefix, Error *error) {
  const char *names[SHOWN_MAX];
  *list = (ShownList){0};
  return list_make(list, names, session_shown(session, program, names, SHOWN_MAX), prefix, error);
}

bool shown_open_names(ShownList *list, const char *const *names, int count, const char *prefix, Error *error) {
  *list = (ShownList){0};
  return list_make(list, names, count, prefix, error);
}

bool shown_open_measures(ShownList *list, const Session *session, Error *error) {
  const char *names[SHOWN_MAX];
  *list = (ShownList){0};
  return list_make(list, names, session_measures(session, names, SHOWN_MAX), "", error);
}

bool shown_read(ShownList *list, Session *session, ProgramKind program, Error *error) {
  for (int i = 0; i < list->count; i++) {
    if (!session_scalar(session, program, list->at[i].name, &list->at[i].value, error)) {
      return false;
    }
  }
  return true;
}

void shown_forget(ShownList *list) {
  for (int i = 0; i < list->count; i++) {
    list->at[i].value = NAN;
  }
}

void shown_close(ShownList *list) {
  for (int i = 0; i < list->count; i++) {
    free(list->at[i].key);
  }
  free(list->at);
  *list = (ShownList){0};
}
