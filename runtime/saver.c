// saver.c: the thread.
#include "runtime/saver.h"

#include <string.h>

#include "base/numeric.h"
#include "runtime/clock.h"
#include "runtime/thread.h"

static void *saver_main(void *argument) {
  Saver *saver = argument;
  numeric_enter();
  saver->saved = checkpoint_save_from(saver->io, &saver->reader, &saver->tuning, saver->directory, &saver->facts,
                                      &saver->keep, &saver->error);
  saver->seconds = clock_seconds() - saver->begin;
  atomic_store(&saver->done, true);
  return NULL;
}

// Without a thread it is written here.
static void saver_begin(Saver *saver) {
  saver->threaded = thread_start(&saver->thread, saver_main, saver) == 0;
  if (!saver->threaded) {
    saver_main(saver);
  }
}

bool saver_start(Saver *saver, Io *io, Session *session, Snapshot *snapshot, const char *directory,
                 const CheckpointFacts *facts, const CheckpointKeep *keep, Error *error) {
  const double begin = clock_seconds();
  buffer_free(&saver->tuning);
  *saver = (Saver){.facts = *facts,
                   .io = io,
                   .snapshot = snapshot,
                   .reader = snapshot_reader(snapshot),
                   .directory = directory,
                   .keep = *keep,
                   .begin = begin};
  session_record(session, &saver->tuning);
  saver->copying = snapshot_beside(snapshot);
  saver->under_way = snapshot_take(snapshot, error) && (saver->copying || snapshot_taken(snapshot, error));
  if (!saver->under_way) {
    buffer_free(&saver->tuning);
  } else if (!saver->copying) {
    saver_begin(saver);
  }
  return saver->under_way;
}

static void saver_copied(Saver *saver) {
  saver->copying = false;
  if (snapshot_taken(saver->snapshot, &saver->error)) {
    saver_begin(saver);
  } else {
    saver->seconds = clock_seconds() - saver->begin;
    atomic_store(&saver->done, true);
  }
}

bool saver_settled(Saver *saver, bool wait) {
  if (saver->under_way && saver->copying) {
    saver_copied(saver);
  }
  if (saver->under_way && (wait || atomic_load(&saver->done))) {
    if (saver->threaded) {
      pthread_join(saver->thread, NULL);
    }
    buffer_free(&saver->tuning);
    saver->under_way = false;
    return true;
  }
  return false;
}
