// processes_start.c: how the process of a rank begins: as this program again, which does not come to its main; or,
// where this program has only loaded libmdl, as the program mdl.
//
// The new process has two files open beside the standard ones: the socket over which it is handed its task
// (rank_task.h) and told what to do, and the memory that ranks of one machine share.
#define _GNU_SOURCE  // memfd_create, dladdr, ucred
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/processes_internal.h"

enum { SOCKET = 3, MEMORY = 4, FILES = 5 };

static const char name[] = "mdl rank";
static const int left_alone[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGXCPU};  // the process that starts ranks decides

// --- of the process that starts others ---

// A file with a number that the new process does not use.
static int moved_up(int file) {
  const int moved = file < 0 ? -1 : fcntl(file, F_DUPFD_CLOEXEC, FILES);
  const int why = errno;
  if (file >= 0) {
    close(file);
  }
  errno = why;
  return moved;
}

int processes_memory(size_t bytes) {
  const int file = moved_up(memfd_create("mdl ranks", MFD_CLOEXEC));
  if (file >= 0 && ftruncate(file, (off_t)bytes) != 0) {
    const int why = errno;
    close(file);
    errno = why;
    return -1;
  }
  return file;
}

static bool same_program(void) {
  Dl_info here = {0}, main = {0};
  return dladdr((const void *)(uintptr_t)&name, &here) == 0 ||
         dladdr((const void *)(uintptr_t)getauxval(AT_ENTRY), &main) == 0 || here.dli_fbase == main.dli_fbase;
}

// What is started: this program again, or where it has only loaded libmdl, as Python does, the program mdl that is
// installed with it.
static bool rank_program(char *path, size_t size) {
  static const char *const places[] = {"", "../bin/", "../../bin/"};
  Dl_info here = {0};
  if (same_program()) {
    snprintf(path, size, "/proc/self/exe");
    return true;
  }
  const char *library = dladdr((const void *)(uintptr_t)&name, &here) ? here.dli_fname : NULL;
  const char *slash = library ? strrchr(library, '/') : NULL;
  for (size_t i = 0; slash && i < sizeof places / sizeof *places; i++) {
    const int length = snprintf(path, size, "%.*s/%smdl", (int)(slash - library), library, places[i]);
    if (length < (int)size && access(path, X_OK) == 0) {
      return true;
    }
  }
  return false;
}

// With the signals blocked that it will ignore, so that none comes too early.
static int spawn(const char *program, int64_t rank, int socket, int memory, pid_t *pid) {
  char number[32];
  char *words[] = {(char *)(uintptr_t)name, number, NULL};
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  sigset_t blocked;
  snprintf(number, sizeof number, "%lld", (long long)rank);
  sigemptyset(&blocked);
  for (size_t i = 0; i < sizeof left_alone / sizeof *left_alone; i++) {
    sigaddset(&blocked, left_alone[i]);
  }
  int why = posix_spawnattr_init(&attributes);
  if (why) {
    return why;
  }
  why = posix_spawn_file_actions_init(&files);
  if (why) {
    posix_spawnattr_destroy(&attributes);
    return why;
  }
  why = posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  why = why ? why : posix_spawnattr_setsigmask(&attributes, &blocked);
  why = why ? why : posix_spawn_file_actions_adddup2(&files, socket, SOCKET);
  why = why ? why : posix_spawn_file_actions_adddup2(&files, memory, MEMORY);
  why = why ? why : posix_spawn_file_actions_addclosefrom_np(&files, FILES);
  why = why ? why : posix_spawn(pid, program, &files, &attributes, words, environ);
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  return why;
}

bool process_start(int64_t rank, int memory, pid_t *pid, int *socket, Error *error) {
  int pair[2];
  char program[PATH_MAX];
  if (!rank_program(program, sizeof program)) {
    return error_set(error, 1,
                     "libmdl is in a library that this program loads, and the program mdl, which ranks in processes of "
                     "their own are then, is not beside it: install both, or link libmdl statically");
  }
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
    return error_set(error, 3, "could not make a socket to the process of rank %lld: %s", (long long)rank,
                     strerror(errno));
  }
  const int theirs = moved_up(pair[1]);
  const int why = theirs < 0 ? errno : spawn(program, rank, theirs, memory, pid);
  if (theirs >= 0) {
    close(theirs);
  }
  if (why) {
    close(pair[0]);
    return error_set(error, 3, "could not start a process for rank %lld: %s", (long long)rank, strerror(why));
  }
  *socket = pair[0];
  return true;
}

// --- of the process that was started ---

// Dies with the process that made the socket, however that ends.
static void end_with_parent(void) {
  struct ucred maker = {0};
  socklen_t size = sizeof maker;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getsockopt(SOCKET, SOL_SOCKET, SO_PEERCRED, &maker, &size) != 0 || getppid() != maker.pid) {
    _exit(1);
  }
}

// Before main, and instead of it.
__attribute__((constructor)) static void begin_as_rank(int count, char **words) {
  int type = 0;
  socklen_t size = sizeof type;
  sigset_t blocked;
  if (count != 2 || strcmp(words[0], name) != 0 || getsockopt(SOCKET, SOL_SOCKET, SO_TYPE, &type, &size) != 0 ||
      type != SOCK_STREAM) {
    return;
  }
  end_with_parent();
  signal(SIGPIPE, SIG_IGN);
  sigemptyset(&blocked);
  for (size_t i = 0; i < sizeof left_alone / sizeof *left_alone; i++) {
    signal(left_alone[i], SIG_IGN);
    sigaddset(&blocked, left_alone[i]);
  }
  sigprocmask(SIG_UNBLOCK, &blocked, NULL);
  child_main(atoll(words[1]), SOCKET, MEMORY);
}
