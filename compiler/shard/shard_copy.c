// shard_copy.c: how values are held, for a view of their graph, and for a graph of its own of some of them.
#include <string.h>

#include "compiler/shard/shard.h"

Shard *shard_view(const Shard *shard, Compilation *c) {
  Shard *view = arena_copy(c->arena, shard, sizeof *view);
  view->c = c;
  view->graph = c->graph;
  return view;
}

static Mapping *mapping_of(const Mapping *mapping, const Graph *graph) {
  Mapping *copy = arena_copy(graph->arena, mapping, sizeof *copy);
  copy->graph = graph;
  copy->arena = graph->arena;
  copy->matches = map_create(graph->arena);
  copy->took_off =
      arena_copy(graph->arena, mapping->took_off, sizeof *copy->took_off * (size_t)(copy->spec->rules.count + 1));
  return copy;
}

static void extract_held(const Shard *s, Shard *made, const GraphMoves *moves) {
  Arena *arena = made->graph->arena;
  const int count = made->graph->values.count;
  made->held.at = ARENA_ARRAY(arena, Held, count);
  made->cause.at = ARENA_ARRAY(arena, Cause, count);
  made->newest.at = ARENA_ARRAY(arena, ValueId, count);
  made->held.capacity = made->cause.capacity = made->newest.capacity = count;
  int held = 0;
  for (int v = 0; v < s->held.count && v < moves->values; v++) {
    if (moves->value[v] >= 0) {
      const ValueId now = s->newest.at[v];
      made->held.at[held] = s->held.at[v];
      made->cause.at[held] = s->cause.at[v];
      made->newest.at[held] = now < moves->values && moves->value[now] >= 0 ? moves->value[now] : held;
      held++;
    }
  }
  made->held.count = made->cause.count = made->newest.count = held;
}

static void extract_loops(const Shard *s, Shard *made, const GraphMoves *moves) {
  made->loops.at = ARENA_ARRAY(made->graph->arena, Loops, made->graph->nodes.count);
  made->loops.capacity = made->graph->nodes.count;
  made->loops.count = 0;
  for (int n = 0; n < s->loops.count && n < moves->nodes; n++) {
    if (moves->node[n] >= 0) {
      made->loops.at[made->loops.count++] = s->loops.at[n];
    }
  }
}

Shard *shard_extract(const Shard *s, Graph *graph, const GraphMoves *moves) {
  Arena *arena = graph->arena;
  Shard *made = arena_copy(arena, s, sizeof *made);
  made->graph = graph;
  made->mapping = mapping_of(s->mapping, graph);
  extract_held(s, made, moves);
  extract_loops(s, made, moves);
  made->forms.at = arena_copy(arena, s->forms.at, sizeof *s->forms.at * (size_t)s->forms.count);
  made->forms.capacity = made->forms.count;
  made->owners.at = arena_copy(arena, s->owners.at, sizeof *s->owners.at * (size_t)s->owners.count);
  made->owners.capacity = made->owners.count;
  for (int i = 0; i < made->owners.count; i++) {
    made->owners.at[i].index = moves->value[made->owners.at[i].index];
  }
  // Once everything is divided nothing is looked up any more of what stands for what.
  made->limit = 0;
  made->uses = NULL;
  made->choices = (Choices){0};
  made->deferred = NULL;
  made->placed = NULL;
  made->stored = NULL;
  made->memo = map_create(arena);
  made->pieces = map_create(arena);
  made->parts = map_create(arena);
  return made;
}
