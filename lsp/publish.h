// publish.h: what the client has been told of each text.
#ifndef MDL_LSP_PUBLISH_H
#define MDL_LSP_PUBLISH_H

#include "lsp/workspace.h"

// Tells the client what has changed since the last call. `published`: of URIs to their diagnostics, as it knows them.
// `document`: of which it is told in any case, or NULL. False: nobody listens.
bool publish(const Workspace *workspace, json_t *published, const Document *document, int out);

#endif
