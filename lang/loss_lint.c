// loss_lint.c: what is probably not meant of a loss, and of the inputs that it is made from: probabilities where logits
// are taken, a sum where a mean is, targets that the model has seen, inputs that no data feeds.
#include <math.h>
#include <string.h>

#include "compiler/ir/op.h"
#include "lang/foreign.h"
#include "lang/lint.h"
#include "lang/settings_rules.h"

// Behind what changes no number.
static ValueId behind_views(const Graph *graph, ValueId value) {
  const Node *node = graph_producer(graph, value);
  while (node && (node->op == OP_RENAME || node->op == OP_STOP || node->op == OP_AS_INDEX || node->op == OP_SPLIT ||
                  node->op == OP_MERGE)) {
    value = node->operands[0];
    node = graph_producer(graph, value);
  }
  return value;
}

// Where it is asked for in the user's text: the outermost call of functions of the library.
static Span asked_for(const Elaborator *e, const Node *node) {
  Span span = node->span;
  for (ScopeId scope = node->scope; scope >= 0 && diag_in_library(e->diag, span);
       scope = e->graph->scopes.at[scope].parent) {
    const Span call = e->graph->scopes.at[scope].call;
    span = call.file >= 0 ? call : span;
  }
  return span;
}

// --- probabilities in place of logits ---

static bool is_zero(const Graph *graph, ValueId value) {
  const Node *node = graph_producer(graph, value);
  return node && ((node->op == OP_CONST && node->number == 0) || (node->op == OP_INTEGER && node->integer == 0));
}

static bool is_relu(const Graph *graph, const Node *node) {
  return node->op == OP_MAX && (is_zero(graph, node->operands[0]) || is_zero(graph, node->operands[1]));
}

static void check_logits(Elaborator *e, const Node *take) {
  const Graph *graph = e->graph;
  const Node *maker = graph_producer(graph, behind_views(graph, take->operands[0]));
  AxisId axis = take->axis;
  const Node *renamed = graph_producer(graph, take->operands[0]);
  if (renamed && renamed->op == OP_RENAME && renamed->axis2 == axis) {
    axis = renamed->axis;
  }
  const Node *sum = maker ? graph_shares(graph, maker) : NULL;
  const bool shares = sum && shape_has(&sum->axes, axis), gate = maker && maker->op == OP_SIGMOID;
  if (maker && is_relu(graph, maker)) {
    Diagnostic *said = diag_warning(e->diag, E054, asked_for(e, take),
                                    "`cross_entropy` takes logits of any sign, and these are never below 0");
    diag_help(e->diag, said, "leave the last activation out; `allow E054;` in the recipe if that is meant");
    diag_related(e->diag, said, asked_for(e, maker), "made here");
  }
  if (!shares && !gate) {
    return;
  }
  Diagnostic *said =
      diag_warning(e->diag, E054, asked_for(e, take), "`cross_entropy` takes logits, and this gives it %s",
                   shares ? "probabilities" : "numbers between 0 and 1");
  diag_label(e->diag, said, "it takes the softmax itself");
  diag_help(e->diag, said, "give it what %s is made of; `allow E054;` in the recipe if that is meant",
            shares ? "the softmax" : "the sigmoid");
  diag_related(e->diag, said, asked_for(e, maker), "made here");
}

// --- targets of another axis ---

// An index of a longer axis that is taken for one of this: targets outside read 0, as if that were their score.
static void check_bound(Elaborator *e, const Node *take) {
  const Graph *graph = e->graph;
  const Node *node = graph_producer(graph, take->operands[1]);
  while (node && node->op != OP_AS_INDEX && (op_alias(node->op) || node->op == OP_WINDOW)) {
    node = graph_producer(graph, node->operands[0]);
  }
  const Value *from = node && node->op == OP_AS_INDEX ? graph_value(graph, node->operands[0]) : NULL;
  if (!from || from->type != TYPE_INDEX || from->bound < 0 || axis_count(e, from->bound) <= axis_count(e, node->axis)) {
    return;
  }
  Diagnostic *said = diag_warning(
      e->diag, E054, asked_for(e, take), "targets are read as places of '%s', %lld, and go up to %lld",
      axis_name(e, node->axis), (long long)axis_count(e, node->axis), (long long)axis_count(e, from->bound) - 1);
  diag_related(e->diag, said, asked_for(e, node), "an index of '%s' becomes one of '%s' here",
               axis_name(e, from->bound), axis_name(e, node->axis));
  diag_help(e->diag, said,
            "one outside has the score 0, and the loss means nothing: bring all of them inside, as `x %% size(%s)` or "
            "`min(x, size(%s) - 1)` do, or give '%s' as many places; `allow E054;` in the recipe if none is outside",
            axis_name(e, node->axis), axis_name(e, node->axis), axis_name(e, node->axis));
}

// --- targets that were seen ---

static bool is_input(const Graph *graph, ValueId value, const char *name) {
  const Node *node = graph_producer(graph, behind_views(graph, value));
  return node && node->op == OP_INPUT && strcmp(node->text, name) == 0;
}

typedef struct {
  bool reads, hidden;
} Seen;

static bool is_along(const Shape *places, const Graph *graph, AxisId axis) {
  return shape_has(places, axis) && strcmp(graph->axes.at[axis].name, "batch") != 0;
}

// Is the condition one of places of the text, computed from their positions or a mask, as that of masked tokens is? One
// of attention has an axis of keys as well.
static bool hides(Graph *graph, ValueId condition, const Shape *places) {
  const Shape shape = graph_shape(graph, condition);
  const bool *nodes = shape_contains(places, &shape) ? lint_nodes_of(graph, condition) : NULL;
  bool found = false;
  for (int i = 0; nodes && i < graph->nodes.count; i++) {
    const Node *node = graph_node(graph, i);
    found |= nodes[i] && ((node->op == OP_POSITION && is_along(places, graph, node->axis)) ||
                          (node->op == OP_INPUT && strcmp(node->text, "mask") == 0));
  }
  return found;
}

// Is a part taken along the places of the text, as where it is shifted?
static bool shifts(const Graph *graph, const Node *node, const Shape *places) {
  const Node *before = node->op == OP_SLICE ? graph_producer(graph, node->operands[0]) : NULL;
  const bool window = before && before->op == OP_WINDOW && before->axis2 == node->axis;
  return before && (is_along(places, graph, node->axis) || window);
}

// x + stop(q - x): q goes on, which is one of a few values, in place of x.
static bool is_rounded(const Graph *graph, const Node *node) {
  bool found = false;
  for (int i = 0; node->op == OP_ADD && i < 2; i++) {
    const Node *stop = graph_producer(graph, node->operands[i]);
    const Node *change = stop && stop->op == OP_STOP ? graph_producer(graph, stop->operands[0]) : NULL;
    found |= change && change->op == OP_SUB && change->operands[1] == node->operands[1 - i];
  }
  return found;
}

static Seen seen_by(Graph *graph, ValueId value, const Node *target) {
  const bool *nodes = lint_nodes_of(graph, value);
  const Shape places = graph_shape(graph, target->first_result);
  Seen seen = {false, lint_reduces_text(graph, target, nodes, false) != NULL};
  for (int i = 0; i < graph->nodes.count; i++) {
    const Node *node = graph_node(graph, i);
    seen.reads |= nodes[i] && node == target;
    seen.hidden |= nodes[i] && (op_random(node->op) || shifts(graph, node, &places) || is_rounded(graph, node) ||
                                (node->op == OP_WHERE && hides(graph, node->operands[0], &places)) ||
                                (node->op == OP_INPUT && strcmp(node->text, "mask") == 0));
  }
  return seen;
}

// Both before the same places are taken of them, which shifts nothing.
static void behind_cuts(const Graph *graph, ValueId *scores, ValueId *targets) {
  for (;;) {
    const Node *a = graph_producer(graph, behind_views(graph, *scores)),
               *b = graph_producer(graph, behind_views(graph, *targets));
    if (!a || !b || a->op != OP_SLICE || b->op != OP_SLICE || a->axis != b->axis || a->integer != b->integer) {
      return;
    }
    *scores = a->operands[0];
    *targets = b->operands[0];
  }
}

// Random numbers, a mask, a shift, or a few values in the middle of an autoencoder may hide what is to be told, so
// nothing is said where there are some.
static void check_targets(Elaborator *e, const Node *take) {
  static const char *const inputs[] = {"tokens", "targets"};
  ValueId scores = take->operands[0], targets = take->operands[1];
  behind_cuts(e->graph, &scores, &targets);
  for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++) {
    if (!is_input(e->graph, targets, inputs[i])) {
      continue;
    }
    const Seen seen = seen_by(e->graph, scores, graph_producer(e->graph, behind_views(e->graph, targets)));
    if (seen.reads && !seen.hidden) {
      Diagnostic *said = diag_warning(e->diag, E049, asked_for(e, take),
                                      "the logits are computed from `%s`, which they are to predict", inputs[i]);
      diag_help(e->diag, said,
                "read `tokens` and predict `targets`, the token after each; `allow E049;` in the recipe if "
                "that is meant");
    }
  }
}

// What is the same for all positions of a text is made of the tokens behind each of them too.
static void check_reductions(Elaborator *e, const Node *take) {
  Graph *graph = e->graph;
  const bool *nodes = lint_nodes_of(graph, take->operands[0]);
  const Shape logits = graph_shape(graph, take->operands[0]);
  const Node *tokens = NULL;
  for (int i = 0; i < graph->nodes.count; i++) {
    const Node *node = graph_node(graph, i);
    tokens = nodes[i] && node->op == OP_INPUT && strcmp(node->text, "tokens") == 0 ? node : tokens;
  }
  const Shape places = tokens ? graph_shape(graph, tokens->first_result) : (Shape){0};
  if (!tokens || !is_input(graph, take->operands[1], "targets")) {
    return;
  }
  const Shape targets = graph_shape(graph, take->operands[1]);
  for (int i = 0; i < places.count; i++) {
    if (!shape_has(&logits, places.axis[i]) && shape_has(&targets, places.axis[i]) &&
        is_along(&places, graph, places.axis[i])) {
      Diagnostic *said = diag_warning(e->diag, E049, asked_for(e, take),
                                      "all positions along '%s' get one guess, made of the tokens that they are to "
                                      "predict as well",
                                      axis_name(e, places.axis[i]));
      diag_help(e->diag, said,
                "logits have the axes of `targets` and that of the scores: reduce none of these, and pick no place of "
                "them; `allow E049;` in the recipe if that is meant");
      return;
    }
  }
  if (!shape_contains(&logits, &places)) {
    return;
  }
  const Node *node = lint_reduces_text(graph, tokens, nodes, true);
  if (node) {
    Diagnostic *said =
        diag_warning(e->diag, E049, asked_for(e, node),
                     "each position sees what is computed here of all positions, the tokens that it is to "
                     "predict among them");
    diag_help(e->diag, said,
              "reduce along another axis, or over positions up to each, as attention with `causal = true` "
              "does; `allow E049;` in the recipe if that is meant");
  }
}

// --- a loss that training would make larger ---

enum { MOST_DEPTH = 32, MOST_NODES = 4096 };  // a term that is read twice is looked at twice

typedef struct {
  int left;           // nodes that may still be looked at
  int plus;           // cross entropies that the loss has without a minus, and logarithms of probabilities with one
  const Node *minus;  // one that it has the other way round
  bool written;       // that is a logarithm
} Signs;

// Behind renames, and behind what takes places: *picked, whether `targets` name some of them.
static const Node *behind_picks(const Graph *graph, ValueId value, bool *picked) {
  const Node *node = graph_producer(graph, value);
  while (node && (node->op == OP_RENAME || node->op == OP_TAKE)) {
    *picked |= node->op == OP_TAKE && is_input(graph, node->operands[1], "targets");
    node = graph_producer(graph, node->operands[0]);
  }
  return node;
}

// Also where a text has the function of the library, as resolved.mdl does.
static bool is_made_by(const Graph *graph, const Node *node, const char *function) {
  return node->scope >= 0 && strcmp(graph->scopes.at[node->scope].function, function) == 0;
}

int lint_entropy_sign(const Elaborator *e, ValueId value) {
  const Graph *graph = e->graph;
  bool picked = false;
  const Node *node = behind_picks(graph, value, &picked);
  if (node && node->op == OP_LOG) {
    const Node *shares = behind_picks(graph, node->operands[0], &picked);
    return picked && shares && graph_shares(graph, shares) ? -1 : 0;
  }
  for (int i = 0; node && node->op == OP_SUB && i < 2; i++) {
    bool chosen = picked || is_made_by(graph, node, "cross_entropy");
    behind_picks(graph, node->operands[i], &chosen);
    if (chosen && lint_logsumexp(graph, graph_producer(graph, node->operands[1 - i]))) {
      return i == 0 ? -1 : 1;
    }
  }
  return 0;
}

static void find_signs(const Elaborator *e, ValueId value, bool minus, int depth, Signs *signs) {
  const Graph *graph = e->graph;
  const Node *node = graph_producer(graph, value);
  if (!node || depth > MOST_DEPTH || signs->left-- <= 0) {
    return;
  }
  const int sign = lint_entropy_sign(e, value);
  double number;
  if (sign != 0) {
    signs->plus += minus == (sign < 0);
    signs->minus = minus == (sign < 0) ? signs->minus : node;
    signs->written = minus == (sign < 0) ? signs->written : sign < 0;
    return;
  }
  switch (node->op) {
    case OP_NEG:
      find_signs(e, node->operands[0], !minus, depth + 1, signs);
      break;
    case OP_SUM:
      find_signs(e, node->operands[0], minus, depth + 1, signs);
      break;
    case OP_ADD:
    case OP_SUB:
      find_signs(e, node->operands[0], minus, depth + 1, signs);
      find_signs(e, node->operands[1], minus != (node->op == OP_SUB), depth + 1, signs);
      break;
    case OP_MUL:
    case OP_DIV:
      if (lint_number(graph, node->operands[1], &number)) {
        find_signs(e, node->operands[0], minus != (number < 0), depth + 1, signs);
      } else if (node->op == OP_MUL && lint_number(graph, node->operands[0], &number)) {
        find_signs(e, node->operands[1], minus != (number < 0), depth + 1, signs);
      }
      break;
    default:
      break;
  }
}

// Beside a cross entropy with a plus one with a minus is meant: it forgets something, or plays against a part of the
// model.
static void check_sign(Elaborator *e, ValueId loss) {
  Signs signs = {.left = MOST_NODES};
  find_signs(e, loss, false, 0, &signs);
  if (signs.minus && signs.plus == 0 && signs.left > 0) {
    Diagnostic *said =
        diag_warning(e->diag, E054, asked_for(e, signs.minus),
                     signs.written ? "the loss is the logarithm of a probability: training makes that smaller"
                                   : "the loss has this with a minus: training makes it larger");
    diag_help(e->diag, said, "%s; `allow E054;` in the recipe if that is meant",
              signs.written ? "write `-mean(...)`, or `mean(cross_entropy(logits, targets over vocab))`"
                            : "`cross_entropy` is -log of the probability already");
  }
}

// --- a sum in place of a mean ---

typedef struct {
  Graph *graph;
  int left;                // nodes that may still be looked at
  Shape counted;           // axes of what data feeds
  const Node *sum;         // over some of these
  Shape over;              // those
  double all;              // places of all sums on the way, over whatever axes
  bool added;              // it is one of several terms
  bool scaled;             // found: one mean alone, times a number; or of some of the terms, or with weights, or over
                           // classes too, without a division by how many count
  const Node *weighed;     // found: a mean of what `mask` or `share` goes with
  const Node *weighed_in;  // and that mean
} Summed;

static double terms(const Summed *s, unsigned axes) {
  double count = 1;
  for (int i = 0; i < s->over.count; i++) {
    count *= axes >> i & 1U ? (double)s->graph->axes.at[s->over.axis[i]].global : 1;
  }
  return count;
}

// Is the sum, times the factor, larger than the mean by the sizes of some of its axes?
static bool grows(const Summed *s, double factor) {
  const unsigned all = (1U << s->over.count) - 1;
  bool found = false;
  for (unsigned axes = 1; axes <= all && s->over.count <= 4; axes++) {
    const double size = terms(s, axes);
    found |= size > 1.5 && fabs(factor * terms(s, all) / size - 1) < 1e-6;
  }
  return found;
}

// Is it a term, or a sum of terms, that a weight goes with?
static bool is_weighed(Summed *s, ValueId value, int depth) {
  const Node *node = graph_producer(s->graph, value);
  const bool sum = node && (node->op == OP_ADD || node->op == OP_SUB || node->op == OP_NEG);
  bool weighed = node && (node->op == OP_MUL || node->op == OP_DIV || node->op == OP_WHERE);
  weighed |= s->left-- <= 0;
  for (int i = 0; sum && !weighed && depth < MOST_DEPTH && i < node->operand_count; i++) {
    weighed = is_weighed(s, node->operands[i], depth + 1);
  }
  return weighed;
}

// "mask" or "share", if the value is that input; else NULL.
static const char *is_given(const Graph *graph, ValueId value) {
  const Node *weight = graph_producer(graph, behind_views(graph, value));
  weight = weight && weight->op == OP_TO_REAL ? graph_producer(graph, weight->operands[0]) : weight;
  const bool given =
      weight && weight->op == OP_INPUT && (strcmp(weight->text, "mask") == 0 || strcmp(weight->text, "share") == 0);
  return given ? weight->text : NULL;
}

// The same, if the node multiplies by it.
static const char *is_given_weights(const Graph *graph, const Node *node) {
  const char *first = node->op == OP_MUL ? is_given(graph, node->operands[0]) : NULL;
  return first || node->op != OP_MUL ? first : is_given(graph, node->operands[1]);
}

// Follows factors and sums, with what the whole is multiplied by. True: it is a sum of terms that all count as they
// are, times a number that does not make it a mean.
static bool is_plain_sum(Summed *s, ValueId value, double factor, int depth) {
  const Node *node = graph_producer(s->graph, value);
  double number;
  if (!node || depth > MOST_DEPTH || s->left-- <= 0) {
    return false;
  }
  if (node->op == OP_MUL && lint_number(s->graph, node->operands[1], &number)) {
    return is_plain_sum(s, node->operands[0], factor * number, depth + 1);
  }
  if (node->op == OP_MUL && lint_number(s->graph, node->operands[0], &number)) {
    return is_plain_sum(s, node->operands[1], factor * number, depth + 1);
  }
  if (node->op == OP_DIV && lint_number(s->graph, node->operands[1], &number) && number != 0) {
    return is_plain_sum(s, node->operands[0], factor / number, depth + 1);
  }
  if (node->op == OP_DIV && !lint_number(s->graph, node->operands[1], &number)) {
    const bool mean = fabs(fabs(factor) * (s->sum ? s->all : 1) - 1) < 1e-6;
    s->scaled = !s->added && !(mean && lint_mean_of_some(s->graph, node, &s->counted));
    return false;
  }
  const bool from_zero = node->op == OP_SUB && lint_number(s->graph, node->operands[0], &number) && number == 0;
  if (node->op == OP_NEG || from_zero) {
    return is_plain_sum(s, node->operands[from_zero], factor, depth + 1);
  }
  if ((node->op == OP_ADD || node->op == OP_SUB) && !s->sum) {
    s->added = true;
    const Summed before = *s;
    if (is_plain_sum(s, node->operands[0], factor, depth + 1)) {
      return true;
    }
    s->sum = before.sum;
    s->over = before.over;
    s->all = before.all;
    return is_plain_sum(s, node->operands[1], factor, depth + 1);
  }
  const Shape over = node->op == OP_SUM ? shape_common(node->axes, &s->counted) : (Shape){0};
  if (over.count > 0) {
    s->sum = s->sum ? s->sum : node;
    s->over = shape_union(s->over, &over);
    for (int i = 0; i < node->axes.count; i++) {
      s->all *= (double)s->graph->axes.at[node->axes.axis[i]].global;
    }
    return is_plain_sum(s, node->operands[0], factor, depth + 1);
  }
  if (s->sum && is_given_weights(s->graph, node)) {
    const bool mean = fabs(fabs(factor) * s->all - 1) < 1e-6, one = fabs(fabs(factor) - 1) < 1e-6;
    s->scaled =
        !s->added && (mean || !one || strcmp(is_given_weights(s->graph, node), "share") != 0 ||
                      !lint_bare_entropy(s->graph, node->operands[is_given(s->graph, node->operands[0]) ? 1 : 0]));
    s->weighed = mean ? node : s->weighed;
    s->weighed_in = mean ? s->sum : s->weighed_in;
    return false;
  }
  const bool reweighed = lint_reweighs(s->graph, node), mean = fabs(fabs(factor) * s->all - 1) < 1e-6;
  if (!s->sum || is_weighed(s, value, 0)) {
    const bool classes = s->sum && mean && s->all > 1.5 * terms(s, ~0U);
    s->scaled |= !s->added && (reweighed || classes || (!s->sum && node->op == OP_LOG));
    return false;
  }
  const bool more = grows(s, fabs(factor));
  s->scaled = !more && !s->added && (reweighed || (node->op != OP_SUM && !mean));
  return more;
}

// Sets the unit of the loss.
static Summed find_unit(Elaborator *e, ValueId loss) {
  Graph *graph = e->graph;
  Summed s = {.graph = graph, .left = MOST_NODES, .all = 1};
  const NodeList *nodes = &graph->regions.at[0].nodes;
  for (int i = 0; i < nodes->count; i++) {
    const Node *node = graph_node(graph, nodes->at[i]);
    if (node->op == OP_INPUT && (strcmp(node->text, "tokens") == 0 || strcmp(node->text, "targets") == 0)) {
      const Shape shape = graph_shape(graph, node->first_result);
      s.counted = shape_union(s.counted, &shape);
    }
  }
  const bool sum = is_plain_sum(&s, loss, 1, 0);
  e->loss_unit = sum                                      ? LOSS_SUM
                 : s.scaled || !lint_in_nats(graph, loss) ? LOSS_PLAIN
                 : lint_adds_terms(e, loss)               ? LOSS_MORE
                                                          : LOSS_NATS;
  return s;
}

void lint_unit(Elaborator *e, ValueId loss) {
  find_unit(e, loss);
}

static void check_mean(Elaborator *e, ValueId loss) {
  const Graph *graph = e->graph;
  const Summed s = find_unit(e, loss);
  if (s.weighed) {
    const bool share = strcmp(is_given_weights(graph, s.weighed), "share") == 0;
    Diagnostic *said = diag_warning(e->diag, E054, asked_for(e, s.weighed_in),
                                    share ? "`share` is a part of the whole already, and this is a mean of it"
                                          : "what `mask` leaves out counts in this mean, as 0");
    diag_help(
        e->diag, said,
        share ? "write `sum(... * share)`, which is the mean over what counts; `allow E054;` in the recipe if that is "
                "meant"
              : "write `masked_mean(x, mask)`, or `sum(x * share)`; `allow E054;` in the recipe if that is meant");
  }
  if (e->loss_unit != LOSS_SUM) {
    return;
  }
  Diagnostic *said = diag_warning(e->diag, E054, asked_for(e, s.sum),
                                  "the loss is a sum over %.0f places, not their mean", terms(&s, ~0U));
  diag_help(e->diag, said,
            "write `mean(...)`: learning rates, `clip` and what is logged, nats per token, are those of a "
            "mean; `allow E054;` in the recipe if that is meant");
}

// --- inputs ---

static const struct {
  const char *name, *meaning;
  bool counts, parts;
} fed[] = {
#define FED(name, meaning, token, counts, parts) {#name, meaning, counts, parts},
#include "compiler/plan/fed.def"
#undef FED
};
enum { FED_COUNT = sizeof fed / sizeof *fed };

static bool is_fed(const char *name) {
  bool found = strcmp(name, "step") == 0;
  for (int i = 0; i < FED_COUNT; i++) {
    found |= strcmp(fed[i].name, name) == 0;
  }
  return found;
}

static void warn_unfed(Elaborator *e, const char *name, Span span) {
  const char *known = "", *names[FED_COUNT];
  for (int i = 0; i < FED_COUNT; i++) {
    known = arena_format(e->arena, "%s%s%s (%s)", known, i ? ", " : "", fed[i].name, fed[i].meaning);
    names[i] = fed[i].name;
  }
  Diagnostic *said = diag_warning(e->diag, E018, span, "the data of the recipe does not feed the input '%s'", name);
  const char *foreign = foreign_input(name), *closest = foreign ? foreign : text_closest(name, names, FED_COUNT);
  diag_help(e->diag, said, "%s%s%sdata feeds: %s", closest ? "did you mean `" : "", closest ? closest : "",
            closest ? "`? " : "", known);
}

// Bytes go up to 255, as the axis that they are an index of must.
static void check_kinds(Elaborator *e, const Node *input) {
  enum { BYTES = 256 };
  const PlanRun *run = &e->spec->run;
  const AxisId of = graph_value(e->graph, input->first_result)->bound;
  const bool token = strcmp(input->text, "tokens") == 0 || strcmp(input->text, "targets") == 0;
  const bool text = name_is(run->data_kind, "text") && name_is(run->tokenizer, "bytes");
  if (!token || !text || of < 0 || axis_count(e, of) >= BYTES) {
    return;
  }
  const Object *object = frame_find(e->frame, input->text);
  Diagnostic *said = diag_warning(e->diag, E018, object ? object->span : input->span,
                                  "'%s' is an index of '%s', which has %lld places, and bytes of a text go up to %d",
                                  input->text, axis_name(e, of), (long long)axis_count(e, of), BYTES - 1);
  diag_help(e->diag, said, "give it %d: `%s = %d`", BYTES, axis_name(e, of), BYTES);
}

// Parts of a whole are less than 1, and of numbers beside 0 and 1 a bool keeps none.
static void check_type(Elaborator *e, const Node *input) {
  const ElementType type = graph_value(e->graph, input->first_result)->type;
  const bool whole = type == TYPE_BOOL || type == TYPE_INT || type == TYPE_INDEX;
  for (int i = 0; i < FED_COUNT; i++) {
    const bool holds = fed[i].parts ? !whole : fed[i].counts || type != TYPE_BOOL;
    if (strcmp(fed[i].name, input->text) != 0 || holds) {
      continue;
    }
    const Object *object = frame_find(e->frame, input->text);
    Diagnostic *said = diag_error(e->diag, E018, object ? object->span : input->span,
                                  "the input '%s' is %s %s, which cannot hold what data feeds it: %s", input->text,
                                  type == TYPE_BOOL ? "a" : "an", element_type_name(type), fed[i].meaning);
    diag_help(e->diag, said, fed[i].parts ? "declare it as `real`" : "declare it as `int`");
  }
}

// Where the recipe says what the data is, it must have all that the model reads.
static void check_inputs(Elaborator *e) {
  const Graph *graph = e->graph;
  const NodeList *nodes = &graph->regions.at[0].nodes;
  bool text = false, other = false;
  for (int i = 0; i < nodes->count; i++) {
    const Node *node = graph_node(graph, nodes->at[i]);
    if (node->op == OP_INPUT) {
      text |= strcmp(node->text, "tokens") == 0;
      other |= !is_fed(node->text);
      check_kinds(e, node);
      check_type(e, node);
      if (!is_fed(node->text)) {
        const Object *object = frame_find(e->frame, node->text);
        warn_unfed(e, node->text, object ? object->span : node->span);
      }
    }
  }
  if (!text && !other) {
    const Ast *model = e->spec->text->model->ast;
    Diagnostic *said = diag_warning(e->diag, E018, model->name_span,
                                    "the model '%s' has no input 'tokens', which data feeds", model->name);
    diag_help(e->diag, said, "declare it: `input tokens, targets: index(vocab)[batch, seq];`");
  }
}

void lint_loss(Elaborator *e, ValueId loss) {
  const Graph *graph = e->graph;
  for (int i = 0; i < graph->nodes.count; i++) {
    const Node *node = graph_node(graph, i);
    const bool scored = node->op == OP_TAKE && node->scope >= 0 && diag_in_library(e->diag, node->span) &&
                        strcmp(graph->scopes.at[node->scope].function, "cross_entropy") == 0;
    if (scored) {
      check_logits(e, node);
      check_bound(e, node);
      check_targets(e, node);
      check_reductions(e, node);
    }
  }
  check_mean(e, loss);
  check_sign(e, loss);
  if (settings_phrase(e->spec->text->recipe, "data")) {
    check_inputs(e);
  }
}
