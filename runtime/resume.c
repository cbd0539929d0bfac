// resume.c: notes on a run that is gone on with.
#include "runtime/resume.h"

#include <string.h>
#include <xxhash.h>

uint64_t resume_hash(const Plan *plan) {
  return plan->resolved ? XXH3_64bits(plan->resolved, strlen(plan->resolved)) : 0;
}

// What the recipe of a resolved text chooses, and its length.
static const char *chosen_precision(const char *resolved, int *length) {
  static const char entry[] = "\n  precision ";
  const char *found = resolved ? strstr(resolved, entry) : NULL;
  *length = found ? (int)strcspn(found + strlen(entry), ";") : 0;
  return found ? found + strlen(entry) : "";
}

static void precision_note(Log *log, const ProgressFacts *now, const char *text) {
  int was, is;
  const char *before = chosen_precision(text, &was), *after = chosen_precision(now->plan->resolved, &is);
  if (was > 0 && is > 0 && (was != is || strncmp(before, after, (size_t)was) != 0)) {
    log_line(
        log,
        LOG_YELLOW
        "note      the precision was `%.*s`, from here on it is `%.*s`; `mdl train %s --resume` keeps what the run "
        "has" LOG_PLAIN,
        was, before, is, after, now->run);
  }
}

void resume_notes(Log *log, const ProgressFacts *now, const char *before, const CheckpointFacts *saved) {
  DataFacts data = data_facts(now->data);
  precision_note(log, now, before);
  if (saved->program_hash != resume_hash(now->plan)) {
    log_line(log,
             LOG_YELLOW "note      the text is not the one this run began with; it goes on with the new one" LOG_PLAIN);
  }
  if (saved->seed != now->plan->run.seed) {
    log_line(log,
             LOG_YELLOW "note      the seed is not the one this run began with: the order of data changes" LOG_PLAIN);
  }
  if (saved->data_bytes != data.bytes) {
    log_line(log,
             LOG_YELLOW
             "note      %s had %lld bytes when this run was saved, now %lld: the order of data changes" LOG_PLAIN,
             data.path, (long long)saved->data_bytes, (long long)data.bytes);
  }
}
