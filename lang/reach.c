// reach.c: walking syntax trees and the declarations that they use.
#include "lang/reach.h"

#include <ctype.h>
#include <string.h>

// Selectors that are classes of parameters and not names in the text.
static const char *const classes[] = {"norm", "bias"};
enum { CLASS_COUNT = sizeof classes / sizeof *classes };

bool reach_has(const NameArray *names, Name name) {
  for (int i = 0; i < names->count; i++) {
    if (names->at[i] == name) {
      return true;
    }
  }
  return false;
}

static void add(const Reach *reach, NameArray *names, Name name) {
  if (name && !reach_has(names, name)) {
    array_push(reach->unit->arena, names, name);
  }
}

Name reach_axis_name(const Reach *reach, const ReachAxis *axis) {
  return axis->function ? name_format(reach->unit->names, "%s.%s", axis->function, axis->ast->name) : axis->ast->name;
}

const Ast *reach_axis(const Reach *reach, Name name) {
  const char *dot = strchr(name, '.');
  Name function = dot ? name_of_bytes(reach->unit->names, name, (size_t)(dot - name)) : NULL;
  Name axis = dot ? name_of(reach->unit->names, dot + 1) : name;
  for (int i = 0; i < reach->axes.count; i++) {
    if (reach->axes.at[i].ast->name == axis && reach->axes.at[i].function == function) {
      return reach->axes.at[i].ast;
    }
  }
  return NULL;
}

static void visit(Reach *reach, Name name) {
  const Declaration *declaration = unit_find(reach->unit, SPACE_CODE, name);
  if (!declaration) {
    return;
  }
  for (int i = 0; i < reach->declarations.count; i++) {
    if (reach->declarations.at[i] == declaration->ast) {
      return;
    }
  }
  array_push(reach->unit->arena, &reach->declarations, declaration->ast);
  Name function = reach->function;
  reach->function = NULL;
  reach_from(reach, declaration->ast);
  reach->function = function;
}

static void visit_argument(Reach *reach, const Ast *argument) {
  const Ast *value = argument->kids[0];
  if (argument->name && strcmp(argument->name, "name") == 0 && (value->kind == AST_NAME || value->kind == AST_STRING)) {
    add(reach, &reach->parts, value->name);
  }
}

static void visit_node(Reach *reach, const Ast *ast) {
  switch (ast->kind) {
    case AST_AXIS:
      array_push(reach->unit->arena, &reach->axes, ((ReachAxis){ast, reach->function}));
      break;
    case AST_PARAM:
    case AST_STATE:
      add(reach, &reach->parts, ast->name);
      break;
    case AST_ASSIGN:
      for (int i = 0; i < ast->kids[0]->count; i++) {
        add(reach, &reach->parts, ast->kids[0]->kids[i]->name);
      }
      break;
    case AST_REPEAT:
      add(reach, &reach->repeats, ast->kids[0]->kind == AST_NAME ? ast->kids[0]->name : NULL);
      break;
    case AST_LABEL:
      add(reach, &reach->labels, ast->name);
      break;
    case AST_CALL:
      add(reach, &reach->functions, ast->name);
      visit(reach, ast->name);
      break;
    case AST_NAME:
      visit(reach, ast->name);
      break;
    case AST_ARGUMENT:
      visit_argument(reach, ast);
      break;
    default:
      break;
  }
}

void reach_from(Reach *reach, const Ast *ast) {
  if (!ast) {
    return;
  }
  Name function = reach->function;
  if (ast->kind == AST_FUNCTION || ast->kind == AST_UPDATE) {
    reach->function = ast->name;
  }
  visit_node(reach, ast);
  for (int i = 0; i < ast->count; i++) {
    reach_from(reach, ast->kids[i]);
  }
  reach->function = function;
}

// ---- Selectors

static bool is_class(const char *part) {
  for (int i = 0; i < CLASS_COUNT; i++) {
    if (strcmp(classes[i], part) == 0) {
      return true;
    }
  }
  return false;
}

static bool is_number(const char *part) {
  return isdigit((unsigned char)part[0]);
}

static bool known_part(const Reach *reach, const char *part) {
  Name name = name_of(reach->unit->names, part);
  return strcmp(part, "*") == 0 || is_number(part) || is_class(part) || reach_has(&reach->parts, name) ||
         reach_has(&reach->functions, name) || reach_has(&reach->repeats, name);
}

// The parts of a dotted path, at most `most`.
static int split(const Reach *reach, Name selector, const char **parts, int most) {
  int count = 0;
  const char *at = selector;
  while (count < most) {
    const char *dot = strchr(at, '.');
    parts[count++] = name_of_bytes(reach->unit->names, at, dot ? (size_t)(dot - at) : strlen(at));
    if (!dot) {
      break;
    }
    at = dot + 1;
  }
  return count;
}

enum { MOST_PARTS = 64, MOST_CANDIDATES = 1024 };

bool reach_selector(const Reach *reach, Name selector) {
  if (selector[0] == '@') {
    return reach_has(&reach->labels, name_of(reach->unit->names, selector + 1));
  }
  const char *parts[MOST_PARTS];
  int count = split(reach, selector, parts, MOST_PARTS);
  for (int i = 0; i < count; i++) {
    if (!known_part(reach, parts[i])) {
      return false;
    }
  }
  return true;
}

static int add_candidates(const char **candidates, int count, const NameArray *names) {
  for (int i = 0; i < names->count && count < MOST_CANDIDATES; i++) {
    candidates[count++] = names->at[i];
  }
  return count;
}

static const char *closest_part(const Reach *reach, const char *part) {
  const char *candidates[MOST_CANDIDATES];
  int count = 0;
  for (; count < CLASS_COUNT; count++) {
    candidates[count] = classes[count];
  }
  count = add_candidates(candidates, count, &reach->repeats);
  count = add_candidates(candidates, count, &reach->functions);
  count = add_candidates(candidates, count, &reach->parts);
  return text_closest(part, candidates, count);
}

const char *reach_closest(const Reach *reach, Name selector) {
  Arena *arena = reach->unit->arena;
  if (selector[0] == '@') {
    const char *label = text_closest(selector + 1, reach->labels.at, reach->labels.count);
    return label ? arena_format(arena, "@%s", label) : NULL;
  }
  const char *parts[MOST_PARTS], *text = "";
  int count = split(reach, selector, parts, MOST_PARTS);
  bool changed = false;
  for (int i = 0; i < count; i++) {
    const char *part = parts[i];
    if (!changed && !known_part(reach, part)) {
      part = closest_part(reach, part);
      changed = true;
    }
    if (!part) {
      return NULL;
    }
    text = arena_format(arena, "%s%s%s", text, i ? "." : "", part);
  }
  return changed ? text : NULL;
}

bool reach_check(const Reach *reach, const Ast *selector, const char *what) {
  if (reach_selector(reach, selector->name)) {
    return true;
  }
  Diag *diag = reach->unit->diag;
  Diagnostic *error =
      diag_error(diag, E015, selector->span, "the model has nothing called '%s' %s", selector->name, what);
  const char *closest = reach_closest(reach, selector->name);
  if (closest) {
    diag_help(diag, error, "did you mean `%s`?", closest);
  } else {
    diag_help(diag, error, "name a function, a repeated axis, a label, or a part of a path");
  }
  return false;
}
