// lower_beside.c: collectives beside arithmetic: where they stand in the lists, in which parts, on which queue.
//
// A reduction stands behind the last instruction that makes what it reduces, so that this needs no memory any longer;
// one that ends where it begins needs none for its result. A sum of gradients over all ranks is cut into buckets, those
// that are complete first being first; gradients that are scattered are in buckets already (lang/packs.c). A gather of
// what the program does not write stands where the one before it was needed, one layer ahead. A communicator whose
// collectives then have products beside them has a queue of its own (plan/waits.h). Memory that a collective of such a
// queue reads is kept until somebody waits for it, that of gradients until it must be over (memory.c).
#include <stdlib.h>
#include <string.h>

#include "compiler/lower/touches.h"

enum { PIECE_ALIGN = 16 };  // of what kernels load at once

typedef struct {
  Lower *l;
  int64_t bucket_bytes;
  BufferTouches *of;  // by buffer, in the order of the lists
} Beside;

static bool is_collective(const Instruction *instruction, CollectiveKind kind) {
  return instruction->kind == INSTRUCTION_COLLECTIVE && instruction->as.collective.kind == kind;
}

static bool is_plain(const Lower *l, int buffer) {
  const MemoryBuffer *at = &l->buffers.at[buffer];
  return at->arena == ARENA_TRANSIENT && !at->message;
}

// --- sums that end where they begin ---

// Of the last segment: nothing else of the run comes after it.
static bool ends_where_it_begins(const Beside *b, int segment, int at, const Collective *collective) {
  const Lower *l = b->l;
  const int from = touches_buffer(&collective->from), to = touches_buffer(&collective->to);
  const MemoryBuffer *x = &l->buffers.at[from], *y = &l->buffers.at[to];
  bool good = from != to && is_plain(l, from) && is_plain(l, to) && !x->whole && !y->whole && x->bytes == y->bytes &&
              collective->from.offset == 0 && collective->to.offset == 0 && collective->from.term == 0 &&
              collective->to.term == 0;
  for (int i = 0; good && i < b->of[from].count; i++) {
    const BufferTouch *touch = &b->of[from].at[i];
    good = touch->segment == segment ? touch->at <= at : segment == l->segments.count - 1;
  }
  for (int i = 0; good && i < b->of[to].count; i++) {
    good = b->of[to].at[i].segment == segment && b->of[to].at[i].at >= at;
  }
  return good;
}

// What a scatter behind the microbatches leaves of what they added up: its piece stays where it was, and needs no
// memory that something of theirs had, for whose end it would wait.
static bool leaves_its_piece(const Beside *b, int segment, int at, const Collective *collective) {
  const Lower *l = b->l;
  const int from = touches_buffer(&collective->from), to = touches_buffer(&collective->to);
  const int64_t bytes = collective->count * element_type_bytes(collective->type);
  bool good = from != to && is_plain(l, from) && is_plain(l, to) && !l->buffers.at[from].whole &&
              !l->buffers.at[to].whole && l->buffers.at[to].bytes <= bytes && bytes % PIECE_ALIGN == 0 &&
              collective->from.offset == 0 && collective->to.offset == 0 && collective->from.term == 0 &&
              collective->to.term == 0 && segment == l->segments.count - 1;
  bool before = false;
  for (int i = 0; good && i < b->of[from].count; i++) {
    const BufferTouch *touch = &b->of[from].at[i];
    before |= touch->segment != segment;
    good = touch->segment != segment || touch->at <= at;
  }
  for (int i = 0; good && i < b->of[to].count; i++) {
    const BufferTouch *touch = &b->of[to].at[i];
    good = touch->segment == segment && touch->at >= at && !touch->elsewhere;
  }
  return good && before;
}

// Where the block of this rank begins in what its group scatters.
static int block_term(Lower *l, const Collective *collective) {
  int64_t stride[PLAN_MAX_MESH] = {0}, block = collective->count * element_type_bytes(collective->type);
  for (int m = l->c->spec->mesh_count - 1; m >= 0; m--) {
    if (collective->mesh >> m & 1) {
      stride[m] = block;
      block *= l->c->spec->mesh[m].size;
    }
  }
  return term_of(l, stride);
}

// What has a term of its own can have no other: `term` is 0, or that of the rest.
static void move_buffer(Beside *b, int segment, int from, int to, int term) {
  InstructionList *list = &b->l->segments.at[segment]->list;
  for (int i = 0; i < b->of[from].count; i++) {
    Operands operands;
    lower_operands(b->l, &list->at[b->of[from].at[i].at], &operands);
    for (int o = 0; o < operands.count; o++) {
      if (touches_buffer(operands.at[o].place) == from) {
        operands.at[o].place->slot_stride = to;
        operands.at[o].place->term += term;
      }
    }
    array_push(b->l->c->arena, &b->of[to], b->of[from].at[i]);
  }
  b->of[from].count = 0;
}

static void sum_in_place(Beside *b) {
  for (int s = 0; s < b->l->segments.count; s++) {
    InstructionList *list = &b->l->segments.at[s]->list;
    for (int i = 0; i < list->count; i++) {
      const Collective *collective = &list->at[i].as.collective;
      const int from = touches_buffer(&collective->from), to = touches_buffer(&collective->to);
      if (is_collective(&list->at[i], COLLECTIVE_ALL_REDUCE) && collective->ranks > 1 &&
          ends_where_it_begins(b, s, i, collective)) {
        move_buffer(b, s, to, from, 0);
      } else if (is_collective(&list->at[i], COLLECTIVE_REDUCE_SCATTER) && collective->ranks > 1 &&
                 leaves_its_piece(b, s, i, collective)) {
        move_buffer(b, s, to, from, block_term(b->l, collective));
      }
    }
  }
}

// --- buckets ---

// A sum that ends where it begins takes no memory wherever it stands.
static bool is_in_place(const Instruction *instruction) {
  const Collective *collective = &instruction->as.collective;
  return is_collective(instruction, COLLECTIVE_ALL_REDUCE) &&
         touches_buffer(&collective->from) == touches_buffer(&collective->to) &&
         collective->from.offset == collective->to.offset && collective->from.term == collective->to.term;
}

typedef struct {
  int64_t begin, end;  // bytes in the buffer
  int segment, at;     // of the last that writes in it
} Bucket;

static int by_offset(const void *a, const void *b) {
  const BufferTouch *x = a, *y = b;
  return x->offset != y->offset     ? (x->offset < y->offset ? -1 : 1)
         : x->segment != y->segment ? x->segment - y->segment
                                    : x->at - y->at;
}

static int by_time(const void *a, const void *b) {
  const Bucket *x = a, *y = b;
  return x->segment != y->segment ? x->segment - y->segment
         : x->at != y->at         ? x->at - y->at
         : x->begin < y->begin    ? -1
                                  : x->begin > y->begin;
}

// Cuts the buffer between what its writers before this instruction write.
static int find_buckets(const Beside *b, int segment, int at, int buffer, Bucket **out) {
  Arena *arena = b->l->c->arena;
  const BufferTouches *all = &b->of[buffer];
  BufferTouches writers = {0};
  for (int i = 0; i < all->count; i++) {
    if (all->at[i].writes && (all->at[i].segment != segment || all->at[i].at < at)) {
      array_push(arena, &writers, all->at[i]);
    }
  }
  qsort(writers.at, (size_t)writers.count, sizeof *writers.at, by_offset);
  const int64_t size = b->l->buffers.at[buffer].bytes;
  *out = ARENA_ARRAY(arena, Bucket, writers.count + 1);
  int count = 0;
  int64_t reach = 0;  // of the writers so far
  Bucket bucket = {0, 0, 0, -1};
  for (int i = 0; i < writers.count; i++) {
    const BufferTouch *writer = &writers.at[i];
    const bool cuts = writer->offset >= reach && writer->offset - bucket.begin >= b->bucket_bytes &&
                      size - writer->offset >= b->bucket_bytes && writer->offset % PLAN_ALIGN == 0;
    if (cuts) {
      bucket.end = writer->offset;
      (*out)[count++] = bucket;
      bucket = (Bucket){writer->offset, 0, 0, -1};
    }
    const bool later =
        writer->segment > bucket.segment || (writer->segment == bucket.segment && writer->at > bucket.at);
    bucket.segment = later ? writer->segment : bucket.segment;
    bucket.at = later ? writer->at : bucket.at;
    reach = writer->offset + writer->bytes > reach ? writer->offset + writer->bytes : reach;
  }
  bucket.end = size;
  (*out)[count++] = bucket;
  qsort(*out, (size_t)count, sizeof **out, by_time);
  return count;
}

static void cut_sum(Beside *b, int segment, int at, const Instruction *sum, InstructionList *into) {
  const Collective *whole = &sum->as.collective;
  const int64_t bytes = element_type_bytes(whole->type), all = whole->count * bytes;
  Bucket *buckets;
  const int count = find_buckets(b, segment, at, touches_buffer(&whole->from), &buckets);
  for (int i = 0; i < count; i++) {
    const int64_t end = buckets[i].end < all ? buckets[i].end : all;
    Instruction part = *sum;
    part.as.collective.count = (end - buckets[i].begin) / bytes;
    part.as.collective.from.offset = part.as.collective.to.offset = buckets[i].begin;
    part.bytes = sum->bytes * (double)part.as.collective.count / (double)whole->count;
    if (end > buckets[i].begin) {
      array_push(b->l->c->arena, into, part);
    }
  }
}

static void cut_sums(Beside *b) {
  Lower *l = b->l;
  for (int s = 0; s < l->segments.count; s++) {
    InstructionList *list = &l->segments.at[s]->list, made = {0};
    for (int i = 0; i < list->count; i++) {
      const Instruction *at = &list->at[i];
      const Collective *sum = &at->as.collective;
      const bool cut = is_in_place(at) && sum->ranks > 1 && sum->from.offset == 0 && sum->from.term == 0 &&
                       sum->count * element_type_bytes(sum->type) >= 2 * b->bucket_bytes;
      if (cut) {
        cut_sum(b, s, i, at, &made);
      } else {
        array_push(l->c->arena, &made, *at);
      }
    }
    *list = made;
  }
}

// --- where they stand ---

typedef struct {
  Instruction instruction;
  int behind, rank;  // stands behind this one of the list, -1: before all; of those that do in this order
} Placed;

static int by_standing(const void *a, const void *b) {
  const Placed *x = a, *y = b;
  return x->behind != y->behind ? x->behind - y->behind : x->rank - y->rank;
}

// Behind which instruction of its segment the operands of a collective are as it needs them, once those before it stand
// as `placed` says (NULL: as in the list); -1: from the beginning.
static int ready_behind(const Beside *b, int segment, int at, Instruction *instruction, const Placed *placed) {
  Operands operands;
  int behind = -1;
  lower_operands(b->l, instruction, &operands);
  for (int o = 0; o < operands.count; o++) {
    const BufferTouches *touches = &b->of[touches_buffer(operands.at[o].place)];
    const BufferTouch own = touches_of_operand(b->l, &operands.at[o]);
    for (int i = 0; i < touches->count; i++) {
      const BufferTouch *touch = &touches->at[i];
      if (touch->segment == segment && touch->at < at && (touch->writes || own.writes) && touches_meet(touch, &own)) {
        const int stands = placed ? placed[touch->at].behind : touch->at;
        behind = stands > behind ? stands : behind;
      }
    }
  }
  return behind;
}

// When the bytes that a collective reads were written last, in the order of the segments; -1: by nobody before this
// one. Those of its segment that it follows have their times already.
static int64_t written(const Beside *b, int segment, int at, Instruction *instruction, const int64_t *time) {
  Operands operands;
  int64_t last = -1;
  lower_operands(b->l, instruction, &operands);
  for (int o = 0; o < operands.count; o++) {
    const BufferTouches *touches = &b->of[touches_buffer(operands.at[o].place)];
    const BufferTouch own = touches_of_operand(b->l, &operands.at[o]);
    const bool reads = operands.at[o].place == &instruction->as.collective.from;
    for (int i = 0; i < touches->count; i++) {
      const BufferTouch *touch = &touches->at[i];
      const bool before = touch->segment < segment && touch->writes && reads;
      const bool beside = touch->segment == segment && touch->at < at && (touch->writes || own.writes);
      if ((before || beside) && touches_meet(touch, &own)) {
        const int64_t then = before ? ((int64_t)touch->segment << 32) + touch->at : time[touch->at];
        last = then > last ? then : last;
      }
    }
  }
  return last;
}

// Of reductions that nothing in their segment holds back, those come first that were complete first.
static void order_complete(const Beside *b, int segment, Placed *placed, int count) {
  int64_t *time = ARENA_ARRAY(b->l->c->arena, int64_t, count + 1);
  int *first = ARENA_ARRAY(b->l->c->arena, int, count + 1), firsts = 0;
  for (int i = 0; i < count; i++) {
    if (placed[i].behind < 0) {
      time[i] = written(b, segment, i, &b->l->segments.at[segment]->list.at[i], time);
      first[firsts++] = i;
    }
  }
  for (int i = 0; i < firsts; i++) {
    placed[first[i]].rank = 0;
    for (int j = 0; j < firsts; j++) {
      const int64_t other = time[first[j]], own = time[first[i]];
      placed[first[i]].rank += other < own || (other == own && j < i);
    }
  }
}

// Gathers that follow each other directly stand together; each such group stands where the one before it was.
static void place_list(Beside *b, int segment) {
  Arena *arena = b->l->c->arena;
  InstructionList *list = &b->l->segments.at[segment]->list;
  Placed *placed = ARENA_ARRAY(arena, Placed, list->count + 1);
  int last_group = 0, group = -1;  // where the last group of gathers, and this one, were
  for (int i = 0; i < list->count; i++) {
    Instruction *at = &list->at[i];
    placed[i] = (Placed){*at, i, 2 * i + 1};
    if (at->kind != INSTRUCTION_COLLECTIVE || at->as.collective.ranks == 1) {
      continue;
    }
    const int ready = ready_behind(b, segment, i, at, placed) + 1;
    if (is_collective(at, COLLECTIVE_ALL_GATHER)) {
      if (i == 0 || !is_collective(&list->at[i - 1], COLLECTIVE_ALL_GATHER)) {
        last_group = group >= 0 ? group : i;
        group = i;
      }
      placed[i].behind = b->l->c->spec->overlap && ready == 0 ? last_group : i;
    } else if (is_collective(at, COLLECTIVE_REDUCE_SCATTER) || is_collective(at, COLLECTIVE_ALL_REDUCE)) {
      placed[i].behind = ready - 1;
    }
    placed[i].rank = placed[i].behind < i ? 2 * i : placed[i].rank;
  }
  order_complete(b, segment, placed, list->count);
  qsort(placed, (size_t)list->count, sizeof *placed, by_standing);
  for (int i = 0; i < list->count; i++) {
    list->at[i] = placed[i].instruction;
  }
}

// --- which stand beside ---

// Whether products stand between what a collective waits for and what waits for it.
static bool pays(const Beside *b, int segment, int at) {
  const InstructionList *list = &b->l->segments.at[segment]->list;
  Instruction *instruction = &list->at[at];
  const BufferTouches *made = &b->of[touches_buffer(&instruction->as.collective.to)];
  int until = list->count, behind = ready_behind(b, segment, at, instruction, NULL);
  for (int i = 0; i < made->count; i++) {
    const bool later = made->at[i].segment == segment && made->at[i].at > at;
    until = later && made->at[i].at < until ? made->at[i].at : until;
  }
  const SegmentKind kind = b->l->segments.at[segment]->kind;
  const bool others = kind == SEGMENT_PREPARE || (kind == SEGMENT_APPLY && behind < 0);  // those of other segments
  for (int i = behind + 1; i < until && !others; i++) {
    if (instruction_multiplies(&list->at[i]) || instruction_attends(&list->at[i])) {
      return true;
    }
  }
  return others;
}

typedef struct {
  uint32_t mesh;
  double bytes;  // that have products beside them
  bool never;
} Communicator;

static int by_bytes(const void *a, const void *b) {
  const Communicator *x = a, *y = b;
  return x->bytes != y->bytes ? (x->bytes > y->bytes ? -1 : 1) : x->mesh < y->mesh ? -1 : x->mesh > y->mesh;
}

static Communicator *communicator_of(Arena *arena, Communicator **all, int *count, uint32_t mesh) {
  for (int i = 0; i < *count; i++) {
    if ((*all)[i].mesh == mesh) {
      return &(*all)[i];
    }
  }
  if (!*all) {
    *all = ARENA_ARRAY(arena, Communicator, 1 << PLAN_MAX_MESH);
  }
  (*all)[*count] = (Communicator){.mesh = mesh};
  return &(*all)[(*count)++];
}

static void choose_queues(Beside *b) {
  Lower *l = b->l;
  Communicator *all = NULL;
  int count = 0;
  for (int s = 0; s < l->segments.count; s++) {
    const InstructionList *list = &l->segments.at[s]->list;
    for (int i = 0; i < list->count; i++) {
      const Collective *collective = &list->at[i].as.collective;
      if (list->at[i].kind == INSTRUCTION_COLLECTIVE) {
        Communicator *at = communicator_of(l->c->arena, &all, &count, collective->mesh);
        at->never |= collective->ranks == 1;
        at->bytes += pays(b, s, i) ? list->at[i].bytes : 0;
      }
    }
  }
  if (count > 0) {
    qsort(all, (size_t)count, sizeof *all, by_bytes);
  }
  uint32_t chosen[PLAN_MAX_ASIDE];
  int chosen_count = 0;
  for (int i = 0; i < count && chosen_count < PLAN_MAX_ASIDE; i++) {
    if (!all[i].never && all[i].bytes > 0) {
      chosen[chosen_count++] = all[i].mesh;
    }
  }
  for (int s = 0; s < l->segments.count; s++) {
    InstructionList *list = &l->segments.at[s]->list;
    for (int i = 0; i < list->count; i++) {
      for (int c = 0; c < chosen_count && list->at[i].kind == INSTRUCTION_COLLECTIVE; c++) {
        list->at[i].aside |= list->at[i].as.collective.mesh == chosen[c];
      }
    }
  }
}

void lower_beside(Lower *l) {
  Beside b = {.l = l, .bucket_bytes = l->c->spec->bucket_bytes};
  if (l->c->spec->mesh_count == 0) {
    return;
  }
  b.of = touches_by_buffer(l);
  sum_in_place(&b);
  if (l->c->spec->overlap) {
    cut_sums(&b);
    b.of = touches_by_buffer(l);
  }
  for (int s = 0; s < l->segments.count; s++) {
    place_list(&b, s);
  }
  if (l->c->spec->overlap) {
    lower_reorder(l);
    lower_parts(l);
    b.of = touches_by_buffer(l);
    choose_queues(&b);
  }
}
