// mutate.c: tokens of a text, and what is done to them.
#include "tests/fuzz/mutate.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#include "base/arena.h"
#include "base/array.h"
#include "tests/fuzz/patterns.h"
#include "tests/splitmix.h"

typedef enum { PIECE_NAME, PIECE_NUMBER, PIECE_LABEL, PIECE_STRING, PIECE_MARK } PieceKind;

typedef struct {
  PieceKind kind;
  bool line;  // begins a line
  const char *at;
  size_t length;
} Piece;

typedef ARRAY(Piece) Pieces;

typedef struct {
  Arena *arena;
  uint64_t state;
  Pieces text, other;
} Mutation;

typedef struct {
  int begin, end;
} Range;

#define COUNT(list) ((int)(sizeof(list) / sizeof *(list)))

// ---- Chance

static uint64_t draw(Mutation *m) {
  return splitmix64(&m->state);
}

static int below(Mutation *m, int count) {
  return count > 0 ? (int)(draw(m) % (uint64_t)count) : 0;
}

// ---- Pieces

static size_t piece_length(const char *at, const char *end, PieceKind *kind) {
  const char *to = at + 1;
  *kind = PIECE_MARK;
  if (isalpha((unsigned char)*at) || *at == '_' || (*at == '@' && to < end && isalpha((unsigned char)*to))) {
    *kind = *at == '@' ? PIECE_LABEL : PIECE_NAME;
    while (to < end && (isalnum((unsigned char)*to) || *to == '_' || *to == '\'')) {
      to++;
    }
  } else if (isdigit((unsigned char)*at)) {
    *kind = PIECE_NUMBER;
    while (to < end && (isdigit((unsigned char)*to) || (*to == '.' && to + 1 < end && isdigit((unsigned char)to[1])) ||
                        *to == 'e' || (*to == '-' && to[-1] == 'e'))) {
      to++;
    }
  } else if (*at == '"') {
    *kind = PIECE_STRING;
    while (to < end && *to != '"' && *to != '\n') {
      to++;
    }
    to += to < end;
  } else if (to < end && memchr("->..<=>===!=", *at, 12) &&
             (memcmp(at, "->", 2) == 0 || memcmp(at, "..", 2) == 0 || *to == '=')) {
    to++;
  }
  return (size_t)(to - at);
}

static void split(Mutation *m, const char *text, size_t length, Pieces *pieces) {
  const char *end = text + length;
  bool line = false;
  for (const char *at = text; at < end;) {
    if (isspace((unsigned char)*at)) {
      line |= *at++ == '\n';
    } else if (*at == '/' && at + 1 < end && at[1] == '/') {
      const char *next = memchr(at, '\n', (size_t)(end - at));
      at = next ? next : end;
    } else {
      Piece piece = {.line = line, .at = at};
      piece.length = piece_length(at, end, &piece.kind);
      array_push(m->arena, pieces, piece);
      at += piece.length;
      line = false;
    }
  }
}

static bool is(const Piece *piece, const char *word) {
  return strlen(word) == piece->length && memcmp(piece->at, word, piece->length) == 0;
}

static bool same(const Piece *a, const Piece *b) {
  return a->length == b->length && memcmp(a->at, b->at, a->length) == 0;
}

static Piece piece_of(const char *word) {
  PieceKind kind;
  Piece piece = {.at = word, .length = strlen(word)};
  piece_length(word, word + piece.length, &kind);
  piece.kind = kind;
  return piece;
}

// Puts `count` pieces in the place of a range.
static void replace(Mutation *m, Range range, const Piece *pieces, int count) {
  Pieces made = {0};
  for (int i = 0; i < range.begin; i++) {
    array_push(m->arena, &made, m->text.at[i]);
  }
  for (int i = 0; i < count; i++) {
    array_push(m->arena, &made, pieces[i]);
  }
  for (int i = range.end; i < m->text.count; i++) {
    array_push(m->arena, &made, m->text.at[i]);
  }
  m->text = made;
}

// ---- Finding things

static int find_kind(Mutation *m, PieceKind kind) {
  int start = below(m, m->text.count);
  for (int i = 0; i < m->text.count; i++) {
    int at = (start + i) % m->text.count;
    if (m->text.at[at].kind == kind) {
      return at;
    }
  }
  return -1;
}

static bool ends(const Piece *piece) {
  return is(piece, ";") || is(piece, "{") || is(piece, "}");
}

// A statement or block that begins at a drawn place; `begin` = `end` if there is none.
static Range find_statement(Mutation *m, const Pieces *pieces) {
  int at = below(m, pieces->count), depth = 0;
  while (at > 0 && !ends(&pieces->at[at - 1])) {
    at--;
  }
  Range range = {at, at};
  for (int i = at; i < pieces->count; i++) {
    const Piece *piece = &pieces->at[i];
    depth += is(piece, "{");
    depth -= is(piece, "}");
    if (depth < 0) {
      break;
    }
    if (depth == 0 && (is(piece, ";") || is(piece, "}"))) {
      range.end = i + 1;
      break;
    }
  }
  return range;
}

// Where a statement may be put: behind `;`, `{` or `}`; inside of a layout, if that is asked for.
static int find_place(Mutation *m, bool in_layout) {
  int start = below(m, m->text.count);
  for (int i = 0; i < m->text.count; i++) {
    int at = (start + i) % m->text.count;
    if (in_layout ? at + 2 < m->text.count && is(&m->text.at[at], "layout") && is(&m->text.at[at + 2], "{")
                  : ends(&m->text.at[at])) {
      return in_layout ? at + 3 : at + 1;
    }
  }
  return -1;
}

static Piece mesh_name(Mutation *m) {
  Pieces found = {0};
  for (int i = 0; i + 2 < m->text.count; i++) {
    if (is(&m->text.at[i], "mesh")) {
      for (int j = i + 1; j + 1 < m->text.count && !is(&m->text.at[j], ";"); j++) {
        if (is(&m->text.at[j + 1], "=")) {
          array_push(m->arena, &found, m->text.at[j]);
        }
      }
    }
  }
  return found.count ? found.at[below(m, found.count)] : piece_of("m");
}

// Names behind `axis`.
static Piece axis_name(Mutation *m) {
  Pieces found = {0};
  for (int i = 0; i + 1 < m->text.count; i++) {
    for (int j = i + 1; is(&m->text.at[i], "axis") && j < m->text.count && !is(&m->text.at[j], ";"); j++) {
      if (m->text.at[j].kind == PIECE_NAME && (j == i + 1 || is(&m->text.at[j - 1], ","))) {
        array_push(m->arena, &found, m->text.at[j]);
      }
    }
  }
  return found.count ? found.at[below(m, found.count)] : piece_of("batch");
}

static Piece drawn(Mutation *m, PieceKind kind, const char *otherwise) {
  int at = find_kind(m, kind);
  Piece piece = at < 0 ? piece_of(otherwise) : m->text.at[at];
  piece.line = false;
  return piece;
}

// ---- Changes

static void fill(Mutation *m, const char *pattern, Pieces *made) {
  split(m, pattern, strlen(pattern), made);
  for (int i = 0; i < made->count; i++) {
    Piece *piece = &made->at[i];
    if (is(piece, "A")) {
      *piece = below(m, 3) ? axis_name(m) : drawn(m, PIECE_NAME, "x");
      piece->line = false;
    } else if (is(piece, "M")) {
      *piece = mesh_name(m);
    } else if (is(piece, "N")) {
      *piece = piece_of(numbers[below(m, COUNT(numbers))]);
    } else if (is(piece, "L")) {
      *piece = drawn(m, PIECE_LABEL, "@l");
    }
  }
  if (made->count) {
    made->at[0].line = true;
  }
}

static void put_pattern(Mutation *m, const char *pattern, bool in_layout) {
  int at = find_place(m, in_layout);
  Pieces made = {0};
  if (at >= 0) {
    fill(m, pattern, &made);
    replace(m, (Range){at, at}, made.at, made.count);
  }
}

static void new_layout(Mutation *m) {
  const char *mesh[] = {"layout drawn { mesh m = 2;", "layout drawn { mesh m = 3, n = 2;", "layout drawn { mesh m = 4;",
                        "layout drawn { mesh m = 1, n = 5;"};
  Pieces made = {0};
  fill(m, mesh[below(m, COUNT(mesh))], &made);
  for (int i = below(m, 6); i >= 0; i--) {
    Pieces one = {0};
    fill(m, settings[below(m, COUNT(settings))], &one);
    for (int j = 0; j < one.count; j++) {
      array_push(m->arena, &made, one.at[j]);
    }
  }
  array_push(m->arena, &made, piece_of("}"));
  replace(m, (Range){m->text.count, m->text.count}, made.at, made.count);
}

static void change_number(Mutation *m) {
  int at = find_kind(m, PIECE_NUMBER);
  if (at >= 0) {
    Piece piece = piece_of(numbers[below(m, COUNT(numbers))]);
    piece.kind = PIECE_NUMBER;
    m->text.at[at] = piece;
  }
}

static void change_name(Mutation *m) {
  int at = find_kind(m, PIECE_NAME), from = find_kind(m, PIECE_NAME);
  if (at >= 0) {
    Piece piece = m->text.at[from];
    piece.line = m->text.at[at].line;
    m->text.at[at] = piece;
  }
}

// Two names, each in the place of the other; or one in the place of both.
static void swap_names(Mutation *m) {
  int one = find_kind(m, PIECE_NAME), two = find_kind(m, PIECE_NAME);
  if (one < 0) {
    return;
  }
  Piece a = m->text.at[one], b = m->text.at[two];
  bool both = below(m, 2);
  for (int i = 0; i < m->text.count; i++) {
    Piece *piece = &m->text.at[i];
    const Piece *with = same(piece, &a) ? &b : both && same(piece, &b) ? &a : NULL;
    if (with) {
      piece->at = with->at;
      piece->length = with->length;
    }
  }
}

static void swap_pieces(Mutation *m) {
  int at = below(m, m->text.count), with = below(m, 2) ? below(m, m->text.count) : at + 1;
  if (with < m->text.count) {
    Piece piece = m->text.at[at];
    m->text.at[at] = m->text.at[with];
    m->text.at[with] = piece;
  }
}

static void delete_pieces(Mutation *m) {
  int at = below(m, m->text.count), end = at + 1 + below(m, 4);
  replace(m, (Range){at, end < m->text.count ? end : m->text.count}, NULL, 0);
}

static void repeat_piece(Mutation *m) {
  int at = below(m, m->text.count), times = below(m, 20) ? 1 : 1 + below(m, 300);
  Pieces made = {0};
  for (int i = 0; i < times; i++) {
    array_push(m->arena, &made, m->text.at[at]);
  }
  replace(m, (Range){at, at}, made.at, made.count);
}

static void put_mark(Mutation *m) {
  Piece piece = piece_of(marks[below(m, COUNT(marks))]);
  int at = find_kind(m, PIECE_MARK), kept = below(m, 2);
  if (at >= 0) {
    replace(m, (Range){at + kept, at + 1}, &piece, 1);
  }
}

// Deletes, copies or moves a statement or a block; `pieces`: where it comes from.
static void move_statement(Mutation *m, bool copy, bool other) {
  const Pieces *pieces = other && m->other.count ? &m->other : &m->text;
  Range range = find_statement(m, pieces);
  Pieces kept = {0};
  for (int i = range.begin; i < range.end; i++) {
    array_push(m->arena, &kept, pieces->at[i]);
  }
  if (!copy && pieces == &m->text) {
    replace(m, range, NULL, 0);
  }
  int at = m->text.count ? find_place(m, false) : 0;
  if (at >= 0 && kept.count) {
    replace(m, (Range){at, at}, kept.at, kept.count);
  }
}

// A name of one statement everywhere in another text's statement is unlikely to fit: an axis of this text fits better.
static void rename_in_statement(Mutation *m) {
  Range range = find_statement(m, &m->text);
  Piece from = drawn(m, PIECE_NAME, "x"), to = drawn(m, PIECE_NAME, "x");
  for (int i = range.begin; i < range.end; i++) {
    if (same(&m->text.at[i], &from) || (m->text.at[i].kind == PIECE_NAME && below(m, 12) == 0)) {
      m->text.at[i].at = to.at;
      m->text.at[i].length = to.length;
    }
  }
}

static void wrap(Mutation *m) {
  static const char *const pairs[][2] = {{"(", ")"}, {"[", "]"}, {"{", "}"}, {"-", ""}, {"sum(", ")"}, {"stop(", ")"}};
  int at = find_kind(m, PIECE_NAME), times = below(m, 10) ? 1 : below(m, 400), which = below(m, COUNT(pairs));
  if (at < 0) {
    return;
  }
  Pieces made = {0};
  for (int i = 0; i < times; i++) {
    split(m, pairs[which][0], strlen(pairs[which][0]), &made);
  }
  array_push(m->arena, &made, m->text.at[at]);
  for (int i = 0; i < times; i++) {
    split(m, pairs[which][1], strlen(pairs[which][1]), &made);
  }
  replace(m, (Range){at, at + 1}, made.at, made.count);
}

static void change(Mutation *m) {
  switch (below(m, 24)) {
    case 0:
      swap_pieces(m);
      break;
    case 1:
      delete_pieces(m);
      break;
    case 2:
      repeat_piece(m);
      break;
    case 3:
      put_mark(m);
      break;
    case 4:
    case 5:
    case 6:
      change_number(m);
      break;
    case 7:
    case 8:
      change_name(m);
      break;
    case 9:
      swap_names(m);
      break;
    case 10:
      wrap(m);
      break;
    case 11:
      replace(m, find_statement(m, &m->text), NULL, 0);
      break;
    case 12:
      move_statement(m, false, false);
      break;
    case 13:
      move_statement(m, true, false);
      break;
    case 14:
    case 15:
      move_statement(m, true, true);
      break;
    case 16:
      rename_in_statement(m);
      break;
    case 17:
    case 18:
      new_layout(m);
      break;
    case 19:
    case 20:
    case 21:
      put_pattern(m, settings[below(m, COUNT(settings))], true);
      break;
    default:
      put_pattern(m, statements[below(m, COUNT(statements))], false);
  }
}

// ---- Bytes

static void change_bytes(Mutation *m, char *text, size_t length) {
  for (int i = below(m, 4); i >= 0 && length > 0; i--) {
    size_t at = (size_t)(draw(m) % length);
    text[at] = (char)(below(m, 2) ? draw(m) : (uint64_t)text[at] ^ (1u << below(m, 8)));
  }
}

static size_t join(const Pieces *pieces, char *out, size_t most) {
  size_t length = 0;
  for (int i = 0; i < pieces->count; i++) {
    const Piece *piece = &pieces->at[i];
    if (length + piece->length + 2 > most) {
      break;
    }
    bool apart = i > 0 && !is(piece, ";") && !is(piece, ",");
    if (piece->line || apart) {
      out[length++] = piece->line ? '\n' : ' ';
    }
    memcpy(out + length, piece->at, piece->length);
    length += piece->length;
  }
  return length;
}

// Of many layouts one or two stay: the others would only be compiled as they always are.
static void leave_layouts_out(Mutation *m) {
  int count = 0;
  for (int i = 0; i + 2 < m->text.count; i++) {
    count += is(&m->text.at[i], "layout") && is(&m->text.at[i + 2], "{");
  }
  for (int i = m->text.count - 3; i >= 0 && count > 2; i--) {
    if (i + 2 < m->text.count && is(&m->text.at[i], "layout") && is(&m->text.at[i + 2], "{") && below(m, count) > 1) {
      int end = i;
      while (end < m->text.count && !is(&m->text.at[end], "}")) {
        end++;
      }
      replace(m, (Range){i, end < m->text.count ? end + 1 : end}, NULL, 0);
    }
  }
}

size_t mutate(uint64_t seed, const char *text, size_t length, const char *other, size_t other_length, char *out,
              size_t most) {
  Mutation m = {.arena = arena_create(), .state = seed};
  size_t made = 0;
  if (below(&m, 50) == 0) {
    made = length < most ? length : most;
    memcpy(out, text, made);
    change_bytes(&m, out, made);
  } else {
    split(&m, text, length, &m.text);
    split(&m, other ? other : "", other ? other_length : 0, &m.other);
    leave_layouts_out(&m);
    int times = below(&m, 3) ? 1 : 1 + below(&m, 4);
    for (int i = 0; i < times && m.text.count > 0; i++) {
      change(&m);
    }
    made = join(&m.text, out, most);
  }
  arena_destroy(m.arena);
  return made;
}
