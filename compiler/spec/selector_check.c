// selector_check.c: selectors that select nothing of a graph are errors, with those that were probably meant.
#include <ctype.h>
#include <string.h>

#include "base/names.h"
#include "compiler/spec/selector.h"

enum { MOST_CANDIDATES = 1024 };

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

bool selector_check(const Graph *graph, Selector selector, SelectorTarget target, const char *what) {
  Search search = {.graph = graph, .selector = selector.name, .target = target};
  search.scope = ARENA_ARRAY(graph->arena, int8_t, graph->scopes.count + 1);
  if (visit_all(&search)) {
    return true;
  }
  const int reported = graph->diag->all.count;
  Diagnostic *error = diag_error(graph->diag, E015, selector.span, "'%s' selects nothing %s", selector.name, what);
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
