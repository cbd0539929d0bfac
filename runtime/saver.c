// saver.c: the thread.
#include "runtime/saver.h"

#include <signal.h>
#include <string.h>

#include "runtime/clock.h"

static void *saver_main(void *argument) {
  Saver *saver = argument;
  saver->saved = checkpoint_save_from(saver->io, &saver->reader, &saver->tuning, saver->directory, &saver->facts,
                                      &saver->keep, &saver->error);
  saver->seconds = clock_seconds() - saver->begin;
  atomic_store(&saver->done, true);
  return NULL;
}

// Signals are for the thread that trains.
static bool thread_start(Saver *saver, Error *error) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const int why = pthread_create(&saver->thread, NULL, saver_main, saver);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return why == 0 || error_set(error, 3, "no thread to save with: %s", strerror(why));
}

bool saver_start(Saver *saver, Io *io, Session *session, Snapshot *snapshot, const char *directory,
                 const CheckpointFacts *facts, const CheckpointKeep *keep, Error *error) {
  const double begin = clock_seconds();
  buffer_free(&saver->tuning);
  *saver = (Saver){.facts = *facts,
                   .io = io,
                   .reader = snapshot_reader(snapshot),
                   .directory = directory,
                   .keep = *keep,
                   .begin = begin};
  session_record(session, &saver->tuning);
  saver->under_way = snapshot_take(snapshot, error) && thread_start(saver, error);
  if (!saver->under_way) {
    buffer_free(&saver->tuning);
  }
  return saver->under_way;
}

bool saver_settled(Saver *saver, bool wait) {
  if (saver->under_way && (wait || atomic_load(&saver->done))) {
    pthread_join(saver->thread, NULL);
    buffer_free(&saver->tuning);
    saver->under_way = false;
    return true;
  }
  return false;
}
