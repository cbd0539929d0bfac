// mutants.h: what the compiler makes, made wrong in one place: for mutants_test.
//
// A graph is changed after a pass, by what watches the passes; a plan when it is done. First all places are listed,
// then each mutant is made in a process of its own. What cannot change any result says why, in words.
#ifndef MDL_TESTS_MUTANTS_H
#define MDL_TESTS_MUTANTS_H

#include "compiler/pass/compilation.h"
#include "compiler/plan/plan.h"

typedef enum {
#define MUTANT(NAME, what) MUTANT_##NAME,
#include "tests/mutants.def"
#undef MUTANT
  MUTANT_COUNT
} MutantKind;

typedef struct {
  MutantKind kind;
  bool graph;                  // of a graph, or of a plan
  int stage;                   // of the pipeline; of graphs before they are cut into stages: -1, all
  int program, number;         // graphs: which of the places of this kind in the program
  int segment, at, part, way;  // plans: instruction, what of it, and what is done to it
  const char *what;            // in words, or NULL
  const char *equivalent;      // why this changes no result; NULL: it should
} Mutant;

typedef ARRAY(Mutant) MutantList;

typedef struct {         // the context of a PassWatch
  Arena *arena;          // of the list
  MutantList *found;     // NULL: nobody wants to know
  const Mutant *wanted;  // NULL: nothing is changed
  bool done;             // it was
} GraphMutation;

void graph_mutate(void *context, Compilation *c, const char *pass);

// Makes an instruction on sorted rows wrong in one of its ways, 0 and up, and says how; NULL: it has no more ways.
const char *rows_mutate(const Plan *plan, Instruction *instruction, int way, MutantKind *kind);

void plan_mutants(Arena *arena, const PlanSet *set, MutantList *found);
void plan_mutate(Arena *arena, const PlanSet *set, const Mutant *mutant);

#endif
