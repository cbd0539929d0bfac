// exposure.c: see exposure.h.
#include "compiler/plan/exposure.h"

#include <stdlib.h>

typedef struct {  // something begins or ends
  double at;
  int mesh;  // which of Exposure.mesh it goes over; -1: none
  int by;    // 1 or -1
} Edge;

uint32_t instruction_mesh(const Plan *plan, const Instruction *instruction) {
  return instruction->kind == INSTRUCTION_COLLECTIVE ? instruction->as.collective.mesh
         : plan->pipeline >= 0                       ? 1u << plan->pipeline
                                                     : 0;
}

static int mesh_of(Exposure *out, uint32_t mesh) {
  int at = 0;
  while (at < out->count && out->mesh[at].mesh < mesh) {
    at++;
  }
  if (at == out->count || out->mesh[at].mesh != mesh) {
    for (int i = out->count++; i > at; i--) {
      out->mesh[i] = out->mesh[i - 1];
    }
    out->mesh[at] = (ExposedMesh){.mesh = mesh};
  }
  return at;
}

static int by_time(const void *a, const void *b) {
  const Edge *left = a, *right = b;
  return (left->at > right->at) - (left->at < right->at);
}

// Seconds between two moments in which so many communicate over each mesh, and so many compute.
static void pass_time(Exposure *out, const int *under_way, int computes, double seconds) {
  bool any = false;
  for (int m = 0; m < out->count; m++) {
    out->mesh[m].seconds += under_way[m] > 0 ? seconds : 0;
    out->mesh[m].exposed += under_way[m] > 0 && computes == 0 ? seconds : 0;
    any |= under_way[m] > 0;
  }
  out->seconds += any ? seconds : 0;
  out->exposed += any && computes == 0 ? seconds : 0;
}

void exposure_find(Arena *arena, const Plan *plan, const PlanSpan *spans, int64_t count, Exposure *out) {
  *out = (Exposure){0};
  for (int64_t i = 0; i < count; i++) {
    if (instruction_is_shared(spans[i].instruction)) {
      const int at = mesh_of(out, instruction_mesh(plan, spans[i].instruction));
      out->mesh[at].bytes += instruction_sends(spans[i].instruction);
    }
  }
  Edge *edge = ARENA_ARRAY(arena, Edge, 2 * count + 1);
  int64_t edges = 0;
  for (int64_t i = 0; i < count; i++) {
    const bool shared = instruction_is_shared(spans[i].instruction);
    if (shared || instruction_computes(spans[i].instruction)) {
      const int at = shared ? mesh_of(out, instruction_mesh(plan, spans[i].instruction)) : -1;
      edge[edges++] = (Edge){spans[i].begin, at, 1};
      edge[edges++] = (Edge){spans[i].end, at, -1};
    }
  }
  if (edges == 0) {
    return;
  }
  qsort(edge, (size_t)edges, sizeof *edge, by_time);
  int *under_way = ARENA_ARRAY(arena, int, out->count + 1), computes = 0;
  for (int64_t i = 0; i < edges; i++) {
    *(edge[i].mesh < 0 ? &computes : &under_way[edge[i].mesh]) += edge[i].by;
    if (i + 1 < edges) {
      pass_time(out, under_way, computes, edge[i + 1].at - edge[i].at);
    }
  }
  out->step = edge[edges - 1].at - edge[0].at;
}
