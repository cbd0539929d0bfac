// overlap.c: files by device and number, and where sizes are the same by the hash of their bytes, which is made once.
#include "runtime/data/overlap.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "runtime/data/fingerprint.h"

struct OverlapFile {
  char *path;
  int64_t bytes;
  dev_t device;
  ino_t number;
  uint64_t print;  // 0: not known yet
};

bool overlap_add(Overlap *overlap, const char *path, Error *error) {
  struct stat info;
  if (stat(path, &info) != 0 || !S_ISREG(info.st_mode)) {
    return true;
  }
  if (overlap->count == overlap->room) {
    const int room = 2 * overlap->room + 1;
    OverlapFile *at = realloc(overlap->at, sizeof *at * (size_t)room);
    if (!at) {
      return error_set(error, 3, "no memory");
    }
    overlap->at = at;
    overlap->room = room;
  }
  OverlapFile *file = &overlap->at[overlap->count];
  *file = (OverlapFile){.path = strdup(path), .bytes = info.st_size, .device = info.st_dev, .number = info.st_ino};
  if (!file->path) {
    return error_set(error, 3, "no memory");
  }
  overlap->count++;
  return true;
}

void overlap_free(Overlap *overlap) {
  for (int i = 0; i < overlap->count; i++) {
    free(overlap->at[i].path);
  }
  free(overlap->at);
  *overlap = (Overlap){0};
}

const char *overlap_path(const Overlap *overlap, int index) {
  return overlap->at[index].path;
}

// What cannot be read is like no other file. False: no memory.
static bool printed(OverlapFile *file, Error *error) {
  if (file->print == 0 && file->bytes >= 0 && !fingerprint_file(file->path, &file->print, error)) {
    file->bytes = -1;
    return error->status != 3;
  }
  return true;
}

static bool overlap_has(Overlap *overlap, const char *path, bool *has, Error *error) {
  struct stat info;
  *has = false;
  if (stat(path, &info) != 0) {
    return true;
  }
  for (int i = 0; i < overlap->count && !*has; i++) {
    *has = overlap->at[i].device == info.st_dev && overlap->at[i].number == info.st_ino;
  }
  OverlapFile own = {.path = (char *)(uintptr_t)path, .bytes = info.st_size};
  for (int i = 0; i < overlap->count && !*has; i++) {
    OverlapFile *file = &overlap->at[i];
    if (file->bytes == own.bytes && (!printed(&own, error) || !printed(file, error))) {
      return false;
    }
    *has = file->bytes == own.bytes && own.bytes >= 0 && own.print == file->print;
  }
  return true;
}

bool overlap_count(Overlap *overlap, const Data *data, int *count, const char **first, Error *error) {
  const int parts = data_parts(data);
  *count = 0;
  *first = NULL;
  for (int i = 0; i < (parts > 0 ? parts : 1); i++) {
    const char *path = data_facts(parts > 0 ? data_part(data, i) : data).path;
    bool has;
    if (!overlap_has(overlap, path, &has, error)) {
      return false;
    }
    *first = has && !*first ? path : *first;
    *count += has;
  }
  return true;
}

void overlap_said(const Data *data, const char *what, int count, const char *first, Buffer *text) {
  const int parts = data_parts(data);
  if (count < parts) {
    buffer_format(text, "%d of the %d files of %s%s, such as %s,", count, parts, what, data_facts(data).path, first);
  } else {
    buffer_format(text, "%s%s", what, data_facts(data).path);
  }
}
