// log.h: what a run tells people: on the screen, in log.txt, and as one live line on a terminal.
//
// Text may hold ANSI colours; they are taken out where there is no terminal and in the file. Other control
// characters, which names from files may hold, are shown as `?`. Lines on the screen go to
// stdout. Log keeps no state beyond this struct.
#ifndef MDL_RUNTIME_LOG_H
#define MDL_RUNTIME_LOG_H

#include <stdbool.h>
#include <stdio.h>

#include "base/buffer.h"
#include "runtime/device.h"

#define LOG_BOLD "\033[1m"
#define LOG_FAINT "\033[2m"
#define LOG_RED "\033[31m"
#define LOG_GREEN "\033[32m"
#define LOG_YELLOW "\033[33m"
#define LOG_BLUE "\033[34m"
#define LOG_PLAIN "\033[0m"

typedef struct {
  FILE *screen, *file;  // either may be NULL
  bool terminal, colour;
  bool live;  // the last line on the screen is a live one
  bool torn;  // the last line of the file may lack its end
} Log;

void log_start(Log *log, FILE *screen);                   // finds out about terminal and colour
bool log_open(Log *log, const char *path, Error *error);  // appends to a file from now on
void log_close(Log *log);

void log_line(Log *log, const char *format, ...) __attribute__((format(printf, 2, 3)));
void log_live(Log *log, const char *text);    // replaces the live line; nothing without a terminal
void log_note(Log *log, const char *text);    // a line for the file alone
void log_record(Log *log, const char *text);  // a line for the file, and for the screen if that is no terminal

#endif
