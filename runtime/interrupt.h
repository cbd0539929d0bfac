// interrupt.h: Ctrl-C while training: the first asks for an orderly end, the second ends the process at once and says
// so. Signals within half a second of the first are the first.
//
// The one piece of global state of the runtime: a signal handler has no other way to be heard.
#ifndef MDL_RUNTIME_INTERRUPT_H
#define MDL_RUNTIME_INTERRUPT_H

#include <signal.h>
#include <stdbool.h>

enum { INTERRUPT_SIGNALS = 6, INTERRUPT_TOGETHER_MS = 500 };
typedef struct {
  struct sigaction old[INTERRUPT_SIGNALS];
} Interrupt;

// SIGINT, SIGTERM, SIGUSR1 and SIGXCPU, by which schedulers warn, and, unless it is ignored, SIGHUP ask for an end; a
// reader of stdout that goes away does not.
void interrupt_install(Interrupt *interrupt);
void interrupt_restore(Interrupt *interrupt);
bool interrupt_requested(void);

#endif
