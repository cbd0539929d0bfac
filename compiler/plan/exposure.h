// exposure.h: what ranks say to each other in a step: bytes, time, and how much of that time nothing hides; for each
// set of mesh axes. Of steps that were measured (runtime/trace.h) and of those that are only reckoned (below).
#ifndef MDL_COMPILER_PLAN_EXPOSURE_H
#define MDL_COMPILER_PLAN_EXPOSURE_H

#include "compiler/plan/rates.h"

typedef struct {  // one run of an instruction on one rank
  const Instruction *instruction;
  double begin, end;  // seconds since some moment
} PlanSpan;

typedef struct {
  uint32_t mesh;   // a communicator's mesh axes; of messages that of the pipeline
  double bytes;    // that the rank sends
  double seconds;  // in which at least one of these is under way
  double exposed;  // of those, in which the rank computes nothing
} ExposedMesh;

typedef struct {
  int count;
  ExposedMesh mesh[1 << PLAN_MAX_MESH];  // in the order of their bits
  double step;                           // from the first instruction to the end of the last
  double seconds, exposed;               // of all of them together
} Exposure;

// The mesh axes that a collective or a message goes over.
uint32_t instruction_mesh(const Plan *plan, const Instruction *instruction);

// A rank that waits for another in a collective or for a message communicates. Copies to and from the memory of the
// host neither communicate nor compute.
void exposure_find(Arena *arena, const Plan *plan, const PlanSpan *spans, int64_t count, Exposure *out);

// --- reckoned ---

typedef struct {
  int64_t count;
  PlanSpan *at;
} PlanSpans;

// A training step of one rank of each stage, by the queues and waits of its plan (waits.h) and by messages: of each
// stage its spans. A receive lasts until the message is there, a send until it has arrived.
PlanSpans *plan_simulate(Arena *arena, const PlanSet *set, const PlanRates *rates);

#endif
