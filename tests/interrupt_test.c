// interrupt_test.c: which signals ask for an end, and which stop at once.
#include "runtime/interrupt.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
// cmocka.h needs the four above.
#include <cmocka.h>

// The status of a process that both come to, far enough apart to be two.
static int status_of(int first, int second) {
  const pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    const struct timespec apart = {0, (INTERRUPT_TOGETHER_MS + 50) * 1000000L};
    interrupt_install();
    raise(first);
    nanosleep(&apart, NULL);
    raise(second);
    _exit(interrupt_requested() ? 7 : 8);
  }
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status));
  return WEXITSTATUS(status);
}

// The kernel repeats SIGXCPU with each further second of processors: a soft limit does not stop the save it asks for.
static void limits_ask_once(void **state) {
  (void)state;
  assert_int_equal(status_of(SIGXCPU, SIGXCPU), 7);
}

static void a_later_signal_stops(void **state) {
  (void)state;
  assert_int_equal(status_of(SIGXCPU, SIGINT), 130);
}

// Where several train in one process, the first that ends leaves the others listening, and one signal asks all.
static void those_that_train_at_once_all_hear(void **state) {
  (void)state;
  struct sigaction before, after;
  sigaction(SIGTERM, NULL, &before);
  interrupt_install();
  interrupt_install();
  interrupt_restore();
  raise(SIGTERM);  // ends the test, if nobody listens
  assert_true(interrupt_requested());
  interrupt_install();
  assert_true(interrupt_requested());
  interrupt_restore();
  assert_true(interrupt_requested());
  interrupt_restore();
  assert_false(interrupt_requested());
  sigaction(SIGTERM, NULL, &after);
  assert_ptr_equal(before.sa_handler, after.sa_handler);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(limits_ask_once), cmocka_unit_test(a_later_signal_stops),
                                     cmocka_unit_test(those_that_train_at_once_all_hear)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
