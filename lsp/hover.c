// hover.c: what stands at a place: sizes and formats of values, functions, words of the language, codes of errors.
#include <ctype.h>
#include <string.h>

#include "base/json.h"
#include "base/units.h"
#include "compiler/report/error_page.h"
#include "lsp/answer.h"
#include "lsp/syntax.h"
#include "lsp/words.h"

enum { CODE_LENGTH = 4, PAGE_MOST = 1500 };

typedef struct {
  const Syntax *syntax;
  const Workspace *workspace;
  const Document *document;
  size_t offset, begin, end;  // of the word
  bool any;                   // something was said
  Buffer text;
} Hover;

static void code(Hover *h, const char *text, size_t length) {
  while (length > 0 && text[length - 1] == '\n') {
    length--;
  }
  buffer_format(&h->text, h->workspace->markdown ? "%s```mdl\n%.*s\n```\n" : "%s%.*s\n", h->any ? "\n" : "",
                (int)length, text);
  h->any = true;
}

static void paragraph(Hover *h, const char *text) {
  if (!*text) {
    return;
  }
  buffer_text(&h->text, h->any ? "\n" : "");
  for (const char *line = text; *line;) {
    const size_t length = strcspn(line, "\n");
    // Two blanks at its end let a line end there in Markdown.
    buffer_format(&h->text, h->workspace->markdown && line[length] && line[length + 1] ? "%.*s  \n" : "%.*s\n",
                  (int)length, line);
    line += length + (line[length] == '\n');
  }
  h->any = true;
}

// --- what the compiler has found ---

static const json_t *entry_in(const json_t *analysis, const Hover *h, bool call) {
  const json_t *list = json_object_get(json_object_get(analysis, "names"), h->document->path);
  const json_t *entry, *closest = NULL;
  size_t i;
  json_array_foreach((json_t *)list, i, entry) {
    const size_t begin = (size_t)json_integer_value(json_array_get(entry, 0));
    const size_t end = (size_t)json_integer_value(json_array_get(entry, 1));
    const bool is_call = json_is_true(json_array_get(entry, 2));
    if (begin == h->begin && is_call == call && (call || end == h->end)) {
      closest = entry;
    }
  }
  return closest;
}

// From the analysis of this text, or of one that imports it.
static const json_t *entry_of(const Hover *h, bool call) {
  const json_t *entry = h->document->fresh ? entry_in(h->document->analysis, h, call) : NULL;
  for (int i = 0; i < h->workspace->count && !entry; i++) {
    const Document *other = h->workspace->documents[i];
    entry = other->fresh && h->document->fresh ? entry_in(other->analysis, h, call) : NULL;
  }
  return entry;
}

static bool say_value(Hover *h) {
  const json_t *entry = entry_of(h, false);
  if (!entry) {
    return false;
  }
  const char *title = json_string_value(json_array_get(entry, 3));
  Buffer line = {0};
  buffer_format(&line, "%.*s: %s", (int)(h->end - h->begin), h->syntax->text + h->begin, title ? title : "");
  code(h, line.text ? line.text : "", line.length);
  buffer_free(&line);
  paragraph(h, json_string_value(json_array_get(entry, 4)));
  return true;
}

static void say_call(Hover *h) {
  const json_t *entry = entry_of(h, true);
  if (!entry) {
    return;
  }
  Buffer line = {0};
  buffer_format(&line, "gives %s here\n%s", json_string_value(json_array_get(entry, 3)),
                json_string_value(json_array_get(entry, 4)));
  paragraph(h, line.text ? line.text : "");
  buffer_free(&line);
}

static void say_model(Hover *h) {
  const json_t *parameters = json_object_get(h->document->analysis, "parameters");
  if (!parameters || !h->document->fresh) {
    return;
  }
  char count[UNITS_MAX];
  Buffer line = {0};
  buffer_format(&line, "%s parameters (%lld numbers) in %lld tensors\n",
                units_count(count, (double)json_integer_value(json_array_get(parameters, 0))),
                (long long)json_integer_value(json_array_get(parameters, 0)),
                (long long)json_integer_value(json_array_get(parameters, 1)));
  paragraph(h, line.text ? line.text : "");
  buffer_free(&line);
}

// --- what the text says ---

static void say_declaration(Hover *h, const Ast *declaration, bool value_said) {
  const char *signature = syntax_signature(h->syntax, declaration);
  switch (declaration->kind) {
    case AST_FUNCTION:
    case AST_UPDATE:
      code(h, signature, strlen(signature));
      paragraph(h, syntax_comment(h->syntax, declaration));
      say_call(h);
      break;
    case AST_MODEL:
      code(h, signature, strlen(signature));
      paragraph(h, syntax_comment(h->syntax, declaration));
      say_model(h);
      break;
    case AST_RECIPE:
    case AST_LAYOUT:
    case AST_PRECISION: {
      const char *whole = format_ast(h->syntax->arena, declaration);
      code(h, whole, strlen(whole));
      paragraph(h, syntax_comment(h->syntax, declaration));
      if (declaration->kind == AST_RECIPE) {
        say_model(h);
      }
      break;
    }
    case AST_FORMAL:
      if (!value_said) {
        paragraph(h, "a parameter of the function\n");
        code(h, signature, strlen(signature));
      }
      break;
    default:
      if (!value_said && declaration->kind != AST_IMPORT) {
        code(h, signature, strlen(signature));
      }
  }
}

static void say_import(Hover *h, Span span) {
  const Diag *diag = h->syntax->unit.diag;
  const Source *source = &diag->sources.at[span.file];
  paragraph(h, arena_format(h->syntax->arena, "%s\n", source->path));
  Buffer text = {0};
  for (const char *line = source->text; strncmp(line, "//", 2) == 0;) {
    const size_t length = strcspn(line, "\n");
    buffer_format(&text, "%.*s\n", length > 3 ? (int)length - 3 : 0, length > 3 ? line + 3 : "");
    line += length + (line[length] == '\n');
  }
  paragraph(h, text.text ? text.text : "");
  buffer_free(&text);
}

// A word of the language, where nothing of the text has the name.
static void say_word(Hover *h) {
  const char *text = h->syntax->text;
  const Path path = syntax_path(h->syntax, h->begin);
  const AstKind owner = path.count > 0 ? path.at[0]->kind : AST_FILE;
  const WordKind kind = owner == AST_RECIPE      ? WORD_RECIPE
                        : owner == AST_LAYOUT    ? WORD_LAYOUT
                        : owner == AST_PRECISION ? WORD_PRECISION
                                                 : WORD_KEYWORD;
  const Word *found = word_find(text + h->begin, h->end - h->begin);
  const bool heading = path.count > 0 && path.at[0]->span.begin == h->begin;
  for (const Word *word = found; word && word->word && kind != WORD_KEYWORD && !heading; word++) {
    if (word->kind == kind && strcmp(word->word, found->word) == 0) {
      found = word;
      break;
    }
  }
  if (found) {
    code(h, found->form, strlen(found->form));
    paragraph(h, found->says);
    say_call(h);
  }
}

// --- codes of errors ---

static void say_code(Hover *h, const char *name, bool whole) {
  ErrorCode found;
  if (!error_code_find(name, &found)) {
    return;
  }
  paragraph(h, arena_format(h->syntax->arena, "%s: %s; `mdlc explain %s` shows an example\n", name,
                            error_code_title(found), name));
  for (const ErrorText *one = error_texts; whole && one->code; one++) {
    if (strcmp(one->code, name) == 0 && strlen(one->text) + strlen(one->said) < PAGE_MOST) {
      code(h, one->text, strlen(one->text));
      code(h, one->said, strlen(one->said));
    }
  }
}

static bool is_code(const char *text, size_t length) {
  return length == CODE_LENGTH && text[0] == 'E' && isdigit((unsigned char)text[1]) &&
         isdigit((unsigned char)text[2]) && isdigit((unsigned char)text[3]);
}

// Those of diagnostics around the place.
static void say_codes(Hover *h) {
  const json_t *list = json_object_get(json_object_get(h->document->analysis, "diagnostics"), h->document->uri), *one;
  const char *text = h->document->text.text;
  size_t i;
  json_array_foreach((json_t *)list, i, one) {
    Position begin, end;
    const json_t *range = json_object_get(one, "range");
    if (!h->document->fresh || !position_read(json_object_get(range, "start"), &begin) ||
        !position_read(json_object_get(range, "end"), &end)) {
      continue;
    }
    if (text_offset(text, h->document->text.length, begin, h->workspace->encoding) <= h->offset &&
        h->offset <= text_offset(text, h->document->text.length, end, h->workspace->encoding)) {
      const char *name = json_string_value(json_object_get(one, "code"));
      say_code(h, name ? name : "", false);
    }
  }
}

json_t *answer_hover(const Workspace *workspace, const Document *document, size_t offset) {
  Syntax syntax;
  Hover h = {.syntax = &syntax, .workspace = workspace, .document = document, .offset = offset};
  if (!syntax_read(&syntax, workspace, document)) {
    syntax_free(&syntax);
    return NULL;
  }
  const bool word = text_word(syntax.text, syntax.length, offset, &h.begin, &h.end);
  if (word && is_code(syntax.text + h.begin, h.end - h.begin)) {
    say_code(&h, arena_format(syntax.arena, "%.*s", (int)(h.end - h.begin), syntax.text + h.begin), true);
  } else if (word && !syntax_in_comment(&syntax, h.begin)) {
    const bool value = say_value(&h);
    Span span;
    const Ast *declaration = syntax_definition(&syntax, h.begin, h.end, &span);
    if (declaration && declaration->kind == AST_IMPORT) {
      say_import(&h, span);
    } else if (declaration) {
      say_declaration(&h, declaration, value);
    } else if (!value) {
      say_word(&h);
    }
  }
  say_codes(&h);
  json_t *hover = NULL;
  if (h.any && !h.text.failed) {
    hover = json_pack("{s:{s:s, s:o}}", "contents", "kind", workspace->markdown ? "markdown" : "plaintext", "value",
                      json_text(h.text.text));
    if (word) {
      json_object_set_new(hover, "range", range_json(syntax.text, syntax.length, h.begin, h.end, workspace->encoding));
    }
  }
  buffer_free(&h.text);
  syntax_free(&syntax);
  return hover;
}

json_t *answer_definition(const Workspace *workspace, const Document *document, size_t offset) {
  Syntax syntax;
  json_t *location = NULL;
  size_t begin, end;
  Span span;
  if (syntax_read(&syntax, workspace, document) && text_word(syntax.text, syntax.length, offset, &begin, &end) &&
      !syntax_in_comment(&syntax, begin) && syntax_definition(&syntax, begin, end, &span)) {
    location = syntax_location(&syntax, span);
  }
  syntax_free(&syntax);
  return location;
}
