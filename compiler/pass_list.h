// pass_list.h: passes.def and facts.def as tables, for the manager of passes and its test alone.
#ifndef MDL_COMPILER_PASS_LIST_H
#define MDL_COMPILER_PASS_LIST_H

#include "compiler/pass_manager.h"

enum { EACH = 1, TRAIN = 2, REFRESH = 4, DECODE = 8, ALL = EACH | REFRESH };  // programs that a pass is for

enum {  // facts, as bits
  NOTHING = 0,
#define FACT(NAME, other, what) NAME = 1 << FACT_NUMBER_##NAME,
#include "compiler/pass/facts.def"
#undef FACT
};

typedef struct {
  const char *name, *what;
  const Node *(*other)(const Graph *graph);  // a node of which it is not so; NULL: that cannot be seen
} ListedFact;

typedef struct {
  const char *name, *what;
  Pass *run;
  LoweringPass *lower;  // one of these two
  int programs;
  uint32_t needs, gives;
} ListedPass;

enum {
#define PASS(name, ...) PASS_NUMBER_##name,
#define LOWERING(name, ...) PASS_NUMBER_##name,
#include "compiler/pass/passes.def"
#undef PASS
#undef LOWERING
  PASS_COUNT
};

extern const ListedFact listed_facts[FACT_COUNT];
extern const ListedPass listed_passes[PASS_COUNT];  // in their order

#endif
