// explain_traffic.h: everything that ranks say to each other in a training step.
#ifndef MDL_COMPILER_REPORT_EXPLAIN_TRAFFIC_H
#define MDL_COMPILER_REPORT_EXPLAIN_TRAFFIC_H

#include "compiler/report/explain.h"

typedef struct {
  TrafficPhase phase;
  int stage, calls;                // in one step
  const Instruction *instruction;  // a collective or a SEND
  const char *path;                // see ViewCollective
  uint32_t mesh;                   // the mesh axes of the group
  int64_t ranks;                   // in the group
  bool pack;
  // Bytes of one call on one rank: the value, whole among the ranks of the group or, for ALL_TO_ALL and messages, of
  // one rank; and what the rank sends if the group is a ring.
  double payload, wire;
} Traffic;

typedef ARRAY(Traffic) TrafficList;

TrafficList traffic_collect(Arena *arena, const PlanSet *set, const CompileView *view);

const char *traffic_phase_name(TrafficPhase phase);
const char *traffic_kind(const Traffic *traffic);  // all_gather, ..., send

#endif
