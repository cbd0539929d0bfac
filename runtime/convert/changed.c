// changed.c: what a resolved text says otherwise than an earlier one of the same run: entries of recipes, declarations.
#include "runtime/convert/changed.h"

#include <string.h>

#include "runtime/convert/formula.h"

typedef struct {
  const char *key, *text;  // key: what it is called; text: NULL: it is said that it differs, not how
  int key_length, length;
  const char *all;  // what is compared
  int all_length;
  bool paired;
} Said;

typedef ARRAY(Said) SaidList;

static bool same(const char *a, int a_length, const char *b, int b_length) {
  return a_length == b_length && memcmp(a, b, (size_t)a_length) == 0;
}

static bool is_key(const Said *said, const char *word) {
  return same(said->key, said->key_length, word, (int)strlen(word));
}

// Entries that are sizes, which constants_changed compares.
static bool is_size(const Said *said) {
  return is_key(said, "batch") || is_key(said, "seq");
}

// An entry, `  steps = 40;` or `  optimizer norm: adamw(...);`: the key ends before what is chosen.
static Said entry_of(const char *line, int length) {
  const int inner = length > 0 && line[length - 1] == ';' ? length - 1 : length;
  int key = 0, value;
  while (key < inner && line[key] != ' ' && line[key] != '=') {
    key++;
  }
  for (value = key; value < inner && (line[value] == ' ' || line[value] == '='); value++) {
  }
  return (Said){line, line + value, key, inner - value, line, inner, false};
}

// A declaration, called by its first two words, `model lm` or `fn block`.
static Said declaration_of(const char *text, int length) {
  int key = (int)strcspn(text, " \n");
  if (key < length && text[key] == ' ') {
    key += 1 + (int)strcspn(text + key + 1, " (={;\n");
  }
  key = key < length ? key : length;
  return (Said){text, NULL, key, 0, text, length, false};
}

// The end of what begins here: of the lines behind the first, those that begin with `inner` belong to it.
static const char *end_of(const char *at, const char *inner) {
  do {
    at += strcspn(at, "\n");
    at += *at == '\n';
  } while (strncmp(at, inner, strlen(inner)) == 0);
  return at;
}

static int trimmed(const char *text, const char *end) {
  while (end > text && end[-1] == '\n') {
    end--;
  }
  return (int)(end - text);
}

// In one line, as it is compared and shown.
static const char *in_one_line(Arena *arena, const char *text, int *length) {
  char *line = arena_copy(arena, text, (size_t)*length + 1), *to = line;
  for (int i = 0; i < *length; i++) {
    *to++ = (char)(text[i] == '\n' ? ' ' : text[i]);
    i += text[i] == '\n' ? (int)strspn(text + i + 1, " ") : 0;
  }
  *length = (int)(to - line);
  return line;
}

// `sizes`: with those.
static void collect_entries(Arena *arena, const char *at, const char *end, bool sizes, SaidList *list) {
  for (const char *next; at < end; at = next) {
    next = end_of(at, "    ");
    if (strncmp(at, "  ", 2) == 0) {
      int length = trimmed(at + 2, next);
      const char *line = in_one_line(arena, at + 2, &length);
      Said said = entry_of(line, length);
      if (is_key(&said, "model")) {  // behind its name are sizes too
        said.length = (int)strcspn(said.text, "(;");
        said.all_length = (int)(said.text - said.all) + said.length;
      }
      if (sizes || !is_size(&said)) {
        array_push(arena, list, said);
      }
    }
  }
}

// The formatted text: declarations begin at the margin, and entries of a recipe two columns behind it.
static void collect(Arena *arena, const char *text, bool sizes, SaidList *list) {
  for (const char *at = text, *end; *at; at = end) {
    end = end_of(at, "  ");
    if (strncmp(at, "recipe ", 7) == 0) {
      collect_entries(arena, at, end, sizes, list);
    } else if (*at >= 'a' && *at <= 'z') {
      array_push(arena, list, declaration_of(at, trimmed(at, end)));
    }
  }
}

static bool is_in(const SaidList *list, const Said *said) {
  for (int i = 0; i < list->count; i++) {
    if (same(list->at[i].all, list->at[i].all_length, said->all, said->all_length)) {
      return true;
    }
  }
  return false;
}

// What is called the same there, and does not stand in the other text.
static Said *partner(SaidList *there, const SaidList *here, const Said *said) {
  for (int i = 0; i < there->count; i++) {
    Said *other = &there->at[i];
    if (!other->paired && same(other->key, other->key_length, said->key, said->key_length) && !is_in(here, other)) {
      return other;
    }
  }
  return NULL;
}

// What is shown of a long text: one line of it, cut between characters, with what stands before and behind the cuts.
typedef struct {
  const char *before, *text, *behind;
  int length;
} Shown;

enum { SHOWN = 120, SHOWN_BEFORE = 40 };  // bytes of a text, and of them before the first difference

static int whole_character(const Said *said, int at) {
  while (at > 0 && at < said->length && ((unsigned char)said->text[at] & 0xC0) == 0x80) {
    at--;
  }
  return at;
}

static Shown shown_from(const Said *said, int from) {
  const int begin = whole_character(said, from < said->length ? from : said->length);
  const int end = said->length - begin > SHOWN ? whole_character(said, begin + SHOWN) : said->length;
  return (Shown){begin > 0 ? "..." : "", said->text + begin, end < said->length ? "..." : "", end - begin};
}

// Where to begin, so that the first difference of two texts is seen.
static int shown_begin(const Said *was, const Said *is) {
  int same_until = 0;
  while (same_until < was->length && same_until < is->length && was->text[same_until] == is->text[same_until]) {
    same_until++;
  }
  const bool early = same_until < SHOWN / 2 || (was->length <= SHOWN && is->length <= SHOWN);
  int from = early ? 0 : same_until - SHOWN_BEFORE;
  for (int i = from; from > 0 && i < same_until && i < from + SHOWN_BEFORE / 2; i++) {
    if (was->text[i] == ' ') {  // at a word
      return i + 1;
    }
  }
  return from;
}

// Where an entry differs. A declaration that only one of them has is used by something that differs too.
static void add(Unfit *changed, const Said *was, const Said *is) {
  const Said *any = was ? was : is;
  if (!any->text) {
    if (was && is) {
      unfit_add(changed, "`%.*s` is another one", any->key_length, any->key);
    }
  } else if (was && is) {
    const int from = shown_begin(was, is);
    const Shown w = shown_from(was, from), n = shown_from(is, from);
    unfit_add(changed, "%.*s was `%s%.*s%s` and is `%s%.*s%s`", any->key_length, any->key, w.before, w.length, w.text,
              w.behind, n.before, n.length, n.text, n.behind);
  } else {
    const Said whole = {.text = any->all, .length = any->all_length};
    const Shown shown = shown_from(&whole, 0);
    unfit_add(changed, "`%.*s%s` is %s", shown.length, shown.text, shown.behind, was ? "gone" : "new");
  }
}

void text_changed(Arena *arena, const char *before, const char *now, Unfit *changed) {
  SaidList was = {0}, is = {0};
  collect(arena, before, false, &was);
  collect(arena, now, false, &is);
  for (int i = 0; i < was.count; i++) {
    if (!is_in(&is, &was.at[i])) {
      Said *other = partner(&is, &was, &was.at[i]);
      if (other) {
        other->paired = true;
      }
      add(changed, &was.at[i], other);
    }
  }
  for (int i = 0; i < is.count; i++) {
    if (!is.at[i].paired && !is_in(&was, &is.at[i])) {
      add(changed, NULL, &is.at[i]);
    }
  }
}

static bool no_name(void *context, const char *name, Value *value, Error *error) {
  (void)context;
  (void)name;
  (void)error;
  *value = (Value){.kind = VALUE_NONE};
  return true;
}

// Is what an entry chooses a number, `0.1` or `1 / 10`?
static bool number_of(Arena *arena, const Said *said, double *number) {
  const FormulaNames names = {.find = no_name, .arena = arena};
  Value value;
  Error none = {0};
  const bool is = said->text &&
                  formula_evaluate(arena_format(arena, "%.*s", said->length, said->text), &names, &value, &none) &&
                  value.kind == VALUE_NUMBER;
  *number = is ? value.number : 0;
  return is;
}

double text_held_out(Arena *arena, const char *text) {
  SaidList all = {0};
  collect(arena, text, true, &all);
  for (int i = 0; i < all.count; i++) {
    const Said *said = &all.at[i];
    if (is_key(said, "validation")) {
      double part;
      return number_of(arena, said, &part) && part > 0 && part < 1 ? part : 0;
    }
  }
  return 0;
}

// Without directories in its strings, and without weights, `a = 2 * text("x")`, which say nothing of what is held out.
static int names_alone(const Said *said, char *to) {
  char *const first = to, *string = NULL, *chosen = to;  // where a string, and what is behind a `=`, begins
  for (int i = 0; i < said->all_length; i++) {
    const char c = said->all[i];
    const bool source = i + 2 < said->all_length && said->all[i + 1] == ' ' && said->all[i + 2] >= 'a';
    if (!string && c == '*' && source) {
      to = chosen;
      continue;
    }
    *to++ = c;
    if (c == '"') {
      string = string ? NULL : to;
    } else if (string && c == '\\' && i + 1 < said->all_length) {
      *to++ = said->all[++i];
    } else if (string && c == '/') {
      to = string;
    } else if (!string && c == '=') {
      chosen = to;
    }
  }
  return (int)(to - first);
}

// An entry as it is compared: its number is written in one way.
static Said compared(Arena *arena, const Said *said) {
  Said as = *said;
  double number;
  if (number_of(arena, said, &number)) {
    as.all = arena_format(arena, "%.*s = %.17g", said->key_length, said->key, number);
    as.all_length = (int)strlen(as.all);
  } else {
    char *made = arena_copy(arena, said->all, (size_t)said->all_length + 1);
    as.all_length = names_alone(said, made);
    as.all = made;
  }
  return as;
}

// The entries of these keys, as they are compared.
static void collect_keys(Arena *arena, const char *text, const char *const *keys, size_t count, SaidList *list) {
  SaidList all = {0};
  collect(arena, text, true, &all);
  for (int i = 0; i < all.count; i++) {
    for (size_t k = 0; k < count; k++) {
      if (is_key(&all.at[i], keys[k])) {
        array_push(arena, list, compared(arena, &all.at[i]));
      }
    }
  }
}

static bool all_in(const SaidList *some, const SaidList *others) {
  for (int i = 0; i < some->count; i++) {
    if (!is_in(others, &some->at[i])) {
      return false;
    }
  }
  return true;
}

static bool keys_differ(Arena *arena, const char *before, const char *now, const char *const *keys, size_t count) {
  SaidList was = {0}, is = {0};
  collect_keys(arena, before, keys, count, &was);
  collect_keys(arena, now, keys, count, &is);
  return !all_in(&was, &is) || !all_in(&is, &was);
}

bool text_validates_otherwise(Arena *arena, const char *before, const char *now, bool of_data) {
  static const char *const keys[] = {"validation", "eval_batches", "batch", "seq", "data"};
  return keys_differ(arena, before, now, keys, sizeof keys / sizeof *keys - (of_data ? 0 : 1));
}

bool text_names_data_otherwise(Arena *arena, const char *before, const char *now) {
  static const char *const keys[] = {"data"};
  return keys_differ(arena, before, now, keys, 1);
}
