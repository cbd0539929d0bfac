// choices.c: which values are made of one choice, and what they hold where a capacity leaves the choice out.
#include "compiler/ir/choices.h"

enum { CONTENTS = 4 };  // more than PaddingContent has

static const double LEAST = 1e-30;  // what is less may be 0, or have a quotient that is infinite, in formats of 32 bits

Choices choices_create(Arena *arena, const Graph *graph) {
  return (Choices){.arena = arena, .graph = graph, .made = map_create(arena), .real = map_create(arena)};
}

static void put(Choices *choices, ValueId value, MadeOf made) {
  map_put(&choices->made, (uint64_t)value, made.choice * CONTENTS + (int)made.content);
}

void choices_add(Choices *choices, ValueId limited) {
  array_push(choices->arena, &choices->limited, limited);
  put(choices, limited, (MadeOf){choices->limited.count, PADDING_FINITE});
}

MadeOf choices_of(const Choices *choices, ValueId value) {
  const int64_t made = map_get_or(&choices->made, (uint64_t)value, 0);
  return (MadeOf){(int)(made / CONTENTS), (PaddingContent)(made % CONTENTS)};
}

static Shape positions_of(const Choices *choices, int choice) {
  return graph_shape(choices->graph, choices->limited.at[choice - 1]);
}

bool choices_full(const Choices *choices, ValueId value, int choice) {
  const Shape shape = graph_shape(choices->graph, value), positions = positions_of(choices, choice);
  return shape_contains(&shape, &positions);
}

bool choices_apart(const Choices *choices, const Node *node, int choice) {
  const Shape positions = positions_of(choices, choice);
  const bool apart = !shape_has(&positions, node->axis) && !shape_has(&positions, node->axis2) &&
                     shape_common(node->axes, &positions).count == 0;
  const bool does = op_reduction(node->op) || op_moves(node->op) || op_linear(node->op) || op_bilinear(node->op);
  return node->result_count == 1 && choices_full(choices, node->first_result, choice) &&
         (op_elementwise(node->op) || (does && apart));
}

// Has it, or lacks it only some of, the positions? Then it is theirs, where a parameter is of all of them.
static bool is_of_positions(const Choices *choices, ValueId value, int choice) {
  const Shape shape = graph_shape(choices->graph, value), positions = positions_of(choices, choice);
  return shape_common(shape, &positions).count > 0;
}

static bool is_zero(const Node *node) {
  return node && ((node->op == OP_CONST && !(node->number < 0) && !(node->number > 0)) ||
                  (node->op == OP_INTEGER && node->integer == 0));
}

bool choices_zero(const Choices *choices, ValueId value) {
  const Node *node = graph_producer(choices->graph, value);
  bool zero = is_zero(node);
  for (int i = 0; node && op_bilinear(node->op) && i < 2; i++) {
    zero = zero || is_zero(graph_producer(choices->graph, node->operands[i]));
  }
  return zero;
}

// Of an operand: what is made of no choice may be any number.
static PaddingContent content_of(const Choices *choices, ValueId value, MadeOf made) {
  return made.choice ? made.content : choices_zero(choices, value) ? PADDING_ZERO : PADDING_FINITE;
}

// Is it that the choice is not left out?
static bool says_kept(const Choices *choices, ValueId condition) {
  const Node *node = graph_producer(choices->graph, condition);
  const Node *least = node && node->op == OP_LESS_EQUAL ? graph_producer(choices->graph, node->operands[0]) : NULL;
  bool limited = false;
  for (int i = 0; least && i < choices->limited.count; i++) {
    limited = limited || node->operands[1] == choices->limited.at[i];
  }
  return limited && least->op == OP_INTEGER && least->integer == 0;
}

bool choices_positive(const Choices *choices, ValueId value) {
  const Node *node = graph_producer(choices->graph, value);
  if (!node || node->operand_count == 0) {
    return node && ((node->op == OP_CONST && node->number > LEAST) || (node->op == OP_INTEGER && node->integer > 0));
  }
  if (node->op == OP_WHERE && says_kept(choices, node->operands[0])) {
    return choices_positive(choices, node->operands[2]);
  }
  if (node->op == OP_SQRT) {
    return choices_positive(choices, node->operands[0]);
  }
  for (int i = 0; (node->op == OP_ADD || node->op == OP_MAX) && i < 2; i++) {
    const MadeOf other = choices_of(choices, node->operands[1 - i]);
    const Node *leaf = graph_producer(choices->graph, node->operands[i]);
    if (leaf && leaf->op == OP_CONST && leaf->number > LEAST) {
      return node->op == OP_MAX || (other.choice && other.content == PADDING_ZERO) ||
             choices_positive(choices, node->operands[1 - i]);
    }
  }
  return false;
}

// What the node gives of operands that hold this at each position.
static PaddingContent result_of(const Choices *choices, const Node *node, AxisId position, PaddingContent *contents) {
  const bool diverges = op_padding_diverges(node->op);
  bool any = false, sure = true;
  for (int i = 0; i < node->operand_count; i++) {
    any = any || contents[i] == PADDING_ANY;
    sure = sure && (i == 0 || contents[i] == PADDING_FINITE || !diverges);
  }
  if (op_bilinear(node->op) && !any) {
    return contents[0] == PADDING_ZERO || contents[1] == PADDING_ZERO ? PADDING_ZERO : PADDING_FINITE;
  }
  if (op_linear(node->op) && contents[0] == PADDING_ZERO && !any && sure) {
    return PADDING_ZERO;
  }
  for (int i = 0; i < node->operand_count; i++) {  // a number may be 0
    const bool safe = !diverges || contents[i] != PADDING_FINITE || choices_positive(choices, node->operands[i]);
    contents[i] = safe ? contents[i] : PADDING_ANY;
  }
  return op_padding(node->op)->content(choices->graph, node, position, contents);
}

// The choice of all operands that are made of one; 0 if there is none, or several.
static int choice_of(const Node *node, const MadeOf *operands) {
  int choice = 0;
  bool same = true;
  for (int i = 0; i < node->operand_count; i++) {
    same = same && (!choice || !operands[i].choice || operands[i].choice == choice);
    choice = operands[i].choice ? operands[i].choice : choice;
  }
  return same ? choice : 0;
}

MadeOf choices_infer(const Choices *choices, const Node *node, const MadeOf *operands) {
  const MadeOf none = {0, PADDING_ANY};
  if (node->result_count == 1 && map_get_or(&choices->real, (uint64_t)node->first_result, 0)) {
    return none;
  }
  for (int i = 0; op_indexes(node->op) && i < choices->limited.count; i++) {  // outside all of these give 0
    if (node->operands[node->operand_count - 1] == choices->limited.at[i] &&
        choices_full(choices, node->first_result, i + 1)) {
      return (MadeOf){i + 1, PADDING_ZERO};
    }
  }
  const int choice = choice_of(node, operands);
  if (choice == 0 || op_chosen(node->op) || !choices_apart(choices, node, choice)) {
    return none;
  }
  if (node->op == OP_AND && says_kept(choices, node->operands[0])) {
    return (MadeOf){choice, PADDING_ZERO};
  }
  if (node->op == OP_WHERE && says_kept(choices, node->operands[0])) {
    return (MadeOf){choice, content_of(choices, node->operands[2], operands[2])};
  }
  PaddingContent *contents = ARENA_ARRAY(choices->arena, PaddingContent, node->operand_count + 1);
  const AxisId position = positions_of(choices, choice).axis[0];
  bool beside = false;
  for (int i = 0; i < node->operand_count; i++) {
    contents[i] = operands[i].choice ? PADDING_ZERO : content_of(choices, node->operands[i], operands[i]);
    beside = beside || (!operands[i].choice && is_of_positions(choices, node->operands[i], choice));
  }
  const PaddingContent left = beside ? result_of(choices, node, position, contents) : PADDING_ZERO;
  if (left == PADDING_FINITE) {  // a number that stays; what is none, as a quotient by the choice, goes with it
    return none;
  }
  for (int i = 0; i < node->operand_count; i++) {
    contents[i] = content_of(choices, node->operands[i], operands[i]);
  }
  return (MadeOf){choice, result_of(choices, node, position, contents)};
}

static void note_all(Choices *choices, RegionId region);

// A composite makes what its body does.
static void note_composite(Choices *choices, const Node *node) {
  const Region *body = &choices->graph->regions.at[node->region];
  for (int i = 0; i < body->parameters.count; i++) {
    put(choices, body->parameters.at[i], choices_of(choices, node->operands[i]));
  }
  note_all(choices, node->region);
  for (int i = 0; i < node->result_count; i++) {
    const MadeOf made = choices_of(choices, body->results.at[i]);
    const bool real = map_get_or(&choices->real, (uint64_t)(node->first_result + i), 0) != 0;
    put(choices, node->first_result + i, real ? (MadeOf){0} : made);
  }
}

void choices_note(Choices *choices, const Node *node) {
  MadeOf *operands = ARENA_ARRAY(choices->arena, MadeOf, node->operand_count + 1);
  bool any = false;
  for (int i = 0; i < node->operand_count; i++) {
    operands[i] = choices_of(choices, node->operands[i]);
    any = any || operands[i].choice;
  }
  if (any && node->op == OP_COMPOSITE) {
    note_composite(choices, node);
    return;
  }
  const MadeOf made = any ? choices_infer(choices, node, operands) : (MadeOf){0};
  if (made.choice) {
    put(choices, node->first_result, made);
  }
}

static void note_all(Choices *choices, RegionId region) {
  const NodeList *nodes = &choices->graph->regions.at[region].nodes;
  for (int i = 0; i < nodes->count; i++) {
    const Node *node = graph_node(choices->graph, nodes->at[i]);
    choices_note(choices, node);
    if (op_body(node->op) && node->op != OP_COMPOSITE) {
      note_all(choices, node->region);
    }
  }
}

// Does the node leave out what is at positions whose choice is left out?
static bool leaves_out(const Choices *choices, const Node *node, int choice) {
  const bool indexes =
      op_indexes(node->op) && node->operands[node->operand_count - 1] == choices->limited.at[choice - 1];
  const bool one = node->result_count == 1 || node->op == OP_COMPOSITE;
  return indexes || (one && choices_of(choices, node->first_result).choice == choice);
}

// Notes the values of a region whose numbers are read where the choice is left out: what is not 0 there is real, as a
// sum of gradients is to which what stands beside the choice has given a constant. Are there new ones?
static bool note_real(Choices *choices, RegionId region) {
  const NodeList *nodes = &choices->graph->regions.at[region].nodes;
  bool found = false;
  for (int i = nodes->count - 1; i >= 0; i--) {
    const Node *node = graph_node(choices->graph, nodes->at[i]);
    for (int j = 0; j < node->operand_count; j++) {
      const ValueId value = node->operands[j];
      const MadeOf made = choices_of(choices, value);
      if (made.choice && made.content != PADDING_ZERO &&
          element_type_floating(graph_value(choices->graph, value)->type) && !leaves_out(choices, node, made.choice)) {
        map_put(&choices->real, (uint64_t)value, true);
        put(choices, value, (MadeOf){0});
        found = true;
      }
    }
    found = (op_body(node->op) && note_real(choices, node->region)) || found;
  }
  return found;
}

void choices_walk(Choices *choices, RegionId region) {
  do {
    Map *made = &choices->made;
    *made = map_create(choices->arena);
    for (int i = 0; i < choices->limited.count; i++) {
      put(choices, choices->limited.at[i], (MadeOf){i + 1, PADDING_FINITE});
    }
    note_all(choices, region);
  } while (note_real(choices, region));
}
