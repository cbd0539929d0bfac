// library.h: files of the standard library, which is inside the program, for editors to open.
#ifndef MDL_LSP_LIBRARY_H
#define MDL_LSP_LIBRARY_H

#include "lang/stdlib.h"
#include "lsp/text.h"

// The part of the library that a source file of the compiler is, such as std/nn.mdl; or NULL.
const StdlibFile *library_part(const char *path);

// The URI of a file with the text of the part, which is written if it is not there; NULL: it could not be.
const char *library_uri(Arena *arena, const StdlibFile *part);

#endif
