// draw_fibers.c: pthread_* by switching contexts.
#include "tests/draw_fibers.h"

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

enum { FIBERS = 128, STACK = 1 << 20, BILLION = 1000000000 };

typedef struct {
  ucontext_t context;
  void *stack;  // kept for the next one
  void *(*start)(void *);
  void *argument;
  bool used, ended;
  const pthread_cond_t *waits;  // NULL: it can run
  int64_t until;                // nanoseconds; 0: for ever
  bool late;                    // its wait ended because time had passed
} Fiber;

static Fiber fiber[FIBERS];  // 0: who began
static int running, high = 1;
static bool on;
static int64_t jumped;  // nanoseconds that the clock is ahead

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument);
int __real_pthread_join(pthread_t thread, void **result);
int __real_pthread_mutex_lock(pthread_mutex_t *mutex);
int __real_pthread_mutex_unlock(pthread_mutex_t *mutex);
int __real_pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex);
int __real_pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *until);
int __real_pthread_cond_signal(pthread_cond_t *condition);
int __real_pthread_cond_broadcast(pthread_cond_t *condition);
int __real_clock_gettime(clockid_t id, struct timespec *now);
long __real_sysconf(int name);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument);
int __wrap_pthread_join(pthread_t thread, void **result);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex);
int __wrap_pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex);
int __wrap_pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *until);
int __wrap_pthread_cond_signal(pthread_cond_t *condition);
int __wrap_pthread_cond_broadcast(pthread_cond_t *condition);
int __wrap_clock_gettime(clockid_t id, struct timespec *now);
long __wrap_sysconf(int name);

__attribute__((noreturn)) static void broken(const char *what) {
  fprintf(stderr, "draw_fibers: %s\n", what);
  abort();
}

void fibers_begin(void) {
  on = true;
  fiber[0].used = true;
}

static bool can_run(const Fiber *one) {
  return one->used && !one->ended && !one->waits;
}

// All wait: the one with the earliest deadline is late.
static int let_time_pass(void) {
  int first = -1;
  struct timespec now;
  for (int i = 0; i < high; i++) {
    if (fiber[i].used && !fiber[i].ended && fiber[i].until && (first < 0 || fiber[i].until < fiber[first].until)) {
      first = i;
    }
  }
  if (first < 0) {
    broken("all threads wait, and none of them has a deadline");
  }
  __wrap_clock_gettime(CLOCK_MONOTONIC, &now);
  const int64_t ahead = fiber[first].until - ((int64_t)now.tv_sec * BILLION + now.tv_nsec);
  jumped += ahead > 0 ? ahead : 0;
  fiber[first].waits = NULL;
  fiber[first].late = true;
  return first;
}

// Goes on with the next one that can run.
static void give_way(void) {
  const int from = running;
  int to = -1;
  for (int i = 1; i <= high && to < 0; i++) {
    to = can_run(&fiber[(from + i) % high]) ? (from + i) % high : -1;
  }
  running = to >= 0 ? to : let_time_pass();
  if (running != from) {
    swapcontext(&fiber[from].context, &fiber[running].context);
  }
}

static void fiber_main(int number) {
  fiber[number].start(fiber[number].argument);
  fiber[number].ended = true;
  give_way();
  broken("a thread that had ended was run");
}

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument) {
  if (!on) {
    return __real_pthread_create(thread, attributes, start, argument);
  }
  int number = 1;
  while (number < FIBERS && fiber[number].used) {
    number++;
  }
  if (number == FIBERS) {
    return EAGAIN;
  }
  Fiber *made = &fiber[number];
  void *stack = made->stack ? made->stack
                            : mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  if (stack == MAP_FAILED) {
    return EAGAIN;
  }
  *made = (Fiber){.stack = stack, .start = start, .argument = argument, .used = true};
  getcontext(&made->context);
  made->context.uc_stack.ss_sp = stack;
  made->context.uc_stack.ss_size = STACK;
  makecontext(&made->context, (void (*)(void))fiber_main, 1, number);
  high = number >= high ? number + 1 : high;
  *thread = (pthread_t)number;
  return 0;
}

int __wrap_pthread_join(pthread_t thread, void **result) {
  if (!on) {
    return __real_pthread_join(thread, result);
  }
  while (!fiber[thread].ended) {
    give_way();
  }
  fiber[thread].used = false;
  return 0;
}

// Nobody gives way with a mutex, but to wait.
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex) {
  return on ? 0 : __real_pthread_mutex_lock(mutex);
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex) {
  return on ? 0 : __real_pthread_mutex_unlock(mutex);
}

int __wrap_pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex) {
  if (!on) {
    return __real_pthread_cond_wait(condition, mutex);
  }
  fiber[running].waits = condition;
  give_way();
  return 0;
}

int __wrap_pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *until) {
  if (!on) {
    return __real_pthread_cond_timedwait(condition, mutex, until);
  }
  Fiber *me = &fiber[running];
  me->waits = condition;
  me->late = false;
  me->until = (int64_t)until->tv_sec * BILLION + until->tv_nsec;
  give_way();
  me->until = 0;
  return me->late ? ETIMEDOUT : 0;
}

static void wake(const pthread_cond_t *condition, int most) {
  for (int i = 0; i < high && most > 0; i++) {
    if (fiber[i].used && fiber[i].waits == condition) {
      fiber[i].waits = NULL;
      most--;
    }
  }
}

int __wrap_pthread_cond_signal(pthread_cond_t *condition) {
  if (!on) {
    return __real_pthread_cond_signal(condition);
  }
  wake(condition, 1);
  return 0;
}

int __wrap_pthread_cond_broadcast(pthread_cond_t *condition) {
  if (!on) {
    return __real_pthread_cond_broadcast(condition);
  }
  wake(condition, FIBERS);
  return 0;
}

int __wrap_clock_gettime(clockid_t id, struct timespec *now) {
  const int status = __real_clock_gettime(id, now);
  const int64_t all = (int64_t)now->tv_nsec + (id == CLOCK_MONOTONIC ? jumped : 0);
  now->tv_sec += (time_t)(all / BILLION);
  now->tv_nsec = (long)(all % BILLION);
  return status;
}

// One processor: who waits does not spin.
long __wrap_sysconf(int name) {
  return on && name == _SC_NPROCESSORS_ONLN ? 1 : __real_sysconf(name);
}
