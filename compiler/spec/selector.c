// selector.c: whether a selector means something that a model makes.
#include "compiler/spec/selector.h"

#include <string.h>

static bool is_everything(Name selector) {
  return strcmp(selector, "*") == 0;
}

bool selector_is_label(Name selector) {
  return selector[0] == '@';
}

int selector_rank(Name selector) {
  if (!selector || selector_is_label(selector)) {
    return selector ? SELECTOR_RANK_LABEL : 0;
  }
  int dots = 0;
  for (const char *c = selector; *c; c++) {
    dots += *c == '.';
  }
  return dots ? 100 + dots : 1;
}

// ---- Paths

// Whether the parts of the pattern are the first parts of path.
static bool path_begins(const char *pattern, const char *path) {
  for (;;) {
    size_t wanted = strcspn(pattern, "."), found = strcspn(path, ".");
    bool any = wanted == 1 && *pattern == '*';
    if (found == 0 || (!any && (wanted != found || strncmp(pattern, path, wanted) != 0))) {
      return false;
    }
    if (!pattern[wanted]) {
      return true;
    }
    if (!path[found]) {
      return false;
    }
    pattern += wanted + 1;
    path += found + 1;
  }
}

static bool path_contains(const char *pattern, const char *path) {
  for (const char *at = path; *at;) {
    if (path_begins(pattern, at)) {
      return true;
    }
    at += strcspn(at, ".");
    at += *at == '.';
  }
  return false;
}

const char *selector_last_part(const char *path) {
  const char *dot = strrchr(path, '.');
  return dot ? dot + 1 : path;
}

// ---- Classes

static bool ends_in(const char *text, const char *end) {
  size_t length = strlen(text), tail = strlen(end);
  return length >= tail && strcmp(text + length - tail, end) == 0;
}

static bool is_bias(Name path) {
  const char *last = selector_last_part(path);
  return strcmp(last, "b") == 0 || strcmp(last, "bias") == 0;
}

// ---- Places

SelectorPlace selector_place(const Graph *graph, const Node *node) {
  SelectorPlace place = {.scope = node->scope};
  if (node->text && op_stored(node->op)) {
    place.tensor = node->text;
  }
  if (node->result_count > 0) {
    const Value *value = graph_value(graph, node->first_result);
    place.label = value->label;
    place.value = place.tensor ? NULL : value->name;
  }
  return place;
}

// Is the scope called so: is it a call of this function, or a round of this repeat?
static bool is_called(const Scope *scope, Name selector) {
  return scope->function && (strcmp(scope->function, selector) == 0 ||
                             (scope->index < 0 && strcmp(selector, "norm") == 0 && ends_in(scope->function, "_norm")));
}

static bool has_path(const Scope *scope, Name selector) {
  return (scope->path && path_contains(selector, scope->path)) ||
         (scope->variable && path_contains(selector, scope->variable));
}

bool selector_matches_scope(const Graph *graph, Name selector, ScopeId scope) {
  if (selector_is_label(selector) || scope < 0) {
    return false;
  }
  for (; scope >= 0; scope = graph->scopes.at[scope].parent) {
    const Scope *at = &graph->scopes.at[scope];
    if (is_everything(selector) || is_called(at, selector) || has_path(at, selector)) {
      return true;
    }
  }
  return false;
}

Name selector_path(const Graph *graph, SelectorPlace place) {
  Name path = place.scope >= 0 ? graph->scopes.at[place.scope].path : "";
  return *path ? name_format(graph->names, "%s.%s", path, place.value) : place.value;
}

// The variable is the last part of its path, so most selectors need no look at the others.
static bool is_value(const Graph *graph, Name selector, SelectorPlace place) {
  const char *last = selector_last_part(selector);
  if (strcmp(last, "*") != 0 && strcmp(last, place.value) != 0) {
    return false;
  }
  return last == selector || path_contains(selector, selector_path(graph, place));
}

bool selector_matches_itself(const Graph *graph, Name selector, SelectorPlace place) {
  if (selector_is_label(selector)) {
    return place.label && strcmp(selector + 1, place.label) == 0;
  }
  if (place.tensor) {
    return path_contains(selector, place.tensor) || (strcmp(selector, "bias") == 0 && is_bias(place.tensor));
  }
  return is_everything(selector) || (place.value && is_value(graph, selector, place));
}

bool selector_matches(const Graph *graph, Name selector, SelectorPlace place) {
  return selector_matches_itself(graph, selector, place) || selector_matches_scope(graph, selector, place.scope);
}

Name selector_group(const Graph *graph, Name selector, SelectorPlace tensor) {
  for (size_t i = 1; !is_everything(selector) && i <= strlen(tensor.tensor); i++) {
    const bool ends = tensor.tensor[i] == '.' || tensor.tensor[i] == '\0';
    if (ends && path_contains(selector, name_of_bytes(graph->names, tensor.tensor, i))) {
      return name_of_bytes(graph->names, tensor.tensor, i);
    }
  }
  if (!selector_matches(graph, selector, tensor)) {
    return NULL;
  }
  Name all = "";
  for (const char *at = selector; *at; at += *at == '.') {
    const size_t length = strcspn(at, ".");
    const char *part = *at == '*' ? "all" : name_of_bytes(graph->names, at, length);
    all = name_format(graph->names, "%s%s%s", all, *all ? "." : "", part);
    at += length;
  }
  return all;
}

// ---- Units

ScopeId selector_unit(const Graph *graph, Name selector, ScopeId scope) {
  ScopeId found = -1;
  for (; scope >= 0 && !selector_is_label(selector); scope = graph->scopes.at[scope].parent) {
    const Scope *at = &graph->scopes.at[scope];
    found = is_called(at, selector) || has_path(at, selector) ? scope : found;
  }
  return found;
}

bool selector_means_call(const Graph *graph, Name selector, ScopeId unit) {
  const Scope *at = &graph->scopes.at[unit];
  return at->index < 0 && has_path(at, selector);
}
