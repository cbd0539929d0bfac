// reach.c: walking syntax trees and the declarations that they use.
#include "lang/reach.h"

#include <string.h>

#include "lang/unread_names.h"

bool reach_has(const NameArray *names, Name name) {
  return map_get_or(&names->known, map_key(name), 0) != 0;
}

static void add(const Reach *reach, NameArray *names, Name name) {
  if (name && !reach_has(names, name)) {
    names->known.arena = reach->unit->arena;
    map_put(&names->known, map_key(name), 1);
    array_push(reach->unit->arena, names, name);
  }
}

Name reach_axis_name(const Reach *reach, const ReachAxis *axis) {
  return axis->function ? name_format(reach->unit->names, "%s.%s", axis->function, axis->ast->name) : axis->ast->name;
}

const Ast *reach_axis(const Reach *reach, Name name) {
  const char *dot = strchr(name, '.');
  Name function = dot ? name_of_bytes(reach->unit->names, name, (size_t)(dot - name)) : NULL;
  Name axis = dot ? name_of(reach->unit->names, dot + 1) : name;
  for (int i = 0; i < reach->axes.count; i++) {
    if (reach->axes.at[i].ast->name == axis && reach->axes.at[i].function == function) {
      return reach->axes.at[i].ast;
    }
  }
  return NULL;
}

static void visit(Reach *reach, Name name) {
  const Declaration *declaration = unit_find(reach->unit, SPACE_CODE, name);
  if (!declaration) {
    return;
  }
  if (map_get_or(&reach->visited, map_key(declaration->ast), 0)) {
    return;
  }
  reach->visited.arena = reach->unit->arena;
  map_put(&reach->visited, map_key(declaration->ast), 1);
  array_push(reach->unit->arena, &reach->declarations, declaration->ast);
  Name function = reach->function;
  reach->function = NULL;
  reach_from(reach, declaration->ast);
  reach->function = function;
}

Name reach_repeat(Names *names, const Ast *repeat) {
  const Ast *count = repeat->kids[0];
  return count->kind == AST_NAME ? count->name : name_of(names, "repeat");
}

// A function that is given, or that a parameter has as its default.
static void visit_given(Reach *reach, const Ast *value) {
  const Declaration *declaration =
      value && value->kind == AST_NAME ? unit_find(reach->unit, SPACE_CODE, value->name) : NULL;
  if (declaration && declaration->ast->kind == AST_FUNCTION) {
    add(reach, &reach->functions, value->name);
  }
}

static void visit_argument(Reach *reach, const Ast *argument) {
  const Ast *value = argument->kids[0];
  if (names_a_part(argument) && (value->kind == AST_NAME || value->kind == AST_STRING)) {
    add(reach, &reach->parts, value->name);
  }
}

static void visit_node(Reach *reach, const Ast *ast) {
  switch (ast->kind) {
    case AST_AXIS:
      array_push(reach->unit->arena, &reach->axes, ((ReachAxis){ast, reach->function}));
      break;
    case AST_PARAM:
    case AST_STATE:
      add(reach, &reach->parts, ast->name);
      break;
    case AST_ASSIGN:
      for (int i = 0; i < ast->kids[0]->count; i++) {
        add(reach, &reach->parts, ast->kids[0]->kids[i]->name);
      }
      break;
    case AST_REPEAT:
      add(reach, &reach->repeats, reach_repeat(reach->unit->names, ast));
      break;
    case AST_SCAN:
      add(reach, &reach->repeats, name_of(reach->unit->names, "scan"));
      break;
    case AST_LABEL:
      add(reach, &reach->labels, ast->name);
      break;
    case AST_CALL:
      add(reach, &reach->functions, ast->name);
      visit(reach, ast->name);
      break;
    case AST_NAME:
      visit(reach, ast->name);
      break;
    case AST_ARGUMENT:
      visit_argument(reach, ast);
      visit_given(reach, names_a_part(ast) ? NULL : ast->kids[0]);
      break;
    case AST_FORMAL:
      visit_given(reach, ast->kids[0]);
      break;
    default:
      break;
  }
}

void reach_from(Reach *reach, const Ast *ast) {
  if (!ast) {
    return;
  }
  Name function = reach->function;
  if (ast->kind == AST_FUNCTION || ast->kind == AST_UPDATE) {
    reach->function = ast->name;
  }
  visit_node(reach, ast);
  for (int i = 0; i < ast->count && !names_a_part(ast); i++) {
    reach_from(reach, ast->kids[i]);
  }
  reach->function = function;
}
