// nccl_memory_test.c: what communicators are predicted to take, against sums by hand.
#include "runtime/cuda/nccl_memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka.h needs the four above.
#include <cmocka.h>

static int64_t mebibytes(NcclUse use) {
  const int64_t bytes = nccl_memory_of(&use);
  assert_int_equal(bytes % (1 << 21), 0);
  return bytes >> 20;
}

static void sums_by_hand(void **state) {
  (void)state;
  const int rest = 52, tables = rest + 2 * 2 + 32 * 3 * 2, few_tables = rest + 2 * 2 + 4 * 3 * 2;
  assert_int_equal(mebibytes((NcclUse){.ranks = 2, .rings = true}), tables + 24 * (2 + 10));
  assert_int_equal(mebibytes((NcclUse){.ranks = 2, .rings = true, .trees = true}), tables + 24 * (2 + 10));
  assert_int_equal(mebibytes((NcclUse){.ranks = 8, .rings = true}), tables + 24 * (2 + 10));
  assert_int_equal(mebibytes((NcclUse){.ranks = 8, .rings = true, .trees = true}), tables + 2 * 24 * (2 + 10));
  assert_int_equal(mebibytes((NcclUse){.ranks = 2, .windows = true}), tables + 4 + 4);
  assert_int_equal(mebibytes((NcclUse){.ranks = 8, .windows = true}), tables + 10 + 4);
  assert_int_equal(mebibytes((NcclUse){.ranks = 8, .sends = 7, .hears = 7}), tables + 7 * 32 * (2 + 10));
  assert_int_equal(mebibytes((NcclUse){.ranks = 2, .blocks = 4, .sends = 1}), few_tables + 4 * 2);
  assert_int_equal(mebibytes((NcclUse){.ranks = 2, .blocks = 4, .hears = 1}), few_tables + 4 * 10);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(sums_by_hand)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
