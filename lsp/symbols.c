// symbols.c: the outline of a text, and the text as `mdlc fmt` writes it.
#include <string.h>

#include "base/json.h"
#include "lsp/answer.h"
#include "lsp/syntax.h"

enum {  // SymbolKind of the protocol
  SYMBOL_MODULE = 2,
  SYMBOL_NAMESPACE = 3,
  SYMBOL_CLASS = 5,
  SYMBOL_PROPERTY = 7,
  SYMBOL_FIELD = 8,
  SYMBOL_FUNCTION = 12,
  SYMBOL_VARIABLE = 13,
  SYMBOL_CONSTANT = 14,
  SYMBOL_TYPE_PARAMETER = 26
};

typedef struct {
  const Places *places;
  json_t *list;
  Map given;  // each value once
} Symbols;

static int kind_of(AstKind kind) {
  switch (kind) {
    case AST_IMPORT:
      return SYMBOL_MODULE;
    case AST_AXIS:
      return SYMBOL_TYPE_PARAMETER;
    case AST_CONST:
      return SYMBOL_CONSTANT;
    case AST_INPUT:
    case AST_PARAM:
    case AST_STATE:
    case AST_CARRY:
      return SYMBOL_FIELD;
    case AST_OUTPUT:
      return SYMBOL_PROPERTY;
    case AST_FUNCTION:
    case AST_UPDATE:
      return SYMBOL_FUNCTION;
    case AST_MODEL:
      return SYMBOL_CLASS;
    case AST_LAYOUT:
    case AST_PRECISION:
    case AST_RECIPE:
      return SYMBOL_NAMESPACE;
    default:
      return SYMBOL_VARIABLE;
  }
}

static json_t *symbol(const Places *places, const Ast *node, Name name, Span name_span) {
  const Span whole = {node->span.file, node->span.begin < name_span.begin ? node->span.begin : name_span.begin,
                      node->span.end > name_span.end ? node->span.end : name_span.end};
  return json_pack("{s:o, s:s, s:i, s:o, s:o}", "name", json_text(name), "detail", ast_kind_name(node->kind), "kind",
                   kind_of(node->kind), "range", places_range(places, whole.begin, whole.end), "selectionRange",
                   places_range(places, name_span.begin, name_span.end));
}

static void add(void *context, const Ast *statement, Name name, Span span) {
  Symbols *symbols = context;
  if (statement->kind == AST_REPEAT || map_get_or(&symbols->given, map_key(name), 0)) {
    return;
  }
  map_put(&symbols->given, map_key(name), 1);
  json_array_append_new(symbols->list, symbol(symbols->places, statement, name, span));
}

static const char *import_name(const Syntax *syntax, const Ast *import) {
  const char *name = "";
  for (int i = 0; i < import->count; i++) {
    name = arena_format(syntax->arena, "%s%s%s", name, i ? "." : "", import->kids[i]->name);
  }
  return name;
}

json_t *answer_symbols(const Workspace *workspace, const Document *document) {
  Syntax syntax;
  json_t *list = NULL;
  if (syntax_read(&syntax, workspace, document)) {
    const Places *places = places_create(syntax.arena, syntax.text, syntax.length, workspace->encoding);
    list = json_array();
    for (int i = 0; i < syntax.tree->count; i++) {
      const Ast *ast = syntax.tree->kids[i];
      const bool import = ast->kind == AST_IMPORT;
      if (!import && !ast->name) {
        continue;
      }
      json_t *one = import ? symbol(places, ast, import_name(&syntax, ast), ast->span)
                           : symbol(places, ast, ast->name, ast->name_span);
      const bool function = ast->kind == AST_FUNCTION || ast->kind == AST_UPDATE;
      if (function || ast->kind == AST_MODEL) {
        Symbols inner = {.places = places, .list = json_array(), .given = map_create(syntax.arena)};
        syntax_names(ast->kids[function ? 1 : 0], add, &inner);
        json_object_set_new(one, "children", inner.list);
      }
      json_array_append_new(list, one);
    }
  }
  syntax_free(&syntax);
  return list;
}

json_t *answer_formatting(const Workspace *workspace, const Document *document) {
  Arena *arena = arena_create();
  json_t *edits = NULL;
  const char *text = document->text.text;
  const size_t length = document->text.length;
  if (arena && !memchr(text, '\0', length)) {
    Diag *diag = diag_create(arena);
    CommentList comments = {0};
    const int file = diag_add_source(diag, document->path, text, length);
    const Ast *tree = parse_file(arena, names_create(arena), diag, file, &comments);
    if (diag->errors == 0) {
      const char *made = format_file(arena, diag, tree, &comments);
      edits = json_array();
      if (strcmp(made, text) != 0) {
        json_array_append_new(
            edits, json_pack("{s:o, s:o}", "range", range_json(text, length, 0, length, workspace->encoding), "newText",
                             json_text(made)));
      }
    }
  }
  arena_destroy(arena);
  return edits;
}
