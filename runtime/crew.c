// crew.c: a thread for each rank, waiting for the next thing to do.
#include "runtime/crew.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/numeric.h"

static const double GRACE_SECONDS = 10;  // after a failure, until a rank that does not come back is given up

typedef enum { JOB_OPEN, JOB_RUN, JOB_STOP } JobKind;

typedef struct {
  Crew *crew;
  int64_t rank;
  pthread_t thread;
  Device *device;
  Error error;
  int64_t done;  // jobs
  bool failed;   // the newest
  bool gone;     // its thread has ended
} Member;

struct Crew {
  const PlanSet *set;
  const Backend *backend;
  Ranks *ranks;
  int64_t count, started;
  int threads;  // of each rank
  Member *member;
  pthread_mutex_t mutex;
  pthread_cond_t wake, ended;
  JobKind job;
  ProgramKind program;
  int64_t jobs;
  bool stuck;  // a rank was given up
};

static bool member_work(Member *member, JobKind job, ProgramKind program) {
  Crew *crew = member->crew;
  if (job == JOB_RUN) {
    if (!crew->backend->run(member->device, program, &member->error)) {
      ranks_fail(crew->ranks, member->rank, &member->error);
      return false;
    }
    return true;
  }
  const DeviceOptions options = {
      .threads = crew->threads, .ranks = crew->ranks, .rank = member->rank, .order = ranks_order(crew->ranks)};
  return crew->backend->open(plan_of_rank(crew->set, member->rank), &options, &member->device, &member->error);
}

// The thread ends, as it should or not.
static void member_leave(void *context) {
  Member *member = context;
  Crew *crew = member->crew;
  ranks_lost(crew->ranks, member->rank, "its thread has ended");
  pthread_mutex_lock(&crew->mutex);
  member->gone = true;
  pthread_cond_broadcast(&crew->ended);
  pthread_mutex_unlock(&crew->mutex);
}

static void *member_main(void *argument) {
  Member *member = argument;
  Crew *crew = member->crew;
  numeric_enter();
  pthread_cleanup_push(member_leave, member);
  for (;;) {
    pthread_mutex_lock(&crew->mutex);
    while (crew->jobs == member->done) {
      pthread_cond_wait(&crew->wake, &crew->mutex);
    }
    const JobKind job = crew->job;
    const ProgramKind program = crew->program;
    pthread_mutex_unlock(&crew->mutex);
    if (job == JOB_STOP) {
      break;
    }
    const bool good = member_work(member, job, program);
    pthread_mutex_lock(&crew->mutex);
    member->failed = !good;
    member->done++;
    pthread_cond_broadcast(&crew->ended);
    pthread_mutex_unlock(&crew->mutex);
  }
  pthread_cleanup_pop(1);
  return NULL;
}

static int64_t members_busy(const Crew *crew) {
  int64_t busy = 0;
  for (int64_t r = 0; r < crew->started; r++) {
    busy += !crew->member[r].gone && crew->member[r].done < crew->jobs;
  }
  return busy;
}

static atomic_bool gave_up;

bool crew_gave_up(void) {
  return atomic_load(&gave_up);
}

// The thread that does not come back may still use all of it: the plans too, whatever becomes of them.
static void crew_give_up(Crew *crew) {
  crew->stuck = true;
  atomic_store(&gave_up, true);
  arena_keep(crew->set);
  for (int i = 0; i < crew->set->count; i++) {
    arena_keep(crew->set->plans[i]);
  }
}

// Until all members are done with the newest job; with the mutex held. False: one of them was given up.
static bool crew_wait(Crew *crew) {
  double waited = 0;
  Error cause;
  while (members_busy(crew) > 0) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += 1;
    if (pthread_cond_timedwait(&crew->ended, &crew->mutex, &until) == ETIMEDOUT) {
      waited = ranks_failed(crew->ranks, &cause) ? waited + 1 : 0;
    }
    if (waited > GRACE_SECONDS) {
      crew_give_up(crew);
      return false;
    }
  }
  return true;
}

static bool crew_do(Crew *crew, JobKind job, ProgramKind program, Error *error) {
  pthread_mutex_lock(&crew->mutex);
  crew->job = job;
  crew->program = program;
  crew->jobs++;
  pthread_cond_broadcast(&crew->wake);
  bool good = job != JOB_STOP ? crew_wait(crew) : true;
  const Error *first = NULL;
  for (int64_t r = 0; good && r < crew->count && !first; r++) {
    first = crew->member[r].failed ? &crew->member[r].error : NULL;
  }
  if (first) {
    *error = *first;
    good = false;
  }
  pthread_mutex_unlock(&crew->mutex);
  return job == JOB_STOP || (!ranks_failed(crew->ranks, error) && good);
}

bool crew_run(Crew *crew, ProgramKind program, Error *error) {
  return !ranks_failed(crew->ranks, error) && crew_do(crew, JOB_RUN, program, error);
}

Ranks *crew_ranks(const Crew *crew) {
  return crew->ranks;
}

Device *crew_device(const Crew *crew, int64_t rank) {
  return crew->member[rank].device;
}

static bool crew_start(Crew *crew, int threads, Error *error) {
  pthread_condattr_t attributes;
  const long cores = sysconf(_SC_NPROCESSORS_ONLN);
  const int64_t all = threads > 0 ? threads : cores > 0 ? cores : 1;
  crew->threads = all > crew->count ? (int)(all / crew->count) : 1;
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_mutex_init(&crew->mutex, NULL);
  pthread_cond_init(&crew->wake, NULL);
  pthread_cond_init(&crew->ended, &attributes);
  pthread_condattr_destroy(&attributes);
  for (int64_t r = 0; r < crew->count; r++) {
    Member *member = &crew->member[r];
    *member = (Member){.crew = crew, .rank = r};
    if (pthread_create(&member->thread, NULL, member_main, member) != 0) {
      return error_set(error, 3, "could not start a thread for each of %lld ranks", (long long)crew->count);
    }
    crew->started++;
  }
  return crew_do(crew, JOB_OPEN, PROGRAM_INITIALISE, error);
}

bool crew_create(const PlanSet *set, const Backend *backend, int threads, const RanksOptions *options, Crew **crew,
                 Error *error) {
  Crew *made = calloc(1, sizeof *made);
  *crew = NULL;
  if (!made) {
    return error_set(error, 3, "no memory");
  }
  made->set = set;
  made->backend = backend;
  if (!ranks_create(set, options, &made->ranks, error)) {
    free(made);
    return false;
  }
  made->count = ranks_count(made->ranks);
  made->member = calloc((size_t)made->count, sizeof *made->member);
  if (!made->member) {
    ranks_destroy(made->ranks);
    free(made);
    return error_set(error, 3, "no memory for %lld ranks", (long long)plan_ranks(set->plans[0]));
  }
  if (!crew_start(made, threads, error)) {
    crew_destroy(made);
    return false;
  }
  *crew = made;
  return true;
}

void crew_destroy(Crew *crew) {
  Error ignored;
  if (crew->stuck) {
    return;
  }
  crew_do(crew, JOB_STOP, PROGRAM_INITIALISE, &ignored);
  for (int64_t r = 0; r < crew->started; r++) {
    pthread_join(crew->member[r].thread, NULL);
  }
  for (int64_t r = 0; r < crew->count; r++) {
    if (crew->member[r].device) {
      crew->backend->close(crew->member[r].device);
    }
  }
  pthread_cond_destroy(&crew->wake);
  pthread_cond_destroy(&crew->ended);
  pthread_mutex_destroy(&crew->mutex);
  ranks_destroy(crew->ranks);
  free(crew->member);
  free(crew);
}
