// elaborate.c: statements and frames; the entry to elaboration.
#include "lang/elaborate.h"

#include <string.h>

#include "compiler/plan/numbers.h"
#include "lang/foreign.h"
#include "lang/lint.h"
#include "lang/selector_names.h"

enum {
  ELABORATE_MAX_NODES = 1000000,
  ELABORATE_MAX_REPEAT = 100000,
  ELABORATE_MAX_STEPS = 1000000,
  ELABORATE_MAX_ERRORS = 1000,  // far more than are shown
  ELABORATE_MAX_PORTS = 1000
};

// Everything is unrolled: a short text may ask for more than there is time and memory for.
bool elaborate_step(Elaborator *e, Span span) {
  if (!e->exhausted && ++e->steps > ELABORATE_MAX_STEPS) {
    Diagnostic *error = diag_error(e->diag, E090, span_of_user(e, span),
                                   "the program takes more than %d steps to unroll", ELABORATE_MAX_STEPS);
    diag_help(e->diag, error, "each round of a `repeat` and each call of a function counts with all that is in it");
    e->exhausted = true;
  }
  e->exhausted = e->exhausted || e->diag->errors > ELABORATE_MAX_ERRORS;
  return !e->exhausted;
}

Frame *frame_push(Elaborator *e, FrameKind kind, const Ast *function, Name prefix) {
  Frame *frame = ARENA_NEW(e->arena, Frame);
  frame->kind = kind;
  frame->caller = e->frame;
  frame->function = function;
  frame->prefix = frame->parameters = frame->shared = prefix;
  frame->variables = map_create(e->arena);
  frame->result.kind = OBJECT_NOTHING;
  e->frame = frame;
  return frame;
}

void frame_pop(Elaborator *e) {
  e->frame = e->frame->caller;
}

ValueId leaf(Elaborator *e, Op op, Name name, ElementType type, AxisId bound, Shape shape, Role role) {
  int64_t known = map_get_bytes_or(&e->leaves, MAP_KEY(map_key(name), (uint64_t)op), -1);
  if (known >= 0) {
    return (ValueId)known;
  }
  RegionId region = e->graph->region;
  Role before = e->graph->role;
  e->graph->region = 0;
  e->graph->role = role;
  NodeInit init = {NODE_INIT, .text = name, .type = type, .bound = bound, .shape = shape};
  init.bound = bound;
  ValueId value = graph_add0(e->graph, op, init);
  e->graph->region = region;
  e->graph->role = before;
  map_put_bytes(&e->leaves, MAP_KEY(map_key(name), (uint64_t)op), value);
  return value;
}

ValueId step_value(Elaborator *e) {
  return leaf(e, OP_INPUT, name_of(e->names, INPUT_STEP), TYPE_INT, -1, (Shape){0}, ROLE_INPUT);
}

ValueId draw_value(Elaborator *e) {
  const Name name = name_of(e->names, e->training ? INPUT_STEP : INPUT_DRAW);
  return leaf(e, OP_INPUT, name, TYPE_INT, -1, (Shape){0}, ROLE_INPUT);
}

// Inputs and outputs are what the runtime hands over in each step.
bool ports_left(Elaborator *e, const Ast *ast) {
  if (e->ports++ < ELABORATE_MAX_PORTS) {
    return true;
  }
  diag_error(e->diag, E090, ast->span, "a model has at most %d inputs and outputs", ELABORATE_MAX_PORTS);
  e->exhausted = true;
  return false;
}

static void run_input(Elaborator *e, const Ast *ast) {
  const Ast *type = ast->kids[0];
  ElementType element;
  AxisId bound;
  Shape shape;
  Object object = object_poison();
  if (e->frame->kind != FRAME_MODEL) {
    diag_error(e->diag, E035, ast->span, "inputs are declared by the model, not inside functions");
  } else if (!already_declared(e, ast) && ports_left(e, ast) && evaluate_type(e, type, &element, &bound) &&
             evaluate_axes(e, type->kids[1], &shape, NULL, NULL)) {
    e->graph->span = ast->span;
    object = object_value(leaf(e, OP_INPUT, ast->name, element, bound, shape, ROLE_INPUT), ast->name_span);
  }
  frame_set(e, e->frame, ast->name, object);
}

static void assign_state(Elaborator *e, const Ast *target, Object *old, Object value) {
  ValueId state = old->value, tensor;
  Shape shape = graph_shape(e->graph, state);
  if (!e->training || !object_tensor(e, value, true, target->span, &tensor)) {
    return;
  }
  if (e->scan) {
    diag_error(e->diag, E035, target->span, "the state '%s' changes once a step, not in a scan", target->name);
    return;
  }
  Shape has = graph_shape(e->graph, tensor);
  if (!shape_contains(&shape, &has)) {
    diag_error(e->diag, E022, target->span, "the state '%s' has axes %s, the value has %s", target->name,
               axes_text(e, &shape), axes_text(e, &has));
    return;
  }
  int64_t before = map_get_or(&e->assigned, (uint64_t)state, -1);
  if (before >= 0) {
    Diagnostic *error = diag_error(e->diag, E035, target->span, "the state '%s' is assigned twice", target->name);
    diag_related(e->diag, error, graph_node(e->graph, (NodeId)before)->span, "the first time");
    diag_help(e->diag, error, "it changes once, after the step: give what comes between a name of its own");
    return;
  }
  RegionId region = e->graph->region;
  e->graph->region = 0;
  e->graph->span = target->span;
  map_put(&e->assigned, (uint64_t)state, e->graph->nodes.count);
  graph_op2(e->graph, OP_ASSIGN, state, tensor);
  e->graph->region = region;
}

static void assign_one(Elaborator *e, const Ast *target, Object value, const Ast *label) {
  Object *old = frame_find(e->frame, target->name);
  if (old && old->state && old->kind == OBJECT_VALUE) {
    assign_state(e, target, old, value);
    return;
  }
  if (old && (old->kind == OBJECT_AXIS || old->kind == OBJECT_AXES)) {
    Diagnostic *error = diag_error(e->diag, E013, target->span, "'%s' is an axis and cannot be assigned", target->name);
    diag_related(e->diag, error, old->span, "declared here");
    return;
  }
  if (value.kind == OBJECT_NOTHING) {
    diag_error(e->diag, E036, target->span, "nothing is assigned to '%s': the call returns no value", target->name);
    value = object_poison();
  }
  if (value.kind == OBJECT_VALUE) {
    Value *made = graph_value(e->graph, value.value);
    if (!made->name) {
      made->name = target->name;
    }
    if (label) {
      made->label = label->name;
    }
  }
  value.span = target->span;
  value.state = false;
  frame_set(e, e->frame, target->name, value);
}

static void run_assign(Elaborator *e, const Ast *ast) {
  const Ast *targets = ast->kids[0];
  Name before = e->frame->variable;
  const Ast *outer = e->frame->assigned;
  e->frame->variable = targets->kids[0]->name;
  e->frame->assigned = targets->count == 1 ? ast->kids[1] : NULL;
  Object value = evaluate(e, ast->kids[1]);
  e->frame->variable = before;
  e->frame->assigned = outer;
  if (targets->count == 1) {
    keep_axes_in_sum(e, ast, &value);
    assign_one(e, targets->kids[0], value, ast->kids[2]);
    return;
  }
  bool tuple = value.kind == OBJECT_TUPLE && value.count == targets->count;
  if (!tuple && value.kind != OBJECT_POISON) {
    diag_error(e->diag, E030, ast->span, "%d names are assigned from %s", targets->count, object_describe(e, &value));
  }
  for (int i = 0; i < targets->count; i++) {
    assign_one(e, targets->kids[i], tuple ? value.items[i] : object_poison(), ast->kids[2]);
  }
}

static void run_repeat(Elaborator *e, const Ast *ast) {
  double number;
  bool integer;
  const Ast *count = ast->kids[0];
  if (!evaluate_number(e, count, &number, &integer)) {
    return;
  }
  if (!integer || number < 0 || number > ELABORATE_MAX_REPEAT) {
    diag_error(e->diag, E090, count->span, "a repeat runs 0 to %d times, not %.15g", ELABORATE_MAX_REPEAT, number);
    return;
  }
  Name word = reach_repeat(e->names, ast);
  Name prefix = e->frame->prefix, parameters = e->frame->parameters, shared = e->frame->shared;
  ScopeId scope = e->graph->scope;
  e->frame->shared = path_join_name(e, shared, word);
  CarriesList carries = {0};
  keep_axes_collect(e, ast->kids[2], &carries);
  for (int64_t i = 0; i < (int64_t)number && !e->frame->returned && elaborate_step(e, count->span); i++) {
    Name round = name_format(e->names, "%s.%lld", word, (long long)i);
    e->frame->prefix = path_join_name(e, prefix, round);
    e->frame->parameters = path_join_name(e, parameters, round);
    e->graph->scope = graph_scope(e->graph, scope, word, e->frame->prefix, i);
    if (ast->kids[1]) {
      frame_set(e, e->frame, ast->kids[1]->name, object_number((double)i, true, ast->kids[1]->span));
    }
    int errors = e->diag->reports;
    keep_axes_begin(e, &carries);
    run_block(e, ast->kids[2]);
    if (e->diag->reports == errors) {
      keep_axes_end(e, ast->kids[2], &carries);
    }
    if (e->diag->reports > errors) {
      break;  // the other iterations would only say the same again
    }
  }
  e->frame->prefix = prefix;
  e->frame->parameters = parameters;
  e->frame->shared = shared;
  e->graph->scope = scope;
}

// What the branches of an `if` would give a value, where nobody knows which of them is taken.
static void poison_branches(Elaborator *e, const Ast *ast) {
  const bool assigns = ast->kind == AST_ASSIGN;
  for (int i = 0; i < (assigns ? ast->kids[0]->count : ast->count); i++) {
    if (assigns) {
      frame_set(e, e->frame, ast->kids[0]->kids[i]->name, object_poison());
    } else if (ast->kids[i]) {
      poison_branches(e, ast->kids[i]);
    }
  }
}

static void run_if(Elaborator *e, const Ast *ast) {
  Object condition = evaluate(e, ast->kids[0]);
  if (condition.kind == OBJECT_POISON) {
    poison_branches(e, ast);
    return;
  }
  if (condition.kind == OBJECT_NUMBER) {
    poison_branches(e, ast);
    Diagnostic *error =
        diag_error(e->diag, E033, ast->kids[0]->span, "`if` needs a truth value known at compile time, found %s",
                   object_describe(e, &condition));
    diag_help(e->diag, error, "give it `true` or `false`, or compare: `if n > 0`");
    return;
  }
  if (condition.kind != OBJECT_BOOL) {
    poison_branches(e, ast);
    Diagnostic *error =
        diag_error(e->diag, E033, ast->kids[0]->span, "`if` needs a truth value known at compile time, found %s",
                   object_describe(e, &condition));
    diag_help(e->diag, error, "to choose element by element: `where(condition, a, b)`");
    return;
  }
  const bool holds = condition.number != 0;
  const Ast *branch = holds ? ast->kids[1] : ast->kids[2];
  if (!holds && map_get_or(&e->untaken_known, map_key(ast), 0) == 0) {
    map_put(&e->untaken_known, map_key(ast), 1);
    array_push(e->arena, &e->untaken, ast);
  }
  if (branch && branch->kind == AST_IF) {
    run_if(e, branch);
  } else if (branch) {
    run_block(e, branch);
  }
}

static void run_return(Elaborator *e, const Ast *ast) {
  if (e->frame->kind == FRAME_MODEL) {
    diag_error(e->diag, E035, ast->span, "a model does not return: assign `loss`, or declare an `output`");
    return;
  }
  if (ast->count == 1) {
    e->frame->result = evaluate(e, ast->kids[0]);
  } else {
    Ast tuple = *ast;
    tuple.kind = AST_TUPLE;
    e->frame->result = evaluate(e, arena_copy(e->arena, &tuple, sizeof tuple));
  }
  e->frame->returned = true;
}

static void run_statement(Elaborator *e, const Ast *ast) {
  switch (ast->kind) {
    case AST_AXIS:
      run_axis(e, ast);
      break;
    case AST_CONST:
      run_const(e, ast);
      break;
    case AST_INPUT:
      run_input(e, ast);
      break;
    case AST_PARAM:
      run_param(e, ast);
      break;
    case AST_STATE:
      run_state(e, ast);
      break;
    case AST_ASSIGN:
      run_assign(e, ast);
      break;
    case AST_OUTPUT:
      run_output(e, ast);
      break;
    case AST_REPEAT:
      run_repeat(e, ast);
      break;
    case AST_IF:
      run_if(e, ast);
      break;
    case AST_RETURN:
      run_return(e, ast);
      break;
    case AST_SCAN:
      run_scan(e, ast);
      break;
    case AST_CARRY:
      run_carry(e, ast);
      break;
    default:
      diag_error(e->diag, E035, ast->span, "a %s is not allowed here", ast_kind_name(ast->kind));
  }
}

void run_block(Elaborator *e, const Ast *block) {
  for (int i = 0; i < block->count && !e->frame->returned && elaborate_step(e, block->kids[i]->span); i++) {
    run_statement(e, block->kids[i]);
    if (!e->exhausted && e->graph->nodes.count > ELABORATE_MAX_NODES) {
      diag_error(e->diag, E090, block->kids[i]->span, "the program has more than %d operations", ELABORATE_MAX_NODES);
      e->exhausted = true;
    }
  }
}

static bool reads_any(const Node *node, const bool *values) {
  bool any = false;
  for (int i = 0; i < node->operand_count; i++) {
    any = any || values[node->operands[i]];
  }
  return any;
}

// Text feeds what logits are computed from. Outputs that are computed from other inputs too, such as targets, are left
// out of generation.
static void drop_outputs(Elaborator *e, ValueId logits) {
  Graph *graph = e->graph;
  NodeList *nodes = &graph->regions.at[0].nodes;
  bool *wanted = ARENA_ARRAY(e->arena, bool, graph->values.count + 1);  // for logits
  bool *unfed = ARENA_ARRAY(e->arena, bool, graph->values.count + 1);
  wanted[logits] = true;
  for (int i = nodes->count - 1; i >= 0; i--) {
    const Node *node = graph_node(graph, nodes->at[i]);
    bool wants = false;
    for (int j = 0; j < node->result_count; j++) {
      wants = wants || wanted[node->first_result + j];
    }
    for (int j = 0; wants && j < node->operand_count; j++) {
      wanted[node->operands[j]] = true;
    }
  }
  int kept = 0;
  for (int i = 0; i < nodes->count; i++) {
    const Node *node = graph_node(graph, nodes->at[i]);
    const bool step = node->op == OP_INPUT && node->first_result == e->step;
    const bool other = reads_any(node, unfed) || (node->op == OP_INPUT && !step && !wanted[node->first_result]);
    for (int j = 0; j < node->result_count; j++) {
      unfed[node->first_result + j] = other;
    }
    nodes->at[kept] = nodes->at[i];
    kept += !(other && node->op == OP_OUTPUT);
  }
  nodes->count = kept;
}

static void finish_model(Elaborator *e, const Ast *model) {
  Object *loss = frame_find(e->frame, name_of(e->names, "loss"));
  Object *logits = frame_find(e->frame, name_of(e->names, "logits"));
  ValueId value;
  if (!loss) {
    Diagnostic *error = diag_error(e->diag, E036, model->name_span, "the model '%s' has no loss", model->name);
    diag_help(e->diag, error, "assign it: `loss = mean(cross_entropy(logits, targets over vocab));`");
    return;
  }
  if (loss->kind == OBJECT_POISON || !object_tensor(e, *loss, true, loss->span, &value)) {
    return;
  }
  if (graph_shape(e->graph, value).count != 0) {
    Shape shape = graph_shape(e->graph, value);
    Diagnostic *error =
        diag_error(e->diag, E036, loss->span, "the loss is not a single number: it has axes %s", axes_text(e, &shape));
    diag_help(e->diag, error, "average it: `loss = mean(...);`");
    return;
  }
  if (e->program == PROGRAM_TRAIN) {
    lint_model(e, value);
  } else if (e->program == PROGRAM_EVALUATE) {
    lint_unit(e, value);
  }
  if (e->program == PROGRAM_TRAIN || e->program == PROGRAM_EVALUATE) {
    graph_add1(e->graph, OP_OUTPUT, (NodeInit){NODE_INIT, .text = name_of(e->names, "loss")}, value);
  }
  if (e->program == PROGRAM_GENERATE && logits && logits->kind == OBJECT_VALUE && object_is_real(e, logits)) {
    graph_add1(e->graph, OP_OUTPUT, (NodeInit){NODE_INIT, .text = name_of(e->names, "logits")}, logits->value);
    drop_outputs(e, logits->value);
  }
  for (int i = 0; e->program == PROGRAM_INITIALISE && i < e->initialisers.count; i++) {
    initialise(e, &e->initialisers.at[i]);
  }
}

// Of a selector that selects nothing: the condition under which the text makes what its last part names.
static void say_untaken(Elaborator *e, Selector selector, DiagMark before) {
  const char *dot = strrchr(selector.name, '.');
  const Name last = name_of(e->names, dot ? dot + 1 : selector.name);
  for (int i = 0; e->diag->all.count > before.count && i < e->untaken.count; i++) {
    const Ast *condition = e->untaken.at[i]->kids[0];
    Reach reach = {.unit = e->unit};
    reach_from(&reach, e->untaken.at[i]->kids[1]);
    if (reach_has(&reach.parts, last) || reach_has(&reach.functions, last)) {
      diag_related(e->diag, &e->diag->all.at[before.count], condition->span, "'%s' is made where this holds", last);
      return;
    }
  }
}

static void check_parameters(Elaborator *e, Selector selector, const char *what) {
  const DiagMark before = diag_mark(e->diag);
  if (!selector_check(e->graph, selector, SELECTS_PARAMETERS, what)) {
    say_untaken(e, selector, before);
  }
}

// Every selector of the recipe selects something of the training step, and so do those of the layout but for rules,
// which are checked where it is known what they cut (shard_rules.c).
static void check_selectors(Elaborator *e) {
  const Spec *spec = e->spec;
  for (int i = 0; i < spec->text->optimizers.count; i++) {
    const OptimizerRule *rule = &spec->text->optimizers.at[i];
    for (int j = 0; rule->selectors && j < rule->selectors->count; j++) {
      const Ast *terms = rule->selectors->kids[j]->kids[0];
      for (int k = 0; k < terms->count; k++) {
        check_parameters(e, selector_of(terms->kids[k]), rule->call ? "to optimize" : "to freeze");
      }
    }
  }
  for (int i = 0; i < spec->watched.count; i++) {
    check_parameters(e, spec->watched.at[i], "to watch");
  }
  for (int i = 0; i < spec->recompute.count && !spec->idle_rules; i++) {
    selector_check(e->graph, spec->recompute.at[i], SELECTS_COMPUTED, "to recompute");
  }
  for (int i = 0; i < spec->offload.count && !spec->idle_rules; i++) {
    selector_check(e->graph, spec->offload.at[i], SELECTS_COMPUTED, "to offload");
  }
  for (int i = 0; i < spec->compress.count && !spec->idle_rules; i++) {
    if (spec->compress.at[i].place.name) {
      selector_check(e->graph, spec->compress.at[i].place, SELECTS_COMPUTED, "to compress");
    }
  }
  for (int i = 0; i < spec->products.count && !spec->idle_rules; i++) {
    if (spec->products.at[i].selector.name) {
      selector_check(e->graph, spec->products.at[i].selector, SELECTS_COMPUTED, "for this precision");
    }
  }
}

Elaborator *elaborate_model(Arena *arena, Names *names, Diag *diag, Unit *unit, const Spec *spec, ProgramKind program) {
  int errors = diag->reports;
  const Ast *model = spec->text->model->ast;
  Elaborator *e = ARENA_NEW(arena, Elaborator);
  *e = (Elaborator){.arena = arena,
                    .names = names,
                    .diag = diag,
                    .unit = unit,
                    .spec = spec,
                    .program = program,
                    .training = program == PROGRAM_TRAIN,
                    .step = -1};
  e->leaves = map_create(arena);
  e->outputs = map_create(arena);
  e->tensors = map_create(arena);
  e->rounds = map_create(arena);
  e->draws = map_create(arena);
  e->assigned = map_create(arena);
  e->unknown = map_create(arena);
  e->untaken_known = map_create(arena);
  e->graph = graph_create(arena, names, diag, model->name);
  e->graph->slots = program == PROGRAM_TRAIN ? spec->microbatches : 1;
  frame_push(e, FRAME_MODEL, NULL, name_of(names, ""));
  run_block(e, model->kids[0]);
  check_settings_used(e);
  if (diag->reports == errors) {
    finish_model(e, model);
  }
  if (diag->reports == errors && program == PROGRAM_TRAIN) {
    check_selectors(e);
  }
  return diag->reports == errors ? e : NULL;
}
