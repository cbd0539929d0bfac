// chart.h: loss.svg, the picture of a run.
#ifndef MDL_RUNTIME_CHART_H
#define MDL_RUNTIME_CHART_H

#include "base/buffer.h"
#include "runtime/metrics.h"

// Draws training loss (each step faintly, and smoothed) and validation loss over steps. The text is complete SVG 1.1
// and needs no other file; it has colours of its own for light and dark pages.
typedef struct {
  const char *title, *subtitle;
  LossUnit unit;
} ChartText;

void chart_loss(Buffer *out, const ChartText *text, const MetricsPoint *points, int64_t count);

bool chart_write(const char *path, const ChartText *text, const Metrics *metrics, Error *error);

#endif
