// options.h: the options of commands, one table each, from which parsing, help texts and usage errors come.
//
// A command says where each option's value goes in a struct of its own. Tables shared by several commands are groups
// with the offset of their struct inside the command's. Everything parsed lives in the arena or in argv.
#ifndef MDL_BASE_OPTIONS_H
#define MDL_BASE_OPTIONS_H

#include <stdbool.h>
#include <stdio.h>

#include "base/arena.h"
#include "base/buffer.h"

enum { STATUS_DONE = 0, STATUS_INPUT = 1, STATUS_USAGE = 2, STATUS_MEMORY = 3, STATUS_DIVERGED = 4, STATUS_RANK = 5 };
enum { STATUS_DIFFERS = 6 };
enum { STATUS_INTERRUPTED = 130 };

typedef struct {
  const char **at;
  int count;
} OptionList;

typedef enum {
  OPTION_FLAG,     // bool
  OPTION_TEXT,     // const char *
  OPTION_CHOICE,   // const char *, one of the words of `value`, which are separated by |
  OPTION_INTEGER,  // int64_t
  OPTION_NUMBER,   // double
  OPTION_LIST,     // OptionList: given any number of times, as no other is that takes a value
} OptionKind;

typedef struct {
  const char *name;  // without dashes
  char letter;       // 0: none
  OptionKind kind;
  const char *value;  // how help names the value; NULL for flags
  size_t offset;      // in the group's struct
  double least;       // the smallest INTEGER or NUMBER
  const char *help;   // one sentence without full stop
} Option;

typedef struct {
  const char *title;
  const Option *options;
  int count;
  size_t base;  // of the group's struct in the command's
} OptionGroup;

// Options of the same words in several commands, of a struct of values that has `quiet` and `json`.
#define QUIET_OPTION(Values) \
  { "quiet", 'q', OPTION_FLAG, NULL, offsetof(Values, quiet), 0, "say nothing on stdout" }
#define JSON_OPTION(Values, what) \
  { "json", 0, OPTION_FLAG, NULL, offsetof(Values, json), 0, "one JSON object a line on stdout instead: " what }

typedef struct Command Command;
struct Command {
  const char *name, *arguments, *summary;
  const char *details;  // more lines for its help, or NULL
  int least, most;      // plain arguments; most < 0: any number
  const OptionGroup *groups;
  int group_count;
  size_t size;                                                                // of the struct of values
  const void *defaults;                                                       // such a struct; NULL: all zero
  int (*run)(Arena *arena, const void *values, const OptionList *arguments);  // returns the exit status
  bool talks;               // what it says on stdout is no result: that it cannot be written does not matter
  const Command *commands;  // of its own, of which one is named behind it, in place of `run`; NULL: none
  int command_count;
};

typedef struct {
  const char *name, *version, *summary;
  const Command *commands;
  int count;
  const char *details;  // the end of the overview
  bool pages;           // `help` also makes completions and a manual page
  const char *other;    // a program that goes with this one, NULL: none
  const char *others;   // its commands, with | between them
  const char *on_file;  // the command that a text alone most likely is for, NULL: none
} Program;

// Finds the command, parses, runs it and returns the exit status. Help and the version go to stdout, usage errors to
// stderr with status 2. A stdout that could not be written to makes status 1 of 0.
int options_main(const Program *program, int argc, char **argv);

// Parses the words after the command's name into `values` (the command's size). On failure returns false and writes
// one sentence to `problem`. *help is set when --help was among the words, which then are not looked at further.
bool options_parse(Arena *arena, const Command *command, int argc, char **argv, void *values, OptionList *arguments,
                   bool *help, Buffer *problem);

// The same tables as a completion for a shell ("bash", "zsh", "fish"; false: another), and as a manual page (man, 1).
bool options_completions(const Program *program, const char *shell, Buffer *out);
void options_manual(const Program *program, Buffer *out);

void options_help(const Program *program, const Command *command, Buffer *out);
void options_overview(const Program *program, Buffer *out);

// A terminal that may be coloured: NO_COLOR and TERM=dumb are respected.
bool options_colour(FILE *stream);

#endif
