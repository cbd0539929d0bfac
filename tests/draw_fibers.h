// draw_fibers.h: the threads of virtual ranks as coroutines of one thread, for many short runs.
//
// draw_run is linked so that pthread_* and the clock of libmdl come here (ld --wrap, tests/CMakeLists.txt). A coroutine
// runs until it waits. When all wait, the clock jumps to the earliest deadline, so that ranks which wait for each other
// say so at once. Runs have one order, so a failure is the same each time; races are for layouts_test to find.
#ifndef MDL_TESTS_DRAW_FIBERS_H
#define MDL_TESTS_DRAW_FIBERS_H

#include <stdbool.h>

// Threads made from now on, by this thread alone, are coroutines. Without it they are threads.
void fibers_begin(void);

#endif
