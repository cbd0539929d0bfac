// completion.c: what may stand at a place: names in scope, functions of the library, words of the language.
#include <ctype.h>
#include <string.h>

#include "base/json.h"
#include "lang/stdlib.h"
#include "lsp/answer.h"
#include "lsp/syntax.h"
#include "lsp/words.h"

enum {  // CompletionItemKind of the protocol
  ITEM_FUNCTION = 3,
  ITEM_FIELD = 5,
  ITEM_VARIABLE = 6,
  ITEM_CLASS = 7,
  ITEM_MODULE = 9,
  ITEM_PROPERTY = 10,
  ITEM_KEYWORD = 14,
  ITEM_CONSTANT = 21,
  ITEM_TYPE_PARAMETER = 25
};

typedef struct {
  const Syntax *syntax;
  json_t *list;
  Map given;             // names that are listed
  size_t offset, begin;  // of the place, and of the word in front of it, with `std.` before it
  bool std;              // `std.` stands there
  size_t import_at;      // where one more import would go
} Completion;

// Once for each name.
static json_t *item(Completion *c, const char *name, int kind, const char *detail, const char *says) {
  const Name key = name_of(c->syntax->unit.names, name);
  if (map_get_or(&c->given, map_key(key), 0)) {
    return NULL;
  }
  map_put(&c->given, map_key(key), 1);
  json_t *made = json_pack("{s:o, s:i}", "label", json_text(name), "kind", kind);
  if (detail && *detail) {
    json_object_set_new(made, "detail", json_text(detail));
  }
  if (says && *says) {
    json_object_set_new(made, "documentation", json_text(says));
  }
  json_array_append_new(c->list, made);
  return made;
}

static void add_words(Completion *c, WordKind kind) {
  for (const Word *word = words; word->word; word++) {
    if (word->kind == kind) {
      item(c, word->word,
           kind == WORD_BUILTIN ? ITEM_FUNCTION
           : kind == WORD_NAME  ? ITEM_CONSTANT
                                : ITEM_KEYWORD,
           word->form, word->says);
    }
  }
}

static int item_kind(AstKind kind) {
  return kind == AST_AXIS                             ? ITEM_TYPE_PARAMETER
         : kind == AST_CONST                          ? ITEM_CONSTANT
         : kind == AST_INPUT || kind == AST_PARAM     ? ITEM_FIELD
         : kind == AST_STATE                          ? ITEM_FIELD
         : kind == AST_FUNCTION || kind == AST_UPDATE ? ITEM_FUNCTION
         : kind == AST_MODEL                          ? ITEM_CLASS
                                                      : ITEM_VARIABLE;
}

static void add_name(void *context, const Ast *statement, Name name, Span span) {
  Completion *c = context;
  (void)span;
  if (statement->kind == AST_ASSIGN || statement->kind == AST_REPEAT) {
    item(c, name, ITEM_VARIABLE, NULL, NULL);
  } else {
    item(c, name, item_kind(statement->kind), syntax_signature(c->syntax, statement), NULL);
  }
}

static void add_declarations(Completion *c, NameSpace space) {
  const Unit *unit = &c->syntax->unit;
  for (int i = 0; i < unit->all.count; i++) {
    const Declaration *declaration = &unit->all.at[i];
    const Ast *ast = declaration->ast;
    if (declaration->space == space && (ast->name[0] != '_' || !declaration->library)) {
      item(c, ast->name, space == SPACE_CODE ? item_kind(ast->kind) : ITEM_PROPERTY,
           space == SPACE_CODE ? syntax_signature(c->syntax, ast) : ast_kind_name(ast->kind),
           syntax_comment(c->syntax, ast));
    }
  }
}

// --- the library ---

static json_t *edit_at(const Completion *c, size_t begin, size_t end, const char *text) {
  const Syntax *s = c->syntax;
  return json_pack("{s:o, s:s}", "range", range_json(s->text, s->length, begin, end, s->workspace->encoding), "newText",
                   text);
}

static bool is_imported(const Completion *c, const StdlibFile *part) {
  const char *path = arena_format(c->syntax->arena, "std/%s.mdl", part->name);
  const Diag *diag = c->syntax->unit.diag;
  for (int i = 0; i < diag->sources.count; i++) {
    if (strcmp(diag->sources.at[i].path, path) == 0) {
      return true;
    }
  }
  return false;
}

// Functions of a part of the library; where it is not imported, choosing one imports it.
static void add_part(Completion *c, const StdlibFile *part) {
  Syntax inside = *c->syntax;
  Diag *diag = diag_create(inside.arena);
  inside.unit = (Unit){.arena = inside.arena, .names = c->syntax->unit.names, .diag = diag};
  const int file = diag_add_source(diag, part->name, part->text, part->length);
  const Ast *tree = parse_file(inside.arena, inside.unit.names, diag, file, NULL);
  const bool imported = is_imported(c, part);
  for (int i = 0; i < tree->count; i++) {
    const Ast *ast = tree->kids[i];
    const bool function = ast->kind == AST_FUNCTION || ast->kind == AST_UPDATE;
    json_t *made = function && ast->name[0] != '_'
                       ? item(c, ast->name, ITEM_FUNCTION, syntax_signature(&inside, ast), syntax_comment(&inside, ast))
                       : NULL;
    if (made && !imported) {
      const char *import = arena_format(inside.arena, "import std.%s;\n", part->name);
      json_object_set_new(made, "additionalTextEdits",
                          json_pack("[o]", edit_at(c, c->import_at, c->import_at, import)));
    }
    if (made && c->std) {
      json_object_set_new(made, "textEdit", edit_at(c, c->begin, c->offset, ast->name));
      json_object_set_new(made, "filterText", json_text(arena_format(inside.arena, "std.%s", ast->name)));
    }
  }
}

static void add_library(Completion *c) {
  for (const StdlibFile *part = stdlib_files; part->name; part++) {
    add_part(c, part);
  }
}

static void add_parts(Completion *c) {
  for (const StdlibFile *part = stdlib_files; part->name; part++) {
    const size_t line = strcspn(part->text, "\n");
    const char *says = arena_format(c->syntax->arena, "%.*s", (int)line, part->text);
    const char *behind = strchr(says, ':');
    item(c, part->name, ITEM_MODULE, arena_format(c->syntax->arena, "std.%s", part->name), behind ? behind + 2 : says);
  }
}

// --- where ---

// The beginning of the line behind the last import, else of the first line that is no comment.
static size_t import_place(const Syntax *syntax) {
  size_t at = 0;
  for (int i = 0; i < syntax->tree->count; i++) {
    at = syntax->tree->kids[i]->kind == AST_IMPORT ? syntax->tree->kids[i]->span.end : at;
  }
  const bool any = at > 0;
  while (any ? at > 0 && at < syntax->length && syntax->text[at - 1] != '\n'
             : at + 1 < syntax->length && strncmp(syntax->text + at, "//", 2) == 0) {
    const char *end = memchr(syntax->text + at, '\n', syntax->length - at);
    at = end ? (size_t)(end - syntax->text) + 1 : syntax->length;
  }
  return at;
}

static bool in_string(const Syntax *syntax, size_t offset) {
  bool inside = false;
  for (size_t i = offset; i > 0 && syntax->text[i - 1] != '\n'; i--) {
    inside ^= syntax->text[i - 1] == '"' && (i < 2 || syntax->text[i - 2] != '\\');
  }
  return inside;
}

static bool starts_with_import(const Syntax *syntax, size_t offset) {
  size_t at = offset;
  while (at > 0 && syntax->text[at - 1] != '\n' && syntax->text[at - 1] != ';') {
    at--;
  }
  while (at < offset && isspace((unsigned char)syntax->text[at])) {
    at++;
  }
  return strncmp(syntax->text + at, "import ", 7) == 0;
}

// The declaration around the place, also where an error has kept it from being closed: the last one that began.
static const Ast *owner_of(const Syntax *syntax, size_t offset) {
  const Ast *owner = NULL;
  for (int i = 0; i < syntax->tree->count; i++) {
    const Ast *ast = syntax->tree->kids[i];
    owner = ast->span.begin <= offset && (offset <= ast->span.end || !owner || ast->span.begin >= owner->span.begin)
                ? ast
                : owner;
  }
  return owner && offset <= owner->span.end ? owner : NULL;
}

static void add_in_scope(Completion *c) {
  const Syntax *syntax = c->syntax;
  const Ast *owner = owner_of(syntax, c->offset), *model = syntax_model(syntax);
  const AstKind kind = owner ? owner->kind : AST_FILE;
  if (kind == AST_LAYOUT || kind == AST_PRECISION || kind == AST_RECIPE) {
    add_words(c, kind == AST_LAYOUT ? WORD_LAYOUT : kind == AST_PRECISION ? WORD_PRECISION : WORD_RECIPE);
    if (model) {
      syntax_names(model->kids[0], add_name, c);
    }
    add_declarations(c, SPACE_LAYOUT);
    add_declarations(c, SPACE_PRECISION);
  } else if (owner && (kind == AST_FUNCTION || kind == AST_UPDATE)) {
    for (int i = 0; i < owner->kids[0]->count; i++) {
      item(c, owner->kids[0]->kids[i]->name, ITEM_VARIABLE, "a parameter of the function", NULL);
    }
    syntax_names(owner->kids[1], add_name, c);
  } else if (owner && kind == AST_MODEL) {
    syntax_names(owner->kids[0], add_name, c);
  }
  add_declarations(c, SPACE_CODE);
  add_words(c, WORD_KEYWORD);
  add_words(c, WORD_BUILTIN);
  add_words(c, WORD_NAME);
  add_library(c);
}

json_t *answer_completion(const Workspace *workspace, const Document *document, size_t offset) {
  Syntax syntax;
  json_t *list = NULL;
  if (syntax_read(&syntax, workspace, document) && !syntax_in_comment(&syntax, offset > 0 ? offset - 1 : 0) &&
      !in_string(&syntax, offset)) {
    list = json_array();
    Completion c = {.syntax = &syntax, .list = list, .given = map_create(syntax.arena), .offset = offset};
    c.begin = offset;
    while (c.begin > 0 && (isalnum((unsigned char)syntax.text[c.begin - 1]) || syntax.text[c.begin - 1] == '_')) {
      c.begin--;
    }
    c.std = c.begin >= 4 && strncmp(syntax.text + c.begin - 4, "std.", 4) == 0;
    c.begin -= c.std ? 4 : 0;
    c.import_at = import_place(&syntax);
    if (starts_with_import(&syntax, offset)) {
      if (c.std) {
        add_parts(&c);
      } else {
        item(&c, "std", ITEM_MODULE, "the standard library", NULL);
      }
    } else if (c.std) {
      add_library(&c);
    } else {
      add_in_scope(&c);
    }
  }
  syntax_free(&syntax);
  return json_pack("{s:b, s:o}", "isIncomplete", 0, "items", list ? list : json_array());
}
