// format_statement.c: declarations and statements as text, and where their bodies are.
#include <string.h>

#include "lang/format.h"

int format_group(Ast *const *kids, int count) {
  int group = 1;
  while (group < count && kids[group]->flags & AST_CONTINUED && kids[group]->kind == kids[0]->kind) {
    group++;
  }
  return group;
}

bool format_has_body(const Ast *node) {
  switch (node->kind) {
    case AST_FUNCTION:
    case AST_UPDATE:
    case AST_MODEL:
    case AST_LAYOUT:
    case AST_PRECISION:
    case AST_RECIPE:
    case AST_REPEAT:
    case AST_IF:
    case AST_SCAN:
      return true;
    default:
      return false;
  }
}

Body format_body(const Ast *node, const char *text) {
  const Ast *block = node;
  switch (node->kind) {
    case AST_FUNCTION:
    case AST_UPDATE:
    case AST_SCAN:
    case AST_IF:
      block = node->kids[1];
      break;
    case AST_MODEL:
      block = node->kids[0];
      break;
    case AST_REPEAT:
      block = node->kids[2];
      break;
    default:
      break;
  }
  Body body = {block->kids, block->count, block->span.begin, block->span.end, (block->flags & AST_ONE_LINE) != 0};
  if (block == node && node->kind != AST_BLOCK && text) {  // the settings of a layout, precision or recipe
    const char *brace = strchr(text + node->name_span.end, '{');
    body.begin = brace ? (uint32_t)(brace - text) : node->span.begin;
  }
  return body;
}

static void flow_initial(Flow *flow, const Ast *drawn, const Ast *constant) {
  if (drawn || constant) {
    flow_text(flow, drawn ? " ~ " : " = ");
    flow_expression(flow, drawn ? drawn : constant);
  }
}

static void flow_comma_list(Flow *flow, Ast *const *nodes, int count, const char *keyword) {
  flow_text(flow, keyword);
  for (int i = 0; i < count; i++) {
    const Ast *node = nodes[i];
    flow_text(flow, i > 0 ? "," : "");
    if (i > 0) {
      array_push(flow->arena, &flow->breaks, ((Break){flow->text.count, 0}));
    }
    flow_text(flow, " ");
    flow_text(flow, node->name);
    if (node->kind == AST_AXIS && node->kids[1]) {
      flow_text(flow, " like ");
      flow_text(flow, node->kids[1]->name);
    } else if ((node->kind == AST_AXIS || node->kind == AST_CONST) && node->kids[0]) {
      flow_text(flow, " = ");
      flow_expression(flow, node->kids[0]);
    }
  }
}

static void flow_state(Flow *flow, Ast *const *nodes, int count) {
  const Ast *first = nodes[0];
  flow_comma_list(flow, nodes, count, "state");
  flow_text(flow, first->kids[0] ? ": " : " like ");
  flow_node(flow, first->kids[0] ? first->kids[0] : first->kids[1]);
  flow_initial(flow, first->kids[2], first->kids[3]);
  if (first->kids[4]) {
    flow_text(flow, ", ");
    flow_node(flow, first->kids[4]);
  }
}

static void flow_import(Flow *flow, const Ast *node) {
  flow_text(flow, "import ");
  for (int i = 0; i < node->count; i++) {
    flow_text(flow, i > 0 ? "." : "");
    flow_node(flow, node->kids[i]);
  }
}

static void flow_assign(Flow *flow, const Ast *node) {
  const Ast *targets = node->kids[0];
  flow_text(flow, targets->count > 1 ? "(" : "");
  flow_node(flow, targets);
  flow_text(flow, targets->count > 1 ? ") = " : " = ");
  flow_expression(flow, node->kids[1]);
  if (node->kids[2]) {
    flow_text(flow, " ");
    flow_node(flow, node->kids[2]);
  }
}

static void flow_setting(Flow *flow, const Ast *node) {
  flow_node(flow, node->kids[0]);
  if (node->kids[1]) {
    flow_text(flow, ": ");
    flow_node(flow, node->kids[1]);
  }
  if (node->kids[2]) {
    flow_text(flow, " -> ");
    flow_node(flow, node->kids[2]);
  }
}

void flow_statement(Flow *flow, Ast *const *nodes, int count) {
  const Ast *node = nodes[0];
  switch (node->kind) {
    case AST_IMPORT:
      flow_import(flow, node);
      break;
    case AST_AXIS:
      flow_comma_list(flow, nodes, count, "axis");
      break;
    case AST_CONST:
      flow_comma_list(flow, nodes, count, "const");
      break;
    case AST_INPUT:
      flow_comma_list(flow, nodes, count, "input");
      flow_text(flow, ": ");
      flow_node(flow, node->kids[0]);
      break;
    case AST_STATE:
      flow_state(flow, nodes, count);
      break;
    case AST_PARAM:
    case AST_CARRY:
      flow_comma_list(flow, nodes, 1, node->kind == AST_PARAM ? "param" : "carry");
      flow_text(flow, ": ");
      flow_node(flow, node->kids[0]);
      if (node->kind == AST_PARAM) {
        flow_initial(flow, node->kids[1], node->kids[2]);
      } else {
        flow_initial(flow, NULL, node->kids[1]);
      }
      break;
    case AST_OUTPUT:
      flow_comma_list(flow, nodes, 1, "output");
      flow_initial(flow, NULL, node->kids[0]);
      break;
    case AST_RETURN:
      flow_text(flow, "return ");
      for (int i = 0; i < node->count; i++) {
        flow_text(flow, i > 0 ? ", " : "");
        flow_expression(flow, node->kids[i]);
      }
      break;
    case AST_ASSIGN:
      flow_assign(flow, node);
      break;
    case AST_SETTING:
      flow_setting(flow, node);
      break;
    default:
      flow_expression(flow, node);
      break;
  }
  flow_text(flow, ";");
}

void flow_header(Flow *flow, const Ast *node) {
  switch (node->kind) {
    case AST_FUNCTION:
    case AST_UPDATE:
      flow_text(flow, node->flags & AST_COMPOSITE ? "composite " : "");
      flow_text(flow, node->kind == AST_FUNCTION ? "fn " : "update ");
      flow_text(flow, node->name);
      flow_formals(flow, node->kids[0]);
      break;
    case AST_REPEAT:
      flow_text(flow, "repeat ");
      flow_count(flow, node->kids[0]);
      if (node->kids[1]) {
        flow_text(flow, " as ");
        flow_text(flow, node->kids[1]->name);
      }
      break;
    case AST_IF:
      flow_text(flow, "if ");
      flow_expression(flow, node->kids[0]);
      break;
    case AST_SCAN:
      flow_text(flow, "scan ");
      flow_text(flow, node->kids[0]->name);
      break;
    default:
      flow_text(flow, ast_kind_name(node->kind));
      flow_text(flow, " ");
      flow_text(flow, node->name);
      break;
  }
  flow_text(flow, " {");
}
