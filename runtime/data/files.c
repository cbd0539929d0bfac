// files.c: patterns of paths, by glob of the C library.
#include "runtime/data/files.h"

#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char wild[] = "*?[", special[] = "*?[\\";

enum { WILD_NAMES_MOST = 2 };  // of a path: more would walk through a whole disk

// base/pattern, where that is another one.
static bool beside(const char *pattern, const char *base, char joined[PATH_MAX]) {
  return pattern[0] != '/' && base && *base && snprintf(joined, PATH_MAX, "%s/%s", base, pattern) < PATH_MAX;
}

// The pattern that `name` alone fits.
static bool quoted(const char *name, char pattern[PATH_MAX]) {
  size_t count = 0;
  for (; *name; name++) {
    if (count + 2 >= PATH_MAX) {
      return false;
    }
    if (strchr(special, *name)) {
      pattern[count++] = '\\';
    }
    pattern[count++] = *name;
  }
  pattern[count] = 0;
  return true;
}

bool files_pattern(const char *path, const char *base) {
  char joined[PATH_MAX];
  return path && strpbrk(path, wild) && access(path, F_OK) != 0 &&
         !(beside(path, base, joined) && access(joined, F_OK) == 0);
}

static int by_bytes(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

// The directory ahead of the first component with a wildcard is made one from the root on.
static bool placed_put(const char *pattern, char placed[PATH_MAX]) {
  char from[PATH_MAX] = ".", root[PATH_MAX], plain[PATH_MAX];
  size_t begin = strcspn(pattern, special);
  while (begin > 0 && pattern[begin - 1] != '/') {
    begin--;
  }
  if (begin > 0 && snprintf(from, sizeof from, "%.*s", (int)begin, pattern) >= (int)sizeof from) {
    return false;
  }
  return realpath(from, root) && quoted(strcmp(root, "/") == 0 ? "" : root, plain) &&
         snprintf(placed, PATH_MAX, "%s/%s", plain, pattern + begin) < PATH_MAX;
}

// A directory that is not there has no files; one that cannot be read may have some.
static int is_unreadable(const char *path, int why) {
  (void)path;
  return why != ENOENT && why != ENOTDIR;
}

static int found(const char *pattern, glob_t *into) {
  *into = (glob_t){0};
  return glob(pattern, GLOB_NOSORT, is_unreadable, into);
}

static bool files_copy(const glob_t *from, const char *pattern, Files *files, Error *error) {
  if (from->gl_pathc > FILES_MOST) {
    return error_set(error, 1, "%zu files fit the pattern %s, and a source has at most %d", from->gl_pathc, pattern,
                     FILES_MOST);
  }
  if (!placed_put(pattern, files->placed)) {
    return error_set(error, 1, "the path is too long: %s", pattern);
  }
  files->at = calloc(from->gl_pathc + 1, sizeof *files->at);
  for (size_t i = 0; files->at && i < from->gl_pathc; i++) {
    files->at[i] = strdup(from->gl_pathv[i]);
    if (!files->at[i]) {
      return error_set(error, 3, "no memory for the files of %s", pattern);
    }
    files->count++;
  }
  if (!files->at) {
    return error_set(error, 3, "no memory for the files of %s", pattern);
  }
  qsort(files->at, (size_t)files->count, sizeof *files->at, by_bytes);
  return true;
}

static int wild_names(const char *pattern) {
  int count = 0;
  bool here = false;  // this name of the path has one
  for (const char *at = pattern; *at; at++) {
    const bool is_wild = strchr(wild, *at) != NULL;
    count += is_wild && !here;
    here = *at != '/' && (here || is_wild);
    at += at[0] == '\\' && at[1];
  }
  return count;
}

bool files_find(const char *what, const char *pattern, const char *base, Files *files, Error *error) {
  char joined[PATH_MAX], plain[PATH_MAX];
  const char *fits = pattern;
  glob_t all;
  *files = (Files){.count = 0};
  if (wild_names(pattern) > WILD_NAMES_MOST) {
    return error_set(error, 1, "the %s %s: at most %d names of a path may have * ? or [ in them", what, pattern,
                     WILD_NAMES_MOST);
  }
  int result = found(pattern, &all);
  if (result == GLOB_NOMATCH && base && quoted(base, plain) && beside(pattern, plain, joined)) {
    globfree(&all);
    fits = joined;
    result = found(joined, &all);
  }
  bool done = result == 0;
  if (done) {
    done = files_copy(&all, fits, files, error);
  } else if (result == GLOB_NOMATCH) {
    error_set(error, 1, "the %s %s: no file fits this pattern, neither in the working directory nor beside the text",
              what, pattern);
  } else if (result == GLOB_NOSPACE) {
    error_set(error, 3, "no memory for the files of %s", pattern);
  } else {
    error_set(error, 1, "the %s %s: a directory of it cannot be read", what, pattern);
  }
  globfree(&all);
  return done;
}

void files_free(Files *files) {
  for (int i = 0; i < files->count; i++) {
    free(files->at[i]);
  }
  free(files->at);
  *files = (Files){.count = 0};
}

bool files_place(const char *pattern, const char *base, char placed[PATH_MAX]) {
  Files files;
  Error ignored;
  const bool done = files_find("file", pattern, base, &files, &ignored);
  if (done) {
    snprintf(placed, PATH_MAX, "%s", files.placed);
  }
  files_free(&files);
  return done;
}
