// update_norms.c: how large gradients, parameters and their updates are, for each group that the recipe watches.
//
// A group is what one selector of `watch` tells apart, such as one layer. No unit has members of two groups (packs.c),
// so a norm is that of whole units: the root of the sum of their squares.
#include "lang/updates.h"

typedef struct {
  Name name;
  ValueId grad, param, update;  // sums of squares, or -1
} Watched;

typedef ARRAY(Watched) WatchedList;

static Watched *watched_of(Elaborator *e, WatchedList *list, Name name) {
  for (int i = 0; i < list->count; i++) {
    if (list->at[i].name == name) {
      return &list->at[i];
    }
  }
  array_push(e->arena, list, ((Watched){name, -1, -1, -1}));
  return &list->at[list->count - 1];
}

static void add_squares(Elaborator *e, ValueId *sum, ValueId value) {
  const ValueId square = graph_op2(e->graph, OP_MUL, value, value);
  const ValueId one = graph_sum(e->graph, square, graph_shape(e->graph, square));
  *sum = *sum < 0 ? one : graph_op2(e->graph, OP_ADD, *sum, one);
}

static void output_norm(Elaborator *e, const char *what, const Watched *of, ValueId squares) {
  const Name name = name_format(e->names, "%s.%s", what, of->name);
  graph_add1(e->graph, OP_OUTPUT, (NodeInit){NODE_INIT, .text = name}, graph_op1(e->graph, OP_SQRT, squares));
}

// The group that selector i has a unit in; NULL: none, or one that a selector ahead of it has it in already.
static Name group_of(const Elaborator *e, int i, SelectorPlace place) {
  const Name name = selector_group(e->graph, e->spec->watched.at[i].name, place);
  for (int j = 0; j < i && name; j++) {
    if (selector_group(e->graph, e->spec->watched.at[j].name, place) == name) {
      return NULL;
    }
  }
  return name;
}

void update_norms(Elaborator *e) {
  WatchedList list = {0};
  const struct UpdateContext *update = e->update;
  for (int i = 0; i < e->spec->watched.count; i++) {
    for (int j = 0; j < update->units->count; j++) {
      const UpdateUnit unit = update->units->at[j];
      const Persistent *first = &e->graph->persistent.at[unit.members[0]];
      const SelectorPlace place = {.scope = first->scope, .tensor = first->name};
      const Name name = group_of(e, i, place);
      if (name && update->change[j] >= 0) {
        e->graph->span = e->spec->text->optimizers.at[unit.rule].call->span;
        Watched *watched = watched_of(e, &list, name);
        add_squares(e, &watched->grad, unit.g);
        add_squares(e, &watched->param, unit.p);
        add_squares(e, &watched->update, update->change[j]);
      }
    }
  }
  for (int i = 0; i < list.count; i++) {
    output_norm(e, "grad_norm", &list.at[i], list.at[i].grad);
    output_norm(e, "param_norm", &list.at[i], list.at[i].param);
    output_norm(e, "update_norm", &list.at[i], list.at[i].update);
  }
}
