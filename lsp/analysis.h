// analysis.h: what the compiler says of an open text, found by a process of its own.
//
// The process is gone when it has answered: it leaves no memory behind, may be ended at any time, and takes nobody with
// it. It answers twice, an object on a line each: soon, with what elaboration finds, and when it has done everything
// that `mdlc check` does.
//   diagnostics  of URIs to lists of diagnostics of the protocol
//   files        paths of the texts that were read
//   names        of paths of open texts to lists of [begin, end, call, title, detail], by bytes
//   version      of the text
//   whole        whether this is the second answer
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

// Reads what has come. `result`: an answer, to be freed, or NULL: there is none more. True: the process has ended, and
// if there is no answer then, without having given the second one, for `why`; NULL: there was no memory.
bool analysis_read(Analysis *analysis, json_t **result, const char **why);
void analysis_end(Analysis *analysis);  // at once

// The answer of one that failed: what it has said of the text, and a diagnostic that says why there is no more.
json_t *analysis_failed(const Document *document, const char *why, bool bug);

#endif
