// model_text.c: declarations of a resolved text, from the model on.
#include "runtime/convert/model_text.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>
#include <xxhash.h>

#include "base/array.h"

typedef struct {
  const char *text;
  int length;
  const char *name;  // of a function
  int name_length;
  bool is;  // is it the model's?
  bool seen;
} Declared;

typedef ARRAY(Declared) DeclaredList;

static bool in_name(char c) {
  return isalnum((unsigned char)c) || c == '_';
}

// The formatted text: declarations begin at the margin.
static void collect(Arena *arena, const char *text, DeclaredList *list) {
  for (const char *at = text, *end; *at; at = end) {
    for (end = at + strcspn(at, "\n"); *end == '\n' && (end[1] == ' ' || end[1] == '\n' || end[1] == '}');) {
      end += 1 + strcspn(end + 1, "\n");
    }
    end += *end == '\n';
    Declared one = {.text = at, .length = (int)(end - at), .is = strncmp(at, "model ", 6) == 0};
    if (strncmp(at, "fn ", 3) == 0) {
      one.name = at + 3;
      while (in_name(one.name[one.name_length])) {
        one.name_length++;
      }
    }
    array_push(arena, list, one);
  }
}

static bool calls(const Declared *caller, const Declared *called) {
  const int length = called->name_length;
  for (int i = 1; i + length < caller->length; i++) {
    const char *at = caller->text + i;
    if (at[length] == '(' && !in_name(at[-1]) && strncmp(at, called->name, (size_t)length) == 0) {
      return true;
    }
  }
  return false;
}

// Marks what the marked ones call, until there is no more.
static void mark(DeclaredList *list) {
  for (bool more = true; more;) {
    more = false;
    for (int i = 0; i < list->count; i++) {
      Declared *caller = &list->at[i];
      if (!caller->is || caller->seen) {
        continue;
      }
      caller->seen = more = true;
      for (int k = 0; k < list->count; k++) {
        Declared *called = &list->at[k];
        called->is = called->is || (called->name_length > 0 && calls(caller, called));
      }
    }
  }
}

uint64_t model_text_hash(Arena *arena, const char *resolved) {
  static const char entry[] = "\n  model ";
  DeclaredList all = {0};
  if (!resolved) {
    return 0;
  }
  collect(arena, resolved, &all);
  mark(&all);
  uint64_t hash = 0;
  const char *chosen = strstr(resolved, entry);  // with constants
  const char *end = chosen ? strchr(chosen, ';') : NULL;
  if (end) {
    hash = XXH3_64bits(chosen, (size_t)(end - chosen));
  }
  for (int i = 0; i < all.count; i++) {
    if (all.at[i].is) {
      int length = all.at[i].length;
      while (length > 0 && all.at[i].text[length - 1] == '\n') {
        length--;
      }
      hash = XXH3_64bits_withSeed(all.at[i].text, (size_t)length, hash);
    }
  }
  return hash | 1;
}
