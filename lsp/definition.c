// definition.c: what a word of a text stands for, by syntax alone.
#include <string.h>

#include "lsp/syntax.h"

typedef struct {
  Name name;
  size_t offset;               // of the word
  const Ast *before, *behind;  // the statements that give the name: the last one before the word, the first one behind
  Span before_span, behind_span;
  AstKind kind;  // of statements that count; AST_KIND_COUNT: any
} Search;

static void consider(void *context, const Ast *statement, Name name, Span span) {
  Search *search = context;
  if (name != search->name || (search->kind != AST_KIND_COUNT && statement->kind != search->kind)) {
    return;
  }
  // What stands in `x = x + 1;` is the x before it.
  const bool inside = statement->kind == AST_ASSIGN && statement->span.begin <= search->offset &&
                      search->offset < statement->span.end && span.begin != search->offset;
  if (span.begin <= search->offset && !inside) {
    search->before = statement;
    search->before_span = span;
  } else if (!search->behind) {
    search->behind = statement;
    search->behind_span = span;
  }
}

static const Ast *found(const Search *search, Span *span) {
  *span = search->before ? search->before_span : search->behind_span;
  return search->before ? search->before : search->behind;
}

static const Ast *in_block(const Ast *block, Name name, size_t offset, Span *span) {
  Search search = {.name = name, .offset = offset, .kind = AST_KIND_COUNT};
  syntax_names(block, consider, &search);
  return found(&search, span);
}

static const Ast *formal_of(const Ast *function, Name name, Span *span) {
  for (int i = 0; i < function->kids[0]->count; i++) {
    const Ast *formal = function->kids[0]->kids[i];
    if (formal->name == name) {
      *span = formal->name_span;
      return formal;
    }
  }
  return NULL;
}

static bool is_function(const Ast *ast) {
  return ast && (ast->kind == AST_FUNCTION || ast->kind == AST_UPDATE);
}

static const Ast *declared(const Syntax *syntax, NameSpace space, Name name, Span *span) {
  const Declaration *declaration = unit_find(&syntax->unit, space, name);
  if (!declaration) {
    return NULL;
  }
  *span = declaration->ast->name_span;
  return declaration->ast;
}

// `causal` in `attention(q, k, v over hd, seq, key, causal = true)`, `heads` in `model gpt(heads = 8)`.
static const Ast *argument_name(const Syntax *syntax, const Path *path, size_t begin, Name name, Span *span) {
  const Ast *argument = path_kind(path, AST_ARGUMENT), *call = path_kind(path, AST_CALL);
  if (!argument || !call || !argument->name || argument->name_span.begin != begin) {
    return NULL;
  }
  Span of;
  const Ast *callee = declared(syntax, SPACE_CODE, call->name, &of);
  return is_function(callee)                   ? formal_of(callee, name, span)
         : callee && callee->kind == AST_MODEL ? in_block(callee->kids[0], name, SIZE_MAX, span)
                                               : NULL;
}

// --- imports ---

static const Ast *imported(const Syntax *syntax, const Ast *import, Span *span) {
  for (int i = 0; i < syntax->unit.imports.count; i++) {
    const Import *one = &syntax->unit.imports.at[i];
    if (one->from == syntax->file && one->ast->span.begin == import->span.begin && one->to >= 0) {
      *span = (Span){one->to, 0, 0};
      return one->ast;
    }
  }
  return NULL;
}

// --- layouts, precisions, recipes ---

static const Ast *mesh_axis(const Ast *layout, Name name, Span *span) {
  for (int i = 0; i < layout->count; i++) {
    const Ast *list = layout->kids[i]->kids[0], *first = list->count > 0 ? list->kids[0]->kids[0] : NULL;
    if (!first || first->count < 1 || !first->kids[0]->name || strcmp(first->kids[0]->name, "mesh") != 0) {
      continue;
    }
    for (int j = 0; j < list->count; j++) {
      const Ast *terms = list->kids[j]->kids[0], *last = terms->count > 0 ? terms->kids[terms->count - 1] : NULL;
      if (last && last->name == name) {
        *span = last->span;
        return list->kids[j];
      }
    }
  }
  return NULL;
}

// The space of the second word of `model gpt;`, `layout tp2;`, `precision bf16;`.
static NameSpace phrase_space(const Path *path) {
  const Ast *phrase = path_kind(path, AST_PHRASE), *terms = phrase ? phrase->kids[0] : NULL;
  const char *first = terms && terms->count > 1 ? terms->kids[0]->name : NULL;
  return !first                            ? SPACE_COUNT
         : strcmp(first, "layout") == 0    ? SPACE_LAYOUT
         : strcmp(first, "precision") == 0 ? SPACE_PRECISION
         : strcmp(first, "model") == 0     ? SPACE_CODE
                                           : SPACE_COUNT;
}

static const Ast *in_settings(const Syntax *syntax, const Path *path, Name name, Span *span) {
  const Ast *owner = path->at[0], *found_at = NULL;
  const NameSpace space = phrase_space(path);
  if (space != SPACE_COUNT) {
    found_at = declared(syntax, space, name, span);
  }
  if (!found_at && owner->kind == AST_LAYOUT) {
    found_at = mesh_axis(owner, name, span);
  }
  const Ast *model = syntax_model(syntax);
  if (!found_at && model) {
    found_at = in_block(model->kids[0], name, SIZE_MAX, span);
    if (found_at && owner->kind != AST_RECIPE) {  // an axis rather than the last value of that name
      Search search = {.name = name, .offset = SIZE_MAX, .kind = AST_AXIS};
      syntax_names(model->kids[0], consider, &search);
      Span axis;
      const Ast *better = found(&search, &axis);
      *span = better ? axis : *span;
      found_at = better ? better : found_at;
    }
  }
  return found_at;
}

// --- labels ---

static const Ast *label_in(const Ast *node, Name label, Span *span) {
  if (!node) {
    return NULL;
  }
  if (node->kind == AST_ASSIGN) {
    const bool here = node->kids[2] && node->kids[2]->name == label;
    *span = here ? node->kids[2]->span : *span;
    return here ? node : NULL;
  }
  const Ast *place = NULL;
  for (int i = 0; i < node->count && !place; i++) {
    place = label_in(node->kids[i], label, span);
  }
  return place;
}

static const Ast *labelled(const Syntax *syntax, Name label, Span *span) {
  const Ast *place = NULL;
  for (int i = 0; i < syntax->unit.all.count && !place; i++) {
    const Declaration *declaration = &syntax->unit.all.at[i];
    place = declaration->library ? NULL : label_in(declaration->ast, label, span);
  }
  return place;
}

// --- all of it ---

const Ast *syntax_definition(const Syntax *syntax, size_t begin, size_t end, Span *span) {
  Names *names = syntax->unit.names;
  const char *text = syntax->text;
  const Path path = syntax_path(syntax, begin);
  const Ast *owner = path.count > 0 ? path.at[0] : NULL;
  if (owner && owner->kind == AST_IMPORT) {
    return imported(syntax, owner, span);
  }
  if (text[begin] == '@') {
    return labelled(syntax, name_of_bytes(names, text + begin + 1, end - begin - 1), span);
  }
  while (end > begin + 1 && text[end - 1] == '\'') {
    end--;
  }
  const Name name = name_of_bytes(names, text + begin, end - begin);
  const Ast *place = argument_name(syntax, &path, begin, name, span);
  if (!place && owner && (owner->kind == AST_LAYOUT || owner->kind == AST_PRECISION || owner->kind == AST_RECIPE)) {
    place = owner->name_span.begin == begin ? owner : in_settings(syntax, &path, name, span);
    *span = place == owner ? owner->name_span : *span;
  }
  const bool called = end < syntax->length && text[end] == '(';
  if (!place && owner && is_function(owner)) {
    place = in_block(owner->kids[1], name, begin, span);
    const Ast *formal = !place || span->begin > begin ? formal_of(owner, name, span) : NULL;
    place = formal ? formal : place;
  } else if (!place && owner && owner->kind == AST_MODEL && !called) {
    place = in_block(owner->kids[0], name, begin, span);
  }
  for (NameSpace space = SPACE_CODE; !place && space < SPACE_COUNT; space++) {
    place = declared(syntax, space, name, span);
  }
  return place;
}
