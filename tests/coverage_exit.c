// coverage_exit.c: what a process has counted is not lost where it ends by _exit, as tests of kills do; gcov writes
// down only what processes that return from main have.
#include <unistd.h>

void __gcov_dump(void);
void __real__exit(int status) __attribute__((noreturn));
void __wrap__exit(int status) __attribute__((noreturn));

void __wrap__exit(int status) {
  __gcov_dump();
  __real__exit(status);
}
