// file.c: files through POSIX calls; every failure in words.
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buffer.h"

static void file_error(FileError *error, const char *what, const char *path, int code) {
  snprintf(error->text, sizeof error->text, "cannot %s '%.300s': %s", what, path, strerror(code));
  error->code = code;
}

int file_open(const char *path, int flags) {
  int fd;
  do {
    fd = open(path, flags | O_CLOEXEC, 0666);
  } while (fd < 0 && errno == EINTR);
  return fd;
}

int file_sync(int fd) {
  int result;
  do {
    result = fsync(fd);
  } while (result < 0 && errno == EINTR);
  return result;
}

int file_close(int fd) {
  const int result = close(fd);
  return result < 0 && errno == EINTR ? 0 : result;  // it is closed
}

static bool read_all(int fd, size_t most, Buffer *buffer) {
  char block[1 << 16];
  for (;;) {
    ssize_t got = read(fd, block, sizeof block);
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got <= 0) {
      return got == 0;
    }
    buffer_bytes(buffer, block, (size_t)got);
    if (buffer->failed || buffer->length > most) {
      errno = buffer->failed ? ENOMEM : EFBIG;
      return false;
    }
  }
}

// Takes the memory of a file at once: one that has more bytes than the machine is refused before it is read.
static bool size_fits(int fd, size_t most, Buffer *buffer) {
  struct stat status;
  if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
    return true;
  }
  if ((uint64_t)status.st_size > most) {
    errno = EFBIG;
    return false;
  }
  errno = ENOMEM;
  return buffer_reserve(buffer, (size_t)status.st_size);
}

static char *read_from(int fd, const char *path, size_t most, size_t *length, FileError *error) {
  Buffer buffer = {0};
  if (!size_fits(fd, most, &buffer) || !read_all(fd, most, &buffer)) {
    file_error(error, "read", path, errno);
    goto fail_read;
  }
  buffer_bytes(&buffer, "", 0);  // an empty file is an empty text, not NULL
  if (buffer.failed) {
    file_error(error, "read", path, ENOMEM);
    goto fail_read;
  }
  *length = buffer.length;
  return buffer.text;

fail_read:
  buffer_free(&buffer);
  return NULL;
}

static char *read_at_most(const char *path, bool regular, size_t most, size_t *length, FileError *error) {
  struct stat status;
  int fd = file_open(path, O_RDONLY | (regular ? O_NONBLOCK : 0));
  if (fd < 0) {
    file_error(error, "open", path, errno);
    return NULL;
  }
  if (regular && fstat(fd, &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode)) {
    snprintf(error->text, sizeof error->text, "cannot read '%.300s': it is a device or a pipe, not a file", path);
    error->code = 0;
    file_close(fd);
    return NULL;
  }
  char *text = read_from(fd, path, most, length, error);
  file_close(fd);
  return text;
}

char *file_read(const char *path, size_t *length, FileError *error) {
  return read_at_most(path, true, SIZE_MAX, length, error);
}

char *file_read_text(const char *path, bool regular, size_t *length, FileError *error) {
  return read_at_most(path, regular, FILE_TEXT_MOST, length, error);
}

char *file_read_stream(int fd, const char *name, size_t *length, FileError *error) {
  return read_from(fd, name, FILE_TEXT_MOST, length, error);
}

bool file_exists(const char *path) {
  struct stat status;
  return stat(path, &status) == 0;
}

static bool is_one(const struct stat *x, const struct stat *y) {
  return S_ISREG(x->st_mode) && x->st_dev == y->st_dev && x->st_ino == y->st_ino;
}

bool file_same(const char *a, const char *b) {
  struct stat x, y;
  return stat(a, &x) == 0 && stat(b, &y) == 0 && is_one(&x, &y);
}

bool file_open_as(int fd, const char *path) {
  struct stat x, y;
  return fstat(fd, &x) == 0 && stat(path, &y) == 0 && is_one(&x, &y);
}

static bool write_all(int fd, const char *bytes, size_t length) {
  while (length > 0) {
    ssize_t put = write(fd, bytes, length);
    if (put < 0 && errno == EINTR) {
      continue;
    }
    if (put < 0) {
      return false;
    }
    bytes += put;
    length -= (size_t)put;
  }
  return true;
}

static size_t directory_length(const char *path) {
  const char *slash = strrchr(path, '/');
  while (slash && slash > path && slash[-1] == '/') {
    slash--;
  }
  return slash == path ? 1 : slash ? (size_t)(slash - path) : 0;
}

bool file_sync_name(const char *path) {
  char directory[PATH_MAX];
  size_t length = directory_length(path);
  snprintf(directory, sizeof directory, "%.*s", length ? (int)length : 1, length ? path : ".");
  int fd = file_open(directory, O_RDONLY | O_DIRECTORY);
  if (fd < 0) {
    return false;
  }
  bool done = file_sync(fd) == 0 || errno == EINVAL;  // some file systems cannot
  int code = errno;
  file_close(fd);
  errno = code;
  return done;
}

// A device or a pipe is written to; a file put in its place would be the end of it.
static bool write_special(const char *path, const void *bytes, size_t length, FileError *error) {
  int fd = file_open(path, O_WRONLY);
  bool done = fd >= 0 && write_all(fd, bytes, length);
  int code = errno;
  if (fd >= 0 && file_close(fd) != 0 && done) {
    done = false;
    code = errno;
  }
  if (!done) {
    file_error(error, "write", path, code);
  }
  return done;
}

// A file of a new name that begins with `path`, with the rights that new files have. -1: errno says why.
static int create_beside(const char *path, char *temporary, size_t size) {
  static atomic_uint number;
  int fd = -1;
  for (int tries = 0; fd < 0 && tries < 100; tries++) {
    const unsigned mark = ((unsigned)getpid() * 2654435761u + atomic_fetch_add(&number, 40503u)) & 0xffffffu;
    if ((size_t)snprintf(temporary, size, "%s" FILE_BESIDE "%06x", path, mark) >= size) {
      errno = ENAMETOOLONG;
      return -1;
    }
    fd = file_open(temporary, O_WRONLY | O_CREAT | O_EXCL);
    if (fd < 0 && errno != EEXIST) {
      return -1;
    }
  }
  return fd;
}

// What a link says, in the place of its name.
static bool link_step(char path[PATH_MAX]) {
  char to[PATH_MAX], next[PATH_MAX];
  const char *slash = strrchr(path, '/');
  const ssize_t length = readlink(path, to, sizeof to);
  if (length < 0 || length == (ssize_t)sizeof to) {
    errno = length < 0 ? errno : ENAMETOOLONG;
    return false;
  }
  const int above = to[0] == '/' || !slash ? 0 : (int)(slash - path) + 1;
  if (snprintf(next, sizeof next, "%.*s%.*s", above, path, (int)length, to) >= (int)sizeof next) {
    errno = ENAMETOOLONG;
    return false;
  }
  memcpy(path, next, strlen(next) + 1);
  return true;
}

bool file_follow(const char *given, char path[PATH_MAX], FileError *error) {
  enum { LINKS_MOST = 40 };
  struct stat status;
  if (realpath(given, path)) {
    return true;
  }
  bool done = snprintf(path, PATH_MAX, "%s", given) < PATH_MAX;
  errno = done ? 0 : ENAMETOOLONG;
  for (int links = 0; done && lstat(path, &status) == 0 && S_ISLNK(status.st_mode); links++) {
    if (stat(path, &status) == 0) {  // as /dev/stdout of a file that was removed and is still open
      snprintf(error->text, sizeof error->text,
               "cannot write '%.300s': it leads to a file that has no name any longer; give the name of a file", given);
      error->code = 0;
      return false;
    }
    errno = ELOOP;
    done = links < LINKS_MOST && link_step(path);
  }
  if (!done) {
    file_error(error, "write", given, errno);
  }
  return done;
}

bool file_write_atomic(const char *given, const void *bytes, size_t length, FileError *error) {
  char temporary[PATH_MAX], path[PATH_MAX];
  struct stat status;
  const bool exists = stat(given, &status) == 0;
  if (exists && !S_ISREG(status.st_mode)) {
    return write_special(given, bytes, length, error);
  }
  if (!file_follow(given, path, error)) {  // links stay links
    return false;
  }
  int fd = create_beside(path, temporary, sizeof temporary);
  if (fd < 0) {
    file_error(error, "write", given, errno);
    return false;
  }
  if (!write_all(fd, bytes, length) || (exists && fchmod(fd, status.st_mode & 0777) != 0) || file_sync(fd) != 0) {
    file_error(error, "write", given, errno);
    file_close(fd);
    goto fail_write;
  }
  if (file_close(fd) != 0 || rename(temporary, path) != 0 || !file_sync_name(path)) {
    file_error(error, "write", given, errno);
    goto fail_write;
  }
  return true;

fail_write:
  unlink(temporary);
  return false;
}

static bool make_directory(const char *path, const char *whole, FileError *error) {
  struct stat status;
  if (mkdir(path, 0777) == 0) {
    return true;
  }
  int code = errno;
  if (stat(path, &status) == 0) {
    if (S_ISDIR(status.st_mode)) {
      return true;
    }
    code = ENOTDIR;
  }
  file_error(error, "make the directory", whole, code);
  return false;
}

bool file_make_directories(const char *path, FileError *error) {
  char part[PATH_MAX];
  size_t length = strlen(path);
  if (length == 0 || length >= sizeof part) {
    file_error(error, "make the directory", path, length ? ENAMETOOLONG : ENOENT);
    return false;
  }
  memcpy(part, path, length + 1);
  for (size_t i = 1; i < length; i++) {
    if (part[i] == '/' && part[i - 1] != '/') {
      part[i] = '\0';
      if (!make_directory(part, path, error)) {
        return false;
      }
      part[i] = '/';
    }
  }
  return make_directory(part, path, error);
}

bool file_cache_folder(char *path, size_t size) {
  const char *set = getenv("MDL_CACHE"), *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
  int length = 0;
  if (set && *set) {
    length = snprintf(path, size, "%s", set);
  } else if (xdg && *xdg) {
    length = snprintf(path, size, "%s/mdl", xdg);
  } else if (home && *home) {
    length = snprintf(path, size, "%s/.cache/mdl", home);
  }
  return length > 0 && (size_t)length < size;
}

const char *path_join(Arena *arena, const char *directory, const char *name) {
  size_t length = strlen(directory);
  if (name[0] == '/' || length == 0 || strcmp(directory, ".") == 0) {
    return arena_copy(arena, name, strlen(name) + 1);
  }
  return arena_format(arena, "%s%s%s", directory, directory[length - 1] == '/' ? "" : "/", name);
}

const char *path_directory(Arena *arena, const char *path) {
  size_t length = directory_length(path);
  return length ? arena_format(arena, "%.*s", (int)length, path) : arena_format(arena, ".");
}
