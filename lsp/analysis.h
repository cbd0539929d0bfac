// analysis.h: what the compiler says of an open text, found by a process of its own.
//
// The process is gone when it has answered: it leaves no memory behind, may be ended at any time, and takes nobody with
// it. Its answer is an object:
//   diagnostics  of URIs to lists of diagnostics of the protocol
//   files        paths of the texts that were read
//   names        of paths of open texts to lists of [begin, end, call, title, detail], by bytes
//   version      of the text
//   parameters   how many numbers the model has in them, and how many tensors they are; or absent
#ifndef MDL_LSP_ANALYSIS_H
#define MDL_LSP_ANALYSIS_H

#include <sys/types.h>

#include "lsp/workspace.h"

typedef struct {
  pid_t process;  // 0: none runs
  int pipe;       // what it says
  char *path;     // of the document
  long long version;
  double begun;
  Buffer said;
} Analysis;

double analysis_clock(void);  // seconds

bool analysis_begin(Analysis *analysis, const Workspace *workspace, const Document *document);

// Reads what has come. True: that was all, and `result` is the answer, or NULL with `why`.
bool analysis_read(Analysis *analysis, json_t **result, const char **why);
void analysis_end(Analysis *analysis);  // at once

// The answer of one that failed: a diagnostic that says why.
json_t *analysis_failed(const Document *document, const char *why, bool bug);

#endif
