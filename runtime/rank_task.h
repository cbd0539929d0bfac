// rank_task.h: what the process of a rank is handed, as bytes: its plan and all else that it needs to run it.
//
// One message over a stream socket, the first that such a process receives. It refers to nothing of the process that
// sends it: no memory, no open files, no file of the model. The bytes are sealed (compiler/plan/sealed.h) with the
// magic "MDLR\r\n\x1a\n" and the version RANK_TASK_VERSION.
#ifndef MDL_RUNTIME_RANK_TASK_H
#define MDL_RUNTIME_RANK_TASK_H

#include "runtime/ranks.h"

enum { RANK_TASK_VERSION = 1 };

typedef struct {
  int64_t rank, ranks;
  int threads;          // of this rank
  const char *backend;  // by its name
  const char *record;   // of devices (device.h), or NULL
  RanksFault fault;
  int variable_count;  // of the environment, those that begin with MDL_: NAME=VALUE
  const char **variables;
  const Plan *plan;
} RankTask;

// What the environment of this process says to mdl, for a task that is made in the arena.
void rank_task_take_environment(Arena *arena, RankTask *task);
// Makes the environment of this process say that and nothing else to mdl.
bool rank_task_set_environment(const RankTask *task);

// The bytes of a task to a buffer that is empty before; `plan`: those of its plan (artefact_write_stage), which tasks
// of one stage share. False: no memory.
bool rank_task_write(const RankTask *task, const Buffer *plan, Buffer *out);

// Receives one and reads it into the arena: every index and count inside is in range, as in a .mdlx file. `what` names
// it in errors.
bool rank_task_receive(int socket, Arena *arena, const char *what, RankTask *task, Error *error);

#endif
