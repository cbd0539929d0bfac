// settings_dotted.c: --set of an argument of a call in a setting, such as optimizer.lr.peak.
#include <ctype.h>
#include <string.h>

#include "lang/settings_rules.h"

// The place of an argument among the parameters that the call's function or update has; -1: it has none of this name.
// The parameter and the gradient, which come first in an update, are given to it.
static int place_of(const Unit *unit, const Ast *call, Name name) {
  const Declaration *called = call->name ? unit_find(unit, SPACE_CODE, call->name) : NULL;
  const bool update = called && called->ast->kind == AST_UPDATE;
  const Ast *formals = update || (called && called->ast->kind == AST_FUNCTION) ? called->ast->kids[0] : NULL;
  for (int i = update ? 2 : 0; formals && i < formals->count; i++) {
    if (formals->kids[i]->name == name) {
      return i - (update ? 2 : 0);
    }
  }
  return -1;
}

static Name first_of(Unit *unit, const char *path) {
  return name_of_bytes(unit->names, path, strcspn(path, "."));
}

static const char *rest_of(const char *path) {
  const char *dot = strchr(path, '.');
  return dot ? dot + 1 : NULL;
}

// Given by name or by its place, or NULL.
static Ast *argument_find(const Unit *unit, const Ast *call, Name name) {
  const int place = place_of(unit, call, name);
  const Ast *list = call->kids[0];
  int before = 0;
  for (int i = 0; i < list->count; i++) {
    Ast *argument = list->kids[i];
    if (argument->name ? argument->name == name : before++ == place) {
      return argument;
    }
  }
  return NULL;
}

// What the path leads to, or NULL.
static const Ast *value_at(Unit *unit, const Ast *call, const char *path) {
  const Ast *argument = argument_find(unit, call, first_of(unit, path));
  const Ast *value = argument ? argument->kids[0] : NULL;
  const char *rest = rest_of(path);
  return !rest || !value ? value : value->kind == AST_CALL ? value_at(unit, value, rest) : NULL;
}

// Is the path one of parameters that the call and those within it have?
static bool takes(Unit *unit, const Ast *call, const char *path) {
  const Name name = first_of(unit, path);
  const char *rest = rest_of(path);
  const Ast *argument = place_of(unit, call, name) >= 0 && rest ? argument_find(unit, call, name) : NULL;
  const Ast *value = argument ? argument->kids[0] : NULL;
  return rest ? value && value->kind == AST_CALL && takes(unit, value, rest) : place_of(unit, call, name) >= 0;
}

bool settings_set_argument(Unit *unit, Ast *call, const char *path, Ast *value, Span span) {
  const Name name = first_of(unit, path);
  const char *rest = rest_of(path);
  Ast *argument = argument_find(unit, call, name);
  if (rest) {
    Ast *inner = argument ? argument->kids[0] : NULL;
    return inner && inner->kind == AST_CALL && settings_set_argument(unit, inner, rest, value, span);
  }
  if (argument) {
    argument->kids[0] = value;
    return true;
  }
  argument = ARENA_NEW(unit->arena, Ast);
  *argument = (Ast){.kind = AST_ARGUMENT, .span = span, .name_span = span, .name = name};
  settings_append(unit->arena, argument, value);
  settings_append(unit->arena, call->kids[0], argument);
  return true;
}

// What stands in the text, without blanks.
static const char *written(const Unit *unit, const Ast *ast) {
  const Source *source = ast->span.file >= 0 ? &unit->diag->sources.at[ast->span.file] : NULL;
  char *text = arena_alloc(unit->arena, ast->span.end - ast->span.begin + 1);
  size_t length = 0;
  for (uint32_t i = ast->span.begin; source && i < ast->span.end; i++) {
    text[length] = source->text[i];
    length += !isspace((unsigned char)source->text[i]);
  }
  text[length] = '\0';
  return text;
}

static bool is_set(const Unit *unit, const Ast *ast) {
  return ast && ast->span.file >= 0 && strcmp(unit->diag->sources.at[ast->span.file].path, SETTINGS_SET) == 0;
}

// Does another rule say of the path what the one without selectors says? What --set has said of the one is no sign of
// what the text says of the other.
static bool said_alike(Unit *unit, const Ast *plain, const Ast *before, const Ast *other, const char *path) {
  const Ast *now = value_at(unit, other, path);
  if (!now || !before) {
    return !now && !before && other->name == plain->name;
  }
  if (now->kind == AST_NUMBER && before->kind == AST_NUMBER) {
    return now->number == before->number && !is_set(unit, now);
  }
  return !is_set(unit, now) && strcmp(written(unit, now), written(unit, before)) == 0;
}

// norm.decay, of `optimizer norm, bias: adamw(decay = 0);`: decay; else NULL.
static const char *behind_selector(const Unit *unit, const Ast *setting, const char *path) {
  const Ast *phrases = setting->kids[0];
  const size_t word = strlen(phrase_word(phrases->kids[0]));
  for (int i = 0; setting->kids[1] && i < phrases->count; i++) {
    const char *selector = written(unit, phrases->kids[i]) + (i == 0 ? word : 0);
    const size_t length = strlen(selector);
    if (length > 0 && strncmp(path, selector, length) == 0 && path[length] == '.') {
      return path + length + 1;
    }
  }
  return NULL;
}

typedef struct {
  Ast *setting, *call;
} Rule;

typedef struct {
  Rule *at;
  int count;
  const Rule *plain;  // the rule for all, or NULL
  bool selected;      // the path begins with a selector
} Rules;

static bool is_for_all(const Unit *unit, const Ast *setting) {
  const size_t word = strlen(phrase_word(setting->kids[0]->kids[0]));
  return !setting->kids[1] ||
         (setting->kids[0]->count == 1 && strcmp(written(unit, setting->kids[0]->kids[0]) + word, "*") == 0);
}

static Rules rules_find(Unit *unit, const Ast *recipe, const char *word, size_t length, const char *argument) {
  Rules rules = {.at = ARENA_ARRAY(unit->arena, Rule, recipe->count + 1)};
  for (int i = 0; i < recipe->count; i++) {
    Ast *setting = recipe->kids[i];
    const Name found = phrase_word(setting->kids[0]->kids[0]);
    if (!found || strlen(found) != length || strncmp(found, word, length) != 0) {
      continue;
    }
    Ast *call = settings_call(setting->kids[1] ? setting->kids[1]->kids[0] : setting->kids[0]->kids[0]);
    if (call) {
      Rule *rule = &rules.at[rules.count++];
      *rule = (Rule){setting, call};
      rules.plain = !rules.plain && is_for_all(unit, setting) ? rule : rules.plain;
      rules.selected |= behind_selector(unit, setting, argument) != NULL;
    }
  }
  return rules;
}

bool settings_set_dotted(Unit *unit, Ast *recipe, const char *path, Ast *value, Span span) {
  const size_t length = strcspn(path, ".");
  const char *argument = path + length + 1;
  const Rules rules = rules_find(unit, recipe, path, length, argument);
  const Rule *plain = rules.plain;
  bool others = false, any = false;  // others: they alone have such a parameter
  for (int i = 0; i < rules.count; i++) {
    others |= &rules.at[i] != plain && takes(unit, rules.at[i].call, argument);
  }
  others &= !plain || !takes(unit, plain->call, argument);
  const Ast *before = plain ? value_at(unit, plain->call, argument) : NULL;
  for (int i = 0; i < rules.count; i++) {
    const Rule *rule = &rules.at[i];
    const char *rest = rules.selected ? behind_selector(unit, rule->setting, argument) : argument;
    const bool meant = rules.selected  ? rest != NULL
                       : others        ? takes(unit, rule->call, argument)
                       : rule == plain ? true
                                       : !plain || said_alike(unit, plain->call, before, rule->call, argument);
    any = (meant && settings_set_argument(unit, rule->call, rest, value, span)) || any;
  }
  if (!any) {
    Diagnostic *error = diag_error(unit->diag, E010, span, "the recipe has nothing called '%s'", path);
    diag_help(unit->diag, error, "dotted names follow the recipe, e.g. `optimizer.lr.peak=1e-3`");
  }
  return any;
}
