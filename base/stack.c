// stack.c: see stack.h.
#define _GNU_SOURCE  // pthread_setattr_default_np
#include "base/stack.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/resource.h>

#include "base/numeric.h"

static const size_t deep = (size_t)1 << 30, least = (size_t)2 << 20;

typedef struct {
  void (*work)(void *context);
  void *context;
} Deep;

static void *deep_main(void *argument) {
  const Deep *call = argument;
  numeric_enter();
  call->work(call->context);
  return NULL;
}

// Does the work in a thread with such a stack; false: there is none, and nothing was done.
static bool apart(size_t bytes, void (*work)(void *context), void *context) {
  pthread_attr_t attributes;
  pthread_t thread;
  Deep call = {work, context};
  if (pthread_attr_init(&attributes) != 0) {
    return false;
  }
  const bool begun =
      pthread_attr_setstacksize(&attributes, bytes) == 0 && pthread_create(&thread, &attributes, deep_main, &call) == 0;
  pthread_attr_destroy(&attributes);
  if (begun) {
    pthread_join(thread, NULL);
  }
  return begun;
}

// glibc takes it from the limit.
static void threads_ensure(void) {
#ifdef __GLIBC__
  pthread_attr_t attributes;
  size_t size;
  if (pthread_getattr_default_np(&attributes) == 0) {
    if (pthread_attr_getstacksize(&attributes, &size) == 0 && size < least &&
        pthread_attr_setstacksize(&attributes, least) == 0) {
      pthread_setattr_default_np(&attributes);
    }
    pthread_attr_destroy(&attributes);
  }
#endif
}

void stack_ensure(void (*work)(void *context), void *context) {
  struct rlimit limit;
  threads_ensure();
  const bool small = getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur < least;
  if (!small || !apart(least, work, context)) {
    work(context);
  }
}

// Where addresses are limited, a part of them: the work needs most of them itself.
void stack_deep(void (*work)(void *context), void *context) {
  enum { PART = 8 };
  struct rlimit limit;
  const bool limited = getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur / PART < deep;
  if (!apart(limited ? limit.rlim_cur / PART / least * least : deep, work, context)) {
    work(context);
  }
}
