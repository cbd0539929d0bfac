// updates.c: the optimizer's text, elaborated for each group of parameters and joined to the gradients.
//
// A unit is what one elaboration of an update works on: where the update is elementwise, all parameters of a group
// packed into one axis, so that one kernel updates them all; otherwise one parameter.
#include <string.h>

#include "lang/updates.h"

#include "compiler/plan/numbers.h"

static bool rule_selects(const Elaborator *e, const OptimizerRule *rule, const Persistent *parameter) {
  const SelectorPlace place = {.scope = parameter->scope, .tensor = parameter->name};
  for (int i = 0; i < rule->selectors->count; i++) {
    const Ast *terms = rule->selectors->kids[i]->kids[0];
    for (int j = 0; j < terms->count; j++) {
      if (selector_matches(e->graph, terms->kids[j]->name, place)) {
        return true;
      }
    }
  }
  return false;
}

// The last rule with selectors that match, else the last without; -1 if there is none.
static int rule_for(const Elaborator *e, const Persistent *parameter) {
  int found = -1;
  bool specific = false;
  for (int i = 0; i < e->spec->text->optimizers.count; i++) {
    const OptimizerRule *rule = &e->spec->text->optimizers.at[i];
    if (rule->selectors ? rule_selects(e, rule, parameter) : !specific) {
      found = i;
      specific = rule->selectors != NULL;
    }
  }
  return found;
}

bool optimizer_freezes(const Elaborator *e, const Persistent *parameter) {
  const int rule = rule_for(e, parameter);
  return rule >= 0 && !e->spec->text->optimizers.at[rule].call;
}

// The expression for one parameter, or for a pack of them.
static ValueId term_of_total(Elaborator *e, const Ast *expression, ValueId parameter, ValueId gradient, Span span) {
  if (!expression) {
    ValueId square = graph_op2(e->graph, OP_MUL, gradient, gradient);
    return graph_sum(e->graph, square, graph_shape(e->graph, square));
  }
  Name p = name_of(e->names, "p"), g = name_of(e->names, "g");
  if (e->update->update) {
    const Ast *formals = e->update->update->kids[0];
    p = formals->count > 0 ? formals->kids[0]->name : p;
    g = formals->count > 1 ? formals->kids[1]->name : g;
  }
  Frame *frame = frame_push(e, FRAME_FUNCTION, NULL, name_of(e->names, ""));
  frame_set(e, frame, p, object_value(parameter, span));
  frame_set(e, frame, g, object_value(gradient, span));
  Object object = evaluate(e, expression);
  frame_pop(e);
  ValueId one = -1;
  if (!object_tensor(e, object, true, span, &one)) {
    return -1;
  }
  if (graph_shape(e->graph, one).count) {
    diag_error(e->diag, E030, span, "'total' takes a single number for each parameter");
    return -1;
  }
  return one;
}

// Is it the sum over a pack, which is that of all of its members? Of what else is a sum over elements in the text, no
// element has a part: it is a number that all parameters have alike.
static bool sums_pack(const Elaborator *e, ValueId value, AxisId pack) {
  const Node *sum = graph_producer(e->graph, value);
  return sum && sum->op == OP_SUM && shape_has(&sum->axes, pack);
}

// What one parameter adds to a total: where ranks have pieces of packs, the first member of a pack stands for all of
// them. alike: by unit, what each of its members adds; -1: they are summed up together.
static bool add_to_total(Elaborator *e, const Ast *expression, int index, Span span, ValueId *alike, ValueId *total) {
  const Persistent *parameter = &e->graph->persistent.at[index];
  for (int i = 0; i < e->update->units->count; i++) {
    const UpdateUnit unit = e->update->units->at[i];
    for (int j = 0; j < unit.count; j++) {
      if (unit.members[j] != index) {
        continue;
      }
      if (unit.flat && j > 0) {
        *total = alike[i] < 0 ? *total : graph_op2(e->graph, OP_ADD, *total, alike[i]);
        return true;
      }
      ValueId p = parameter->value, g = unit.g;
      if (unit.flat) {
        p = unit.p;
      } else if (unit.axis >= 0) {
        g = graph_add1(e->graph, OP_PART,
                       (NodeInit){NODE_INIT, .axes = parameter->shape, .axis = unit.axis, .integer = j}, unit.g);
      }
      ValueId one = term_of_total(e, expression, p, g, span);
      alike[i] = one >= 0 && unit.flat && sums_pack(e, one, unit.axis) ? -1 : one;
      *total = one < 0 || *total < 0 ? one : graph_op2(e->graph, OP_ADD, *total, one);
      return one >= 0;
    }
  }
  return true;
}

// Summed for each parameter alone, then in the order in which they are declared: the same however they are packed.
static ValueId sum_over_parameters(Elaborator *e, const Ast *expression, Span span) {
  ValueId total = -1, *alike = ARENA_ARRAY(e->arena, ValueId, e->update->units->count + 1);
  for (int i = 0; i < e->graph->persistent.count; i++) {
    const Persistent *parameter = &e->graph->persistent.at[i];
    if (parameter->role == ROLE_PARAMETER && !add_to_total(e, expression, i, span, alike, &total)) {
      return -1;
    }
  }
  return total;
}

static bool reads_name(const Ast *ast, Name name) {
  bool reads = ast && ast->kind == AST_NAME && ast->name == name;
  for (int i = 0; ast && i < ast->count; i++) {
    reads = reads || reads_name(ast->kids[i], name);
  }
  return reads;
}

// What the place around a total has, and the total has not: a value, or a function that is given.
static const Ast *other_name(Elaborator *e, const Ast *ast) {
  const Ast *formals = e->update->update->kids[0], *found = NULL;
  const bool name = ast && ast->kind == AST_NAME && formals->count >= 2 && ast->name != formals->kids[0]->name &&
                    ast->name != formals->kids[1]->name;
  const bool call = ast && ast->kind == AST_CALL && function_variable(e, ast->name);
  if (call || (name && frame_find(e->frame, ast->name))) {
    return ast;
  }
  for (int i = 0; ast && i < ast->count && !found; i++) {
    found = other_name(e, ast->kids[i]);
  }
  return found;
}

// In a total the first two arguments of the update are those of each parameter in turn, as they come: it does not know
// what the text has made of them for one, nor what a function is given under their names.
static bool total_reads_other(Elaborator *e, const Ast *expression) {
  const UpdateUnit *unit = e->update->unit;
  const Ast *formals = e->update->update ? e->update->update->kids[0] : NULL;
  for (int i = 0; formals && e->frame->function && i < 2 && i < formals->count; i++) {
    const Name name = formals->kids[i]->name;
    const Object *now = frame_find(e->frame, name);
    const ValueId came = i == 0 ? unit->p : unit->g;
    if (now && (now->kind != OBJECT_VALUE || now->value != came) && reads_name(expression, name)) {
      Diagnostic *error =
          diag_error(e->diag, E035, expression->span,
                     "'total' takes '%s' of each parameter as it comes, and here it is something else", name);
      diag_help(e->diag, error,
                e->frame->kind == FRAME_UPDATE
                    ? "give what it has become another name, and write out here how it is made"
                    : "write the total in the update, and give the function what comes out of it");
      return true;
    }
  }
  const Ast *other = formals && e->frame->function ? other_name(e, expression) : NULL;
  if (other) {
    Diagnostic *error = diag_error(e->diag, E035, other->span, "'total' does not know '%s'", other->name);
    if (function_variable(e, other->name)) {
      diag_label(e->diag, error, "a function that is given");
      diag_help(e->diag, error, "it calls the functions that the text declares: write one of these");
    } else {
      diag_help(e->diag, error,
                "it takes '%s' and '%s' of each parameter as they come, and what is made of these in it",
                formals->kids[0]->name, formals->kids[1]->name);
    }
  }
  return other != NULL;
}

Object update_total(Elaborator *e, const Ast *ast) {
  if (!e->update) {
    diag_error(e->diag, E035, ast->span, "'total' is for updates: it sums over all parameters");
    return object_poison();
  }
  if (ast->kids[0]->count != 1) {
    diag_error(e->diag, E030, ast->span, "'total' takes one value");
    return object_poison();
  }
  const Ast *expression = ast->kids[0]->kids[0]->kids[0];
  if (total_reads_other(e, expression)) {
    return object_poison();
  }
  ValueId value = (ValueId)map_get_or(&e->update->totals, map_key(ast), -1);
  if (value < 0) {
    value = sum_over_parameters(e, expression, ast->span);
    if (value < 0) {
      return object_poison();
    }
    map_put(&e->update->totals, map_key(ast), value);
  }
  return object_value(value, ast->span);
}

// Makes the optimizer's state for the members of a unit and returns it in the unit's shape.
static ValueId make_state(Elaborator *e, const UpdateUnit *unit, const Ast *update, const Ast *state) {
  ValueId *values = ARENA_ARRAY(e->arena, ValueId, unit->count);
  for (int i = 0; i < unit->count; i++) {
    Persistent parameter = e->graph->persistent.at[unit->members[i]];
    Persistent made = parameter;
    made.name = name_format(e->names, "%s.%s.%s", update->name, state->name, parameter.name);
    made.role = ROLE_OPTIMIZER_STATE;
    made.initial = 0;
    made.like = parameter.name;
    made.span = state->span;
    made.value = -1;
    Object object = make_persistent(e, made, NULL, NULL);
    if (object.kind != OBJECT_VALUE) {
      return -1;
    }
    e->graph->persistent.at[e->graph->persistent.count - 1].group = parameter.group;
    values[i] = object.value;
  }
  return unit->axis < 0 ? values[0]
                        : graph_add(e->graph, OP_PACK, (NodeInit){NODE_INIT, .axis = unit->axis}, values, unit->count);
}

static bool make_states(Elaborator *e, const UpdateUnit *unit, const Ast *update, ValueList *states, Name *names) {
  const Ast *body = update->kids[1];
  for (int i = 0; i < body->count; i++) {
    if (body->kids[i]->kind == AST_STATE) {
      ValueId state = make_state(e, unit, update, body->kids[i]);
      if (state < 0) {
        return false;
      }
      names[states->count] = body->kids[i]->name;
      array_push(e->arena, states, state);
      frame_set(e, e->frame, body->kids[i]->name, object_value(state, SPAN_NONE));
    }
  }
  return true;
}

// State of updates begins as memory does.
static void check_first_value(Elaborator *e, const Ast *ast) {
  const Ast *random = ast->kids[2], *constant = ast->kids[3], *said = random ? random : constant;
  const Object first = constant ? evaluate(e, constant) : object_number(random ? random->number : 0, false, ast->span);
  const bool number = first.kind == OBJECT_NUMBER && (!random || random->kind == AST_NUMBER);
  if (said && first.kind != OBJECT_POISON && !(number && first.number == 0)) {
    Diagnostic *error = diag_error(e->diag, E070, said->span, "this version begins the state of an update with 0");
    diag_help(e->diag, error,
              "keep what it differs by: `state %s like %s = 0;`, and add the first value where it is read", ast->name,
              e->update->update->kids[0]->kids[0]->name);
  }
}

// The axes that the state of an update is said to have are those that it has: its parameter's.
void check_update_state(Elaborator *e, const Ast *ast) {
  check_first_value(e, ast);
  const Graph *graph = e->graph;
  const Object *own = frame_find(e->frame, ast->name);
  const Object *p = frame_find(e->frame, e->update->update->kids[0]->kids[0]->name);
  if (!own) {
    diag_error(e->diag, E035, ast->span, "the state of an update stands outside of `if` and `repeat`");
    frame_set(e, e->frame, ast->name, object_poison());
    return;
  }
  if (own->kind != OBJECT_VALUE || !p || p->kind != OBJECT_VALUE) {
    return;  // an assignment ahead of it has the name, which is an error of its own
  }
  const Node *made = graph_producer(graph, own->value);
  const Shape all = graph_shape(graph, p->value);
  const Shape one = graph_shape(graph, made->op == OP_PACK ? made->operands[0] : own->value);
  Shape said = {0};
  int stack, in;
  if (ast->kids[0] && !evaluate_axes(e, ast->kids[0], &said, &stack, &in)) {
    return;
  }
  const Object like = ast->kids[1] ? evaluate(e, ast->kids[1]) : object_poison();
  if (ast->kids[1] && like.kind == OBJECT_POISON) {
    return;
  }
  said = like.kind == OBJECT_VALUE ? graph_shape(graph, like.value) : said;
  const bool same = like.kind == OBJECT_VALUE || ast->kids[0] ? shape_same_set(&said, &one) : !ast->kids[1];
  if (!same && !(like.kind == OBJECT_VALUE && shape_same_set(&said, &all))) {
    Diagnostic *error = diag_error(
        e->diag, E070, ast->kids[ast->kids[0] ? 0 : 1]->span,
        "this version keeps the state of an update along the axes of its parameter, all of them and no other");
    diag_help(e->diag, error, "write `state %s like %s = 0;`; what is to be one number is its mean, `mean(%s)`",
              ast->name, e->update->update->kids[0]->kids[0]->name, ast->name);
    frame_set(e, e->frame, ast->name, object_poison());
  }
}

// Notes an assignment, unless this step is skipped; all are made at the end, when everything has read the old values.
// Returns the value that is assigned.
static ValueId assign(Elaborator *e, ValueId target, ValueId value, ValueId finite) {
  ValueId kept = graph_op3(e->graph, OP_WHERE, finite, value, target);
  array_push(e->arena, &e->update->targets, target);
  array_push(e->arena, &e->update->values, kept);
  return kept;
}

// Binds the formals of an update on matrices, `update f(p, g over in, out, ...)`: the lists of axes before and after
// the `;` of the parameter. Those behind the two lists are values.
static bool bind_matrix(Elaborator *e, const Ast *update, const Persistent *parameter, const Arguments *arguments,
                        Span span) {
  Frame *frame = e->frame;
  if (parameter->in_count < 0) {
    diag_error(e->diag, E030, span, "'%s' works on matrices, and the parameter '%s' has no `;` in its axes",
               update->name, parameter->name);
    return false;
  }
  int in = parameter->stack_count, out = in + parameter->in_count, lists = 0, taken = 0;
  for (int i = 0; i < update->kids[0]->count; i++) {
    const Ast *formal = update->kids[0]->kids[i];
    if (formal->group != GROUP_PLAIN && lists < 2) {
      Object list = {.kind = OBJECT_AXES, .span = formal->span};
      for (int j = lists ? out : in; j < (lists ? parameter->shape.count : out); j++) {
        shape_push(&list.axes, parameter->shape.axis[j]);
      }
      lists++;
      frame_set(e, frame, formal->name, list);
    } else if (taken < arguments->positional_count) {
      frame_set(e, frame, formal->name, arguments->positional[taken++]);
    }
  }
  return bind_rest(e, update, arguments, taken, frame, span);
}

// The arguments of the recipe behind the parameter and its gradient.
static Arguments with_gradient(Elaborator *e, const UpdateUnit *unit, const Ast *call, const Arguments *arguments) {
  Arguments with = *arguments;
  with.positional_count += 2;
  with.positional = ARENA_ARRAY(e->arena, Object, with.positional_count);
  with.positional_ast = ARENA_ARRAY(e->arena, const Ast *, with.positional_count);
  with.positional[0] = object_value(unit->p, call->span);
  with.positional[1] = object_value(unit->g, call->span);
  for (int i = 0; i < arguments->positional_count; i++) {
    with.positional[i + 2] = arguments->positional[i];
    with.positional_ast[i + 2] = arguments->positional_ast[i];
  }
  return with;
}

// Does a value fit what it becomes, a parameter of the unit or its state? An axis that it lacks has the same number all
// along.
static bool fits_unit(Elaborator *e, const UpdateUnit *unit, const char *what, const Object *object, ValueId value) {
  const Persistent *first = &e->graph->persistent.at[unit->members[0]];
  const Shape all = graph_shape(e->graph, unit->p), has = graph_shape(e->graph, value);
  if (shape_contains(&all, &has) || shape_contains(&first->shape, &has)) {
    return true;
  }
  Shape shown = {0};
  for (int i = 0; i < has.count; i++) {
    if (has.axis[i] != unit->axis) {  // that of the pack
      shape_push(&shown, has.axis[i]);
    }
  }
  Diagnostic *error = diag_error(e->diag, E022, object->span, "the parameter '%s' has axes %s, %s has %s", first->name,
                                 axes_text(e, &first->shape), what, axes_text(e, &shown));
  diag_help(e->diag, error, "name axes back that were renamed: `x[in -> a]` is undone by `x[a -> in]`");
  return false;
}

// What the states have become is kept.
static bool assign_states(Elaborator *e, const UpdateUnit *unit, const ValueList *states, const Name *names,
                          ValueId finite) {
  const Ast *update = e->update->update;
  bool good = true;
  for (int i = 0; i < states->count; i++) {
    const Object *object = frame_find(e->frame, names[i]);
    ValueId now;
    if (object_tensor(e, *object, true, update->span, &now) && now != states->at[i]) {
      const char *what = arena_format(e->arena, "the new value of its state '%s'", names[i]);
      good = fits_unit(e, unit, what, object, now) && good;
      if (good) {
        assign(e, states->at[i], now, finite);
      }
    }
  }
  return good;
}

// *next: what the parameters become.
static bool run_update(Elaborator *e, const UpdateUnit *unit, Arguments *arguments, ValueId finite, ValueId *next) {
  const Ast *call = e->spec->text->optimizers.at[unit->rule].call;
  const Ast *update = unit_find(e->unit, SPACE_CODE, call->name)->ast;
  const Persistent *first = &e->graph->persistent.at[unit->members[0]];
  Arguments bound = with_gradient(e, unit, call, arguments);
  e->update->update = update;
  e->update->unit = unit;
  e->graph->scope = graph_scope(e->graph, first->scope, update->name, unit->count > 1 ? update->name : first->name, -1);
  Frame *frame = frame_push(e, FRAME_UPDATE, update, name_of(e->names, ""));
  bool good = update_takes_axes(update) ? bind_matrix(e, update, first, &bound, call->span)
                                        : bind_formals(e, update, &bound, frame, call->span);
  ValueList states = {0};
  Name *names = ARENA_ARRAY(e->arena, Name, update->kids[1]->count + 1);
  good = good && make_states(e, unit, update, &states, names);
  if (good) {
    run_block(e, update->kids[1]);
    ValueId value;
    if (frame->result.kind == OBJECT_NOTHING && e->exhausted) {
      frame->result = object_poison();  // it was not looked at to its end
    } else if (frame->result.kind == OBJECT_NOTHING) {
      Diagnostic *error = diag_error(e->diag, E036, update->name_span, "the update '%s' returns nothing", update->name);
      diag_help(e->diag, error, "end it with what the parameter becomes: `return p - lr * g;`");
      frame->result = object_poison();
    }
    good = object_tensor(e, frame->result, true, update->span, &value);
    good = good && assign_states(e, unit, &states, names, finite) &&
           fits_unit(e, unit, "what the update returns", &frame->result, value);
    if (good) {
      *next = assign(e, unit->p, value, finite);
    }
  }
  frame_pop(e);
  return good;
}

static void output(Elaborator *e, const char *name, ValueId value) {
  graph_add1(e->graph, OP_OUTPUT, (NodeInit){NODE_INIT, .text = name_of(e->names, name)}, value);
}

// A rule whose selectors select no parameter, or only those that a later rule selects as well, is probably a slip.
static void warn_unused_rules(Elaborator *e, const bool *used) {
  for (int i = 0; i < e->spec->text->optimizers.count; i++) {
    const Ast *selectors = e->spec->text->optimizers.at[i].selectors;
    if (selectors && !used[i]) {
      diag_warning(e->diag, E015, selectors->span, "no parameter is left for this rule");
    }
  }
}

void assign_optimizer_groups(Elaborator *e) {
  bool *used = ARENA_ARRAY(e->arena, bool, e->spec->text->optimizers.count + 1);
  for (int i = 0; i < e->graph->persistent.count; i++) {
    if (e->graph->persistent.at[i].role == ROLE_PARAMETER) {
      int rule = rule_for(e, &e->graph->persistent.at[i]);
      e->graph->persistent.at[i].group = rule >= 0 && e->spec->text->optimizers.at[rule].call ? rule : -1;
      if (rule >= 0) {
        used[rule] = true;
      }
    }
  }
  warn_unused_rules(e, used);
}

// The step that the forward asked for may be gone, with a dropout that nothing used: then it is asked for again.
static void forget_removed_step(Elaborator *e) {
  const uint64_t key[] = {map_key(name_of(e->names, INPUT_STEP)), OP_INPUT};
  ValueId step = (ValueId)map_get_bytes_or(&e->leaves, key, sizeof key, -1);
  const NodeList *nodes = &e->graph->regions.at[0].nodes;
  for (int i = 0; step >= 0 && i < nodes->count; i++) {
    if (nodes->at[i] == graph_value(e->graph, step)->node) {
      return;
    }
  }
  map_put_bytes(&e->leaves, key, sizeof key, -1);
}

// A step that is skipped keeps the model's state as well.
static void keep_state(Elaborator *e, ValueId finite) {
  Graph *graph = e->graph;
  const NodeList nodes = graph->regions.at[0].nodes;
  for (int i = 0; i < nodes.count; i++) {
    const Node *node = graph_node(graph, nodes.at[i]);
    const Node *target = node->op == OP_ASSIGN ? graph_producer(graph, node->operands[0]) : NULL;
    if (target && target->op == OP_STATE && graph_value(graph, target->first_result)->role == ROLE_STATE) {
      const ValueId old = node->operands[0];
      const ValueId kept = graph_op3(graph, OP_WHERE, finite, node->operands[1], old);
      graph_node(graph, nodes.at[i])->operands[1] = kept;
    }
  }
}

static bool updates_any(const struct UpdateContext *context, int rule) {
  for (int i = 0; i < context->units->count; i++) {
    if (context->units->at[i].rule == rule) {
      return true;
    }
  }
  return false;
}

// The `lr` of a rule that updates something, by name or as the first argument behind the parameter and its gradient.
static const Object *rate_of(Elaborator *e, int rule, const Arguments *arguments, const Ast **written) {
  const Ast *call = e->spec->text->optimizers.at[rule].call;
  const Ast *formals = call ? unit_find(e->unit, SPACE_CODE, call->name)->ast->kids[0] : NULL;
  if (!call || arguments->failed || !updates_any(e->update, rule)) {
    return NULL;
  }
  for (int j = 0; j < arguments->named_count; j++) {
    if (strcmp(arguments->names[j], "lr") == 0) {
      *written = arguments->named_ast[j];
      return &arguments->named[j];
    }
  }
  if (formals->count <= 2 || strcmp(formals->kids[2]->name, "lr") != 0 || arguments->positional_count == 0) {
    return NULL;
  }
  *written = arguments->positional_ast[0];
  return &arguments->positional[0];
}

// The rate that a step says: of the first rule for everything, else of the first that updates anything.
static void output_rate(Elaborator *e, const Arguments *arguments) {
  const int count = e->spec->text->optimizers.count;
  for (int i = 0; i < 2 * count; i++) {
    const int rule = i % count;
    const Ast *written;
    const Object *rate =
        i < count && e->spec->text->optimizers.at[rule].selectors ? NULL : rate_of(e, rule, &arguments[rule], &written);
    ValueId lr;
    if (rate && object_tensor(e, *rate, true, e->spec->text->optimizers.at[rule].call->span, &lr)) {
      output(e, "lr", lr);
      return;
    }
  }
}

// The arguments of a rule. The parameter and its gradient are given already.
static Arguments rule_arguments(Elaborator *e, const Ast *call) {
  const Ast *update = unit_find(e->unit, SPACE_CODE, call->name)->ast, *formals = update->kids[0];
  Name given[2];
  Function has = {.names = given};
  for (; has.count < 2 && has.count < formals->count; has.count++) {
    given[has.count] = formals->kids[has.count]->name;
  }
  Arguments arguments;
  frame_push(e, FRAME_SETTINGS, NULL, name_of(e->names, ""));
  settings_names(e, e->frame);
  collect_arguments(e, call, update, &has, &arguments);
  frame_pop(e);
  return arguments;
}

bool elaborate_updates(Elaborator *e, const UpdateUnits *units, const ValueId *gradient, ValueId loss) {
  int errors = e->diag->reports;
  struct UpdateContext context = {.units = units, .gradient = gradient, .totals = map_create(e->arena)};
  context.change = ARENA_ARRAY(e->arena, ValueId, units->count + 1);
  e->update = &context;
  forget_removed_step(e);
  if (units->count == 0) {
    const Ast *model = e->spec->text->model->ast;
    Diagnostic *error =
        diag_error(e->diag, E036, model->name_span, "no parameter of '%s' would be trained", model->name);
    bool freezes = false;
    for (int i = 0; i < e->spec->text->optimizers.count; i++) {
      freezes |= !e->spec->text->optimizers.at[i].call;
    }
    if (e->graph->persistent.count > 0 && !freezes) {
      diag_help(e->diag, error,
                "no gradient of the loss reaches one: it ends at a `stop`, or at `top` of which positions alone are "
                "read, or the loss reads none of them");
    } else if (e->graph->persistent.count > 0) {
      diag_help(e->diag, error,
                "the recipe freezes all of them; an optimizer behind `freeze *` that names some trains these, as "
                "`optimizer lora: adamw(lr = 1e-4);` trains adapters, where the model has them");
    }
    return false;
  }
  ValueId squares = sum_over_parameters(e, NULL, SPAN_NONE);
  ValueId finite =
      graph_op2(e->graph, OP_AND, graph_op1(e->graph, OP_IS_FINITE, squares), graph_op1(e->graph, OP_IS_FINITE, loss));
  ValueId losses = -1;
  const ValueId spike = spike_losses(e, &losses, loss);
  finite = spike < 0 ? finite : graph_op2(e->graph, OP_AND, finite, graph_op1(e->graph, OP_NOT, spike));
  output(e, "grad_norm", graph_op1(e->graph, OP_SQRT, squares));
  output(e, "skipped", graph_op1(e->graph, OP_TO_REAL, graph_op1(e->graph, OP_NOT, finite)));
  keep_state(e, finite);
  Arguments *arguments = ARENA_ARRAY(e->arena, Arguments, e->spec->text->optimizers.count + 1);
  bool *updates = ARENA_ARRAY(e->arena, bool, e->spec->text->optimizers.count + 1);
  for (int i = 0; i < e->spec->text->optimizers.count; i++) {
    updates[i] = updates_any(&context, i);
    const Ast *call = e->spec->text->optimizers.at[i].call;
    if (!call) {
      continue;
    }
    arguments[i] = rule_arguments(e, call);
    const Ast *written = NULL;
    const Object *rate = rate_of(e, i, &arguments[i], &written);
    if (rate) {
      check_learning_rate(e, rate, written, e->spec->text->optimizers.at[i].selectors != NULL);
    }
  }
  output_rate(e, arguments);
  check_clips(e, arguments, updates);
  for (int i = 0; i < units->count && e->diag->reports == errors; i++) {
    UpdateUnit unit = units->at[i];
    ValueId next = -1;
    if (!arguments[unit.rule].failed) {
      run_update(e, &unit, &arguments[unit.rule], finite, &next);
    }
    const bool watches = e->spec->watched.count > 0 && next >= 0;
    context.change[i] = watches ? graph_op2(e->graph, OP_SUB, next, unit.p) : -1;
  }
  if (e->diag->reports == errors) {
    update_norms(e);
  }
  if (spike >= 0) {
    assign(e, losses, spike_next(e, losses, loss), finite);
  }
  for (int i = 0; i < context.targets.count; i++) {
    graph_op2(e->graph, OP_ASSIGN, context.targets.at[i], context.values.at[i]);
  }
  e->update = NULL;
  return e->diag->reports == errors;
}
