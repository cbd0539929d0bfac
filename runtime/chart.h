// chart.h: loss.svg, the picture of a run.
#ifndef MDL_RUNTIME_CHART_H
#define MDL_RUNTIME_CHART_H

#include "base/buffer.h"
#include "runtime/metrics.h"

// Draws training loss (each step faintly, and smoothed) and validation loss over steps. The text is complete SVG 1.1
// and needs no other file; it has colours of its own for light and dark pages.
void chart_loss(Buffer *out, const char *title, const char *subtitle, const MetricsPoint *points, int64_t count);

bool chart_write(const char *path, const char *title, const char *subtitle, const Metrics *metrics, Error *error);

#endif
