// io.h: the file operations of saving, countable, so that a test can make the n-th of them fail or die there.
//
// Every function takes an Io, which several threads may share; NULL means plain operation. All return false and fill
// `error` with the path and the system's reason.
#ifndef MDL_RUNTIME_IO_H
#define MDL_RUNTIME_IO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "runtime/device.h"

enum { IO_PATH_MAX = 4096 };
#define IO_ASIDE_ENDING ".aside"
#define IO_REPLACE_ENDING ".tmp"  // of the temporary file of io_replace_file

typedef struct {
  _Atomic int64_t count;  // operations so far
  int64_t fail_at;        // this one (from 1) fails: a write stores half of its bytes and reports a full disk; 0: none
  int64_t fail_from;      // this one and all after it fail so; 0: none
  int64_t space;          // bytes that are free, whatever the file system says; 0: what it says
  int64_t part_bytes;  // that a file of a checkpoint's tensors may have before another begins; 0: as checkpoint.h says
  void (*before)(void *context, int64_t count);  // called at each, with its number from 1; NULL: nothing is
  void *context;
  int64_t die_at;  // this one ends the process half-way, without any cleanup, as kill -9 does; 0: none
} Io;

bool io_create(Io *io, const char *path, int *fd, Error *error);  // a new file; one that exists is an error
bool io_write(Io *io, int fd, const char *path, const void *data, size_t size, Error *error);  // all of it
bool io_write_at(Io *io, int fd, const char *path, int64_t offset, const void *data, size_t size, Error *error);
bool io_sync(Io *io, int fd, const char *path, Error *error);
bool io_close(int fd, const char *path, Error *error);
bool io_make_directory(Io *io, const char *path, Error *error);  // its parent exists
bool io_sync_directory(Io *io, const char *path, Error *error);
bool io_rename(Io *io, const char *from, const char *to, Error *error);
// Puts directory `from` at `to`; where `to` exists, both change places, in one step where the file system can do that.
// Where it cannot, one that is killed in between may leave what was at `to` under that name with IO_ASIDE_ENDING alone.
bool io_exchange(Io *io, const char *from, const char *to, bool *exchanged, Error *error);

// "cannot WHAT PATH: " and what errno says, which is status 3 where memory is missing, else 1. Returns false.
bool io_failed(const char *what, const char *path, Error *error);

// A path of at most IO_PATH_MAX - 1 bytes; false, with `error` set, if it is longer.
bool io_path(char path[IO_PATH_MAX], Error *error, const char *format, ...) __attribute__((format(printf, 3, 4)));

bool io_make_path(const char *path, Error *error);  // mkdir -p; the names are flushed
// Opens a directory and locks it for this process. Where another one has it, or the file system has no locks, *fd is
// open all the same.
typedef enum { IO_LOCK_HELD, IO_LOCK_TAKEN, IO_LOCK_NONE } IoLock;
bool io_lock(const char *path, int *fd, IoLock *lock, Error *error);
bool io_remove_tree(const char *path);  // best effort; false if something is left
bool io_read(int fd, const char *path, int64_t offset, void *data, size_t size, Error *error);  // exactly size bytes
// A regular file of `flags` for open, made with them where O_CREAT is among them; *fd -1 and false otherwise. A pipe in
// its place is an error at once: opening one would wait for ever. O_NOFOLLOW: so is a link.
bool io_open(const char *path, int flags, int *fd, Error *error);
// The same of a file that is read, and how many bytes it has.
bool io_open_sized(const char *path, int *fd, int64_t *bytes, Error *error);
// Its first bytes, `size` at most. *got: how many.
bool io_read_begin(const char *path, void *to, size_t size, size_t *got, Error *error);
// The whole file, NUL-terminated, on the heap; at most `limit` bytes.
bool io_read_file(const char *path, size_t limit, char **text, size_t *size, Error *error);
// A whole file by temporary file, fsync and rename.
bool io_replace_file(Io *io, const char *path, const void *data, size_t size, Error *error);
// The same of text that was built, which is freed. A text that memory was missing for is an error, and no file.
bool io_replace_text(Io *io, const char *path, Buffer *text, Error *error);
// Where links of the name of a file that is to be replaced lead, so that they stay links. What is there and no regular
// file, such as a device, is an error: a file in its place would be the end of it.
bool io_target(const char *path, char target[IO_PATH_MAX], Error *error);
// Are so many bytes free in the file system of a directory? True as well where it does not say.
bool io_space(Io *io, const char *path, int64_t bytes, Error *error);
bool io_is_link(const char *path);
bool io_absent(const char *path);                // it is not there; false where that cannot be known
bool io_longer(const char *path, size_t limit);  // a file of more bytes
bool io_named(const char *path);                 // something has this name: also a link that leads nowhere
uint64_t io_identity(const char *path);          // of what stands there now; 0: that cannot be known
bool io_is_directory(const char *path);
bool io_is_file(const char *path);
// What stands there in the place of a file: "a directory", "a link that leads nowhere"; NULL: a file, or nothing at
// all.
const char *io_no_file(const char *path);
// Is there a file? False, with `error` filled: that cannot be known.
bool io_find_file(const char *path, bool *found, Error *error);
// The same of a file in a directory.
bool io_find_in(const char *directory, const char *name, bool *found, Error *error);

#endif
