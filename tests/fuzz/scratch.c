// scratch.c: see scratch.h.
#include "tests/fuzz/scratch.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/fuzz/memory_files.h"

enum { PATHS = 64 };

static char real_directory[64];
static struct { char name[64], path[160]; } paths[PATHS];
static int path_count;

static void must(bool done, const char *what) {
  if (!done) {
    perror(what);
    abort();
  }
}

const char *scratch_path(const char *name) {
  for (int i = 0; i < path_count; i++) {
    if (strcmp(paths[i].name, name) == 0) {
      return paths[i].path;
    }
  }
  must(path_count < PATHS, "scratch_path: too many files");
  snprintf(paths[path_count].name, sizeof paths[0].name, "%s", name);
  snprintf(paths[path_count].path, sizeof paths[0].path, MEMORY_FILES "/%s", name);
  return paths[path_count++].path;
}

const char *scratch_file(const char *name, const void *bytes, size_t length) {
  const char *path = scratch_path(name);
  memory_file_put(path, bytes, length);
  return path;
}

void scratch_remove(const char *name) {
  memory_file_remove(scratch_path(name));
}

static void forget(void) {
  io_remove_tree(real_directory);
}

const char *scratch_begin(void) {
  snprintf(real_directory, sizeof real_directory, "%s/mdl-readers-%d",
           access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp", (int)getpid());
  must(mkdir(real_directory, 0700) == 0, real_directory);
  return real_directory;
}

void scratch_adopt(const char *from, const char *name) {
  DIR *directory = opendir(from);
  must(directory != NULL, from);
  for (struct dirent *entry; (entry = readdir(directory));) {
    char path[IO_PATH_MAX], to[64];
    char *bytes;
    size_t length;
    Error error;
    snprintf(path, sizeof path, "%s/%s", from, entry->d_name);
    if (snprintf(to, sizeof to, "%s/%s", name, entry->d_name) < (int)sizeof to && io_is_file(path)) {
      must(io_read_file(path, (size_t)1 << 30, &bytes, &length, &error), path);
      scratch_file(to, bytes, length);
      free(bytes);
    }
  }
  closedir(directory);
  forget();
}

void scratch_answered(bool done, const Error *error) {
  enum { LAST_STATUS = 6 };  // of docs/cli.md
  if (!done && (error->status < 1 || error->status > LAST_STATUS || !error->text[0])) {
    fprintf(stderr, "refused with status %d, and the words: %s\n", error->status, error->text);
    abort();
  }
}

char *scratch_text(const void *bytes, size_t length) {
  char *text = malloc(length + 1);  // of its own size, so that a sanitizer sees what reads behind it
  must(text != NULL, "malloc");
  if (length > 0) {
    memcpy(text, bytes, length);
  }
  text[length] = '\0';
  return text;
}
