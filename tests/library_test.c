// library_test.c: libraries that are opened by name, in folders of the environment, or not at all.
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/library.h"

typedef struct {
  double (*cosine)(double x);
  void (*other)(void);
} Table;

static const LibrarySymbol symbols[] = {{"cos", offsetof(Table, cosine), false},
                                        {"no_such_function_at_all", offsetof(Table, other), true}};

static void test_by_name(void **state) {
  (void)state;
  static const char *const names[] = {"libno_such_library.so.1", "libm.so.6", NULL};
  Table table;
  void *handle = NULL;
  char message[256] = "";
  assert_true(library_open(names, symbols, 2, &table, &handle, message, sizeof message));
  assert_true(table.cosine(0) == 1);
  assert_null(table.other);
  library_close(handle);
}

static void test_missing(void **state) {
  (void)state;
  static const char *const none[] = {"libno_such_library.so.1", NULL}, *const one[] = {"libm.so.6", NULL};
  static const LibrarySymbol needed[] = {{"no_such_function_at_all", offsetof(Table, other), false}};
  Table table;
  void *handle = NULL;
  char message[256] = "";
  assert_false(library_open(none, symbols, 2, &table, &handle, message, sizeof message));
  assert_non_null(strstr(message, "libno_such_library.so.1 cannot be opened: "));
  assert_false(library_open(one, needed, 1, &table, &handle, message, sizeof message));
  assert_string_equal(message, "libm.so.6 has no function no_such_function_at_all: it is too old");
}

// Where the C library's libm lies, as the system's loader says; false if it does not.
static bool find_libm(char *path, size_t size) {
  FILE *maps = fopen("/proc/self/maps", "r");
  char line[1024];
  bool found = false;
  while (maps && !found && fgets(line, sizeof line, maps)) {
    const char *slash = strchr(line, '/');
    line[strcspn(line, "\n")] = 0;
    found = slash && strstr(slash, "/libm.so") && snprintf(path, size, "%s", slash) < (int)size;
  }
  if (maps) {
    fclose(maps);
  }
  return found;
}

static void test_folders(void **state) {
  (void)state;
  static const char *const by_name[] = {"libm.so.6", NULL}, *const elsewhere[] = {"libmdl_elsewhere.so", NULL};
  char folder[] = "/tmp/mdl_library_XXXXXX", libm[1024], link[1100], folders[1100], message[256];
  Table table;
  void *first = NULL, *handle = NULL;
  assert_true(library_open(by_name, symbols, 2, &table, &first, message, sizeof message));
  assert_non_null(mkdtemp(folder));
  if (!find_libm(libm, sizeof libm)) {
    skip();
  }
  snprintf(link, sizeof link, "%s/libmdl_elsewhere.so", folder);
  snprintf(folders, sizeof folders, ":/no/such/folder:%s", folder);
  assert_int_equal(symlink(libm, link), 0);
  assert_false(library_open(elsewhere, symbols, 2, &table, &handle, message, sizeof message));
  assert_int_equal(setenv("MDL_LIBRARY_PATH", folders, 1), 0);
  assert_true(library_open(elsewhere, symbols, 2, &table, &handle, message, sizeof message));
  assert_true(table.cosine(0) == 1);
  assert_int_equal(unsetenv("MDL_LIBRARY_PATH"), 0);
  library_close(handle);
  library_close(first);
  unlink(link);
  rmdir(folder);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_by_name),
      cmocka_unit_test(test_missing),
      cmocka_unit_test(test_folders),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
