// metrics.h: metrics.jsonl, one line of JSON for each logged step, and the same numbers as points to draw.
#ifndef MDL_RUNTIME_METRICS_H
#define MDL_RUNTIME_METRICS_H

#include <stdio.h>

#include "runtime/io.h"
#include "runtime/shown.h"

typedef struct {  // what is not finite is written as null, a val_loss of NaN is left out, and `validated`; vectors are
                  // arrays
  int64_t step;
  double loss, grad_norm, lr;
  int64_t tokens;
  double tokens_per_s, step_ms, tflops, mfu;
  int64_t memory_bytes, skipped;
  double save_ms, save_wait_ms;  // that saves since the line before took, and that training waited for them; 0: none
  double val_loss;               // NaN: nothing was validated; infinite, too, where that gave no number
  uint64_t validated_with;       // the number of the windows that it is of (trained_windows); 0: not known
  bool made_up;           // an evaluation behind the step alone: of what is NaN nothing is known, and it is left out
  const char *precision;  // of this step, where the run changes it; else NULL
  ShownList shown, measures;  // outputs of the text in this step; what the compiler adds to them
  ShownList sets;             // validation losses of sources that have names: `val_loss.` and the name
  ShownList validated;        // outputs of the text over the windows that val_loss is of
} MetricsLine;

// A number of a line, as both metrics.jsonl and the events have it.
typedef struct {
  const char *key;
  double value;
  int places;  // that are written; -1: as many as tell it from others; 0: a whole number
} MetricsNumber;

enum { METRICS_NUMBERS = 14 };
extern const char *const metrics_keys[];  // of a line, whatever the text says; the last is NULL

// Those of all keys but `precision`, in their order, NaN where no save ended; returns how many.
int metrics_numbers(const MetricsLine *line, MetricsNumber numbers[METRICS_NUMBERS]);

typedef struct {
  double step, loss, val_loss;  // NaN: not there; an infinite val_loss: no number
  bool unknown;                 // the line does not say the loss; else one of NaN was no number
  bool saved;                   // a save ended between the line before and this one
  uint64_t validated_with;      // as in MetricsLine
} MetricsPoint;

typedef struct {
  int fd;
  char *path;
  int64_t bytes;      // of the file
  bool torn;          // half of a line may stand behind them
  size_t bad_line;    // the first that is no line of metrics; 0: all are
  int64_t bad_lines;  // how many
  int damaged;        // the number in the name of what is kept; 0: it has none
  MetricsPoint *points;
  int64_t count, capacity;
  FILE *echo;  // where each line is printed as well; NULL: nowhere
} Metrics;

// Opens or creates the file. Lines after step `last`, a torn last line, and lines that are none of metrics are dropped,
// so that a resumed run writes none twice; the points of the others are read. Where there were bad lines, the whole
// file as it was is kept with the ending .damaged, or .damaged-N, whose name was free: see metrics_damaged.
bool metrics_open(Metrics *metrics, const char *path, int64_t last, Error *error);
// Of what is kept. The N-th; 0: the first.
#define METRICS_DAMAGED ".damaged"
bool metrics_damaged(const char *path, int n, char damaged[IO_PATH_MAX], Error *error);
void metrics_close(Metrics *metrics);  // also of one that was only zeroed
bool metrics_write(Metrics *metrics, const MetricsLine *line, Error *error);
bool metrics_sync(Metrics *metrics, Error *error);

// Reads the points of a file, but for bad lines, without changing it; *points is on the heap.
bool metrics_read(const char *path, MetricsPoint **points, int64_t *count, Error *error);
bool metrics_read_counting(const char *path, MetricsPoint **points, int64_t *count, int64_t *bad, Error *error);

#endif
