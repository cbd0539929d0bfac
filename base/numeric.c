// numeric.c: locales and floating-point environments of threads.
#include "base/numeric.h"

#include <pthread.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static locale_t plain;  // of C; 0: there was no memory, and nothing is changed
// What the program has in this thread, while it is inside of the library. No locale: that of C, or nobody is inside.
static _Thread_local Numeric outside;

static void plain_make(void) {
  plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

Numeric numeric_enter(void) {
  pthread_once(&once, plain_make);
  Numeric before = {.locale = uselocale(plain)};
  fegetenv(&before.floats);
  fesetenv(FE_DFL_ENV);
  if (before.locale != plain) {
    outside = before;
  }
  return before;
}

void numeric_leave(const Numeric *before) {
  uselocale(before->locale);
  fesetenv(&before->floats);
  if (before->locale != plain) {
    outside.locale = (locale_t)0;
  }
}

Numeric numeric_outside(void) {
  if (outside.locale) {
    uselocale(outside.locale);
    fesetenv(&outside.floats);
  }
  return outside;
}

void numeric_back(const Numeric *program) {
  outside = *program;
  uselocale(plain);
  fesetenv(FE_DFL_ENV);
}
