// file_faults_test.c: whole files in and out, and the file operations of saving, while calls of the system fail.
//
// Each call fails once (faults.h), for a reason or since a signal came: the first is said in words and leaves the old
// file, the second is nothing.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka.h wants the four above first.
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "tests/faults.h"

typedef bool Work(const World *world, char *why, size_t size);

// Does the work with the n-th call failing, for each n, until it is done without; returns how many made it fail.
static int with_faults(Work *work, const World *world, int reason) {
  enum { MOST = 40 };
  int failed = 0;
  for (int n = 1; n <= MOST; n++) {
    char why[ERROR_MAX] = "";
    faults.at = n;
    faults.with = reason;
    faults.calls = 0;
    const bool done = work(world, why, sizeof why);
    const bool reached = faults.calls >= n;
    faults.at = 0;
    if (!done) {
      failed++;
      assert_true(reached);
      if (!strstr(why, strerror(reason))) {
        fail_msg("call %d of the work failed, and what is said is: %s", n, why);
      }
    }
    if (!reached) {
      assert_true(done);
      return failed;
    }
  }
  fail_msg("there is no end of calls");
  return failed;
}

static const char was[] = "what was there", is[] = "what is there now";

static void expect_text(const char *path, bool changed) {
  size_t length = 0;
  FileError error;
  char *text = file_read(path, &length, &error);
  assert_non_null(text);
  assert_string_equal(text, changed ? is : was);
  free(text);
}

static bool write_atomic(const World *world, char *why, size_t size) {
  char path[IO_PATH_MAX];
  FileError error = {.text = ""};
  path_in(world, path, "file");
  const int at = faults.at;
  faults.at = 0;
  assert_true(file_write_atomic(path, was, strlen(was), &error));
  faults.at = at;
  faults.calls = 0;
  const bool done = file_write_atomic(path, is, strlen(is), &error);
  const int made = faults.calls;
  faults.at = 0;
  snprintf(why, size, "%s", error.text);
  if (done) {
    expect_text(path, true);
  } else {  // whole, the one or the other
    size_t length = 0;
    char *text = file_read(path, &length, &error);
    assert_non_null(text);
    assert_true(strcmp(text, was) == 0 || strcmp(text, is) == 0);
    free(text);
  }
  faults.calls = made;
  return done;
}

static bool read_whole(const World *world, char *why, size_t size) {
  char path[IO_PATH_MAX];
  size_t length = 0;
  FileError error = {.text = ""};
  path_in(world, path, "text");
  char *text = file_read(path, &length, &error);
  snprintf(why, size, "%s", error.text);
  free(text);
  return text != NULL;
}

static bool make_directories(const World *world, char *why, size_t size) {
  char path[IO_PATH_MAX];
  FileError error = {.text = ""};
  path_in(world, path, "one/two");
  rmdir(path);
  path_in(world, path, "one");
  rmdir(path);
  path_in(world, path, "one/two/");
  const bool done = file_make_directories(path, &error);
  snprintf(why, size, "%s", error.text);
  return done;
}

static bool replace(const World *world, char *why, size_t size) {
  char path[IO_PATH_MAX];
  Error error = {0};
  path_in(world, path, "replaced");
  const bool done = io_replace_file(NULL, path, is, strlen(is), &error);
  snprintf(why, size, "%s", error.text);
  if (done) {
    const int made = faults.calls;
    faults.at = 0;
    expect_text(path, true);
    faults.calls = made;
  }
  return done;
}

static bool read_exactly(const World *world, char *why, size_t size) {
  char path[IO_PATH_MAX], *text = NULL;
  size_t length = 0;
  Error error = {0};
  path_in(world, path, "text");
  const bool done = io_read_file(path, 1 << 20, &text, &length, &error);
  snprintf(why, size, "%s", error.text);
  if (done) {
    free(text);
  }
  return done;
}

static bool make_and_sync(const World *world, char *why, size_t size) {
  char path[IO_PATH_MAX], to[IO_PATH_MAX];
  Error error = {0};
  bool exchanged;
  path_in(world, path, "made");
  path_in(world, to, "moved");
  rmdir(path);
  rmdir(to);
  const bool done = io_make_directory(NULL, path, &error) && io_sync_directory(NULL, path, &error) &&
                    io_exchange(NULL, path, to, &exchanged, &error) && io_make_path(path, &error) &&
                    io_exchange(NULL, path, to, &exchanged, &error);
  snprintf(why, size, "%s", error.text);
  return done;
}

static void test_failing_calls(void **state) {
  const World *world = *state;
  static const struct {
    Work *work;
    int least;  // calls that can fail
  } all[] = {{write_atomic, 5}, {read_whole, 1},   {make_directories, 2},
             {replace, 4},      {read_exactly, 1}, {make_and_sync, 2}};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    assert_true(with_faults(all[i].work, world, EIO) >= all[i].least);
  }
}

// All goes on that signals may interrupt; what they interrupt while it is closed is closed.
static void test_signals(void **state) {
  const World *world = *state;
  Work *const all[] = {read_whole, read_exactly, write_atomic, replace, make_and_sync};
  faults.kinds = FAULT_READ | FAULT_WRITE | FAULT_SLOW;
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    assert_int_equal(with_faults(all[i], world, EINTR), 0);
  }
  faults.kinds = FAULT_TRANSFER;
}

static void test_paths(void **state) {
  const World *world = *state;
  char path[IO_PATH_MAX], target[IO_PATH_MAX], folder[64], long_name[2 * IO_PATH_MAX];
  size_t length = 0;
  char *text = NULL;
  int fd = -1;
  bool exchanged;
  FileError why = {.text = ""};
  Error error = {0};
  memset(long_name, 'a', sizeof long_name - 1);
  long_name[sizeof long_name - 1] = '\0';
  assert_false(io_path(path, &error, "%s", long_name));
  expect_words(error.text, "the path is too long");
  assert_false(file_make_directories(long_name, &why));
  assert_false(file_make_directories("", &why));
  assert_false(file_write_atomic(long_name, "", 0, &why));
  path_in(world, path, "none/file");
  assert_null(file_read(path, &length, &why));
  assert_false(file_write_atomic(path, "", 0, &why));
  assert_false(io_open(path, O_RDONLY, &fd, &error));
  assert_int_equal(fd, -1);
  assert_false(io_replace_file(NULL, path, "", 0, &error));
  assert_false(io_exchange(NULL, path, world->directory, &exchanged, &error));
  assert_true(io_absent(path));
  path_in(world, path, "text/below");  // a file is no directory
  assert_false(file_make_directories(path, &why));
  assert_false(io_make_path(path, &error));
  assert_true(io_absent(path));
  path_in(world, path, "text");
  assert_false(io_read_file(path, 10, &text, &length, &error));  // longer than that
  assert_false(io_make_path(path, &error));
  assert_false(io_target(world->directory, target, &error));
  expect_words(error.text, "a directory");
  assert_true(file_write_atomic("/dev/null", "x", 1, &why));
  path_in(world, target, "link");
  assert_int_equal(symlink(path, target), 0);
  assert_false(io_open(target, O_RDONLY | O_NOFOLLOW, &fd, &error));
  expect_words(error.text, "link");
  assert_false(io_space(NULL, world->directory, INT64_MAX, &error));
  assert_true(io_space(NULL, long_name, 1, &error));  // nobody knows
  static const char *const variables[] = {"MDL_CACHE", "XDG_CACHE_HOME", "HOME"};
  for (int i = 0; i < 3; i++) {  // each is asked where those before are not set
    setenv(variables[i], i == 1 ? "/somewhere" : "/elsewhere", 1);
    assert_true(file_cache_folder(folder, sizeof folder));
    assert_string_equal(folder, i == 0 ? "/elsewhere" : i == 1 ? "/somewhere/mdl" : "/elsewhere/.cache/mdl");
    setenv(variables[i], long_name, 1);
    assert_false(file_cache_folder(folder, sizeof folder));
    setenv(variables[i], "", 1);
  }
  assert_false(file_cache_folder(folder, sizeof folder));
}

// What is no file: devices, pipes without a reader, links in a circle, directories, what is too long.
static void test_odd_files(void **state) {
  const World *world = *state;
  char path[IO_PATH_MAX], other[IO_PATH_MAX], target[IO_PATH_MAX];
  size_t length;
  int fd;
  FileError why = {.text = ""};
  Error error = {0};
  assert_false(file_write_atomic("/dev/full", "x", 1, &why));
  expect_words(why.text, strerror(ENOSPC));
  assert_null(file_read("/dev/null", &length, &why));
  expect_words(why.text, "it is a device or a pipe");
  assert_null(file_read(world->directory, &length, &why));
  expect_words(why.text, strerror(EISDIR));
  path_in(world, path, "long");
  assert_true(file_write_atomic(path, "x", 1, &why));
  assert_int_equal(truncate(path, FILE_TEXT_MOST + 1), 0);
  assert_null(file_read_text(path, true, &length, &why));
  expect_words(why.text, strerror(EFBIG));
  path_in(world, path, "pipe");
  assert_int_equal(mkfifo(path, 0600), 0);
  assert_false(io_open(path, O_WRONLY, &fd, &error));
  expect_words(error.text, "it is not a file");
  assert_false(io_open(path, O_RDONLY, &fd, &error));
  expect_words(error.text, "it is not a file");
  assert_false(io_target(path, target, &error));
  expect_words(error.text, "a device or a pipe");
  path_in(world, path, "here");
  path_in(world, other, "there");
  assert_int_equal(symlink(path, other), 0);
  assert_int_equal(symlink(other, path), 0);
  assert_false(io_open(path, O_RDONLY, &fd, &error));
  expect_words(error.text, strerror(ELOOP));
  assert_false(io_target(path, target, &error));
  expect_words(error.text, strerror(ELOOP));
  assert_false(file_write_atomic(path, "x", 1, &why));
  expect_words(why.text, strerror(ELOOP));
  assert_true(io_is_link(path) && !io_is_file(path));
  assert_true(io_space(NULL, "/proc", INT64_MAX, &error));  // which says nothing of blocks
}

static void exchanged_with(const World *world, int reason, bool can) {
  char from[IO_PATH_MAX], to[IO_PATH_MAX], file[IO_PATH_MAX];
  FileError why = {.text = ""};
  Error error = {0};
  bool exchanged = false;
  path_in(world, from, "newer");
  path_in(world, to, "older");
  path_in(world, file, "newer/new");
  assert_true(file_make_directories(from, &why) && file_write_atomic(file, "x", 1, &why));
  path_in(world, file, "older/old");
  assert_true(file_make_directories(to, &why) && file_write_atomic(file, "x", 1, &why));
  faults.calls = 0;
  faults.at = 2;  // the first finds that something is there
  faults.with = reason;
  const bool done = io_exchange(NULL, from, to, &exchanged, &error);
  faults.at = 0;
  assert_true(done == can && exchanged == can);
  assert_true(there(world, can ? "older/new" : "older/old") && there(world, can ? "newer/old" : "newer/new"));
  assert_false(there(world, "older" IO_ASIDE_ENDING));
  assert_true(io_remove_tree(from) && io_remove_tree(to));
}

// File systems that cannot exchange two names say so in several ways; an error of the disk is none of them.
static void test_exchange_in_steps(void **state) {
  exchanged_with(*state, EINVAL, true);
  exchanged_with(*state, ENOSYS, true);
  exchanged_with(*state, EOPNOTSUPP, true);
  exchanged_with(*state, EIO, false);
}

static void *remove_deep(void *argument) {
  const World *world = argument;
  char path[IO_PATH_MAX];
  path_in(world, path, "deep");
  return io_remove_tree(path) ? argument : NULL;
}

// Directories in directories, as many as a path has room for, on a small stack.
static void test_deep_tree(void **state) {
  enum { DEEP = 900, STACK = 1 << 20 };  // each is open while those below it are removed
  World *world = *state;
  char home[IO_PATH_MAX], path[IO_PATH_MAX];
  pthread_attr_t attributes;
  pthread_t thread;
  void *removed = NULL;
  assert_non_null(getcwd(home, sizeof home));
  path_in(world, path, "deep");
  for (int i = 0; i < DEEP; i++) {
    assert_true(mkdir(i ? "d" : path, 0777) == 0 && chdir(i ? "d" : path) == 0);
  }
  assert_int_equal(chdir(home), 0);
  pthread_attr_init(&attributes);
  assert_int_equal(pthread_attr_setstacksize(&attributes, STACK), 0);
  assert_int_equal(pthread_create(&thread, &attributes, remove_deep, world), 0);
  pthread_join(thread, &removed);
  pthread_attr_destroy(&attributes);
  assert_true(removed == world && !there(world, "deep"));
}

// A link stays one where nothing is behind it yet, and where what is behind it has lost its name while it is open.
static void test_links_to_nothing(void **state) {
  const World *world = *state;
  char path[IO_PATH_MAX], link[IO_PATH_MAX], other[IO_PATH_MAX], target[IO_PATH_MAX], open_one[64];
  FileError why = {.text = ""};
  Error error = {0};
  path_in(world, path, "to come");
  path_in(world, link, "first link");
  path_in(world, other, "second link");
  assert_int_equal(symlink("to come", other), 0);  // relative: beside the link
  assert_int_equal(symlink(other, link), 0);
  assert_true(io_target(link, target, &error));
  assert_string_equal(target, path);
  assert_true(file_write_atomic(link, is, strlen(is), &why));
  assert_true(io_is_link(link) && io_is_link(other) && !io_is_link(path));
  expect_text(path, true);
  const int fd = open(path, O_RDWR);
  assert_true(fd >= 0);
  assert_int_equal(unlink(path), 0);
  snprintf(open_one, sizeof open_one, "/proc/self/fd/%d", fd);
  assert_int_equal(unlink(link), 0);
  assert_int_equal(symlink(open_one, link), 0);
  assert_false(file_write_atomic(link, "x", 1, &why));
  expect_words(why.text, "it leads to a file that has no name any longer");
  assert_false(io_target(link, target, &error));
  expect_words(error.text, "it leads to a file that has no name any longer");
  assert_true(io_is_link(link));
  close(fd);
}

static void test_names(void **state) {
  World *world = *state;
  char path[IO_PATH_MAX], home[IO_PATH_MAX], folder[64];
  FileError why = {.text = ""};
  Error error = {0};
  static const char *const joined[][3] = {
      {"", "x", "x"}, {".", "x", "x"}, {"a", "/x", "/x"}, {"a", "x", "a/x"}, {"a/", "x", "a/x"}};
  static const char *const directories[][2] = {{"b", "."}, {"/b", "/"}, {"//b", "/"}, {"a/b", "a"}, {"a//b", "a"}};
  for (int i = 0; i < 5; i++) {
    assert_string_equal(path_join(world->arena, joined[i][0], joined[i][1]), joined[i][2]);
    assert_string_equal(path_directory(world->arena, directories[i][0]), directories[i][1]);
  }
  path_in(world, path, "one//two///");
  assert_true(file_make_directories(path, &why) && there(world, "one/two"));
  path_in(world, path, "three//four///");
  assert_true(io_make_path(path, &error) && there(world, "three/four"));
  assert_non_null(getcwd(home, sizeof home));
  assert_int_equal(chdir(world->directory), 0);
  assert_true(file_write_atomic("by itself", "x", 1, &why) && there(world, "by itself"));
  assert_int_equal(chdir(home), 0);
  static const char *const variables[] = {"MDL_CACHE", "XDG_CACHE_HOME", "HOME"};
  for (int i = 0; i < 3; i++) {
    unsetenv(variables[i]);
  }
  assert_false(file_cache_folder(folder, sizeof folder));
  char long_name[IO_PATH_MAX + 8];
  memset(long_name, 'a', sizeof long_name - 1);
  long_name[sizeof long_name - 1] = '\0';
  assert_false(io_make_path(long_name, &error));
  expect_words(error.text, "too long");
  long_name[IO_PATH_MAX - 2] = '\0';  // fits, but not with what stands in its place meanwhile
  assert_false(io_replace_file(NULL, long_name, "x", 1, &error));
  expect_words(error.text, "too long");
}

// Where nobody can look, it is said; what is not there is made.
static void test_failing_looks(void **state) {
  const World *world = *state;
  faults.kinds = FAULT_LOOK;
  assert_true(with_faults(write_atomic, world, EIO) > 0);
  assert_true(with_faults(read_whole, world, EIO) > 0);
  assert_true(with_faults(read_exactly, world, EIO) > 0);
  assert_true(with_faults(make_and_sync, world, EIO) > 0);
  faults.kinds = FAULT_MEMORY;
  assert_true(with_faults(read_whole, world, ENOMEM) > 0);
  faults.kinds = FAULT_TRANSFER;
}

// To a device, without a file in its place.
static bool write_device(const World *world, char *why, size_t size) {
  (void)world;
  FileError error = {.text = ""};
  const bool done = file_write_atomic("/dev/null", "x", 1, &error);
  snprintf(why, size, "%s", error.text);
  return done;
}

static void test_failing_devices(void **state) {
  assert_true(with_faults(write_device, *state, EIO) >= 2);
}

int main(void) {
  faults.kinds = FAULT_TRANSFER;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_failing_calls, world_open, world_close),
      cmocka_unit_test_setup_teardown(test_signals, world_open, world_close),
      cmocka_unit_test_setup_teardown(test_paths, world_open, world_close),
      cmocka_unit_test_setup_teardown(test_odd_files, world_open, world_close),
      cmocka_unit_test_setup_teardown(test_exchange_in_steps, world_open, world_close),
      cmocka_unit_test_setup_teardown(test_deep_tree, world_open, world_close),
      cmocka_unit_test_setup_teardown(test_links_to_nothing, world_open, world_close),
      cmocka_unit_test_setup_teardown(test_names, world_open, world_close),
      cmocka_unit_test_setup_teardown(test_failing_looks, world_open, world_close),
      cmocka_unit_test_setup_teardown(test_failing_devices, world_open, world_close),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
