// server.h: a language server: what `mdlc lsp` is.
#ifndef MDL_LSP_SERVER_H
#define MDL_LSP_SERVER_H

// Speaks the Language Server Protocol 3.17 on two files until the client ends it. Returns the exit status: 0 where
// `exit` came behind `shutdown`, else 1.
int lsp_serve(int in, int out, const char *version);

#endif
