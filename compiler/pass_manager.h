// pass_manager.h: runs the passes of passes.def in their order, each only with what it needs, and each that
// changes something followed by the verifier.
#ifndef MDL_COMPILER_PASS_MANAGER_H
#define MDL_COMPILER_PASS_MANAGER_H

#include "compiler/lower/lower.h"

enum { PASS_NAMES_MAX = 64 };

typedef enum {
#define FACT(NAME, other, what) FACT_NUMBER_##NAME,
#include "compiler/pass/facts.def"
#undef FACT
  FACT_COUNT
} FactNumber;

// Runs the passes of the compilation's program on its graph, up to the one named `after`; NULL: all of them.
bool passes_run(Compilation *c, const char *after);
// The same in two: the passes that are the same for all stages of a pipeline, and those from `stage` on, of a view for
// the stage c->stage. A view lives in `arena`; `whole` must outlive it, and stays as it is.
bool passes_run_whole(Compilation *c);
Compilation *passes_view(const Compilation *whole, Arena *arena);
bool passes_run_stage(Compilation *c);
// What is so of a graph, and of the plan for which it is lowered.
uint32_t passes_facts(uint32_t graph, uint32_t plan);
// The same of the passes behind them, from the graph to instructions.
bool passes_lower(Lower *l, const char *after);
// One of either kind, whatever stands before it: for tests. `l` may be NULL for a pass on the graph.
bool passes_run_one(Compilation *c, Lower *l, const char *name);

int passes_names(const char *names[PASS_NAMES_MAX]);  // all of them; how many
bool passes_is_lowering(const char *name);
void passes_list(Buffer *out);

// fact_checks.c: a node of the graph of which the fact is not so, or NULL.
const Node *fact_straight(const Graph *graph);
const Node *fact_recognised(const Graph *graph);
const Node *fact_typed(const Graph *graph);
const Node *fact_sorted(const Graph *graph);
const Node *fact_fused(const Graph *graph);
const Node *fact_arranged(const Graph *graph);

#endif
