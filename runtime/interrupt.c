// interrupt.c: the flag and its handler.
#include "runtime/interrupt.h"

#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t requested;
static volatile int64_t first;  // when it was, in milliseconds

static void say(const char *text) {  // where printf may not be called
  if (write(STDERR_FILENO, text, strlen(text)) < 0) {
    return;
  }
}

static int64_t milliseconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

// `timeout` and `srun` send the same signal twice, to the process and to its group: what comes so soon is one wish. The
// kernel repeats SIGXCPU after each further second of processors, and nobody wishes anything by that.
static void handle(int number) {
  const int64_t now = milliseconds();
  if (requested && (number == SIGXCPU || now - first < INTERRUPT_TOGETHER_MS)) {
    return;
  }
  if (requested) {
    say("stopped at once: nothing was saved after the newest checkpoint\n");
    _exit(130);
  }
  first = now;
  requested = 1;
}

static const int signals[INTERRUPT_SIGNALS] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGXCPU, SIGPIPE};

// Threads may train at once: the first that begins installs the handlers, the last that ends puts back what was there.
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int listening;
static struct sigaction old[INTERRUPT_SIGNALS];

void interrupt_install(void) {
  pthread_mutex_lock(&lock);
  const bool first_one = listening++ == 0;
  if (first_one) {
    requested = 0;
  }
  for (int i = 0; first_one && i < INTERRUPT_SIGNALS; i++) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = signals[i] == SIGPIPE ? SIG_IGN : handle;
    action.sa_flags = SA_RESTART;
    sigfillset(&action.sa_mask);  // one after the other
    sigaction(signals[i], &action, &old[i]);
    if (signals[i] == SIGHUP && old[i].sa_handler == SIG_IGN) {
      sigaction(signals[i], &old[i], NULL);
    }
  }
  pthread_mutex_unlock(&lock);
}

void interrupt_restore(void) {
  pthread_mutex_lock(&lock);
  if (--listening == 0) {
    for (int i = 0; i < INTERRUPT_SIGNALS; i++) {
      sigaction(signals[i], &old[i], NULL);
    }
    requested = 0;
  }
  pthread_mutex_unlock(&lock);
}

bool interrupt_requested(void) {
  return requested != 0;
}
