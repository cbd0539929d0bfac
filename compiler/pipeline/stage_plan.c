// stage_plan.c: which stage of the pipeline does what of the whole step, and what has to travel between them.
//
// Needs shard. It is the same for all stages: what comes behind cuts one of them out of the graph (stage.c).
#include <string.h>

#include "compiler/pipeline/stage.h"
#include "compiler/shard/orders.h"

static int stage_count(uint64_t stages) {
  int count = 0;
  for (; stages; stages &= stages - 1) {
    count++;
  }
  return count;
}

// A stage that has a tensor in one of the plan's training steps has it in all of them.
static void keep_tenancy(Compilation *c, Stages *stages) {
  Tenancy *tenancy = c->tenancy;
  Arena *arena = tenancy->index.arena;
  for (int i = 0; i < c->graph->persistent.count; i++) {
    const Name name = c->graph->persistent.at[i].name;
    const int64_t known = map_get_or(&tenancy->index, map_key(name), -1);
    for (int w = 0; w < stages->words; w++) {
      const uint64_t before = known >= 0 ? tenancy->at.at[known].holders[w] : 0;
      stages->holders[i][w] |= before;
      tenancy->held += stage_count(stages->holders[i][w]) - stage_count(before);
    }
    const uint64_t *holders = arena_copy(arena, stages->holders[i], sizeof *holders * (size_t)stages->words);
    map_put(&tenancy->index, map_key(name), tenancy->at.count);
    array_push(arena, &tenancy->at, ((Tenant){stages->owner[i], holders}));
  }
}

static int *nothing_yet(const Cut *cut) {
  int *made = ARENA_ARRAY(cut->c->arena, int, cut->limit + 1);
  memset(made, -1, sizeof *made * (size_t)(cut->limit + 1));
  return made;
}

static Cut *plan(Compilation *c, const Stages *stages) {
  Graph *graph = c->graph;
  Cut *cut = ARENA_NEW(c->arena, Cut);
  *cut = (Cut){.c = c, .graph = graph, .stages = stages, .limit = graph->values.count};
  cut->part = ARENA_ARRAY(c->arena, uint8_t, graph->nodes.count + 1);
  cut->in_body = ARENA_ARRAY(c->arena, bool, graph->nodes.count + 1);
  cut->leaves = ARENA_ARRAY(c->arena, bool, cut->limit + 1);
  cut->first = nothing_yet(cut);
  cut->steady = nothing_yet(cut);
  orders_choose(c);
  const NodeList nodes = graph->regions.at[0].nodes;
  for (int i = 0; i < nodes.count; i++) {
    const Node *node = graph_node(graph, nodes.at[i]);
    if (node->op == OP_MICROBATCH && !stage_plan_body(cut, &graph->regions.at[node->region])) {
      return NULL;
    }
  }
  stage_plan_top(cut, &nodes);
  return cut;
}

bool pass_stages(Compilation *c) {
  Graph *graph = c->graph;
  c->nothing = graph->regions.at[0].nodes.count == 0;
  if (!c->tenancy) {
    return pass_changed_nothing(c);
  }
  const Tenancy *known = c->program == PROGRAM_TRAIN ? NULL : c->tenancy;
  Stages *stages = stages_find(c->arena, graph, c->spec, known);
  while (stages && stage_once(c, stages)) {
    stages = stages_find(c->arena, graph, c->spec, known);
  }
  if (!stages) {
    return false;
  }
  if (c->program == PROGRAM_TRAIN) {
    keep_tenancy(c, stages);
  }
  if (c->program != PROGRAM_INITIALISE) {
    c->cut = plan(c, stages);
    return c->cut != NULL;
  }
  return true;
}

Cut *stage_cut_view(const Cut *cut, Compilation *c) {
  Cut *view = arena_copy(c->arena, cut, sizeof *view);
  view->c = c;
  view->graph = c->graph;
  view->messages.at = arena_copy(c->arena, cut->messages.at, sizeof *cut->messages.at * (size_t)cut->messages.count);
  view->messages.capacity = view->messages.count;
  view->instances.at =
      arena_copy(c->arena, cut->instances.at, sizeof *cut->instances.at * (size_t)cut->instances.count);
  view->instances.capacity = view->instances.count;
  return view;
}
