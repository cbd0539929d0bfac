// kernel_random_test.c: random fused kernels on the CPU backend against the reference, in f64.
//
// What a run may not touch must keep its poison.
#include "tests/kernel_random.h"
#include "tests/kernel_reference.h"

static void fail_seed(const Maker *m, uint64_t seed, const char *what) {
  Buffer text = {0};
  kernel_print(m->kernel, &text);
  for (int p = 0; p < m->kernel->port_count; p++) {
    buffer_format(&text, "  port %d at %lld\n", p, (long long)m->place[p].offset);
  }
  fail_msg("seed %llu %s:\n%s", (unsigned long long)seed, what, text.text);
}

static void check_seed(uint64_t seed) {
  Maker m = maker_create(seed, false);
  const char *why = kernel_verify(m.kernel);
  if (why) {
    fail_seed(&m, seed, why);
  }
  m.bench->call.first = seed % 2 == 0;
  char *got = bench_run(m.bench, 1);
  char *wanted = malloc((size_t)m.bench->bytes);
  memcpy(wanted, m.bench->image, (size_t)m.bench->bytes);
  void *ports[KERNEL_MAX_PORTS];
  for (int p = 0; p < m.kernel->port_count; p++) {
    ports[p] = wanted + m.place[p].offset;
  }
  reference_run(m.kernel, ports, m.bench->call.first);
  if (!arenas_near(m.kernel, m.place, got, wanted, m.bench->bytes)) {
    fail_seed(&m, seed, "differs from the reference");
  }
  for (int threads = 2; threads <= 3; threads++) {
    char *more = bench_run(m.bench, threads);
    if (memcmp(got, more, (size_t)m.bench->bytes) != 0) {
      fail_seed(&m, seed, "gives other bits with more threads");
    }
    free(more);
  }
  free(got);
  free(wanted);
  bench_destroy(m.bench);
}

static void random_kernels(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed <= 500; seed++) {
    check_seed(seed);
  }
}

// The comparison itself must notice a wrong element.
static void notices_a_wrong_element(void **state) {
  (void)state;
  Maker m = maker_create(3, false);
  char *got = bench_run(m.bench, 1), *wanted = bench_run(m.bench, 1);
  assert_true(arenas_near(m.kernel, m.place, got, wanted, m.bench->bytes));
  int port = 0;
  while (m.kernel->port[port].kind != PORT_OUTPUT) {
    port++;
  }
  got[m.place[port].offset + 3] ^= 0x40;
  assert_false(arenas_near(m.kernel, m.place, got, wanted, m.bench->bytes));
  free(got);
  free(wanted);
  bench_destroy(m.bench);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(random_kernels),
      cmocka_unit_test(notices_a_wrong_element),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
