// processes.c: starting the processes of ranks, and the devices that stand for theirs.
#include "runtime/processes.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/units.h"
#include "compiler/plan/artefact.h"
#include "runtime/processes_internal.h"
#include "runtime/thread.h"

struct Device {
  Processes *processes;
  int64_t rank;
  TraceSpan *spans;  // of the last `traced`
  char (*forms)[FORM_MAX];
  int64_t span_count;
};

// --- the devices ---

static Process *process_of(const Device *device) {
  return &device->processes->process[device->rank];
}

static char *window_of(const Device *device) {
  return device->processes->shared[device->rank].window;
}

static bool tell(Device *device, const Ask *ask, Error *error) {
  return processes_tell(device->processes, device->rank, ask, error);
}

static bool ask_and_wait(Device *device, const Ask *ask, Error *error) {
  return tell(device, ask, error) && processes_await(device->processes, ask->kind, error);
}

static bool settle(Device *device, Error *error) {
  return ask_and_wait(device, &(Ask){.kind = ASK_SETTLE}, error);
}

static bool range_check(const Device *device, ArenaClass arena, int64_t offset, int64_t bytes, Error *error) {
  const int64_t size = plan_of_rank(device->processes->set, device->rank)->arena_bytes[arena];
  return (offset >= 0 && bytes >= 0 && offset <= size && bytes <= size - offset) ||
         error_set(error, 1, "bytes %" PRId64 " to %" PRId64 " are outside an arena of %" PRId64 " bytes", offset,
                   offset + bytes, size);
}

// Through the window in parts of half of it, so that one is filled while the other is emptied. Inputs of a run are not
// waited for: their errors come out with the run.
static bool proxy_write(Device *device, ArenaClass arena, int64_t offset, const void *data, int64_t bytes,
                        Error *error) {
  Process *process = process_of(device);
  if (!range_check(device, arena, offset, bytes, error)) {
    return false;
  }
  for (int64_t at = 0; at < bytes;) {
    const int64_t part = bytes - at < WINDOW_BYTES / 2 ? bytes - at : WINDOW_BYTES / 2;
    if ((process->used + part > WINDOW_BYTES || process->posted >= POSTED_MAX) && !settle(device, error)) {
      return false;
    }
    memcpy(window_of(device) + process->used, (const char *)data + at, (size_t)part);
    const Ask ask = {.kind = ASK_WRITE, .arena = arena, .offset = offset + at, .bytes = part, .window = process->used};
    if (!tell(device, &ask, error)) {
      return false;
    }
    process->used += part;
    process->posted++;
    at += part;
  }
  return arena == ARENA_HOST ? processes_usable(device->processes, error) : settle(device, error);
}

static bool proxy_read(Device *device, ArenaClass arena, int64_t offset, void *data, int64_t bytes, Error *error) {
  if (!range_check(device, arena, offset, bytes, error)) {
    return false;
  }
  for (int64_t at = 0; at < bytes;) {
    const int64_t part = bytes - at < WINDOW_BYTES ? bytes - at : WINDOW_BYTES;
    if (!ask_and_wait(device, &(Ask){.kind = ASK_READ, .arena = arena, .offset = offset + at, .bytes = part}, error)) {
      return false;
    }
    memcpy((char *)data + at, window_of(device), (size_t)part);
    at += part;
  }
  return processes_usable(device->processes, error);
}

static bool proxy_run(Device *device, ProgramKind program, Error *error) {
  return ask_and_wait(device, &(Ask){.kind = ASK_RUN, .number = (int)program}, error);
}

static bool proxy_wait(Device *device, int behind, Error *error) {
  return ask_and_wait(device, &(Ask){.kind = ASK_WAIT, .number = behind}, error);
}

static void proxy_facts(const Device *device, DeviceFacts *facts) {
  Error ignored;
  Device asking = *device;
  *facts = (DeviceFacts){.name = "lost", .peak_flops = NAN, .peak_bytes = NAN, .memory_bytes = -1, .gap_seconds = NAN};
  if (ask_and_wait(&asking, &(Ask){.kind = ASK_FACTS}, &ignored)) {
    memcpy(facts, window_of(device), sizeof *facts);
  }
}

static void proxy_trace(Device *device, bool on) {
  Error ignored;
  tell(device, &(Ask){.kind = ASK_TRACE, .number = on}, &ignored);
}

static bool spans_room(Device *device, int64_t count) {
  TraceSpan *spans = realloc(device->spans, (size_t)(count + 1) * sizeof *spans);
  device->spans = spans ? spans : device->spans;
  char(*forms)[FORM_MAX] = realloc(device->forms, (size_t)(count + 1) * sizeof *forms);
  device->forms = forms ? forms : device->forms;
  return spans && forms;
}

static const Instruction *instruction_at(const Plan *plan, int segment, int index) {
  const bool is = segment >= 0 && segment < plan->segment_count && index >= 0 && index < plan->segments[segment].count;
  return is ? &plan->segments[segment].instructions[index] : NULL;
}

static const TraceSpan *proxy_traced(Device *device, int64_t *count) {
  const TracedSpan *from = (const TracedSpan *)(const void *)window_of(device);
  const Plan *plan = plan_of_rank(device->processes->set, device->rank);
  Error ignored;
  int64_t all = 1;
  *count = 0;
  for (int64_t at = 0; at < all;) {
    if (!ask_and_wait(device, &(Ask){.kind = ASK_TRACED, .offset = at}, &ignored)) {
      return NULL;
    }
    all = process_of(device)->answer.count;
    if (!spans_room(device, all)) {
      return NULL;
    }
    for (int64_t i = 0; i < (int64_t)(WINDOW_BYTES / sizeof *from) && at < all; i++, at++) {
      const Instruction *instruction = instruction_at(plan, from[i].segment, from[i].index);
      if (!instruction) {
        return NULL;
      }
      memcpy(device->forms[at], from[i].form, FORM_MAX);
      device->spans[at] = (TraceSpan){.instruction = instruction,
                                      .form = from[i].formed ? "" : NULL,
                                      .lane = from[i].lane,
                                      .begin = from[i].begin,
                                      .end = from[i].end};
    }
  }
  for (int64_t i = 0; i < all; i++) {
    device->spans[i].form = device->spans[i].form ? device->forms[i] : NULL;
  }
  *count = all;
  return device->spans;
}

static void proxy_record(Device *device, Buffer *out) {
  Error ignored;
  int64_t all = 1;
  for (int64_t at = 0; at < all;) {
    if (!ask_and_wait(device, &(Ask){.kind = ASK_RECORD, .offset = at}, &ignored)) {
      return;
    }
    all = process_of(device)->answer.count;
    const int64_t part = all - at < WINDOW_BYTES ? all - at : WINDOW_BYTES;
    buffer_bytes(out, window_of(device), (size_t)part);
    at += part;
  }
}

static Backend proxy_of(const Backend *inner) {
  return (Backend){.name = inner->name,
                   .apart = true,
                   .write = proxy_write,
                   .read = proxy_read,
                   .ahead = inner->ahead,
                   .run = proxy_run,
                   .wait = proxy_wait,
                   .facts = proxy_facts,
                   .trace = proxy_trace,
                   .traced = proxy_traced,
                   .record = inner->record ? proxy_record : NULL};
}

// --- all of them ---

static int64_t round_up(int64_t bytes) {
  enum { HUGE_PAGE = 2 << 20 };
  return (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
}

static bool ask_all(Processes *processes, const Ask *ask, Error *error) {
  for (int64_t r = 0; r < processes->count; r++) {
    if (!processes_tell(processes, r, ask, error)) {
      return false;
    }
  }
  return processes_await(processes, ask->kind, error);
}

bool processes_run(Processes *processes, ProgramKind program, Error *error) {
  return ask_all(processes, &(Ask){.kind = ASK_RUN, .number = (int)program}, error);
}

bool processes_wait(Processes *processes, int behind, Error *error) {
  return ask_all(processes, &(Ask){.kind = ASK_WAIT, .number = behind}, error);
}

// Behind the memory that is shared from the beginning, a part for each rank.
bool processes_hold(Processes *processes, const int64_t *bytes, char **memory, Error *error) {
  const int64_t first = round_up((int64_t)((size_t)processes->count * sizeof *processes->shared));
  int64_t all = 0;
  for (int64_t r = 0; r < processes->count; r++) {
    all += round_up(bytes[r]);
  }
  void *mapped = MAP_FAILED;
  if (all == 0) {
    return true;
  }
  if (ftruncate(processes->memory, (off_t)(first + all)) == 0) {
    mapped = mmap(NULL, (size_t)all, PROT_READ | PROT_WRITE, MAP_SHARED, processes->memory, (off_t)first);
  }
  if (mapped == MAP_FAILED) {
    return error_set(error, 3, "no memory to share with ranks: %s", strerror(errno));
  }
  processes->held = mapped;
  processes->held_bytes = all;
  int64_t at = 0;
  for (int64_t r = 0; r < processes->count; r++) {
    const Ask ask = {.kind = ASK_HOLD, .offset = first + at, .bytes = bytes[r]};
    memory[r] = bytes[r] > 0 ? processes->held + at : NULL;
    at += round_up(bytes[r]);
    if (bytes[r] > 0 && !processes_tell(processes, r, &ask, error)) {
      return false;
    }
  }
  const bool done = processes_await(processes, ASK_HOLD, error);
  if (!done && ftruncate(processes->memory, (off_t)first) != 0) {  // what some have got is given back
    return false;
  }
  return done;
}

bool processes_copy(Processes *processes, int64_t rank, const CopyPiece *pieces, int count, Error *error) {
  enum { MOST = WINDOW_BYTES / sizeof *pieces };
  for (int at = 0; at < count;) {
    const int part = count - at < MOST ? count - at : MOST;
    if (at > 0 && !processes_await(processes, ASK_COPY, error)) {
      return false;
    }
    memcpy(processes->shared[rank].window, pieces + at, (size_t)part * sizeof *pieces);
    if (!processes_tell(processes, rank, &(Ask){.kind = ASK_COPY, .number = part}, error)) {
      return false;
    }
    at += part;
  }
  return true;
}

bool processes_copying(Processes *processes, Error *error) {
  return processes_await(processes, ASK_COPY, error);
}

bool processes_copied(Processes *processes, Error *error) {
  return ask_all(processes, &(Ask){.kind = ASK_COPIED}, error);
}

bool processes_copy_beside(const Processes *processes) {
  return processes->beside;
}

const Backend *processes_backend(const Processes *processes) {
  return &processes->backend;
}

Device *processes_device(const Processes *processes, int64_t rank) {
  return processes->process[rank].device;
}

pid_t processes_pid(const Processes *processes, int64_t rank) {
  return processes->process[rank].pid;
}

// --- their beginning and end ---

// The bytes of the plan of each stage, made when its first rank needs them.
typedef struct {
  Arena *arena;
  Buffer *plan;  // [stage]
} Handed;

static bool process_hand(Processes *processes, int64_t rank, const RankTask *all, Handed *handed, Error *error) {
  const Plan *plan = plan_of_rank(processes->set, rank);
  Buffer *bytes = &handed->plan[plan->stage], out = {0};
  RankTask task = *all;
  task.rank = rank;
  const bool made =
      (bytes->length > 0 || artefact_write_stage(handed->arena, plan, bytes)) && rank_task_write(&task, bytes, &out);
  const bool done = made ? processes_hand(processes, rank, &out, error)
                         : error_set(error, 3, "no memory for what rank %lld is handed", (long long)rank);
  buffer_free(&out);
  return done;
}

static bool processes_hand_all(Processes *processes, Error *error) {
  const int stages = processes->set->plans[0]->stages;
  Handed handed = {.arena = arena_create(), .plan = calloc((size_t)stages, sizeof *handed.plan)};
  RankTask task = {.ranks = processes->count,
                   .threads = processes->threads,
                   .backend = processes->backend.name,
                   .record = processes->options.record,
                   .fault = processes->options.fault};
  bool done = (handed.arena && handed.plan) || error_set(error, 3, "no memory");
  if (done) {
    rank_task_take_environment(handed.arena, &task);
  }
  for (int64_t r = 0; done && r < processes->count; r++) {
    done = process_hand(processes, r, &task, &handed, error);
  }
  for (int i = 0; handed.plan && i < stages; i++) {
    buffer_free(&handed.plan[i]);
  }
  free(handed.plan);
  arena_destroy(handed.arena);
  return done && processes_await(processes, ASK_OPEN, error);
}

static bool processes_share(Processes *processes, Error *error) {
  const size_t bytes = (size_t)processes->count * sizeof *processes->shared;
  const int memory = processes->memory = processes_memory(bytes);
  void *mapped = memory < 0 ? MAP_FAILED : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
  processes->shared = mapped == MAP_FAILED ? NULL : mapped;
  const int why = errno;
  char size[UNITS_MAX];
  return processes->shared || error_set(error, 3, "no memory to share between the processes of %lld ranks (%s): %s",
                                        (long long)processes->count, units_bytes(size, (double)bytes), strerror(why));
}

static void *keeper_main(void *argument) {
  Processes *processes = argument;
  Keeper *keeper = &processes->keeper;
  bool done = true;
  for (int64_t r = 0; done && r < processes->count; r++) {
    Process *process = &processes->process[r];
    done = process_start(r, processes->memory, &process->pid, &process->socket, &keeper->error);
    processes->polled[r] = (struct pollfd){.fd = process->socket, .events = POLLIN};
  }
  pthread_mutex_lock(&keeper->mutex);
  keeper->done = done;
  keeper->tried = true;
  pthread_cond_broadcast(&keeper->moved);
  while (!keeper->ends) {
    pthread_cond_wait(&keeper->moved, &keeper->mutex);
  }
  pthread_mutex_unlock(&keeper->mutex);
  return NULL;
}

// Until it has started all of them, or could not.
static bool keeper_start(Processes *processes, Error *error) {
  Keeper *keeper = &processes->keeper;
  pthread_mutex_init(&keeper->mutex, NULL);
  pthread_cond_init(&keeper->moved, NULL);
  keeper->there = thread_start(&keeper->thread, keeper_main, processes) == 0;
  if (!keeper->there) {
    pthread_cond_destroy(&keeper->moved);
    pthread_mutex_destroy(&keeper->mutex);
    return error_set(error, 3, "could not start the thread that starts the processes of ranks");
  }
  pthread_mutex_lock(&keeper->mutex);
  while (!keeper->tried) {
    pthread_cond_wait(&keeper->moved, &keeper->mutex);
  }
  const bool done = keeper->done;
  pthread_mutex_unlock(&keeper->mutex);
  *error = done ? *error : keeper->error;
  return done;
}

static void keeper_end(Keeper *keeper) {
  if (!keeper->there) {
    return;
  }
  pthread_mutex_lock(&keeper->mutex);
  keeper->ends = true;
  pthread_cond_broadcast(&keeper->moved);
  pthread_mutex_unlock(&keeper->mutex);
  pthread_join(keeper->thread, NULL);
  pthread_cond_destroy(&keeper->moved);
  pthread_mutex_destroy(&keeper->mutex);
}

// All of them begin before the first is handed its plan.
static bool processes_start(Processes *processes, Error *error) {
  bool done = processes_share(processes, error);
  for (int64_t r = 0; done && r < processes->count; r++) {
    Process *process = &processes->process[r];
    process->device = calloc(1, sizeof *process->device);
    done = process->device || error_set(error, 3, "no memory for %lld ranks", (long long)processes->count);
    if (done) {
      *process->device = (Device){.processes = processes, .rank = r};
    }
  }
  return done && keeper_start(processes, error) && processes_hand_all(processes, error);
}

static void processes_free(Processes *processes) {
  keeper_end(&processes->keeper);
  for (int64_t r = 0; processes->process && r < processes->count; r++) {
    Process *process = &processes->process[r];
    if (process->socket >= 0) {
      close(process->socket);
    }
    if (process->device) {
      free(process->device->spans);
      free(process->device->forms);
      free(process->device);
    }
  }
  if (processes->shared) {
    munmap(processes->shared, (size_t)processes->count * sizeof *processes->shared);
  }
  if (processes->held) {
    munmap(processes->held, (size_t)processes->held_bytes);
  }
  if (processes->memory >= 0) {
    close(processes->memory);
  }
  ranks_destroy(processes->ranks);
  free(processes->process);
  free(processes->polled);
  free(processes);
}

bool processes_create(const PlanSet *set, const Backend *backend, int threads, const RanksOptions *options,
                      Processes **processes, Error *error) {
  const long cores = sysconf(_SC_NPROCESSORS_ONLN);
  const int64_t all = threads > 0 ? threads : cores > 0 ? cores : 1, count = plan_ranks(set->plans[0]);
  *processes = NULL;
  if (options->fault.kind == RANKS_SKIP) {
    return error_set(error, 2, "the fault 'skip' is for ranks that are threads; ranks in processes die or hang");
  }
  Processes *made = calloc(1, sizeof *made);
  if (!made) {
    return error_set(error, 3, "no memory");
  }
  *made = (Processes){.set = set,
                      .backend = proxy_of(backend),
                      .options = *options,
                      .threads = all > count ? (int)(all / count) : 1,
                      .count = count,
                      .memory = -1,
                      .beside = backend->copy != NULL};
  made->process = calloc((size_t)count, sizeof *made->process);
  made->polled = calloc((size_t)count, sizeof *made->polled);
  for (int64_t r = 0; made->process && r < count; r++) {
    made->process[r].socket = -1;
  }
  bool done = (made->process && made->polled) || error_set(error, 3, "no memory for %lld ranks", (long long)count);
  done = done && ranks_create(set, options, &made->ranks, error);
  if (!done || !processes_start(made, error)) {
    processes_end(made, true);
    processes_free(made);
    return false;
  }
  *processes = made;
  return true;
}

void processes_destroy(Processes *processes) {
  Error ignored;
  if (!processes) {
    return;
  }
  for (int64_t r = 0; r < processes->count; r++) {
    processes_tell(processes, r, &(Ask){.kind = ASK_CLOSE}, &ignored);
  }
  processes_end(processes, processes->failed);
  processes_free(processes);
}
