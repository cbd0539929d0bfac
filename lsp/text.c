// text.c: places in texts as editors count them, and files as editors name them.
#include "lsp/text.h"

#include <ctype.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"

// Where the line that begins at `at` ends, without its `\n`, `\r\n` or `\r`.
static size_t line_end(const char *text, size_t length, size_t at) {
  while (at < length && text[at] != '\n' && text[at] != '\r') {
    at++;
  }
  return at;
}

// Behind the end of a line; `end` is in front of it.
static size_t next_line(const char *text, size_t length, size_t end) {
  if (end < length && text[end] == '\r' && end + 1 < length && text[end + 1] == '\n') {
    return end + 2;
  }
  return end < length ? end + 1 : end;
}

// The bytes of the character at `at`, and how many UTF-16 code units it has. A byte that is no UTF-8 is one of each.
static size_t character(const char *text, size_t length, size_t at, size_t *units) {
  const unsigned char first = (unsigned char)text[at];
  const size_t bytes = first < 0xc0 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  *units = bytes == 4 ? 2 : 1;
  for (size_t i = 1; i < bytes; i++) {
    if (at + i >= length || ((unsigned char)text[at + i] & 0xc0) != 0x80) {
      *units = 1;
      return 1;
    }
  }
  return bytes;
}

size_t text_offset(const char *text, size_t length, Position position, Encoding encoding) {
  size_t at = 0;
  for (size_t line = 0; line < position.line; line++) {
    const size_t end = line_end(text, length, at);
    if (end == length) {
      return length;
    }
    at = next_line(text, length, end);
  }
  const size_t end = line_end(text, length, at);
  for (size_t passed = 0; at < end && passed < position.character;) {
    size_t units;
    const size_t bytes = character(text, length, at, &units);
    passed += encoding == ENCODING_UTF8 ? bytes : units;
    if (passed > position.character) {
      break;  // inside of a character
    }
    at += bytes;
  }
  return at;
}

// A character, or the end of a line, in a text, and where editors see it.
typedef struct {
  size_t at;
  Position position;
} Mark;

// On to `offset`, or just behind it where that is inside of a character; `\r\n` is passed as one.
static void mark_move(Mark *mark, const char *text, size_t length, size_t offset, Encoding encoding) {
  while (mark->at < offset) {
    if (text[mark->at] == '\n' || text[mark->at] == '\r') {
      const size_t next = next_line(text, length, mark->at);
      if (next > offset) {
        break;
      }
      *mark = (Mark){next, {mark->position.line + 1, 0}};
      continue;
    }
    size_t units;
    const size_t bytes = character(text, length, mark->at, &units);
    mark->position.character += encoding == ENCODING_UTF8 ? bytes : units;
    mark->at += bytes;
  }
}

Position text_position(const char *text, size_t length, size_t offset, Encoding encoding) {
  Mark mark = {0};
  mark_move(&mark, text, length, offset < length ? offset : length, encoding);
  return mark.position;
}

struct Places {
  const char *text;
  size_t length;
  Encoding encoding;
  Mark marks[];  // one for each MARK_APART bytes
};

enum { MARK_APART = 4096 };

Places *places_create(Arena *arena, const char *text, size_t length, Encoding encoding) {
  Places *places = arena_alloc(arena, sizeof *places + (length / MARK_APART + 1) * sizeof *places->marks);
  Mark mark = {0};
  *places = (Places){.text = text, .length = length, .encoding = encoding};
  for (size_t i = 0; i <= length / MARK_APART; i++) {
    mark_move(&mark, text, length, i * MARK_APART, encoding);
    places->marks[i] = mark;
  }
  return places;
}

static Position place(const Places *places, size_t offset) {
  offset = offset < places->length ? offset : places->length;
  size_t i = offset / MARK_APART;
  i -= places->marks[i].at > offset;
  Mark mark = places->marks[i];
  mark_move(&mark, places->text, places->length, offset, places->encoding);
  return mark.position;
}

json_t *position_json(Position position) {
  return json_pack("{s:I, s:I}", "line", (json_int_t)position.line, "character", (json_int_t)position.character);
}

bool position_read(const json_t *json, Position *position) {
  const json_t *line = json_object_get(json, "line"), *within = json_object_get(json, "character");
  if (!json_is_integer(line) || !json_is_integer(within) || json_integer_value(line) < 0 ||
      json_integer_value(within) < 0) {
    return false;
  }
  *position = (Position){(size_t)json_integer_value(line), (size_t)json_integer_value(within)};
  return true;
}

static json_t *range_of(Position begin, Position end) {
  return json_pack("{s:o, s:o}", "start", position_json(begin), "end", position_json(end));
}

json_t *range_json(const char *text, size_t length, size_t begin, size_t end, Encoding encoding) {
  return range_of(text_position(text, length, begin, encoding), text_position(text, length, end, encoding));
}

json_t *places_range(const Places *places, size_t begin, size_t end) {
  return range_of(place(places, begin), place(places, end));
}

static bool in_word(char c) {
  return isalnum((unsigned char)c) || c == '_' || c == '\'';
}

bool text_word(const char *text, size_t length, size_t offset, size_t *begin, size_t *end) {
  *begin = *end = offset < length ? offset : length;
  if (*begin < length && text[*begin] == '@') {
    *end = ++*begin;
  }
  while (*begin > 0 && in_word(text[*begin - 1])) {
    --*begin;
  }
  while (*end < length && in_word(text[*end])) {
    ++*end;
  }
  const bool word = *end > *begin && !isdigit((unsigned char)text[*begin]);
  if (word && *begin > 0 && text[*begin - 1] == '@') {
    --*begin;
  }
  return word;
}

// --- URIs ---

static int hex_digit(char c) {
  return c >= '0' && c <= '9'   ? c - '0'
         : c >= 'a' && c <= 'f' ? c - 'a' + 10
         : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                : -1;
}

const char *uri_path(Arena *arena, const char *uri) {
  static const char scheme[] = "file://";
  if (strncmp(uri, scheme, sizeof scheme - 1) != 0) {
    return NULL;
  }
  const char *from = strchr(uri + sizeof scheme - 1, '/');  // behind the host
  if (!from) {
    return NULL;
  }
  char *path = arena_alloc(arena, strlen(from) + 1);
  size_t length = 0;
  for (; *from; from++) {
    const int high = *from == '%' ? hex_digit(from[1]) : -1, low = high >= 0 ? hex_digit(from[2]) : -1;
    if (low >= 0) {
      path[length++] = (char)(high * 16 + low);
      from += 2;
    } else {
      path[length++] = *from;
    }
  }
  return strlen(path) == length ? path : NULL;  // no file's name has a zero byte
}

const char *path_uri(Arena *arena, const char *path) {
  static const char digits[] = "0123456789ABCDEF";
  char *uri = arena_alloc(arena, 3 * strlen(path) + 8);
  size_t length = strlen(strcpy(uri, "file://"));
  for (const char *c = path; *c; c++) {
    const unsigned char byte = (unsigned char)*c;
    if (isalnum(byte) || strchr("/-._~", *c)) {
      uri[length++] = *c;
    } else {
      uri[length++] = '%';
      uri[length++] = digits[byte >> 4];
      uri[length++] = digits[byte & 15];
    }
  }
  return uri;
}

// The number of a `\uXXXX` of JSON at `at`; -1: none stands there.
static long escape_unit(const char *at, const char *end) {
  if (end - at < 6 || at[0] != '\\' || at[1] != 'u' || strspn(at + 2, "0123456789abcdefABCDEF") < 4) {
    return -1;
  }
  const char digits[] = {at[2], at[3], at[4], at[5], '\0'};
  return strtol(digits, NULL, 16);
}

bool text_whole_pairs(char *json, size_t length) {
  const char *end = json + length;
  bool changed = false;
  for (char *at = json; at < end; at++) {
    if (*at != '\\') {
      continue;
    }
    const long unit = escape_unit(at, end);
    const bool high = unit >= 0xd800 && unit < 0xdc00, low = unit >= 0xdc00 && unit < 0xe000;
    const long next = high ? escape_unit(at + 6, end) : -1;
    if (high && next >= 0xdc00 && next < 0xe000) {
      at += 11;
    } else if (high || low) {
      memcpy(at + 2, "fffd", 4);
      at += 5;
      changed = true;
    } else {
      at++;  // what is behind a backslash begins nothing
    }
  }
  return changed;
}
