// library_once.c: see library_once.h. Trees are the same for all texts but for the number of the source file in spans.
#include "tests/fuzz/library_once.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lang/ast.h"
#include "lang/stdlib.h"

enum { SLOTS = 1 << 13, PARTS = 16, SOURCES = 16, LONGEST = 4096 };

Ast *__real_parse_file(Arena *arena, Names *names, Diag *diag, int file, CommentList *comments);
Ast *__wrap_parse_file(Arena *arena, Names *names, Diag *diag, int file, CommentList *comments);
Name __real_name_of_bytes(Names *names, const char *bytes, size_t length);
Name __wrap_name_of_bytes(Names *names, const char *bytes, size_t length);
Name __wrap_name_of(Names *names, const char *text);
Name __wrap_name_format(Names *names, const char *format, ...);

static const Names *current;
static Arena *forever;
static Names *library_names;
static Name slots[SLOTS];
static Ast *trees[PARTS][SOURCES];

// --- names ---

static Name *slot_of(const char *bytes, size_t length) {
  uint32_t hash = 2166136261u;
  for (size_t i = 0; i < length; i++) {
    hash = (hash ^ (unsigned char)bytes[i]) * 16777619u;
  }
  uint32_t at = hash & (SLOTS - 1);
  while (slots[at] && (strncmp(slots[at], bytes, length) != 0 || slots[at][length] != '\0')) {
    at = (at + 1) & (SLOTS - 1);
  }
  return &slots[at];
}

Name __wrap_name_of_bytes(Names *names, const char *bytes, size_t length) {
  if (names == library_names) {
    Name *slot = slot_of(bytes, length);
    *slot = __real_name_of_bytes(names, bytes, length);
    return *slot;
  }
  const Name found = names == current ? *slot_of(bytes, length) : NULL;
  return found ? found : __real_name_of_bytes(names, bytes, length);
}

Name __wrap_name_of(Names *names, const char *text) {
  return __wrap_name_of_bytes(names, text, strlen(text));
}

Name __wrap_name_format(Names *names, const char *format, ...) {
  char small[LONGEST];
  va_list args;
  va_start(args, format);
  const int length = vsnprintf(small, sizeof small, format, args);
  va_end(args);
  if ((size_t)length < sizeof small) {
    return __wrap_name_of_bytes(names, small, (size_t)length);
  }
  char *large = malloc((size_t)length + 1);
  if (!large) {
    abort();
  }
  va_start(args, format);
  vsnprintf(large, (size_t)length + 1, format, args);
  va_end(args);
  const Name name = __wrap_name_of_bytes(names, large, (size_t)length);
  free(large);
  return name;
}

// --- trees ---

static Ast *parse(int part, int file) {
  const StdlibFile *of = &stdlib_files[part];
  Diag *diag = diag_create(forever);
  for (int i = 0; i < file; i++) {
    diag_add_source(diag, "", "", 0);
  }
  Ast *tree =
      __real_parse_file(forever, library_names, diag, diag_add_source(diag, of->name, of->text, of->length), NULL);
  if (diag->reports > 0) {
    fprintf(stderr, "std.%s cannot be parsed\n", of->name);
    abort();
  }
  return tree;
}

Ast *__wrap_parse_file(Arena *arena, Names *names, Diag *diag, int file, CommentList *comments) {
  for (int part = 0; names == current && !comments && file < SOURCES && part < PARTS && stdlib_files[part].name;
       part++) {
    if (diag->sources.at[file].text == stdlib_files[part].text) {
      if (!trees[part][file]) {
        trees[part][file] = parse(part, file);
      }
      return trees[part][file];
    }
  }
  return __real_parse_file(arena, names, diag, file, comments);
}

void library_once(const Names *names) {
  current = names;
  if (!forever) {
    forever = arena_create();
    library_names = names_create(forever);
    for (int part = 0; part < PARTS && stdlib_files[part].name; part++) {
      trees[part][1] = parse(part, 1);  // so that no name joins the library's later
    }
  }
}
