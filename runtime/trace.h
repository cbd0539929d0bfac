// trace.h: where the time of traced steps went: a Chrome trace, and a table of kernels.
//
// The trace is the JSON of chrome://tracing and Perfetto: one process for each rank, one thread for each queue of its
// plan (compiler/plan/waits.h), one event for each instruction with its line in the text; and as `otherData` what each
// rank says to others, by mesh axes. The table puts together instructions that differ in the number of a layer alone.
#ifndef MDL_RUNTIME_TRACE_H
#define MDL_RUNTIME_TRACE_H

#include "base/buffer.h"
#include "compiler/plan/exposure.h"
#include "runtime/session.h"

typedef struct {  // for backends: spans as they come; zeroed: none
  TraceSpan *at;
  int64_t count, capacity;
} TraceLog;

void trace_add(TraceLog *log, TraceSpan span);  // without memory for it the span is left out
void trace_free(TraceLog *log);

// What an instruction is called in tables: numbers of layers are '*', layers.3.q becomes layers.*.q.
enum { TRACE_NAME_MAX = 96 };
void trace_name(const Instruction *instruction, char to[TRACE_NAME_MAX]);

// All spans of a session, as one JSON text.
void trace_json(const Session *session, Buffer *out);

// Seconds of `steps` traced steps by kernel, longest first: of the first rank. Rows beyond `rows` are one line; 0: all.
// What runs in another lane than 0 is listed, and is no part of the sum. Below it, by mesh axes: how long that rank
// communicates in a step, how much of that nothing hides (exposure.h), and what it sends.
void trace_table(const Session *session, int64_t steps, int rows, Buffer *out);

// What a rank says to others in these spans, of a plan of its own. False: no memory.
bool trace_exposure(const Plan *plan, const TraceSpan *spans, int64_t count, Exposure *out);

#endif
