// report.c: the note that asks for a report, also from a signal handler, by calls of write alone.
#include "base/report.h"

#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

static struct {  // of the process; a signal handler has no arguments
  const char *program, *version;
  int argc;
  char **argv;
} command;

enum { STACK_BYTES = 1 << 16 };

// To a stream; NULL: to stderr, without the stream, for a signal handler.
static void put(FILE *file, const char *text) {
  if (file) {
    fputs(text, file);
    return;
  }
  for (size_t left = strlen(text); left > 0;) {
    ssize_t done = write(STDERR_FILENO, text, left);
    if (done <= 0) {
      return;
    }
    text += done;
    left -= (size_t)done;
  }
}

// A word as a shell reads it.
static void put_word(FILE *file, const char *word) {
  static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%";
  if (*word && word[strspn(word, plain)] == '\0') {
    put(file, word);
    return;
  }
  put(file, "'");
  for (char one[2] = {0}; *word; word++) {
    one[0] = *word;
    put(file, *word == '\'' ? "'\\''" : one);
  }
  put(file, "'");
}

static void put_bug(FILE *file) {
  put(file, "This is a bug of ");
  put(file, command.program ? command.program : "mdl");
  put(file, ", not a mistake in your text. Please report it to those from whom you have the program, with\n");
  put(file, "  - the version:  ");
  put(file, command.program ? command.program : "that of the library");
  put(file, command.program ? " " : "");
  put(file, command.program ? command.version : "");
  put(file, "\n  - the command:  ");
  for (int i = 0; i < command.argc; i++) {
    put(file, i ? " " : "");
    put_word(file, command.argv[i]);
  }
  put(file, command.argc ? "" : "the program that called the library");
  put(file, "\n  - the text:     a copy of the .mdl file as it is now, and of the files that it imports\n");
  put(file, "  - the output:   everything that was printed above\n");
}

static void ended(int number) {
  put(NULL, "\n");
  put(NULL, number == SIGABRT ? "An assertion failed" : "The program reached memory or arithmetic that is not");
  put(NULL, number == SIGABRT ? ".\n" : " there.\n");
  put_bug(NULL);
  raise(number);  // the handler is gone by now
}

void report_install(const char *program, const char *version, int argc, char **argv) {
  static char stack[STACK_BYTES];  // a stack that overflowed has no room for a handler
  static const int numbers[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
  command.program = program;
  command.version = version;
  command.argc = argc;
  command.argv = argv;
  struct sigaction action = {.sa_flags = (int)(SA_ONSTACK | SA_RESETHAND | SA_NODEFER)}, before;
  action.sa_handler = ended;
  stack_t other = {.ss_sp = stack, .ss_size = sizeof stack};
  bool ours = sigaltstack(&other, NULL) == 0;
  for (size_t i = 0; ours && i < sizeof numbers / sizeof *numbers; i++) {
    if (sigaction(numbers[i], NULL, &before) == 0 && before.sa_handler == SIG_DFL) {
      sigaction(numbers[i], &action, NULL);
    }
  }
}

void report_bug(FILE *out) {
  put_bug(out);
}
