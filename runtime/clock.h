// clock.h: time and memory as the system reports them.
#ifndef MDL_RUNTIME_CLOCK_H
#define MDL_RUNTIME_CLOCK_H

#include <stdint.h>

double clock_seconds(void);       // since some moment in the past; never goes back
double clock_wall(void);          // since 1970
int64_t clock_memory(void);       // bytes resident now, 0 if unknown
int64_t clock_memory_peak(void);  // the most that were resident

// Gives back what this process has freed, and from then on what is freed of large blocks, so that clock_memory is what
// is in use. Where the C library cannot: nothing.
void clock_memory_settle(void);

#endif
