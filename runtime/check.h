// check.h: a training step that is run twice from the same state and data, and compared bit by bit.
//
// Compared are, on each rank, what it gives to each collective and message, then its parameters and states, then its
// single numbers such as the loss. What a rank gives is known where ranks are threads; elsewhere a difference that a
// collective has spread is found on all ranks that have it.
#ifndef MDL_RUNTIME_CHECK_H
#define MDL_RUNTIME_CHECK_H

#include "runtime/feed.h"

typedef struct Check Check;

// False: the error says why bits of this plan cannot be compared.
bool check_open(const PlanSet *set, const Backend *backend, Check **check, Error *error);
void check_close(Check *check);  // also NULL

// Ahead of the step, with nothing under way: keeps what the ranks hold, in memory of the host.
bool check_keep(Check *check, Session *session, Error *error);
// When the step is done: takes it back, and runs it again. Fails with status 6 where bits differ; the error then names
// the rank and what differs.
bool check_repeat(Check *check, Session *session, Feed *feed, int64_t step, int64_t batch, Error *error);

#endif
