// io.c: file operations with reasons.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "runtime/io.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/file.h"
#include "base/units.h"

bool io_failed(const char *what, const char *path, Error *error) {
  return error_set(error, errno == ENOMEM ? 3 : 1, "cannot %s %s: %s", what, path, strerror(errno));
}

// Counts an operation; true if it is the one that is to fail. Does not return if it is the one to die at, unless the
// operation wants to be half done first (`half`).
static bool io_fault(Io *io, bool *half) {
  if (!io) {
    return false;
  }
  const int64_t count = ++io->count;
  if (io->before) {
    io->before(io->context, count);
  }
  if (io->die_at && count == io->die_at) {
    if (!half) {
      _exit(137);
    }
    *half = true;
  }
  if ((io->fail_at && count == io->fail_at) || (io->fail_from && count >= io->fail_from)) {
    errno = ENOSPC;
    return true;
  }
  return false;
}

bool io_create(Io *io, const char *path, int *fd, Error *error) {
  *fd = io_fault(io, NULL) ? -1 : file_open(path, O_WRONLY | O_CREAT | O_EXCL);
  return *fd >= 0 || io_failed("create", path, error);
}

// From `offset` on; where that is negative, from where the file stands.
static bool write_from(Io *io, int fd, const char *path, int64_t offset, const void *data, size_t size, Error *error) {
  bool die = false;
  bool fail = io_fault(io, &die);
  size_t wanted = fail || die ? size / 2 : size;
  for (const char *at = data; wanted > 0;) {
    const size_t piece = wanted > (1u << 30) ? 1u << 30 : wanted;
    const ssize_t written = offset < 0 ? write(fd, at, piece) : pwrite(fd, at, piece, (off_t)offset);
    if (written < 0 && errno == EINTR) {
      continue;
    }
    if (written <= 0) {
      return io_failed("write", path, error);
    }
    at += written;
    offset += offset < 0 ? 0 : written;
    wanted -= (size_t)written;
  }
  if (die) {
    _exit(137);
  }
  if (fail) {
    errno = ENOSPC;
    return io_failed("write", path, error);
  }
  return true;
}

bool io_write(Io *io, int fd, const char *path, const void *data, size_t size, Error *error) {
  return write_from(io, fd, path, -1, data, size, error);
}

bool io_write_at(Io *io, int fd, const char *path, int64_t offset, const void *data, size_t size, Error *error) {
  return write_from(io, fd, path, offset, data, size, error);
}

bool io_sync(Io *io, int fd, const char *path, Error *error) {
  return (!io_fault(io, NULL) && file_sync(fd) == 0) || io_failed("write", path, error);
}

bool io_close(int fd, const char *path, Error *error) {
  return file_close(fd) == 0 || io_failed("write", path, error);
}

bool io_make_directory(Io *io, const char *path, Error *error) {
  return (!io_fault(io, NULL) && mkdir(path, 0777) == 0) || io_failed("create directory", path, error);
}

bool io_sync_directory(Io *io, const char *path, Error *error) {
  int fd = io_fault(io, NULL) ? -1 : file_open(path, O_RDONLY | O_DIRECTORY);
  if (fd < 0) {
    return io_failed("write directory", path, error);
  }
  // Some file systems cannot sync a directory and say EINVAL; there is nothing more to do on them.
  bool done = file_sync(fd) == 0 || errno == EINVAL;
  int reason = errno;
  file_close(fd);
  errno = reason;
  return done || io_failed("write directory", path, error);
}

bool io_rename(Io *io, const char *from, const char *to, Error *error) {
  return (!io_fault(io, NULL) && rename(from, to) == 0) || io_failed("rename to", to, error);
}

// Where the file system cannot do it in one step (NFS, many of user space): what was at `to` has a name beside it until
// the other is there. One that is killed in between leaves it so.
static bool exchange_in_steps(const char *from, const char *to, bool *exchanged, Error *error) {
  char aside[IO_PATH_MAX];
  if (!io_path(aside, error, "%s" IO_ASIDE_ENDING, to)) {
    return false;
  }
  io_remove_tree(aside);
  if (rename(to, aside) != 0) {
    return io_failed("rename to", aside, error);
  }
  if (rename(from, to) != 0) {
    io_failed("rename to", to, error);
    if (rename(aside, to) != 0) {
      error_set(error, 1, "cannot rename to %s: %s; what was there is %s", to, strerror(errno), aside);
    }
    return false;
  }
  *exchanged = rename(aside, from) == 0;
  if (!*exchanged) {
    io_remove_tree(aside);
  }
  return true;
}

bool io_exchange(Io *io, const char *from, const char *to, bool *exchanged, Error *error) {
  *exchanged = false;
  if (io_fault(io, NULL)) {
    return io_failed("rename to", to, error);
  }
  if (rename(from, to) == 0) {
    return true;
  }
  const bool there = errno == ENOTEMPTY || errno == EEXIST;
  if (there && renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_EXCHANGE) == 0) {
    *exchanged = true;
    return true;
  }
  if (there && (errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP)) {
    return exchange_in_steps(from, to, exchanged, error);
  }
  return io_failed("rename to", to, error);
}

bool io_path(char path[IO_PATH_MAX], Error *error, const char *format, ...) {
  va_list args;
  va_start(args, format);
  int length = vsnprintf(path, IO_PATH_MAX, format, args);
  va_end(args);
  return length < IO_PATH_MAX || error_set(error, 1, "the path is too long: %s", path);
}

// The name of a new directory is to survive a power loss, as all that will be in it.
static bool new_name_sync(const char *made, Error *error) {
  char parent[IO_PATH_MAX];
  return io_path(parent, error, "%s/..", made) && io_sync_directory(NULL, parent, error);
}

bool io_make_path(const char *path, Error *error) {
  char copy[IO_PATH_MAX];
  if (!io_path(copy, error, "%s", path)) {
    return false;
  }
  for (char *at = copy + 1;; at++) {
    if (*at == '/' || *at == '\0') {
      char end = *at;
      *at = '\0';
      const bool made = mkdir(copy, 0777) == 0;
      if (!made && errno != EEXIST) {
        return io_failed("create directory", copy, error);
      }
      if (made && !new_name_sync(copy, error)) {
        return false;
      }
      *at = end;
      if (end == '\0') {
        break;
      }
    }
  }
  struct stat info;
  const bool known = stat(path, &info) == 0;
  if (known && S_ISDIR(info.st_mode)) {
    return true;
  }
  errno = known ? ENOTDIR : errno;
  return io_failed("create directory", path, error);
}

bool io_lock(const char *path, int *fd, IoLock *lock, Error *error) {
  *fd = file_open(path, O_RDONLY | O_DIRECTORY);
  *lock = *fd >= 0 && flock(*fd, LOCK_EX | LOCK_NB) != 0 ? errno == EWOULDBLOCK ? IO_LOCK_TAKEN : IO_LOCK_NONE
                                                         : IO_LOCK_HELD;
  return *fd >= 0 || io_failed("open the directory", path, error);
}

// The path has so many bytes, and is as it was when this returns. It stands once for all levels: a directory of others
// may have as many as a path has room for.
static bool remove_at(char path[IO_PATH_MAX], size_t length) {
  struct stat info;
  if (lstat(path, &info) != 0) {
    return errno == ENOENT;
  }
  if (!S_ISDIR(info.st_mode)) {
    return unlink(path) == 0;
  }
  DIR *directory = opendir(path);
  if (!directory) {
    return false;
  }
  bool done = true;
  for (struct dirent *entry; (entry = readdir(directory));) {
    const size_t name = strlen(entry->d_name);
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) {
      continue;
    }
    if (length + 1 + name >= IO_PATH_MAX) {
      done = false;
      continue;
    }
    path[length] = '/';
    memcpy(path + length + 1, entry->d_name, name + 1);
    done &= remove_at(path, length + 1 + name);
    path[length] = '\0';
  }
  closedir(directory);
  return done && rmdir(path) == 0;
}

bool io_remove_tree(const char *path) {
  char copy[IO_PATH_MAX];
  Error ignored;
  return io_path(copy, &ignored, "%s", path) && remove_at(copy, strlen(copy));
}

bool io_read(int fd, const char *path, int64_t offset, void *data, size_t size, Error *error) {
  for (char *at = data; size > 0;) {
    ssize_t got = pread(fd, at, size > (1u << 30) ? 1u << 30 : size, (off_t)offset);
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0) {
      return io_failed("read", path, error);
    }
    if (got == 0) {
      return error_set(error, 1, "%s ended at byte %lld while it was read: another program shortened it", path,
                       (long long)offset);
    }
    at += got;
    offset += got;
    size -= (size_t)got;
  }
  return true;
}

static bool open_regular(const char *path, int flags, int *fd, int64_t *bytes, Error *error) {
  const char *what = (flags & O_ACCMODE) == O_RDONLY ? "read" : "write";
  struct stat info;
  *fd = file_open(path, flags | O_NONBLOCK);
  if (*fd < 0 && errno == ELOOP && (flags & O_NOFOLLOW)) {
    return error_set(error, 1, "cannot %s %s: it is a link, and what a run writes stays in its directory", what, path);
  }
  const bool pipe = *fd < 0 && errno == ENXIO;  // to write into, and nobody reads it
  if (*fd < 0 && !pipe) {
    return io_failed(what, path, error);
  }
  const bool known = !pipe && fstat(*fd, &info) == 0;
  if (known && S_ISREG(info.st_mode)) {
    *bytes = info.st_size;
    return true;
  }
  if (known || pipe) {
    error_set(error, 1, "cannot %s %s: it is not a file", what, path);
  } else {
    io_failed(what, path, error);
  }
  if (!pipe) {
    file_close(*fd);
  }
  *fd = -1;
  return false;
}

bool io_open(const char *path, int flags, int *fd, Error *error) {
  int64_t bytes;
  return open_regular(path, flags, fd, &bytes, error);
}

bool io_open_sized(const char *path, int *fd, int64_t *bytes, Error *error) {
  return open_regular(path, O_RDONLY, fd, bytes, error);
}

bool io_read_begin(const char *path, void *to, size_t size, size_t *got, Error *error) {
  int64_t bytes;
  int fd;
  if (!io_open_sized(path, &fd, &bytes, error)) {
    return false;
  }
  *got = (uint64_t)bytes < size ? (size_t)bytes : size;
  const bool done = io_read(fd, path, 0, to, *got, error);
  close(fd);
  return done;
}

bool io_read_file(const char *path, size_t limit, char **text, size_t *size, Error *error) {
  int fd;
  int64_t bytes;
  if (!io_open_sized(path, &fd, &bytes, error)) {
    return false;
  }
  bool done = false;
  char *memory = NULL;
  if ((uint64_t)bytes > limit) {
    error_set(error, 1, "%s has %lld bytes, more than the %zu that such a file may have", path, (long long)bytes,
              limit);
  } else if (!(memory = malloc((size_t)bytes + 1))) {
    error_set(error, 3, "no memory for the %lld bytes of %s", (long long)bytes, path);
  } else {
    done = io_read(fd, path, 0, memory, (size_t)bytes, error);
  }
  file_close(fd);
  if (!done) {
    free(memory);
    return false;
  }
  memory[bytes] = '\0';
  *text = memory;
  *size = (size_t)bytes;
  return true;
}

bool io_replace_file(Io *io, const char *path, const void *data, size_t size, Error *error) {
  char temporary[IO_PATH_MAX];
  int fd = -1;
  if (!io_path(temporary, error, "%s" IO_REPLACE_ENDING, path)) {
    return false;
  }
  unlink(temporary);
  if (!io_create(io, temporary, &fd, error)) {
    return false;
  }
  bool done = io_write(io, fd, temporary, data, size, error) && io_sync(io, fd, temporary, error);
  Error ignored;
  done &= io_close(fd, temporary, done ? error : &ignored);
  done = done && io_rename(io, temporary, path, error);
  if (!done) {
    unlink(temporary);
  }
  return done;
}

bool io_replace_text(Io *io, const char *path, Buffer *text, Error *error) {
  const bool done = text->failed ? error_set(error, 3, "no memory for %s", path)
                                 : io_replace_file(io, path, text->text, text->length, error);
  buffer_free(text);
  return done;
}

bool io_target(const char *path, char target[IO_PATH_MAX], Error *error) {
  char followed[PATH_MAX];
  FileError why;
  struct stat info;
  if (stat(path, &info) == 0 && !S_ISREG(info.st_mode)) {
    return error_set(error, 1, "cannot write %s: it is %s, and a file is made; give the name of a file", path,
                     S_ISDIR(info.st_mode) ? "a directory" : "a device or a pipe");
  }
  if (!file_follow(path, followed, &why)) {
    return error_set(error, why.code == ENOMEM ? 3 : 1, "%s", why.text);
  }
  return io_path(target, error, "%s", followed);
}

bool io_space(Io *io, const char *path, int64_t bytes, Error *error) {
  struct statvfs info;
  char needed[UNITS_MAX], there[UNITS_MAX];
  double space = io ? (double)io->space : 0;
  if (space <= 0) {
    if (statvfs(path, &info) != 0 || info.f_blocks == 0) {
      return true;  // nobody says how much there is: writing will tell
    }
    space = (double)info.f_bavail * (double)info.f_frsize;
  }
  return space >= (double)bytes || error_set(error, 1, "cannot write into %s: %s are needed and %s are free", path,
                                             units_bytes(needed, (double)bytes), units_bytes(there, space));
}

bool io_is_link(const char *path) {
  struct stat info;
  return lstat(path, &info) == 0 && S_ISLNK(info.st_mode);
}

bool io_longer(const char *path, size_t limit) {
  struct stat info;
  return stat(path, &info) == 0 && S_ISREG(info.st_mode) && (uint64_t)info.st_size > limit;
}

bool io_named(const char *path) {
  struct stat info;
  return lstat(path, &info) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

bool io_absent(const char *path) {
  struct stat info;
  return stat(path, &info) != 0 && (errno == ENOENT || errno == ENOTDIR);
}

uint64_t io_identity(const char *path) {
  struct stat info;
  return stat(path, &info) == 0 ? (uint64_t)info.st_ino : 0;
}

bool io_is_directory(const char *path) {
  struct stat info;
  return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

bool io_is_file(const char *path) {
  struct stat info;
  return stat(path, &info) == 0 && S_ISREG(info.st_mode);
}

bool io_find_file(const char *path, bool *found, Error *error) {
  struct stat info;
  const bool known = stat(path, &info) == 0;
  *found = known && S_ISREG(info.st_mode);
  return known || errno == ENOENT || errno == ENOTDIR || io_failed("read", path, error);
}

const char *io_no_file(const char *path) {
  struct stat info;
  if (stat(path, &info) != 0) {
    return lstat(path, &info) == 0 && S_ISLNK(info.st_mode) ? "a link that leads nowhere" : NULL;
  }
  return S_ISREG(info.st_mode)    ? NULL
         : S_ISDIR(info.st_mode)  ? "a directory"
         : S_ISFIFO(info.st_mode) ? "a pipe"
                                  : "no regular file";
}

bool io_find_in(const char *directory, const char *name, bool *found, Error *error) {
  char path[IO_PATH_MAX];
  *found = false;
  return io_path(path, error, "%s/%s", directory, name) && io_find_file(path, found, error);
}
