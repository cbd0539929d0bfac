// options_test.c: parsing by tables, the words of usage errors, and help.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka.h wants the four above first.
#include <cmocka.h>
#include <string.h>

#include "base/options.h"

typedef struct {
  OptionList set;
  const char *mode;
} Shared;

typedef struct {
  bool fast;
  const char *out;
  int64_t steps;
  double rate;
  Shared shared;
} Values;

static const Option own[] = {
    {"fast", 'f', OPTION_FLAG, NULL, offsetof(Values, fast), 0, "do it fast"},
    {"out", 'o', OPTION_TEXT, "DIR", offsetof(Values, out), 0, "where it goes"},
    {"steps", 0, OPTION_INTEGER, "N", offsetof(Values, steps), 1,
     "how many steps to make; this sentence is long, so that the help has to break it into more than one line of text"},
    {"rate", 0, OPTION_NUMBER, "R", offsetof(Values, rate), 0, "how fast"},
};
static const Option shared[] = {
    {"set", 0, OPTION_LIST, "NAME=VALUE", offsetof(Shared, set), 0, "another value"},
    {"a-rather-long-option-name", 0, OPTION_CHOICE, "red|green", offsetof(Shared, mode), 0, "a colour"},
};
static const OptionGroup groups[] = {{"Options", own, 4, 0}, {"Shared", shared, 2, offsetof(Values, shared)}};
static const Values defaults = {.steps = 7};

static int run(Arena *arena, const void *values, const OptionList *arguments) {
  (void)arena;
  return (int)((const Values *)values)->steps * 10 + arguments->count;
}

static const Command commands[] = {
    {.name = "go",
     .arguments = "FILE",
     .summary = "goes",
     .least = 1,
     .most = 2,
     .groups = groups,
     .group_count = 2,
     .size = sizeof(Values),
     .defaults = &defaults,
     .run = run},
    {.name = "stay",
     .arguments = "",
     .summary = "stays",
     .details = "And more about it.",
     .size = sizeof(Values),
     .run = run},
};
static const Program program = {
    .name = "prog", .version = "1.2", .summary = "a program", .commands = commands, .count = 2, .details = "The end."};

typedef struct {
  Arena *arena;
  Values values;
  OptionList arguments;
  bool help;
  char problem[256];
} Parsed;

static bool parse(Parsed *parsed, const char *line) {
  char *words[32], *copy = arena_format(parsed->arena, "%s", line);
  int count = 0;
  for (char *word = strtok(copy, " "); word; word = strtok(NULL, " ")) {
    words[count++] = word;
  }
  Buffer problem = {0};
  bool done = options_parse(parsed->arena, &commands[0], count, words, &parsed->values, &parsed->arguments,
                            &parsed->help, &problem);
  strncpy(parsed->problem, problem.text ? problem.text : "", sizeof parsed->problem - 1);
  buffer_free(&problem);
  return done;
}

static void test_values(void **state) {
  (void)state;
  Parsed p = {.arena = arena_create()};
  assert_true(parse(&p, "a"));
  assert_int_equal(p.values.steps, 7);
  assert_int_equal(p.arguments.count, 1);
  assert_true(parse(&p, "--steps 12 a --rate=-0 -f --out here b --set x=1 --set=y=2"));
  assert_int_equal(p.values.steps, 12);
  assert_true(p.values.fast);
  assert_string_equal(p.values.out, "here");
  assert_int_equal(p.arguments.count, 2);
  assert_string_equal(p.arguments.at[1], "b");
  assert_int_equal(p.values.shared.set.count, 2);
  assert_string_equal(p.values.shared.set.at[1], "y=2");
  assert_true(parse(&p, "-ofile -- --fast -"));
  assert_string_equal(p.values.out, "file");
  assert_false(p.values.fast);
  assert_string_equal(p.arguments.at[0], "--fast");
  assert_string_equal(p.arguments.at[1], "-");
  assert_true(parse(&p, "--out --fast a"));  // a value may look like an option
  assert_string_equal(p.values.out, "--fast");
  assert_true(parse(&p, "a --fast --fast --set x=1 --set x=2"));  // a flag says the same twice, a list takes all
  assert_true(parse(&p, "a --help --nonsense"));
  assert_true(p.help);
  assert_true(parse(&p, "a --a-rather-long-option-name green"));
  arena_destroy(p.arena);
}

static void test_problems(void **state) {
  (void)state;
  static const struct {
    const char *line, *problem;
  } cases[] = {
      {"a --stesp 3", "unknown option '--stesp'; did you mean --steps?"},
      {"a --stesp=3", "unknown option '--stesp'; did you mean --steps?"},
      {"a --unheard-of", "unknown option '--unheard-of'"},
      {"a -x", "unknown option '-x'"},
      {"a --steps", "--steps needs a value: --steps N"},
      {"a --steps 3.5", "--steps takes a whole number, not '3.5'"},
      {"a --steps 1e3", "--steps takes a whole number, not '1e3'; write `1000`"},
      {"a --steps 3.0", "--steps takes a whole number, not '3.0'; write `3`"},
      {"a --steps 1,000", "--steps takes a whole number, not '1,000'; write `1000`"},
      {"a --steps 1_000", "--steps takes a whole number, not '1_000'; write `1000`"},
      {"a --steps 0x10", "--steps takes a whole number, not '0x10'; write `16`"},
      {"a --steps 32k", "--steps takes a whole number, not '32k'; write `32000`, or `32768` where k is 2^10"},
      {"a --steps 99999999999999999999", "--steps takes a whole number, and 99999999999999999999 is out of range"},
      {"a --steps 0", "--steps must be at least 1, not 0"},
      {"a --rate x", "--rate takes a number, not 'x'"},
      {"a --rate nan", "--rate takes a number, not 'nan'"},
      {"a --rate -1", "--rate must be at least 0, not -1"},
      {"a --fast=yes", "--fast takes no value"},
      {"a --a-rather-long-option-name blue", "--a-rather-long-option-name takes one of red|green, not 'blue'"},
      {"a --a-rather-long-option-name re", "--a-rather-long-option-name takes one of red|green, not 're'"},
      {"a --steps 5 --steps=9", "--steps is given twice, as '5' and as '9'; keep one of them"},
      {"a -o x --out x", "--out is given twice, as 'x' and as 'x'; keep one of them"},
      {"--fast", "FILE is missing"},
      {"a b c", "unexpected argument 'c'"},
      {"a b x=1", "unexpected argument 'x=1'; a setting is --set 'x=1'"},
      {"a --output-dir x", "unknown option '--output-dir'; did you mean --out?"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    Parsed p = {.arena = arena_create()};
    assert_false(parse(&p, cases[i].line));
    assert_string_equal(p.problem, cases[i].problem);
    arena_destroy(p.arena);
  }
}

static void test_help(void **state) {
  (void)state;
  Buffer text = {0};
  options_help(&program, &commands[0], &text);
  assert_string_equal(
      text.text,
      "prog go FILE: goes\n"
      "\n"
      "Options\n"
      "  -f, --fast                do it fast\n"
      "  -o, --out DIR             where it goes\n"
      "  --steps N                 how many steps to make; this sentence is long, so that the help has to\n"
      "                            break it into more than one line of text\n"
      "  --rate R                  how fast\n"
      "\n"
      "Shared\n"
      "  --set NAME=VALUE          another value\n"
      "  --a-rather-long-option-name red|green\n"
      "                            a colour\n");
  buffer_free(&text);
  options_overview(&program, &text);
  assert_string_equal(text.text,
                      "prog 1.2: a program\n"
                      "\n"
                      "Commands\n"
                      "  go FILE                   goes\n"
                      "  stay                      stays\n"
                      "  help [COMMAND]            this text, or all about one command\n"
                      "\n"
                      "The end.\n");
  buffer_free(&text);
}

static int run_main(const char *a, const char *b, const char *c) {
  char words[4][32] = {"prog"}, *argv[4] = {words[0]};
  int argc = 1;
  const char *from[] = {a, b, c};
  for (int i = 0; i < 3 && from[i]; i++) {
    strncpy(words[argc], from[i], 31);
    argv[argc] = words[argc];
    argc++;
  }
  return options_main(&program, argc, argv);
}

static void test_statuses(void **state) {
  (void)state;
  assert_int_equal(run_main("go", "a", NULL), 71);
  assert_int_equal(run_main("stay", NULL, NULL), 0 * 10);
  assert_int_equal(run_main(NULL, NULL, NULL), STATUS_USAGE);
  assert_int_equal(run_main("gp", NULL, NULL), STATUS_USAGE);
  assert_int_equal(run_main("go", NULL, NULL), STATUS_USAGE);
  assert_int_equal(run_main("stay", "a", NULL), STATUS_USAGE);
  assert_int_equal(run_main("help", "gp", NULL), STATUS_USAGE);
  assert_int_equal(run_main("help", "stay", NULL), STATUS_DONE);
  assert_int_equal(run_main("go", "--help", NULL), STATUS_DONE);
  assert_int_equal(run_main("--version", NULL, NULL), STATUS_DONE);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_values),
      cmocka_unit_test(test_problems),
      cmocka_unit_test(test_help),
      cmocka_unit_test(test_statuses),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
