// syntax.h: an open text and what it imports, read without being elaborated: also while it is being typed.
#ifndef MDL_LSP_SYNTAX_H
#define MDL_LSP_SYNTAX_H

#include "lsp/workspace.h"

enum { SYNTAX_DEPTH = 64 };

typedef struct {
  Arena *arena;
  const Workspace *workspace;
  const Document *document;
  Unit unit;
  bool whole;  // no error in it, nor in what it imports: all declarations are known
  int file;    // of the document among the sources; -1: it could not be read
  const Ast *tree;
  const char *text;
  size_t length;
  CommentList comments;
} Syntax;

typedef struct {  // the nodes around a place, from the declaration inwards
  const Ast *at[SYNTAX_DEPTH];
  int count;
} Path;

// False: there is no memory for it. To be freed either way.
bool syntax_read(Syntax *syntax, const Workspace *workspace, const Document *document);
void syntax_free(Syntax *syntax);

bool syntax_in_comment(const Syntax *syntax, size_t offset);
Path syntax_path(const Syntax *syntax, size_t offset);
const Ast *path_kind(const Path *path, AstKind kind);  // the innermost of this kind, or NULL

// The declaration around a place, and the model that its settings are of: the first of the text.
const Ast *syntax_model(const Syntax *syntax);

// The names that statements of a block give, in the order of the text, also those of blocks in it. `statement`: that
// gives it.
typedef void SyntaxName(void *context, const Ast *statement, Name name, Span span);
void syntax_names(const Ast *block, SyntaxName *each, void *context);

// `fn linear(x over i... to o..., bias = false)`, on one line; and the comment above it, without its slashes, or "".
const char *syntax_signature(const Syntax *syntax, const Ast *declaration);
const char *syntax_comment(const Syntax *syntax, const Ast *declaration);

// Where a span is, as a location of the protocol; NULL: in no file.
json_t *syntax_location(const Syntax *syntax, Span span);

// What the word at [begin, end) of the document stands for. NULL: nobody knows. `span`: of its name, or of a file's
// beginning.
const Ast *syntax_definition(const Syntax *syntax, size_t begin, size_t end, Span *span);

#endif
