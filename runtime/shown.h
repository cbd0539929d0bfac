// shown.h: outputs of a program that are numbers: what the log, metrics, events and evaluations show of them.
#ifndef MDL_RUNTIME_SHOWN_H
#define MDL_RUNTIME_SHOWN_H

#include "runtime/session.h"

typedef struct {
  const char *name;  // of the output
  char *key;         // what it is called in metrics and events
  int index, of;  // the number is that of a vector of so many, which stand one after the other; of 0: it is one alone
  double value;   // NaN: not known
  PlanWeighing weighing;
  bool has[WEIGHINGS];                       // terms of an evaluation that are weighed in this way
  bool apart;                                // these terms are weighed in several ways: outputs of their own have them
  double sum[WEIGHINGS], weight[WEIGHINGS];  // over batches of an evaluation
} Shown;

typedef struct {
  int count;
  Shown *at;
} ShownList;

// The outputs of the text, `prefix` before their keys: "" in training, "val_" in an evaluation. A key that is one of
// those of every line of metrics, or begins as those of evaluations do, gets `output.` in front. Closed by the caller,
// also when this fails.
bool shown_open(ShownList *list, const Session *session, ProgramKind program, const char *prefix, Error *error);
// Numbers of other names, such as losses of sources. `names` outlive the list.
bool shown_open_names(ShownList *list, const char *const *names, int count, const char *prefix, Error *error);
// What the compiler says of layers of experts in training: `load.` and `dropped.` and the name of the layer.
bool shown_open_measures(ShownList *list, const Session *session, Error *error);
// Reads each from the device.
bool shown_read(ShownList *list, Session *session, ProgramKind program, Error *error);
// `name` as it is, or `name.3` of a number of a vector, in memory that lasts until the next call of the thread.
const char *shown_called(const Shown *shown, const char *name);
void shown_forget(ShownList *list);  // makes all values NaN
void shown_close(ShownList *list);   // also of one that was only zeroed

#endif
