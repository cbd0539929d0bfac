// kill_ranks.c: trains the toy of toy.h on two ranks that are processes of their own, for tests/crash/kills.py, which
// kills it.
//
//   kill_ranks TEXT STEPS RUN [--resume] [--sync-save]      a checkpoint after each step
//
// Both ranks compute the same on the same batch: this is about how they are started, saved from, and ended.
#include <stdio.h>

#include "runtime/train.h"
#include "tests/toy.h"

static const Backend *apart(void) {
  static Backend backend;
  backend = toy_backend;
  backend.name = "toy apart";
  backend.apart = true;
  return &backend;
}

// The process of a rank looks its backend up by name.
const Backend *__real_backend_find(const char *name);
const Backend *__wrap_backend_find(const char *name);
const Backend *__wrap_backend_find(const char *name) {
  return strcmp(name, "toy apart") == 0 ? apart() : __real_backend_find(name);
}

int main(int count, char **words) {
  if (count < 4) {
    fprintf(stderr, "kill_ranks TEXT STEPS RUN [--resume] [--sync-save]\n");
    return 2;
  }
  TrainOptions options = {.out = words[3],
                          .steps = strtoll(words[2], NULL, 10),
                          .save_every = 1,
                          .eval_every = 0,
                          .log_every = 1,
                          .keep = 3,
                          .deadline_seconds = 60,
                          .screen = stdout};
  for (int i = 4; i < count; i++) {
    options.resume |= strcmp(words[i], "--resume") == 0;
    options.sync_save |= strcmp(words[i], "--sync-save") == 0;
  }
  Arena *arena = arena_create();
  Plan *plan = toy_plan(arena, words[1], 4, 16, 1, false);
  plan->mesh_count = 1;
  plan->mesh[0].name = "dp";
  plan->mesh[0].size = 2;
  TrainResult result;
  Error error = {0};
  const bool done = train_run(&(PlanSet){1, &plan}, apart(), &options, &result, &error);
  if (!done) {
    fprintf(stderr, "kill_ranks: %s\n", error.text);
  }
  arena_destroy(arena);
  return done ? 0 : (int)error.status;
}
