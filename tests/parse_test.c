// parse_test.c: the tree of .mdl text, and what is said about text that is wrong.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka needs the four above
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/file.h"
#include "lang/ast.h"

typedef struct {
  Arena *arena;
  Diag *diag;
  const Ast *tree;
  CommentList comments;
} Parsed;

static Parsed parse_bytes(const char *text, size_t length) {
  Parsed p = {.arena = arena_create()};
  p.diag = diag_create(p.arena);
  int file = diag_add_source(p.diag, "t.mdl", text, length);
  p.tree = parse_file(p.arena, names_create(p.arena), p.diag, file, &p.comments);
  assert_non_null(p.tree);
  return p;
}

static Parsed parse(const char *text) {
  return parse_bytes(text, strlen(text));
}

// A tree in one line: (kind name kid kid), - for NULL.
static void write_tree(Buffer *out, const Ast *node) {
  static const char *const groups[] = {"", "over:", "to:", "arrow:"};
  if (!node) {
    buffer_text(out, "-");
    return;
  }
  bool leaf = node->count == 0 && node->kind >= AST_NUMBER && node->kind <= AST_NAME;
  buffer_text(out, groups[node->group]);
  if (leaf) {
    buffer_format(out, "%s%s", node->name ? node->name : ast_kind_name(node->kind),
                  node->flags & AST_VARIADIC ? "..." : "");
    return;
  }
  buffer_format(out, "(%s%s", ast_kind_name(node->kind), node->flags & AST_VARIADIC && !node->name ? "..." : "");
  if (node->name) {
    buffer_format(out, " %s%s", node->name, node->flags & AST_VARIADIC ? "..." : "");
  }
  if (node->kind == AST_MEMBER) {
    buffer_format(out, " %g", node->number);
  }
  for (int i = 0; i < node->count; i++) {
    buffer_text(out, " ");
    write_tree(out, node->kids[i]);
  }
  buffer_text(out, ")");
}

static void check_tree(const Ast *node, const char *expected) {
  Buffer text = {0};
  write_tree(&text, node);
  assert_string_equal(text.text, expected);
  buffer_free(&text);
}

// The part whose tree is meant is the first kid of the first declaration.
static void check_part(const char *before, const char *part, const char *after, const char *expected) {
  Buffer text = {0};
  buffer_format(&text, "%s%s%s", before, part, after);
  Parsed p = parse(text.text);
  if (p.diag->errors) {
    diag_print(p.diag, stderr, false);
  }
  assert_int_equal(p.diag->errors, 0);
  check_tree(p.tree->kids[0]->kids[0], expected);
  buffer_free(&text);
  arena_destroy(p.arena);
}

static void check_expression(const char *expression, const char *expected) {
  check_part("const c = ", expression, ";", expected);
}

static void check_statement(const char *statement, const char *expected) {
  check_part("model m { ", statement, " }", expected);
}

static void test_precedence(void **state) {
  (void)state;
  check_expression("a or b and not c == d + e * -f ^ g",
                   "(binary or a (binary and b (unary not (binary == c (binary + d (binary * e (unary - (binary ^ f "
                   "g))))))))");
  check_expression("a - b - c", "(binary - (binary - a b) c)");
  check_expression("a ^ b ^ -c", "(binary ^ a (binary ^ b (unary - c)))");
  check_expression("1 - betas.0 ^ step", "(binary - 1 (binary ^ (member 0 betas) step))");
  check_expression("a * p as index(k)", "(binary * a (as p (type index k -)))");
  check_expression("(a * p) as int", "(as (binary * a p) (type int - -))");
  check_expression("a.0.1", "(member 1 (member 0 a))");
  check_expression("(0.9, 0.95)", "(tuple 0.9 0.95)");
  check_expression("inf * 1e-4 / 3.5e2", "(binary / (binary * inf 1e-4) 3.5e2)");
}

static void test_calls_and_brackets(void **state) {
  (void)state;
  check_expression("linear(x over i... to o..., bias = true)",
                   "(call linear (list (argument x) over:(argument... i) to:(argument... o) (argument bias true)))");
  check_expression("concat(u over half, v over rest -> hd)",
                   "(call concat (list (argument u) over:(argument half) (argument v) over:(argument rest) "
                   "arrow:(argument hd)))");
  check_expression("k[seq -> key]", "(index k (list (rename (list seq) (list key))))");
  check_expression("x[seq -> (chunk, inner)]", "(index x (list (rename (list seq) (list chunk inner))))");
  check_expression("o[(chunk, inner) -> seq]", "(index o (list (rename (list chunk inner) (list seq))))");
  check_expression("x[hd: 0 .. half -> half, 3]", "(index x (list (slice hd 0 half half) 3))");
  check_expression("x[hd: 0..half][seq: 3]", "(index (index x (list (slice hd 0 half -))) (list (slice seq 3 - -)))");
  check_expression("doc[seq -> seq']", "(index doc (list (rename (list seq) (list seq'))))");
}

static void test_statements(void **state) {
  (void)state;
  check_statement("input a, b: index(v)[x, y];",
                  "(block (input a (type index v (axes x y))) (input b (type index v (axes x y))))");
  check_statement("param w: [s | i... ; o...] ~ init(1);",
                  "(block (param w (axes s (|) i... (;) o...) (call init (list (argument 1))) -))");
  check_statement("param b: [] = 0;", "(block (param b (axes) - 0))");
  check_statement("state m, v like p = 0;", "(block (state m - p - 0 -) (state v - p - 0 -))");
  check_statement("state m: [a] = 1, combine = mean;", "(block (state m (axes a) - - 1 (argument combine mean)))");
  check_statement("(a, b) = top(p) @x;", "(block (assign (list a b) (call top (list (argument p))) (label x)))");
  check_statement("repeat layers as l { } repeat n / 2 { }",
                  "(block (repeat layers l (block)) (repeat (binary / n 2) - (block)))");
  check_statement("if a { } else if b { } else { }", "(block (if a (block) (if b (block) (block))))");
  check_statement("scan seq { carry h: [a] = 0; }", "(block (scan seq (block (carry h (axes a) 0))))");
  check_statement("output p = 1; output p; return a, b;", "(block (output p 1) (output p -) (return a b))");
  check_statement("axis a, b = 2, c like a;", "(block (axis a - -) (axis b 2 -) (axis c - a))");
}

static void test_formals(void **state) {
  (void)state;
  Parsed p = parse("composite fn f(x over i..., j to o, bias = false) { }");
  assert_int_equal(p.diag->errors, 0);
  check_tree(p.tree->kids[0],
             "(fn f (list (formal x -) over:(formal i... -) over:(formal j -) to:(formal o -) (formal bias false)) "
             "(block))");
  assert_int_equal(p.tree->kids[0]->flags, AST_COMPOSITE);
  arena_destroy(p.arena);
}

static void test_settings(void **state) {
  (void)state;
  Parsed p = parse(
      "layout l { mesh pp = 2, tp = 2; param, state: layers.*.q, layers.3.0 -> pp, tp; @resid: seq -> tp; }\n"
      "precision q { bf16 until 500, then \"x\" scaling delayed(history = 1024); }");
  assert_int_equal(p.diag->errors, 0);
  check_tree(p.tree->kids[0],
             "(layout l (setting (list (phrase (list (path mesh) (path pp)) 2) (phrase (list (path tp)) 2)) - -) "
             "(setting (list (phrase (list (path param)) -) (phrase (list (path state)) -)) (list (phrase (list (path "
             "layers.*.q)) -) (phrase (list (path layers.3.0)) -)) (list pp tp)) (setting (list (phrase (list (path "
             "@resid)) -)) (list (phrase (list (path seq)) -)) (list tp)))");
  check_tree(p.tree->kids[1],
             "(precision q (setting (list (phrase (list (path bf16) (path until) 500) -) (phrase (list (path then) x "
             "(path scaling) (call delayed (list (argument history 1024)))) -)) - -))");
  arena_destroy(p.arena);
}

static void test_spans_and_comments(void **state) {
  (void)state;
  const char *text = "// one\naxis a, b = 2; // two\n";
  Parsed p = parse(text);
  const Ast *a = p.tree->kids[0], *b = p.tree->kids[1];
  assert_int_equal(a->span.begin, 7);
  assert_int_equal(b->span.end, 21);
  assert_int_equal(b->name_span.begin, 15);
  assert_int_equal(a->flags & AST_CONTINUED, 0);
  assert_int_equal(b->flags & AST_CONTINUED, AST_CONTINUED);
  assert_int_equal(p.comments.count, 2);
  assert_true(p.comments.at[0].own_line);
  assert_false(p.comments.at[1].own_line);
  assert_int_equal(p.comments.at[1].span.end, strlen(text) - 1);
  arena_destroy(p.arena);
}

typedef struct {
  const char *text, *expected;  // expected: what must occur in the printed diagnostics
  int errors;
} Wrong;

static const Wrong wrongs[] = {
    {"model m { x = f(a b); }", "t.mdl:1:19: error[E001]: found `b`, expected `)`, `,`, `over` or an operator\n", 1},
    {"model m { x = ); }", "found `)`, expected an expression\n", 1},
    {"model m {\n  x = a\n  y = b;\n}",
     "t.mdl:3:3: error[E001]: found `y`, expected `;`, `as` or an operator\n"
     "    3 |   y = b;\n"
     "      |   ^\n"
     "    2 |   x = a\n"
     "      |        ^ `;` is missing\n"
     "      = help: end the statement before it with `;`\n",
     1},
    {"model m { if a = 1 { x = 1; } }", "help: `=` assigns; to compare, write `==`", 1},
    {"model m { x == 1; }", "help: `==` compares; to assign, write `=`", 1},
    {"model m { if a < b < c { } }", "help: comparisons do not chain", 1},
    {"model m { x += 1; }", "help: there is no assignment with an operator", 1},
    {"model m { x = a ** 2; }", "help: powers are written `x ^ 2`", 1},
    {"model m { param state: [a]; }", "help: `state` is a keyword: choose another name", 1},
    {"model m { state = 1; }", "help: `state` is a keyword: choose another name", 1},
    {"model m { reapet n { x = 1; } }", "help: did you mean `repeat`?", 1},
    {"model m { f(x); }", "help: a statement assigns or returns a value", 1},
    {"model m { repeat 3 { };  }", "help: a block needs no `;` after it", 1},
    {"model m { } }", "help: there is no open `{` that it could close", 1},
    {"model m {\n  x = 1;\n", "^ this `{` is not closed", 1},
    {"model m {\n  x = 1;\nlayout l { a -> b; }\n", "found the keyword `layout`, expected a statement or `}`", 1},
    {"model m { x = \"abc\n; }", "error[E002]: the string does not end on its line", 1},
    {"model m { x = \"a\\q\"; }", "error[E002]: an unknown escape in a string", 1},
    {"model m { x = 1 \xff + 2; }", "error[E002]: the byte 0xff is not valid UTF-8", 1},
    {"model m { x = a && !b; }", "help: write `and`", 2},
    {"model m { x = 3x; }", "error[E002]: a number runs into a name", 1},
    {"model m { \xc3\xbc = 3; }", "error[E002]: `\xc3\xbc` is not part of the language", 1},
    {"model m { x = 1; /* c */ }", "help: comments are written `// to the end of the line`", 1},
    {"x = 1;", "error[E035]: a statement stands outside of a block", 1},
    {"model m { input x: indx(v)[a]; }", "help: did you mean `index`?", 1},
    {"model m { y = x[a + 1 -> b]; }", "found an expression before `->`, expected an axis", 1},
    {"layout l { mesh tp = ; a -> ; b -> tp }", "t.mdl:1:29: error[E001]: found `;`, expected a name\n", 3},
    {"model m { param w: [i..; o] = 0; x = = 1; y = 2 }\nfn f( { }", "found `{`", 4},
};

static void test_wrong(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof wrongs / sizeof *wrongs; i++) {
    Parsed p = parse(wrongs[i].text);
    char *printed = NULL;
    size_t size;
    FILE *out = open_memstream(&printed, &size);
    diag_print(p.diag, out, false);
    fclose(out);
    if (p.diag->errors != wrongs[i].errors || !strstr(printed, wrongs[i].expected)) {
      fail_msg("case %zu: wanted %d errors and\n%s\nprinted:\n%s", i, wrongs[i].errors, wrongs[i].expected, printed);
    }
    free(printed);
    arena_destroy(p.arena);
  }
}

static void check_limit(const char *before, const char *repeated, int times, const char *after, int errors) {
  Buffer text = {0};
  buffer_text(&text, before);
  for (int i = 0; i < times; i++) {
    buffer_text(&text, repeated);
  }
  buffer_text(&text, after);
  Parsed p = parse(text.text);
  assert_int_equal(p.diag->errors, errors);
  assert_true(errors == 0 || p.diag->all.at[0].code == E090);
  assert_true(p.tree->height <= AST_MAX_HEIGHT);
  buffer_free(&text);
  arena_destroy(p.arena);
}

static void test_limits(void **state) {
  (void)state;
  check_limit("model m { x = ", "(", 5000, "", 1);
  check_limit("model m { x = ", "-", 100000, "a; }", 1);
  check_limit("model m { x = ", "a + ", 5000, "a; }", 1);
  check_limit("model m { x = ", "a ^ ", 5000, "a; }", 1);
  check_limit("model m { x = ", "a + ", 500, "a; }", 0);
  check_limit("model m { if a { }", " else if b { }", 5000, " }", 1);
  check_limit("model m { ", "repeat 3 { ", 250, "", 1);
  check_limit("model m { x = ", "f(a or b and not c == d + e * -q ^ ", 250, "", 1);
  check_limit("model m { ", "x = a + b;", 400000, " }", 1);
}

// Whatever the bytes are, there is a tree or an error, never a crash.
static void test_mutations(void **state) {
  (void)state;
  FileError error;
  size_t length;
  char *page = file_read(MDL_SOURCE_DIR "/tests/fmt/page.mdl", &length, &error);
  assert_non_null(page);
  uint64_t random = 1;
  for (int round = 0; round < 300; round++) {
    char *text = malloc(length + 1);
    memcpy(text, page, length + 1);
    for (int i = 0; i <= round % 5; i++) {
      random = random * 6364136223846793005u + 1442695040888963407u;
      text[(random >> 33) % length] = (char)(random >> 25);
    }
    Parsed p = parse_bytes(text, length);
    arena_destroy(p.arena);
    free(text);
  }
  free(page);
}

static void test_no_memory(void **state) {
  (void)state;
  for (volatile int n = 1; n < 10; n++) {
    Arena *volatile arena = arena_create();
    jmp_buf escape;
    if (setjmp(escape) == 0) {
      arena_set_escape(arena, &escape);
      arena_fail_after(arena, n);
      Diag *diag = diag_create(arena);
      Names *names = names_create(arena);
      const char *text = "model m { x = f(a + b); }";
      parse_file(arena, names, diag, diag_add_source(diag, "t.mdl", text, strlen(text)), NULL);
    }
    arena_destroy(arena);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_precedence), cmocka_unit_test(test_calls_and_brackets),
      cmocka_unit_test(test_statements), cmocka_unit_test(test_formals),
      cmocka_unit_test(test_settings),   cmocka_unit_test(test_spans_and_comments),
      cmocka_unit_test(test_wrong),      cmocka_unit_test(test_limits),
      cmocka_unit_test(test_mutations),  cmocka_unit_test(test_no_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
