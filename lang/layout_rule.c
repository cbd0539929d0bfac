// layout_rule.c: the rules of a layout: which axis or stored thing goes over which mesh axes, where, in which form.
#include <string.h>

#include "lang/layout_rules.h"
#include "lang/settings_rules.h"

const char *const layout_stored[LAYOUT_STORED] = {"param", "grad", "state", "save"};
static const char *const form_words[] = {"zigzag", "ring", "pad"};

typedef struct {  // one of the names before `:`
  RuleKind kind;
  Selector selector;
} RuleScope;

typedef ARRAY(RuleScope) RuleScopes;

static RuleKind stored_kind(Name name) {
  for (int i = 0; i < LAYOUT_STORED; i++) {
    if (name_is(name, layout_stored[i])) {
      return (RuleKind)(RULE_PARAM + i);
    }
  }
  return RULE_COMPUTE;
}

// ---- Before `:`

static RuleScopes read_scopes(Layout *l, const Ast *list) {
  RuleScopes scopes = {0};
  for (int i = 0; list && i < list->count; i++) {
    const Ast *phrase = list->kids[i];
    Name name = layout_word(phrase);
    RuleKind kind = stored_kind(name);
    if (kind != RULE_COMPUTE || (name && selector_names_known(l->reach, name))) {
      array_push(l->unit->arena, &scopes,
                 ((RuleScope){kind, kind == RULE_COMPUTE ? selector_of(phrase->kids[0]->kids[0]) : (Selector){0}}));
      continue;
    }
    const char *stored = name ? text_closest(name, layout_stored, LAYOUT_STORED) : NULL;
    if (name && !stored) {
      selector_check_names(l->reach, selector_of(phrase->kids[0]->kids[0]), "for this rule");
      continue;
    }
    Diagnostic *error = name ? diag_error(l->unit->diag, E015, phrase->span, "the model has nothing called '%s'", name)
                             : diag_error(l->unit->diag, E015, phrase->span, "a rule is limited by names");
    layout_suggest(l, error, stored, "before `:` stand labels (@resid), functions, paths, or param, grad, state, save");
  }
  if (!list) {
    array_push(l->unit->arena, &scopes, ((RuleScope){RULE_COMPUTE, {0}}));
  }
  return scopes;
}

// ---- Behind `->`

static void read_form(Layout *l, Target *target, const Ast *arguments) {
  int numbers = 0;
  double number;
  for (int i = 0; i < arguments->count; i++) {
    const Ast *argument = arguments->kids[i], *value = argument->kids[0];
    bool plain = !argument->name && argument->group == GROUP_PLAIN && !(argument->flags & AST_VARIADIC);
    Name word = plain && value->kind == AST_NAME ? value->name : NULL;
    if (plain && setting_constant(value, &number)) {
      numbers++;
    } else if (name_in(word, WORDS(form_words))) {
      target->zigzag = target->zigzag || name_is(word, "zigzag");
      target->ring = target->ring || name_is(word, "ring");
      target->padded = target->padded || name_is(word, "pad");
    } else {
      Diagnostic *error = diag_error(l->unit->diag, E042, argument->span, "an axis cannot be split in this form");
      layout_suggest(
          l, error, word ? text_closest(word, WORDS(form_words)) : NULL,
          "forms are zigzag, ring and pad, and for a pipeline the iterations of each chunk, as in `pp(4, 4)`");
    }
  }
  bool named = target->zigzag || target->ring || target->padded;
  if (arguments->count == 0 || (numbers && named)) {
    Diagnostic *error = diag_error(l->unit->diag, E042, target->ast->span,
                                   numbers ? "numbers and forms do not go together" : "a form is missing here");
    diag_help(l->unit->diag, error, "write `%s`, `%s(zigzag)`, `%s(ring)`, `%s(pad)` or, for a pipeline, `%s(4, 4)`",
              target->ast->name, target->ast->name, target->ast->name, target->ast->name, target->ast->name);
  } else if (target->zigzag && target->padded) {
    Diagnostic *error =
        diag_error(l->unit->diag, E042, target->ast->span, "`zigzag` needs even pieces, `pad` allows others");
    diag_help(l->unit->diag, error, "choose one of the two");
  }
  target->parts = numbers == arguments->count && numbers ? arguments : NULL;
}

// The first function that declares an axis of this bare name, or NULL.
static Name owner_of(const Layout *l, Name name) {
  Name bare = layout_axis(l, name);
  for (int i = 0; i < l->reach->axes.count; i++) {
    if (l->reach->axes.at[i].ast->name == bare && l->reach->axes.at[i].function) {
      return l->reach->axes.at[i].function;
    }
  }
  return NULL;
}

void layout_unknown_mesh(Layout *l, const Ast *name, Span span) {
  const char *candidates[LAYOUT_MAX_MESH + 1];
  int count = 0;
  for (; count < l->mesh_count; count++) {
    candidates[count] = l->mesh[count].name;
  }
  candidates[count++] = "none";
  Diagnostic *error =
      diag_error(l->unit->diag, E040, span, "the layout '%s' has no mesh axis '%s'", l->layout->name, name->name);
  const bool turned = l->reach && (reach_axis(l->reach, layout_axis(l, name->name)) || owner_of(l, name->name));
  const char *otherwise = arena_format(
      l->unit->arena, turned ? "an axis of the model stands on the left: `%s -> MESH;`" : "declare it: `mesh %s = 2;`",
      name->name);
  layout_suggest(l, error, text_closest(name->name, candidates, count), otherwise);
}

static const Targets *read_targets(Layout *l, const Ast *right) {
  Targets *targets = ARENA_NEW(l->unit->arena, Targets);
  int errors = l->unit->diag->reports;
  *targets = (Targets){0};
  for (int i = 0; i < right->count; i++) {
    const Ast *name = right->kids[i];
    int mesh = layout_mesh(l, name->name);
    const Ast *first = NULL;
    for (int j = 0; j < i && !first; j++) {
      first = right->kids[j]->name == name->name ? right->kids[j] : NULL;
    }
    if (name_is(name->name, "none")) {
      if (right->count > 1 || name->kind == AST_CALL) {
        diag_error(l->unit->diag, E042, name->span, "`none` stands alone");
      }
    } else if (first) {
      Diagnostic *error = diag_error(l->unit->diag, E040, name->span, "the mesh axis '%s' is named twice", name->name);
      diag_related(l->unit->diag, error, first->span, "the first");
    } else if (mesh < 0) {
      layout_unknown_mesh(l, name, name->name_span);
    } else {
      Target *target = &targets->at[targets->count++];
      *target = (Target){.ast = name, .mesh = mesh};
      if (name->kind == AST_CALL) {
        read_form(l, target, name->kids[0]);
      }
    }
  }
  targets->wrong = l->unit->diag->reports > errors;
  return targets;
}

// ---- The left side

static void of_functions(Layout *l, const Ast *phrase, Name name, Name function) {
  Arena *arena = l->unit->arena;
  Name bare = layout_axis(l, name), last = NULL;
  const char *marks = name + strlen(bare), *full = "";
  for (int i = 0; i < l->reach->axes.count; i++) {
    const ReachAxis *axis = &l->reach->axes.at[i];
    if (axis->ast->name == bare && axis->function && axis->function != last) {
      full =
          arena_format(arena, "%s%s`%s%s -> MESH;`", full, last ? " or " : "", reach_axis_name(l->reach, axis), marks);
      last = axis->function;
    }
  }
  Diagnostic *error = diag_error(l->unit->diag, E041, phrase->span,
                                 "'%s' is an axis of the function '%s', not of the model", name, function);
  diag_help(l->unit->diag, error, "name the function too: %s", full);
}

static void unknown_left(Layout *l, const Ast *phrase, Name name) {
  enum { MOST = 512 };
  const char *candidates[MOST];
  int count = 0;
  for (int i = 0; i < l->reach->axes.count && count < MOST - LAYOUT_STORED; i++) {
    candidates[count++] = reach_axis_name(l->reach, &l->reach->axes.at[i]);
  }
  memcpy(candidates + count, layout_stored, sizeof *layout_stored * LAYOUT_STORED);
  count += LAYOUT_STORED;
  if (!name) {
    Diagnostic *error = diag_error(l->unit->diag, E041, phrase->span, "the left side of a rule is a list of axes");
    diag_help(l->unit->diag, error, "write `kv_heads, ffn -> tp;` or `@label: seq -> tp;`");
    return;
  }
  Name function = owner_of(l, name);
  if (function) {
    of_functions(l, phrase, name, function);
    return;
  }
  bool scope = selector_names_known(l->reach, name);
  Diagnostic *error = diag_error(l->unit->diag, E041, phrase->span, "the model has no axis '%s'", name);
  const char *closest = text_closest(name, candidates, count);
  const char *scoped = arena_format(l->unit->arena, "to say it of '%s' alone: `%s: AXIS -> MESH;`", name, name);
  if (reach_has(&l->reach->repeats, name)) {
    diag_help(
        l->unit->diag, error,
        "a pipeline needs an axis to repeat over: `axis layers = 4;`, `repeat layers { ... }` and `layers -> MESH;`");
    return;
  }
  layout_suggest(l, error, closest, scope ? scoped : "a rule maps axes, or one of param, grad, state and save");
}

// One rule for the targets of each form: `seq -> cp(zigzag), tp` is two.
static void add_rules(Layout *l, LayoutRule rule, const Targets *right) {
  uint32_t done = 0;
  for (int i = 0; i < right->count; i++) {
    rule.padded = rule.padded || right->at[i].padded;
  }
  for (int i = 0; i < right->count || (i == 0 && right->count == 0); i++) {
    const Target *first = right->count ? &right->at[i] : NULL;
    if (first && done >> first->mesh & 1) {
      continue;
    }
    rule.mesh = 0;
    for (int j = i; j < right->count; j++) {
      const Target *other = &right->at[j];
      bool same = other->zigzag == first->zigzag && other->ring == first->ring;
      rule.mesh |= same ? 1u << other->mesh : 0;
    }
    rule.zigzag = first && first->zigzag;
    rule.ring = first && first->ring;
    done |= rule.mesh;
    array_push(l->unit->arena, &l->rules, rule);
  }
}

static void add_pipeline(Layout *l, const Ast *setting, const Ast *phrase, const Targets *right) {
  Diag *diag = l->unit->diag;
  Name axis = layout_word(phrase);
  const Target *target = &right->at[0];
  if (setting->kids[1]) {
    Diagnostic *error = diag_error(diag, E042, phrase->span,
                                   "'%s' is repeated over, so it makes a pipeline, and that is "
                                   "not for some places alone",
                                   axis);
    diag_help(diag, error, "write `%s -> %s;` without what stands before `:`", axis, target->ast->name);
  } else if (right->count > 1) {
    Diagnostic *error = diag_error(diag, E042, right->at[1].ast->span, "a pipeline goes over one mesh axis");
    diag_help(diag, error, "write `%s -> %s;`", axis, target->ast->name);
  } else if (target->zigzag || target->ring || target->padded) {
    Diagnostic *error = diag_error(diag, E042, target->ast->span,
                                   "'%s' is repeated over, so it makes a pipeline, which has no such form", axis);
    diag_help(diag, error, "write `%s`, or the iterations of each chunk: `%s(4, 4)`", target->ast->name,
              target->ast->name);
  } else if (l->pipeline.axis) {
    Diagnostic *error =
        diag_error(diag, E042, phrase->span, "a layout has one pipeline, and '%s' makes a second", axis);
    diag_related(diag, error, l->pipeline.span, "the first");
    diag_help(diag, error, "map one repeated axis only");
  } else {
    l->pipeline.axis = axis;
    l->pipeline.mesh = target->mesh;
    l->pipeline.span = setting->span;
    l->stages = target->ast;
    l->parts = target->parts;
    Split split = {.left = phrase, .size = layout_size(l, axis), .right = right, .pipeline = true};
    array_push(l->unit->arena, &l->splits, split);
  }
}

// What a rule with such a form cannot say; reported once for each of its targets.
static bool check_forms(Layout *l, const Targets *right, bool stored, Name axis) {
  bool good = true;
  for (int i = 0; i < right->count; i++) {
    const Target *target = &right->at[i];
    Diagnostic *error = NULL;
    bool form = target->parts || target->zigzag || target->ring || target->padded;
    if (stored && form) {
      error = diag_error(l->unit->diag, E042, target->ast->span,
                         "forms say how operations are split, and this rule says how something is kept");
    } else if (target->parts) {
      error = diag_error(l->unit->diag, E042, target->ast->span,
                         "numbers are for a pipeline, and the model does not repeat over '%s'", axis);
    }
    if (error) {
      diag_help(l->unit->diag, error, "write `%s`", target->ast->name);
      good = false;
    }
  }
  return good;
}

static void add_split(Layout *l, const Ast *phrase, Name scope, const Targets *right) {
  Split split = {
      .left = phrase, .scope = scope, .size = layout_size(l, layout_axis(l, layout_word(phrase))), .right = right};
  for (int i = 0; i < right->count; i++) {
    split.padded = split.padded || right->at[i].padded;
  }
  array_push(l->unit->arena, &l->splits, split);
}

static void read_left(Layout *l, const Ast *setting, const Ast *phrase, const RuleScopes *scopes,
                      const Targets *right) {
  Name name = layout_word(phrase);
  RuleKind stored = stored_kind(name);
  Name like = name && stored == RULE_COMPUTE ? layout_axis(l, name) : NULL;
  bool known = like && (reach_axis(l->reach, like) || owner_of(l, like));
  bool repeated = known && reach_has(&l->reach->repeats, like);
  if (stored == RULE_COMPUTE && !repeated && (!like || !reach_axis(l->reach, like))) {
    unknown_left(l, phrase, name);
    return;
  }
  if (repeated) {
    if (right->count && !right->wrong) {
      add_pipeline(l, setting, phrase, right);
    }
    return;
  }
  if (right->wrong) {
    return;
  }
  for (int i = 0; i < scopes->count; i++) {
    const RuleScope *scope = &scopes->at[i];
    if (stored != RULE_COMPUTE && scope->kind != RULE_COMPUTE) {
      Diagnostic *error =
          diag_error(l->unit->diag, E041, phrase->span, "'%s' is kept, and so is what stands before `:`", name);
      diag_help(l->unit->diag, error, "write `%s, %s -> MESH;`, or an axis behind `:`",
                layout_stored[scope->kind - RULE_PARAM], name);
      return;
    }
    LayoutRule rule = {.kind = stored != RULE_COMPUTE ? stored : scope->kind,
                       .scope = scope->selector,
                       .axis = stored != RULE_COMPUTE ? NULL : name,
                       .sized = layout_size(l, layout_axis(l, name)) > 0,
                       .span = setting->span,
                       .left = phrase->span};
    if (!check_forms(l, right, rule.kind != RULE_COMPUTE, name)) {
      return;
    }
    add_rules(l, rule, right);
    if (rule.kind == RULE_COMPUTE) {
      add_split(l, phrase, scope->selector.name, right);
    }
  }
}

void layout_read_rule(Layout *l, const Ast *setting) {
  enum { MOST_RULES = 1000 };
  if (l->rules.count >= MOST_RULES) {
    if (!l->full) {
      diag_error(l->unit->diag, E090, setting->span, "a layout has at most %d rules", (int)MOST_RULES);
    }
    l->full = true;
    return;
  }
  RuleScopes scopes = read_scopes(l, setting->kids[1] ? setting->kids[0] : NULL);
  const Ast *left = setting->kids[1] ? setting->kids[1] : setting->kids[0];
  const Targets *right = read_targets(l, setting->kids[2]);
  for (int i = 0; i < left->count; i++) {
    read_left(l, setting, left->kids[i], &scopes, right);
  }
}

// ---- Rules against each other

static const char *rule_subject(const Layout *l, const LayoutRule *rule) {
  const char *stored = rule->kind == RULE_COMPUTE ? NULL : layout_stored[rule->kind - RULE_PARAM];
  const char *what = rule->axis && stored ? arena_format(l->unit->arena, "'%s' of '%s'", rule->axis, stored)
                                          : arena_format(l->unit->arena, "'%s'", rule->axis ? rule->axis : stored);
  return rule->scope.name ? arena_format(l->unit->arena, "%s in '%s'", what, rule->scope.name) : what;
}

// A second rule for the same thing and mesh axis has no effect there.
static void warn_twice(Layout *l, const LayoutRule *first, LayoutRule *second) {
  bool same = first->kind == second->kind && first->scope.name == second->scope.name && first->axis == second->axis;
  bool meet = (first->mesh & second->mesh) || !first->axis || !first->mesh || !second->mesh;
  bool again = first->mesh == second->mesh && first->zigzag == second->zigzag && first->ring == second->ring &&
               first->padded == second->padded;
  if (same && meet) {
    second->again = true;
    Diagnostic *warning = diag_warning(
        l->unit->diag, E042, second->span,
        again ? "%s is mapped so already" : "%s is mapped twice, and the first rule holds", rule_subject(l, first));
    diag_related(l->unit->diag, warning, first->span, "the first rule");
    if (!first->axis && first->mesh && second->mesh && !again) {
      diag_help(l->unit->diag, warning, "to cut it over all of these mesh axes, name them in one rule");
    } else {
      diag_help(l->unit->diag, warning, "remove one of the two");
    }
  }
}

void layout_check_rules(Layout *l) {
  for (int i = 0; i < l->rules.count; i++) {
    LayoutRule *rule = &l->rules.at[i];
    if (l->pipeline.axis && rule->mesh >> l->pipeline.mesh & 1) {
      Diagnostic *error = diag_error(l->unit->diag, E042, rule->span,
                                     "the stages of the pipeline are along '%s', so nothing else can be split over it",
                                     l->mesh[l->pipeline.mesh].name);
      diag_related(l->unit->diag, error, l->pipeline.span, "the pipeline");
      diag_help(l->unit->diag, error, "declare one more mesh axis");
    }
    for (int j = 0; j < i && l->sized; j++) {
      warn_twice(l, &l->rules.at[j], rule);
    }
  }
}
