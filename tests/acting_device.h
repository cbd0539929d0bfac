// acting_device.h: a device for tests of ranks in processes of their own: it keeps arenas in memory and acts out
// collectives and messages of hand-made plans, those beside arithmetic on threads. Its ranks meet through counters in
// their notes, and it writes the words of peers.h as a device does.
#ifndef MDL_TESTS_ACTING_DEVICE_H
#define MDL_TESTS_ACTING_DEVICE_H

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "runtime/peers.h"
#include "tests/ranks_support.h"

enum { CHANNELS = 8, BESIDE = 2 + CHANNELS, QUEUES };

typedef struct {  // a collective on a queue of its own
  Device *device;
  const Instruction *instruction;
  uint32_t word;
  pthread_t thread, before;
  bool follows;  // one before it
} Beside;

struct Device {
  const Plan *plan;
  Peers *peers;
  char *arena[ARENA_CLASS_COUNT];
  int64_t runs;
  bool tracing;
  int64_t span_count;
  TraceSpan span[WORLD_INSTRUCTIONS];
  char form[32];
  const char *record;
  int64_t rank;
  int beside_count;
  Beside beside[WORLD_INSTRUCTIONS];
};

typedef struct {                                            // in the note of each rank
  _Atomic int64_t met[2], sent[CHANNELS], taken[CHANNELS];  // met: by queue
} Note;

static bool acting_open(const Plan *plan, const DeviceOptions *options, Device **device, Error *error) {
  if (strcmp(plan->run.model ? plan->run.model : "", "unopenable") == 0 && options->rank == 1) {
    return error_set(error, 3, "no memory on device %d", options->gpu);
  }
  Device *made = calloc(1, sizeof *made);
  made->plan = plan;
  made->peers = options->peers;
  made->record = options->record;
  made->rank = options->rank;
  for (int i = 0; i < ARENA_CLASS_COUNT; i++) {
    made->arena[i] = calloc(1, (size_t)plan->arena_bytes[i] + sizeof made->runs);
  }
  snprintf(made->form, sizeof made->form, "rank %lld", (long long)options->rank);
  *device = made;
  *(int64_t *)peers_note(options->peers, options->rank) = 7 + options->rank;
  if (!peers_meet(options->peers, error)) {
    return false;
  }
  for (int64_t r = 0; r < peers_count(options->peers); r++) {
    if (*(int64_t *)peers_note(options->peers, r) != 7 + r) {
      return error_set(error, 1, "the note of rank %lld is not there", (long long)r);
    }
  }
  if (!peers_meet(options->peers, error)) {
    return false;
  }
  *(int64_t *)peers_note(options->peers, options->rank) = 0;
  return peers_meet(options->peers, error);
}

static void acting_close(Device *device) {
  for (int i = 0; i < ARENA_CLASS_COUNT; i++) {
    free(device->arena[i]);
  }
  free(device);
}

static bool acting_write(Device *device, ArenaClass arena, int64_t offset, const void *data, int64_t bytes,
                         Error *error) {
  if (offset == 13) {
    return error_set(error, 1, "nothing is written at 13");
  }
  memcpy(device->arena[arena] + offset, data, (size_t)bytes);
  return true;
}

static bool acting_read(Device *device, ArenaClass arena, int64_t offset, void *data, int64_t bytes, Error *error) {
  if (offset == 13) {
    return error_set(error, 1, "nothing is read at 13");
  }
  memcpy(data, device->arena[arena] + offset, (size_t)bytes);
  return true;
}

static void rest(void) {
  nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
}

static Note *note_of(Device *device, int64_t rank) {
  return peers_note(device->peers, rank);
}

static void act(Device *device, const Instruction *instruction) {
  const int64_t rank = peers_rank(device->peers);
  Note *mine = note_of(device, rank);
  if (instruction->kind == INSTRUCTION_COLLECTIVE) {
    const int queue = instruction->aside;
    const int64_t met = ++mine->met[queue];
    int here[PLAN_MAX_MESH], there[PLAN_MAX_MESH];
    plan_coordinates(device->plan, rank, here);
    for (int64_t r = 0; r < peers_count(device->peers); r++) {
      bool member = true;
      plan_coordinates(device->plan, r, there);
      for (int m = 0; m < device->plan->mesh_count; m++) {
        member &= instruction->as.collective.mesh >> m & 1 || here[m] == there[m];
      }
      while (member && note_of(device, r)->met[queue] < met) {
        rest();
      }
    }
    return;
  }
  const int channel = instruction->as.transfer.channel, peer = instruction->as.transfer.peer;
  if (instruction->kind == INSTRUCTION_SEND) {
    mine->sent[channel]++;
  } else {
    const int64_t taken = ++mine->taken[channel];
    while (note_of(device, peer)->sent[channel] < taken) {
      rest();
    }
  }
}

static int queue_of(const Instruction *instruction) {
  return instruction->kind == INSTRUCTION_COLLECTIVE ? 0
         : instruction->kind == INSTRUCTION_RECEIVE  ? 1
                                                     : 2 + instruction->as.transfer.channel;
}

static void *act_beside(void *context) {
  Beside *beside = context;
  PeersWay *way = &peers_words(beside->device->peers)->way[BESIDE];
  if (beside->follows) {
    pthread_join(beside->before, NULL);
  }
  way->begun = beside->word;
  act(beside->device, beside->instruction);
  way->ended = beside->word;
  return NULL;
}

// On the queue beside arithmetic, which keeps its order.
static void begin_beside(Device *device, const Instruction *instruction, uint32_t word) {
  Beside *beside = &device->beside[device->beside_count++];
  *beside = (Beside){.device = device, .instruction = instruction, .word = word, .follows = device->beside_count > 1};
  beside->before = beside->follows ? beside[-1].thread : 0;
  assert_int_equal(pthread_create(&beside->thread, NULL, act_beside, beside), 0);
}

// An instruction of a rank alone called "hang", "die", "leave" or "fail" is what rank 1 does.
static bool acting_run(Device *device, ProgramKind program, Error *error) {
  PeersWay *ways = peers_words(device->peers)->way;
  const PlanSegment *segment = &device->plan->segments[0];
  uint32_t number = 0;
  for (int q = 0; q < QUEUES; q++) {
    ways[q].begun = 0;
    ways[q].ended = 0;
  }
  device->beside_count = 0;
  device->runs++;
  device->span_count = 0;
  for (int i = 0; i < segment->count; i++) {
    const Instruction *instruction = &segment->instructions[i];
    if (instruction->aside) {
      begin_beside(device, instruction, peers_word(program, ++number));
    } else if (instruction_is_shared(instruction)) {
      PeersWay *way = &ways[queue_of(instruction)];
      way->begun = peers_word(program, ++number);
      act(device, instruction);
      way->ended = peers_word(program, number);
    } else if (peers_rank(device->peers) == 1) {
      while (strcmp(instruction->name, "hang") == 0) {
        pause();
      }
      if (strcmp(instruction->name, "die") == 0) {
        kill(getpid(), SIGKILL);
      }
      if (strcmp(instruction->name, "leave") == 0) {
        _exit(3);
      }
      if (strcmp(instruction->name, "fail") == 0) {
        return error_set(error, 1, "the kernel does not run");
      }
    }
    if (device->tracing) {
      device->span[device->span_count++] = (TraceSpan){instruction, i % 2 ? NULL : device->form, i, i, (double)i + 0.5};
    }
  }
  if (device->beside_count > 0) {
    pthread_join(device->beside[device->beside_count - 1].thread, NULL);
  }
  if (device->plan->arena_bytes[ARENA_HOST] >= (int64_t)sizeof device->runs) {
    memcpy(device->arena[ARENA_HOST], &device->runs, sizeof device->runs);
  }
  return true;
}

static bool acting_wait(Device *device, int behind, Error *error) {
  (void)device;
  (void)behind;
  (void)error;
  return true;
}

static void acting_facts(const Device *device, DeviceFacts *facts) {
  *facts = (DeviceFacts){.peak_flops = 1e12, .peak_bytes = NAN, .memory_bytes = getpid()};
  snprintf(facts->name, sizeof facts->name, "device %lld", (long long)peers_rank(device->peers));
}

static void acting_trace(Device *device, bool on) {
  device->tracing = on;
}

static const TraceSpan *acting_traced(Device *device, int64_t *count) {
  *count = device->span_count;
  return device->span;
}

// More than a window holds: what was given, and lines that ranks have in common.
static void acting_record(Device *device, Buffer *out) {
  buffer_format(out, "%s\nrank %lld\n", device->record, (long long)device->rank);
  buffer_repeat(out, 'x', 5 << 20);
  buffer_text(out, "\nthe end\n");
}

static const Backend acting = {.name = "acting",
                               .apart = true,
                               .open = acting_open,
                               .close = acting_close,
                               .write = acting_write,
                               .read = acting_read,
                               .ahead = 1,
                               .run = acting_run,
                               .wait = acting_wait,
                               .facts = acting_facts,
                               .trace = acting_trace,
                               .traced = acting_traced,
                               .record = acting_record};

// What the process of a rank finds by the name that it is handed.
const Backend *__real_backend_find(const char *name);
const Backend *__wrap_backend_find(const char *name) {
  return strcmp(name, acting.name) == 0 ? &acting : __real_backend_find(name);
}

#endif
