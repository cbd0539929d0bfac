// states.h: the tensors that outlive a step, whole, whatever parts of them the ranks hold.
//
// Checkpoints know these alone, so one that was saved under one layout is loaded under any other. Copies of parameters
// (STATE_COPY) are not among them: after state_scatter they are out of date until session_refresh. Parameters that
// ranks hold in 8 bits (scaled.h) have 16 here; their scales are read and written with them.
#ifndef MDL_RUNTIME_STATES_H
#define MDL_RUNTIME_STATES_H

#include "runtime/session.h"

typedef struct {  // a state in the plan of one stage
  const Plan *plan;
  const PlanState *state;
  const PlanState *scales;  // of a parameter in 8 bits; else NULL
} StatePart;

typedef struct {
  const PlanState *state;  // of the stage whose copy is saved, in the format of the whole tensor
  int first, count;        // of States.part: the stages that have it, that one first
} LogicalState;

typedef struct {
  int count, part_count;
  LogicalState *at;  // by name, numbers in names by their value: layers.2 comes before layers.10
  StatePart *part;
  PlanState *wide;  // of parameters in 8 bits: as they are whole
} States;

bool states_open(const PlanSet *set, States *states, Error *error);
void states_close(States *states);
const LogicalState *states_find(const States *states, const char *name);  // or NULL

int64_t state_bytes(const PlanState *state);  // of the whole tensor

// Between the parts on the ranks and the whole tensor, dense in written order. Gathering reads each element from one of
// the ranks that hold it; scattering writes it on all of them, and zeros where the layout pads.
bool state_gather(Session *session, const States *states, const LogicalState *state, void *dense, Error *error);
// Between reading whole tensors and state_scatter: what ranks hold in 8 bits is rounded once, from `numbers`, and not
// from `dense`, which is those in the format of the state.
void state_round_once(const States *states, const LogicalState *state, ElementType type, const void *numbers,
                      void *dense);
// What state_gather gives after state_scatter of `dense`, in its place.
bool state_as_held(const States *states, const LogicalState *state, void *dense, Error *error);
// Gathers from wherever the persistent memory of ranks is read.
typedef struct {
  const PlanSet *set;
  // One of the two: copies bytes, for one thread, which is the one that saves; or says where they lie, to any threads.
  bool (*read)(void *context, int64_t rank, int64_t offset, void *data, int64_t bytes, Error *error);
  const char *(*at)(void *context, int64_t rank, int64_t offset, int64_t bytes, Error *error);
  void *context;
} StateReader;
StateReader state_reader(Session *session);  // the devices themselves
bool state_gather_with(const StateReader *reader, const States *states, const LogicalState *state, void *dense,
                       Error *error);
// The same of `count` of its rows alone, from `first` on; whole ones of a reader without `at`, or of what does not
// divide.
int64_t state_rows(const PlanState *state);  // positions of the first axis; 1: a single number
bool state_divides(const States *states, const LogicalState *state);
bool state_gather_rows(const StateReader *reader, const States *states, const LogicalState *state, int64_t first,
                       int64_t count, void *dense, Error *error);
// What gathering reads of a rank: up to so many pieces of memory. How many they are.
enum { STATE_SPANS = 2 };
typedef struct {
  int64_t offset, bytes;
} StateSpan;
int state_spans(const PlanSet *set, const States *states, const LogicalState *state, int64_t rank,
                StateSpan span[STATE_SPANS]);
bool state_scatter(Session *session, const States *states, const LogicalState *state, const void *dense, Error *error);
// *odd: a rank that holds something else than `dense` says, to the bit; -1: none does.
bool state_differs(Session *session, const States *states, const LogicalState *state, const void *dense, int64_t *odd,
                   Error *error);

#endif
