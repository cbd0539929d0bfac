// format_text.c: expressions, statements and headers as text; format.c puts it on lines.
#include "lang/format.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- Building text

void flow_text(Flow *flow, const char *text) {
  for (; *text; text++) {
    array_push(flow->arena, &flow->text, *text);
  }
}

// The order in which lines break inside one bracket; brackets inside come after all of these.
enum { BREAK_COLON, BREAK_COMMA, BREAK_GROUP, BREAK_OR, BREAK_AND, BREAK_COMPARE, BREAK_SUM, BREAK_PRODUCT, BREAKS };

static void flow_blank(Flow *flow, int kind) {
  Break where = {flow->text.count, flow->depth * BREAKS + kind};
  array_push(flow->arena, &flow->breaks, where);
  flow_text(flow, " ");
}

static void flow_comma(Flow *flow) {
  flow_text(flow, ",");
  flow_blank(flow, BREAK_COMMA);
}

static bool flow_open(Flow *flow, const char *bracket) {
  bool in_count = flow->in_count;
  flow_text(flow, bracket);
  flow->depth++;
  flow->in_count = false;
  return in_count;
}

static void flow_close(Flow *flow, const char *bracket, bool in_count) {
  flow->in_count = in_count;
  flow->depth--;
  flow_text(flow, bracket);
}

static void flow_list(Flow *flow, Ast *const *kids, int count) {
  for (int i = 0; i < count; i++) {
    if (i > 0) {
      flow_comma(flow);
    }
    flow_expression(flow, kids[i]);
  }
}

// A list of names: alone, or in parentheses when there are several.
static void flow_names(Flow *flow, const Ast *list) {
  if (list->count == 1) {
    flow_node(flow, list->kids[0]);
    return;
  }
  bool outer = flow_open(flow, "(");
  flow_list(flow, list->kids, list->count);
  flow_close(flow, ")", outer);
}

// ---- Expressions

typedef enum {
  LEVEL_NONE,
  LEVEL_OR,
  LEVEL_AND,
  LEVEL_NOT,
  LEVEL_COMPARE,
  LEVEL_SUM,
  LEVEL_PRODUCT,
  LEVEL_AS,
  LEVEL_UNARY,
  LEVEL_POWER,
  LEVEL_POSTFIX,
  LEVEL_PRIMARY
} Level;

typedef struct {
  const char *name;
  Level level, left, right;
  int at_break;
} Operator;

static const Operator *operator_of(Name name) {
  static const Operator operators[] = {
      {"or", LEVEL_OR, LEVEL_OR, LEVEL_AND, BREAK_OR},
      {"and", LEVEL_AND, LEVEL_AND, LEVEL_NOT, BREAK_AND},
      {"==", LEVEL_COMPARE, LEVEL_SUM, LEVEL_SUM, BREAK_COMPARE},
      {"!=", LEVEL_COMPARE, LEVEL_SUM, LEVEL_SUM, BREAK_COMPARE},
      {"<", LEVEL_COMPARE, LEVEL_SUM, LEVEL_SUM, BREAK_COMPARE},
      {"<=", LEVEL_COMPARE, LEVEL_SUM, LEVEL_SUM, BREAK_COMPARE},
      {">", LEVEL_COMPARE, LEVEL_SUM, LEVEL_SUM, BREAK_COMPARE},
      {">=", LEVEL_COMPARE, LEVEL_SUM, LEVEL_SUM, BREAK_COMPARE},
      {"+", LEVEL_SUM, LEVEL_SUM, LEVEL_PRODUCT, BREAK_SUM},
      {"-", LEVEL_SUM, LEVEL_SUM, LEVEL_PRODUCT, BREAK_SUM},
      {"*", LEVEL_PRODUCT, LEVEL_PRODUCT, LEVEL_AS, BREAK_PRODUCT},
      {"/", LEVEL_PRODUCT, LEVEL_PRODUCT, LEVEL_AS, BREAK_PRODUCT},
      {"%", LEVEL_PRODUCT, LEVEL_PRODUCT, LEVEL_AS, BREAK_PRODUCT},
      {"^", LEVEL_POWER, LEVEL_POSTFIX, LEVEL_UNARY, BREAK_PRODUCT},
  };
  enum { COUNT = sizeof operators / sizeof *operators };
  for (int i = 0; i < COUNT - 1; i++) {
    if (strcmp(operators[i].name, name) == 0) {
      return &operators[i];
    }
  }
  return &operators[COUNT - 1];
}

static Level level_of(const Flow *flow, const Ast *node) {
  switch (node->kind) {
    case AST_BINARY:
      return operator_of(node->name)->level;
    case AST_UNARY:
      return strcmp(node->name, "not") == 0 ? LEVEL_NOT : LEVEL_UNARY;
    case AST_AS:
      return flow->in_count ? LEVEL_NONE : LEVEL_AS;
    case AST_INDEX:
    case AST_MEMBER:
      return LEVEL_POSTFIX;
    case AST_NUMBER:
      return signbit(node->number) ? LEVEL_UNARY : LEVEL_PRIMARY;
    default:
      return LEVEL_PRIMARY;
  }
}

static void flow_operand(Flow *flow, const Ast *node, Level lowest) {
  if (node->flags & AST_PARENTHESES || level_of(flow, node) < lowest) {
    bool outer = flow_open(flow, "(");
    flow_node(flow, node);
    flow_close(flow, ")", outer);
  } else {
    flow_node(flow, node);
  }
}

void flow_expression(Flow *flow, const Ast *node) {
  flow_operand(flow, node, LEVEL_NONE);
}

void flow_count(Flow *flow, const Ast *node) {
  flow->in_count = true;
  flow_operand(flow, node, LEVEL_SUM);
  flow->in_count = false;
}

static void flow_binary(Flow *flow, const Ast *node) {
  const Operator *operation = operator_of(node->name);
  flow_operand(flow, node->kids[0], operation->left);
  flow_blank(flow, operation->at_break);
  flow_text(flow, node->name);
  flow_text(flow, " ");
  flow_operand(flow, node->kids[1], operation->right);
}

static void flow_number(Flow *flow, const Ast *node) {
  char text[64];
  if (node->name) {
    flow_text(flow, node->name);
    return;
  }
  for (int digits = 1; digits <= 17; digits++) {
    snprintf(text, sizeof text, "%.*g", digits, node->number);
    if (strtod(text, NULL) == node->number) {
      break;
    }
  }
  if (fabs(node->number) < 1e15 && node->number == floor(node->number)) {
    snprintf(text, sizeof text, "%.0f", node->number);
  }
  bool whole = text[strspn(text, "-0123456789")] == '\0';
  flow_text(flow, text);
  if (whole && !(node->flags & AST_INTEGER)) {
    flow_text(flow, ".0");
  }
}

static void flow_string(Flow *flow, const char *text) {
  flow_text(flow, "\"");
  for (; *text; text++) {
    char plain[2] = {*text, '\0'};
    flow_text(flow, *text == '\n'   ? "\\n"
                    : *text == '\t' ? "\\t"
                    : *text == '"'  ? "\\\""
                    : *text == '\\' ? "\\\\"
                                    : plain);
  }
  flow_text(flow, "\"");
}

static void flow_group(Flow *flow, AstGroup group, bool first) {
  static const char *const words[] = {",", "over", "to", "->"};
  if (group == GROUP_PLAIN) {
    if (!first) {
      flow_comma(flow);
    }
    return;
  }
  if (!first) {
    flow_blank(flow, BREAK_GROUP);
  }
  flow_text(flow, words[group]);
  flow_text(flow, " ");
}

static void flow_arguments(Flow *flow, const Ast *list) {
  bool outer = flow_open(flow, "(");
  for (int i = 0; i < list->count; i++) {
    const Ast *argument = list->kids[i];
    flow_group(flow, argument->group, i == 0);
    flow_node(flow, argument);
  }
  flow_close(flow, ")", outer);
}

// The names after `over` are axes up to the next word or default, so `over` is only written where that changes.
void flow_formals(Flow *flow, const Ast *list) {
  bool outer = flow_open(flow, "(");
  for (int i = 0; i < list->count; i++) {
    const Ast *formal = list->kids[i];
    bool same = i > 0 && list->kids[i - 1]->group == formal->group;
    flow_group(flow, same ? GROUP_PLAIN : formal->group, i == 0);
    flow_node(flow, formal);
  }
  flow_close(flow, ")", outer);
}

static void flow_slice(Flow *flow, const Ast *node) {
  flow_text(flow, node->kids[0]->name);
  flow_text(flow, ": ");
  flow_expression(flow, node->kids[1]);
  if (node->kids[2]) {
    flow_text(flow, " .. ");
    flow_expression(flow, node->kids[2]);
  }
  if (node->kids[3]) {
    flow_text(flow, " -> ");
    flow_text(flow, node->kids[3]->name);
  }
}

static void flow_axes(Flow *flow, const Ast *axes) {
  bool outer = flow_open(flow, "["), separated = true;
  for (int i = 0; i < axes->count; i++) {
    bool mark = axes->kids[i]->kind != AST_NAME;
    if (mark) {
      flow_text(flow, axes->kids[i]->kind == AST_BAR ? " |" : " ;");
      flow_blank(flow, BREAK_COMMA);
    } else {
      if (!separated) {
        flow_comma(flow);
      }
      flow_node(flow, axes->kids[i]);
    }
    separated = mark;
  }
  flow_close(flow, "]", outer);
}

static void flow_type(Flow *flow, const Ast *type) {
  flow_text(flow, type->name);
  if (type->kids[0]) {
    flow_text(flow, "(");
    flow_text(flow, type->kids[0]->name);
    flow_text(flow, ")");
  }
  if (type->kids[1]) {
    flow_axes(flow, type->kids[1]);
  }
}

static void flow_phrase(Flow *flow, const Ast *phrase) {
  for (int i = 0; i < phrase->kids[0]->count; i++) {
    if (i > 0) {
      flow_text(flow, " ");
    }
    flow_node(flow, phrase->kids[0]->kids[i]);
  }
  if (phrase->kids[1]) {
    flow_text(flow, " = ");
    flow_expression(flow, phrase->kids[1]);
  }
}

static void flow_postfix(Flow *flow, const Ast *node) {
  bool number = node->kids[0]->kind == AST_NUMBER;  // `(3).0` is not 3.0
  flow_operand(flow, node->kids[0], number ? LEVEL_PRIMARY + 1 : LEVEL_POSTFIX);
  if (node->kind == AST_MEMBER) {
    char text[32];
    snprintf(text, sizeof text, ".%.0f", node->number);
    flow_text(flow, text);
    return;
  }
  bool outer = flow_open(flow, "[");
  flow_list(flow, node->kids[1]->kids, node->kids[1]->count);
  flow_close(flow, "]", outer);
}

// An argument or a parameter: a name, a value, or both.
static void flow_named(Flow *flow, const Ast *node) {
  const Ast *value = node->count > 0 ? node->kids[0] : NULL;
  flow_text(flow, node->name ? node->name : "");
  flow_text(flow, node->name && value ? " = " : "");
  if (value) {
    flow_expression(flow, value);
  }
  flow_text(flow, node->flags & AST_VARIADIC ? "..." : "");
}

void flow_node(Flow *flow, const Ast *node) {
  bool outer;
  switch (node->kind) {
    case AST_NAME:
      flow_text(flow, node->name);
      flow_text(flow, node->flags & AST_VARIADIC ? "..." : "");
      break;
    case AST_NUMBER:
      flow_number(flow, node);
      break;
    case AST_STRING:
      flow_string(flow, node->name);
      break;
    case AST_TUPLE:
      outer = flow_open(flow, "(");
      flow_list(flow, node->kids, node->count);
      flow_close(flow, ")", outer);
      break;
    case AST_UNARY:
      flow_text(flow, node->name);
      flow_text(flow, strcmp(node->name, "not") == 0 ? " " : "");
      flow_operand(flow, node->kids[0], strcmp(node->name, "not") == 0 ? LEVEL_NOT : LEVEL_UNARY);
      break;
    case AST_BINARY:
      flow_binary(flow, node);
      break;
    case AST_CALL:
      flow_text(flow, node->name);
      flow_arguments(flow, node->kids[0]);
      break;
    case AST_ARGUMENT:
    case AST_FORMAL:
      flow_named(flow, node);
      break;
    case AST_INDEX:
    case AST_MEMBER:
      flow_postfix(flow, node);
      break;
    case AST_SLICE:
      flow_slice(flow, node);
      break;
    case AST_RANGE:
      flow_expression(flow, node->kids[0]);
      flow_text(flow, " .. ");
      flow_expression(flow, node->kids[1]);
      break;
    case AST_RENAME:
      flow_names(flow, node->kids[0]);
      flow_text(flow, " -> ");
      flow_names(flow, node->kids[1]);
      break;
    case AST_AS:
      flow_operand(flow, node->kids[0], LEVEL_AS);
      flow_text(flow, " as ");
      flow_type(flow, node->kids[1]);
      break;
    case AST_TYPE:
      flow_type(flow, node);
      break;
    case AST_AXES:
      flow_axes(flow, node);
      break;
    case AST_PHRASE:
      flow_phrase(flow, node);
      break;
    case AST_LIST:
      flow_list(flow, node->kids, node->count);
      break;
    case AST_LABEL:
      flow_text(flow, "@");
      flow_text(flow, node->name);
      break;
    default:  // a path, true or false
      flow_text(flow, node->name ? node->name : ast_kind_name(node->kind));
      break;
  }
}
