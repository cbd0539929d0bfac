// shard_copy.c: how values are held, for a copy of their graph, and for a graph whose values are numbered anew.
#include <string.h>

#include "compiler/shard/shard.h"

static Mapping *mapping_copy(const Mapping *mapping, const Graph *graph, Arena *arena) {
  Mapping *copy = arena_copy(arena, mapping, sizeof *copy);
  copy->graph = graph;
  copy->arena = arena;
  copy->matches = map_copy(&mapping->matches, arena);
  copy->took_off = arena_copy(arena, mapping->took_off, sizeof *copy->took_off * (size_t)(copy->spec->rules.count + 1));
  return copy;
}

#define COPY_TABLE(arena, table)                                                             \
  ((table).at = arena_copy((arena), (table).at, sizeof *(table).at * (size_t)(table).count), \
   (table).capacity = (table).count)

// Once everything is divided nothing is looked up any more of what stands for what.
static void forget(Shard *s) {
  s->limit = 0;
  s->uses = NULL;
  s->deferred = NULL;
  s->stored = NULL;
  s->memo = map_create(s->c->arena);
  s->pieces = map_create(s->c->arena);
  s->parts = map_create(s->c->arena);
}

Shard *shard_copy(const Shard *shard, Compilation *c) {
  Shard *copy = arena_copy(c->arena, shard, sizeof *copy);
  copy->c = c;
  copy->graph = c->graph;
  copy->mapping = mapping_copy(shard->mapping, c->graph, c->arena);
  COPY_TABLE(c->arena, copy->held);
  COPY_TABLE(c->arena, copy->cause);
  COPY_TABLE(c->arena, copy->newest);
  COPY_TABLE(c->arena, copy->loops);
  COPY_TABLE(c->arena, copy->forms);
  COPY_TABLE(c->arena, copy->owners);
  forget(copy);
  return copy;
}

void shard_compact(Shard *s, const GraphMoves *moves) {
  int held = 0, loops = 0;
  for (int v = 0; v < s->held.count && v < moves->values; v++) {
    if (moves->value[v] >= 0) {
      const ValueId now = s->newest.at[v];
      s->held.at[held] = s->held.at[v];
      s->cause.at[held] = s->cause.at[v];
      s->newest.at[held] = now < moves->values && moves->value[now] >= 0 ? moves->value[now] : held;
      held++;
    }
  }
  for (int n = 0; n < s->loops.count && n < moves->nodes; n++) {
    if (moves->node[n] >= 0) {
      s->loops.at[loops++] = s->loops.at[n];
    }
  }
  s->held.count = s->cause.count = s->newest.count = held;
  s->loops.count = loops;
  for (int i = 0; i < s->owners.count; i++) {
    s->owners.at[i].index = moves->value[s->owners.at[i].index];
  }
  forget(s);
}
