// state_map.c: the map of persistent state: which tensors a stage has, and where.
#include "compiler/lower/lower.h"

#include "base/integer.h"

// The mesh axes that cut a pack of leaves into pieces.
static uint32_t flat_cut(const Lower *l, const Node *pack) {
  const Axis *axis = &l->graph->axes.at[pack->axis];
  for (int i = 0; i < l->graph->packs.count && axis->whole >= 0; i++) {
    if (l->graph->packs.at[i].axis == axis->whole) {
      return axis->mesh & ~l->graph->packs.at[i].cut;
    }
  }
  return 0;
}

static void add_state(Lower *l, StatePlace place) {
  map_put(&l->states->by_name, map_key(place.name), l->states->places.count);
  array_push(l->keep, &l->states->places, place);
}

static int64_t aligned(int64_t bytes) {
  return round_up(bytes, PLAN_ALIGN);
}

// Members of a pack lie one after the other; of a pack cut into pieces a rank has one, whatever member it falls into.
static void add_pack(Lower *l, const Node *pack, int64_t bytes) {
  StateMap *map = l->states;
  int64_t *elements = ARENA_ARRAY(l->c->arena, int64_t, pack->operand_count);
  int64_t *offsets = ARENA_ARRAY(l->c->arena, int64_t, pack->operand_count);
  for (int j = 0; j < pack->operand_count; j++) {
    elements[j] = graph_elements(l->graph, graph_shape(l->graph, pack->operands[j]));
  }
  pack_offsets(elements, pack->operand_count, offsets);
  int64_t here = graph_elements(l->graph, graph_shape(l->graph, pack->first_result));
  uint32_t flat = flat_cut(l, pack);
  for (int j = 0; j < pack->operand_count; j++) {
    StatePlace place = {.name = graph_producer(l->graph, pack->operands[j])->text, .offset = map->bytes};
    if (flat) {
      place.flat_mesh = flat;
      place.flat_first = offsets[j];
      place.flat_piece = here;
    } else {
      place.offset += offsets[j] * bytes;
    }
    add_state(l, place);
  }
  map->bytes = aligned(map->bytes + here * bytes);
}

// One that an earlier training step of the plan has placed: its members lie as this one wants them.
static void check_pack(Lower *l, const Node *pack, int64_t bytes) {
  StateMap other = {.by_name = map_create(l->c->arena)};
  StateMap *map = l->states;
  l->states = &other;
  add_pack(l, pack, bytes);
  l->states = map;
  const StatePlace *first = NULL;
  for (int i = 0; i < other.places.count; i++) {
    const StatePlace *here = &other.places.at[i];
    const int64_t known = map_get_or(&map->by_name, map_key(here->name), -1);
    const StatePlace *there = known >= 0 ? &map->places.at[known] : NULL;
    first = i == 0 ? there : first;
    if (!there || there->flat_mesh != here->flat_mesh || there->flat_first != here->flat_first ||
        there->flat_piece != here->flat_piece ||
        there->offset - first->offset != here->offset - other.places.at[0].offset) {
      diag_error(l->c->diag, E099, SPAN_NONE, "two training steps of a plan store '%s' otherwise", here->name);
      return;
    }
  }
}

static void add_states(Lower *l, bool copies) {
  const Graph *graph = l->graph;
  StateMap *map = l->states;
  const NodeList *nodes = &graph->regions.at[0].nodes;
  for (int i = 0; i < nodes->count; i++) {
    const Node *node = graph_node(graph, nodes->at[i]);
    const Node *first = node->op == OP_PACK ? graph_producer(graph, node->operands[0]) : NULL;
    if (!first || !op_stored(first->op) || (graph_persistent(graph, first->text)->role == ROLE_COPY) != copies) {
      continue;
    }
    if (map_get_or(&map->by_name, map_key(first->text), -1) >= 0) {
      check_pack(l, node, type_bytes(l, node->first_result));
    } else {
      add_pack(l, node, type_bytes(l, node->first_result));
    }
  }
  for (int i = 0; i < graph->persistent.count; i++) {
    const Persistent *persistent = &graph->persistent.at[i];
    if (!persistent->elsewhere && map_get_or(&map->by_name, map_key(persistent->name), -1) < 0 &&
        (persistent->role == ROLE_COPY) == copies) {
      int64_t bytes = graph_elements(graph, persistent_shape(persistent)) * element_type_bytes(persistent->type);
      add_state(l, (StatePlace){.name = persistent->name, .offset = map->bytes});
      map->bytes = aligned(map->bytes + bytes);
    }
  }
}

void state_map_build(Lower *l) {
  add_states(l, false);
  add_states(l, true);
}
