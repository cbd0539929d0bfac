// thread.c: all signals are blocked while the thread is made, and it inherits that.
#include "runtime/thread.h"

#include <signal.h>

int thread_start(pthread_t *thread, void *(*work)(void *), void *argument) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const int why = pthread_create(thread, NULL, work, argument);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return why;
}
