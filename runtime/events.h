// events.h: TensorBoard event files: scalars by step.
//
// A record is u64 length, u32 masked CRC-32C of the length, payload, u32 masked CRC-32C of the payload; a payload is an
// Event message of the protocol buffer that TensorBoard reads.
#ifndef MDL_RUNTIME_EVENTS_H
#define MDL_RUNTIME_EVENTS_H

#include "base/buffer.h"
#include "runtime/metrics.h"

#define EVENTS_BEGIN "events.out.tfevents."  // of the name of each file

typedef struct {
  int fd;         // -1: closed
  int64_t bytes;  // of the file
  bool torn;      // half of a record may stand behind them
  char path[4096];
} Events;

// TensorBoard calls a run by its directory, as it is below --logdir: runs are apart where they have directories of
// their own, and files of one directory are one run.

// A new file events.out.tfevents.<time>.<host>.<process> in `directory`. With `resumed_at` above 0, readers are told to
// forget what other files there say about that step and later ones.
bool events_open(Events *events, const char *directory, int64_t resumed_at, Error *error);
void events_close(Events *events);
// All numbers of a line of metrics that are finite, by the keys that they have in metrics.jsonl, at once.
bool events_line(Events *events, const MetricsLine *line, Error *error);

// The records by themselves, at a given time: what the file consists of.
void events_record_version(Buffer *out, double wall_time);
void events_record_restart(Buffer *out, double wall_time, int64_t step);
void events_record_scalar(Buffer *out, double wall_time, int64_t step, const char *tag, float value);

#endif
