// format.c: the one true formatting: text on lines, comments, blank lines.
//
// A statement becomes one Flow (format_text.c), which is cut into lines of at most WIDTH characters. Comments inside
// a statement move in front of it; trailing comments of neighbouring lines are aligned.
#include "lang/format.h"

#include <string.h>

enum { WIDTH = 120, INDENT = 2, CONTINUE = 4, FILL = 40, ALIGN_LIMIT = 90 };

typedef struct {
  int indent;
  const char *code;     // "" for a blank line or one that is only a comment
  int width;            // of code, in characters
  const char *comment;  // behind the code, or NULL
} Line;

typedef struct {
  Arena *arena;
  const char *text;  // the source, or NULL: then there are no comments and no blank lines to keep
  const CommentList *comments;
  int next;  // comment
  ARRAY(Line) lines;
  int indent;
  uint32_t last_end;  // where in the source the last thing written ended
  bool fresh;         // nothing was written since the file or block began
} Formatter;

static int characters(const char *text, int length) {
  int count = 0;
  for (int i = 0; i < length; i++) {
    count += ((unsigned char)text[i] & 0xc0) != 0x80;
  }
  return count;
}

// ---- Lines

static void add_line(Formatter *f, int indent, const char *text, int length) {
  char *code = arena_alloc(f->arena, (size_t)length + 1);
  memcpy(code, text, (size_t)length);
  array_push(f->arena, &f->lines, ((Line){indent, code, characters(text, length), NULL}));
  f->fresh = false;
}

// The place to end a line that begins at `begin` and is too long, or the end of the text.
static int best_break(const Flow *flow, int *next, int begin, int indent) {
  const char *text = flow->text.at;
  int best = -1, column = indent, at = begin;
  for (int i = *next; i < flow->breaks.count; i++) {
    Break candidate = flow->breaks.at[i];
    if (candidate.at <= begin) {
      *next = i + 1;
      continue;
    }
    column += characters(text + at, candidate.at - at);
    at = candidate.at;
    if (best >= 0 && column > WIDTH) {
      break;
    }
    bool early = best < 0 || flow->breaks.at[best].at - begin < FILL;
    if (early || candidate.weight <= flow->breaks.at[best].weight) {
      best = i;
    }
  }
  if (best < 0) {
    return flow->text.count;
  }
  *next = best + 1;
  return flow->breaks.at[best].at;
}

// More characters than `width`; a long text is not counted to its end.
static bool wider(const char *text, int length, int width) {
  const int enough = 4 * (width > 0 ? width + 1 : 1);  // bytes
  return characters(text, length < enough ? length : enough) > width;
}

static void add_flow(Formatter *f, const Flow *flow) {
  int begin = 0, next = 0, indent = f->indent, count = flow->text.count;
  while (wider(flow->text.at + begin, count - begin, WIDTH - indent)) {
    int end = best_break(flow, &next, begin, indent);
    if (end == count) {
      break;
    }
    add_line(f, indent, flow->text.at + begin, end - begin);
    begin = end + 1;
    indent = f->indent + CONTINUE;
  }
  add_line(f, indent, flow->text.at + begin, count - begin);
}

static void add_text(Formatter *f, const char *text) {
  add_line(f, f->indent, text, (int)strlen(text));
}

// Keeps one blank line where the source has some between the last thing written and `begin`.
static void keep_blank(Formatter *f, uint32_t begin) {
  int newlines = 0;
  for (uint32_t i = f->last_end; f->text && i < begin; i++) {
    newlines += f->text[i] == '\n';
  }
  if (newlines > 1 && !f->fresh) {
    array_push(f->arena, &f->lines, ((Line){0, "", 0, NULL}));
  }
}

// ---- Comments

static const Comment *next_comment(const Formatter *f, uint32_t end) {
  if (!f->text || !f->comments || f->next >= f->comments->count) {
    return NULL;
  }
  const Comment *comment = &f->comments->at[f->next];
  return comment->span.begin < end ? comment : NULL;
}

static const char *comment_text(const Formatter *f, const Comment *comment) {
  return arena_format(f->arena, "%.*s", (int)(comment->span.end - comment->span.begin), f->text + comment->span.begin);
}

// Writes the comments before `end` on lines of their own.
static void comments_before(Formatter *f, uint32_t end) {
  for (const Comment *comment; (comment = next_comment(f, end)); f->next++) {
    keep_blank(f, comment->span.begin);
    add_text(f, comment_text(f, comment));
    f->last_end = comment->span.end;
  }
}

// Writes the comments inside a statement, up to `end`, in front of it.
static void comments_inside(Formatter *f, uint32_t begin, uint32_t end) {
  for (const Comment *comment; (comment = next_comment(f, end)); f->next++) {
    keep_blank(f, begin);
    add_text(f, comment_text(f, comment));
    f->last_end = begin;
  }
}

// Puts a comment behind the last line if it stands directly behind `end` in the source.
static void comment_behind(Formatter *f, uint32_t end) {
  const Comment *comment = next_comment(f, UINT32_MAX);
  if (!comment || comment->span.begin < end) {
    return;
  }
  for (uint32_t i = end; i < comment->span.begin; i++) {
    if (!strchr(" \t\r", f->text[i])) {
      return;
    }
  }
  f->lines.at[f->lines.count - 1].comment = comment_text(f, comment);
  f->last_end = comment->span.end;
  f->next++;
}

// ---- Statements

static void flat_statement(Flow *flow, const char *text, Ast *const *nodes, int count, bool *one_line);

static void flat_body(Flow *flow, const char *text, const Body *body, bool *one_line) {
  *one_line = *one_line && body->one_line;
  for (int i = 0; i < body->count && *one_line && flow->text.count <= WIDTH * 4;) {
    int group = format_group(body->kids + i, body->count - i);
    flow_text(flow, " ");
    flat_statement(flow, text, body->kids + i, group, one_line);
    i += group;
  }
  flow_text(flow, body->count ? " }" : "}");
}

// A statement with all its bodies on one line; *one_line becomes false where the source has a body on several.
static void flat_statement(Flow *flow, const char *text, Ast *const *nodes, int count, bool *one_line) {
  const Ast *node = nodes[0];
  if (!format_has_body(node)) {
    flow_statement(flow, nodes, count);
    return;
  }
  flow_header(flow, node);
  Body body = format_body(node, text);
  flat_body(flow, text, &body, one_line);
  if (node->kind == AST_IF && node->kids[2]) {
    flow_text(flow, " else ");
    if (node->kids[2]->kind == AST_IF) {
      flat_statement(flow, text, &node->kids[2], 1, one_line);
    } else {
      flow_text(flow, "{");
      body = format_body(node->kids[2], text);
      flat_body(flow, text, &body, one_line);
    }
  }
}

static bool try_one_line(Formatter *f, const Ast *node) {
  Flow flow = {.arena = f->arena};
  bool one_line = format_body(node, f->text).one_line && !next_comment(f, node->span.end);
  if (one_line) {
    flat_statement(&flow, f->text, (Ast *const[]){(Ast *)(uintptr_t)node}, 1, &one_line);
  }
  if (!one_line || f->indent + characters(flow.text.at, flow.text.count) > WIDTH) {
    return false;
  }
  add_line(f, f->indent, flow.text.at, flow.text.count);
  return true;
}

static void write_items(Formatter *f, Ast *const *kids, int count, uint32_t end);

// The inside of a body whose `{` was just written.
static void write_body(Formatter *f, const Body *body) {
  comment_behind(f, body->begin + 1);
  f->indent += INDENT;
  f->fresh = true;
  f->last_end = body->begin + 1;
  write_items(f, body->kids, body->count, body->end);
  f->indent -= INDENT;
  f->fresh = false;
}

static void write_with_body(Formatter *f, const Ast *node) {
  const char *before = "";
  for (;;) {
    Flow flow = {.arena = f->arena};
    flow_text(&flow, before);
    if (node->kind == AST_BLOCK) {
      flow_text(&flow, "{");
    } else {
      flow_header(&flow, node);
    }
    Body body = format_body(node, f->text);
    bool empty = body.count == 0 && !next_comment(f, body.end);
    flow_text(&flow, empty ? "}" : "");
    add_flow(f, &flow);
    if (!empty) {
      write_body(f, &body);
      add_text(f, "}");
    }
    node = node->kind == AST_IF ? node->kids[2] : NULL;
    if (!node) {
      return;
    }
    f->lines.count--;  // the `}` goes on: `} else {`
    Line last = f->lines.at[f->lines.count];
    before = arena_format(f->arena, "%s else ", last.code);
  }
}

static void write_statement(Formatter *f, Ast *const *nodes, int count) {
  const Ast *node = nodes[0];
  uint32_t begin = node->span.begin, end = nodes[count - 1]->span.end;
  bool has_body = format_has_body(node);
  comments_before(f, begin);
  comments_inside(f, begin, has_body ? format_body(node, f->text).begin : end);
  keep_blank(f, begin);
  if (!has_body) {
    Flow flow = {.arena = f->arena};
    flow_statement(&flow, nodes, count);
    add_flow(f, &flow);
  } else if (!try_one_line(f, node)) {
    write_with_body(f, node);
  }
  f->last_end = end;
  comment_behind(f, end);
}

static void write_items(Formatter *f, Ast *const *kids, int count, uint32_t end) {
  for (int i = 0; i < count;) {
    int group = format_group(kids + i, count - i);
    if (!f->text && f->indent == 0 && i > 0 && (format_has_body(kids[i]) || format_has_body(kids[i - 1]))) {
      array_push(f->arena, &f->lines, ((Line){0, "", 0, NULL}));
    }
    write_statement(f, kids + i, group);
    i += group;
  }
  comments_before(f, end);
}

// ---- The text

static int comment_column(const Formatter *f, int from, int *until) {
  int widest = 0;
  Line first = f->lines.at[from];
  for (*until = from; *until < f->lines.count; (*until)++) {
    Line line = f->lines.at[*until];
    int width = line.indent + line.width;
    if (!line.comment || line.indent != first.indent || (width > ALIGN_LIMIT && *until > from)) {
      break;
    }
    widest = width > widest ? width : widest;
    if (width > ALIGN_LIMIT) {
      ++*until;
      break;
    }
  }
  return widest + 2;
}

static const char *join_lines(Formatter *f) {
  Flow out = {.arena = f->arena};
  for (int i = 0; i < f->lines.count;) {
    int until = i + 1, column = 0;
    if (f->lines.at[i].comment) {
      column = comment_column(f, i, &until);
    }
    for (; i < until; i++) {
      Line line = f->lines.at[i];
      for (int k = 0; k < line.indent && line.width > 0; k++) {
        flow_text(&out, " ");
      }
      flow_text(&out, line.code);
      for (int k = line.indent + line.width; k < column; k++) {
        flow_text(&out, " ");
      }
      flow_text(&out, line.comment ? line.comment : "");
      flow_text(&out, "\n");
    }
  }
  array_push(f->arena, &out.text, '\0');
  return out.text.at;
}

const char *format_file(Arena *arena, const Diag *diag, const Ast *file, const CommentList *comments) {
  Formatter f = {.arena = arena, .comments = comments, .fresh = true};
  f.text = diag->sources.at[file->span.file].text;
  write_items(&f, file->kids, file->count, UINT32_MAX);
  return join_lines(&f);
}

const char *format_ast(Arena *arena, const Ast *node) {
  Formatter f = {.arena = arena, .fresh = true};
  if (node->kind == AST_FILE || node->kind == AST_BLOCK) {
    write_items(&f, node->kids, node->count, 0);
    return join_lines(&f);
  }
  if (format_has_body(node) || (node->kind >= AST_IMPORT && node->kind <= AST_CARRY && node->kind != AST_FORMAL) ||
      node->kind == AST_SETTING) {
    write_statement(&f, (Ast *const[]){(Ast *)(uintptr_t)node}, 1);
    return join_lines(&f);
  }
  Flow flow = {.arena = arena};
  flow_expression(&flow, node);
  array_push(arena, &flow.text, '\0');
  return flow.text.at;
}
