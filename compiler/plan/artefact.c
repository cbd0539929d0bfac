// artefact.c: plans as sealed bytes, in a file and in memory.
#include "compiler/plan/artefact.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "compiler/plan/format.h"
#include "compiler/plan/sealed.h"
#include "compiler/plan/verify.h"

static const Seal seal = {.magic = {'M', 'D', 'L', 'X', '\r', '\n', '\x1a', '\n'},
                          .version = PLAN_VERSION,
                          .noun = "plan",
                          .begin = "a .mdlx file",
                          .fix = "compile it again"};

static bool set_write(Arena *arena, const PlanSet *set, Buffer *out) {
  PlanSet copy = *set;
  seal_begin(out);
  code_plan_set(&(Codec){.arena = arena, .out = out}, &copy);
  return seal_end(&seal, out);
}

bool artefact_write(Arena *arena, const PlanSet *set, const char *path, const char **why) {
  Buffer file = {0};
  FileError error = {.text = "no memory"};
  const bool done = set_write(arena, set, &file) && file_write_atomic(path, file.text, file.length, &error);
  if (file.failed) {
    *why = arena_format(arena, "no memory to write %s", path);
  } else if (!done) {
    *why = arena_format(arena, "%s", error.text);
  }
  buffer_free(&file);
  return done;
}

bool artefact_write_bytes(Arena *arena, const PlanSet *set, Buffer *out) {
  return set_write(arena, set, out);
}

bool artefact_write_stage(Arena *arena, const Plan *plan, Buffer *out) {
  Plan *alone = (Plan *)(uintptr_t)plan;  // nothing that writes changes a plan
  return set_write(arena, &(PlanSet){1, &alone}, out);
}

// `alone`: the plan of one stage, whatever there is beside it.
static PlanSet *set_read(Arena *arena, const void *bytes, size_t length, const char *what, bool alone,
                         const char **why) {
  Codec codec;
  if (!seal_open(&seal, arena, what, bytes, length, &codec, why)) {
    return NULL;
  }
  PlanSet *set = ARENA_NEW(arena, PlanSet);
  code_plan_set(&codec, set);
  if (codec.bad || codec.left != 0 || (alone && set->count != 1)) {
    *why = arena_format(arena, "%s is damaged: its bytes do not form a plan", what);
    return NULL;
  }
  const char *broken = alone ? plan_verify(arena, set->plans[0]) : plan_set_verify(arena, set);
  if (broken) {
    *why = arena_format(arena, "%s is damaged: %s", what, broken);
    return NULL;
  }
  return set;
}

// With running out of memory as an error like any other.
static PlanSet *set_read_or_escape(Arena *arena, const void *bytes, size_t length, const char *what, bool alone,
                                   const char **why) {
  jmp_buf escape;
  arena_set_escape(arena, &escape);
  PlanSet *set = NULL;
  if (setjmp(escape) != 0) {
    arena_set_escape(arena, NULL);
    *why = "no memory to read the plan";
    return NULL;
  }
  set = set_read(arena, bytes, length, what, alone, why);
  arena_set_escape(arena, NULL);
  return set;
}

PlanSet *artefact_read_bytes(Arena *arena, const void *bytes, size_t length, const char *what, const char **why) {
  return set_read_or_escape(arena, bytes, length, what, false, why);
}

PlanSet *artefact_read(Arena *arena, const char *path, const char **why) {
  size_t length = 0;
  FileError error;
  char *bytes = file_read(path, &length, &error);
  if (!bytes) {
    *why = arena_format(arena, "%s%s", error.code == ENOMEM ? "no memory: " : "", error.text);
    return NULL;
  }
  PlanSet *set = artefact_read_bytes(arena, bytes, length, path, why);
  free(bytes);
  return set;
}

const Plan *artefact_read_stage(Arena *arena, const void *bytes, size_t length, const char *what, const char **why) {
  const PlanSet *set = set_read_or_escape(arena, bytes, length, what, true, why);
  return set ? set->plans[0] : NULL;
}

bool artefact_leave_code(PlanSet *set) {
  const bool had = set->plans[0]->target_count > 0;
  for (int s = 0; s < set->count; s++) {
    set->plans[s]->target_count = 0;
    set->plans[s]->targets = NULL;
  }
  return had;
}

bool artefact_is(const char *path) {
  char bytes[sizeof seal.magic];
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a pipe is none, and is not waited for
  if (fd < 0) {
    return false;
  }
  bool is = pread(fd, bytes, sizeof bytes, 0) == sizeof bytes && memcmp(bytes, seal.magic, sizeof bytes) == 0;
  close(fd);
  return is;
}
