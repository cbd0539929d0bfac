// file.h: whole files in and out, directories and paths.
//
// On failure a function returns NULL or false and `error` holds one sentence: what was asked and what was found.
#ifndef MDL_BASE_FILE_H
#define MDL_BASE_FILE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"

typedef struct {
  char text[512];
  int code;  // the system's; 0: there is none
} FileError;

// open, with O_CLOEXEC and rights 0666, fsync and close of the system, which signals do not interrupt: some file
// systems over networks let them.
int file_open(const char *path, int flags);
int file_sync(int fd);
int file_close(int fd);

// Flushes the directory that `path` stands in: its name, or that there is none, survives a power loss. False: errno.
bool file_sync_name(const char *path);

// The bytes of a regular file, followed by a NUL that is not counted. The caller frees them. A pipe is an error.
char *file_read(const char *path, size_t *length, FileError *error);

// The same of a text that somebody wrote: more than FILE_TEXT_MOST bytes are an error, and where `regular` is set, what
// is no regular file: a pipe might never say anything, a device never end.
enum { FILE_TEXT_MOST = 64 << 20 };
char *file_read_text(const char *path, bool regular, size_t *length, FileError *error);

// The same of what is open and stays so, called `name` in errors.
char *file_read_stream(int fd, const char *name, size_t *length, FileError *error);

#define FILE_BESIDE ".tmp-"  // and six hexadecimal digits: what the name ends with until the file is whole

// Replaces the file as a whole: readers see the old bytes or the new ones, also after a crash. A link stays one, and a
// device or a pipe is written to.
bool file_write_atomic(const char *path, const void *bytes, size_t length, FileError *error);

// Where the links of a name lead under which something is to be written, also where nothing is there yet. A file that
// has no name any longer, to which a link of /proc leads, is an error: the link itself would be replaced.
bool file_follow(const char *given, char path[PATH_MAX], FileError *error);

bool file_exists(const char *path);
bool file_same(const char *a, const char *b);  // both are one file, which is there; through links too
bool file_is_open(int fd, const char *path);   // is it the file of that name that is open?

// Makes a directory and those above it; one that exists is no error.
bool file_make_directories(const char *path, FileError *error);

// Where the user's programs keep what they can make again: MDL_CACHE, or XDG_CACHE_HOME/mdl, or ~/.cache/mdl; it may
// not exist yet. False: there is none, or its name is too long.
bool file_cache_folder(char *path, size_t size);

// In the arena. An absolute `name` stays as it is; the directory of "a.mdl" is ".".
const char *path_join(Arena *arena, const char *directory, const char *name);
const char *path_directory(Arena *arena, const char *path);

#endif
