// visible.c: which keys a query may see at all, by the text of its scores.
//
// A score of -infinity hides a key. Where that follows from the distance alone, the position of the key minus that of
// the query, it is known when a plan is made: an interval of distances outside which every score is -infinity. It may
// be too wide, never too narrow: what cannot be told is seen.
#include "compiler/rewrite/visible.h"

#include <math.h>

#include "compiler/rewrite/scores.h"

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

static Affine affine(const PositionsOf *at, ValueId value, int depth) {
  const Node *node = graph_producer(at->graph, value);
  if (!node || depth == 0) {
    return (Affine){0};
  }
  const AxisId axis = scores_position(at->graph, node);
  if (axis >= 0) {
    const bool key = axis_whole(at->graph, axis) == axis_whole(at->graph, at->key);
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

// --- what is surely seen ---

typedef enum { SCORE_UNKNOWN, SCORE_HIDDEN, SCORE_SHOWN } ScoreAt;

typedef struct {
  const PositionsOf *at;
  ValueId dot;
  int64_t distance;
} Asked;

static bool has(Interval distances, int64_t distance) {
  return distances.least <= distance && distance <= distances.most;
}

// What is far below other scores weighs next to nothing.
static ScoreAt number_at(double number) {
  enum { FAR = 20 };
  return number <= -LARGE_SCORE ? SCORE_HIDDEN : fabs(number) < FAR ? SCORE_SHOWN : SCORE_UNKNOWN;
}

static ScoreAt score_at(const Asked *asked, ValueId value, int depth) {
  const Node *node = graph_producer(asked->at->graph, value);
  if (value == asked->dot) {
    return SCORE_SHOWN;
  }
  if (!node || depth == 0) {
    return SCORE_UNKNOWN;
  }
  const ValueId *operand = node->operands;
  ScoreAt part[2] = {SCORE_UNKNOWN, SCORE_UNKNOWN};
  for (int i = 0; i < 2 && i < node->operand_count && node->op != OP_WHERE; i++) {
    part[i] = score_at(asked, operand[i], depth - 1);
  }
  const bool hidden = part[0] == SCORE_HIDDEN || part[1] == SCORE_HIDDEN;
  const bool shown = part[0] == SCORE_SHOWN && part[1] == SCORE_SHOWN;
  switch (node->op) {
    case OP_CONST:
      return number_at(node->number);
    case OP_PARAM:
    case OP_POSITION:
      return SCORE_SHOWN;
    case OP_WHERE: {
      const bool may = has(holds(asked->at, operand[0], true, depth - 1), asked->distance),
                 may_not = has(holds(asked->at, operand[0], false, depth - 1), asked->distance);
      const ScoreAt a = score_at(asked, operand[1], depth - 1), b = score_at(asked, operand[2], depth - 1);
      return !may_not || a == b ? a : !may ? b : SCORE_UNKNOWN;
    }
    case OP_ADD:
      return hidden ? SCORE_HIDDEN : shown ? SCORE_SHOWN : SCORE_UNKNOWN;
    case OP_SUB:
    case OP_MUL:
    case OP_DIV:
      return shown ? SCORE_SHOWN : SCORE_UNKNOWN;
    case OP_TANH:
      return part[0] == SCORE_SHOWN ? SCORE_SHOWN : SCORE_UNKNOWN;
    case OP_TO_REAL:
    case OP_BROADCAST:
    case OP_STOP:
      return part[0];
    default:
      return SCORE_UNKNOWN;
  }
}

bool scores_shown(const PositionsOf *at, ValueId made, ValueId dot, int64_t distance) {
  const Asked asked = {at, dot, distance};
  return score_at(&asked, made, DEPTH) == SCORE_SHOWN;
}
