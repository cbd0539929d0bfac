// oniguruma.c: from the regular expressions of Oniguruma to those of PCRE2. See oniguruma.h.
#include "runtime/data/oniguruma.h"

#include <string.h>

#include "runtime/data/pattern.h"

// What \w is in a set, and what it is alone: with digits and fractions of Latin-1 that are high or small.
#define WORD "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}"
#define ALONE WORD "\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}"
#define HEX "0-9a-fA-F"

enum { MOST_DEPTH = 64 };

typedef struct {
  const char *text;
  size_t length, at;
  const char *what;  // of what cannot be spelled, or NULL
  int depth;         // of sets within sets
  bool folds;        // (?i) holds here
} Reader;

// A set: what stands in it, and what else belongs to it, each behind a |, as a set that has a sign of its own.
typedef struct {
  Buffer flat, others;
  bool negated;
} Set;

static bool refuse(Reader *r, const char *what) {
  r->what = r->what ? r->what : what;
  return false;
}

static char next(const Reader *r, size_t ahead) {
  return r->at + ahead < r->length ? r->text[r->at + ahead] : '\0';
}

// \x, or all of \p{..} and the like.
static size_t escape_length(const Reader *r) {
  const char kind = next(r, 1);
  if (strchr("pPxukg", kind) && (next(r, 2) == '{' || next(r, 2) == '<')) {
    const char *end = memchr(r->text + r->at, next(r, 2) == '{' ? '}' : '>', r->length - r->at);
    return end ? (size_t)(end - r->text) + 1 - r->at : r->length - r->at;
  }
  return r->at + 1 < r->length ? 2 : 1;
}

// \u0041 and \v, which are other things there. False: it is none of them.
static bool character_spell(Reader *r, Buffer *out) {
  if (next(r, 1) == 'v') {
    buffer_text(out, "\\x0b");
    r->at += 2;
    return true;
  }
  if (next(r, 1) == 'u' && r->at + 6 <= r->length) {
    buffer_format(out, "\\x{%.4s}", r->text + r->at + 2);
    r->at += 6;
    return true;
  }
  return false;
}

// \p{Han}, which is of the script there, and here of those whose texts it is in too; \p{Letter}, whose name is shorter
// here. False: it is called the same.
static bool property_spell(Reader *r, Buffer *out) {
  static const char *const categories[] = {"Letter", "Mark", "Number", "Punctuation", "Symbol", "Separator", "Other"};
  static const char letters[] = "LMNPSZC";
  const size_t size = escape_length(r), from = 3 + (next(r, 3) == '^');
  if ((next(r, 1) != 'p' && next(r, 1) != 'P') || next(r, 2) != '{' || size <= from + 3) {
    return false;
  }
  const char *name = r->text + r->at + from, *sign = from == 4 ? "^" : "";
  const int length = (int)(size - from - 1);
  for (size_t i = 0; i < sizeof categories / sizeof *categories; i++) {
    if (strlen(categories[i]) == (size_t)length && strncmp(categories[i], name, (size_t)length) == 0) {
      buffer_format(out, "\\%c{%s%c}", next(r, 1), sign, letters[i]);
      r->at += size;
      return true;
    }
  }
  if (!pattern_knows_script(name, (size_t)length)) {
    return false;
  }
  buffer_format(out, "\\%c{%ssc:%.*s}", next(r, 1), sign, length, name);
  r->at += size;
  return true;
}

// --- sets ---

static bool ends_in_hyphen(const Buffer *flat) {
  size_t escapes = 0;
  while (escapes + 1 < flat->length && flat->text[flat->length - 2 - escapes] == '\\') {
    escapes++;
  }
  return flat->length > 0 && flat->text[flat->length - 1] == '-' && escapes % 2 == 0;
}

// What follows is no end of a range.
static void close_range(Buffer *flat) {
  if (ends_in_hyphen(flat)) {
    flat->length--;
    buffer_text(flat, "\\-");
  }
}

static void set_free(Set *set) {
  buffer_free(&set->flat);
  buffer_free(&set->others);
}

static void flat_put(const Buffer *flat, bool negated, Buffer *out) {
  if (flat->length == 0) {
    buffer_text(out, negated ? "(?s:.)" : "(?!)");
    return;
  }
  buffer_text(out, negated ? "[^" : strchr("^.:=", flat->text[0]) ? "[\\" : "[");
  buffer_bytes(out, flat->text, flat->length);
  buffer_text(out, "]");
}

static void union_put(const Set *set, Buffer *out) {
  if (set->others.length == 0) {
    flat_put(&set->flat, false, out);
    return;
  }
  buffer_text(out, "(?:");
  if (set->flat.length > 0) {
    flat_put(&set->flat, false, out);
    buffer_text(out, "|");
  }
  buffer_bytes(out, set->others.text + 1, set->others.length - 1);
  buffer_text(out, ")");
}

static void posix_read(Reader *r, Set *set) {
  static const struct {
    const char *name, *set;
  } known[] = {{"alnum", "\\p{Alphabetic}\\p{Nd}"},
               {"alpha", "\\p{Alphabetic}"},
               {"digit", "\\p{Nd}"},
               {"lower", "\\p{Lowercase}"},
               {"upper", "\\p{Uppercase}"},
               {"space", "\\s"},
               {"word", WORD},
               {"cntrl", "[:cntrl:]"},
               {"ascii", "[:ascii:]"},
               {"xdigit", HEX}};
  const bool negated = next(r, 2) == '^';
  const char *name = r->text + r->at + 2 + negated;
  const size_t left = r->length - (size_t)(name - r->text);
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    const size_t size = strlen(known[i].name);
    if (left >= size + 2 && memcmp(name, known[i].name, size) == 0 && memcmp(name + size, ":]", 2) == 0) {
      if (r->folds && (strcmp(known[i].name, "lower") == 0 || strcmp(known[i].name, "upper") == 0)) {
        break;
      }
      close_range(&set->flat);
      buffer_format(negated ? &set->others : &set->flat, negated ? "|[^%s]" : "%s", known[i].set);
      r->at = (size_t)(name - r->text) + size + 2;
      return;
    }
  }
  refuse(r, "a set of POSIX");
}

// \p{Ll} in a set within (?i) is both cases there, and one here.
static bool is_of_one_case(const Reader *r) {
  static const char *const names[] = {"{Ll}", "{Lu}", "{Lt}", "{^Ll}", "{^Lu}", "{^Lt}"};
  bool found = false;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    const size_t size = strlen(names[i]);
    found |= r->at + 2 + size <= r->length && memcmp(r->text + r->at + 2, names[i], size) == 0;
  }
  return found && (next(r, 1) == 'p' || next(r, 1) == 'P');
}

static void set_escape(Reader *r, Set *set) {
  const char kind = next(r, 1);
  if (r->folds && is_of_one_case(r)) {
    refuse(r, "a set with letters of one case under (?i)");
    return;
  }
  const char *flat = kind == 'w' ? WORD : kind == 'h' ? HEX : NULL;
  const char *other = kind == 'W' ? WORD : kind == 'H' ? HEX : kind == 'S' ? "\\s" : NULL;
  if (flat || other) {
    close_range(&set->flat);
    buffer_format(flat ? &set->flat : &set->others, flat ? "%s" : "|[^%s]", flat ? flat : other);
    r->at += 2;
  } else if (!character_spell(r, &set->flat) && !property_spell(r, &set->flat)) {
    const size_t size = escape_length(r);
    buffer_bytes(&set->flat, r->text + r->at, size);
    r->at += size;
  }
}

static void set_read(Reader *r, Set *set);

static void nested_read(Reader *r, Set *set) {
  Set inner = {0};
  const bool before = ends_in_hyphen(&set->flat);
  set_read(r, &inner);
  if (!r->what && (before || (next(r, 0) == '-' && next(r, 1) != ']'))) {
    refuse(r, "a hyphen beside a set within a set");
  }
  if (!inner.negated && inner.others.length == 0) {
    buffer_bytes(&set->flat, inner.flat.text ? inner.flat.text : "", inner.flat.length);
  } else {
    buffer_text(&set->others, "|");
    if (inner.negated && inner.others.length == 0) {
      flat_put(&inner.flat, true, &set->others);
    } else {
      buffer_text(&set->others, inner.negated ? "(?:(?!" : "");
      union_put(&inner, &set->others);
      buffer_text(&set->others, inner.negated ? ")(?s:.))" : "");
    }
  }
  set_free(&inner);
}

// From behind the [ to behind its ]. An intersection becomes one of the others: all but its last part look ahead.
static void set_read(Reader *r, Set *set) {
  Set part = {0};
  Buffer before = {0};
  set->negated = next(r, 0) == '^';
  r->at += set->negated;
  if (++r->depth > MOST_DEPTH) {
    refuse(r, "so many sets within sets");
  }
  for (bool first = true; !r->what; first = false) {
    const char c = next(r, 0);
    if (r->at >= r->length) {
      refuse(r, "a set without an end");
    } else if (c == ']' && !first) {
      break;
    } else if (c == ']') {
      buffer_text(&part.flat, "\\]");
      r->at++;
    } else if (c == '&' && next(r, 1) == '&') {
      buffer_text(&before, "(?=");
      union_put(&part, &before);
      buffer_text(&before, ")");
      set_free(&part);
      r->at += 2;
    } else if (c == '[' && next(r, 1) == ':') {
      posix_read(r, &part);
    } else if (c == '[') {
      r->at++;
      nested_read(r, &part);
    } else if (c == '\\') {
      set_escape(r, &part);
    } else {
      buffer_bytes(&part.flat, &c, 1);
      r->at++;
    }
  }
  r->at++;
  r->depth--;
  if (before.length > 0) {
    buffer_text(&set->others, "|(?:");
    buffer_bytes(&set->others, before.text, before.length);
    union_put(&part, &set->others);
    buffer_text(&set->others, ")");
    set_free(&part);
  } else {
    set->flat = part.flat;
    set->others = part.others;
  }
  buffer_free(&before);
}

static void set_spell(Reader *r, Buffer *out) {
  Set set = {0};
  r->at++;
  set_read(r, &set);
  if (r->what) {
    set_free(&set);
    return;
  }
  if (set.others.length == 0) {
    flat_put(&set.flat, set.negated, out);
  } else {
    buffer_text(out, set.negated ? "(?:(?!" : "");
    union_put(&set, out);
    buffer_text(out, set.negated ? ")(?s:.))" : "");
  }
  set_free(&set);
}

// --- the rest ---

static void escape_spell(Reader *r, Buffer *out) {
  static const struct {
    char kind;
    const char *pattern;
  } known[] = {{'w', "[" ALONE "]"},
               {'W', "[^" ALONE "]"},
               {'h', "[" HEX "]"},
               {'H', "[^" HEX "]"},
               {'O', "(?s:.)"},
               {'b', "(?:(?<=[" ALONE "])(?![" ALONE "])|(?<![" ALONE "])(?=[" ALONE "]))"},
               {'B', "(?:(?<=[" ALONE "])(?=[" ALONE "])|(?<![" ALONE "])(?![" ALONE "]))"}};
  const char kind = next(r, 1);
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    if (kind == known[i].kind) {
      buffer_text(out, known[i].pattern);
      r->at += 2;
      return;
    }
  }
  if (kind == 'y' || kind == 'Y') {
    refuse(r, "\\y");
  } else if (!character_spell(r, out) && !property_spell(r, out)) {
    const size_t size = escape_length(r);
    buffer_bytes(out, r->text + r->at, size);
    r->at += size;
  }
}

// The groups that are open: where each begins in what is written, and how many of (?i) within close with it.
typedef struct {
  size_t begin[MOST_DEPTH];
  int more[MOST_DEPTH], count;
  bool folds[MOST_DEPTH];  // (?i) holds within
} Groups;

static void group_open(Groups *groups, const Buffer *out) {
  groups->begin[groups->count] = out->length;
  groups->more[groups->count] = 0;
  groups->folds[groups->count] = groups->folds[groups->count - 1];
  groups->count++;
}

// (?im-x: and (?i). There m lets a dot be the end of a line.
static void options_spell(Reader *r, Groups *groups, Buffer *out) {
  size_t end = r->at + 2;
  while (end < r->length && strchr("imx-", r->text[end])) {
    end++;
  }
  const bool rest = end < r->length && r->text[end] == ')';
  bool off = false;
  buffer_text(out, "(?");
  for (size_t i = r->at + 2; i < end; i++) {
    off |= r->text[i] == '-';
    if (r->text[i] == 'i') {
      groups->folds[groups->count - 1] = !off;
    }
    if (r->text[i] == 'x') {
      refuse(r, "spaces that mean nothing, (?x)");
    }
    buffer_format(out, "%c", r->text[i] == 'm' ? 's' : r->text[i]);
  }
  buffer_text(out, ":");
  groups->more[groups->count - 1] += rest;
  r->at = end + 1;
}

static void open_spell(Reader *r, Groups *groups, Buffer *out) {
  const bool options = next(r, 1) == '?' && next(r, 2) && strchr("imx-", next(r, 2));
  if (next(r, 1) == '?' && next(r, 2) == '#') {
    const char *end = memchr(r->text + r->at, ')', r->length - r->at);
    r->at = end ? (size_t)(end - r->text) + 1 : r->length;
    return;
  }
  if (next(r, 1) == '?' && next(r, 2) == '~') {
    refuse(r, "what is absent, (?~");
    return;
  }
  if (groups->count == MOST_DEPTH) {
    refuse(r, "so many groups within groups");
    return;
  }
  if (options) {
    size_t end = r->at + 2;
    while (end < r->length && strchr("imx-", r->text[end])) {
      end++;
    }
    if (end >= r->length || r->text[end] != ')') {
      group_open(groups, out);
    }
    options_spell(r, groups, out);
    return;
  }
  group_open(groups, out);
  buffer_text(out, "(");
  r->at++;
  while (next(r, 0) && strchr("?:=!>", next(r, 0))) {
    buffer_bytes(out, r->text + r->at++, 1);
  }
}

static void wrap(Buffer *out, size_t atom) {
  buffer_text(out, "   )");
  if (!out->failed) {
    memmove(out->text + atom + 3, out->text + atom, out->length - 4 - atom);
    memcpy(out->text + atom, "(?:", 3);
  }
}

// {1,3}, {2}, {,3}: from `at`, *end behind it. False: it is none, and { is itself.
static bool interval_read(const Reader *r, size_t *end, bool *fixed, bool *open) {
  const size_t low = strspn(r->text + r->at + 1, "0123456789");
  const bool comma = next(r, 1 + low) == ',';
  const size_t high = comma ? strspn(r->text + r->at + 2 + low, "0123456789") : 0;
  *end = r->at + 1 + low + comma + high;
  *fixed = !comma;
  *open = low == 0;
  return low + high > 0 && *end < r->length && r->text[(*end)++] == '}';
}

static void interval_spell(Reader *r, size_t atom, Buffer *out) {
  size_t end;
  bool fixed, open;
  if (!interval_read(r, &end, &fixed, &open)) {
    buffer_text(out, "\\{");
    r->at++;
    return;
  }
  buffer_text(out, open ? "{0" : "{");
  buffer_bytes(out, r->text + r->at + 1, end - r->at - 1);
  r->at = end;
  if (next(r, 0) == '+' || (next(r, 0) == '?' && fixed)) {
    wrap(out, atom);
  }
}

bool oniguruma_spell(const char *text, size_t length, Buffer *out, const char **what) {
  Reader r = {.text = text, .length = length};
  Groups groups = {.count = 1};
  size_t atom = out->length;
  while (r.at < length && !r.what) {
    const char c = text[r.at];
    const size_t begin = out->length;
    if (c == '{') {
      interval_spell(&r, atom, out);
      continue;
    }
    if (c == '*' || c == '+' || c == '?' || ((unsigned char)c & 0xc0) == 0x80) {  // what goes with the one before
      buffer_bytes(out, text + r.at++, 1);
      continue;
    }
    atom = begin;
    r.folds = groups.folds[groups.count - 1];
    if (c == '[') {
      set_spell(&r, out);
    } else if (c == '\\') {
      escape_spell(&r, out);
    } else if (c == '(') {
      open_spell(&r, &groups, out);
    } else if (c == ')' && groups.count > 1) {
      groups.count--;
      buffer_repeat(out, ')', 1 + groups.more[groups.count]);
      atom = groups.begin[groups.count];
      r.at++;
    } else {
      buffer_format(out, c == '^' || c == '$' ? "(?m:%c)" : "%c", c);
      r.at++;
    }
  }
  buffer_repeat(out, ')', groups.more[0]);
  *what = r.what;
  return !r.what;
}
