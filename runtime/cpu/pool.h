// pool.h: the worker threads of one rank.
//
// pool_run calls `work(context, worker, task)` once for each task in [0, tasks) and returns when all are done. The
// caller is worker 0. Which worker gets which task is left to chance, so a task must compute the same whoever runs
// it; how the work is cut into tasks may depend on sizes only, never on the number of threads.
#ifndef MDL_RUNTIME_CPU_POOL_H
#define MDL_RUNTIME_CPU_POOL_H

#include <stdint.h>

typedef struct Pool Pool;
typedef void (*PoolWork)(void *context, int worker, int64_t task);

Pool *pool_create(int threads);  // 0: one for each core; NULL: out of memory or no threads to be had
void pool_destroy(Pool *pool);
int pool_threads(const Pool *pool);
void pool_run(Pool *pool, int64_t tasks, PoolWork work, void *context);

#endif
