// mutants_graph.h: what the files that change graphs share.
#ifndef MDL_TESTS_MUTANTS_GRAPH_H
#define MDL_TESTS_MUTANTS_GRAPH_H

#include "tests/mutants.h"

typedef struct {
  GraphMutation *mutation;
  Compilation *c;
  Graph *graph;
  MutantKind kind;
  bool everywhere;  // on all stages
  RegionId region;  // where the walk is
  int at;
  NodeId id;
  int number;       // places of the kind so far
  bool changed;     // here or before
  int *uses;        // by value: how often what is computed reads it
  NodeId *readers;  // by value: the last to do so
} Walk;

typedef void Visit(Walk *walk);

typedef struct {  // nodes behind the place where others are added
  NodeList rest;
  GraphPlace place;
  RegionId region;
} Room;

// Is this the place that is to be changed? Lists it if somebody wants to know. `equivalent`: see Mutant.
__attribute__((format(printf, 3, 4))) bool mutant_here(Walk *w, const char *equivalent, const char *format, ...);

const Node *mutant_made_by(const Graph *graph, ValueId value, Op op);  // or NULL
NodeId mutant_reader(const Walk *w, ValueId value);                    // that alone reads it, or -1

// From here on graph_add adds before number `at` of a region, as part of what `like` is part of.
Room mutant_room(Graph *graph, RegionId region, int at, NodeId like);
void mutant_close_room(Graph *graph, const Room *room);

ValueId mutant_constant(Graph *graph, ValueId like, double number);
void mutant_replace(Graph *graph, ValueId from, ValueId to);
void mutant_set_operand(Walk *w, int operand, ValueId value);
void mutant_set_integer(Walk *w, int operand, int64_t number);  // an operand becomes a number

// mutants_parts.c: what localise made.
Visit visit_mask, visit_neutral, visit_begin, visit_shift, visit_zigzag;

#endif
