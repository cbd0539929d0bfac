// answer.h: answers to what an editor asks about a place of an open text, or about all of it.
#ifndef MDL_LSP_ANSWER_H
#define MDL_LSP_ANSWER_H

#include "lsp/workspace.h"

// `offset`: the byte asked about. Each returns what the protocol calls the result; NULL, without memory or where there
// is none, is answered by null.
json_t *answer_hover(const Workspace *workspace, const Document *document, size_t offset);
json_t *answer_definition(const Workspace *workspace, const Document *document, size_t offset);
json_t *answer_completion(const Workspace *workspace, const Document *document, size_t offset);
json_t *answer_symbols(const Workspace *workspace, const Document *document);

// Edits that leave the text as `mdlc fmt` writes it; none where it is already so. NULL: it has errors.
json_t *answer_formatting(const Workspace *workspace, const Document *document);

#endif
