// find.c: names of files, and what to do where there is none.
#include "runtime/data/find.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/data/data.h"
#include "runtime/data/files.h"
#include "runtime/hub.h"

static bool is(const char *what, const char *name) {
  return strcmp(what, name) == 0;
}

// What to do where there is no such file.
static const char *remedy_of(const char *what) {
  return is(what, DATA_FILE)         ? "; --data FILE names another"
         : is(what, VALIDATION_FILE) ? "; `validation` of the recipe names it, and --data FILE leaves it as it is"
         : is(what, TOKENIZER_FILE)  ? "; a tokenizer is a file, and nothing is downloaded"
                                     : "";
}

// A name that is there, and is that of nothing. True: it says so.
static bool dangling(const char *what, const char *path, Error *error) {
  char to[PATH_MAX];
  const ssize_t length = readlink(path, to, sizeof to - 1);
  if (length >= 0) {
    to[length] = '\0';
    error_set(error, 1, "the %s %s is a link that leads nowhere, to %s%s", what, path, to, remedy_of(what));
  }
  return length >= 0;
}

static bool absent(const char *what, const char *path, const char *joined, Error *error) {
  const bool data = is(what, DATA_FILE) || is(what, VALIDATION_FILE);
  char hint[HUB_HINT_MAX];
  if (dangling(what, path, error) || dangling(what, joined, error)) {
    return false;
  }
  return error_set(
      error, 1, "the %s %s is neither in the working directory nor beside the text (%s)%s%s", what, path, joined,
      is(what, TOKENIZER_FILE) && *hub_hint(path, "the tokenizer is ", "/tokenizer.json", "tokenizer.json", hint)
          ? hint
          : remedy_of(what),
      data && *hub_hint(path, "", "", NULL, hint)
          ? "; nothing is downloaded: of a data set of the Hugging Face hub, save its text or JSON lines "
            "first"
          : "");
}

bool find_unreadable(const char *what, const char *path, Error *error) {
  const int why = errno;
  const char *remedy = why == ENOENT ? remedy_of(what) : why == EMFILE ? "; `ulimit -n` allows more files" : "";
  if (why == ENOENT && dangling(what, path, error)) {
    return false;
  }
  return error_set(error, why == ENOMEM ? 3 : 1, "cannot read the %s %s: %s%s", what, path, strerror(why), remedy);
}

bool find_file(const char *what, const char *path, const char *base, char found[PATH_MAX], Error *error) {
  char joined[PATH_MAX] = "";
  const bool there = access(path, F_OK) == 0;
  const bool beside = !there && errno == ENOENT && path[0] != '/' && base && *base;
  if (beside && snprintf(joined, sizeof joined, "%s/%s", base, path) >= (int)sizeof joined) {
    return error_set(error, 1, "the path is too long: %s/%s", base, path);  // cut short it would be another
  }
  if (beside && access(joined, F_OK) != 0) {
    return errno == ENOENT || errno == ENOTDIR ? absent(what, path, joined, error)
                                               : find_unreadable(what, joined, error);
  }
  return snprintf(found, PATH_MAX, "%s", *joined ? joined : path) < PATH_MAX ||
         error_set(error, 1, "the path is too long: %s", path);
}

bool data_place(const char *path, const char *base, char placed[PATH_MAX]) {
  char found[PATH_MAX];
  Error ignored;
  if (files_pattern(path, base)) {
    return files_place(path, base, placed);
  }
  return *path && find_file("file", path, base, found, &ignored) && realpath(found, placed);
}

bool find_same(const char *a, const char *b, const char *base) {
  char first[PATH_MAX], second[PATH_MAX];
  return strcmp(a, b) == 0 || (data_place(a, base, first) && data_place(b, base, second) && strcmp(first, second) == 0);
}
