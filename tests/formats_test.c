// formats_test.c: the files that other programs read and write: TensorBoard, safetensors, metrics, SVG; and text.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka.h wants the four above first.
#include <cmocka.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/json.h"
#include "base/units.h"
#include "runtime/chart.h"
#include "runtime/events.h"
#include "runtime/generate.h"
#include "runtime/io.h"
#include "runtime/log.h"
#include "runtime/metrics.h"
#include "runtime/safetensors.h"
#include "tests/toy.h"

static char directory[64];

static const char *file_in(const char *name) {
  static char path[2][128];
  static int turn;
  turn = !turn;
  snprintf(path[turn], sizeof path[turn], "%s/%s", directory, name);
  return path[turn];
}

static void write_bytes(const char *path, const void *bytes, size_t size) {
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  assert_int_equal(fwrite(bytes, 1, size, file), size);
  fclose(file);
}

static void test_tensorboard(void **state) {
  (void)state;
  static const char expected[] =
      "1800000000000000a37f4b2209000000000000f03f1a0d627261696e2e4576656e743a3286bf577a1a00000000000000129bd82d09000000"
      "00"
      "0000004010072a0d0a0b0a046c6f737315000060409df5e2d4";
  Buffer records = {0};
  events_record_version(&records, 1.0);
  events_record_scalar(&records, 2.0, 7, "loss", 3.5f);
  assert_int_equal(records.length * 2, sizeof expected - 1);
  for (size_t i = 0; i < records.length; i++) {
    char hex[3];
    snprintf(hex, sizeof hex, "%02x", (uint8_t)records.text[i]);
    assert_memory_equal(hex, expected + 2 * i, 2);
  }
  buffer_free(&records);
}

static void test_tensorboard_restart(void **state) {
  (void)state;
  // Event{wall_time 1, step 300, session_log{status START}}
  static const uint8_t payload[] = {9, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f, 0x10, 0xac, 2, 0x3a, 2, 8, 1};
  Buffer records = {0};
  events_record_restart(&records, 1.0, 300);
  assert_int_equal(records.length, 16 + sizeof payload);
  assert_memory_equal(records.text + 12, payload, sizeof payload);
  buffer_free(&records);
}

// No file may grow beyond so many bytes: a write ends in the middle, as on a disk that is full. 0: any size.
static void files_end_at(rlim_t bytes) {
  struct rlimit limit;
  getrlimit(RLIMIT_FSIZE, &limit);
  limit.rlim_cur = bytes ? bytes : limit.rlim_max;
  signal(SIGXFSZ, SIG_IGN);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

// Half of a line is at the end of the file, and what is written or cut off by this number fails. The number of what it
// was.
static int unwritable(int fd, const char *path) {
  const int kept = dup(fd), deaf = open(path, O_RDONLY);
  assert_true(kept >= 0 && deaf >= 0);
  assert_int_equal(write(kept, "{\"st", 4), 4);
  assert_int_equal(dup2(deaf, fd), fd);
  close(deaf);
  return kept;
}

// Lines of metrics are whole too.
static void test_torn_metrics(void **state) {
  (void)state;
  Metrics metrics;
  Error error = {0};
  const MetricsLine line = {.step = 3, .loss = 1.5};
  MetricsPoint *points;
  int64_t count, bad;
  assert_true(metrics_open(&metrics, file_in("torn.jsonl"), 0, &error));
  const int kept = unwritable(metrics.fd, metrics.path);
  assert_false(metrics_write(&metrics, &line, &error));
  assert_non_null(strstr(error.text, "its last line is torn"));
  assert_int_equal(dup2(kept, metrics.fd), metrics.fd);
  close(kept);
  assert_true(metrics_write(&metrics, &line, &error));
  assert_true(metrics_read_counting(metrics.path, &points, &count, &bad, &error));
  assert_int_equal(count, 1);
  assert_int_equal(bad, 0);
  free(points);
  metrics_close(&metrics);
}

// Readers stop at half a record, so none may stay in front of others.
static void test_torn_events(void **state) {
  (void)state;
  Events events;
  Error error = {0};
  const MetricsLine line = {.step = 3, .loss = 1.5};
  char *text;
  size_t size, at = 0;
  assert_true(events_open(&events, directory, 0, &error));
  files_end_at((rlim_t)events.bytes + 20);
  const bool torn = events_line(&events, &line, &error);
  files_end_at(0);
  assert_false(torn);
  assert_int_equal(error.status, 1);
  assert_true(events_line(&events, &line, &error));
  // Where even what half of it left cannot be taken off, that is done before the next one.
  const int kept = unwritable(events.fd, events.path);
  assert_false(events_line(&events, &line, &error));
  assert_non_null(strstr(error.text, "its last record is torn"));
  assert_int_equal(dup2(kept, events.fd), events.fd);
  close(kept);
  assert_true(events_line(&events, &line, &error));
  assert_true(io_read_file(events.path, 1 << 20, &text, &size, &error));
  assert_int_equal(size, events.bytes);
  while (at < size) {
    uint64_t length;
    assert_true(size - at > 16);
    memcpy(&length, text + at, sizeof length);
    assert_true(length < 256);
    at += 16 + (size_t)length;
  }
  assert_int_equal(at, size);
  free(text);
  events_close(&events);
}

// A line behind half of one stands by itself: run_never_saved looks for lines that begin with `saved`.
static void test_torn_log(void **state) {
  (void)state;
  Log log;
  Error error = {0};
  char *text;
  size_t size;
  log_start(&log, NULL);
  assert_true(log_open(&log, file_in("torn.txt"), &error));
  files_end_at(4);
  log_note(&log, "step 1");
  files_end_at(0);
  log_note(&log, "saved runs/a");
  log_note(&log, "step 2");
  log_close(&log);
  assert_true(io_read_file(file_in("torn.txt"), 1 << 20, &text, &size, &error));
  assert_string_equal(text, "step\nsaved runs/a\nstep 2\n");
  free(text);
  // The same where a program was killed in the middle, and another goes on with the file.
  FILE *file = fopen(file_in("torn.txt"), "w");
  assert_true(file && fputs("saved run", file) >= 0 && fclose(file) == 0);
  assert_true(log_open(&log, file_in("torn.txt"), &error));
  log_note(&log, "restarted");
  log_close(&log);
  assert_true(io_read_file(file_in("torn.txt"), 1 << 20, &text, &size, &error));
  assert_string_equal(text, "saved run\nrestarted\n");
  free(text);
}

typedef struct {
  const char *header, *data, *why;
} BadFile;

// A safetensors file of a header and data.
static void write_tensors(const char *path, const char *header, const char *data) {
  size_t length = strlen(header), size = strlen(data);
  char *bytes = malloc(8 + length + size);
  for (int i = 0; i < 8; i++) {
    bytes[i] = (char)((uint64_t)length >> (8 * i));
  }
  memcpy(bytes + 8, header, length);
  memcpy(bytes + 8 + length, data, size);
  write_bytes(path, bytes, 8 + length + size);
  free(bytes);
}

#define TENSOR(name, dtype, shape, begin, end) \
  "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":[" shape "],\"data_offsets\":[" begin "," end "]}"

static void test_bad_safetensors(void **state) {
  (void)state;
  static const BadFile files[] = {
      {"{" TENSOR("a", "U8", "4", "0", "4") "}", "123", "has data_offsets outside the file"},
      {"{" TENSOR("a", "U8", "2", "0", "2") "}", "123", "its tensors cover 2 bytes of 3"},
      {"{" TENSOR("a", "U8", "1", "0", "1") "," TENSOR("b", "U8", "1", "2", "3") "}", "123", "'b' begins at byte 2"},
      {"{" TENSOR("a", "U8", "2", "0", "2") "," TENSOR("b", "U8", "2", "1", "3") "}", "123",
       "'b' begins at byte 1 of the data, but what comes before it reaches to 2"},
      {"{" TENSOR("a", "U8", "1", "1", "2") "}", "12", "'a' begins at byte 1"},
      {"{" TENSOR("a", "U8", "1", "0", "1") "," TENSOR("a", "U8", "1", "1", "2") "}", "12", "duplicate object key"},
      {"{" TENSOR("a", "U8", "3", "0", "2") "}", "12", "do not fit its shape and dtype"},
      {"{" TENSOR("a", "F32", "1", "0", "2") "}", "12", "do not fit its shape and dtype"},
      {"{" TENSOR("a", "U7", "2", "0", "2") "}", "12", "has an unknown dtype"},
      {"{" TENSOR("a", "U8", "-2", "0", "2") "}", "12", "has a size that is not a whole number"},
      {"{" TENSOR("a", "U8", "2.0", "0", "2") "}", "12", "has a size that is not a whole number"},
      {"{" TENSOR("a", "U64", "4294967296,4294967296", "0", "0") "}", "", "has a shape that is too large"},
      {"{" TENSOR("a", "U8", "2", "2", "0") "}", "12", "has data_offsets outside the file"},
      {"{" TENSOR("a", "U8", "2", "-2", "0") "}", "12", "are not two whole numbers"},
      {"{" TENSOR("a", "U8", "2", "0", "99999999999999999999") "}", "12", "is not JSON"},
      {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1]}}", "1", "does not have exactly dtype, shape and data_offsets"},
      {"{\"a\":{\"dtype\":1,\"shape\":[],\"data_offsets\":[0,1]}}", "1", "does not have exactly dtype"},
      {"{\"a\":{\"dtype\":\"U8\",\"shape\":1,\"data_offsets\":[0,1]}}", "1", "does not have exactly dtype"},
      {"{\"a\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":0}}", "1", "does not have exactly dtype"},
      {"{\"a\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1],\"x\":0}}", "1", "does not have exactly dtype"},
      {"{" TENSOR("a", "U8", "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1", "0", "1") "}", "1", "has more than 16 axes"},
      {"{" TENSOR("a", "U8", "1", "0", "1,1") "}", "1", "are not two whole numbers"},
      {"{" TENSOR("a", "U8", "1", "0", "null") "}", "1", "are not two whole numbers"},
      {"{" TENSOR("a", "U8", "0", "0", "0") "," TENSOR("b", "U8", "0", "0", "0") "," TENSOR("c", "U8", "1", "0",
                                                                                            "1") "}",
       "12", "its tensors cover 1 bytes of 2"},
      {"{\"__metadata__\":3}", "", "'__metadata__' is not an object"},
      {"{", "123", "its header would have 1 bytes"},
      {"{\"a\":3}", "", "'a' is not an object"},
      {"{\"__metadata__\":{\"x\":1}}", "", "'__metadata__' holds something that is not a string"},
      {"[1,2,3]", "", "does not begin with {"},
      {"{\"a\":", "", "is not JSON"},
      {"{} x", "", "is not JSON"},
  };
  for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
    Safetensors *file = NULL;
    Error error = {0};
    write_tensors(file_in("bad.safetensors"), files[i].header, files[i].data);
    assert_false(safetensors_open(file_in("bad.safetensors"), &file, &error));
    if (!strstr(error.text, files[i].why)) {
      fail_msg("case %zu: expected '%s' in: %s", i, files[i].why, error.text);
    }
  }
  static const uint8_t huge[16] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f};
  Safetensors *file = NULL;
  Error error = {0};
  write_bytes(file_in("bad.safetensors"), huge, sizeof huge);
  assert_false(safetensors_open(file_in("bad.safetensors"), &file, &error));
  assert_non_null(strstr(error.text, "its header would have 9223372036854775807 bytes"));
  write_bytes(file_in("bad.safetensors"), "1234", 4);
  assert_false(safetensors_open(file_in("bad.safetensors"), &file, &error));
  assert_non_null(strstr(error.text, "it has only 4 bytes"));
}

static void test_random_safetensors(void **state) {
  (void)state;
  static const char header[] = "{\"__metadata__\":{\"format\":\"pt\"}," TENSOR(
      "layer.w", "BF16", "2,3", "0", "12") "," TENSOR("b", "F32", "", "12", "16") "}   ";
  uint32_t random = 7;
  int opened = 0;
  for (int round = 0; round < 3000; round++) {
    char copy[sizeof header];
    memcpy(copy, header, sizeof header);
    for (int change = 0; change < round % 4; change++) {
      random = random * 1664525u + 1013904223u;
      size_t at = (random >> 8) % (sizeof header - 1);
      random = random * 1664525u + 1013904223u;
      copy[at] = (char)(round % 2 ? random >> 24 | 1 : (uint32_t) "0129{}[],\":-"[(random >> 24) % 12]);
    }
    write_tensors(file_in("random.safetensors"), copy, "0123456789abcdef");
    Safetensors *file = NULL;
    Error error = {0};
    if (safetensors_open(file_in("random.safetensors"), &file, &error)) {
      char data[16];
      opened++;
      for (int i = 0; i < safetensors_count(file); i++) {
        assert_true(safetensors_read(file, safetensors_at(file, i), data, &error));
      }
      safetensors_close(file);
    }
  }
  assert_true(opened > 700 && opened < 2500);
}

static void test_good_safetensors(void **state) {
  (void)state;
  Safetensors *file = NULL;
  Error error = {0};
  write_tensors(file_in("good.safetensors"),
                "{\"__metadata__\":{\"format\":\"pt\"}," TENSOR("b", "U8", "0,5", "2", "2") "," TENSOR(
                    "c", "I16", "", "2", "4") "," TENSOR("a", "U8", "2,1", "0", "2") "}    ",
                "wxyz");
  if (!safetensors_open(file_in("good.safetensors"), &file, &error)) {
    fail_msg("%s", error.text);
  }
  assert_int_equal(safetensors_count(file), 3);
  assert_string_equal(safetensors_at(file, 0)->name, "a");
  assert_string_equal(safetensors_metadata(file, "format"), "pt");
  char data[2];
  assert_true(safetensors_read(file, safetensors_find(file, "c"), data, &error));
  assert_memory_equal(data, "yz", 2);
  assert_null(safetensors_find(file, "d"));
  safetensors_close(file);
}

// What the format's own reader makes of a file of ours, where it is installed.
static void test_foreign_reader(void **state) {
  (void)state;
  if (system("python3 -c 'import safetensors.numpy' 2>/dev/null") != 0) {
    print_message("skipped: python3 has no module safetensors\n");
    skip();
  }
  SafetensorsTensor tensors[] = {{.name = "a \"quoted\" name", .dtype = "F32", .axis_count = 2, .size = {2, 2}},
                                 {.name = "scalar", .dtype = "I32"}};
  const float values[] = {1, 2, 3, 4};
  const int32_t scalar = 9;
  Buffer file = {0};
  assert_true(safetensors_header(tensors, 2, &file));
  buffer_bytes(&file, values, sizeof values);
  buffer_bytes(&file, &scalar, sizeof scalar);
  write_bytes(file_in("ours.safetensors"), file.text, file.length);
  buffer_free(&file);
  char command[512];
  snprintf(command, sizeof command,
           "python3 -c \"from safetensors.numpy import load_file; t = load_file('%s'); "
           "assert t['a \\\\\\\"quoted\\\\\\\" name'].tolist() == [[1, 2], [3, 4]] and t['scalar'].tolist() == 9\"",
           file_in("ours.safetensors"));
  assert_int_equal(system(command), 0);
}

static void test_metrics(void **state) {
  (void)state;
  Metrics metrics;
  MetricsPoint *points;
  int64_t count, bad;
  Error error = {0};
  MetricsLine line = {.step = 1, .loss = (double)5.544932f, .grad_norm = NAN, .lr = 3e-4, .tokens = 512};
  line.tokens_per_s = 1234.56;
  line.step_ms = 1.23456;
  line.tflops = 0.5;
  line.mfu = line.val_loss = NAN;
  line.memory_bytes = 4096;
  assert_true(metrics_open(&metrics, file_in("metrics.jsonl"), 0, &error));
  assert_true(metrics_write(&metrics, &line, &error));
  line.step = 2;
  line.val_loss = 2.5;
  line.loss = INFINITY;
  assert_true(metrics_write(&metrics, &line, &error));
  metrics_close(&metrics);
  char *text;
  size_t size;
  assert_true(io_read_file(file_in("metrics.jsonl"), 1 << 20, &text, &size, &error));
  assert_string_equal(text,
                      "{\"step\":1,\"loss\":5.544932,\"grad_norm\":null,\"lr\":0.0003,\"tokens\":512,\"tokens_per_s\":"
                      "1234.6,\"step_ms\":1.235,\"tflops\":0.5,\"mfu\":null,\"memory_bytes\":4096,\"skipped\":0}\n"
                      "{\"step\":2,\"loss\":null,\"grad_norm\":null,\"lr\":0.0003,\"tokens\":512,\"tokens_per_s\":"
                      "1234.6,\"step_ms\":1.235,\"tflops\":0.5,\"mfu\":null,\"memory_bytes\":4096,\"skipped\":0,"
                      "\"val_loss\":2.5}\n");
  // A torn line and lines after the step that is resumed disappear.
  FILE *file = fopen(file_in("metrics.jsonl"), "a");
  fputs("{\"step\":3,\"lo", file);
  fclose(file);
  assert_true(metrics_open(&metrics, file_in("metrics.jsonl"), 1, &error));
  assert_int_equal(metrics.count, 1);
  assert_int_equal(metrics.bytes, strchr(text, '\n') + 1 - text);
  metrics_close(&metrics);
  free(text);
  write_bytes(file_in("metrics.jsonl"), "{\"step\":-1}\n{\"step\":0}\n", 24);  // of no step
  assert_true(metrics_read_counting(file_in("metrics.jsonl"), &points, &count, &bad, &error));
  assert_true(count == 1 && bad == 1 && points[0].step == 0);
  free(points);
  write_bytes(file_in("metrics.jsonl"), "{\"step\":1}\nnonsense\n", 20);
  // So do lines that are none of metrics; the file as it was stays beside it.
  assert_true(metrics_open(&metrics, file_in("metrics.jsonl"), 1, &error));
  assert_true(metrics.count == 1 && metrics.bad_lines == 1 && metrics.bad_line == 2 && metrics.bytes == 11);
  metrics_close(&metrics);
  assert_true(io_read_file(file_in("metrics.jsonl.damaged"), 1 << 20, &text, &size, &error));
  assert_string_equal(text, "{\"step\":1}\nnonsense\n");
  free(text);
}

static void test_numbers_read_back(void **state) {
  (void)state;
  char text[32];
  uint32_t random = 3;
  for (int i = 0; i < 10000; i++) {
    random = random * 1664525u + 1013904223u;
    float single;
    uint32_t bits = random & 0xbfffffff;
    memcpy(&single, &bits, sizeof single);
    double wide = (double)single * 1.1;
    assert_true((float)strtod(json_shortest(text, (double)single), NULL) == single);
    bool is_float = (double)(float)wide == wide;
    assert_true(is_float || strtod(json_shortest(text, wide), NULL) == wide);
  }
  assert_string_equal(json_shortest(text, (double)0.1f), "0.1");
  assert_string_equal(json_shortest(text, NAN), "null");
}

// Every element of a text that opens is closed, and in order; enough to catch what a viewer would refuse.
static void check_markup(const char *text) {
  char open[16][32];
  int depth = 0;
  for (const char *at = strchr(text, '<'); at; at = strchr(at + 1, '<')) {
    size_t length = strcspn(at, ">");
    assert_int_equal(at[length], '>');
    size_t name = strspn(at + 1 + (at[1] == '/'), "abcdefghijklmnopqrstuvwxyzP");
    if (at[1] == '/') {
      assert_true(depth > 0);
      depth--;
      assert_int_equal(strlen(open[depth]), name);
      assert_memory_equal(open[depth], at + 2, name);
    } else if (at[length - 1] != '/') {
      assert_true(depth < 16);
      snprintf(open[depth++], 32, "%.*s", (int)name, at + 1);
    }
  }
  assert_int_equal(depth, 0);
  assert_null(strstr(text, "nan"));
  assert_null(strstr(text, "inf"));
}

static void test_chart(void **state) {
  (void)state;
  static const int64_t counts[] = {0, 1, 2, 10, 892, 893, 5000, 100000};
  static const char *const said[] = {"loss, nats per token<", "loss, a sum over the tokens of a batch<",
                                     "loss, without a unit<", "loss, nats per token and other terms<"};
  for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
    for (int kind = 0; kind < 8; kind++) {
      MetricsPoint *points = calloc((size_t)counts[c] + 1, sizeof *points);
      for (int64_t i = 0; i < counts[c]; i++) {
        points[i].step = (double)(i * 10 + 1);
        points[i].loss = kind == 1 ? NAN : kind == 2 ? 2.5 : 2 + 3 / (1 + (double)i * 0.1) + 0.1 * (double)(i * 7 % 5);
        const double wide = kind == 7 ? 1.5e308 : 9e299;  // too large to be drawn, and not
        points[i].loss = kind == 4 ? 1e17 : kind == 5 || kind == 7 ? (i % 2 ? -wide : wide) : points[i].loss;
        points[i].val_loss = kind == 3 || i % 10 ? NAN : points[i].loss + 0.1;
        if (kind == 6 && i + 1 < counts[c]) {  // in no order, as in a file that somebody has changed
          points[i].step *= i % 2 ? -1e12 : 1e12;
        }
      }
      Buffer text = {0};
      chart_loss(&text, &(ChartText){"a < b & c", "recipe", (LossUnit)(c % LOSS_UNIT_COUNT)}, points, counts[c]);
      check_markup(text.text);
      assert_non_null(strstr(text.text, "a &lt; b &amp; c"));
      const bool drawn = counts[c] > 0 && kind != 1 && kind != 7;
      assert_true(!drawn || strstr(text.text, said[c % LOSS_UNIT_COUNT]));
      assert_true(kind == 6 || text.length < (kind < 4 ? 80000 : 400000));  // large numbers have many digits
      buffer_free(&text);
      free(points);
    }
  }
}

static void test_units(void **state) {
  (void)state;
  char text[UNITS_MAX];
  assert_string_equal(units_count(text, 0), "0");
  assert_string_equal(units_count(text, 999), "999");
  assert_string_equal(units_count(text, 1234567), "1.23M");
  assert_string_equal(units_count(text, 999999), "1.00M");
  assert_string_equal(units_bytes(text, 512), "512 bytes");
  assert_string_equal(units_bytes(text, 1234567), "1.18 MiB");
  assert_string_equal(units_bytes(text, 1048575), "1.00 MiB");
  assert_string_equal(units_duration(text, 0.04), "0.0s");
  assert_string_equal(units_duration(text, 192), "3m 12s");
  assert_string_equal(units_duration(text, 7260), "2h 01m");
  assert_string_equal(units_duration(text, NAN), "0s");
}

static void test_whole_characters(void **state) {
  (void)state;
  assert_int_equal(generate_whole("a", 1), 1);
  assert_int_equal(generate_whole("a\xc3", 2), 1);
  assert_int_equal(generate_whole("\xc3\xa9", 2), 2);
  assert_int_equal(generate_whole("\xe3\x81", 2), 0);
  assert_int_equal(generate_whole("\xe3\x81\x82", 3), 3);
  assert_int_equal(generate_whole("\xf0\x9f\x98", 3), 0);
  assert_int_equal(generate_whole("\xf0\x9f\x98\x80", 4), 4);
  assert_int_equal(generate_whole("\x80", 1), 1);  // no character begins so
  assert_int_equal(generate_whole("\xff", 1), 1);
  assert_int_equal(generate_whole("\xc3\x28", 2), 2);
}

static void test_picking(void **state) {
  (void)state;
  static const double scores[] = {0.1, 2.0, -1.0, 2.0, 1.0};
  int32_t order[5];
  GenerateOptions options = {.temperature = 0, .seed = 1};
  assert_int_equal(generate_pick(scores, 5, &options, 3, order), 1);
  options.temperature = 1;
  options.top_k = 1;
  assert_int_equal(generate_pick(scores, 5, &options, 3, order), 1);
  options.top_k = 3;
  double sum = 0, expected[5];
  for (int i = 0; i < 5; i++) {
    sum += expected[i] = i == 0 || i == 2 ? 0 : exp(scores[i]);
  }
  int counts[5] = {0}, trials = 20000;
  for (int i = 0; i < trials; i++) {
    int32_t token = generate_pick(scores, 5, &options, i, order);
    assert_int_equal(token, generate_pick(scores, 5, &options, i, order));
    counts[token]++;
  }
  for (int i = 0; i < 5; i++) {
    double share = expected[i] / sum;
    assert_true(fabs(counts[i] / (double)trials - share) <= 5 * sqrt(share * (1 - share) / trials));
  }
}

// The two likeliest have 0.39 each, the third 0.14, the fourth 0.06: the fewest that have a share.
static void test_picking_by_share(void **state) {
  (void)state;
  static const double scores[] = {0.1, 2.0, -1.0, 2.0, 1.0}, shares[] = {1e-9, 0.38, 0.5, 0.75, 0.8, 0.95, 0.99, 1};
  static const int most[] = {1, 1, 2, 2, 3, 4, 5, 5};
  for (size_t s = 0; s < sizeof shares / sizeof *shares; s++) {
    int32_t order[5];
    int met[5] = {0}, kinds = 0;
    for (int i = 0; i < 20000; i++) {
      const GenerateOptions options = {.temperature = 1, .top_p = shares[s], .seed = 1};
      met[generate_pick(scores, 5, &options, i, order)]++;
    }
    for (int i = 0; i < 5; i++) {
      kinds += met[i] > 0;
    }
    assert_int_equal(kinds, most[s]);
    assert_true(kinds > 1 || met[1] == 20000);  // of equal ones the first
    assert_true(kinds != 2 || abs(met[1] - met[3]) < 600);
  }
  int32_t order[5];
  for (int i = 0; i < 1000; i++) {  // a share of those that top_k leaves
    const GenerateOptions options = {.temperature = 1, .top_k = 2, .top_p = 0.45, .seed = 1};
    assert_int_equal(generate_pick(scores, 5, &options, i, order), 1);
  }
}

static bool collect(void *context, const char *bytes, size_t length) {
  buffer_bytes(context, bytes, length);
  return true;
}

static void test_generation_slides(void **state) {
  (void)state;
  Arena *arena = arena_create();
  Plan *plan = toy_plan(arena, "text", 4, 8, 1, false);
  Session session;
  Error error = {0};
  Buffer first = {0}, second = {0};
  assert_true(session_open(&session, plan, &toy_backend, 1, &error));
  float *table = (float *)(void *)session.device->arena[ARENA_PERSISTENT];
  for (int i = 0; i < TOY_VOCAB; i++) {
    table[i * TOY_VOCAB + (i == 'z' ? 'a' : i + 1) % TOY_VOCAB] = 9;  // the alphabet, again and again
  }
  GenerateOptions options = {.prompt = "a long prompt that ends in x", .tokens = 30, .temperature = 0};
  assert_true(generate_run(&session, &options, collect, &first, &error));
  assert_string_equal(first.text, "yzabcdefghijklmnopqrstuvwxyzab");
  options.temperature = 5;
  buffer_free(&first);
  assert_true(generate_run(&session, &options, collect, &first, &error));
  assert_true(generate_run(&session, &options, collect, &second, &error));
  assert_string_equal(first.text, second.text);
  options.seed = 1;
  buffer_free(&second);
  assert_true(generate_run(&session, &options, collect, &second, &error));
  assert_true(strcmp(first.text, second.text) != 0);
  PlanOutput *logits = &plan->programs[PROGRAM_GENERATE].outputs[0];
  logits->axis[1] = "key";
  assert_false(generate_run(&session, &options, collect, &second, &error));
  assert_non_null(strstr(error.text, "have the axes [batch, vocab, key]"));
  logits->axis[1] = "seq";
  logits->axis_count = 2;
  assert_false(generate_run(&session, &options, collect, &second, &error));
  assert_non_null(strstr(error.text, "have the axes [seq, vocab]"));
  logits->name = "loss";
  assert_false(generate_run(&session, &options, collect, &second, &error));
  assert_non_null(strstr(error.text, "has no output 'logits'"));
  buffer_free(&first);
  buffer_free(&second);
  session_close(&session);
  arena_destroy(arena);
}

int main(void) {
  snprintf(directory, sizeof directory, "/tmp/mdl-formats-XXXXXX");
  if (!mkdtemp(directory)) {
    return 1;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_tensorboard),
      cmocka_unit_test(test_tensorboard_restart),
      cmocka_unit_test(test_torn_events),
      cmocka_unit_test(test_torn_metrics),
      cmocka_unit_test(test_torn_log),
      cmocka_unit_test(test_bad_safetensors),
      cmocka_unit_test(test_random_safetensors),
      cmocka_unit_test(test_good_safetensors),
      cmocka_unit_test(test_foreign_reader),
      cmocka_unit_test(test_metrics),
      cmocka_unit_test(test_numbers_read_back),
      cmocka_unit_test(test_chart),
      cmocka_unit_test(test_units),
      cmocka_unit_test(test_whole_characters),
      cmocka_unit_test(test_picking),
      cmocka_unit_test(test_picking_by_share),
      cmocka_unit_test(test_generation_slides),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  io_remove_tree(directory);
  return failed;
}
