// target.h: everything that the compiler does with one text, and what must never come out of it.
#ifndef MDL_TESTS_FUZZ_TARGET_H
#define MDL_TESTS_FUZZ_TARGET_H

#include <stdbool.h>
#include <stdint.h>

enum { TARGET_KINDS = 64 };

typedef struct {
  double seconds;     // of processor time that compiling one layout may take
  bool alarm;         // send SIGPROF when it takes longer: for a process that may end by it
  char doing[160];    // which recipe and layout, for when the process ends
  bool wrong;         // E099, or too slow
  char said[400];     // what is wrong
  uint64_t compiled;  // how many layouts gave a plan
  int kind_count;  // of errors, and of what plans hold: two texts with other kinds go other ways through the compiler
  uint64_t kinds[TARGET_KINDS];
} TargetReport;

// Formats, checks and compiles the text at `path` with all of its recipes and layouts, and explains what came out.
void target_text(const char *path, TargetReport *report);

#endif
