// precision.c: checking precision policies: formats by role; choosing the recipe's; refusing what cannot run.
#include <math.h>
#include <string.h>

#include "lang/selector_names.h"
#include "lang/settings_rules.h"
#include "lang/twice.h"

static const char *const base_words[] = {"f32", "f64", "f16", "bf16", "tf32"};
static const char *const store_words[] = {"f32", "f64", "f16", "bf16"};
static const char *const frozen_words[] = {"f32", "f64", "f16", "bf16", "e4m3"};
static const char *const dot_words[] = {"f32", "f64", "f16", "bf16", "tf32", "e4m3", "e5m2"};
static const char *const scaling_words[] = {"current", "delayed", "block"};
// Roles of values, which have one format, and of operations, which have one forward and one backward.
static const char *const value_roles[] = {"parameter", "master",    "activation", "residual",   "gradient",
                                          "state",     "reduction", "accumulate", "collective", "frozen"};
static const char *const operation_roles[] = {"dot", "attention", "norm", "softmax", "loss"};

typedef struct {
  const Ast *forward, *backward, *scaling;
} Phrases;

typedef struct {  // what a rule says of one kind of operations
  Name role;
  Span span;
  Selector selector;
  Phrases phrases;
} OperationRule;

typedef struct {
  Unit *unit;
  const Reach *reach;  // NULL: not chosen, selectors are not looked up
  const Ast *policy;
  Name base;
  Span base_span;
  ARRAY(OperationRule) rules;
  const Ast *role[sizeof value_roles / sizeof *value_roles];  // the format that each value role is given, or NULL
} Precision;

static const char *listed(Arena *arena, const char *const *words, int count) {
  const char *text = words[0];
  for (int i = 1; i < count; i++) {
    text = arena_format(arena, "%s%s%s", text, i + 1 < count ? ", " : " and ", words[i]);
  }
  return text;
}

// Reports a word that is not one of `words`; `what`: "format", for the message.
static void unknown_word(const Precision *p, const Ast *term, const char *what, const char *const *words, int count) {
  Diag *diag = p->unit->diag;
  bool named = term->kind == AST_PATH || term->kind == AST_CALL;
  const bool base = named && name_is(term->name, "base");
  if (named && strcmp(what, "role") == 0 && (base || name_in(term->name, WORDS(value_roles)))) {
    Diagnostic *error = diag_error(diag, E060, term->span, "`%s` takes no `:`", term->name);
    diag_help(diag, error, "write `%s %s;`", term->name, base ? "bf16" : "f32");
    return;
  }
  Diagnostic *error = named ? diag_error(diag, E060, term->span, "there is no %s '%s' here", what, term->name)
                            : diag_error(diag, E060, term->span, "expected a %s", what);
  const char *closest = named ? text_closest(term->name, words, count) : NULL;
  if (closest) {
    diag_help(diag, error, "did you mean `%s`?", closest);
  } else {
    diag_help(diag, error, "expected one of %s", listed(p->unit->arena, words, count));
  }
}

static bool check_word(const Precision *p, const Ast *term, const char *what, const char *const *words, int count) {
  if (term->kind == AST_PATH && name_in(term->name, words, count)) {
    return true;
  }
  unknown_word(p, term, what, words, count);
  return false;
}

static int role_index(Name role) {
  int at = 0;
  while (!name_is(role, value_roles[at])) {
    at++;
  }
  return at;
}

// `base bf16;` or `residual f32;`: a role and its format.
static void read_value_role(Precision *p, const Ast *phrase) {
  const Ast *terms = phrase->kids[0];
  Name role = phrase_word(phrase);
  bool base = name_is(role, "base");
  if (!base && name_in(role, WORDS(operation_roles))) {
    Diagnostic *error =
        diag_error(p->unit->diag, E060, phrase->span, "`%s` has a format forward and one backward", role);
    diag_help(p->unit->diag, error, "write `%s: forward bf16, backward bf16;`", role);
    return;
  }
  if (!base && !name_in(role, WORDS(value_roles))) {
    enum {
      VALUES = sizeof value_roles / sizeof *value_roles,
      OPERATIONS = sizeof operation_roles / sizeof *operation_roles
    };
    const char *roles[1 + VALUES + OPERATIONS] = {"base"};
    memcpy(roles + 1, value_roles, sizeof value_roles);
    memcpy(roles + 1 + VALUES, operation_roles, sizeof operation_roles);
    unknown_word(p, terms->kids[0], "role", WORDS(roles));
    return;
  }
  if (terms->count != 2 || phrase->kids[1]) {
    Diagnostic *error = diag_error(p->unit->diag, E060, phrase->span, "`%s` needs one format", role);
    diag_help(p->unit->diag, error, "write `%s %s;`", role, base ? "bf16" : "f32");
    return;
  }
  if (!base) {
    const bool known = name_is(role, "frozen") ? check_word(p, terms->kids[1], "format", WORDS(frozen_words))
                                               : check_word(p, terms->kids[1], "format", WORDS(store_words));
    if (known) {
      if (p->role[role_index(role)]) {
        Diagnostic *error =
            diag_error(p->unit->diag, E060, phrase->span, "the precision '%s' says '%s' twice", p->policy->name, role);
        diag_related(p->unit->diag, error, p->role[role_index(role)]->span, "the first");
      }
      p->role[role_index(role)] = terms->kids[1];
    }
  } else if (check_word(p, terms->kids[1], "format", WORDS(base_words))) {
    if (p->base) {
      Diagnostic *error =
          diag_error(p->unit->diag, E060, phrase->span, "the precision '%s' has two bases", p->policy->name);
      diag_related(p->unit->diag, error, p->base_span, "the first");
    }
    p->base = terms->kids[1]->name;
    p->base_span = phrase->span;
  }
}

// `history = 1024`, and perhaps `margin = 1`.
static bool delayed_good(const Ast *arguments) {
  double history = 0, margin = 0;
  bool good = arguments->count <= 2;
  for (int i = 0; good && i < arguments->count; i++) {
    const bool first = i == 0;
    double *number = first ? &history : &margin;
    good = name_is(arguments->kids[i]->name, first ? "history" : "margin") &&
           setting_constant(arguments->kids[i]->kids[0], number) && *number == floor(*number);
  }
  return good && history >= 1 && history <= 1e6 && margin >= 0 && margin <= 16;
}

// `block(128)`: GPUs have products for no other size.
static bool block_good(const Ast *arguments) {
  double size = 0;
  return arguments->count == 1 && !arguments->kids[0]->name && setting_constant(arguments->kids[0]->kids[0], &size) &&
         size >= SCALE_BLOCK && size <= SCALE_BLOCK;
}

static void read_scaling(const Precision *p, const Ast *phrase, const Ast *kind) {
  const Ast *arguments = kind->kind == AST_CALL ? kind->kids[0] : NULL;
  if (!(kind->kind == AST_PATH || kind->kind == AST_CALL) || !name_in(kind->name, WORDS(scaling_words))) {
    unknown_word(p, kind, "scaling", WORDS(scaling_words));
    return;
  }
  const bool delayed = name_is(kind->name, "delayed"), block = name_is(kind->name, "block");
  const bool good = delayed ? arguments && delayed_good(arguments)
                    : block ? arguments && block_good(arguments)
                            : !arguments || arguments->count == 0;
  if (!good) {
    Diagnostic *error = diag_error(p->unit->diag, E060, phrase->span,
                                   delayed ? "`delayed` needs the number of steps it looks back"
                                   : block ? "`block` needs the number of elements that have one scale, which is 128"
                                           : "`%s` takes no arguments",
                                   kind->name);
    diag_help(p->unit->diag, error,
              delayed ? "write `scaling delayed(history = 1024)`"
              : block ? "write `scaling block(128)`"
                      : "write `scaling %s`",
              kind->name);
  }
}

static bool eight_bits(Name format) {
  return name_is(format, "e4m3") || name_is(format, "e5m2");
}

static void read_format(const Precision *p, const Ast *phrase, Phrases *phrases, Once *once) {
  static const char *const words[] = {"forward", "backward", "scaling"};
  const Ast *terms = phrase->kids[0];
  Name word = phrase_word(phrase);
  if (!name_in(word, WORDS(words))) {
    unknown_word(p, terms->kids[0], "setting", WORDS(words));
    return;
  }
  if (terms->count != 2 || phrase->kids[1]) {
    diag_error(p->unit->diag, E060, phrase->span, "`%s` needs one %s", word,
               name_is(word, "scaling") ? "kind" : "format");
    return;
  }
  given_once(once, word, phrase->span);
  if (name_is(word, "scaling")) {
    phrases->scaling = phrase;
    read_scaling(p, phrase, terms->kids[1]);
  } else if (check_word(p, terms->kids[1], "format", WORDS(dot_words))) {
    *(name_is(word, "forward") ? &phrases->forward : &phrases->backward) = terms->kids[1];
  }
}

// whole: nothing of the rule was wrong so far
static void check_formats(const Precision *p, Name role, const Phrases *f, bool whole) {
  const bool unscaled =
      whole && f->backward && eight_bits(f->backward->name) && !(f->forward && eight_bits(f->forward->name));
  bool small = (f->forward && eight_bits(f->forward->name)) || (f->backward && eight_bits(f->backward->name));
  const Ast *first = f->forward && eight_bits(f->forward->name) ? f->forward : f->backward;
  if (small && role && !name_is(role, "dot")) {
    Diagnostic *error =
        diag_error(p->unit->diag, E060, first->span, "only products of matrices have 8-bit formats, not %s", role);
    diag_help(p->unit->diag, error, "write `dot in %s: ...` for the products inside of it", role);
  } else if (unscaled) {
    Diagnostic *error = diag_error(p->unit->diag, E060, f->backward->span,
                                   "gradients of 8 bits are multiplied by what the forward has in 8 bits");
    diag_help(p->unit->diag, error, "write `forward e4m3, backward %s`", f->backward->name);
  } else if (f->forward && name_is(f->forward->name, "e5m2")) {
    Diagnostic *error = diag_error(p->unit->diag, E060, f->forward->span, "no product has two operands in e5m2");
    diag_help(p->unit->diag, error, "write `forward e4m3, backward e5m2`");
  } else if (f->scaling && !small) {
    diag_error(p->unit->diag, E060, f->scaling->span, "scaling is for 8-bit formats, and there is none here");
  }
}

// `dot in layers, softmax: forward e4m3, ...`
static void read_operation_rule(Precision *p, const Ast *setting) {
  const Ast *left = setting->kids[0], *right = setting->kids[1];
  Name role = NULL;
  const int first = p->rules.count, errors = p->unit->diag->reports;
  for (int i = 0; i < left->count; i++) {
    const Ast *terms = left->kids[i]->kids[0];
    if (!check_word(p, terms->kids[0], "role", WORDS(operation_roles))) {
      continue;
    }
    role = role && name_is(role, "dot") ? role : terms->kids[0]->name;
    bool scoped = terms->count == 3 && terms->kids[1]->kind == AST_PATH && name_is(terms->kids[1]->name, "in") &&
                  terms->kids[2]->kind == AST_PATH;
    if (left->kids[i]->kids[1] || (terms->count != 1 && !scoped)) {
      Diagnostic *error = diag_error(p->unit->diag, E060, left->kids[i]->span, "expected a role, and where it holds");
      diag_help(p->unit->diag, error, "write `%s in layers: ...`", terms->kids[0]->name);
    } else if (scoped && p->reach) {
      selector_check_names(p->reach, selector_of(terms->kids[2]), "for this precision");
    }
    array_push(
        p->unit->arena, &p->rules,
        ((OperationRule){
            terms->kids[0]->name, left->kids[i]->span, scoped ? selector_of(terms->kids[2]) : (Selector){0}, {0}}));
  }
  if (p->rules.count == first) {
    return;
  }
  Phrases phrases = {0};
  Once once = {.unit = p->unit, .code = E060};
  for (int i = 0; i < right->count; i++) {
    read_format(p, right->kids[i], &phrases, &once);
  }
  for (int i = first; i < p->rules.count; i++) {
    p->rules.at[i].phrases = phrases;
  }
  check_formats(p, role, &phrases, p->unit->diag->reports == errors);
}

static void check_policy(Precision *p) {
  Diag *diag = p->unit->diag;
  int errors = diag->reports;
  for (int i = 0; i < p->policy->count; i++) {
    const Ast *setting = p->policy->kids[i];
    if (setting->kids[2]) {
      Diagnostic *error = diag_error(diag, E060, setting->span, "`->` is for layouts");
      diag_help(diag, error, "a precision says `role format;` or `role: forward format, backward format;`");
    } else if (setting->kids[1]) {
      read_operation_rule(p, setting);
    } else {
      for (int j = 0; j < setting->kids[0]->count; j++) {
        read_value_role(p, setting->kids[0]->kids[j]);
      }
    }
  }
  if (!p->base && diag->reports == errors) {
    Diagnostic *error =
        diag_error(diag, E060, p->policy->name_span, "the precision '%s' does not say its base", p->policy->name);
    diag_help(diag, error, "begin it with the format of everything that has no other: `base bf16;`");
  }
}

// --- what it means

static const Ast *role_format(const Precision *p, const char *role) {
  return p->role[role_index(name_of(p->unit->names, role))];
}

static Diagnostic *refuse(const Precision *p, Span span, const char *what) {
  Diagnostic *error = diag_error(p->unit->diag, E070, span, "%s", what);
  diag_label(p->unit->diag, error, "of the precision '%s'", p->policy->name);
  return error;
}

static ElementType format_of(const Ast *term) {
  ElementType type = TYPE_F32;
  element_type_of(term->name, &type);
  return type;
}

// Roles that this version keeps in the type in which it computes.
static void refuse_narrow(const Precision *p, ElementType real) {
  static const char *const wide[] = {"parameter", "master", "state", "reduction", "accumulate"};
  for (size_t i = 0; i < sizeof wide / sizeof *wide; i++) {
    const Ast *term = role_format(p, wide[i]);
    if (term && format_of(term) != real) {
      const char *name = element_type_name(real);
      Diagnostic *error =
          refuse(p, term->span,
                 arena_format(p->unit->arena, "this version keeps the role '%s' in %s under base %s, not in %s",
                              wide[i], name, p->base, term->name));
      diag_help(p->unit->diag, error, "write `%s %s;` or leave it out", wide[i], name);
    }
  }
}

// The format of a role: `otherwise` where nothing is said; f32 and bf16 are possible where the base is bf16.
static ElementType role_type(const Precision *p, const char *role, ElementType otherwise) {
  const Ast *term = role_format(p, role);
  ElementType type = term ? format_of(term) : otherwise;
  bool mixes = name_is(p->base, "bf16") && (type == TYPE_F32 || type == TYPE_BF16 || type == TYPE_E4M3);
  if (type != otherwise && !mixes) {
    Diagnostic *error =
        refuse(p, term->span,
               arena_format(p->unit->arena, "this version cannot keep the role '%s' in %s under base %s", role,
                            term->name, p->base));
    diag_help(p->unit->diag, error,
              type == TYPE_E4M3 ? "frozen parameters are in e4m3 under `base bf16;`"
                                : "f32 and bf16 can be mixed under `base bf16;`");
  }
  return type;
}

// Gradients travel in the format that they have.
static void check_collective(const Precision *p, ElementType gradient) {
  const Ast *term = role_format(p, "collective");
  if (term && format_of(term) != gradient) {
    Diagnostic *error =
        refuse(p, term->span,
               arena_format(p->unit->arena, "this version sums gradients over ranks in their own format, %s, not in %s",
                            element_type_name(gradient), term->name));
    diag_help(p->unit->diag, error, "write `gradient %s;`, or leave it out", term->name);
  }
}

static bool product_format(const Precision *p, const Ast *term, ElementType otherwise, ElementType *type) {
  *type = otherwise;
  if (!term || name_is(term->name, p->base)) {
    return true;
  }
  *type = format_of(term);
  const bool wider = name_is(term->name, "f32") && name_is(p->base, "bf16");
  if (wider || (eight_bits(term->name) && !name_is(p->base, "f64"))) {
    return true;
  }
  Diagnostic *error =
      refuse(p, term->span,
             arena_format(p->unit->arena, "this version cannot multiply in %s under base %s", term->name, p->base));
  diag_help(p->unit->diag, error,
            eight_bits(term->name) ? "write `base bf16;`"
                                   : "write the base, f32 under base bf16, or e4m3 forward and e5m2 backward");
  return false;
}

// What is multiplied by numbers in f32 is in f32.
static bool both_wide(const Precision *p, const OperationRule *from, const ProductRule *rule) {
  const bool wide = name_is(p->base, "bf16") && (rule->forward == TYPE_F32 || rule->backward == TYPE_F32);
  if (!wide || rule->forward == rule->backward) {
    return true;
  }
  Diagnostic *error = diag_error(p->unit->diag, E060, from->span, "products in f32 are so forward and backward");
  diag_help(p->unit->diag, error, "write `%s: forward f32, backward f32`", from->role);
  return false;
}

static void product_scaling(const Ast *phrase, ProductRule *rule) {
  const Ast *kind = phrase ? phrase->kids[0]->kids[1] : NULL;
  if (!kind || name_is(kind->name, "current")) {
    return;
  }
  rule->span = phrase->span;
  rule->block = name_is(kind->name, "block") ? SCALE_BLOCK : 0;
  double history = 0;
  const Ast *arguments = kind->kids[0];
  for (int i = 0; i < arguments->count && !rule->block; i++) {
    const bool margin = name_is(arguments->kids[i]->name, "margin");
    setting_constant(arguments->kids[i]->kids[0], margin ? &rule->margin : &history);
  }
  rule->history = (int)history;
}

// What operations have formats of their own: products, in 8 bits or in the base.
static void read_products(const Precision *p, const Formats *formats, ProductRules *rules) {
  for (int i = 0; i < p->rules.count; i++) {
    const OperationRule *from = &p->rules.at[i];
    const Phrases *f = &from->phrases;
    ProductRule rule = {.selector = from->selector};
    if (!name_is(from->role, "dot")) {
      Diagnostic *error = refuse(p, from->span, "of single operations this version gives formats to products alone");
      diag_help(p->unit->diag, error, "write `dot in layers: forward e4m3, backward e5m2, scaling current;`");
    } else if (product_format(p, f->forward, formats->dot, &rule.forward) &&
               product_format(p, f->backward, f->forward && !eight_bits(f->forward->name) ? rule.forward : formats->dot,
                              &rule.backward) &&
               both_wide(p, from, &rule)) {
      product_scaling(f->scaling, &rule);
      array_push(p->unit->arena, rules, rule);
    }
  }
}

// Which formats values have. Reports what this version cannot do.
static void choose_formats(const Precision *p, Span span, Formats *formats, ElementType *real, ProductRules *products) {
  Diag *diag = p->unit->diag;
  *real = name_is(p->base, "f64") ? TYPE_F64 : TYPE_F32;
  ElementType base = name_is(p->base, "bf16") ? TYPE_BF16 : *real;
  if (name_is(p->base, "f16")) {
    Diagnostic *error = refuse(p, span, "this version has no f16: its gradients would need a loss scale");
    diag_help(diag, error, "choose another: `--precision bf16`");
  } else {
    refuse_narrow(p, *real);
    ElementType activation = role_type(p, "activation", base), gradient = role_type(p, "gradient", *real);
    *formats = (Formats){.activation = activation,
                         .residual = role_type(p, "residual", activation),
                         .dot = base,
                         .gradient = gradient,
                         .frozen = role_type(p, "frozen", *real),
                         .tf32 = name_is(p->base, "tf32")};
    check_collective(p, gradient);
    read_products(p, formats, products);
  }
}

// The declarations of the text that the recipe does not choose.
static void check_others(Unit *unit, const Spec *spec) {
  for (int i = 0; i < unit->all.count; i++) {
    const Declaration *declaration = &unit->all.at[i];
    const bool policy = declaration->main && declaration->space == SPACE_PRECISION;
    if (policy && settings_policy(spec, declaration->ast) < 0) {
      check_policy(&(Precision){.unit = unit, .policy = declaration->ast});
    }
  }
}

// --- precisions that change at a step ---

static bool has_histories(const ProductRules *products) {
  bool any = false;
  for (int i = 0; i < products->count; i++) {
    any |= products->at[i].history > 0;
  }
  return any;
}

static bool formats_alike(const Spec *spec, const Formats *formats, ElementType real) {
  const Formats *first = &spec->formats;
  return real == spec->real && formats->activation == first->activation && formats->residual == first->residual &&
         formats->dot == first->dot && formats->gradient == first->gradient && formats->frozen == first->frozen &&
         formats->tf32 == first->tf32;
}

// Parameters have one form of copies, evaluation one program, and a value one history.
static void check_together(Unit *unit, Spec *spec, const ProductRules *products, const char *name, Span span,
                           bool alike) {
  if (!alike) {
    Diagnostic *error =
        diag_error(unit->diag, E070, span, "the precisions '%s' and '%s' differ in more than products in 8 bits",
                   spec->text->policies.at[0]->name, name);
    diag_help(unit->diag, error,
              "in one run this version changes rules `dot ...` alone; for anything else begin a new process: "
              "`mdl train RUN --resume --precision %s`",
              name);
  }
  if (has_histories(products) && spec->histories) {
    Diagnostic *error =
        diag_error(unit->diag, E070, span, "'%s' is the second precision with scaling `delayed` in this run", name);
    diag_help(unit->diag, error, "their histories have the same names: give one of the two scaling `current`");
  }
  if (spec->policies.count == PLAN_MAX_POLICIES) {
    diag_error(unit->diag, E070, span, "a run has at most %d different precisions", PLAN_MAX_POLICIES);
  }
}

// Which of the run's policies this is; one that is new is added.
static int policy_of(Unit *unit, Spec *spec, const Precision *p, Span span) {
  const int errors = unit->diag->reports, known = settings_policy(spec, p->policy);
  if (known >= 0) {
    return known;
  }
  ProductRules products = {0};
  Formats formats = {0};
  ElementType real = TYPE_F32;
  choose_formats(p, span, &formats, &real, &products);
  if (spec->policies.count == 0) {
    spec->formats = formats;
    spec->real = real;
    spec->products = products;
  } else if (unit->diag->reports == errors) {
    check_together(unit, spec, &products, p->policy->name, span, formats_alike(spec, &formats, real));
  }
  spec->histories |= has_histories(&products);
  array_push(unit->arena, &spec->policies, products);
  array_push(unit->arena, &spec->text->policies, p->policy);
  return spec->policies.count - 1;
}

static void add_phase(Unit *unit, Spec *spec, const PlanPhase *phase, Span span) {
  if (spec->phase_count < PLAN_MAX_PHASES) {
    spec->phases[spec->phase_count++] = *phase;
    return;
  }
  diag_error(unit->diag, E070, span, "the precision of a run changes at most %d times", PLAN_MAX_PHASES - 1);
}

// Has the precision that begins at `first` a step, if `until` is the last?
static void check_until(Unit *unit, const char *precision, int64_t first, double until, Span span) {
  if (until < (double)first) {
    Diagnostic *error =
        diag_error(unit->diag, E051, span, "'%s' has no step: it begins with step %lld", precision, (long long)first);
    diag_help(unit->diag, error, "each `until` says a later step than the one before it");
  }
}

void read_precision(Unit *unit, Spec *spec) {
  const Ast *list = recipe_choices(spec->text->recipe, "precision");
  Reach reach = {.unit = unit};
  reach_from(&reach, spec->text->model->ast);
  Span span = spec->text->recipe->name_span;
  int errors = unit->diag->reports, count = list ? list->count : 1;
  PlanPhase phase = {.first = 1};
  for (int i = 0; i < count; i++) {
    double until = 0;
    const Ast *policy = NULL;
    Ast word = {.kind = AST_PATH, .name = name_of(unit->names, "fp32"), .span = span};
    bool found = list ? precision_choice(unit, list->kids[i], i == 0, i + 1 == count, &policy, &until)
                      : (policy = precision_find(unit, &word)) != NULL;
    if (!found) {
      break;
    }
    Precision p = {.unit = unit, .reach = &reach, .policy = policy};
    const int before = unit->diag->reports;
    check_policy(&p);
    if (unit->diag->reports == before) {
      const Span choice = list ? list->kids[i]->span : span;
      phase.policy = policy_of(unit, spec, &p, choice);
      phase.precision = policy->name;
      add_phase(unit, spec, &phase, choice);
      if (i > 0 && spec->phase_count > 1 && spec->phases[spec->phase_count - 2].precision == policy->name) {
        diag_error(unit->diag, E051, choice, "the run has the precision '%s' already", policy->name);
      }
      if (i + 1 < count) {
        check_until(unit, policy->name, phase.first, until, choice);
      }
      phase.first = (int64_t)until + 1;
    }
  }
  check_others(unit, spec);
  if (spec->phase_count == 0 || unit->diag->reports != errors) {
    return;
  }
  spec->run.precision = spec->phases[0].precision;
  for (int i = 1; i < spec->phase_count; i++) {
    spec->run.precision = arena_format(unit->arena, "%s until %lld, then %s", spec->run.precision,
                                       (long long)spec->phases[i].first - 1, spec->phases[i].precision);
  }
  spec->histories &= spec->policies.count > 1;
  spec->phase_count = count > 1 ? spec->phase_count : 0;
}
