// schedule_chart.h: the picture of a pipeline: what each stage does when, and what it holds meanwhile.
#ifndef MDL_COMPILER_REPORT_SCHEDULE_CHART_H
#define MDL_COMPILER_REPORT_SCHEDULE_CHART_H

#include "base/buffer.h"
#include "compiler/pass/schedule.h"

typedef struct {
  const char *title, *subtitle;  // plain text
  const char *unit;              // of the times, in words; NULL: they are seconds
  const double *activation;  // bytes that one microbatch leaves on each virtual stage; NULL: microbatches are counted
} ScheduleChart;

// Draws one row for each stage over time, and below it the memory of saved values. The text is complete SVG 1.1 and
// needs no other file; it has colours of its own for light and dark pages.
void schedule_chart(const Schedule *schedule, const ScheduleTimes *times, const ScheduleChart *facts, Buffer *out);

#endif
