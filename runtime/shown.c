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

static bool list_add(ShownList *list, const char *name, int of, PlanWeighing weighing, const char *prefix) {
  const char *apart = !*prefix && key_taken(name) ? "output." : prefix;
  const int more = of > 0 ? of : 1;
  Shown *longer = realloc(list->at, sizeof *list->at * ((size_t)list->count + (size_t)more));
  if (!longer) {
    return false;
  }
  list->at = longer;
  for (int i = 0; i < more; i++) {
    const size_t size = strlen(apart) + strlen(name) + 1;
    char *key = malloc(size);
    if (!key) {
      return false;
    }
    snprintf(key, size, "%s%s", apart, name);
    list->at[list->count++] =
        (Shown){.name = name, .key = key, .index = i, .of = of, .value = NAN, .weighing = weighing};
  }
  return true;
}

static bool list_make(ShownList *list, const char *const *names, int count, const char *prefix, Error *error) {
  *list = (ShownList){0};
  for (int i = 0; i < count; i++) {
    if (!list_add(list, names[i], 0, WEIGH_SAMPLES, prefix)) {
      return error_set(error, 3, "no memory for %d outputs", count);
    }
  }
  return true;
}

bool shown_open(ShownList *list, const Session *session, ProgramKind program, const char *prefix, Error *error) {
  const char *names[SHOWN_MAX];
  *list = (ShownList){0};
  const int count = session_shown(session, program, names, SHOWN_MAX);
  for (int i = 0; i < count; i++) {
    int64_t rank;
    const PlanOutput *output = session_find_output(session, program, names[i], &rank);
    const int numbers = output->axis_count > 0 ? (int)output->size[0] : 0;
    if (!list_add(list, names[i], numbers, output->weighing, prefix)) {
      return error_set(error, 3, "no memory for %d outputs", count);
    }
  }
  return true;
}

bool shown_open_names(ShownList *list, const char *const *names, int count, const char *prefix, Error *error) {
  return list_make(list, names, count, prefix, error);
}

bool shown_open_measures(ShownList *list, const Session *session, Error *error) {
  const char *names[SHOWN_MAX];
  return list_make(list, names, session_measures(session, names, SHOWN_MAX), "", error);
}

bool shown_read(ShownList *list, Session *session, ProgramKind program, Error *error) {
  double values[SHOWN_NUMBERS];
  for (int i = 0; i < list->count; i++) {
    const Shown *shown = &list->at[i];
    if (shown->index == 0 &&
        !session_read(session, program, shown->name, shown->of > 0 ? shown->of : 1, values, error)) {
      return false;
    }
    list->at[i].value = values[shown->index];
  }
  return true;
}

const char *shown_called(const Shown *shown, const char *name) {
  static _Thread_local char text[512];
  if (shown->of == 0) {
    return name;
  }
  snprintf(text, sizeof text, "%.480s.%d", name, shown->index);
  return text;
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
