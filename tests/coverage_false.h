// coverage_false.h: included ahead of each file whose branches tests/coverage.sh counts, and nowhere else: what always
// returns false is known to do so, so that `good || error_set(...)` has no way that no call can take.
#ifndef MDL_TESTS_COVERAGE_FALSE_H
#define MDL_TESTS_COVERAGE_FALSE_H

#include "compiler/plan/check.h"
#include "runtime/device.h"

#define error_set(...) ((void)error_set(__VA_ARGS__), false)
#ifndef MDL_CHECK_C  // which has the function itself
#define check_fail(...) ((void)check_fail(__VA_ARGS__), false)
#endif

#endif
