// count.c: a process that counts GPUs.
#include "runtime/cuda/count.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/cuda/driver.h"

_Noreturn static void count_and_tell(int pipe_end) {
  Cuda cuda;
  Error ignored;
  const int count = cuda_open(&cuda, &ignored) ? cuda_count(&cuda) : 0;
  _exit(write(pipe_end, &count, sizeof count) == (ssize_t)sizeof count ? 0 : 1);
}

static int count_here(Error *error) {
  Cuda cuda;
  if (!cuda_open(&cuda, error)) {
    return 0;
  }
  const int count = cuda_count(&cuda);
  cuda_close(&cuda);
  return count;
}

int cuda_count_apart(Error *error) {
  int ends[2];
  int count = 0;
  if (pipe(ends) != 0) {
    error_set(error, 3, "could not make a pipe to a process that counts GPUs: %s", strerror(errno));
    return 0;
  }
  fflush(NULL);  // what is not written yet would be written by both
  const pid_t pid = fork();
  if (pid == 0) {
    close(ends[0]);
    count_and_tell(ends[1]);
  }
  close(ends[1]);
  ssize_t got = -1;
  while (pid > 0 && (got = read(ends[0], &count, sizeof count)) < 0 && errno == EINTR) {
  }
  close(ends[0]);
  while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR) {
  }
  if (got != (ssize_t)sizeof count) {
    error_set(error, 1, "the process that counts GPUs ended before it had");
    return 0;
  }
  // A copy of a process that has used CUDA before, by an earlier run or another library, cannot; that itself can.
  return count > 0 ? count : count_here(error);
}
