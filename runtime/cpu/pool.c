// pool.c: workers wait for a job by spinning a little and then sleeping; tasks are handed out by a counter.
//
// `state` holds the number of the job, whether it is open, and how many workers are inside:
//   number << 32 | open << 31 | inside
// A worker enters by raising `inside` while the job is open. The caller closes the job when no task is left and waits
// until nobody is inside, so a worker that wakes late neither delays the caller nor sees a job that is over.
#include "runtime/cpu/pool.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

enum { SPIN_IDLE = 4000, SPIN_DONE = 20000 };

#define JOB_OPEN ((uint64_t)1 << 31)
#define JOB_NUMBER(state) ((state) >> 32)

typedef struct {
  Pool *pool;
  int number;
  pthread_t thread;
} Worker;

struct Pool {
  _Alignas(64) _Atomic uint64_t state;
  _Alignas(64) _Atomic int64_t next;
  _Alignas(64) int64_t tasks;
  PoolWork work;
  void *context;
  pthread_mutex_t mutex;
  pthread_cond_t wake;
  _Atomic int sleeping;
  _Atomic bool stop;
  int threads;
  Worker *workers;  // threads - 1
};

static void relax(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

static void run_tasks(Pool *pool, int worker) {
  const int64_t tasks = pool->tasks;
  for (;;) {
    const int64_t task = atomic_fetch_add_explicit(&pool->next, 1, memory_order_relaxed);
    if (task >= tasks) {
      return;
    }
    pool->work(pool->context, worker, task);
  }
}

// True if job `seen` is not the newest and the newest is open.
static bool job_waits(uint64_t state, uint64_t seen) {
  return (state & JOB_OPEN) != 0 && JOB_NUMBER(state) != seen;
}

static void wait_for_job(Pool *pool, uint64_t seen) {
  for (int i = 0; i < SPIN_IDLE; i++) {
    if (job_waits(atomic_load_explicit(&pool->state, memory_order_relaxed), seen) || atomic_load(&pool->stop)) {
      return;
    }
    relax();
  }
  pthread_mutex_lock(&pool->mutex);
  atomic_fetch_add(&pool->sleeping, 1);
  while (!job_waits(atomic_load(&pool->state), seen) && !atomic_load(&pool->stop)) {
    pthread_cond_wait(&pool->wake, &pool->mutex);
  }
  atomic_fetch_sub(&pool->sleeping, 1);
  pthread_mutex_unlock(&pool->mutex);
}

static void *worker_main(void *argument) {
  Worker *worker = argument;
  Pool *pool = worker->pool;
  uint64_t seen = 0;
  while (!atomic_load(&pool->stop)) {
    uint64_t state = atomic_load(&pool->state);
    if (!job_waits(state, seen)) {
      wait_for_job(pool, seen);
      continue;
    }
    if (atomic_compare_exchange_weak(&pool->state, &state, state + 1)) {
      seen = JOB_NUMBER(state);
      run_tasks(pool, worker->number);
      atomic_fetch_sub(&pool->state, 1);
    }
  }
  return NULL;
}

void pool_run(Pool *pool, int64_t tasks, PoolWork work, void *context) {
  if (pool->threads == 1 || tasks <= 1) {
    for (int64_t i = 0; i < tasks; i++) {
      work(context, 0, i);
    }
    return;
  }
  pool->tasks = tasks;
  pool->work = work;
  pool->context = context;
  atomic_store_explicit(&pool->next, 0, memory_order_relaxed);
  const uint64_t number = JOB_NUMBER(atomic_load_explicit(&pool->state, memory_order_relaxed)) + 1;
  atomic_store(&pool->state, number << 32 | JOB_OPEN);
  if (atomic_load(&pool->sleeping) > 0) {
    pthread_mutex_lock(&pool->mutex);
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->mutex);
  }
  run_tasks(pool, 0);
  atomic_fetch_and(&pool->state, ~JOB_OPEN);
  for (int i = 0; (atomic_load(&pool->state) & (JOB_OPEN - 1)) != 0; i++) {
    if (i < SPIN_DONE) {
      relax();
    } else {
      sched_yield();
    }
  }
}

static void pool_stop(Pool *pool, int started) {
  pthread_mutex_lock(&pool->mutex);
  atomic_store(&pool->stop, true);
  pthread_cond_broadcast(&pool->wake);
  pthread_mutex_unlock(&pool->mutex);
  for (int i = 0; i < started; i++) {
    pthread_join(pool->workers[i].thread, NULL);
  }
}

Pool *pool_create(int threads) {
  const long cores = sysconf(_SC_NPROCESSORS_ONLN);
  Pool *pool = aligned_alloc(64, (sizeof(Pool) + 63) / 64 * 64);
  if (!pool) {
    return NULL;
  }
  *pool = (Pool){.threads = threads > 0 ? threads : cores > 0 ? (int)cores : 1};
  pthread_mutex_init(&pool->mutex, NULL);
  pthread_cond_init(&pool->wake, NULL);
  pool->workers = calloc((size_t)pool->threads, sizeof *pool->workers);
  int started = 0;
  for (; pool->workers && started < pool->threads - 1; started++) {
    Worker *worker = &pool->workers[started];
    *worker = (Worker){.pool = pool, .number = started + 1};
    if (pthread_create(&worker->thread, NULL, worker_main, worker) != 0) {
      break;
    }
  }
  if (!pool->workers || started < pool->threads - 1) {
    pool->threads = started + 1;
    pool_destroy(pool);
    return NULL;
  }
  return pool;
}

void pool_destroy(Pool *pool) {
  if (!pool) {
    return;
  }
  pool_stop(pool, pool->threads - 1);
  pthread_cond_destroy(&pool->wake);
  pthread_mutex_destroy(&pool->mutex);
  free(pool->workers);
  free(pool);
}

int pool_threads(const Pool *pool) {
  return pool->threads;
}
