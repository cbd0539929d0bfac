// format.h: syntax nodes as text with places where a line may break; for lang/format*.c only.
#ifndef MDL_LANG_FORMAT_H
#define MDL_LANG_FORMAT_H

#include "lang/ast.h"

typedef struct {
  int at;      // the blank that may become a line end
  int weight;  // the smaller, the rather
} Break;

typedef struct {
  Arena *arena;
  ARRAY(char) text;
  ARRAY(Break) breaks;
  int depth;      // of brackets
  bool in_count;  // in the count of a repeat, where a bare `as` names the counter
} Flow;

typedef struct {  // the part of a declaration or statement in braces
  Ast *const *kids;
  int count;
  uint32_t begin, end;  // of the braces, in the source
  bool one_line;
} Body;

void flow_text(Flow *flow, const char *text);
void flow_expression(Flow *flow, const Ast *node);
void flow_count(Flow *flow, const Ast *node);    // of a repeat
void flow_formals(Flow *flow, const Ast *list);  // with their parentheses
void flow_node(Flow *flow, const Ast *node);     // an expression or a part of a statement

// One statement without a body: `count` nodes that were declared together.
void flow_statement(Flow *flow, Ast *const *nodes, int count);
void flow_header(Flow *flow, const Ast *node);  // what stands before the `{`

// Whether a node has a body. `text`: the source, to find the braces, or NULL.
bool format_has_body(const Ast *node);
Body format_body(const Ast *node, const char *text);
int format_group(Ast *const *kids, int count);  // how many of the first kids belong to one statement

#endif
