// scratch.c: see scratch.h.
#include "tests/fuzz/scratch.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATHS = 64 };

static char directory[64];
static struct { char name[64], path[160]; } paths[PATHS];
static int path_count;

static void forget(void) {
  io_remove_tree(directory);
}

static void must(bool done, const char *what) {
  if (!done) {
    perror(what);
    abort();
  }
}

const char *scratch_path(const char *name) {
  if (!directory[0]) {
    snprintf(directory, sizeof directory, "%s/mdl-readers-%d", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp",
             (int)getpid());
    must(mkdir(directory, 0700) == 0, directory);
    atexit(forget);
  }
  for (int i = 0; i < path_count; i++) {
    if (strcmp(paths[i].name, name) == 0) {
      return paths[i].path;
    }
  }
  must(path_count < PATHS, "scratch_path: too many files");
  snprintf(paths[path_count].name, sizeof paths[0].name, "%s", name);
  snprintf(paths[path_count].path, sizeof paths[0].path, "%s/%s", directory, name);
  return paths[path_count++].path;
}

const char *scratch_file(const char *name, const void *bytes, size_t length) {
  const char *path = scratch_path(name);
  const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  must(fd >= 0 && (length == 0 || write(fd, bytes, length) == (ssize_t)length), path);
  close(fd);
  return path;
}

void scratch_directory(const char *name) {
  const char *path = scratch_path(name);
  must(mkdir(path, 0700) == 0, path);
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
