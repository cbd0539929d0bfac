// memory_files.c: see memory_files.h.
#define _GNU_SOURCE  // fopencookie
#include "tests/fuzz/memory_files.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILES = 96, HANDLES = 64, FIRST_HANDLE = 1 << 20, NAME_MOST = 200 };

typedef struct {
  char name[NAME_MOST];  // empty: nobody can open it again
  char *bytes;
  size_t length, room;
  int handles;
} MemoryFile;

typedef struct {
  bool used;
  MemoryFile *file;  // NULL: a directory
  size_t at;
  int flags;
} Handle;

static MemoryFile files[FILES];
static Handle handles[HANDLES];
static bool alone;

void memory_files_alone(bool on) {
  alone = on;
}

int memory_files_open(void) {
  int count = 0;
  for (int i = 0; i < HANDLES; i++) {
    count += handles[i].used;
  }
  return count;
}

// --- names ---

static bool is_ours(const char *path) {
  static const size_t length = sizeof MEMORY_FILES - 1;
  return strncmp(path, MEMORY_FILES, length) == 0 && (path[length] == '/' || path[length] == '\0');
}

static bool is_missing(const char *path) {
  return alone && path[0] != '/';
}

static int fails(int reason) {
  errno = reason;
  return -1;
}

// Without doubled slashes, "." and "..", which names of inputs have; false if it is too long for any of the files.
static bool name_of(const char *path, char name[NAME_MOST]) {
  size_t length = 0;
  while (*path) {
    const size_t part = strcspn(path, "/");
    if (part == 2 && strncmp(path, "..", 2) == 0) {
      while (length > 0 && name[--length] != '/') {
      }
    } else if (part > 0 && !(part == 1 && *path == '.')) {
      if (length + part + 2 > NAME_MOST) {
        return false;
      }
      name[length++] = '/';
      memcpy(name + length, path, part);
      length += part;
    }
    path += part + (path[part] == '/');
  }
  name[length] = '\0';
  return true;
}

static MemoryFile *file_at(const char *path) {
  char name[NAME_MOST];
  for (int i = 0; i < FILES; i++) {  // most names are written as they are
    if (strcmp(files[i].name, path) == 0 && *path) {
      return &files[i];
    }
  }
  for (int i = 0; name_of(path, name) && i < FILES; i++) {
    if (strcmp(files[i].name, name) == 0 && *name) {
      return &files[i];
    }
  }
  return NULL;
}

static bool is_directory(const char *path) {
  char name[NAME_MOST];
  if (!name_of(path, name)) {
    return false;
  }
  const size_t length = strlen(name);
  for (int i = 0; i < FILES; i++) {
    if (strncmp(files[i].name, name, length) == 0 && files[i].name[length] == '/') {
      return true;
    }
  }
  return strcmp(name, MEMORY_FILES) == 0;
}

// Why a path is none of a file.
static int no_file(const char *path) {
  return fails(is_directory(path) ? EISDIR : ENOENT);
}

static MemoryFile *file_new(const char *path) {
  for (int i = 0; i < FILES; i++) {
    if (!files[i].name[0] && files[i].handles == 0) {
      files[i].length = 0;
      return name_of(path, files[i].name) ? &files[i] : NULL;
    }
  }
  fprintf(stderr, "memory_files: too many files\n");
  abort();
}

static void file_room(MemoryFile *file, size_t length) {
  if (length > file->room) {
    file->room = 2 * length + 4096;
    file->bytes = realloc(file->bytes, file->room);
  }
  if (length > 0 && !file->bytes) {
    abort();
  }
}

void memory_file_put(const char *path, const void *bytes, size_t length) {
  MemoryFile *file = file_at(path);
  file = file ? file : file_new(path);
  if (!file) {
    abort();
  }
  file_room(file, length);
  if (length > 0) {
    memcpy(file->bytes, bytes, length);
  }
  file->length = length;
}

void memory_file_remove(const char *path) {
  MemoryFile *file = file_at(path);
  if (file) {
    file->name[0] = '\0';
  }
}

// --- calls of the C library ---

#define WRAP(result, name, ...)      \
  result __real_##name(__VA_ARGS__); \
  result __wrap_##name(__VA_ARGS__); \
  result __wrap_##name(__VA_ARGS__)

static Handle *handle_of(int fd) {
  return fd >= FIRST_HANDLE && fd < FIRST_HANDLE + HANDLES ? &handles[fd - FIRST_HANDLE] : NULL;
}

static int handle_new(MemoryFile *file, int flags) {
  for (int i = 0; i < HANDLES; i++) {
    if (!handles[i].used) {
      handles[i] = (Handle){true, file, 0, flags};
      if (file) {
        file->handles++;
      }
      return FIRST_HANDLE + i;
    }
  }
  return fails(EMFILE);
}

static int memory_open(const char *path, int flags) {
  MemoryFile *file = file_at(path);
  if (!file && is_directory(path)) {
    return (flags & O_ACCMODE) == O_RDONLY ? handle_new(NULL, flags) : fails(EISDIR);
  }
  if (file ? (flags & O_EXCL) != 0 : (flags & O_CREAT) == 0) {
    return fails(file ? EEXIST : ENOENT);
  }
  if (file && (flags & O_DIRECTORY)) {
    return fails(ENOTDIR);
  }
  if (!file && !(file = file_new(path))) {
    return fails(ENAMETOOLONG);
  }
  if (flags & O_TRUNC) {
    file->length = 0;
  }
  return handle_new(file, flags);
}

WRAP(int, open, const char *path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const unsigned mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, unsigned) : 0;
  va_end(more);
  if (is_missing(path)) {
    return fails(flags & O_CREAT ? EACCES : ENOENT);
  }
  return is_ours(path) ? memory_open(path, flags) : __real_open(path, flags, mode);
}

WRAP(int, close, int fd) {
  Handle *handle = handle_of(fd);
  if (!handle) {
    return __real_close(fd);
  }
  if (!handle->used) {
    abort();  // twice
  }
  if (handle->file) {
    handle->file->handles--;
  }
  handle->used = false;
  return 0;
}

static ssize_t read_at(const Handle *handle, void *to, size_t size, size_t at) {
  if (!handle->used || !handle->file) {
    return fails(handle->used ? EISDIR : EBADF);
  }
  const size_t left = at < handle->file->length ? handle->file->length - at : 0, now = size < left ? size : left;
  if (now > 0) {
    memcpy(to, handle->file->bytes + at, now);
  }
  return (ssize_t)now;
}

static ssize_t write_at(const Handle *handle, const void *from, size_t size, size_t at) {
  if (!handle->used || !handle->file || (handle->flags & O_ACCMODE) == O_RDONLY) {
    return fails(EBADF);
  }
  MemoryFile *file = handle->file;
  file_room(file, at + size);
  if (at > file->length) {
    memset(file->bytes + file->length, 0, at - file->length);
  }
  if (size > 0) {
    memcpy(file->bytes + at, from, size);
  }
  file->length = at + size > file->length ? at + size : file->length;
  return (ssize_t)size;
}

WRAP(ssize_t, pread, int fd, void *to, size_t size, off_t at) {
  const Handle *handle = handle_of(fd);
  if (!handle) {
    return __real_pread(fd, to, size, at);
  }
  return at < 0 ? fails(EINVAL) : read_at(handle, to, size, (size_t)at);
}

WRAP(ssize_t, pwrite, int fd, const void *from, size_t size, off_t at) {
  const Handle *handle = handle_of(fd);
  if (!handle) {
    return __real_pwrite(fd, from, size, at);
  }
  return at < 0 ? fails(EINVAL) : write_at(handle, from, size, (size_t)at);
}

static ssize_t read_on(Handle *handle, void *to, size_t size) {
  const ssize_t done = read_at(handle, to, size, handle->at);
  handle->at += done > 0 ? (size_t)done : 0;
  return done;
}

static ssize_t write_on(Handle *handle, const void *from, size_t size) {
  if (handle->file && handle->flags & O_APPEND) {
    handle->at = handle->file->length;
  }
  const ssize_t done = write_at(handle, from, size, handle->at);
  handle->at += done > 0 ? (size_t)done : 0;
  return done;
}

WRAP(ssize_t, read, int fd, void *to, size_t size) {
  Handle *handle = handle_of(fd);
  return handle ? read_on(handle, to, size) : __real_read(fd, to, size);
}

WRAP(ssize_t, write, int fd, const void *from, size_t size) {
  Handle *handle = handle_of(fd);
  return handle ? write_on(handle, from, size) : __real_write(fd, from, size);
}

static int fill(const MemoryFile *file, struct stat *info) {
  *info = (struct stat){.st_dev = 0x6d646c, .st_ino = (ino_t)(file ? file - files + 1 : FILES + 1), .st_nlink = 1};
  info->st_mode = file ? S_IFREG | 0600 : S_IFDIR | 0700;
  info->st_size = file ? (off_t)file->length : 0;
  return 0;
}

WRAP(int, fstat, int fd, struct stat *info) {
  const Handle *handle = handle_of(fd);
  return handle ? fill(handle->file, info) : __real_fstat(fd, info);
}

static int memory_stat(const char *path, struct stat *info) {
  const MemoryFile *file = is_missing(path) ? NULL : file_at(path);
  return file || (!is_missing(path) && is_directory(path)) ? fill(file, info) : fails(ENOENT);
}

WRAP(int, stat, const char *path, struct stat *info) {
  return is_ours(path) || is_missing(path) ? memory_stat(path, info) : __real_stat(path, info);
}

WRAP(int, lstat, const char *path, struct stat *info) {
  return is_ours(path) || is_missing(path) ? memory_stat(path, info) : __real_lstat(path, info);
}

WRAP(int, access, const char *path, int how) {
  struct stat info;
  return is_ours(path) || is_missing(path) ? memory_stat(path, &info) : __real_access(path, how);
}

WRAP(int, unlink, const char *path) {
  if (is_missing(path)) {
    return fails(ENOENT);
  }
  if (!is_ours(path)) {
    return __real_unlink(path);
  }
  if (!file_at(path)) {
    return no_file(path);
  }
  memory_file_remove(path);
  return 0;
}

WRAP(int, rename, const char *from, const char *to) {
  if (is_missing(from) || is_missing(to)) {
    return fails(ENOENT);
  }
  if (!is_ours(from) && !is_ours(to)) {
    return __real_rename(from, to);
  }
  MemoryFile *file = file_at(from);
  char name[NAME_MOST];
  if (!file || !is_ours(to) || is_directory(to) || !name_of(to, name)) {
    return fails(!file ? ENOENT : EXDEV);
  }
  if (file_at(to) != file) {
    memory_file_remove(to);
    memcpy(file->name, name, sizeof name);
  }
  return 0;
}

WRAP(int, fsync, int fd) {
  return handle_of(fd) ? 0 : __real_fsync(fd);
}

WRAP(int, flock, int fd, int how) {
  return handle_of(fd) ? 0 : __real_flock(fd, how);
}

WRAP(int, ftruncate, int fd, off_t length) {
  const Handle *handle = handle_of(fd);
  if (!handle) {
    return __real_ftruncate(fd, length);
  }
  if (!handle->file || length < 0) {
    return fails(EINVAL);
  }
  const size_t had = handle->file->length;
  file_room(handle->file, (size_t)length);
  if ((size_t)length > had) {
    memset(handle->file->bytes + had, 0, (size_t)length - had);
  }
  handle->file->length = (size_t)length;
  return 0;
}

WRAP(char *, realpath, const char *path, char *to) {
  struct stat info;
  if (!is_ours(path) && !is_missing(path)) {
    return __real_realpath(path, to);
  }
  if (memory_stat(path, &info) != 0) {
    return NULL;
  }
  char name[PATH_MAX];
  name_of(path, name);
  return to ? strcpy(to, name) : strdup(name);
}

// --- streams ---

static ssize_t stream_read(void *handle, char *to, size_t size) {
  return read_on(handle, to, size);
}

static ssize_t stream_write(void *handle, const char *from, size_t size) {
  const ssize_t done = write_on(handle, from, size);
  return done < 0 ? 0 : done;  // as fopencookie(3) wants it
}

static int stream_close(void *handle) {
  return __wrap_close(FIRST_HANDLE + (int)((Handle *)handle - handles));
}

WRAP(FILE *, fopen, const char *path, const char *how) {
  if (!is_ours(path) && !is_missing(path)) {
    return __real_fopen(path, how);
  }
  static const cookie_io_functions_t calls = {.read = stream_read, .write = stream_write, .close = stream_close};
  const int flags = *how == 'r' ? O_RDONLY : *how == 'w' ? O_WRONLY | O_CREAT | O_TRUNC : O_WRONLY | O_CREAT | O_APPEND;
  const int fd = __wrap_open(path, flags, 0600);
  return fd < 0 ? NULL : fopencookie(handle_of(fd), how, calls);
}
