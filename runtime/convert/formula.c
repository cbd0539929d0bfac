// formula.c: evaluates formulas as it reads them.
#include "runtime/convert/formula.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH_MAX = 64 };

typedef struct {
  const char *whole, *at;
  const FormulaNames *names;
  Error *error;
  int depth;
} Reader;

static bool choice(Reader *r, Value *value);

static bool wrong(Reader *r, const char *what) {
  return error_set(r->error, 1, "%s at '%.40s' of the formula `%.200s`", what, r->at, r->whole);
}

static void blanks(Reader *r) {
  r->at += strspn(r->at, " \t");
}

static bool is_part(char c) {
  return isalnum((unsigned char)c) || c == '_' || c == '.';
}

// Takes a sign or a word, if it comes next.
static bool take(Reader *r, const char *word) {
  blanks(r);
  const size_t length = strlen(word);
  if (strncmp(r->at, word, length) != 0 || (isalpha((unsigned char)*word) && is_part(r->at[length]))) {
    return false;
  }
  r->at += length;
  return true;
}

static bool quoted(Reader *r, Value *value) {
  const size_t length = strcspn(++r->at, "\"");
  if (!r->at[length]) {
    return wrong(r, "a quote is missing");
  }
  *value = (Value){.kind = VALUE_TEXT, .text = arena_format(r->names->arena, "%.*s", (int)length, r->at)};
  r->at += length + 1;
  return true;
}

static bool known_word(const char *name, Value *value) {
  if (strcmp(name, "true") == 0 || strcmp(name, "false") == 0) {
    *value = (Value){.kind = VALUE_TRUTH, .number = name[0] == 't'};
  } else if (strcmp(name, "none") == 0) {
    *value = (Value){.kind = VALUE_NONE};
  } else if (strcmp(name, "inf") == 0) {
    *value = (Value){.kind = VALUE_NUMBER, .number = INFINITY};
  } else {
    return false;
  }
  return true;
}

static bool atom(Reader *r, Value *value) {
  blanks(r);
  if (*r->at == '"') {
    return quoted(r, value);
  }
  if (take(r, "(")) {
    return choice(r, value) && (take(r, ")") || wrong(r, "a ) is missing"));
  }
  if (isdigit((unsigned char)*r->at)) {
    char *end;
    *value = (Value){.kind = VALUE_NUMBER, .number = strtod(r->at, &end)};
    r->at = end;
    return true;
  }
  size_t length = 0;
  while (is_part(r->at[length])) {
    length++;
  }
  if (length == 0) {
    return wrong(r, "a name or a number is missing");
  }
  const char *name = arena_format(r->names->arena, "%.*s", (int)length, r->at);
  r->at += length;
  return known_word(name, value) || r->names->find(r->names->context, name, value, r->error);
}

static bool is_real(const Value *value) {
  return value->kind == VALUE_NUMBER || value->kind == VALUE_TRUTH;
}

static bool negated(Reader *r, Value *value) {
  if (value->kind == VALUE_NONE) {
    return true;
  }
  const bool real = is_real(value);
  *value = (Value){.kind = VALUE_NUMBER, .number = -value->number};
  return real || wrong(r, "arithmetic with what is no number");
}

static bool unary(Reader *r, Value *value) {
  if (++r->depth > DEPTH_MAX) {
    return wrong(r, "too many brackets");
  }
  bool done;
  if (take(r, "not")) {
    done = unary(r, value);
    if (done) {
      *value = (Value){.kind = VALUE_TRUTH, .number = !value_true(value)};
    }
  } else if (take(r, "-")) {
    done = unary(r, value) && negated(r, value);
  } else {
    done = atom(r, value);
  }
  r->depth--;
  return done;
}

static bool arithmetic(Reader *r, char op, Value *a, const Value *b) {
  if (a->kind == VALUE_NONE || b->kind == VALUE_NONE) {
    *a = (Value){.kind = VALUE_NONE};
    return true;
  }
  if (!is_real(a) || !is_real(b)) {
    return wrong(r, "arithmetic with what is no number");
  }
  const double x = a->number, y = b->number;
  *a = (Value){.kind = VALUE_NUMBER, .number = op == '*' ? x * y : op == '/' ? x / y : op == '+' ? x + y : x - y};
  return true;
}

static bool product(Reader *r, Value *value) {
  Value other;
  bool done = unary(r, value);
  for (char op = 0; done && (op = take(r, "*") ? '*' : take(r, "/") ? '/' : 0);) {
    done = unary(r, &other) && arithmetic(r, op, value, &other);
  }
  return done;
}

static bool sum(Reader *r, Value *value) {
  Value other;
  bool done = product(r, value);
  for (char op = 0; done && (op = take(r, "+") ? '+' : take(r, "-") ? '-' : 0);) {
    done = product(r, &other) && arithmetic(r, op, value, &other);
  }
  return done;
}

static bool comparison(Reader *r, Value *value) {
  Value other;
  if (!sum(r, value)) {
    return false;
  }
  const char op = take(r, "==") ? '=' : take(r, "!=") ? '!' : take(r, "<") ? '<' : take(r, ">") ? '>' : 0;
  if (!op) {
    return true;
  }
  if (!sum(r, &other)) {
    return false;
  }
  const bool both = is_real(value) && is_real(&other);
  const bool truth = op == '='   ? value_equal(value, &other)
                     : op == '!' ? !value_equal(value, &other)
                     : op == '<' ? both && value->number < other.number
                                 : both && value->number > other.number;
  *value = (Value){.kind = VALUE_TRUTH, .number = truth};
  return true;
}

static bool either(Reader *r, Value *value) {
  Value other;
  bool done = comparison(r, value);
  while (done && take(r, "or")) {
    done = comparison(r, &other);
    if (done && value->kind == VALUE_NONE) {
      *value = other;
    }
  }
  return done;
}

static bool choice(Reader *r, Value *value) {
  Value condition, other;
  if (!either(r, value) || !take(r, "if")) {
    return r->error->status == 0;
  }
  if (!either(r, &condition) || !(take(r, "else") || wrong(r, "`else` is missing"))) {
    return false;
  }
  if (++r->depth > DEPTH_MAX) {
    return wrong(r, "too many `else`");
  }
  if (!choice(r, &other)) {
    return false;
  }
  r->depth--;
  *value = value_true(&condition) ? *value : other;
  return true;
}

bool formula_evaluate(const char *formula, const FormulaNames *names, Value *value, Error *error) {
  Error own = {0};
  Reader r = {.whole = formula, .at = formula, .names = names, .error = &own};
  bool done = choice(&r, value);
  blanks(&r);
  done = done && (*r.at == '\0' || wrong(&r, "something is left"));
  if (!done) {
    *error = own;
  }
  return done;
}

void formula_names(Arena *arena, const char *formula, void (*name)(void *context, const char *name), void *context) {
  static const char *const words[] = {"if", "else", "or", "not"};
  for (const char *at = formula; *at;) {
    size_t length = 0;
    while (is_part(at[length])) {
      length++;
    }
    if (*at == '"') {
      const char *end = strchr(at + 1, '"');
      at = end ? end + 1 : at + strlen(at);
      continue;
    }
    if (length > 0 && !isdigit((unsigned char)*at)) {
      Value ignored;
      const char *word = arena_format(arena, "%.*s", (int)length, at);
      bool plain = !known_word(word, &ignored);
      for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        plain = plain && strcmp(words[i], word) != 0;
      }
      if (plain) {
        name(context, word);
      }
    }
    at += length ? length : 1;
  }
}

bool value_true(const Value *value) {
  return is_real(value) ? value->number != 0 : value->kind != VALUE_NONE;
}

bool value_equal(const Value *a, const Value *b) {
  if (is_real(a) && is_real(b)) {
    const double x = a->number, y = b->number;
    return (a->kind == b->kind) &&
           (x == y || (isfinite(x) && isfinite(y) && fabs(x - y) <= 1e-9 * fmax(fabs(x), fabs(y))));
  }
  return a->kind == b->kind && (a->kind == VALUE_NONE || strcmp(a->text, b->text) == 0);
}

const char *value_text(Arena *arena, const Value *value) {
  switch (value->kind) {
    case VALUE_NONE:
      return "null";
    case VALUE_TRUTH:
      return value->number != 0 ? "true" : "false";
    case VALUE_TEXT:
      return arena_format(arena, "\"%s\"", value->text);
    case VALUE_OTHER:
      return value->text;
    default:
      break;
  }
  if (fabs(value->number) < 1e15 && value->number == floor(value->number)) {  // a size has no exponent
    return arena_format(arena, "%.0f", value->number);
  }
  for (int digits = 6; digits < 17; digits++) {  // the fewest that say it
    const char *text = arena_format(arena, "%.*g", digits, value->number);
    if (strtod(text, NULL) == value->number) {
      return text;
    }
  }
  return arena_format(arena, "%.17g", value->number);
}
