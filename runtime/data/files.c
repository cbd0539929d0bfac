// files.c: patterns of paths, matched name by name: glob of the C library passes over what it cannot read.
#include "runtime/data/files.h"

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/data/find.h"
#include "runtime/data/token_writer.h"

static const char wild[] = "*?[", special[] = "*?[\\";

enum { WILD_NAMES_MOST = 2 };  // of a path: more would walk through a whole disk

typedef struct {
  const char *what, *pattern;  // for errors
  Files *files;
  int room;
  Error *error;
} Walk;

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

// The name that a pattern without wildcards fits, in place.
static void unquote(char *name) {
  char *to = name;
  for (const char *from = name; *from; from++) {
    from += from[0] == '\\' && from[1];
    *to++ = *from;
  }
  *to = '\0';
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

// The names of a path that have wildcards.
static int wild_names(const char *pattern) {
  int count = 0;
  bool here = false;
  for (const char *at = pattern; *at; at++) {
    const bool is_wild = strchr(wild, *at) != NULL;
    count += is_wild && !here;
    here = *at != '/' && (here || is_wild);
    at += at[0] == '\\' && at[1];
  }
  return count;
}

static bool no_memory(const Walk *w) {
  return error_set(w->error, 3, "no memory for the files of %s", w->pattern);
}

// A directory that is not there has no files; of one that cannot be read nobody knows.
static bool passed(const Walk *w, const char *path, int why) {
  return why == ENOENT || why == ENOTDIR ||
         error_set(w->error, why == ENOMEM ? 3 : 1, "the %s %s: cannot read %s: %s%s", w->what, w->pattern,
                   *path ? path : ".", strerror(why), why == EMFILE ? "; `ulimit -n` allows more files" : "");
}

static bool file_put(Walk *w, const char *path) {
  Files *files = w->files;
  const size_t length = strlen(path), part = strlen(TOKENS_PART);
  if (length > part && strcmp(path + length - part, TOKENS_PART) == 0) {
    return error_set(w->error, 1, "%s, which fits the pattern %s, is what a killed `mdl data` left unfinished", path,
                     w->pattern);
  }
  if (files->count >= FILES_MOST) {
    return error_set(w->error, 1, "more than %d files fit the pattern %s, and a source has no more", FILES_MOST,
                     w->pattern);
  }
  if (files->count == w->room) {
    w->room = 2 * w->room + 1;
    char **at = realloc(files->at, sizeof *at * (size_t)w->room);
    if (!at) {
      return no_memory(w);
    }
    files->at = at;
  }
  files->at[files->count] = strdup(path);
  return files->at[files->count++] || no_memory(w);
}

static bool walk(Walk *w, const char *from, const char *rest);

// The names of a directory that fit `part`, and what fits `rest` behind each; "": they are files.
static bool directory_walk(Walk *w, const char *from, const char *part, const char *rest) {
  char path[PATH_MAX];
  bool done = true;
  int why = 0;
  DIR *directory = opendir(*from ? from : ".");
  if (!directory) {
    return passed(w, from, errno);
  }
  while (done) {
    errno = 0;
    const struct dirent *entry = readdir(directory);
    why = errno;
    if (!entry) {
      break;
    }
    const char *name = entry->d_name;
    const int fits = fnmatch(part, name, FNM_PERIOD);
    if (fits == FNM_NOMATCH || strcmp(name, ".") == 0 || strcmp(name, "..") == 0) {
      continue;
    }
    if (fits != 0) {
      done = no_memory(w);
    } else if (snprintf(path, sizeof path, "%s%s%s", from, name, *rest ? "/" : "") >= (int)sizeof path) {
      done = error_set(w->error, 1, "the path is too long: %s%s", from, name);
    } else {
      done = *rest ? walk(w, path, rest) : file_put(w, path);
    }
  }
  closedir(directory);
  return done && (why == 0 || passed(w, from, why == ENOENT ? EIO : why));
}

// How much of a pattern stands ahead of its first name with a wildcard.
static size_t literal_length(const char *pattern) {
  size_t begin = 0;
  for (size_t at = 0; pattern[at]; at++) {
    if (strchr(wild, pattern[at])) {
      return begin;
    }
    at += pattern[at] == '\\' && pattern[at + 1];
    begin = pattern[at] == '/' ? at + 1 : begin;
  }
  return strlen(pattern);
}

// What fits `rest` in the directory `from`, which ends with a '/' or is "": the working directory.
static bool walk(Walk *w, const char *from, const char *rest) {
  char path[PATH_MAX], part[NAME_MAX * 4];
  struct stat info;
  const size_t literal = literal_length(rest), length = strcspn(rest + literal, "/");
  if (snprintf(path, sizeof path, "%s%.*s", from, (int)literal, rest) >= (int)sizeof path || length >= sizeof part) {
    return error_set(w->error, 1, "the path is too long: %s%s", from, rest);
  }
  unquote(path + strlen(from));
  rest += literal;
  if (!*rest) {
    return lstat(path, &info) == 0 ? file_put(w, path) : passed(w, path, errno);
  }
  snprintf(part, sizeof part, "%.*s", (int)length, rest);
  rest += length;
  return directory_walk(w, path, part, rest + strspn(rest, "/"));
}

static bool found(const char *what, const char *pattern, Files *files, Error *error) {
  Walk w = {.what = what, .pattern = pattern, .files = files, .error = error};
  return strlen(pattern) < PATH_MAX ? walk(&w, "", pattern)
                                    : error_set(error, 1, "the path is too long: %.100s...", pattern);
}

static const char *deep(const char *pattern) {
  return strstr(pattern, "**") ? "; `**` does not go into directories of directories: it is the same as `*`" : "";
}

bool files_find(const char *what, const char *pattern, const char *base, Files *files, Error *error) {
  char joined[PATH_MAX], plain[PATH_MAX];
  const char *fits = pattern;
  *files = (Files){.count = 0};
  if (wild_names(pattern) > WILD_NAMES_MOST) {
    return error_set(error, 1, "the %s %s: at most %d names of a path may have * ? or [ in them%s", what, pattern,
                     WILD_NAMES_MOST, deep(pattern));
  }
  if (pattern[0] && pattern[strlen(pattern) - 1] == '/') {
    return error_set(error, 1, "the %s %s: this is a pattern of directories, not of files", what, pattern);
  }
  if (!found(what, pattern, files, error)) {
    return false;
  }
  if (files->count == 0 && base && quoted(base, plain) && beside(pattern, plain, joined)) {
    fits = joined;
    if (!found(what, joined, files, error)) {
      return false;
    }
  }
  if (files->count == 0) {
    files->none = true;
    return error_set(error, 1, "the %s %s: no file fits this pattern%s%s%s", what, pattern,
                     pattern[0] == '/' ? "" : ", neither in the working directory nor beside the text", deep(pattern),
                     strcmp(what, DATA_FILE) == 0 ? "; --data FILE names another" : "");
  }
  if (!placed_put(fits, files->placed)) {
    return error_set(error, 1,
                     "the %s %s: the directory of its files has no path from the root on, or one that is too long",
                     what, fits);
  }
  qsort(files->at, (size_t)files->count, sizeof *files->at, by_bytes);
  return true;
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
