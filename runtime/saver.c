// saver.c: the thread.
#include "runtime/saver.h"

#include <string.h>

#include "runtime/clock.h"
#include "runtime/thread.h"

static void *saver_main(void *argument) {
  Saver *saver = argument;
  saver->saved = checkpoint_save_from(saver->io, &saver->reader, &saver->tuning, saver->directory, &saver->facts,
                                      &saver->keep, &saver->error);
  saver->seconds = clock_seconds() - saver->begin;
  atomic_store(&saver->done, true);
  return NULL;
}

static bool saver_begin(Saver *saver, Error *error) {
  const int why = thread_start(&saver->thread, saver_main, saver);
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
  saver->under_way = snapshot_take(snapshot, error) && saver_begin(saver, error);
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
