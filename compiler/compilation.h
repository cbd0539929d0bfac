// compilation.h: what the passes of one program share.
#ifndef MDL_COMPILER_COMPILATION_H
#define MDL_COMPILER_COMPILATION_H

#include "compiler/graph.h"
#include "compiler/plan.h"
#include "lang/elaborate.h"

typedef struct {
  Arena *arena;
  Names *names;
  Diag *diag;
  Unit *unit;
  const Spec *spec;
  ProgramKind program;
  Elaborator *elaborator;
  Graph *graph;
  bool differentiated;
  bool gradients;  // make outputs of the gradients
} Compilation;

typedef bool Pass(Compilation *c);
#define PASS(name, function, programs, what) Pass function;
#include "compiler/passes.def"
#undef PASS

// --- what passes share ---

// Replaces operands by `replace` (indexed by value; -1: itself), in all regions and region results.
void graph_replace_values(Graph *graph, const ValueId *replace);

// Drops nodes whose results nothing uses.
void graph_remove_dead(Graph *graph);

// Moves assignments of the model's own state to the end: they take effect after the step.
void graph_assign_last(Graph *graph);

// group.c: which nodes of a list belong to one kernel. group[i] of node id i: an id, or -1.
typedef struct {
  int *group;  // by NodeId
  int count;
} Grouping;

typedef struct {
  Shape space, inner;   // inner is empty while no reduction has decided it
  bool row_reductions;  // a reduction over `inner` is used inside
  bool inner_known;
  bool backward;  // of its first member
  int level, nodes, external;
} GroupInfo;

Grouping group_make(Graph *graph, const NodeId *nodes, int count, GroupInfo **info);
bool op_fusable(Op op);
bool op_free(Op op);  // constants and positions: made again wherever they are used

#endif
