// numeric.c: locales of threads.
#include "base/numeric.h"

#include <pthread.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static locale_t plain;                  // of C; 0: there was no memory, and nothing is changed
static _Thread_local locale_t outside;  // what the program has in this thread, while it is inside of the library; 0: C

static void plain_make(void) {
  plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

locale_t numeric_enter(void) {
  pthread_once(&once, plain_make);
  const locale_t before = uselocale(plain);
  if (before != plain) {
    outside = before;
  }
  return before;
}

void numeric_leave(locale_t *before) {
  uselocale(*before);
  if (*before != plain) {
    outside = (locale_t)0;
  }
}

locale_t numeric_outside(void) {
  uselocale(outside);
  return outside;
}

void numeric_back(locale_t *program) {
  outside = *program;
  uselocale(plain);
}
