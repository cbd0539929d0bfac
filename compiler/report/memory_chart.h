// memory_chart.h: the picture of one rank's memory in the course of a training step.
#ifndef MDL_COMPILER_REPORT_MEMORY_CHART_H
#define MDL_COMPILER_REPORT_MEMORY_CHART_H

#include "base/buffer.h"

typedef struct {  // of a segment: one of those that make a step, in order
  const char *name;
  int count;            // of instructions
  const double *alive;  // by instruction: bytes that live then, and only in this call
} MemoryCall;

typedef struct {
  const char *title, *subtitle;  // plain text
  double lasting;                // bytes that live from call to call
  int call_count;
  const MemoryCall *calls;
} MemoryChart;

// Draws the bytes over the instructions of the step. The text is complete SVG 1.1 and needs no other file; it has
// colours of its own for light and dark pages.
void memory_chart(const MemoryChart *chart, Buffer *out);

#endif
