// tuning_test.c: tuning records: what is kept is found again; damaged, foreign and unwritable ones.
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "runtime/cuda/tuning.h"

enum { BYTES = 8 };
static const char machine[] = "mdl tuning 1, a test, driver 1, library 1";
static const unsigned char algorithm[BYTES] = {0, 1, 2, 0xfe, 0xff, 0x10, 0x0a, 0x80};

typedef struct {
  Arena *arena;
  char path[64];
} Record;

static Record record_make(void) {
  Record record = {.arena = arena_create(), .path = "/tmp/mdl-tuning-XXXXXX"};
  assert_non_null(record.arena);
  const int file = mkstemp(record.path);
  assert_true(file >= 0);
  close(file);
  setenv("MDL_TUNING", record.path, 1);
  return record;
}

static void record_end(Record *record) {
  char lock[80];
  snprintf(lock, sizeof lock, "%s.lock", record->path);
  unlink(record->path);
  unlink(lock);
  unsetenv("MDL_TUNING");
  arena_destroy(record->arena);
}

// adopts: whether another's choice is to be taken.
static void keep(Tuning *tuning, bool adopts) {
  char message[512];
  bool adopted;
  assert_true(tuning_keep(tuning, &adopted, message, sizeof message));
  assert_int_equal(adopted, adopts);
}

static void record_fill(const Record *record) {
  Tuning *tuning = tuning_open(record->arena, machine, NULL);
  tuning_add(tuning, "one", algorithm, BYTES, 1.5);
  tuning_add(tuning, "two", algorithm + 1, BYTES - 1, 2.5);
  keep(tuning, false);
}

static void record_text(const Record *record, const char *text) {
  FILE *file = fopen(record->path, "w");
  assert_non_null(file);
  fputs(text, file);
  assert_int_equal(fclose(file), 0);
}

static bool found(const Record *record, const char *holds_for, const char *problem, size_t bytes) {
  unsigned char out[BYTES] = {0};
  const bool has = tuning_find(tuning_open(record->arena, holds_for, NULL), problem, out, bytes);
  return has && memcmp(out, algorithm + (BYTES - bytes), bytes) == 0;
}

static void what_is_kept_is_found_again(void **state) {
  (void)state;
  Record record = record_make();
  record_fill(&record);
  assert_true(found(&record, machine, "one", BYTES));
  assert_true(found(&record, machine, "two", BYTES - 1));
  assert_false(found(&record, machine, "three", BYTES));
  assert_false(found(&record, machine, "two", BYTES));  // of another size
  assert_false(found(&record, "mdl tuning 1, another machine", "one", BYTES));
  record_end(&record);
}

static void damaged_records_are_as_good_as_none(void **state) {
  (void)state;
  static const char *const bodies[] = {"",
                                       "one\n",
                                       "one\t1.5\n",
                                       "one\t1.5\t\n",
                                       "one\t1.5\t000102feff100a8\n",
                                       "one\t1.5\t000102feff100a8z\n",
                                       "one\t1.5\t00 102feff100a80\n",
                                       "\xff\xfe\t\t\t\n"};
  Record record = record_make();
  for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
    char text[256];
    snprintf(text, sizeof text, "%s\n%s", machine, bodies[i]);
    record_text(&record, text);
    assert_false(found(&record, machine, "one", BYTES));
  }
  record_text(&record, "");
  assert_false(found(&record, machine, "one", BYTES));
  record_fill(&record);  // and they are written anew
  assert_true(found(&record, machine, "one", BYTES));
  record_end(&record);
}

static void a_record_that_cannot_be_written(void **state) {
  (void)state;
  char message[512] = "";
  bool adopted;
  Arena *arena = arena_create();
  setenv("MDL_TUNING", "/proc/mdl-no-such-folder/record", 1);
  Tuning *named = tuning_open(arena, machine, NULL);
  tuning_add(named, "one", algorithm, BYTES, 1);
  assert_false(tuning_keep(named, &adopted, message, sizeof message));
  assert_non_null(strstr(message, "/proc/mdl-no-such-folder/record"));
  unsetenv("MDL_TUNING");
  static const char *const caches[] = {"/proc", "/proc/mdl-no-such-folder"};  // there, and not
  for (size_t i = 0; i < sizeof caches / sizeof *caches; i++) {
    setenv("MDL_CACHE", caches[i], 1);
    Tuning *tuning = tuning_open(arena, machine, NULL);
    tuning_add(tuning, "one", algorithm, BYTES, 1);
    assert_true(tuning_keep(tuning, &adopted, message, sizeof message));
  }
  unsetenv("MDL_CACHE");
  arena_destroy(arena);
}

// What a run has used is the record of the run, and prevails over that of the machine when it is gone on with.
static void a_run_has_its_own(void **state) {
  (void)state;
  static const unsigned char other[BYTES] = {9, 9, 9};
  Record record = record_make();
  Buffer text = {0};
  unsigned char out[BYTES];
  record_fill(&record);
  Tuning *tuning = tuning_open(record.arena, machine, NULL);
  tuning_add(tuning, "three", algorithm, BYTES, 3.5);
  assert_true(tuning_find(tuning, "one", out, BYTES));
  tuning_text(tuning, &text);
  assert_non_null(strstr(text.text, machine));
  assert_non_null(strstr(text.text, "\none\t"));
  assert_non_null(strstr(text.text, "\nthree\t"));
  assert_null(strstr(text.text, "\ntwo\t"));  // not asked for
  record_text(&record, "");
  tuning = tuning_open(record.arena, machine, NULL);
  tuning_add(tuning, "one", other, BYTES, 0.5);  // what another run found when the record was lost
  keep(tuning, false);
  assert_true(tuning_find(tuning_open(record.arena, machine, NULL), "one", out, BYTES));
  assert_memory_equal(out, other, BYTES);
  assert_true(tuning_find(tuning_open(record.arena, machine, text.text), "one", out, BYTES));
  assert_memory_equal(out, algorithm, BYTES);
  assert_false(tuning_find(tuning_open(record.arena, "another machine", text.text), "one", out, BYTES));
  strstr(text.text, "\none\t")[1] = 'O';  // damaged: what the machine has
  assert_true(tuning_find(tuning_open(record.arena, machine, text.text), "one", out, BYTES));
  assert_memory_equal(out, other, BYTES);
  buffer_free(&text);
  record_end(&record);
}

// Two runs time the same at once: the first to write decides for both, and what either found is kept.
static void the_first_to_write_decides(void **state) {
  (void)state;
  static const unsigned char other[BYTES] = {9, 9, 9};
  Record record = record_make();
  unsigned char out[BYTES];
  Buffer text = {0};
  Tuning *first = tuning_open(record.arena, machine, NULL), *second = tuning_open(record.arena, machine, NULL);
  tuning_add(first, "one", algorithm, BYTES, 1);
  tuning_add(first, "of the first", algorithm, BYTES, 1);
  tuning_add(second, "of the second", other, BYTES, 1);
  tuning_add(second, "one", other, BYTES, 0.5);
  keep(first, false);
  keep(second, true);
  assert_true(tuning_find(second, "one", out, BYTES));
  assert_memory_equal(out, algorithm, BYTES);
  assert_true(tuning_find(second, "of the second", out, BYTES));
  assert_memory_equal(out, other, BYTES);
  tuning_text(second, &text);  // what the run keeps
  assert_true(tuning_find(tuning_open(record.arena, machine, text.text), "one", out, BYTES));
  assert_memory_equal(out, algorithm, BYTES);
  assert_true(found(&record, machine, "one", BYTES));
  assert_true(found(&record, machine, "of the first", BYTES));
  assert_true(tuning_find(tuning_open(record.arena, machine, NULL), "of the second", out, BYTES));
  buffer_free(&text);
  record_end(&record);
}

// One that was stopped while it wrote holds up nobody for ever.
static void a_lock_that_is_held_is_not_waited_for_long(void **state) {
  (void)state;
  Record record = record_make();
  char path[80];
  snprintf(path, sizeof path, "%s.lock", record.path);
  const int held = open(path, O_RDWR | O_CREAT, 0666);
  assert_true(held >= 0 && flock(held, LOCK_EX) == 0);
  const time_t before = time(NULL);
  record_fill(&record);
  assert_in_range(time(NULL) - before, 1, 30);
  assert_true(found(&record, machine, "one", BYTES));
  close(held);
  record_end(&record);
}

// Many at once: nobody's problems are lost, and all agree.
static void many_write_at_once(void **state) {
  enum { RUNS = 12 };
  (void)state;
  Record record = record_make();
  pid_t child[RUNS];
  for (int i = 0; i < RUNS; i++) {
    child[i] = fork();
    assert_true(child[i] >= 0);
    if (child[i] == 0) {
      unsigned char own[BYTES] = {0}, out[BYTES];
      char name[16], message[512];
      bool adopted;
      own[0] = (unsigned char)(i + 1);
      snprintf(name, sizeof name, "of %d", i);
      Tuning *tuning = tuning_open(record.arena, machine, NULL);
      tuning_add(tuning, "shared", own, BYTES, 1);
      tuning_add(tuning, name, own, BYTES, 1);
      const bool good = tuning_keep(tuning, &adopted, message, sizeof message) &&
                        tuning_find(tuning, "shared", out, BYTES) && adopted == (out[0] != own[0]);
      _exit(good ? out[0] : 0);
    }
  }
  unsigned char shared[BYTES], out[BYTES];
  for (int i = 0; i < RUNS; i++) {
    int status = 0;
    assert_int_equal(waitpid(child[i], &status, 0), child[i]);
    assert_true(WIFEXITED(status));
    shared[0] = i == 0 ? (unsigned char)WEXITSTATUS(status) : shared[0];
    assert_int_equal(WEXITSTATUS(status), shared[0]);
  }
  Tuning *tuning = tuning_open(record.arena, machine, NULL);
  assert_true(tuning_find(tuning, "shared", out, BYTES));
  assert_int_equal(out[0], shared[0]);
  for (int i = 0; i < RUNS; i++) {
    char name[16];
    snprintf(name, sizeof name, "of %d", i);
    assert_true(tuning_find(tuning, name, out, BYTES));
    assert_int_equal(out[0], i + 1);
  }
  record_end(&record);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_is_kept_is_found_again),
      cmocka_unit_test(damaged_records_are_as_good_as_none),
      cmocka_unit_test(a_record_that_cannot_be_written),
      cmocka_unit_test(a_run_has_its_own),
      cmocka_unit_test(the_first_to_write_decides),
      cmocka_unit_test(many_write_at_once),
      cmocka_unit_test(a_lock_that_is_held_is_not_waited_for_long),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
