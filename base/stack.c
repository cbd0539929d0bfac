// stack.c: see stack.h.
#include "base/stack.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/resource.h>

#include "base/numeric.h"

static const size_t deep = (size_t)1 << 30;

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

void stack_deep(void (*work)(void *context), void *context) {
  struct rlimit limit;
  pthread_attr_t attributes;
  pthread_t thread;
  Deep call = {work, context};
  bool begun = false;
  if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur == RLIM_INFINITY && pthread_attr_init(&attributes) == 0) {
    begun = pthread_attr_setstacksize(&attributes, deep) == 0 &&
            pthread_create(&thread, &attributes, deep_main, &call) == 0;
    pthread_attr_destroy(&attributes);
  }
  if (begun) {
    pthread_join(thread, NULL);
  } else {
    work(context);
  }
}
