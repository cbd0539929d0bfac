// comms.c: communicators, and collectives and messages on streams.
#include "runtime/cuda/comms.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cuda/nccl.h"
#include "runtime/cuda/nccl_memory.h"

enum {
  MESH_SETS = 1 << PLAN_MAX_MESH,
  CHANNELS_MAX = (PEERS_NOTE_BYTES - MESH_SETS * NCCL_ID_BYTES) / (NCCL_ID_BYTES + 16) - 1
};
enum {
  CHANNEL_BLOCKS = 4
};  // thread blocks that a message takes: many may wait at once, and none may crowd out the rest

enum { WINDOW_UNIT = 2 << 20 };  // bytes that GPUs map at once

// Thread blocks of a collective on memory that all ranks map: on two H200 fewer are slower, and more are no faster and
// leave less to products beside them (docs/results/2026-11-22-h200-windows.md).
#define SYMMETRIC_BLOCKS "16"

typedef struct {
  NcclId id;
  int64_t receiver;  // rank
  int number;
} ChannelIdentity;

typedef struct {  // identities that a rank makes: of the groups it is the first rank of, and of the channels it sends
                  // on
  NcclId group[MESH_SETS];
  int count;
  ChannelIdentity channel[CHANNELS_MAX];
} Identities;

_Static_assert(sizeof(Identities) <= PEERS_NOTE_BYTES, "a note has room for all identities");

typedef struct {  // of one rank to one other; several programs may have the same, and others of the same number
  int number;
  int64_t sender, receiver;       // ranks
  NcclCommunicator communicator;  // the sender is 0
} Channel;

typedef struct {  // memory that operands of collectives lie in
  CudaAddress memory;
  bool plain;                    // the driver gave it, not NCCL
  NcclWindow window[MESH_SETS];  // by group; NULL: none
} Shared;

struct Comms {
  const Cuda *cuda;
  const Plan *plan;
  Peers *peers;
  Nccl nccl;
  int coordinate[PLAN_MAX_MESH];
  NcclCommunicator group[MESH_SETS];  // NULL: no collective is over it
  int channel_count;
  Channel *channel;  // by channel_compare, once all are there
  Shared shared[ARENA_CLASS_COUNT];
  int shared_count;
  CudaAddress words;  // PeersWords, as the GPU sees them
  bool fills;         // words are written as memory is filled, not as words
  CommsPart part;
  ProgramKind program;
  int64_t number;  // of collectives and transfers of the program so far
};

// --- words ---

static CudaStatus word_write(const Comms *comms, size_t offset, uint32_t word, CudaStream stream) {
  return comms->fills ? comms->cuda->fill_words(comms->words + offset, word, 1, stream)
                      : comms->cuda->stream_write_word(stream, comms->words + offset, word, 0);
}

static size_t begun_of(int queue) {
  return offsetof(PeersWords, way) + (size_t)queue * sizeof(PeersWay) + offsetof(PeersWay, begun);
}

static size_t ended_of(int queue) {
  return offsetof(PeersWords, way) + (size_t)queue * sizeof(PeersWay) + offsetof(PeersWay, ended);
}

static bool mark(const Comms *comms, size_t offset, uint32_t word, CudaStream stream, Error *error) {
  return comms->part == COMMS_NONE ||
         cuda_check(comms->cuda, word_write(comms, offset, word, stream), "writing where this rank is", error);
}

// Whether a graph can write words: drivers differ.
static bool words_probe(Comms *comms, CudaStream stream, Error *error) {
  const Cuda *cuda = comms->cuda;
  CudaGraph graph = NULL;
  if (!cuda_check(cuda, cuda->capture_begin(stream, CUDA_CAPTURE_THREAD_LOCAL), "trying a graph", error)) {
    return false;
  }
  const CudaStatus written = word_write(comms, begun_of(0), 0, stream);
  const CudaStatus ended = cuda->capture_end(stream, &graph);
  comms->fills = written != 0 || ended != 0;
  if (graph) {
    cuda->graph_destroy(graph);
  }
  return true;
}

static bool words_map(Comms *comms, Error *error) {
  const Cuda *cuda = comms->cuda;
  void *words = peers_words(comms->peers);
  return cuda_check(cuda, cuda->host_register(words, sizeof(PeersWords), CUDA_HOST_PORTABLE | CUDA_HOST_MAPPED),
                    "sharing memory with the GPU", error) &&
         cuda_check(cuda, cuda->host_address(&comms->words, words, 0), "sharing memory with the GPU", error);
}

// --- creation ---

// An order that all ranks have.
static int channel_compare(const void *one, const void *other) {
  const Channel *a = one, *b = other;
  const int64_t by[] = {a->number - b->number, a->sender - b->sender, a->receiver - b->receiver};
  const int64_t first = by[0] ? by[0] : by[1] ? by[1] : by[2];
  return first < 0 ? -1 : first > 0;
}

// The channel of a message, without a communicator.
static Channel channel_of(const Comms *comms, const Instruction *instruction) {
  const Transfer *transfer = &instruction->as.transfer;
  int coordinate[PLAN_MAX_MESH];
  memcpy(coordinate, comms->coordinate, sizeof coordinate);
  coordinate[comms->plan->pipeline] = transfer->peer;
  const int64_t peer = plan_rank(comms->plan, coordinate), rank = peers_rank(comms->peers);
  const bool sends = instruction->kind == INSTRUCTION_SEND;
  return (Channel){.number = transfer->channel, .sender = sends ? rank : peer, .receiver = sends ? peer : rank};
}

static bool channel_take(Comms *comms, const Instruction *instruction, Error *error) {
  const Channel channel = channel_of(comms, instruction);
  for (int i = 0; i < comms->channel_count; i++) {
    if (channel_compare(&comms->channel[i], &channel) == 0) {
      return true;
    }
  }
  if (comms->channel_count == CHANNELS_MAX) {
    return error_set(error, 1, "%s: the plan has more than %d values that go from stage to stage", instruction->name,
                     CHANNELS_MAX);
  }
  comms->channel[comms->channel_count++] = channel;
  return true;
}

static bool channels_take(Comms *comms, Error *error) {
  const Plan *plan = comms->plan;
  for (int s = 0; s < plan->segment_count; s++) {
    for (int i = 0; i < plan->segments[s].count; i++) {
      const Instruction *instruction = &plan->segments[s].instructions[i];
      if (instruction_is_shared(instruction) && instruction->kind != INSTRUCTION_COLLECTIVE &&
          !channel_take(comms, instruction, error)) {
        return false;
      }
    }
  }
  qsort(comms->channel, (size_t)comms->channel_count, sizeof *comms->channel, channel_compare);
  return true;
}

bool comms_create(const Cuda *cuda, const Plan *plan, Peers *peers, Arena *arena, Comms **out, Error *error) {
  Comms *comms = ARENA_NEW(arena, Comms);
  *comms = (Comms){.cuda = cuda, .plan = plan, .peers = peers, .part = COMMS_ALL};
  *out = NULL;
  comms->channel = ARENA_ARRAY(arena, Channel, CHANNELS_MAX);
  plan_coordinates(plan, peers_rank(peers), comms->coordinate);
  // Under capture NCCL would map the buffers of peers, which makes ranks wait for each other on the host there.
  if (setenv("NCCL_GRAPH_REGISTER", "0", 0) != 0 || setenv("NCCL_SYM_CTAS", SYMMETRIC_BLOCKS, 0) != 0) {
    return error_set(error, 3, "no memory");
  }
  if (!nccl_open(&comms->nccl, error) || !channels_take(comms, error) || !words_map(comms, error)) {
    return false;
  }
  *out = comms;
  return true;
}

// The ranks whose coordinates differ along the axes of `mesh` alone: how many, which is the first, which is this one.
static int group_of(const Comms *comms, uint32_t mesh, int64_t *first, int *index) {
  int coordinate[PLAN_MAX_MESH] = {0}, count = 0;
  for (int64_t r = 0; r < peers_count(comms->peers); r++) {
    bool in = true;
    plan_coordinates(comms->plan, r, coordinate);
    for (int i = 0; i < comms->plan->mesh_count; i++) {
      in &= mesh >> i & 1 || coordinate[i] == comms->coordinate[i];
    }
    if (in) {
      *first = count == 0 ? r : *first;
      *index = r == peers_rank(comms->peers) ? count : *index;
      count++;
    }
  }
  return count;
}

static void groups_used(const Comms *comms, bool *used) {
  for (int s = 0; s < comms->plan->segment_count; s++) {
    const PlanSegment *segment = &comms->plan->segments[s];
    for (int i = 0; i < segment->count; i++) {
      const Instruction *instruction = &segment->instructions[i];
      if (instruction->kind == INSTRUCTION_COLLECTIVE && instruction->as.collective.ranks > 1) {
        used[instruction->as.collective.mesh % MESH_SETS] = true;
      }
    }
  }
}

static bool identities_make(Comms *comms, const bool *used, Error *error) {
  Identities *mine = peers_note(comms->peers, peers_rank(comms->peers));
  for (uint32_t mesh = 0; mesh < MESH_SETS; mesh++) {
    int64_t first = 0;
    int index = 0;
    if (used[mesh]) {
      group_of(comms, mesh, &first, &index);
    }
    if (used[mesh] && index == 0 && !nccl_id(&comms->nccl, &mine->group[mesh], error)) {
      return false;
    }
  }
  mine->count = 0;
  for (int i = 0; i < comms->channel_count; i++) {
    const Channel *channel = &comms->channel[i];
    if (channel->sender == peers_rank(comms->peers)) {
      ChannelIdentity *made = &mine->channel[mine->count++];
      made->number = channel->number;
      made->receiver = channel->receiver;
      if (!nccl_id(&comms->nccl, &made->id, error)) {
        return false;
      }
    }
  }
  return true;
}

static bool groups_join(Comms *comms, const bool *used, Error *error) {
  for (uint32_t mesh = 0; mesh < MESH_SETS; mesh++) {
    int64_t first = 0;
    int index = 0;
    if (!used[mesh]) {
      continue;
    }
    const int count = group_of(comms, mesh, &first, &index);
    const Identities *given = peers_note(comms->peers, first);
    if (!nccl_join(&comms->nccl, &given->group[mesh], count, index, 0, &comms->group[mesh], error)) {
      return false;
    }
  }
  return true;
}

static bool channel_sends(const Comms *comms, const Channel *channel) {
  return channel->sender == peers_rank(comms->peers);
}

// One number through the channel, in the order that all ranks have: the first message of a communicator makes its two
// ends wait for each other on the host.
static bool channel_try(Comms *comms, const Channel *channel, CudaAddress scratch, CudaStream stream, Error *error) {
  const Nccl *nccl = &comms->nccl;
  return (channel_sends(comms, channel)
              ? nccl_send(nccl, channel->communicator, 1, TYPE_F32, 1, scratch, stream, error)
              : nccl_receive(nccl, channel->communicator, 0, TYPE_F32, 1, scratch, stream, error)) &&
         cuda_check(comms->cuda, comms->cuda->stream_synchronize(stream), "trying a channel", error);
}

static bool channel_join(Comms *comms, Channel *channel, CudaAddress scratch, CudaStream stream, Error *error) {
  const Identities *given = peers_note(comms->peers, channel->sender);
  const NcclId *id = NULL;
  for (int i = 0; i < given->count && i < CHANNELS_MAX && !id; i++) {
    const ChannelIdentity *one = &given->channel[i];
    id = one->number == channel->number && one->receiver == channel->receiver ? &one->id : NULL;
  }
  if (!id) {
    return error_set(error, 1, "rank %lld sends nothing on channel %d to rank %lld: the plan is damaged",
                     (long long)channel->sender, channel->number, (long long)channel->receiver);
  }
  return nccl_join(&comms->nccl, id, 2, channel_sends(comms, channel) ? 0 : 1, CHANNEL_BLOCKS, &channel->communicator,
                   error) &&
         channel_try(comms, channel, scratch, stream, error);
}

bool comms_join(Comms *comms, CudaStream stream, Error *error) {
  bool used[MESH_SETS] = {false};
  CudaAddress scratch = 0;
  groups_used(comms, used);
  if (!words_probe(comms, stream, error) || !identities_make(comms, used, error) || !peers_meet(comms->peers, error) ||
      !groups_join(comms, used, error) ||
      !cuda_check(comms->cuda, comms->cuda->memory_allocate(&scratch, 256), "allocating memory", error)) {
    return false;
  }
  bool joined = true;
  for (int i = 0; i < comms->channel_count && joined; i++) {
    joined = channel_join(comms, &comms->channel[i], scratch, stream, error);
  }
  comms->cuda->memory_free(scratch);
  return joined && peers_meet(comms->peers, error);
}

// Of the communicator of these mesh axes, by the collectives that go over it.
static NcclUse group_use(const Comms *comms, uint32_t mesh) {
  NcclUse use = {0};
  for (int s = 0; s < comms->plan->segment_count; s++) {
    const PlanSegment *segment = &comms->plan->segments[s];
    for (int i = 0; i < segment->count; i++) {
      const Collective *collective = &segment->instructions[i].as.collective;
      if (segment->instructions[i].kind != INSTRUCTION_COLLECTIVE || collective->mesh % MESH_SETS != mesh) {
        continue;
      }
      const bool all = collective->kind == COLLECTIVE_ALL_TO_ALL, rotates = collective->kind == COLLECTIVE_ROTATE;
      const int others = all ? collective->ranks - 1 : rotates ? 1 : 0;
      const bool window = nccl_window_serves(&comms->nccl, collective);
      use.ranks = collective->ranks;
      use.windows |= window;
      use.rings |= !window && !all && !rotates;
      use.trees |= !window && collective->kind == COLLECTIVE_ALL_REDUCE;
      use.sends = others > use.sends ? others : use.sends;
      use.hears = use.sends;
    }
  }
  return use;
}

int64_t comms_predicted(const Comms *comms) {
  bool used[MESH_SETS] = {false}, any = false;
  int64_t bytes = 0;
  groups_used(comms, used);
  for (uint32_t mesh = 0; mesh < MESH_SETS; mesh++) {
    const NcclUse use = used[mesh] ? group_use(comms, mesh) : (NcclUse){0};
    bytes += used[mesh] ? nccl_memory_of(&use) : 0;
    any |= used[mesh];
  }
  for (int i = 0; i < comms->channel_count; i++) {
    const Channel *channel = &comms->channel[i];
    const bool sends = channel_sends(comms, channel);
    const NcclUse use = {.ranks = 2, .blocks = CHANNEL_BLOCKS, .sends = sends, .hears = !sends};
    bytes += nccl_memory_of(&use);
    any = true;
  }
  return any ? bytes + nccl_memory_code() : 0;
}

void comms_destroy(Comms *comms) {
  Error ignored;
  if (!comms) {
    return;
  }
  for (int i = 0; i < MESH_SETS; i++) {
    if (comms->group[i]) {
      nccl_leave(&comms->nccl, comms->group[i], &ignored);
    }
  }
  for (int i = 0; i < comms->channel_count; i++) {
    if (comms->channel[i].communicator) {
      nccl_leave(&comms->nccl, comms->channel[i].communicator, &ignored);
    }
  }
  comms->cuda->host_unregister(peers_words(comms->peers));
}

// Ranks of several stages have other memory each.
static bool windows_open(Comms *comms, Shared *shared, int64_t bytes, Error *error) {
  for (uint32_t mesh = 0; mesh < MESH_SETS; mesh++) {
    const bool one_plan = comms->plan->pipeline < 0 || !(mesh >> comms->plan->pipeline & 1);
    if (comms->group[mesh] && one_plan &&
        !nccl_window_open(&comms->nccl, comms->group[mesh], shared->memory, bytes, &shared->window[mesh], error)) {
      return false;
    }
  }
  return true;
}

bool comms_allocate(Comms *comms, int64_t bytes, CudaAddress *address, Error *error) {
  Error ignored;
  Shared *shared = &comms->shared[comms->shared_count++];
  bytes = (bytes + WINDOW_UNIT - 1) / WINDOW_UNIT * WINDOW_UNIT;
  shared->plain = !nccl_memory_allocate(&comms->nccl, bytes, &shared->memory, &ignored);
  if (shared->plain) {
    shared->memory = 0;
    if (!cuda_check(comms->cuda, comms->cuda->memory_allocate(&shared->memory, (size_t)bytes),
                    "allocating the GPU's memory", error)) {
      return false;
    }
  }
  *address = shared->memory;
  return shared->plain || windows_open(comms, shared, bytes, error);
}

void comms_free(Comms *comms) {
  for (int i = 0; i < comms->shared_count; i++) {
    Shared *shared = &comms->shared[i];
    for (int mesh = 0; mesh < MESH_SETS; mesh++) {
      nccl_window_close(&comms->nccl, comms->group[mesh], shared->window[mesh]);
    }
    if (shared->memory && shared->plain) {
      comms->cuda->memory_free(shared->memory);
    } else if (shared->memory) {
      nccl_memory_free(&comms->nccl, shared->memory);
    }
  }
  comms->shared_count = 0;
}

void comms_set_part(Comms *comms, CommsPart part) {
  comms->part = part;
}

bool comms_transfers(const Comms *comms) {
  return comms->channel_count > 0;
}

// --- running ---

bool comms_begin(Comms *comms, ProgramKind program, int queues, CudaStream stream, Error *error) {
  comms->program = program;
  comms->number = 0;
  bool good = true;
  for (int q = 0; q < queues && good; q++) {
    good = mark(comms, begun_of(q), 0, stream, error) && mark(comms, ended_of(q), 0, stream, error);
  }
  return good;
}

static bool collective(Comms *comms, const Collective *what, CudaAddress from, CudaAddress to, CudaStream stream,
                       Error *error) {
  const Cuda *cuda = comms->cuda;
  if (what->ranks == 1) {
    const size_t bytes = (size_t)(what->count * element_type_bytes(what->type));
    return from == to || cuda_check(cuda, cuda->copy_within(to, from, bytes, stream), "a collective of one", error);
  }
  int64_t first = 0;
  int index = 0;
  group_of(comms, what->mesh, &first, &index);
  const NcclCollective call = {.kind = what->kind,
                               .reduce = what->reduce,
                               .type = what->type,
                               .ranks = what->ranks,
                               .rank = index,
                               .count = what->count,
                               .from = from,
                               .to = to};
  return nccl_collective(&comms->nccl, comms->group[what->mesh % MESH_SETS], &call, stream, error) &&
         (comms->part != COMMS_COLLECTIVES ||
          cuda_check(cuda, cuda->stream_synchronize(stream), "running a collective once", error));
}

static bool transfer(Comms *comms, const Instruction *instruction, CudaAddress place, CudaStream stream, Error *error) {
  const Transfer *what = &instruction->as.transfer;
  const Channel wanted = channel_of(comms, instruction);
  const Channel *channel =
      bsearch(&wanted, comms->channel, (size_t)comms->channel_count, sizeof *channel, channel_compare);
  const NcclCommunicator communicator = channel->communicator;
  return instruction->kind == INSTRUCTION_SEND
             ? nccl_send(&comms->nccl, communicator, 1, what->type, what->count, place, stream, error)
             : nccl_receive(&comms->nccl, communicator, 0, what->type, what->count, place, stream, error);
}

bool comms_launch(Comms *comms, const Instruction *instruction, CudaAddress from, CudaAddress to, int queue,
                  CudaStream stream, Error *error) {
  const uint32_t word = peers_word(comms->program, ++comms->number);
  const bool collects = instruction->kind == INSTRUCTION_COLLECTIVE;
  if (comms->part == COMMS_NONE || (comms->part == COMMS_COLLECTIVES && !collects)) {
    return true;
  }
  return mark(comms, begun_of(queue), word, stream, error) &&
         (collects ? collective(comms, &instruction->as.collective, from, to, stream, error)
                   : transfer(comms, instruction, to, stream, error)) &&
         mark(comms, ended_of(queue), word, stream, error);
}
