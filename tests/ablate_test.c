// ablate_test.c: what a table says of devices: on stand-ins that compute as the CPU does and tell invented figures.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include <cmocka.h>
#include <jansson.h>

#include "runtime/ablate.h"
#include "runtime/trace.h"

enum { ROWS = 3 };

static void pretend_facts(const Device *device, DeviceFacts *facts) {
  (void)device;
  *facts = (DeviceFacts){
      .name = "pretended", .peak_flops = 1e12, .peak_bytes = 1e12, .memory_bytes = 5000, .beside_bytes = 3000};
}

typedef struct {
  AblateResult result;
  char said[1 << 14];
  json_t *row[ROWS];
} Table;

// The rows of these layouts, on `devices` of the backend.
static void table_make(Table *table, const char *layouts, const Backend *backend, int devices) {
  Error error = {0};
  char directory[] = "/tmp/mdl-ablate-XXXXXX", path[64], line[1 << 16];
  FILE *screen = tmpfile();
  assert_non_null(mkdtemp(directory));
  const AblateOptions options = {.base = {.file = MDL_SOURCE_DIR "/examples/layouts.mdl"},
                                 .words = &layouts,
                                 .word_count = 1,
                                 .steps = 3,
                                 .out = directory,
                                 .data = MDL_SOURCE_DIR "/LICENSE",
                                 .threads = 1,
                                 .deadline_seconds = 60,
                                 .screen = screen,
                                 .backend = backend,
                                 .devices = devices};
  if (!ablate_run(&options, &table->result, &error)) {
    fail_msg("%s", error.text);
  }
  rewind(screen);
  table->said[fread(table->said, 1, sizeof table->said - 1, screen)] = '\0';
  fclose(screen);
  snprintf(path, sizeof path, "%s/ablate.jsonl", directory);
  FILE *records = fopen(path, "r");
  assert_non_null(records);
  for (int i = 0; i < ROWS && fgets(line, sizeof line, records); i++) {
    table->row[i] = json_loads(line, 0, NULL);
    assert_non_null(table->row[i]);
  }
  fclose(records);
  remove(path);
  snprintf(path, sizeof path, "%s/ablate.svg", directory);
  remove(path);
  remove(directory);
}

static void table_free(Table *table) {
  for (int i = 0; i < ROWS; i++) {
    json_decref(table->row[i]);
  }
}

static const char *word(const Table *table, int row, const char *key) {
  return json_string_value(json_object_get(table->row[row], key));
}

static double number(const Table *table, int row, const char *key) {
  const json_t *value = json_object_get(table->row[row], key);
  return json_is_number(value) ? json_number_value(value) : NAN;
}

static void assert_said(const Table *table, const char *text) {
  if (!strstr(table->said, text)) {
    fail_msg("'%s' is not said in:\n%s", text, table->said);
  }
}

static void devices_are_measured(void **state) {
  (void)state;
  Backend pretended = backend_cpu;
  Table table = {0};
  pretended.facts = pretend_facts;
  table_make(&table, "layout=single,tp2,dp4", &pretended, 2);
  assert_int_equal(table.result.rows, 3);
  assert_int_equal(table.result.good, 2);
  assert_int_equal(table.result.failed, 0);
  assert_said(&table, "TFLOP/s");
  assert_said(&table, "of peak");
  assert_said(&table, "on pretended, of which this machine has 2, a process for each rank");
  assert_said(&table, "exposed: seconds of a step");
  assert_said(&table, "not run: 4 ranks, each on a GPU of its own, and this machine has 2");
  assert_string_equal(word(&table, 0, "state"), "done");
  assert_string_equal(word(&table, 1, "state"), "done");
  assert_string_equal(word(&table, 1, "verdict"), "same");
  assert_string_equal(word(&table, 2, "state"), "no devices");
  assert_true(number(&table, 2, "ranks") == 4 && number(&table, 2, "memory_bytes") > 0);  // of its plan
  assert_true(isnan(number(&table, 2, "tokens_per_s")) && isnan(number(&table, 2, "measured_bytes")));
  for (int i = 0; i < 2; i++) {
    const double seconds = number(&table, i, "step_seconds");
    assert_true(seconds > 0);
    assert_true(fabs(number(&table, i, "tokens_per_s") * seconds / (8 * 64) - 1) < 1e-6);
    assert_true(fabs(number(&table, i, "mfu") / number(&table, i, "tflops") - 1) < 1e-6);  // of a peak of 1 TFLOP/s
    assert_true(number(&table, i, "measured_bytes") == 2000 && number(&table, i, "beside_bytes") == 3000);
    assert_true(number(&table, i, "val_loss") > 0);
  }
  // Two ranks do the work of one.
  const double one = number(&table, 0, "tflops") * number(&table, 0, "step_seconds"),
               two = number(&table, 1, "tflops") * number(&table, 1, "step_seconds");
  assert_true(two > 0.4 * one && two < 0.7 * one);
  assert_true(isnan(number(&table, 0, "exposed_seconds")));
  assert_true(number(&table, 1, "exposed_seconds") > 0);
  table_free(&table);
}

// This process never opens a device of a backend that wants processes, also where a row has one rank.
static void a_single_rank_has_a_process(void **state) {
  (void)state;
  Backend pretended = backend_cpu;
  Table table = {0};
  pretended.apart = true;
  table_make(&table, "layout=single,recomputed", &pretended, 1);
  assert_int_equal(table.result.good, 2);
  assert_int_equal(table.result.differ, 0);
  Table here = {0};
  table_make(&here, "layout=single,recomputed", &backend_cpu, 0);
  assert_int_equal(here.result.good, 2);
  const json_t *loss = json_object_get(table.row[0], "loss"), *same = json_object_get(here.row[0], "loss");
  assert_int_equal(json_array_size(loss), 3);
  assert_true(json_equal((json_t *)(uintptr_t)loss, (json_t *)(uintptr_t)same));
  assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);  // all of them have ended
  table_free(&table);
  table_free(&here);
}

static double exposed(const TraceSpan *spans, int64_t count) {
  static const Plan plan = {.pipeline = -1};
  Exposure of;
  assert_true(trace_exposure(&plan, spans, count, &of));
  return of.exposed;
}

static void hidden_communication_is_not_counted(void **state) {
  (void)state;
  const Instruction computes = {.kind = INSTRUCTION_GEMM}, collects = {.kind = INSTRUCTION_COLLECTIVE},
                    receives = {.kind = INSTRUCTION_RECEIVE}, offloads = {.kind = INSTRUCTION_OFFLOAD};
  const TraceSpan serial[] = {{&computes, NULL, 0, 0, 2}, {&collects, NULL, 0, 2, 5}, {&computes, NULL, 0, 5, 6}};
  const TraceSpan hidden[] = {{&computes, NULL, 0, 0, 6}, {&collects, NULL, 1, 1, 5}};
  const TraceSpan partly[] = {
      {&collects, NULL, 1, 1, 5}, {&computes, NULL, 0, 0, 2}, {&computes, NULL, 0, 3, 4}, {&receives, NULL, 2, 4, 7}};
  const TraceSpan copies[] = {{&offloads, NULL, 1, 0, 9}, {&collects, NULL, 0, 2, 5}};
  assert_true(fabs(exposed(serial, 3) - 3) < 1e-12);
  assert_true(fabs(exposed(hidden, 2)) < 1e-12);
  assert_true(fabs(exposed(partly, 4) - 4) < 1e-12);
  assert_true(fabs(exposed(copies, 2) - 3) < 1e-12);
  assert_true(exposed(NULL, 0) == 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(devices_are_measured),
      cmocka_unit_test(a_single_rank_has_a_process),
      cmocka_unit_test(hidden_communication_is_not_counted),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
