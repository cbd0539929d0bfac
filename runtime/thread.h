// thread.h: a thread that gets no signals: they are for the thread that trains.
#ifndef MDL_RUNTIME_THREAD_H
#define MDL_RUNTIME_THREAD_H

#include <pthread.h>

// Returns 0, or the reason as pthread_create does.
int thread_start(pthread_t *thread, void *(*work)(void *), void *argument);

#endif
