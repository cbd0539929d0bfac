// metrics.h: metrics.jsonl, one line of JSON for each logged step, and the same numbers as points to draw.
#ifndef MDL_RUNTIME_METRICS_H
#define MDL_RUNTIME_METRICS_H

#include "runtime/device.h"

enum { METRICS_SHOWN = 8, METRICS_SETS = 8 };  // outputs of the text, validation sets, in one line at most

typedef struct {  // an output of the text that is one number
  const char *name;
  double value;
} MetricsShown;

typedef struct {  // a NaN is written as null, and left out for val_loss
  int64_t step;
  double loss, grad_norm, lr;
  int64_t tokens;
  double tokens_per_s, step_ms, tflops, mfu;
  int64_t memory_bytes, skipped;
  double val_loss;
  int val_count;  // of validation sets that have names: `val_loss.` and the name
  MetricsShown val_losses[METRICS_SETS];
  const char *precision;  // of this step, where the run changes it; else NULL
  int shown_count;
  MetricsShown shown[METRICS_SHOWN];
  int load_count;  // of layers of experts: `load.` and `dropped.` and the name of the layer
  MetricsShown *loads;
} MetricsLine;

typedef struct {
  double step, loss, val_loss;  // NaN: not there
} MetricsPoint;

typedef struct {
  int fd;
  char *path;
  int64_t bytes;  // of the file
  MetricsPoint *points;
  int64_t count, capacity;
} Metrics;

// Opens or creates the file. Lines after step `last`, and a torn last line, are dropped, so that a resumed run writes
// none twice; the points of the others are read.
bool metrics_open(Metrics *metrics, const char *path, int64_t last, Error *error);
void metrics_close(Metrics *metrics);  // also of one that was only zeroed
bool metrics_write(Metrics *metrics, const MetricsLine *line, Error *error);
bool metrics_sync(Metrics *metrics, Error *error);

// Reads the points of a file without changing it; *points is on the heap.
bool metrics_read(const char *path, MetricsPoint **points, int64_t *count, Error *error);

// The shortest decimal that reads back as the same number, as a float if it is one ("null" for NaN and infinities).
const char *metrics_number(char text[32], double number);

#endif
