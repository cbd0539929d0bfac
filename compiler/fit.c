// fit.c: tries layouts that need less memory, on the plan's own text.
#include "compiler/fit.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buffer.h"
#include "compiler/compile.h"

typedef struct {
  bool recompute, offload;
  int64_t microbatches;  // 0: as they are
} Change;

static const char *find(const char *from, const char *end, const char *word) {
  const char *at = strstr(from, word);
  return at && at < end ? at : NULL;
}

// The body of the plan's layout in its text: what is between its braces. False: it is not there.
static bool layout_body(Arena *arena, const Plan *plan, const char **begin, const char **end) {
  const char *head = arena_format(arena, "\nlayout %s {", plan->run.layout ? plan->run.layout : "");
  const char *at = plan->resolved ? strstr(plan->resolved, head) : NULL;
  *begin = at ? at + strlen(head) : NULL;
  *end = at ? strchr(*begin, '}') : NULL;
  return *begin && *end;
}

// Without the number of microbatches that it says, which the changed text says anew.
static void body_copy(Buffer *text, const char *begin, const char *end, bool keep) {
  static const char word[] = "microbatches = ";
  const char *said = keep ? NULL : find(begin, end, word);
  if (!said) {
    buffer_bytes(text, begin, (size_t)(end - begin));
    return;
  }
  const char *after = said + sizeof word - 1;
  after += strspn(after, "0123456789");
  while (said > begin && strchr(" \n", said[-1])) {
    said--;
  }
  if (said > begin && said[-1] == ',') {  // schedule one_f_one_b, microbatches = 8;
    said--;
  } else {  // microbatches = 8; or microbatches = 8, ...
    after += *after == ';' || *after == ',';
  }
  buffer_bytes(text, begin, (size_t)(said - begin));
  buffer_bytes(text, after, (size_t)(end - after));
}

static const char *change_text(Arena *arena, const Change *change) {
  const char *less = change->offload     ? "recompute layers; offload layers;"
                     : change->recompute ? "recompute layers;"
                                         : "";
  return change->microbatches > 0
             ? arena_format(arena, "%s%smicrobatches = %" PRId64 ";", less, *less ? " " : "", change->microbatches)
             : less;
}

// Bytes of a rank's arenas with the change; -1: it does not compile.
static int64_t change_bytes(const Plan *plan, const FitRoom *room, const char *path) {
  Arena *arena = arena_create();
  Diag *diag = arena ? diag_create(arena) : NULL;
  const CompileOptions options = {.file = path};
  PlanSet *set = NULL;
  int64_t bytes = -1;
  if (diag && compile_plans(arena, diag, &options, &set) && plan_ranks(set->plans[0]) == plan_ranks(plan)) {
    const Plan *made = plan_of_rank(set, room->rank);
    bytes = room->staged * plan_inputs_end(made);
    for (int i = 0; i < ARENA_CLASS_COUNT; i++) {
      bytes += i == ARENA_OFFLOAD ? 0 : made->arena_bytes[i];
    }
  }
  arena_destroy(arena);
  return bytes;
}

static int64_t change_try(Arena *arena, const Plan *plan, const FitRoom *room, const Change *change) {
  const char *begin, *end, *folder = getenv("TMPDIR");
  Buffer text = {0};
  char path[1024];
  if (!layout_body(arena, plan, &begin, &end) ||
      (size_t)snprintf(path, sizeof path, "%s/mdl-fit-XXXXXX", folder && *folder ? folder : "/tmp") >= sizeof path) {
    return -1;
  }
  const int file = mkstemp(path);
  if (file < 0) {
    return -1;
  }
  buffer_bytes(&text, plan->resolved, (size_t)(begin - plan->resolved));
  buffer_format(&text, " %s ", change_text(arena, change));
  body_copy(&text, begin, end, change->microbatches == 0);
  buffer_text(&text, end);
  const bool written = !text.failed && write(file, text.text, text.length) == (ssize_t)text.length;
  const int64_t bytes = close(file) == 0 && written ? change_bytes(plan, room, path) : -1;
  unlink(path);
  buffer_free(&text);
  return bytes;
}

const char *fit_find(Arena *arena, const Plan *plan, const FitRoom *room, int64_t *bytes) {
  const int64_t now = plan->programs[PROGRAM_TRAIN].slots > 0 ? plan->programs[PROGRAM_TRAIN].slots : 1;
  for (int less = 0; less <= 2; less++) {
    for (int64_t count = less ? now : 2 * now; count <= plan->run.batch && count <= 64 * now; count *= 2) {
      const Change change = {less >= 1, less == 2, count == now ? 0 : count};
      if (count != now && plan->run.batch % count != 0) {
        continue;
      }
      *bytes = change_try(arena, plan, room, &change);
      if (*bytes >= 0 && *bytes <= room->most) {
        return arena_format(arena, "`%s`", change_text(arena, &change));
      }
    }
  }
  return NULL;
}
