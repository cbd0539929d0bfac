// fmt_test.c: mdlc fmt: tests/fmt/NAME.mdl becomes NAME.expected.mdl, which stays as it is and means the same.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka needs the four above
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "lang/ast.h"

typedef struct {
  Arena *arena;
  Names *names;
  Diag *diag;
} Context;

static Context context_create(void) {
  Arena *arena = arena_create();
  return (Context){arena, names_create(arena), diag_create(arena)};
}

static const Ast *parse(Context *c, const char *text, CommentList *comments) {
  int file = diag_add_source(c->diag, "test.mdl", text, strlen(text));
  const Ast *tree = parse_file(c->arena, c->names, c->diag, file, comments);
  if (c->diag->errors) {
    diag_print(c->diag, stderr, false);
  }
  assert_int_equal(c->diag->errors, 0);
  return tree;
}

// Equal but for places and for which blocks stand on one line.
static bool same_tree(const Ast *a, const Ast *b) {
  if (!a || !b) {
    return a == b;
  }
  int mask = ~AST_ONE_LINE;
  if (a->kind != b->kind || a->name != b->name || a->number != b->number || a->group != b->group ||
      (a->flags & mask) != (b->flags & mask) || a->count != b->count) {
    return false;
  }
  for (int i = 0; i < a->count; i++) {
    if (!same_tree(a->kids[i], b->kids[i])) {
      return false;
    }
  }
  return true;
}

static void check_format(const char *text, const char *expected) {
  Context c = context_create();
  CommentList before = {0}, after = {0};
  const Ast *tree = parse(&c, text, &before);
  const char *once = format_file(c.arena, c.diag, tree, &before);
  if (expected) {
    assert_string_equal(once, expected);
  }
  const Ast *again = parse(&c, once, &after);
  assert_true(same_tree(tree, again));
  assert_int_equal(before.count, after.count);
  assert_string_equal(format_file(c.arena, c.diag, again, &after), once);
  assert_true(same_tree(tree, parse(&c, format_ast(c.arena, tree), NULL)));
  arena_destroy(c.arena);
}

static void check_file(const char *name) {
  char path[512];
  FileError error;
  size_t length;
  snprintf(path, sizeof path, "%s/tests/fmt/%s.mdl", MDL_SOURCE_DIR, name);
  char *text = file_read(path, &length, &error);
  snprintf(path, sizeof path, "%s/tests/fmt/%s.expected.mdl", MDL_SOURCE_DIR, name);
  char *expected = file_read(path, &length, &error);
  assert_non_null(text);
  assert_non_null(expected);
  check_format(text, expected);
  check_format(expected, expected);
  free(text);
  free(expected);
}

static void test_page(void **state) {
  (void)state;
  check_file("page");
}

static void test_corner(void **state) {
  (void)state;
  check_file("corner");
}

static void test_small(void **state) {
  (void)state;
  check_format("", "");
  check_format("// only a comment", "// only a comment\n");
  check_format("\n\n\n// a\n\n\n\n// b\n", "// a\n\n// b\n");
  check_format("axis a;\r\n\r\n\r\naxis b;  // c\r\n", "axis a;\n\naxis b;  // c\n");
  check_format("model m {\n}", "model m {}\n");
  check_format("model m { // c\n}", "model m {  // c\n}\n");
  check_format("model m {\nx = 1; // one\nlonger = 2; // two\n}",
               "model m {\n  x = 1;       // one\n  longer = 2;  // two\n}\n");
  check_format("model m { x = f(a, // first\n b); }", "model m {\n  // first\n  x = f(a, b);\n}\n");
}

static void test_parentheses(void **state) {
  (void)state;
  Context c = context_create();
  Ast one = {.kind = AST_NUMBER, .number = 1, .flags = AST_INTEGER}, half = {.kind = AST_NUMBER, .number = 0.5};
  Ast less = {.kind = AST_NUMBER, .number = -2};
  Ast sum = {.kind = AST_BINARY, .name = name_of(c.names, "+"), .count = 2, .kids = (Ast *[]){&one, &half}};
  Ast power = {.kind = AST_BINARY, .name = name_of(c.names, "^"), .count = 2, .kids = (Ast *[]){&less, &sum}};
  assert_string_equal(format_ast(c.arena, &power), "(-2.0) ^ (1 + 0.5)");
  Ast minus = {.kind = AST_BINARY, .name = name_of(c.names, "-"), .count = 2, .kids = (Ast *[]){&one, &sum}};
  assert_string_equal(format_ast(c.arena, &minus), "1 - (1 + 0.5)");
  arena_destroy(c.arena);
}

static void test_one_node(void **state) {
  (void)state;
  Context c = context_create();
  const Ast *file =
      parse(&c, "model m { input a, b: int[x]; repeat 2 { y = 1; } } // c\nlayout l { batch -> dp; }", NULL);
  const Ast *body = file->kids[0]->kids[0];
  assert_string_equal(format_ast(c.arena, body->kids[1]), "input b: int[x];\n");
  assert_string_equal(format_ast(c.arena, body->kids[2]), "repeat 2 { y = 1; }\n");
  assert_string_equal(format_ast(c.arena, file->kids[1]), "layout l { batch -> dp; }\n");
  assert_string_equal(format_ast(c.arena, file->kids[1]->kids[0]), "batch -> dp;\n");
  arena_destroy(c.arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_page),        cmocka_unit_test(test_corner),   cmocka_unit_test(test_small),
      cmocka_unit_test(test_parentheses), cmocka_unit_test(test_one_node),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
