// precision.c: gives every real value its element type, by the precision policy.
//
// Needs a whole step; from here on no value is TYPE_REAL. The policies of this version use one format for all
// roles (fp32, fp64), so no casts are needed.
#include "compiler/compilation.h"

bool pass_precision(Compilation *c) {
  Graph *graph = c->graph;
  graph->real = c->spec->real;
  for (int i = 0; i < graph->values.count; i++) {
    Value *value = graph_value(graph, i);
    if (value->type == TYPE_REAL) {
      value->type = graph->real;
    }
  }
  for (int i = 0; i < graph->persistent.count; i++) {
    if (graph->persistent.at[i].type == TYPE_REAL) {
      graph->persistent.at[i].type = graph->real;
    }
  }
  return true;
}
