// interrupt.h: Ctrl-C while training: the first asks for an orderly end, the second ends the process at once and says
// so. Signals within half a second of the first are the first.
//
// The one piece of global state of the runtime: a signal handler has no other way to be heard.
#ifndef MDL_RUNTIME_INTERRUPT_H
#define MDL_RUNTIME_INTERRUPT_H

#include <signal.h>
#include <stdbool.h>

enum { INTERRUPT_SIGNALS = 6, INTERRUPT_TOGETHER_MS = 500 };

// SIGINT, SIGTERM, SIGUSR1 and SIGXCPU, by which schedulers warn, and, unless it is ignored, SIGHUP ask for an end; a
// reader of stdout that goes away does not. Several threads may listen at once: a signal asks all of them, until the
// last has called interrupt_restore, as each does once.
void interrupt_install(void);
void interrupt_restore(void);
bool interrupt_requested(void);

#endif
