// crew.h: the threads of the ranks of one process. Each opens the device of its rank and runs programs on it.
#ifndef MDL_RUNTIME_CREW_H
#define MDL_RUNTIME_CREW_H

#include "runtime/ranks.h"

typedef struct Crew Crew;

// `threads`: of all ranks together, 0 for all cores; each rank has at least its own. The set must outlive the crew: it
// and its plans lie in arenas, or are never freed.
bool crew_create(const PlanSet *set, const Backend *backend, int threads, const RanksOptions *options, Crew **crew,
                 Error *error);
void crew_destroy(Crew *crew);
Ranks *crew_ranks(const Crew *crew);
Device *crew_device(const Crew *crew, int64_t rank);

// Runs a program on all ranks and returns when all have ended it, or given up after one failed. A rank that does not
// come back even then is left alone, and its memory with it: that of the crew, and the arenas that the plans lie in.
bool crew_run(Crew *crew, ProgramKind program, Error *error);
bool crew_gave_up(void);  // was a rank left alone, of any crew? Then the process may have to end without cleaning up

#endif
