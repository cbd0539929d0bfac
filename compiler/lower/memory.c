// memory.c: lifetimes of buffers, and their offsets in the arenas. Nothing is allocated while a program runs.
//
// What several segments touch lasts for the whole program. Behind it every segment has the same memory for buffers of
// its own, placed in the order in which they begin; each takes the smallest gap that fits among those alive.
#include <stdlib.h>
#include <string.h>

#include "compiler/lower/lower.h"

#include "base/integer.h"
#include "compiler/plan/numbers.h"
#include "compiler/plan/operands.h"
#include "compiler/plan/rates.h"

void lower_operands(const Lower *l, Instruction *instruction, Operands *out) {
  int kept = 0;
  instruction_operands((OperandsOf){l->kernels->all.at, l->graph->real}, instruction, out);
  for (int i = 0; i < out->count; i++) {
    if (out->at[i].memory) {
      out->at[kept++] = out->at[i];
    }
  }
  out->count = kept;
}

typedef struct {
  Lower *l;
  int now, segment;
} Touch;

// segment and chunk of a buffer: -2 while nothing touches it, -1 once several do.
static void touch(Touch *at, const Place *place, bool write) {
  MemoryBuffer *buffer = &at->l->buffers.at[place->slot_stride];
  const LowerSegment *segment = at->l->segments.at[at->segment];
  bool microbatch = segment->kind != SEGMENT_APPLY && segment->kind != SEGMENT_ALL && segment->kind != SEGMENT_PREPARE;
  int chunk = microbatch ? segment->chunk : -1;
  buffer->first = at->now < buffer->first ? at->now : buffer->first;
  buffer->last = at->now > buffer->last ? at->now : buffer->last;
  buffer->chunk = buffer->chunk == -2 || buffer->chunk == chunk ? chunk : -1;
  buffer->shared |= !microbatch;
  buffer->parts |= write && buffer->maker && place->offset != buffer->made_at;
  buffer->made_at = write && !buffer->maker ? place->offset : buffer->made_at;
  buffer->maker = write && !buffer->maker ? &segment->list.at[at->now] : buffer->maker;
  buffer->segment = buffer->segment == -2 || buffer->segment == at->segment ? at->segment : -1;
}

// The instruction behind this one that first touches a buffer, or the last of the list.
static int touched_next(const Lower *l, const InstructionList *list, int at, int64_t buffer) {
  for (int i = at + 1; i < list->count; i++) {
    Operands operands;
    lower_operands(l, &list->at[i], &operands);
    for (int j = 0; j < operands.count; j++) {
      if (operands.at[j].place->slot_stride == buffer) {
        return i;
      }
    }
  }
  return list->count - 1;
}

static bool scatters_beside(const Instruction *instruction) {
  return instruction->aside && instruction->kind == INSTRUCTION_COLLECTIVE &&
         instruction->as.collective.kind == COLLECTIVE_REDUCE_SCATTER;
}

// When a scatter beside arithmetic must be over if ranks are not to wait for each other anyway: two more of its queue
// have been given to it since, and it has had twice the time that it is supposed to take.
static int over_by(const InstructionList *list, int at) {
  const double needs = 2 * rates_seconds(&plan_rates, &list->at[at]);
  double had = 0;
  int since = 0;
  for (int i = at + 1; i < list->count; i++) {
    const Instruction *instruction = &list->at[i];
    since += scatters_beside(instruction) && instruction->as.collective.mesh == list->at[at].as.collective.mesh;
    had += instruction->aside ? 0 : rates_seconds(&plan_rates, instruction);
    if (since >= 2 && had >= needs) {
      return i;
    }
  }
  return list->count - 1;
}

// What a collective beside arithmetic reads stays until somebody waits for what it makes: whatever took its memory
// before would wait for it first. Of gradients nobody reads what is scattered before all of them are there: their
// memory is free when the scatter must be over.
static void keep_beside(Lower *l, int segment) {
  const InstructionList *list = &l->segments.at[segment]->list;
  for (int i = 0; i < list->count; i++) {
    const Collective *collective = &list->at[i].as.collective;
    if (list->at[i].aside) {
      MemoryBuffer *from = &l->buffers.at[collective->from.slot_stride];
      const int over = scatters_beside(&list->at[i]) ? over_by(list, i) : list->count - 1;
      const int read = touched_next(l, list, i, collective->to.slot_stride), until = over < read ? over : read;
      from->last = from->segment == segment && until > from->last ? until : from->last;
    }
  }
}

// What lowering holds beyond what touches it: copies to the host are given time.
static void keep_held(Lower *l, int segment) {
  const InstructionList *list = &l->segments.at[segment]->list;
  for (int i = 0; i < list->count; i++) {
    for (int held = list->at[i].holds; held > 0; held = l->buffers.at[held - 1].held_too) {
      MemoryBuffer *buffer = &l->buffers.at[held - 1];
      buffer->last = i > buffer->last ? i : buffer->last;
    }
  }
}

static int64_t aligned(int64_t bytes) {
  return round_up(bytes, PLAN_ALIGN);
}

typedef struct {
  int64_t offset, bytes;
} Gap;

typedef struct {  // free gaps in order of offset; the last is endless
  Gap *at;
  int count, capacity;
  int64_t peak;
} FreeList;

static void free_insert(Arena *arena, FreeList *list, int at, Gap gap) {
  if (list->count == list->capacity) {
    list->at = array_grow(arena, list->at, sizeof *list->at, &list->capacity);
  }
  memmove(&list->at[at + 1], &list->at[at], sizeof *list->at * (size_t)(list->count - at));
  list->at[at] = gap;
  list->count++;
}

static int64_t take_gap(FreeList *list, int64_t bytes) {
  int best = -1;
  for (int i = 0; i < list->count; i++) {
    if (list->at[i].bytes >= bytes && (best < 0 || list->at[i].bytes < list->at[best].bytes)) {
      best = i;
    }
  }
  int64_t offset = list->at[best].offset;
  list->at[best].offset += bytes;
  list->at[best].bytes -= bytes;
  if (list->at[best].bytes == 0) {
    memmove(&list->at[best], &list->at[best + 1], sizeof *list->at * (size_t)(list->count - best - 1));
    list->count--;
  }
  list->peak = offset + bytes > list->peak ? offset + bytes : list->peak;
  return offset;
}

static void give_gap(Arena *arena, FreeList *list, Gap gap) {
  int at = 0;
  while (at < list->count && list->at[at].offset < gap.offset) {
    at++;
  }
  bool joins_next = at < list->count && gap.offset + gap.bytes == list->at[at].offset;
  bool joins_last = at > 0 && list->at[at - 1].offset + list->at[at - 1].bytes == gap.offset;
  if (joins_last && joins_next) {
    list->at[at - 1].bytes += gap.bytes + list->at[at].bytes;
    memmove(&list->at[at], &list->at[at + 1], sizeof *list->at * (size_t)(list->count - at - 1));
    list->count--;
  } else if (joins_last) {
    list->at[at - 1].bytes += gap.bytes;
  } else if (joins_next) {
    list->at[at].offset = gap.offset;
    list->at[at].bytes += gap.bytes;
  } else {
    free_insert(arena, list, at, gap);
  }
}

// Buffers that several segments touch, or that messages are sent from: each has a place of its own for the whole
// program; one for each microbatch in flight, if no other segment than those of a microbatch reads it. So has what
// waits in the memory of the host.
static int64_t place_lasting(Lower *l, ArenaClass arena) {
  int64_t bytes = 0;
  for (int i = 0; i < l->buffers.count; i++) {
    MemoryBuffer *buffer = &l->buffers.at[i];
    const bool lasts = buffer->segment == -1 || buffer->message || arena == ARENA_OFFLOAD;
    if (buffer->arena != arena || buffer->segment == -2 || !lasts) {
      continue;
    }
    int64_t size = aligned(buffer->bytes), copies = 1;
    if (!buffer->shared && buffer->chunk >= 0) {
      copies = l->lanes ? l->lanes[buffer->chunk] : 1;
      buffer->lane_stride = copies > 1 ? size : 0;
    } else if (!buffer->shared) {  // of several chunks
      copies = l->graph->slots;
      buffer->slot_stride = copies > 1 ? size : 0;
    }
    buffer->copies = copies;
    buffer->offset = bytes;
    bytes += size * copies;
  }
  return bytes;
}

// Buffers of one segment, between its instructions; returns the peak, which is reached at instruction *moment.
static int64_t place_segment(Lower *l, int segment, int64_t base, int *moment) {
  Arena *arena = l->c->arena;
  int instructions = l->segments.at[segment]->list.count;
  int *begin = ARENA_ARRAY(arena, int, instructions + 2), *next_begin = ARENA_ARRAY(arena, int, l->buffers.count + 1);
  int *end = ARENA_ARRAY(arena, int, instructions + 2), *next_end = ARENA_ARRAY(arena, int, l->buffers.count + 1);
  memset(begin, -1, sizeof *begin * (size_t)(instructions + 2));
  memset(end, -1, sizeof *end * (size_t)(instructions + 2));
  for (int i = l->buffers.count - 1; i >= 0; i--) {
    const MemoryBuffer *buffer = &l->buffers.at[i];
    if (buffer->arena == ARENA_TRANSIENT && buffer->segment == segment && !buffer->message && buffer->bytes > 0) {
      next_begin[i] = begin[buffer->first];
      begin[buffer->first] = i;
      next_end[i] = end[buffer->last];
      end[buffer->last] = i;
    }
  }
  FreeList list = {0};
  free_insert(arena, &list, 0, (Gap){0, INT64_MAX / 2});
  for (int now = 0; now < instructions; now++) {
    const int64_t before = list.peak;
    for (int i = begin[now]; i >= 0; i = next_begin[i]) {
      l->buffers.at[i].offset = take_gap(&list, aligned(l->buffers.at[i].bytes));
    }
    *moment = list.peak > before ? now : *moment;
    for (int i = end[now]; i >= 0; i = next_end[i]) {
      give_gap(arena, &list, (Gap){l->buffers.at[i].offset, aligned(l->buffers.at[i].bytes)});
      l->buffers.at[i].offset += base;
    }
  }
  return base + list.peak;
}

static void resolve(const Lower *l, Place *place) {
  const MemoryBuffer *buffer = &l->buffers.at[place->slot_stride];
  *place = (Place){.arena = buffer->arena,
                   .offset = buffer->offset + place->offset,
                   .slot_stride = buffer->slot_stride,
                   .lane_stride = buffer->lane_stride,
                   .term = place->term};
}

void memory_lifetimes(Lower *l) {
  Operands operands;
  for (int part = 0; part < l->segments.count; part++) {
    InstructionList *list = &l->segments.at[part]->list;
    Touch at = {l, 0, part};
    for (at.now = 0; at.now < list->count; at.now++) {
      lower_operands(l, &list->at[at.now], &operands);
      for (int i = 0; i < operands.count; i++) {
        touch(&at, operands.at[i].place, operands.at[i].access & WRITES);
      }
    }
  }
  for (int part = 0; part < l->segments.count; part++) {
    keep_beside(l, part);
    keep_held(l, part);
  }
}

// --- what the host writes and reads ---

static void place_on_host(Lower *l, bool *placed, int64_t buffer, int64_t *end) {
  MemoryBuffer *at = &l->buffers.at[buffer];
  if (at->arena == ARENA_HOST && !placed[buffer]) {
    at->offset = *end;
    *end = aligned(*end + at->bytes);
    placed[buffer] = true;
  }
}

// The input whose name comes next, of those that have no place yet, or NULL.
static const PlanInput *next_input(const Lower *l, const bool *placed) {
  const PlanInput *next = NULL;
  for (int i = 0; i < l->inputs.count; i++) {
    const PlanInput *input = &l->inputs.at[i];
    if (!placed[input->place.slot_stride] && (!next || strcmp(input->name, next->name) < 0)) {
      next = input;
    }
  }
  return next;
}

// Training programs of one plan have the same there in the same places, in whatever order they come to it; but for the
// number of the step, which is first, since under one precision of a run they may read it and under another not.
static int64_t place_host(Lower *l) {
  bool *placed = ARENA_ARRAY(l->c->arena, bool, l->buffers.count + 1);
  int64_t end = 0;
  for (int i = 0; i < l->inputs.count; i++) {
    if (strcmp(l->inputs.at[i].name, INPUT_STEP) == 0) {
      place_on_host(l, placed, l->inputs.at[i].place.slot_stride, &end);
    }
  }
  end = l->c->spec->histories ? PLAN_ALIGN : end;
  for (const PlanInput *input; (input = next_input(l, placed)) != NULL;) {
    place_on_host(l, placed, input->place.slot_stride, &end);
  }
  for (int i = 0; i < l->outputs.count; i++) {
    place_on_host(l, placed, l->outputs.at[i].place.slot_stride, &end);
  }
  for (int i = 0; i < l->buffers.count; i++) {
    place_on_host(l, placed, i, &end);
  }
  return end;
}

void memory_place(Lower *l) {
  l->host_bytes = place_host(l);
  l->offload_bytes = place_lasting(l, ARENA_OFFLOAD);
  const int64_t lasting = place_lasting(l, ARENA_TRANSIENT);
  l->transient_bytes = lasting;
  l->fullest = (LowerMoment){-1, 0};
  for (int part = 0; part < l->segments.count; part++) {
    int now = 0;
    const int64_t top = place_segment(l, part, lasting, &now);
    if (top > l->transient_bytes) {
      l->transient_bytes = top;
      l->fullest = (LowerMoment){part, now};
    }
  }
}

void assign_memory(Lower *l) {
  add_given_inputs(l);
  memory_lifetimes(l);
  memory_place(l);
}

void memory_resolve(Lower *l) {
  Operands operands;
  for (int part = 0; part < l->segments.count; part++) {
    InstructionList *list = &l->segments.at[part]->list;
    for (int i = 0; i < list->count; i++) {
      lower_operands(l, &list->at[i], &operands);
      for (int j = 0; j < operands.count; j++) {
        resolve(l, operands.at[j].place);
      }
    }
  }
  for (int i = 0; i < l->inputs.count; i++) {
    resolve(l, &l->inputs.at[i].place);
  }
  for (int i = 0; i < l->outputs.count; i++) {
    resolve(l, &l->outputs.at[i].place);
  }
}
