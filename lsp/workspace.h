// workspace.h: the texts that an editor has open, and how it wants to be answered.
#ifndef MDL_LSP_WORKSPACE_H
#define MDL_LSP_WORKSPACE_H

#include "base/array.h"
#include "base/buffer.h"
#include "compiler/compile.h"
#include "lang/unit.h"
#include "lsp/text.h"

typedef struct {
  char *uri;
  char *path;   // where links lead; the URI of what is no file
  Buffer text;  // never NULL
  long long version;
  bool lost;         // a change of it could not be read: the editor has another text
  bool dirty;        // it, or a text that it imports, is another since all of it was analysed
  bool fresh;        // the analysis, or the first half of it, is of the text as it is
  double due;        // when it is to be analysed, if it is dirty
  json_t *analysis;  // analysis.h; NULL: none so far
} Document;

typedef struct {
  Encoding encoding;
  bool markdown;  // hovers may be
  char *recipe, *layout, *precision;
  json_t *set;            // an array of "name=value"; or NULL
  double analysis_limit;  // seconds that an analysis may take
  Document **documents;
  int count, capacity;
} Workspace;

void workspace_create(Workspace *workspace);
void workspace_free(Workspace *workspace);

Document *workspace_find(const Workspace *workspace, const char *uri);        // NULL: it is not open
Document *workspace_find_path(const Workspace *workspace, const char *path);  // the same
Document *workspace_open(Workspace *workspace, const char *uri, const char *text, size_t length, long long version);
void workspace_close(Workspace *workspace, Document *document);

// One entry of contentChanges. False: it is none.
bool document_change(Document *document, const json_t *change, Encoding encoding);

// Recipe, layout, precision, set and the time limit out of an object of settings. False: `why` says what is wrong.
bool workspace_configure(Workspace *workspace, const json_t *settings, const char **why);

// The URI of a source file of the compiler; NULL for what is no file, such as the value of a setting.
const char *workspace_uri(const Workspace *workspace, Arena *arena, const char *path);

// Open texts as the compiler takes them; options for this one. In the arena.
CompileOptions workspace_options(const Workspace *workspace, Arena *arena, const Document *document);

#endif
