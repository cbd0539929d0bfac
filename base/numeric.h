// numeric.h: a thread reads and writes numbers with a point, whatever the program around the library has set.
//
// A program that calls setlocale, as those with windows do, has printf and strtod take a comma in many countries:
// texts, metrics and pictures would say other numbers. Each function of the library that a program calls has a
// NUMERIC_SCOPE, and each thread that it starts calls numeric_enter. What a program gives to be called has a
// NUMERIC_OUTSIDE around it.
#ifndef MDL_BASE_NUMERIC_H
#define MDL_BASE_NUMERIC_H

#include <locale.h>

locale_t numeric_enter(void);  // from here on as in C; returns what this thread had
void numeric_leave(locale_t *before);

locale_t numeric_outside(void);  // from here on as the program has it; returns that
void numeric_back(locale_t *outside);

// Until the block ends.
#define NUMERIC_SCOPE __attribute__((cleanup(numeric_leave), unused)) locale_t numeric_before = numeric_enter()
#define NUMERIC_OUTSIDE __attribute__((cleanup(numeric_back), unused)) locale_t numeric_program = numeric_outside()

#endif
