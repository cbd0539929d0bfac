// numeric.h: a thread reads, writes and computes numbers as C does at first, whatever the program around the library
// set.
//
// A program that calls setlocale, as those with windows do, has printf and strtod take a comma in many countries:
// texts, metrics and pictures would say other numbers. One may also have another rounding, small numbers that are 0, or
// signals for what is no number. Each function of the library that a program calls has a NUMERIC_SCOPE, and each thread
// that it starts calls numeric_enter. What a program gives to be called has a NUMERIC_OUTSIDE around it.
#ifndef MDL_BASE_NUMERIC_H
#define MDL_BASE_NUMERIC_H

#include <fenv.h>
#include <locale.h>

typedef struct {
  locale_t locale;
  fenv_t floats;
} Numeric;

Numeric numeric_enter(void);  // from here on as in C; returns what this thread had
void numeric_leave(const Numeric *before);

Numeric numeric_outside(void);  // from here on as the program has it; returns that
void numeric_back(const Numeric *outside);

// Until the block ends.
#define NUMERIC_SCOPE __attribute__((cleanup(numeric_leave), unused)) Numeric numeric_before = numeric_enter()
#define NUMERIC_OUTSIDE __attribute__((cleanup(numeric_back), unused)) Numeric numeric_program = numeric_outside()

#endif
