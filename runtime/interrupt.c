// interrupt.c: the flag and its handler.
#include "runtime/interrupt.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static volatile sig_atomic_t requested;

static void say(const char *text) {  // where printf may not be called
  if (write(STDERR_FILENO, text, strlen(text)) < 0) {
    return;
  }
}

static void handle(int number) {
  (void)number;
  if (requested) {
    say("stopped at once: nothing was saved after the newest checkpoint\n");
    _exit(130);
  }
  requested = 1;
}

static const int signals[INTERRUPT_SIGNALS] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};

void interrupt_install(Interrupt *interrupt) {
  requested = 0;
  for (int i = 0; i < INTERRUPT_SIGNALS; i++) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = signals[i] == SIGPIPE ? SIG_IGN : handle;
    action.sa_flags = SA_RESTART;
    sigemptyset(&action.sa_mask);
    sigaction(signals[i], &action, &interrupt->old[i]);
    if (signals[i] == SIGHUP && interrupt->old[i].sa_handler == SIG_IGN) {
      sigaction(signals[i], &interrupt->old[i], NULL);
    }
  }
}

void interrupt_restore(Interrupt *interrupt) {
  for (int i = 0; i < INTERRUPT_SIGNALS; i++) {
    sigaction(signals[i], &interrupt->old[i], NULL);
  }
  requested = 0;
}

bool interrupt_requested(void) {
  return requested != 0;
}
