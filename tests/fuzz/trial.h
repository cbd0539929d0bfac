// trial.h: one text given to the compiler in a process of its own, and what became of it.
#ifndef MDL_TESTS_FUZZ_TRIAL_H
#define MDL_TESTS_FUZZ_TRIAL_H

#include <stddef.h>

#include "tests/fuzz/target.h"

typedef struct {
  bool failed;
  char signature[256];  // the same for two texts that fail at the same place in the same way
  const TargetReport *report;
} Trial;

// Sets the limit of processor time for one layout. False if there is no memory.
bool trial_prepare(double seconds);

// Writes the text to a file and compiles it. What the process says goes nowhere.
Trial trial_run(const char *text, size_t length);

#endif
