// publish.c: what the client has been told of each text.
#include "lsp/publish.h"

#include "lsp/frame.h"

static bool has(const json_t *list, const json_t *diagnostic) {
  const json_t *one;
  size_t i;
  json_array_foreach((json_t *)list, i, one) {
    if (json_equal(one, diagnostic)) {
      return true;
    }
  }
  return false;
}

// Several open texts may import one file, and say the same of it.
static json_t *collect(const Workspace *workspace) {
  json_t *all = json_object();
  for (int i = 0; i < workspace->count; i++) {
    const char *uri;
    json_t *list, *one, *diagnostics = json_object_get(workspace->documents[i]->analysis, "diagnostics");
    json_object_foreach(diagnostics, uri, list) {
      json_t *of = json_object_get(all, uri);
      if (!of) {
        of = json_array();
        json_object_set_new(all, uri, of);
      }
      size_t j;
      json_array_foreach(list, j, one) {
        if (!has(of, one)) {
          json_array_append(of, one);
        }
      }
    }
  }
  return all;
}

static bool tell(const Workspace *workspace, const char *uri, json_t *diagnostics, int out) {
  const Document *document = workspace_find(workspace, uri);
  json_t *parameters = json_pack("{s:s, s:O}", "uri", uri, "diagnostics", diagnostics);
  const json_t *version = document ? json_object_get(document->analysis, "version") : NULL;
  if (version) {
    json_object_set(parameters, "version", (json_t *)version);
  }
  return frame_write(out, json_pack("{s:s, s:s, s:o}", "jsonrpc", "2.0", "method", "textDocument/publishDiagnostics",
                                    "params", parameters));
}

bool publish(const Workspace *workspace, json_t *published, const Document *document, int out) {
  json_t *all = collect(workspace), *list, *none = json_array();
  const char *uri;
  bool good = true;
  void *next;
  json_object_foreach_safe(published, next, uri, list) {
    if (!json_object_get(all, uri)) {
      good = (json_array_size(list) == 0 || tell(workspace, uri, none, out)) && good;
      json_object_del(published, uri);
    }
  }
  json_object_foreach(all, uri, list) {
    const bool asked = document && workspace_find(workspace, uri) == document;
    const json_t *before = json_object_get(published, uri);
    if (asked || (before ? !json_equal(before, list) : json_array_size(list) > 0)) {
      good = tell(workspace, uri, list, out) && good;
    }
    json_object_set(published, uri, list);
  }
  json_decref(all);
  json_decref(none);
  return good;
}
