// diag_test.c: how diagnostics are collected and shown.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka needs the four above
#include <cmocka.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/diag.h"
#include "base/file.h"
#include "compiler/command.h"
#include "compiler/compile.h"

static Diag *diag_of(const char *path, const char *text) {
  Diag *diag = diag_create(arena_create());
  diag_add_source(diag, path, text, strlen(text));
  return diag;
}

static Span span_at(const Diag *diag, int file, const char *what) {
  const char *text = diag->sources.at[file].text, *at = strstr(text, what);
  assert_non_null(at);
  return (Span){file, (uint32_t)(at - text), (uint32_t)(at - text + (ptrdiff_t)strlen(what))};
}

__attribute__((noinline)) static char *printed(const Diag *diag, bool json) {  // gcc 12 mistakes the stream's text
  char *text = NULL;
  size_t size;
  FILE *out = open_memstream(&text, &size);
  if (json) {
    diag_print_json(diag, out);
  } else {
    diag_print(diag, out, false);
  }
  fclose(out);
  return text;
}

static void check_print(Diag *diag, const char *expected) {
  char *text = printed(diag, false);
  assert_string_equal(text, expected);
  free(text);
  arena_destroy(diag->arena);
}

static void test_two_places_of_a_line(void **state) {
  (void)state;
  Diag *diag = diag_of("attn.mdl", "\n\n  s = dot(q, k over hd);\n");
  Span q = span_at(diag, 0, "q"), k = span_at(diag, 0, "k");
  Diagnostic *error = diag_error(diag, E021, q, "axis '%s' would occur twice in the result of this dot", "seq");
  diag_related(diag, error, k, "both q (line 10) and k (line 11) have 'seq'");
  diag_help(diag, error, "declare `axis key like seq;` and write `k[seq -> key]`");
  check_print(diag,
              "attn.mdl:3:11: error[E021]: axis 'seq' would occur twice in the result of this dot\n"
              "    3 |   s = dot(q, k over hd);\n"
              "      |           ^  ^ both q (line 10) and k (line 11) have 'seq'\n"
              "      = help: declare `axis key like seq;` and write `k[seq -> key]`\n"
              "\n"
              "1 error\n");
}

static void test_other_lines_and_files(void **state) {
  (void)state;
  Diag *diag = diag_of("a.mdl", "axis heads = 30;\nlayout tp8 { mesh tp = 8; heads -> tp; }\n");
  diag_add_source(diag, "b.mdl", "axis c;", 7);
  Diagnostic *error = diag_error(diag, E043, span_at(diag, 0, "heads -> tp"), "cannot be split");
  diag_label(diag, error, "size 30");
  diag_related(diag, error, span_at(diag, 0, "heads"), "declared here");
  error = diag_warning(diag, E011, span_at(diag, 0, "axis"), "twice");
  diag_related(diag, error, span_at(diag, 1, "c"), "and here");
  diag_error(diag, E050, SPAN_NONE, "no recipe");
  check_print(diag,
              "error[E050]: no recipe\n"
              "\n"
              "a.mdl:1:1: warning[E011]: twice\n"
              "    1 | axis heads = 30;\n"
              "      | ^^^^\n"
              "      = in b.mdl:1:6\n"
              "    1 | axis c;\n"
              "      |      ^ and here\n"
              "\n"
              "a.mdl:2:27: error[E043]: cannot be split\n"
              "    2 | layout tp8 { mesh tp = 8; heads -> tp; }\n"
              "      |                           ^^^^^^^^^^^ size 30\n"
              "    1 | axis heads = 30;\n"
              "      |      ^^^^^ declared here\n"
              "\n"
              "2 errors, 1 warning\n");
}

static void test_notes_and_what_is_unsaid(void **state) {
  (void)state;
  Diag *diag = diag_of("a.mdl", "axis half = batch / 2;\n");
  diag_note(diag, E034, span_at(diag, 0, "half"), "left out");
  DiagMark mark = diag_mark(diag);
  diag_error(diag, E034, span_at(diag, 0, "batch"), "not whole");
  diag_warning(diag, E015, span_at(diag, 0, "2"), "not used");
  diag_rewind(diag, mark);
  assert_int_equal(diag->errors + diag->warnings + diag->reports, 0);
  check_print(diag,
              "a.mdl:1:6: note[E034]: left out\n"
              "    1 | axis half = batch / 2;\n"
              "      |      ^^^^\n"
              "\n");
}

static void test_tabs_and_wide_text(void **state) {
  (void)state;
  Diag *diag = diag_of("a.mdl", "\tx = \"äöü\" + bad;\r\n");
  diag_error(diag, E010, span_at(diag, 0, "bad"), "unknown");
  int line, column;
  diag_position(diag, span_at(diag, 0, "bad"), &line, &column);
  assert_int_equal(column, 14);
  check_print(diag,
              "a.mdl:1:14: error[E010]: unknown\n"
              "    1 |     x = \"äöü\" + bad;\n"
              "      |                 ^^^\n"
              "\n"
              "1 error\n");
}

static void test_several_lines(void **state) {
  (void)state;
  Diag *diag = diag_of("a.mdl", "x = f(\n  y\n);");
  diag_error(diag, E034, (Span){0, 4, 12}, "fails");
  diag_error(diag, E001, (Span){0, 13, 13}, "at the end");
  check_print(diag,
              "a.mdl:1:5: error[E034]: fails\n"
              "    1 | x = f(\n"
              "      |     ^^\n"
              "\n"
              "a.mdl:3:3: error[E001]: at the end\n"
              "    3 | );\n"
              "      |   ^\n"
              "\n"
              "2 errors\n");
}

static void test_long_line(void **state) {
  (void)state;
  char line[1001];
  memset(line, 'x', 1000);
  line[1000] = '\0';
  memcpy(line + 500, "bad", 3);
  Diag *diag = diag_of("a.mdl", line);
  diag_error(diag, E010, span_at(diag, 0, "bad"), "unknown");
  char *text = printed(diag, false);
  assert_true(strlen(text) < 400);
  const char *bad = strstr(text, "bad"), *caret = strstr(text, "^^^");
  assert_int_equal(bad - strstr(text, "    1 |"), caret - strstr(text, "      |"));
  free(text);
  arena_destroy(diag->arena);
}

static void test_limit_and_repetition(void **state) {
  (void)state;
  Diag *diag = diag_of("a.mdl", "abcdefgh");
  diag->limit = 2;
  Diagnostic *first = diag_error(diag, E010, (Span){0, 0, 1}, "one");
  assert_ptr_equal(first, diag_error(diag, E010, (Span){0, 0, 1}, "one again"));
  for (uint32_t i = 1; i < 5; i++) {
    diag_help(diag, diag_error(diag, E010, (Span){0, i, i + 1}, "more"), "help");
  }
  assert_int_equal(diag->errors, 5);
  assert_int_equal(diag->all.count, 2);
  char *text = printed(diag, false);
  assert_non_null(strstr(text, "\n3 more like these were left out\n5 errors\n"));
  free(text);
  arena_destroy(diag->arena);
}

static void test_json(void **state) {
  (void)state;
  Diag *diag = diag_of("a.mdl", "x = y;\nz = \"\xff\";\n");
  Diagnostic *error = diag_error(diag, E010, span_at(diag, 0, "y"), "unknown `y`");
  diag_related(diag, error, span_at(diag, 0, "z"), "did you mean this");
  diag_warning(diag, E002, SPAN_NONE, "bad \xff");
  char *text = printed(diag, true);
  json_t *array = json_loads(text, 0, NULL);
  assert_int_equal(json_array_size(array), 2);
  json_t *object = json_array_get(array, 1), *related = json_object_get(object, "related");
  assert_string_equal(json_string_value(json_object_get(object, "code")), "E010");
  assert_string_equal(json_string_value(json_object_get(object, "severity")), "error");
  assert_string_equal(json_string_value(json_object_get(object, "file")), "a.mdl");
  assert_int_equal(json_integer_value(json_object_get(object, "column")), 5);
  assert_int_equal(json_integer_value(json_object_get(object, "end_column")), 6);
  assert_true(json_is_null(json_object_get(object, "help")));
  assert_int_equal(json_integer_value(json_object_get(related, "line")), 2);
  assert_string_equal(json_string_value(json_object_get(json_array_get(array, 0), "message")), "bad \xef\xbf\xbd");
  json_decref(array);
  free(text);
  arena_destroy(diag->arena);
}

static void test_files(void **state) {
  (void)state;
  Arena *arena = arena_create();
  FileError error;
  char directory[] = "/tmp/mdl-diag-test-XXXXXX";
  assert_non_null(mkdtemp(directory));
  const char *deep = path_join(arena, directory, "a/b/c"), *path = path_join(arena, deep, "f.txt");
  assert_true(file_make_directories(deep, &error));
  assert_true(file_make_directories(deep, &error));
  assert_true(file_write_atomic(path, "one", 3, &error));
  assert_true(file_write_atomic(path, "second", 6, &error));
  size_t length;
  char *text = file_read(path, &length, &error);
  assert_int_equal(length, 6);
  assert_string_equal(text, "second");
  free(text);
  const char *link = path_join(arena, directory, "link");
  struct stat status;
  assert_int_equal(symlink("a/b/c/f.txt", link), 0);
  assert_true(file_write_atomic(link, "third", 5, &error));
  assert_true(lstat(link, &status) == 0 && S_ISLNK(status.st_mode));
  text = file_read(path, &length, &error);
  assert_string_equal(text, "third");
  free(text);
  const char *pipe = path_join(arena, directory, "pipe");
  assert_int_equal(mkfifo(pipe, 0600), 0);
  int reader = open(pipe, O_RDONLY | O_NONBLOCK);
  char got[4] = "";
  assert_true(file_write_atomic(pipe, "abc", 3, &error));
  assert_int_equal(read(reader, got, 3), 3);
  assert_string_equal(got, "abc");
  assert_true(stat(pipe, &status) == 0 && S_ISFIFO(status.st_mode));
  close(reader);
  assert_false(file_write_atomic(directory, "", 0, &error));
  assert_true(file_exists(path));
  assert_null(file_read("/no/such/file", &length, &error));
  assert_string_equal(error.text, "cannot open '/no/such/file': No such file or directory");
  assert_null(file_read(deep, &length, &error));
  assert_false(file_make_directories(path_join(arena, path, "x"), &error));
  assert_false(file_write_atomic("/no/such/file", "", 0, &error));
  assert_string_equal(path_directory(arena, path), deep);
  assert_string_equal(path_directory(arena, "f.txt"), ".");
  assert_string_equal(path_directory(arena, "/f.txt"), "/");
  assert_string_equal(path_join(arena, "a/", "b"), "a/b");
  assert_string_equal(path_join(arena, ".", "b"), "b");
  assert_string_equal(path_join(arena, "a", "/b"), "/b");
  assert_int_equal(remove(link), 0);
  assert_int_equal(remove(pipe), 0);
  assert_int_equal(remove(path), 0);
  for (const char *at = deep; strcmp(at, "/tmp") != 0; at = path_directory(arena, at)) {
    assert_int_equal(remove(at), 0);
  }
  arena_destroy(arena);
}

// Whoever meets a mistake of the compiler is told what to report; in JSON it is the help.
static void test_bug(void **state) {
  (void)state;
  char *text = NULL;
  size_t length = 0;
  Arena *arena = arena_create();
  Diag *diag = diag_create(arena);
  CommandFlags flags = {0};
  diag_error(diag, E090, SPAN_NONE, "too large");
  FILE *out = open_memstream(&text, &length);
  command_show(&flags, diag, out);
  fflush(out);
  assert_null(strstr(text, "bug"));
  diag_error(diag, E099, SPAN_NONE, "wrong");
  command_show(&flags, diag, out);
  fflush(out);
  const char *const parts[] = {"This is a bug of mdl", "Please report it",
                               "the version: ", "the command: ", "the text: "};
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    assert_non_null(strstr(text, parts[i]));
  }
  flags.diagnostics = "json";
  command_show(&flags, diag, out);
  fclose(out);
  assert_non_null(strstr(text, "\"help\": \"this is a bug of the compiler"));
  free(text);
  arena_destroy(arena);
}

// Too much memory is an error with words, and the arena can be used afterwards.
static void test_memory(void **state) {
  (void)state;
  Arena *arena = arena_create();
  Diag *diag = diag_create(arena);
  PlanSet *set = NULL;
  CompileOptions options = {.file = MDL_SOURCE_DIR "/examples/tiny.mdl", .memory = 3 << 20};
  assert_false(compile_plans(arena, diag, &options, &set));
  assert_int_equal(diag->errors, 1);
  assert_string_equal(diag->all.at[0].message, "compiling takes too much memory");
  options.memory = 0;
  assert_true(compile_plans(arena, diag, &options, &set));
  arena_destroy(arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_bug),
      cmocka_unit_test(test_memory),
      cmocka_unit_test(test_two_places_of_a_line),
      cmocka_unit_test(test_other_lines_and_files),
      cmocka_unit_test(test_notes_and_what_is_unsaid),
      cmocka_unit_test(test_tabs_and_wide_text),
      cmocka_unit_test(test_several_lines),
      cmocka_unit_test(test_long_line),
      cmocka_unit_test(test_limit_and_repetition),
      cmocka_unit_test(test_json),
      cmocka_unit_test(test_files),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
