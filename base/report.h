// report.h: what a program says when it meets a mistake of its own: an invariant of the compiler, an assert, a signal.
#ifndef MDL_BASE_REPORT_H
#define MDL_BASE_REPORT_H

#include <stdio.h>

// Remembers the program's name, version and words, and lets SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGABRT say what
// report_bug says before they end the process, unless somebody (a sanitizer, a debugger's library) handles them
// already. The strings must stay.
void report_install(const char *program, const char *version, int argc, char **argv);

// That this is a bug, and what to report: the version, the command, the text and what was printed.
void report_bug(FILE *out);

#endif
