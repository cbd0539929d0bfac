// library.c: files of the standard library, which is inside the program, for editors to open.
#include "lsp/library.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"

const StdlibFile *library_part(const char *path) {
  static const char folder[] = "std/", end[] = ".mdl";
  const size_t length = strlen(path), before = sizeof folder - 1, behind = sizeof end - 1;
  if (length <= before + behind || strncmp(path, folder, before) != 0 || strcmp(path + length - behind, end) != 0) {
    return NULL;
  }
  for (const StdlibFile *part = stdlib_files; part->name; part++) {
    if (strlen(part->name) == length - before - behind &&
        strncmp(part->name, path + before, length - before - behind) == 0) {
      return part;
    }
  }
  return NULL;
}

// Whether a file has exactly this text.
static bool holds(const char *path, const char *text, size_t length) {
  size_t found = 0;
  FileError error;
  char *bytes = file_exists(path) ? file_read_text(path, true, &found, &error) : NULL;
  const bool same = bytes && found == length && memcmp(bytes, text, length) == 0;
  free(bytes);
  return same;
}

const char *library_uri(Arena *arena, const StdlibFile *part) {
  char cache[PATH_MAX];
  FileError error;
  if (!file_cache_folder(cache, sizeof cache) || cache[0] != '/') {
    return NULL;
  }
  const char *folder = path_join(arena, cache, "std");
  const char *path = path_join(arena, folder, arena_format(arena, "%s.mdl", part->name));
  if (!holds(path, part->text, part->length) &&
      (!file_make_directories(folder, &error) || !file_write_atomic(path, part->text, part->length, &error))) {
    return NULL;
  }
  return path_uri(arena, path);
}
