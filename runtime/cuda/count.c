// count.c: a process that counts GPUs.
#include "runtime/cuda/count.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/cuda/driver.h"

typedef struct {  // smaller than PIPE_BUF, so that it is written and read as one
  int count;
  Error error;
} Found;

_Noreturn static void count_and_tell(int pipe_end) {
  Found found = {0};
  Cuda cuda;
  if (cuda_open(&cuda, &found.error)) {
    found.count = cuda_count(&cuda);
  }
  _exit(write(pipe_end, &found, sizeof found) == (ssize_t)sizeof found ? 0 : 1);
}

int cuda_count_apart(Error *error) {
  int ends[2];
  Found found = {0};
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
  while (pid > 0 && (got = read(ends[0], &found, sizeof found)) < 0 && errno == EINTR) {
  }
  close(ends[0]);
  while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR) {
  }
  if (got != (ssize_t)sizeof found) {
    error_set(error, 1, "the process that counts GPUs ended before it had");
    return 0;
  }
  if (found.count <= 0) {
    *error = found.error;
  }
  return found.count;
}
