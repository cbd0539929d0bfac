// visible.c: which keys a query may see at all, by the text of its scores.
//
// A score of -infinity hides a key. Where that follows from the distance alone, the position of the key minus that of
// the query, it is known when a plan is made: an interval of distances outside which every score is -infinity. It may
// be too wide, never too narrow: what cannot be told is seen.
#include "compiler/rewrite/visible.h"

#include <math.h>
#include <string.h>

#include "compiler/rewrite/scores.h"
#include "compiler/rewrite/simplify.h"

enum { DEPTH = 32 };

AxisId scores_position(const Graph *graph, const Node *node) {
  if (node->op == OP_POSITION) {
    return node->axis;
  }
  const Node *part = node->op == OP_ADD ? graph_producer(graph, node->operands[0]) : NULL;
  return part && part->op == OP_POSITION && graph->axes.at[part->axis].mesh ? part->axis : -1;
}

static const Interval all = {INT32_MIN, INT32_MAX};

static Interval both(Interval a, Interval b) {
  return (Interval){a.least > b.least ? a.least : b.least, a.most < b.most ? a.most : b.most};
}

static Interval either(Interval a, Interval b) {
  if (a.least > a.most || b.least > b.most) {  // one is empty
    return a.least > a.most ? b : a;
  }
  return (Interval){a.least < b.least ? a.least : b.least, a.most > b.most ? a.most : b.most};
}

// key * position of the key + query * position of the query + number.
typedef struct {
  bool known;
  int64_t key, query, number;
} Affine;

static Affine number_of(double number) {
  const bool known = fabs(number) < INT32_MAX && floor(number) == number;
  return (Affine){.known = known, .number = known ? (int64_t)number : 0};
}

static Affine sum_of(Affine a, Affine b, int sign) {
  return (Affine){a.known && b.known, a.key + sign * b.key, a.query + sign * b.query, a.number + sign * b.number};
}

// What an axis that is met behind renames is in the scores.
static AxisId axis_outside(const PositionsOf *at, AxisId axis) {
  for (const Renamed *r = at->renamed; r; r = r->outer) {
    if (r->inside == axis) {
      return r->outside;
    }
  }
  return axis;
}

static AxisId axis_inside(const PositionsOf *at, AxisId axis) {
  for (const Renamed *r = at->renamed; r; r = r->outer) {
    if (r->outside == axis) {
      return r->inside;
    }
  }
  return axis;
}

// What stands behind this rename, `renamed` being room for it.
static PositionsOf behind_rename(const PositionsOf *at, const Node *rename, Renamed *renamed) {
  *renamed = (Renamed){at->renamed, rename->axis, axis_outside(at, rename->axis2)};
  PositionsOf behind = *at;
  behind.renamed = renamed;
  return behind;
}

static Affine affine(const PositionsOf *at, ValueId value, int depth) {
  const Node *node = graph_producer(at->graph, value);
  if (!node || depth == 0) {
    return (Affine){0};
  }
  const AxisId along = scores_position(at->graph, node), axis = along < 0 ? along : axis_outside(at, along);
  if (axis >= 0) {
    const bool key = axis_whole(at->graph, axis) == axis_whole(at->graph, at->key);
    if (at->strict && !key && axis_whole(at->graph, axis) != axis_whole(at->graph, at->query)) {
      return (Affine){0};
    }
    return (Affine){.known = true, .key = key, .query = !key};
  }
  switch (node->op) {
    case OP_CONST:
      return number_of(node->number);
    case OP_INTEGER:
      return number_of((double)node->integer);
    case OP_ADD:
    case OP_SUB:
      return sum_of(affine(at, node->operands[0], depth - 1), affine(at, node->operands[1], depth - 1),
                    node->op == OP_ADD ? 1 : -1);
    case OP_TO_REAL:
    case OP_AS_INDEX:
    case OP_BROADCAST:
    case OP_STOP:
      return affine(at, node->operands[0], depth - 1);
    case OP_RENAME: {
      Renamed renamed;
      const PositionsOf behind = behind_rename(at, node, &renamed);
      return at->strict ? affine(&behind, node->operands[0], depth - 1) : (Affine){0};
    }
    default:
      return (Affine){0};
  }
}

// The distances d at which a < b, or a <= b: those of key * d + number < 0.
static Interval ordered(const PositionsOf *at, const Node *node, bool turned, bool equal) {
  const Affine a = affine(at, node->operands[turned], DEPTH), b = affine(at, node->operands[!turned], DEPTH);
  const Affine c = sum_of(a, b, -1);
  Interval found = all;
  if (c.known && c.key == 1 && c.query == -1) {
    found.most = equal ? -c.number : -c.number - 1;
  } else if (c.known && c.key == -1 && c.query == 1) {
    found.least = equal ? c.number : c.number + 1;
  }
  return found;
}

// The distances at which the condition may be `truth`.
static Interval holds(const PositionsOf *at, ValueId value, bool truth, int depth) {
  const Node *node = graph_producer(at->graph, value);
  if (!node || depth == 0) {
    return all;
  }
  const ValueId *operand = node->operands;
  switch (node->op) {
    case OP_NOT:
      return holds(at, operand[0], !truth, depth - 1);
    case OP_AND:
    case OP_OR: {
      const Interval a = holds(at, operand[0], truth, depth - 1), b = holds(at, operand[1], truth, depth - 1);
      return (node->op == OP_AND) == truth ? both(a, b) : either(a, b);
    }
    case OP_LESS:
    case OP_LESS_EQUAL:  // not a < b: b <= a
      return ordered(at, node, !truth, (node->op == OP_LESS_EQUAL) == truth);
    case OP_EQUAL:
      return truth ? both(ordered(at, node, false, true), ordered(at, node, true, true)) : all;
    case OP_BROADCAST:
    case OP_STOP:
      return holds(at, operand[0], truth, depth - 1);
    default:
      return all;
  }
}

static bool is_hidden(const Graph *graph, ValueId value) {
  const Node *node = graph_producer(graph, value);
  return node && node->op == OP_CONST && isinf(node->number) && node->number < 0;
}

// The distances at which a score may be something else than -infinity.
static Interval visible(const PositionsOf *at, ValueId value, int depth) {
  const Node *node = graph_producer(at->graph, value);
  if (!node || depth == 0) {
    return all;
  }
  const ValueId *operand = node->operands;
  if (is_hidden(at->graph, value)) {
    return (Interval){1, 0};
  }
  switch (node->op) {
    case OP_WHERE:
      return either(both(holds(at, operand[0], true, depth - 1), visible(at, operand[1], depth - 1)),
                    both(holds(at, operand[0], false, depth - 1), visible(at, operand[2], depth - 1)));
    case OP_ADD:
    case OP_MIN:
      return both(visible(at, operand[0], depth - 1), visible(at, operand[1], depth - 1));
    case OP_MAX:
      return either(visible(at, operand[0], depth - 1), visible(at, operand[1], depth - 1));
    case OP_SUB:
    case OP_BROADCAST:
    case OP_STOP:
      return visible(at, operand[0], depth - 1);
    default:
      return all;
  }
}

Interval scores_visible(const PositionsOf *at, ValueId made) {
  return visible(at, made, DEPTH);
}

// --- whether anything may hide keys ---

typedef struct {
  const Graph *graph;
  ValueId dot;
  Map seen;
} Unmasked;

static bool any_op(const Graph *graph, ValueId value, Op op, Map *seen) {
  const Node *node = graph_producer(graph, value);
  if (!node || map_get_or(seen, (uint64_t)value, 0)) {
    return false;
  }
  map_put(seen, (uint64_t)value, 1);
  bool any = node->op == op;
  for (int i = 0; i < node->operand_count && !any; i++) {
    any = any_op(graph, node->operands[i], op, seen);
  }
  return any;
}

// What parameters have a part in is no mask.
static bool is_learned(const Graph *graph, ValueId value) {
  Map seen = map_create(graph->arena);
  return any_op(graph, value, OP_PARAM, &seen);
}

static bool unmasked(Unmasked *u, ValueId value, AxisId key, AxisId query);

static bool operands_unmasked(Unmasked *u, const Node *node, AxisId key, AxisId query) {
  bool none = true;
  for (int i = 0; i < node->operand_count && none; i++) {
    none = unmasked(u, node->operands[i], key, query);
  }
  return none;
}

// Only what differs along the key tells keys apart.
static bool unmasked(Unmasked *u, ValueId value, AxisId key, AxisId query) {
  const Graph *graph = u->graph;
  const Node *node = graph_producer(graph, value);
  const Shape shape = graph_shape(graph, value);
  if (value == u->dot || !shape_has(&shape, key) || map_get_or(&u->seen, (uint64_t)value, -1) == key) {
    return true;
  }
  map_put(&u->seen, (uint64_t)value, key);
  if (!node) {
    return false;
  }
  switch (node->op) {
    case OP_PARAM:
    case OP_CONST:
    case OP_INTEGER:
    case OP_UNIFORM:
    case OP_NORMAL:
      return true;
    case OP_INPUT:
      return strcmp(node->text, "tokens") == 0 || strcmp(node->text, "targets") == 0;
    case OP_RENAME:
      return unmasked(u, node->operands[0], node->axis2 == key ? node->axis : key,
                      node->axis2 == query ? node->axis : query);
    case OP_TAKE:
      return operands_unmasked(u, node, key, query);
    default:
      break;
  }
  if (op_elementwise(node->op) || op_reduction(node->op)) {
    return !op_leaf(node->op) && node->op != OP_INSIDE && operands_unmasked(u, node, key, query);
  }
  if (!shape_has(&shape, query)) {  // made of keys alone
    return (op_dots(node->op) || op_alias(node->op) || node->region >= 0) && is_learned(graph, value);
  }
  bool along = false;
  for (int i = 0; i < node->operand_count; i++) {
    const Shape of = graph_shape(graph, node->operands[i]);
    along = along || shape_has(&of, key);
  }
  return along && (op_dots(node->op) || op_alias(node->op)) && operands_unmasked(u, node, key, query);
}

bool scores_unmasked(const PositionsOf *at, ValueId made, ValueId dot) {
  Unmasked u = {at->graph, dot, map_create(at->graph->arena)};
  return unmasked(&u, made, axis_inside(at, at->key), axis_inside(at, at->query));
}

// --- what is surely seen ---

typedef enum {
  SCORE_UNKNOWN,
  SCORE_HIDDEN,
  SCORE_TOP,  // what hides with a minus, or leaves the smaller of two as it is
  SCORE_SHOWN,
  SCORE_OF_DOT,  // made of the dot product: shown, too
} ScoreAt;
typedef enum { MAYBE, NO, YES } Truth;

typedef struct {
  const PositionsOf *at;
  ValueId dot;
  int64_t distance;
} Asked;

static const Node *stripped(const Graph *graph, ValueId *value) {
  const Node *node = graph_producer(graph, *value);
  while (node && (node->op == OP_BROADCAST || node->op == OP_STOP || node->op == OP_AS_INDEX)) {
    *value = node->operands[0];
    node = graph_producer(graph, *value);
  }
  return node;
}

// Does a value tell places apart? Positions do, but not divided, as blocks are.
static bool tells_places(const Graph *graph, ValueId value, bool divided, Map *seen) {
  const Node *node = stripped(graph, &value);
  if (!node || scores_position(graph, node) >= 0) {
    return !divided;
  }
  if (divided || map_get_or(seen, (uint64_t)value, 0)) {
    return false;
  }
  map_put(seen, (uint64_t)value, 1);
  const bool blocks = node->op == OP_DIV && !element_type_floating(graph_value(graph, value)->type);
  bool tells = false;
  for (int i = 0; !tells && i < node->operand_count; i++) {
    tells = tells_places(graph, node->operands[i], blocks, seen);
  }
  return tells;
}

// Is one of two values of keys what the other one is of queries, as `doc` and `doc[seq -> key]`, or the block of both,
// their places divided? Places that are not are alike where they are one alone.
static bool mirrors(const PositionsOf *at, ValueId a, ValueId b, bool divided, int depth) {
  const Graph *graph = at->graph;
  const Node *x = stripped(graph, &a), *y = stripped(graph, &b);
  if (!x || !y || depth == 0 || at->renamed) {
    return false;
  }
  ValueId of_x = x->op == OP_RENAME ? x->operands[0] : a, of_y = y->op == OP_RENAME ? y->operands[0] : b;
  stripped(graph, &of_x);
  stripped(graph, &of_y);
  if (of_x == of_y) {
    const Shape shape = graph_shape(graph, a);
    Map seen = map_create(graph->arena);
    return a != b ? !tells_places(graph, of_x, divided, &seen)
                  : !(shape_has(&shape, at->query) || shape_has(&shape, at->key));
  }
  const AxisId of_a = scores_position(graph, x), of_b = scores_position(graph, y);
  if (of_a >= 0 || of_b >= 0) {
    return divided && ((of_a == at->query && of_b == at->key) || (of_a == at->key && of_b == at->query));
  }
  bool same = x->op == y->op && x->operand_count == y->operand_count && x->operand_count <= 2 &&
              (op_elementwise(x->op) || op_leaf(x->op)) && !op_random(x->op) && x->integer == y->integer &&
              !(x->number < y->number) && !(x->number > y->number) && x->text == y->text;
  for (int i = 0; same && i < x->operand_count; i++) {
    const bool whole = !element_type_floating(graph_value(graph, a)->type);
    same = mirrors(at, x->operands[i], y->operands[i], divided || (x->op == OP_DIV && whole), depth - 1);
  }
  return same && x->operand_count + (x->op == OP_CONST || x->op == OP_INTEGER) > 0;
}

static Truth truth_at(const Asked *asked, ValueId value, int depth);

// A number that follows from the distance.
static bool number_of_distance(const Asked *asked, ValueId value, int depth, double *number) {
  const Affine by = affine(asked->at, value, DEPTH);
  const Node *node = graph_producer(asked->at->graph, value);
  if (by.known && by.key == -by.query) {
    *number = (double)(by.key * asked->distance + by.number);
    return true;
  }
  if (!node || depth == 0) {
    return false;
  }
  if (node->op == OP_CONST) {
    *number = node->number;
    return true;
  }
  if (node->op == OP_TO_REAL && graph_value(asked->at->graph, node->operands[0])->type == TYPE_BOOL) {
    const Truth truth = truth_at(asked, node->operands[0], depth - 1);
    *number = truth == YES;
    return truth != MAYBE;
  }
  if (node->op == OP_TO_REAL || node->op == OP_BROADCAST || node->op == OP_STOP) {
    return number_of_distance(asked, node->operands[0], depth - 1, number);
  }
  if (node->op == OP_WHERE) {
    const Truth truth = truth_at(asked, node->operands[0], depth - 1);
    return truth != MAYBE && number_of_distance(asked, node->operands[truth == YES ? 1 : 2], depth - 1, number);
  }
  if (node->op == OP_RENAME) {
    Renamed renamed;
    const PositionsOf behind = behind_rename(asked->at, node, &renamed);
    return number_of_distance(&(Asked){&behind, asked->dot, asked->distance}, node->operands[0], depth - 1, number);
  }
  double operands[2] = {0, 0};
  const bool picks = node->op == OP_MAX || node->op == OP_MIN;
  bool known = op_elementwise(node->op) && node->operand_count > 0 && node->operand_count <= 2 &&
               (picks || element_type_floating(graph_value(asked->at->graph, value)->type));
  for (int i = 0; known && i < node->operand_count; i++) {
    known = number_of_distance(asked, node->operands[i], depth - 1, &operands[i]);
  }
  return known && simplify_number(node->op, operands, node->operand_count, number);
}

static Truth truth_of(bool truth) {
  return truth ? YES : NO;
}

// Whether a condition holds at the distance. What keys and queries have alike, such as the number of their document, is
// the same for some: who hides others of them hides those before a query as well as those behind.
static Truth truth_at(const Asked *asked, ValueId value, int depth) {
  const Node *node = graph_producer(asked->at->graph, value);
  if (!node || depth == 0) {
    return MAYBE;
  }
  const ValueId *operand = node->operands;
  const bool joins = node->op == OP_AND || node->op == OP_OR;
  const Truth a = joins || node->op == OP_NOT ? truth_at(asked, operand[0], depth - 1) : MAYBE;
  const Truth b = joins ? truth_at(asked, operand[1], depth - 1) : MAYBE;
  double x, y;
  switch (node->op) {
    case OP_NOT:
      return a == MAYBE ? MAYBE : truth_of(a == NO);
    case OP_AND:
      return a == NO || b == NO ? NO : a == YES && b == YES ? YES : MAYBE;
    case OP_OR:
      return a == YES || b == YES ? YES : a == NO && b == NO ? NO : MAYBE;
    case OP_LESS:
    case OP_LESS_EQUAL:
    case OP_EQUAL: {
      const Affine c = sum_of(affine(asked->at, operand[0], DEPTH), affine(asked->at, operand[1], DEPTH), -1);
      bool known = c.known && c.key == -c.query;
      x = known ? (double)(c.key * asked->distance + c.number) : 0;
      y = 0;
      known = known ||
              (number_of_distance(asked, operand[0], depth, &x) && number_of_distance(asked, operand[1], depth, &y));
      const bool mirrored = node->op == OP_EQUAL && mirrors(asked->at, operand[0], operand[1], false, depth);
      return !known                 ? (mirrored ? YES : MAYBE)
             : node->op == OP_LESS  ? truth_of(x < y)
             : node->op == OP_EQUAL ? truth_of(!(x < y) && !(x > y))
                                    : truth_of(x <= y);
    }
    case OP_BROADCAST:
    case OP_STOP:
      return truth_at(asked, operand[0], depth - 1);
    case OP_RENAME: {
      Renamed renamed;
      const PositionsOf behind = behind_rename(asked->at, node, &renamed);
      return truth_at(&(Asked){&behind, asked->dot, asked->distance}, operand[0], depth - 1);
    }
    default:
      return MAYBE;
  }
}

// What is far below other scores weighs next to nothing.
static ScoreAt number_at(double number) {
  enum { FAR = 20 };
  return number <= -LARGE_SCORE  ? SCORE_HIDDEN
         : number >= LARGE_SCORE ? SCORE_TOP
         : fabs(number) < FAR    ? SCORE_SHOWN
                                 : SCORE_UNKNOWN;
}

static ScoreAt score_at(const Asked *asked, ValueId value, int depth);

static ScoreAt negated(ScoreAt part) {
  return part == SCORE_HIDDEN ? SCORE_TOP : part == SCORE_TOP ? SCORE_HIDDEN : part;
}

// Of two parts, one of which may be made of the dot product.
static ScoreAt joined(const Asked *asked, const Node *node, const ScoreAt *part, int depth) {
  const bool made = part[0] == SCORE_OF_DOT || part[1] == SCORE_OF_DOT;
  const bool top = part[0] == SCORE_TOP || part[1] == SCORE_TOP;
  const bool shown = part[0] >= SCORE_SHOWN && part[1] >= SCORE_SHOWN;
  const bool hidden = part[0] == SCORE_HIDDEN || part[1] == SCORE_HIDDEN;
  const int other = part[0] == SCORE_OF_DOT ? 1 : 0;
  double number = 0, by;
  const bool known = made && number_of_distance(asked, node->operands[other], depth, &number);
  if (top && (node->op == OP_MIN || node->op == OP_MAX)) {
    return node->op == OP_MAX ? SCORE_TOP : part[part[0] == SCORE_TOP];
  }
  switch (node->op) {
    case OP_SUB:
    case OP_ADD:
    case OP_MIN:
      return top ? SCORE_UNKNOWN : hidden ? SCORE_HIDDEN : shown ? (made ? SCORE_OF_DOT : SCORE_SHOWN) : SCORE_UNKNOWN;
    case OP_MAX:
      return made && part[other] != SCORE_UNKNOWN ? SCORE_OF_DOT : shown ? SCORE_SHOWN : SCORE_UNKNOWN;
    case OP_DIV:
      if (number_of_distance(asked, node->operands[1], depth, &by) && !(by < 0) && !(by > 0)) {
        return SCORE_UNKNOWN;
      }
      return known && other == 1 && isfinite(number) ? SCORE_OF_DOT
             : shown                                 ? (made ? SCORE_OF_DOT : SCORE_SHOWN)
                                                     : SCORE_UNKNOWN;
    case OP_MUL:  // a finite factor hides nothing
      return known && isfinite(number) && (number < 0 || number > 0) ? SCORE_OF_DOT
             : shown                                                 ? (made ? SCORE_OF_DOT : SCORE_SHOWN)
                                                                     : SCORE_UNKNOWN;
    default:
      return shown ? (made ? SCORE_OF_DOT : SCORE_SHOWN) : SCORE_UNKNOWN;
  }
}

static ScoreAt score_at(const Asked *asked, ValueId value, int depth) {
  const Node *node = graph_producer(asked->at->graph, value);
  double number;
  if (value == asked->dot) {
    return SCORE_OF_DOT;
  }
  if (!node || depth == 0) {
    return SCORE_UNKNOWN;
  }
  const ValueId *operand = node->operands;
  if (number_of_distance(asked, value, depth, &number)) {
    return number_at(number);
  }
  ScoreAt part[2] = {SCORE_UNKNOWN, SCORE_UNKNOWN};
  for (int i = 0; i < 2 && i < node->operand_count && node->op != OP_WHERE; i++) {
    part[i] = score_at(asked, operand[i], depth - 1);
  }
  switch (node->op) {
    case OP_PARAM:
    case OP_POSITION:
      return SCORE_SHOWN;
    case OP_TAKE:  // numbers that are learned, by a distance or a place
      return part[0] == SCORE_SHOWN ? SCORE_SHOWN : SCORE_UNKNOWN;
    case OP_WHERE: {
      const Truth truth = truth_at(asked, operand[0], depth - 1);
      const ScoreAt a = score_at(asked, operand[1], depth - 1), b = score_at(asked, operand[2], depth - 1);
      return truth == YES || a == b ? a : truth == NO ? b : SCORE_UNKNOWN;
    }
    case OP_SUB:
      part[1] = negated(part[1]);
      return joined(asked, node, part, depth - 1);
    case OP_ADD:
    case OP_MUL:
    case OP_DIV:
    case OP_MIN:
    case OP_MAX:
      return joined(asked, node, part, depth - 1);
    case OP_TANH:
      return part[0] >= SCORE_SHOWN ? part[0] : SCORE_UNKNOWN;
    case OP_NEG:
      return negated(part[0]);
    case OP_RENAME: {
      Renamed renamed;
      const PositionsOf behind = behind_rename(asked->at, node, &renamed);
      return score_at(&(Asked){&behind, asked->dot, asked->distance}, operand[0], depth - 1);
    }
    case OP_TO_REAL:
    case OP_BROADCAST:
    case OP_STOP:
      return part[0];
    default:
      return scores_unmasked(asked->at, value, -1) ? SCORE_SHOWN : SCORE_UNKNOWN;
  }
}

bool scores_shown(const PositionsOf *at, ValueId made, ValueId dot, int64_t distance) {
  const PositionsOf strict = {at->graph, at->query, at->key, true, NULL};
  const Asked asked = {&strict, dot, distance};
  return score_at(&asked, made, DEPTH) >= SCORE_SHOWN;
}
