// keep_axes.c: a value that grows from round to round, or by what is added to it, is a mistake: an axis was forgotten.
#include <string.h>

#include "lang/elaborate.h"
#include "lang/unread.h"

void keep_axes_collect(Elaborator *e, const Ast *block, CarriesList *list) {
  for (int i = 0; block && i < block->count; i++) {
    const Ast *ast = block->kids[i];
    if (ast && ast->kind == AST_ASSIGN) {
      for (int j = 0; j < ast->kids[0]->count; j++) {
        array_push(e->arena, list, ((Carries){.name = ast->kids[0]->kids[j]->name}));
      }
    } else if (ast && (ast->kind == AST_BLOCK || ast->kind == AST_IF || ast->kind == AST_REPEAT)) {
      keep_axes_collect(e, ast, list);
    }
  }
}

void keep_axes_begin(Elaborator *e, CarriesList *list) {
  for (int i = 0; i < list->count; i++) {
    const Object *object = frame_find(e->frame, list->at[i].name);
    const bool tensor = object && object->kind == OBJECT_VALUE && !object->state;
    list->at[i].before = tensor ? *object : object_poison();
    list->at[i].axes = tensor ? graph_shape(e->graph, object->value) : (Shape){0};
  }
}

// --- what to write instead ---

static bool is_axis_of(const Elaborator *e, Name name, AxisId axis) {
  const Object *object = frame_find(e->frame, name);
  for (int i = 0; object && (object->kind == OBJECT_AXIS || object->kind == OBJECT_AXES) && i < object->axes.count;
       i++) {
    if (object->axes.axis[i] == axis) {
      return true;
    }
  }
  return false;
}

// Of a call with `over`: the axes behind it as text, or NULL if one of them is this axis or there are none; *value: an
// argument before it that has the axis, or NULL.
static const char *axes_over(const Elaborator *e, const Ast *call, AxisId axis, Name *value) {
  const Ast *list = call->kids[0];
  const char *text = NULL;
  bool over = false;
  *value = NULL;
  for (int i = 0; i < list->count; i++) {
    const Ast *argument = list->kids[i], *given = argument->kids[0];
    over = (over || argument->group == GROUP_OVER) && argument->group != GROUP_TO && !argument->name;
    if (over && is_axis_of(e, given->name, axis)) {
      return NULL;
    }
    if (over) {
      text = arena_format(e->arena, "%s%s%s", text ? text : "", text ? ", " : "", format_ast(e->arena, argument));
      continue;
    }
    const Object *object = given->kind == AST_NAME && !argument->name ? frame_find(e->frame, given->name) : NULL;
    const Shape has = object && object->kind == OBJECT_VALUE ? graph_shape(e->graph, object->value) : (Shape){0};
    *value = !*value && shape_has(&has, axis) ? given->name : *value;
  }
  return text;
}

// The call in an expression that takes a value with the axis, works along others, and so keeps it; or NULL.
static const char *find_keeper(const Elaborator *e, const Ast *ast, AxisId axis) {
  Name value;
  const char *over = ast && ast->kind == AST_CALL ? axes_over(e, ast, axis, &value) : NULL;
  if (over && value) {
    return arena_format(e->arena, "'%s' has '%s', and `%s` keeps it: write `over %s, %s`", value, axis_name(e, axis),
                        format_ast(e->arena, ast), over + (strncmp(over, "over ", 5) == 0 ? 5 : 0), axis_name(e, axis));
  }
  const char *found = NULL;
  for (int i = 0; ast && i < ast->count && !found; i++) {
    found = find_keeper(e, ast->kids[i], axis);
  }
  return found;
}

static const Ast *find_assign(const Ast *ast, Span target) {
  if (ast && ast->kind == AST_ASSIGN) {
    for (int i = 0; i < ast->kids[0]->count; i++) {
      if (ast->kids[0]->kids[i]->span.begin == target.begin) {
        return ast;
      }
    }
  }
  const Ast *found = NULL;
  for (int i = 0; ast && i < ast->count && !found; i++) {
    found = find_assign(ast->kids[i], target);
  }
  return found;
}

static void help(Elaborator *e, Diagnostic *error, const Ast *assign, const Shape *grown, bool again) {
  if (grown->count == 0) {
    diag_help(e->diag, error, "give what it becomes another name");
    return;
  }
  const AxisId axis = grown->axis[0];
  const char *keeper = assign ? find_keeper(e, assign->kids[1], axis) : NULL;
  if (keeper) {
    diag_help(e->diag, error, "%s", keeper);
  } else {
    diag_help(e->diag, error, "take '%s' away first, `sum(... over %s)`, or %s", axis_name(e, axis), axis_name(e, axis),
              again ? "begin with a value that has it" : "give the sum another name");
  }
}

// --- rounds of a repeat ---

static bool mentions(const Ast *ast, Name name) {
  bool found = ast && ast->kind == AST_NAME && ast->name == name;
  for (int i = 0; ast && i < ast->count && !found; i++) {
    found = mentions(ast->kids[i], name);
  }
  return found;
}

void keep_axes_end(Elaborator *e, const Ast *block, const CarriesList *list) {
  for (int i = 0; i < list->count; i++) {
    const Carries *carries = &list->at[i];
    const Object *now = frame_find(e->frame, carries->name);
    if (carries->before.kind != OBJECT_VALUE || !now || now->kind != OBJECT_VALUE) {
      continue;
    }
    Shape has = graph_shape(e->graph, now->value), was = carries->axes;
    if (shape_same_set(&has, &was) || !block_reads_first(e->unit, block, carries->name)) {
      continue;
    }
    const Ast *assign = find_assign(block, now->span);
    if (!assign || !mentions(assign->kids[1], carries->name)) {
      continue;  // another value by the same name, which is not made of what it was
    }
    const Shape grown = shape_minus(has, &was);
    Diagnostic *error =
        diag_error(e->diag, E026, now->span, "'%s' has axes %s before a round of this repeat and %s behind it",
                   carries->name, axes_text(e, &was), axes_text(e, &has));
    diag_related(e->diag, error, carries->before.span, "what the round begins with");
    help(e, error, assign, &grown, true);
    return;
  }
}

// --- sums ---

// The operand of a sum that is this name, or NULL.
static const Ast *operand_named(const Ast *ast, Name name, bool *same_label, const Elaborator *e, Name label) {
  if (ast->kind == AST_BINARY && (strcmp(ast->name, "+") == 0 || strcmp(ast->name, "-") == 0)) {
    const Ast *left = operand_named(ast->kids[0], name, same_label, e, label);
    const bool added = strcmp(ast->name, "+") == 0;
    return left || !added ? left : operand_named(ast->kids[1], name, same_label, e, label);
  }
  const Object *object = ast->kind == AST_NAME ? frame_find(e->frame, ast->name) : NULL;
  const Value *value = object && object->kind == OBJECT_VALUE ? graph_value(e->graph, object->value) : NULL;
  *same_label = value && value->label && value->label == label;
  return value && ((ast->name == name && (value->label || label)) || *same_label) ? ast : NULL;
}

void keep_axes_in_sum(Elaborator *e, const Ast *assign, const Object *value) {
  const Ast *sum = assign->kids[1];
  if (value->kind != OBJECT_VALUE || sum->kind != AST_BINARY) {
    return;
  }
  bool same_label = false;
  const Ast *operand = operand_named(sum, assign->kids[0]->kids[0]->name, &same_label, e,
                                     assign->kids[2] ? assign->kids[2]->name : NULL);
  const Object *old = operand ? frame_find(e->frame, operand->name) : NULL;
  if (!old) {
    return;
  }
  Shape has = graph_shape(e->graph, value->value), was = graph_shape(e->graph, old->value);
  const Shape grown = shape_minus(has, &was);
  if (grown.count == 0) {
    return;
  }
  Diagnostic *error = diag_error(e->diag, E026, operand->span, "what is added to '%s' gives it the axis '%s'",
                                 operand->name, axis_name(e, grown.axis[0]));
  diag_label(e->diag, error, "it has %s, the sum %s", axes_text(e, &was), axes_text(e, &has));
  diag_related(e->diag, error, old->span, "given here");
  help(e, error, assign, &grown, false);
}
