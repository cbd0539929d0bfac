// lower_offload.c: copies to the memory of the host and back, for the values that pass_offload has marked.
//
// What is moved is a buffer: values that lie in one together travel together. The forward's buffer is copied out; the
// backward reads another one, which begins when the copy back begins, and memory.c gives both to others in between.
// Copies have queues of their own (plan/waits.h): whatever takes or reads their memory waits for them.
//
// Where. At most as many bytes travel at once as the largest selected scope (a layer, say) keeps: a copy out stands
// behind what makes its value, and its buffer is held until more than that would be under way; a copy back stands where
// it fits. So each copy has about as long as one layer takes, and no more than one layer is on the device ahead of its
// use. Where nothing that is selected comes behind, as after a single layer, a copy has as long as a layer is supposed
// to take (plan/rates.h). A buffer stays where it is if its copy back would begin while it is held, as in the last
// layers, or if it is so small that the copy costs more than the memory. Forward and backward of a pipeline's stage are
// calls of their own, which hold what they copy until they end: there everything is moved.
#include <stdlib.h>
#include <string.h>

#include "compiler/lower/lower.h"
#include "compiler/plan/rates.h"

enum { MOST_READERS = 2, SMALL_PART = 64 };  // readers: the backward, and the weights' part of it; 64: see leave_small

typedef struct {  // a segment that reads a buffer in the backward
  int segment;
  int first;   // the first instruction that does
  int begin;   // the copy back begins before this one
  int buffer;  // and fills this buffer
} Reader;

typedef struct {
  int buffer, unit;
  int64_t bytes;
  int forward;        // the segment that makes it; -1: none
  int written, used;  // the last instructions there that write and touch it
  int end;            // it is held up to this instruction there, which is not part of it; INT32_MAX: to the end
  int reader_count;
  Reader reader[MOST_READERS];
  bool stays;       // cannot be moved, or need not be
  OffloadFate why;  // it stays
} Kept;

typedef struct {
  int segment, at;  // before instruction `at`
  int tie, order;
  Instruction instruction;
} Insertion;

typedef struct {
  Lower *l;
  Kept *kept;  // by buffer
  ARRAY(Kept *) all;
  ARRAY(Insertion) insertions;
  int segment, now;  // of the visit
  bool backward;
} Offloads;

// --- what is kept ---

static bool is_part(const LowerSegment *segment) {
  return segment->kind == SEGMENT_FORWARD || segment->kind == SEGMENT_BACKWARD || segment->kind == SEGMENT_WEIGHTS ||
         (segment->kind == SEGMENT_ALL && segment->origins.count > 0);
}

static bool is_backward(const LowerSegment *segment, int at) {
  return segment->kind == SEGMENT_ALL ? at >= segment->origins.count || segment->origins.at[at].backward
                                      : segment->kind != SEGMENT_FORWARD;
}

static int backward_begin(const LowerSegment *segment) {
  int at = 0;
  while (at < segment->list.count && !is_backward(segment, at)) {
    at++;
  }
  return at;
}

static void look_backward(const Offloads *o, Kept *kept, bool write) {
  int i = 0;
  while (i < kept->reader_count && kept->reader[i].segment != o->segment) {
    i++;
  }
  kept->stays |= write || i == MOST_READERS;
  if (i == kept->reader_count && i < MOST_READERS) {
    kept->reader[kept->reader_count++] = (Reader){.segment = o->segment, .first = o->now, .buffer = -1};
  }
}

typedef void Visit(const Offloads *o, Place *place, bool write);

static void look(const Offloads *o, Place *place, bool write) {
  Kept *kept = &o->kept[place->slot_stride];
  const LowerSegment *segment = o->l->segments.at[o->segment];
  if (!is_part(segment)) {
    kept->stays = true;
  } else if (o->backward) {
    kept->stays |= kept->forward < 0 || o->l->segments.at[kept->forward]->chunk != segment->chunk;
    look_backward(o, kept, write);
  } else {
    kept->stays |= kept->reader_count > 0 || (kept->forward < 0 ? !write : kept->forward != o->segment);
    kept->forward = o->segment;
    kept->written = write ? o->now : kept->written;
    kept->used = o->now;
  }
}

static void visit_all(Offloads *o, Visit *visit) {
  for (o->segment = 0; o->segment < o->l->segments.count; o->segment++) {
    LowerSegment *segment = o->l->segments.at[o->segment];
    for (o->now = 0; o->now < segment->list.count; o->now++) {
      o->backward = is_backward(segment, o->now);
      Operands operands;
      lower_operands(o->l, &segment->list.at[o->now], &operands);
      for (int i = 0; i < operands.count; i++) {
        visit(o, operands.at[i].place, operands.at[i].access & WRITES);
      }
    }
  }
}

static void find_kept(Offloads *o) {
  Lower *l = o->l;
  o->kept = ARENA_ARRAY(l->c->arena, Kept, l->buffers.count + 1);
  for (int i = 0; i < l->buffers.count; i++) {
    const MemoryBuffer *buffer = &l->buffers.at[i];
    o->kept[i] = (Kept){
        .buffer = i, .bytes = buffer->bytes, .forward = -1, .written = -1, .end = INT32_MAX, .why = OFFLOAD_FIXED};
    o->kept[i].stays = buffer->arena != ARENA_TRANSIENT || buffer->message || buffer->whole || buffer->bytes == 0;
  }
  for (int v = 0; v < l->capacity; v++) {
    const int unit = graph_value(l->graph, v)->offload, buffer = l->storage[v].buffer;
    if (unit > 0 && buffer >= 0) {
      o->kept[buffer].unit = unit;
    }
  }
  visit_all(o, look);
  for (int i = 0; i < l->buffers.count; i++) {
    Kept *kept = &o->kept[i];
    if (kept->unit > 0 && !kept->stays && kept->reader_count > 0) {
      array_push(l->c->arena, &o->all, kept);
    }
  }
}

// --- when it travels ---

static int by_written(const void *a, const void *b) {
  const Kept *x = *(Kept *const *)a, *y = *(Kept *const *)b;
  return x->written != y->written ? x->written - y->written : x->buffer - y->buffer;
}

// The most bytes that one unit keeps.
static int64_t window_bytes(const Offloads *o) {
  Map sums = map_create(o->l->c->arena);
  int64_t most = 0;
  for (int i = 0; i < o->all.count; i++) {
    int64_t sum = map_get_or(&sums, (uint64_t)o->all.at[i]->unit, 0) + o->all.at[i]->bytes;
    map_put(&sums, (uint64_t)o->all.at[i]->unit, sum);
    most = sum > most ? sum : most;
  }
  return most;
}

// Of row statistics and the like the copy, which has to be begun and waited for, costs more than the memory.
static void leave_small(Offloads *o, int64_t window) {
  int count = 0;
  for (int i = 0; i < o->all.count; i++) {
    if (o->all.at[i]->bytes >= window / SMALL_PART) {
      o->all.at[count++] = o->all.at[i];
    } else {
      o->all.at[i]->stays = true;
      o->all.at[i]->why = OFFLOAD_SMALL;
    }
  }
  o->all.count = count;
}

// Copies of one forward segment, in the order in which values are made.
static void copies_out(Offloads *o, int segment, int64_t window) {
  int first = 0;  // of those under way
  int64_t flying = 0;
  for (int i = 0; i < o->all.count; i++) {
    Kept *kept = o->all.at[i];
    if (kept->forward != segment) {
      continue;
    }
    for (; first < i && flying + kept->bytes > window; first++) {
      Kept *before = o->all.at[first];
      if (before->forward == segment) {
        before->end = kept->written > before->used ? kept->written + 1 : before->used + 1;
        flying -= before->bytes;
      }
    }
    flying += kept->bytes;
  }
}

typedef struct {
  Reader *reader;
  int64_t bytes;
} Reading;

static int by_first(const void *a, const void *b) {
  const Reader *x = ((const Reading *)a)->reader, *y = ((const Reading *)b)->reader;
  return x->first != y->first ? x->first - y->first : (x > y) - (x < y);
}

// Copies of one segment of the backward, in the order in which they are needed. Each begins where one that is needed
// before has come.
static void copies_back(Offloads *o, int segment, int64_t window) {
  Reading *readings = ARENA_ARRAY(o->l->c->arena, Reading, o->all.count + 1);
  int count = 0, next = 0, at = 0;
  int64_t flying = 0;
  for (int i = 0; i < o->all.count; i++) {
    for (int r = 0; r < o->all.at[i]->reader_count; r++) {
      if (o->all.at[i]->reader[r].segment == segment) {
        readings[count++] = (Reading){&o->all.at[i]->reader[r], o->all.at[i]->bytes};
      }
    }
  }
  qsort(readings, (size_t)count, sizeof *readings, by_first);
  at = backward_begin(o->l->segments.at[segment]);
  for (int i = 0; i < count; i++) {
    while (next < count && (next == i || flying + readings[next].bytes <= window)) {
      flying += readings[next].bytes;
      readings[next++].reader->begin = at;
    }
    flying -= readings[i].bytes;
    at = readings[i].reader->first;
  }
}

// --- where nothing selected comes behind ---

typedef struct {      // of one segment, in seconds
  double *until;      // by instruction: the time of all before it
  double longest[2];  // what one layer takes forward and backward: a round of a repeat, or without any a call
} Times;

// The outermost round of a repeat around the scope, or the outermost call; -1: there is none.
static ScopeId layer_of(const Graph *graph, ScopeId scope, bool rounds) {
  ScopeId found = -1;
  for (; scope > 0; scope = graph->scopes.at[scope].parent) {
    found = !rounds || graph->scopes.at[scope].index >= 0 ? scope : found;
  }
  return found;
}

static void find_longest(const Lower *l, const LowerSegment *segment, bool rounds, Times *times) {
  double *sums[2];
  for (int b = 0; b < 2; b++) {
    sums[b] = ARENA_ARRAY(l->c->arena, double, l->graph->scopes.count + 1);
  }
  for (int i = 0; i < segment->list.count && i < segment->origins.count; i++) {
    const ScopeId layer = layer_of(l->graph, segment->origins.at[i].scope, rounds);
    const int b = segment->origins.at[i].backward;
    if (layer >= 0) {
      sums[b][layer] += times->until[i + 1] - times->until[i];
      times->longest[b] = sums[b][layer] > times->longest[b] ? sums[b][layer] : times->longest[b];
    }
  }
}

static Times times_of(const Lower *l, const LowerSegment *segment) {
  Times times = {.until = ARENA_ARRAY(l->c->arena, double, segment->list.count + 1)};
  for (int i = 0; i < segment->list.count; i++) {
    times.until[i + 1] = times.until[i] + rates_seconds(&plan_rates, &segment->list.at[i]);
  }
  find_longest(l, segment, true, &times);
  if (times.longest[0] == 0) {
    find_longest(l, segment, false, &times);
  }
  return times;
}

// Ends the copy out one layer's time behind what makes the value, and begins the copy back one layer's time ahead of
// the use, if there is as much between.
static void by_time(Kept *kept, const LowerSegment *segment, const Times *times) {
  Reader *reader = &kept->reader[0];
  int end = kept->written + 1, begin = reader->first;
  while (end < segment->list.count && times->until[end] < times->until[kept->written + 1] + times->longest[0]) {
    end++;
  }
  while (begin > 0 && times->until[begin] > times->until[reader->first] - times->longest[1]) {
    begin--;
  }
  if (begin >= backward_begin(segment)) {
    kept->end = end > kept->used ? end : kept->used + 1;
    reader->begin = begin > reader->begin ? begin : reader->begin;
  }
}

// The copies out that no later one has ended.
static void end_last(Offloads *o, int segment) {
  const LowerSegment *list = o->l->segments.at[segment];
  if (list->kind != SEGMENT_ALL) {
    return;
  }
  const Times times = times_of(o->l, list);
  for (int i = 0; i < o->all.count; i++) {
    Kept *kept = o->all.at[i];
    if (kept->forward == segment && kept->end == INT32_MAX) {
      by_time(kept, list, &times);
    }
  }
}

static void decide(Offloads *o) {
  const int64_t window = window_bytes(o);
  leave_small(o, window);
  if (o->all.count > 0) {
    qsort(o->all.at, (size_t)o->all.count, sizeof *o->all.at, by_written);
  }
  for (int s = 0; s < o->l->segments.count; s++) {
    copies_out(o, s, window);
    copies_back(o, s, window);
    end_last(o, s);
  }
  for (int i = 0; i < o->all.count; i++) {
    Kept *kept = o->all.at[i];
    const LowerSegment *forward = o->l->segments.at[kept->forward];
    if (forward->kind == SEGMENT_ALL) {
      kept->stays = kept->end >= kept->reader[0].begin;
      kept->why = OFFLOAD_SOON;
    } else {
      kept->end = kept->end < forward->list.count ? kept->end : forward->list.count;
    }
  }
}

// --- the instructions ---

static void read_there(const Offloads *o, Place *place, bool write) {
  const Kept *kept = &o->kept[place->slot_stride];
  (void)write;
  for (int r = 0; o->backward && r < kept->reader_count; r++) {
    if (kept->reader[r].segment == o->segment && kept->reader[r].buffer >= 0) {
      place->slot_stride = kept->reader[r].buffer;
      return;
    }
  }
}

static Place place_of_buffer(int buffer) {
  return (Place){.arena = ARENA_CLASS_COUNT, .slot_stride = buffer};
}

static void insert(Offloads *o, int segment, int at, int tie, InstructionKind kind, const Kept *kept, int device,
                   int host) {
  const Instruction *maker = &o->l->segments.at[kept->forward]->list.at[kept->written];
  const Span none = SPAN_NONE;
  const Instruction instruction = {.kind = kind,
                                   .span = maker->span,
                                   .name = maker->name,
                                   .rule = none,
                                   .bytes = (double)kept->bytes,
                                   .as.offload = {kept->bytes, place_of_buffer(device), place_of_buffer(host)}};
  array_push(o->l->c->arena, &o->insertions, ((Insertion){segment, at, tie, o->insertions.count, instruction}));
}

static void hold(Offloads *o, const Kept *kept) {
  Instruction *last = &o->l->segments.at[kept->forward]->list.at[kept->end - 1];
  o->l->buffers.at[kept->buffer].held_too = last->holds;
  last->holds = 1 + kept->buffer;
}

static void move(Offloads *o, Kept *kept) {
  const int host = new_buffer(o->l, ARENA_OFFLOAD, kept->bytes);
  insert(o, kept->forward, kept->written + 1, kept->buffer, INSTRUCTION_OFFLOAD, kept, kept->buffer, host);
  hold(o, kept);
  for (int r = 0; r < kept->reader_count; r++) {
    Reader *reader = &kept->reader[r];
    reader->buffer = new_buffer(o->l, ARENA_TRANSIENT, kept->bytes);
    insert(o, reader->segment, reader->begin, reader->first, INSTRUCTION_FETCH, kept, reader->buffer, host);
  }
}

// Copies out before copies back: memory is given back before other memory is taken.
static int by_place(const void *a, const void *b) {
  const Insertion *x = a, *y = b;
  return x->segment != y->segment                     ? x->segment - y->segment
         : x->at != y->at                             ? x->at - y->at
         : x->instruction.kind != y->instruction.kind ? (int)x->instruction.kind - (int)y->instruction.kind
         : x->tie != y->tie                           ? x->tie - y->tie
                                                      : x->order - y->order;
}

static void rebuild(Offloads *o) {
  Arena *arena = o->l->c->arena;
  qsort(o->insertions.at, (size_t)o->insertions.count, sizeof *o->insertions.at, by_place);
  int next = 0;
  for (int s = 0; s < o->l->segments.count; s++) {
    InstructionList *list = &o->l->segments.at[s]->list, all = {0};
    for (int i = 0; i <= list->count; i++) {
      for (; next < o->insertions.count && o->insertions.at[next].segment == s && o->insertions.at[next].at == i;
           next++) {
        array_push(arena, &all, o->insertions.at[next].instruction);
      }
      if (i < list->count) {
        array_push(arena, &all, list->at[i]);
      }
    }
    *list = all;
  }
}

// --- what became of it ---

static OffloadFate fate_of(const Kept *kept) {
  return kept->unit == 0 || kept->reader_count == 0 ? OFFLOAD_NONE : kept->stays ? kept->why : OFFLOAD_MOVED;
}

static void tell(Offloads *o) {
  Lower *l = o->l;
  for (int i = 0; i < l->c->offload_marks.count; i++) {
    const OffloadMark *mark = &l->c->offload_marks.at[i];
    const int buffer = mark->value < l->capacity ? l->storage[mark->value].buffer : -1;
    const OffloadFate fate = buffer >= 0 ? fate_of(&o->kept[buffer]) : OFFLOAD_NONE;
    OffloadFate *best = &l->c->offloads[mark->rule];
    *best = fate > *best ? fate : *best;
  }
  for (int i = 0; i < l->buffers.count; i++) {
    const Kept *kept = &o->kept[i];
    const OffloadFate fate = fate_of(kept);
    if (kept->unit > 0 && kept->written >= 0 && fate != OFFLOAD_MOVED) {
      const Instruction *maker = &l->segments.at[kept->forward]->list.at[kept->written];
      array_push(l->c->arena, &l->stays, ((OffloadStay){maker->name, maker->span, kept->bytes, fate}));
    }
  }
}

void lower_offload(Lower *l) {
  Offloads o = {.l = l};
  if (l->c->spec->offload.count == 0) {
    return;
  }
  find_kept(&o);
  decide(&o);
  tell(&o);
  for (int i = 0; i < o.all.count; i++) {
    if (!o.all.at[i]->stays) {
      move(&o, o.all.at[i]);
    }
  }
  visit_all(&o, read_there);
  if (o.insertions.count > 0) {
    rebuild(&o);
  }
}
