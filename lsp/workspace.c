// workspace.c: the texts that an editor has open, and how it wants to be answered.
#include "lsp/workspace.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "lsp/library.h"

static const double ANALYSIS_LIMIT = 60;

void workspace_create(Workspace *workspace) {
  *workspace = (Workspace){.analysis_limit = ANALYSIS_LIMIT};
}

static void document_free(Document *document) {
  buffer_free(&document->text);
  json_decref(document->analysis);
  free(document->uri);
  free(document->path);
  free(document);
}

void workspace_free(Workspace *workspace) {
  for (int i = 0; i < workspace->count; i++) {
    document_free(workspace->documents[i]);
  }
  free(workspace->documents);
  free(workspace->recipe);
  free(workspace->layout);
  free(workspace->precision);
  json_decref(workspace->set);
}

Document *workspace_find(const Workspace *workspace, const char *uri) {
  for (int i = 0; i < workspace->count; i++) {
    if (strcmp(workspace->documents[i]->uri, uri) == 0) {
      return workspace->documents[i];
    }
  }
  return NULL;
}

Document *workspace_find_path(const Workspace *workspace, const char *path) {
  char resolved[PATH_MAX];
  const char *wanted = realpath(path, resolved) ? resolved : path;
  for (int i = 0; i < workspace->count; i++) {
    if (strcmp(workspace->documents[i]->path, wanted) == 0) {
      return workspace->documents[i];
    }
  }
  return NULL;
}

// Of a file that is not saved yet, where the links of its folder lead.
static char *path_of(const char *uri) {
  char resolved[PATH_MAX];
  Arena *arena = arena_create();
  const char *path = arena ? uri_path(arena, uri) : NULL, *kept = path ? path : uri;
  if (path && realpath(path, resolved)) {
    kept = resolved;
  } else if (path && realpath(path_directory(arena, path), resolved)) {
    kept = path_join(arena, resolved, strrchr(path, '/') + 1);
  }
  char *copy = strdup(kept);
  arena_destroy(arena);
  return copy;
}

static void replace(Document *document, size_t begin, size_t end, const char *text, size_t length) {
  Buffer made = {0};
  buffer_bytes(&made, document->text.text ? document->text.text : "", begin);
  buffer_bytes(&made, text, length);
  buffer_bytes(&made, document->text.text ? document->text.text + end : "", document->text.length - end);
  buffer_text(&made, "");
  buffer_free(&document->text);
  document->text = made;
}

Document *workspace_open(Workspace *workspace, const char *uri, const char *text, size_t length, long long version) {
  Document *document = workspace_find(workspace, uri);
  if (!document) {
    if (workspace->count == workspace->capacity) {
      const int capacity = workspace->capacity ? 2 * workspace->capacity : 8;
      Document **grown = realloc(workspace->documents, sizeof *grown * (size_t)capacity);
      if (!grown) {
        return NULL;
      }
      workspace->documents = grown;
      workspace->capacity = capacity;
    }
    document = calloc(1, sizeof *document);
    if (!document) {
      return NULL;
    }
    document->uri = strdup(uri);
    document->path = path_of(uri);
    if (!document->uri || !document->path) {
      document_free(document);
      return NULL;
    }
    workspace->documents[workspace->count++] = document;
  }
  replace(document, 0, document->text.length, text, length);
  document->lost = document->text.failed;
  document->version = version;
  return document;
}

void workspace_close(Workspace *workspace, Document *document) {
  for (int i = 0; i < workspace->count; i++) {
    if (workspace->documents[i] == document) {
      document_free(document);
      memmove(&workspace->documents[i], &workspace->documents[i + 1],
              sizeof *workspace->documents * (size_t)(workspace->count - i - 1));
      workspace->count--;
      return;
    }
  }
}

bool document_change(Document *document, const json_t *change, Encoding encoding) {
  const json_t *text = json_object_get(change, "text"), *range = json_object_get(change, "range");
  if (!json_is_string(text)) {
    return false;
  }
  size_t begin = 0, end = document->text.length;
  if (range) {
    Position first, last;
    if (!position_read(json_object_get(range, "start"), &first) ||
        !position_read(json_object_get(range, "end"), &last)) {
      return false;
    }
    begin = text_offset(document->text.text, document->text.length, first, encoding);
    end = text_offset(document->text.text, document->text.length, last, encoding);
    if (end < begin) {
      return false;
    }
  }
  replace(document, begin, end, json_string_value(text), json_string_length(text));
  document->lost = document->text.failed || (document->lost && range);
  return !document->text.failed;
}

const char *workspace_uri(const Workspace *workspace, Arena *arena, const char *path) {
  char resolved[PATH_MAX];
  const StdlibFile *part = library_part(path);
  if (part) {
    return library_uri(arena, part);
  }
  const Document *open = workspace_find_path(workspace, path);
  return open ? open->uri : realpath(path, resolved) ? path_uri(arena, resolved) : NULL;
}

// --- settings ---

static bool set_text(const json_t *settings, const char *name, char **text) {
  const json_t *value = json_object_get(settings, name);
  if (value && !json_is_string(value) && !json_is_null(value)) {
    return false;
  }
  free(*text);
  const char *given = json_string_value(value);
  *text = given && *given ? strdup(given) : NULL;
  return true;
}

bool workspace_configure(Workspace *workspace, const json_t *settings, const char **why) {
  const json_t *inner = json_object_get(settings, "mdl");
  settings = json_is_object(inner) ? inner : settings;
  const json_t *set = json_object_get(settings, "set"), *limit = json_object_get(settings, "checkSeconds");
  bool good = true;
  if (!set_text(settings, "recipe", &workspace->recipe) || !set_text(settings, "layout", &workspace->layout) ||
      !set_text(settings, "precision", &workspace->precision)) {
    *why = "recipe, layout and precision are names, as strings";
    return false;
  }
  for (size_t i = 0; i < json_array_size(set); i++) {
    good = good && json_is_string(json_array_get(set, i));
  }
  if (!good || (set && !json_is_array(set) && !json_is_null(set))) {
    *why = "`set` is a list of \"NAME=VALUE\"";
    return false;
  }
  json_decref(workspace->set);
  workspace->set = json_is_array(set) ? json_deep_copy(set) : NULL;
  workspace->analysis_limit = ANALYSIS_LIMIT;
  if (limit && (!json_is_number(limit) || !(json_number_value(limit) > 0))) {
    *why = "`checkSeconds` is a number above 0";
    return false;
  }
  workspace->analysis_limit = limit ? json_number_value(limit) : ANALYSIS_LIMIT;
  return true;
}

CompileOptions workspace_options(const Workspace *workspace, Arena *arena, const Document *document) {
  OpenText *open = ARENA_ARRAY(arena, OpenText, workspace->count + 1);
  for (int i = 0; i < workspace->count; i++) {
    const Document *other = workspace->documents[i];
    open[i] = (OpenText){other->path, other->text.text, other->text.length};
  }
  const int count = (int)json_array_size(workspace->set);
  const char **set = ARENA_ARRAY(arena, const char *, count + 1);
  for (int i = 0; i < count; i++) {
    set[i] = json_string_value(json_array_get(workspace->set, (size_t)i));
  }
  return (CompileOptions){.file = document->path,
                          .recipe = workspace->recipe,
                          .layout = workspace->layout,
                          .precision = workspace->precision,
                          .set = set,
                          .set_count = count,
                          .program = PROGRAM_TRAIN,
                          .open = open,
                          .open_count = workspace->count};
}
