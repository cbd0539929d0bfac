// feed.h: writes windows of text into the inputs of a program, by their names.
//
// A Feed knows the inputs that data can feed (fed.def), which stages want them and how each is laid
// out in the slots of the program. Row k of a batch is row k % rows_per_slot of slot k / rows_per_slot; each rank gets
// its part of the rows and positions of every slot, so a batch is the same under every layout.
#ifndef MDL_RUNTIME_FEED_H
#define MDL_RUNTIME_FEED_H

#include "runtime/data/data.h"
#include "runtime/session.h"

typedef struct Feed Feed;

// Checks that every input of the program can be fed. On failure `error` names the input and what there is.
bool feed_create(const PlanSet *set, ProgramKind program, const Data *data, Feed **feed, Error *error);
void feed_destroy(Feed *feed);

int64_t feed_rows(const Feed *feed);      // of all slots together
int64_t feed_sequence(const Feed *feed);  // positions of a row
bool feed_masks(const Feed *feed);        // the program has a mask, so rows can be switched off
bool feed_answers(const Feed *feed);      // and the loss is of the targets that it counts
int64_t feed_counted(const Feed *feed);   // targets of the newest batch that the mask counts
int64_t feed_bytes(const Feed *feed);     // of text, of these targets or of all, each window once; below 0: not known

// Writes training samples (batch - 1) * rows + k for each row k.
bool feed_train(Feed *feed, Session *session, int64_t batch, Error *error);
// Writes `count` validation windows from `first` on, again and again until all rows have one. Where the program has a
// mask, rows behind the first `count` are masked, or with `again` are as the first ones.
bool feed_validation(Feed *feed, Session *session, int64_t first, int64_t count, bool again, Error *error);

// The sizes of the "tokens" input: rows of one slot and positions; false if the program has no such input.
bool feed_shape(const PlanSet *set, ProgramKind program, int64_t *rows, int64_t *sequence);
// Which axes of this input are rows (-1: it has none) and positions.
bool feed_axes(const PlanInput *tokens, int *batch, int *sequence);
bool feed_misses(Error *error);  // the error that it has none

#endif
