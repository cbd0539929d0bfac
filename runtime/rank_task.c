// rank_task.c: see rank_task.h.
#include "runtime/rank_task.h"

#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "compiler/plan/artefact.h"
#include "compiler/plan/sealed.h"
#include "runtime/stream.h"

extern char **environ;

static const uint64_t MOST_BYTES = (uint64_t)1 << 40;
static const char prefix[] = "MDL_";

static const Seal seal = {.magic = {'M', 'D', 'L', 'R', '\r', '\n', '\x1a', '\n'},
                          .version = RANK_TASK_VERSION,
                          .noun = "task",
                          .begin = "what a rank is handed",
                          .fix = "start ranks with the same build of mdl everywhere"};

// --- the environment ---

static bool is_ours(const char *variable) {
  return strncmp(variable, prefix, sizeof prefix - 1) == 0 && strchr(variable, '=');
}

void rank_task_take_environment(Arena *arena, RankTask *task) {
  int count = 0;
  for (char **at = environ; at && *at; at++) {
    count += is_ours(*at);
  }
  task->variables = ARENA_ARRAY(arena, const char *, count + 1);
  task->variable_count = 0;
  for (char **at = environ; at && *at && task->variable_count < count; at++) {
    if (is_ours(*at)) {
      task->variables[task->variable_count++] = arena_format(arena, "%s", *at);
    }
  }
}

static bool variable_set(const char *variable, bool keep) {
  const char *equals = strchr(variable, '=');
  char *name = equals ? strndup(variable, (size_t)(equals - variable)) : NULL;
  const bool done = name && (keep ? setenv(name, equals + 1, 1) : unsetenv(name)) == 0;
  free(name);
  return done;
}

bool rank_task_set_environment(const RankTask *task) {
  for (char **at = environ; at && *at;) {
    if (!is_ours(*at)) {
      at++;
    } else if (!variable_set(*at, false)) {
      return false;
    }
  }
  for (int i = 0; i < task->variable_count; i++) {
    if (is_ours(task->variables[i]) && !variable_set(task->variables[i], true)) {
      return false;
    }
  }
  return true;
}

// --- bytes ---

// All but the plan, whose bytes are the rest.
static void code_task(Codec *codec, RankTask *task) {
  code_i64(codec, &task->rank);
  code_i64(codec, &task->ranks);
  code_int(codec, &task->threads);
  code_name(codec, &task->backend);
  code_string(codec, &task->record);
  CODE_ENUM(codec, task->fault.kind, RanksFaultKind, RANKS_SKIP + 1);
  code_i64(codec, &task->fault.rank);
  code_i64(codec, &task->fault.at);
  CODE_ARRAY(codec, task->variables, task->variable_count, 4);
  for (int i = 0; i < task->variable_count; i++) {
    code_name(codec, &task->variables[i]);
  }
}

bool rank_task_write(const RankTask *task, const Buffer *plan, Buffer *out) {
  RankTask copy = *task;
  seal_begin(out);
  code_task(&(Codec){.out = out}, &copy);
  buffer_bytes(out, plan->text, plan->length);
  return seal_end(&seal, out);
}

static const char *task_read(Arena *arena, const char *what, const char *bytes, size_t length, RankTask *task) {
  Codec codec;
  const char *why = NULL;
  if (!seal_open(&seal, arena, what, bytes, length, &codec, &why)) {
    return why;
  }
  code_task(&codec, task);
  if (codec.bad || task->ranks < 1 || task->ranks > RANKS_MAX || task->rank < 0 || task->rank >= task->ranks) {
    return arena_format(arena, "%s is damaged: its bytes do not form one", what);
  }
  task->plan = artefact_read_stage(arena, codec.in, codec.left, arena_format(arena, "the plan in %s", what), &why);
  return task->plan && plan_ranks(task->plan) != task->ranks
             ? arena_format(arena, "%s is damaged: its plan is for %lld ranks and not for %lld", what,
                            (long long)plan_ranks(task->plan), (long long)task->ranks)
             : why;
}

bool rank_task_receive(int socket, Arena *arena, const char *what, RankTask *task, Error *error) {
  char head[SEAL_BYTES];
  const char *why = NULL;
  uint64_t payload = 0;
  *task = (RankTask){0};
  if (!stream_receive(socket, head, sizeof head)) {
    return error_set(error, 1, "%s has not come", what);
  }
  if (!seal_open_head(&seal, arena, what, head, &payload, &why)) {
    return error_set(error, 1, "%s", why);
  }
  char *bytes = payload <= MOST_BYTES ? malloc(SEAL_BYTES + (size_t)payload) : NULL;
  if (!bytes) {
    char size[UNITS_MAX];
    return error_set(error, 3, "no memory for %s, which has %s", what, units_bytes(size, (double)payload));
  }
  memcpy(bytes, head, sizeof head);
  if (!stream_receive(socket, bytes + sizeof head, (size_t)payload)) {
    free(bytes);
    return error_set(error, 1, "%s is cut short", what);
  }
  why = task_read(arena, what, bytes, SEAL_BYTES + (size_t)payload, task);
  free(bytes);
  return !why || error_set(error, 1, "%s", why);
}
