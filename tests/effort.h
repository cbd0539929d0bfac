// effort.h: how much of what takes long a test tries: some of it, little with TESTS_SHORT=1 (every day, and under
// sanitizers), all of it with TESTS_LONG=1 (tests/soak.sh).
#ifndef MDL_TESTS_EFFORT_H
#define MDL_TESTS_EFFORT_H

#include <stdbool.h>
#include <stdlib.h>

static inline bool effort_long(void) {
  return getenv("TESTS_LONG") != NULL;
}

static inline bool effort_short(void) {
  return getenv("TESTS_SHORT") != NULL;
}

// Of many trials, whether this one is left out: of six, or of fifteen, one is made.
static inline bool effort_leaves_out(size_t number) {
  const size_t every = effort_long() ? 1 : effort_short() ? 15 : 6;
  return number % every != 0;
}

// The same for what is quick but under sanitizers: with TESTS_SHORT=1 one of `every` is made, else all are.
static inline bool effort_samples_out(size_t number, size_t every) {
  return effort_short() && number % every != 0;
}

#endif
