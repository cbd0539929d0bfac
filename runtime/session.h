// session.h: a plan opened on a device, and the host's side of running its programs.
//
// A Session owns its device. Functions that can fail return false and fill `error`.
#ifndef MDL_RUNTIME_SESSION_H
#define MDL_RUNTIME_SESSION_H

#include "runtime/device.h"

typedef struct {
  const Plan *plan;
  const Backend *backend;
  Device *device;
} Session;

bool session_open(Session *session, const Plan *plan, const Backend *backend, int threads, Error *error);
void session_close(Session *session);  // also of a session that was only zeroed

bool session_has(const Session *session, ProgramKind program);

// Runs a program; gives it the number of the step where it has the input "step".
bool session_run(Session *session, ProgramKind program, int64_t step, Error *error);

const PlanInput *session_input(const Plan *plan, ProgramKind program, const char *name);    // or NULL
const PlanOutput *session_output(const Plan *plan, ProgramKind program, const char *name);  // or NULL

// The one number of an output; NaN, and true, if the program has no such output.
bool session_scalar(Session *session, ProgramKind program, const char *name, double *value, Error *error);

// One element in memory as a number and back. Types of the floating formats of types.h, and integers.
double element_get(ElementType type, const void *at);
bool element_put(ElementType type, void *at, double value);  // false: the type is not one the host writes

#endif
