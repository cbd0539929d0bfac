// selector_check.c: selectors that select nothing are errors, with those that were probably meant.
#include <ctype.h>
#include <string.h>

#include "lang/elaborate.h"
#include "lang/selector.h"

// ---- Names in the text: whatever the sizes of the model are, and for layouts that are not chosen

// Selectors that are classes of what is made and not names in the text.
static const char *const classes[] = {"norm", "bias"};
enum { CLASS_COUNT = sizeof classes / sizeof *classes, MOST_PARTS = 64, MOST_CANDIDATES = 1024 };

static bool is_class(const char *part) {
  for (int i = 0; i < CLASS_COUNT; i++) {
    if (strcmp(classes[i], part) == 0) {
      return true;
    }
  }
  return false;
}

// Operations such as `dot` are called in the text too, but nothing is made inside of them.
static bool is_function(const Reach *reach, Name name) {
  return reach_has(&reach->functions, name) && unit_find(reach->unit, SPACE_CODE, name);
}

static bool known_part(const Reach *reach, const char *part) {
  Name name = name_of(reach->unit->names, part);
  return strcmp(part, "*") == 0 || isdigit((unsigned char)part[0]) || is_class(part) ||
         reach_has(&reach->parts, name) || is_function(reach, name) || reach_has(&reach->repeats, name);
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

bool selector_names_known(const Reach *reach, Name selector) {
  if (selector_is_label(selector)) {
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

static const char *closest_part(const Reach *reach, const char *part) {
  const NameArray *lists[] = {&reach->repeats, &reach->functions, &reach->parts};
  const char *candidates[MOST_CANDIDATES];
  int count = 0;
  for (; count < CLASS_COUNT; count++) {
    candidates[count] = classes[count];
  }
  for (int i = 0; i < 3; i++) {
    for (int j = 0; j < lists[i]->count && count < MOST_CANDIDATES; j++) {
      if (known_part(reach, lists[i]->at[j])) {
        candidates[count++] = lists[i]->at[j];
      }
    }
  }
  return text_closest(part, candidates, count);
}

static const char *closest_selector(const Reach *reach, Name selector) {
  Arena *arena = reach->unit->arena;
  if (selector_is_label(selector)) {
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

bool selector_check_names(const Reach *reach, const Ast *selector, const char *what) {
  if (selector_names_known(reach, selector->name)) {
    return true;
  }
  Diag *diag = reach->unit->diag;
  Diagnostic *error =
      diag_error(diag, E015, selector->span, "the model has nothing called '%s' %s", selector->name, what);
  const char *closest = closest_selector(reach, selector->name);
  if (builtin_find(selector->name)) {
    diag_help(diag, error, "'%s' is an operation: name what it is assigned to, or the function around it",
              selector->name);
  } else if (closest) {
    diag_help(diag, error, "did you mean `%s`?", closest);
  } else {
    diag_help(diag, error, "name a function, a repeated axis, a label, or a part of a path");
  }
  return false;
}

// ---- The graph: what there is

typedef struct {
  const Graph *graph;
  Name selector;
  SelectorTarget target;
  int8_t *scope;      // by scope: 1 it is selected, -1 it is not, 0 not known yet
  Map known;          // candidates
  const char **list;  // NULL: none are collected
  int count;
} Search;

static bool is_selected(Search *search, SelectorPlace place) {
  if (selector_matches_itself(search->graph, search->selector, place)) {
    return true;
  }
  if (place.scope < 0) {
    return false;
  }
  int8_t *known = &search->scope[place.scope];
  if (!*known) {
    *known = selector_matches_scope(search->graph, search->selector, place.scope) ? 1 : -1;
  }
  return *known > 0;
}

static void add_candidate(Search *search, Name text) {
  if (search->count < MOST_CANDIDATES && map_get_or(&search->known, map_key(text), 0) == 0) {
    map_put(&search->known, map_key(text), 1);
    search->list[search->count++] = text;
  }
}

// layers.3.q.w: `layers`, `layers.*`, `layers.*.q` and `layers.*.q.w`.
static void add_path(Search *search, Name path) {
  Names *names = search->graph->names;
  Name text = "";
  for (const char *at = path; *at && search->count < MOST_CANDIDATES;) {
    size_t length = strcspn(at, ".");
    Name part = isdigit((unsigned char)*at) ? "*" : name_of_bytes(names, at, length);
    text = name_format(names, "%s%s%s", text, *text ? "." : "", part);
    add_candidate(search, text);
    at += length;
    at += *at == '.';
  }
}

static void add_place(Search *search, SelectorPlace place) {
  const Graph *graph = search->graph;
  for (ScopeId scope = place.scope; scope > 0; scope = graph->scopes.at[scope].parent) {
    add_candidate(search, graph->scopes.at[scope].function);
    if (graph->scopes.at[scope].variable) {
      add_path(search, graph->scopes.at[scope].variable);
    }
  }
  if (place.tensor) {
    add_path(search, place.tensor);
    return;
  }
  if (place.value) {
    add_path(search, selector_path(graph, place));
  } else if (place.scope >= 0) {
    add_path(search, graph->scopes.at[place.scope].path);
  }
  if (place.label) {
    add_candidate(search, name_format(graph->names, "@%s", place.label));
  }
}

static bool visit(Search *search, SelectorPlace place) {
  if (search->list) {
    add_place(search, place);
    return false;
  }
  return is_selected(search, place);
}

static bool visit_values(Search *search, RegionId region) {
  const Graph *graph = search->graph;
  const NodeList *nodes = &graph->regions.at[region].nodes;
  for (int i = 0; i < nodes->count; i++) {
    const Node *node = graph_node(graph, nodes->at[i]);
    if (!op_leaf(node->op) && node->result_count > 0 && visit(search, selector_place(graph, node))) {
      return true;
    }
    if (node->region >= 0 && visit_values(search, node->region)) {
      return true;
    }
  }
  return false;
}

static bool visit_all(Search *search) {
  const Graph *graph = search->graph;
  for (int i = 0; search->target != SELECTS_COMPUTED && i < graph->persistent.count; i++) {
    const Persistent *tensor = &graph->persistent.at[i];
    bool meant = search->target == SELECTS_ANY || tensor->role == ROLE_PARAMETER;
    if (meant && visit(search, (SelectorPlace){.scope = tensor->scope, .tensor = tensor->name})) {
      return true;
    }
  }
  return search->target != SELECTS_PARAMETERS && visit_values(search, 0);
}

// ---- The graph: what was probably meant

// How many parts of the selector, but for `*` and numbers, the path has too.
static int shared_parts(const char *selector, const char *path) {
  int shared = 0;
  for (const char *at = selector; *at; at += *at == '.') {
    const size_t length = strcspn(at, ".");
    bool found = false;
    for (const char *part = path; *part && !found && *at != '*' && !isdigit((unsigned char)*at); part += *part == '.') {
      found = strcspn(part, ".") == length && strncmp(part, at, length) == 0;
      part += strcspn(part, ".");
    }
    shared += found;
    at += length;
  }
  return shared;
}

// The shortest of those that have most parts of the selector, or else what is written alike.
static const char *find_meant(const Search *search) {
  const char *found = NULL;
  int most = 0;
  for (int i = 0; i < search->count; i++) {
    const int shared = shared_parts(search->selector, search->list[i]);
    if (shared > most || (shared == most && found && strlen(search->list[i]) < strlen(found))) {
      most = shared;
      found = search->list[i];
    }
  }
  return found ? found : text_closest(search->selector, search->list, search->count);
}

bool selector_check(const Graph *graph, const Ast *selector, SelectorTarget target, const char *what) {
  Search search = {.graph = graph, .selector = selector->name, .target = target};
  search.scope = ARENA_ARRAY(graph->arena, int8_t, graph->scopes.count + 1);
  if (visit_all(&search)) {
    return true;
  }
  const int reported = graph->diag->all.count;
  Diagnostic *error = diag_error(graph->diag, E015, selector->span, "'%s' selects nothing %s", selector->name, what);
  if (graph->diag->all.count == reported) {
    return false;  // since its names are unknown, which has a help of its own
  }
  search.list = ARENA_ARRAY(graph->arena, const char *, MOST_CANDIDATES);
  search.known = map_create(graph->arena);
  visit_all(&search);
  const char *meant = find_meant(&search);
  if (meant) {
    diag_help(graph->diag, error, "did you mean `%s`?", meant);
  } else if (target == SELECTS_PARAMETERS) {
    diag_help(graph->diag, error, "`mdlc explain` lists the paths of parameters; a label is for values");
  } else {
    diag_help(graph->diag, error, "name a function, a repeated axis, a label, or a part of a path that is there");
  }
  return false;
}
