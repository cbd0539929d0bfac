// trained.h: which data a run was trained on so far, through all its resumptions, and what its evaluations read.
#ifndef MDL_RUNTIME_TRAINED_H
#define MDL_RUNTIME_TRAINED_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "compiler/plan/plan.h"
#include "runtime/data/data.h"
#include "runtime/data/fingerprint.h"

enum { TRAINED_MOST = 64 };

typedef struct {
  uint64_t data;       // DataPrint.data
  double share;        // of its tokens, from its beginning: what was not held out
  uint64_t tokens;     // DataPrint.tokens; 0: not known, as of programs before
  uint64_t tokenizer;  // where that is not known, DataPrint.tokenizer; 0: neither is it
} TrainedOn;
enum { TRAINED_OTHERWISE = 2 };  // in the place of `tokens`, which are odd: not known, but not those of now

typedef struct {  // zero-initialise: on nothing
  int count;
  TrainedOn at[TRAINED_MOST];
} Trained;

// Of data that is in there as the same tokens the larger share counts. Where there is no room, the first is forgotten.
void trained_add(Trained *trained, const TrainedOn *on);
// The data was other tokens than now, wherever nobody knows which.
void trained_otherwise(Trained *trained, uint64_t data);
double trained_share(const Trained *trained, uint64_t data);  // 0: not on it

// What a manifest says of it; NULL: no memory. Reading is false where that is none.
json_t *trained_json(const Trained *trained);
bool trained_read(const json_t *value, Trained *trained);

// How much of data a run is trained on that holds the last `held_out` of it back, or validates with other sources.
double trained_part(const DataPrint *print, double held_out);

// Which of what `data` validates with the run was trained on: are[0] alone, where that is a part of the data itself
// (`part` of which, from its beginning, is trained on now), else by the numbers of data_set. A part of the same text as
// other tokens ends elsewhere in it, and is taken for one that was trained on.
bool trained_held(const Trained *trained, const Data *data, const DataPrint *print, double part,
                  bool are[DATA_SETS_MOST], Error *error);

// Of which windows validation losses are: `limit` batches of `rows` of each source that `data` validates with. Never 0.
bool trained_windows(const Data *data, const DataPrint *print, double held_out, int64_t limit, int64_t rows,
                     int64_t sequence, uint64_t *windows, Error *error);
// And of which loss of these, where it is not in nats per token: its unit, the model with its constants, and the batch
// that a sum grows with. Within one run, losses that have the same number can be compared.
bool trained_losses(const PlanSet *set, uint64_t *windows, Error *error);

#endif
