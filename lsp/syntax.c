// syntax.c: an open text and what it imports, read without being elaborated: also while it is being typed.
#include "lsp/syntax.h"

#include <string.h>

static const size_t SYNTAX_MEMORY = (size_t)1 << 30;

bool syntax_read(Syntax *syntax, const Workspace *workspace, const Document *document) {
  jmp_buf escape;
  *syntax = (Syntax){.arena = arena_create(), .workspace = workspace, .document = document, .file = -1};
  Arena *arena = syntax->arena;
  if (!arena || setjmp(escape)) {
    return false;
  }
  arena_set_escape(arena, &escape);
  arena_set_limit(arena, SYNTAX_MEMORY);
  Diag *diag = diag_create(arena);
  const CompileOptions options = workspace_options(workspace, arena, document);
  syntax->unit = (Unit){.arena = arena,
                        .names = names_create(arena),
                        .diag = diag,
                        .open = options.open,
                        .open_count = options.open_count};
  syntax->whole = unit_load(&syntax->unit, options.file);
  syntax->text = document->text.text;
  syntax->length = document->text.length;
  if (!memchr(syntax->text, '\0', syntax->length)) {  // else it is no text
    syntax->file = 0;
    syntax->tree = parse_file(arena, syntax->unit.names, diag, 0, &syntax->comments);
  } else {
    syntax->tree = ARENA_NEW(arena, Ast);
  }
  arena_set_escape(arena, NULL);
  arena_set_limit(arena, 0);
  return true;
}

void syntax_free(Syntax *syntax) {
  arena_destroy(syntax->arena);
}

// --- places ---

static bool within(Span span, size_t offset) {
  return span.begin <= offset && offset <= span.end;
}

bool syntax_in_comment(const Syntax *syntax, size_t offset) {
  for (int i = 0; i < syntax->comments.count; i++) {
    const Span span = syntax->comments.at[i].span;
    if (span.begin <= offset && offset < span.end) {
      return true;
    }
  }
  return false;
}

Path syntax_path(const Syntax *syntax, size_t offset) {
  Path path = {.count = 0};
  const Ast *node = syntax->tree;
  while (node && path.count < SYNTAX_DEPTH) {
    const Ast *inner = NULL;
    for (int i = 0; i < node->count; i++) {
      const Ast *kid = node->kids[i];
      // Of two that touch, the one that begins here.
      if (kid && within(kid->span, offset) && (!inner || kid->span.begin <= offset)) {
        inner = kid;
      }
    }
    if (inner) {
      path.at[path.count++] = inner;
    }
    node = inner;
  }
  return path;
}

const Ast *path_kind(const Path *path, AstKind kind) {
  for (int i = path->count - 1; i >= 0; i--) {
    if (path->at[i]->kind == kind) {
      return path->at[i];
    }
  }
  return NULL;
}

const Ast *syntax_model(const Syntax *syntax) {
  for (int i = 0; i < syntax->unit.all.count; i++) {
    const Declaration *declaration = &syntax->unit.all.at[i];
    if (declaration->ast->kind == AST_MODEL && !declaration->library) {
      return declaration->ast;
    }
  }
  return NULL;
}

void syntax_names(const Ast *node, SyntaxName *each, void *context) {
  if (!node) {
    return;
  }
  switch (node->kind) {
    case AST_AXIS:
    case AST_CONST:
    case AST_INPUT:
    case AST_PARAM:
    case AST_STATE:
    case AST_CARRY:
    case AST_OUTPUT:
      if (node->kind != AST_OUTPUT || node->kids[0]) {
        each(context, node, node->name, node->name_span);
      }
      return;
    case AST_ASSIGN:
      for (int i = 0; i < node->kids[0]->count; i++) {
        each(context, node, node->kids[0]->kids[i]->name, node->kids[0]->kids[i]->span);
      }
      return;
    case AST_REPEAT:
      if (node->kids[1]) {
        each(context, node, node->kids[1]->name, node->kids[1]->span);
      }
      break;
    case AST_BLOCK:
    case AST_IF:
    case AST_SCAN:
      break;
    default:
      return;
  }
  for (int i = 0; i < node->count; i++) {
    syntax_names(node->kids[i], each, context);
  }
}

// --- declarations in words ---

static const Source *source_of(const Syntax *syntax, Span span) {
  const Diag *diag = syntax->unit.diag;
  return span.file >= 0 && span.file < diag->sources.count ? &diag->sources.at[span.file] : NULL;
}

const char *syntax_signature(const Syntax *syntax, const Ast *ast) {
  const Source *source = source_of(syntax, ast->span);
  if (!source) {
    return "";
  }
  char *text = arena_alloc(syntax->arena, ast->span.end - ast->span.begin + 1);
  size_t length = 0;
  for (uint32_t i = ast->span.begin; i < ast->span.end && source->text[i] != '{'; i++) {
    const char c = strchr(" \t\r\n", source->text[i]) ? ' ' : source->text[i];
    if (c != ' ' || (length > 0 && text[length - 1] != ' ')) {
      text[length++] = c;
    }
  }
  while (length > 0 && text[length - 1] == ' ') {
    length--;
  }
  text[length] = '\0';
  return text;
}

const char *syntax_comment(const Syntax *syntax, const Ast *ast) {
  const Source *source = source_of(syntax, ast->span);
  const char *comment = "";
  if (!source) {
    return comment;
  }
  size_t end = ast->span.begin;  // of what is above: the beginning of a line
  while (end > 0 && source->text[end - 1] != '\n') {
    end--;
  }
  while (end > 0) {
    size_t begin = end - 1;
    while (begin > 0 && source->text[begin - 1] != '\n') {
      begin--;
    }
    size_t from = begin, to = end - 1;
    while (from < to && (source->text[from] == ' ' || source->text[from] == '\t')) {
      from++;
    }
    if (to < from + 2 || strncmp(source->text + from, "//", 2) != 0) {
      break;
    }
    from += 2;
    from += from < to && source->text[from] == ' ';
    to -= to > from && source->text[to - 1] == '\r';
    comment = arena_format(syntax->arena, "%.*s\n%s", (int)(to - from), source->text + from, comment);
    end = begin;
  }
  return comment;
}

json_t *syntax_location(const Syntax *syntax, Span span) {
  const Source *source = source_of(syntax, span);
  const char *uri = source ? workspace_uri(syntax->workspace, syntax->arena, source->path) : NULL;
  if (!uri) {
    return NULL;
  }
  return json_pack("{s:s, s:o}", "uri", uri, "range",
                   range_json(source->text, source->length, span.begin, span.end, syntax->workspace->encoding));
}
