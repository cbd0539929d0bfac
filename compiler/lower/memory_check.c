// memory_check.c: whether every instruction finds in memory what was written for it.
//
// memory.c gives one buffer the bytes of another by what it takes for their lifetimes. Waits between queues are found
// from bytes (waits.c), so a lifetime that is too short makes a plan that is ordered, verified and wrong. Here the
// lists are run in their order, which every order that waits allow agrees with, and it is kept whose each byte is:
//
// - Of memory that lasts for the program, no byte belongs to two buffers. Which bytes of a buffer were written, and in
//   which microbatch, is followed through all calls: what a microbatch reads, none of the others has left there.
// - Of memory that segments use one after the other, a buffer takes its bytes where a call of its segment first touches
//   it, and keeps them up to the last time. What takes some of them in between is found, and so is a buffer that is
//   read before it is written, for what was there in earlier calls is gone.
// - Tensors that outlive a step have no byte in common, and what is read or written as one is not part of another.
//
// Bytes between the rows that an instruction reads need not be written. Between those that it writes they count as
// written: results of products that lie side by side, of which one may be made by rows in two halves, are read as they
// are, and not with what is beside them. Copies to the memory of the host and back take whole buffers: what nobody has
// written of one is not written in the other.
//
// Of memory.c nothing is used but where a buffer lies, and in how many copies.
#include <stdlib.h>

#include "base/integer.h"
#include "base/ranges.h"
#include "compiler/lower/emit.h"
#include "compiler/lower/lower.h"
#include "compiler/plan/strided.h"

enum { OUTSIDE = -1, SUMMED = -2 };  // instead of a microbatch: of none, of several

typedef struct {  // a buffer, touched by an instruction
  int at, buffer;
  int64_t first, end;       // bytes of the buffer, on whatever rank
  const Strided *strided;   // which of them are read; NULL: all
  bool needs, needs_first;  // reads what is there: in any call, and in the one marked first
  bool writes;
  bool copied;  // to the memory of the host
} Use;

typedef ARRAY(Use) Uses;

typedef struct {  // of the bytes that a term adds on any rank
  int64_t low, high;
} Shift;

typedef struct {
  Lower *l;
  Shift *shift;                     // by term
  Uses *uses;                       // by segment
  int *calls;                       // by segment: how many
  bool *read;                       // by buffer: not only by what adds to it
  Ranges owner[ARENA_CLASS_COUNT];  // whose the bytes are that last
  Ranges **content;                 // by buffer that lasts, and copy: the microbatch that has written its bytes
  // Of the segment at hand, by buffer:
  int *home;                 // 1 + the segment that touches it; 0: none so far
  int *taken_by, *taken_at;  // the buffer that has taken some of its bytes (-1: none), and the instruction
  Ranges *written;
  Ranges **copied;  // by buffer of the host: what was written of the one that was copied to it; NULL: of none yet
  bool good;
} Check;

// --- what is wrong ---

static const char *told(const Check *c, int segment, int at) {
  const LowerSegment *list = c->l->segments.at[segment];
  const Instruction *instruction = &list->list.at[at];
  return arena_format(c->l->c->arena, "'%s' (%s, instruction %d of '%s')", instruction->name ? instruction->name : "?",
                      instruction_kind_name(instruction->kind), at, list->name);
}

static const char *told_buffer(const Check *c, int number) {
  const MemoryBuffer *buffer = &c->l->buffers.at[number];
  const char *maker = buffer->maker && buffer->maker->name ? buffer->maker->name : "?";
  return arena_format(c->l->c->arena, "buffer %d ('%s', %lld bytes)", number, maker, (long long)buffer->bytes);
}

static void wrong(Check *c, int segment, int at, const char *what) {
  Span span = SPAN_NONE;
  if (segment >= 0) {
    span = c->l->segments.at[segment]->list.at[at].span;
    what = arena_format(c->l->c->arena, "%s %s", told(c, segment, at), what);
  }
  if (c->good) {
    diag_error(c->l->c->diag, E099, span, "the compiler made a wrong plan: in '%s' %s",
               program_kind_name(c->l->c->program), what);
  }
  c->good = false;
}

// --- what instructions touch ---

static Shift shift_of(const Lower *l, const PlanTerm *term) {
  const Spec *spec = l->c->spec;
  Shift shift = {0, 0};
  for (int m = 0; m < spec->mesh_count; m++) {
    const bool stage = l->c->tenancy && m == spec->pipeline.mesh;
    const int64_t low = stage ? l->c->stage : 0, high = stage ? l->c->stage : spec->mesh[m].size - 1;
    shift.low += term->stride[m] * (term->stride[m] < 0 ? high : low);
    shift.high += term->stride[m] * (term->stride[m] < 0 ? low : high);
  }
  return shift;
}

// Which bytes of a buffer are read, on whatever rank; NULL: all from the first to the last.
static const Strided *strided_of(const Check *c, const Place *place, const Extent *extent, int64_t bytes) {
  const Spec *spec = c->l->c->spec;
  Strided read = {.first = place->offset, .run = bytes};
  bool good = !extent->whole;
  for (int i = 0; i < extent->dim_count && good; i++) {
    good = strided_repeat(&read, extent->size[i], extent->stride[i] * bytes);
  }
  for (int m = 0; m < spec->mesh_count && good; m++) {
    const int64_t stride = c->l->terms->at[place->term].stride[m];
    const bool stage = c->l->c->tenancy && m == spec->pipeline.mesh;
    read.first += stage ? stride * c->l->c->stage : 0;
    good = strided_repeat(&read, stage ? 1 : spec->mesh[m].size, stride);
  }
  strided_close(&read);
  return good && read.count > 0 ? arena_copy(c->l->c->arena, &read, sizeof read) : NULL;
}

// How an operand that is updated is written.
static WriteMode mode_of(const Instruction *instruction) {
  switch (instruction->kind) {
    case INSTRUCTION_KERNEL:
      return WRITE_ADD_AFTER_FIRST;
    case INSTRUCTION_GEMM:
      return instruction->as.gemm.write;
    case INSTRUCTION_GROUPED:
    case INSTRUCTION_GROUPED_SUM:
      return instruction->as.grouped.write;
    case INSTRUCTION_PUT:
      return instruction->as.take.write;
    default:
      return WRITE_ADD;
  }
}

// Is this what an instruction copies to the memory of the host?
static bool is_copied(const Instruction *instruction, const Place *place) {
  return instruction->kind == INSTRUCTION_OFFLOAD && place == &instruction->as.offload.device;
}

static Use use_of(const Check *c, const Instruction *instruction, int at, const Operand *operand) {
  const Place *place = operand->place;
  const bool reads = operand->access & READS;
  const bool copies = is_copied(instruction, place);
  const WriteMode mode = operand->access == UPDATES ? mode_of(instruction) : WRITE_ADD;
  return (Use){.at = at,
               .buffer = (int)place->slot_stride,
               .first = place->offset + operand->extent.first * operand->bytes + c->shift[place->term].low,
               .end = place->offset + (operand->extent.last + 1) * operand->bytes + c->shift[place->term].high,
               .strided = reads ? strided_of(c, place, &operand->extent, operand->bytes) : NULL,
               .needs = reads && mode != WRITE_STORE && !copies,
               .needs_first = reads && mode == WRITE_ADD && !copies,
               .writes = operand->access & WRITES,
               .copied = copies};
}

static void add_use(Check *c, Uses *uses, Use use) {
  c->read[use.buffer] |= (use.needs || use.copied) && !use.writes;
  array_push(c->l->c->arena, uses, use);
}

// Between the parts of which squares are summed there may be bytes that nothing writes.
static void add_squares(Check *c, const Squares *squares, Use use, Uses *uses) {
  const int64_t bytes = element_type_bytes(squares->type), from = use.first;
  for (int i = 0; i < squares->part_count; i++) {
    use.first = from + squares->part[i].first * bytes;
    use.end = use.first + squares->part[i].count * bytes;
    use.strided = NULL;
    add_use(c, uses, use);
  }
}

static Uses uses_of(Check *c, const LowerSegment *segment) {
  Uses uses = {0};
  for (int i = 0; i < segment->list.count; i++) {
    Instruction *instruction = &segment->list.at[i];
    Operands operands;
    lower_operands(c->l, instruction, &operands);
    for (int pass = 0; pass < 2; pass++) {  // an instruction reads before it writes
      for (int o = 0; o < operands.count; o++) {
        const Use use = use_of(c, instruction, i, &operands.at[o]);
        if ((use.writes && !use.needs) != pass) {
          continue;
        }
        if (instruction->kind == INSTRUCTION_SQUARES && !use.writes) {
          add_squares(c, &instruction->as.squares, use, &uses);
        } else {
          add_use(c, &uses, use);
        }
      }
    }
  }
  return uses;
}

static bool lasts(const MemoryBuffer *buffer) {
  return buffer->arena == ARENA_HOST || buffer->copies > 0;
}

// Of stored tensors that lie one behind the other several may be read as one: matrices that share an operand.
static void check_extent(Check *c, int segment, const Use *use) {
  const MemoryBuffer *buffer = &c->l->buffers.at[use->buffer];
  const bool several = buffer->arena == ARENA_PERSISTENT && !use->writes;
  if (!several && (use->first < 0 || use->end > buffer->bytes)) {
    wrong(c, segment, use->at,
          arena_format(c->l->c->arena, "touches bytes %lld to %lld of %s", (long long)use->first, (long long)use->end,
                       told_buffer(c, use->buffer)));
  }
}

// --- memory that lasts ---

static int owner_between(const Ranges *ranges, int64_t first, int64_t end) {
  const int at = ranges_find(ranges, first);
  return at < ranges->count && ranges->at[at].first < end ? ranges->at[at].owner : -1;
}

static void claim_lasting(Check *c, int number) {
  const MemoryBuffer *buffer = &c->l->buffers.at[number];
  const int64_t copies = buffer->copies > 0 ? buffer->copies : 1;
  const int64_t apart = buffer->arena == ARENA_HOST ? 0 : buffer->lane_stride + buffer->slot_stride;
  const int64_t end = buffer->offset + (copies - 1) * apart + buffer->bytes;
  Ranges *owner = &c->owner[buffer->arena];
  const int other = owner_between(owner, buffer->offset, end);
  if (other >= 0 || buffer->offset < 0 || (copies > 1 && apart < buffer->bytes)) {
    wrong(c, -1, 0,
          arena_format(c->l->c->arena, "%s, which lasts for the program, has memory of %s", told_buffer(c, number),
                       told_buffer(c, other >= 0 ? other : number)));
  }
  ranges_put(c->l->c->arena, owner, buffer->offset, end, number);
}

static void find_lasting(Check *c) {
  c->content = ARENA_ARRAY(c->l->c->arena, Ranges *, c->l->buffers.count + 1);
  for (int i = 0; i < c->l->buffers.count; i++) {
    const MemoryBuffer *buffer = &c->l->buffers.at[i];
    if (lasts(buffer) && buffer->bytes > 0) {
      claim_lasting(c, i);
      c->content[i] = ARENA_ARRAY(c->l->c->arena, Ranges, buffer->copies > 0 ? buffer->copies : 1);
    }
  }
  for (int i = 0; i < c->l->inputs.count; i++) {  // the host writes them
    const int buffer = (int)c->l->inputs.at[i].place.slot_stride;
    if (c->content[buffer]) {
      ranges_put(c->l->c->arena, &c->content[buffer][0], 0, c->l->buffers.at[buffer].bytes, OUTSIDE);
    }
  }
}

static bool reads_between(const Use *use, int64_t first, int64_t end) {
  return first < end && (!use->strided || strided_meets(use->strided, first, end));
}

// Whether somebody has written all that is read, `shift` bytes from where the use says. *other: of the last part of it
// that is of neither this microbatch nor none, which it is of; else `slot`.
static bool is_written(const Ranges *content, const Use *use, int64_t shift, int slot, int *other) {
  int64_t at = use->first;
  *other = slot;
  for (int i = ranges_find(content, at + shift); i < content->count && content->at[i].first < use->end + shift; i++) {
    const Range *range = &content->at[i];
    const int64_t first = range->first - shift > at ? range->first - shift : at;
    const int64_t end = range->end - shift < use->end ? range->end - shift : use->end;
    if (reads_between(use, at, first)) {
      return false;
    }
    const bool others = range->owner != slot && range->owner != OUTSIDE && range->owner != *other;
    *other = others && reads_between(use, first, end) ? range->owner : *other;
    at = end;
  }
  return !reads_between(use, at, use->end);
}

static void touch_lasting(Check *c, const PlanCall *call, const Use *use, int slot) {
  const MemoryBuffer *buffer = &c->l->buffers.at[use->buffer];
  const bool host = buffer->arena == ARENA_HOST, needs = call->first ? use->needs_first : use->needs;
  const int64_t copy = host ? 0 : buffer->lane_stride ? call->lane : buffer->slot_stride ? call->slot : 0;
  const int64_t shift = host ? call->slot * buffer->slot_stride : 0;
  int other = slot;
  if (!host && copy >= buffer->copies) {
    wrong(c, call->segment, use->at,
          arena_format(c->l->c->arena, "touches copy %lld of %s, which has %lld", (long long)copy,
                       told_buffer(c, use->buffer), (long long)buffer->copies));
    return;
  }
  Ranges *content = &c->content[use->buffer][copy];
  if (needs && !is_written(content, use, shift, slot, &other)) {
    wrong(c, call->segment, use->at,
          arena_format(c->l->c->arena, "reads %s before anything has written it", told_buffer(c, use->buffer)));
  } else if (needs && !use->writes && slot >= 0 && other != slot) {
    wrong(c, call->segment, use->at,
          arena_format(c->l->c->arena, "reads in microbatch %d what %s left in %s", slot,
                       other == SUMMED ? "several have" : arena_format(c->l->c->arena, "microbatch %d has", other),
                       told_buffer(c, use->buffer)));
  }
  if (use->writes) {
    const int made = needs && other != slot ? SUMMED : slot;
    ranges_put(c->l->c->arena, content, use->first + shift, use->end + shift, made);
  }
}

static void run_call(Check *c, const PlanCall *call) {
  const Uses *uses = &c->uses[call->segment];
  const SegmentKind kind = c->l->segments.at[call->segment]->kind;
  const int slot = kind == SEGMENT_PREPARE || kind == SEGMENT_APPLY ? OUTSIDE : call->slot;
  for (int i = 0; i < uses->count && c->good; i++) {
    if (c->content[uses->at[i].buffer]) {
      touch_lasting(c, call, &uses->at[i], slot);
    }
  }
}

static void check_outputs(Check *c) {
  for (int i = 0; i < c->l->outputs.count; i++) {
    const PlanOutput *output = &c->l->outputs.at[i];
    const Ranges *content = c->content[output->place.slot_stride];
    const int64_t bytes = element_type_bytes(output->type), offset = output->place.offset;
    Extent extent = {0};
    int other;
    for (int a = 0; a < output->axis_count; a++) {
      extent_add(&extent, output->size[a], output->stride[a]);
    }
    const Use use = {.first = offset + extent.first * bytes,
                     .end = offset + (extent.last + 1) * bytes,
                     .strided = strided_of(c, &output->place, &extent, bytes)};
    if (!content || !is_written(content, &use, 0, OUTSIDE, &other)) {
      wrong(c, -1, 0, arena_format(c->l->c->arena, "nothing writes the output '%s'", output->name));
    }
  }
}

// --- memory of one segment ---

// The buffer takes its bytes; what had some of them has lost them.
static void begin(Check *c, Ranges *owner, int segment, const Use *use) {
  const MemoryBuffer *buffer = &c->l->buffers.at[use->buffer];
  const int64_t end = buffer->offset + buffer->bytes;
  const int lasting = owner_between(&c->owner[buffer->arena], buffer->offset, end);
  if (lasting >= 0 || buffer->offset < 0) {
    wrong(c, segment, use->at,
          arena_format(c->l->c->arena, "touches %s, which has memory of %s", told_buffer(c, use->buffer),
                       told_buffer(c, lasting >= 0 ? lasting : use->buffer)));
  }
  for (int i = ranges_find(owner, buffer->offset); i < owner->count && owner->at[i].first < end; i++) {
    c->taken_by[owner->at[i].owner] = use->buffer;
    c->taken_at[owner->at[i].owner] = use->at;
  }
  ranges_put(c->l->c->arena, owner, buffer->offset, end, use->buffer);
  c->home[use->buffer] = 1 + segment;
  c->taken_by[use->buffer] = -1;
}

// What is written of a buffer that is copied to the memory of the host, or from there.
static void copy_written(Check *c, Ranges *written, const Instruction *instruction) {
  Arena *arena = c->l->c->arena;
  Ranges **copied = &c->copied[instruction->as.offload.host.slot_stride];
  const Ranges *from = instruction->kind == INSTRUCTION_OFFLOAD ? written : *copied;
  Ranges all = {0};
  for (int i = 0; from && i < from->count; i++) {
    ranges_put(arena, &all, from->at[i].first, from->at[i].end, from->at[i].owner);
  }
  if (instruction->kind == INSTRUCTION_OFFLOAD) {
    *copied = arena_copy(arena, &all, sizeof all);
  } else {
    *written = all;
  }
}

static void touch_own(Check *c, Ranges *owner, int segment, const Use *use) {
  const bool needs = c->calls[segment] == 1 ? use->needs_first : use->needs;
  int other;
  if (c->home[use->buffer] == 0) {
    begin(c, owner, segment, use);
  } else if (c->home[use->buffer] != 1 + segment) {
    wrong(c, segment, use->at,
          arena_format(c->l->c->arena, "touches %s, which has memory of '%s' alone", told_buffer(c, use->buffer),
                       c->l->segments.at[c->home[use->buffer] - 1]->name));
  } else if (c->taken_by[use->buffer] >= 0) {
    wrong(c, segment, use->at,
          arena_format(c->l->c->arena, "touches %s, but %s has taken its memory for %s", told_buffer(c, use->buffer),
                       told(c, segment, c->taken_at[use->buffer]), told_buffer(c, c->taken_by[use->buffer])));
  }
  Ranges *written = &c->written[use->buffer];
  if (needs && c->read[use->buffer] && !is_written(written, use, 0, 0, &other)) {
    wrong(c, segment, use->at,
          arena_format(c->l->c->arena, "reads %s before anything has written it", told_buffer(c, use->buffer)));
  }
  const Instruction *instruction = &c->l->segments.at[segment]->list.at[use->at];
  if (instruction->kind == INSTRUCTION_OFFLOAD || instruction->kind == INSTRUCTION_FETCH) {
    copy_written(c, written, instruction);
  } else if (use->writes) {
    ranges_put(c->l->c->arena, written, use->first, use->end, 0);
  }
}

static void check_segment(Check *c, int segment) {
  const Uses *uses = &c->uses[segment];
  Ranges owner = {0};
  for (int i = 0; i < uses->count && c->good; i++) {
    const Use *use = &uses->at[i];
    const MemoryBuffer *buffer = &c->l->buffers.at[use->buffer];
    check_extent(c, segment, use);
    if (buffer->arena != ARENA_PERSISTENT && !lasts(buffer) && buffer->bytes > 0) {
      touch_own(c, &owner, segment, use);
    }
  }
}

// --- tensors that outlive a step ---

// Members of a pack that is cut into pieces have the same bytes, and each its elements of the whole.
static void claim_piece(Check *c, Map *packs, const Persistent *tensor, const StatePlace *place) {
  Arena *arena = c->l->c->arena;
  Ranges *elements = (Ranges *)(intptr_t)map_get_or(packs, (uint64_t)place->offset, 0);
  const int64_t count = graph_elements(c->l->graph, graph_shape(c->l->graph, tensor->value));
  if (!elements) {
    elements = ARENA_NEW(arena, Ranges);
    map_put(packs, (uint64_t)place->offset, (int64_t)(intptr_t)elements);
  }
  if (owner_between(elements, place->flat_first, place->flat_first + count) >= 0) {
    wrong(c, -1, 0, arena_format(arena, "'%s' has elements of another tensor", tensor->name));
  }
  ranges_put(arena, elements, place->flat_first, place->flat_first + count, 0);
}

// Where each tensor lies, by the number of the first one there.
static Ranges claim_tensors(Check *c) {
  Arena *arena = c->l->c->arena;
  const Graph *graph = c->l->graph;
  Map packs = map_create(arena);
  Ranges all = {0};
  for (int i = 0; i < graph->persistent.count; i++) {
    const Persistent *tensor = &graph->persistent.at[i];
    const StatePlace *place = tensor->elsewhere ? NULL : state_place(c->l, tensor->name);
    if (!place) {
      continue;
    }
    const bool more = place->flat_piece > 0 && map_get_or(&packs, (uint64_t)place->offset, 0);
    const int64_t elements =
        place->flat_piece > 0 ? place->flat_piece : graph_elements(graph, persistent_shape(tensor));
    const int64_t end = place->offset + elements * element_type_bytes(tensor->type);
    const int other = owner_between(&all, place->offset, end);
    if (place->flat_piece > 0) {
      claim_piece(c, &packs, tensor, place);
    }
    if (other >= 0 && !more) {
      wrong(c, -1, 0,
            arena_format(arena, "the tensors '%s' and '%s' have the same memory", tensor->name,
                         graph->persistent.at[other].name));
    }
    if (!more) {
      ranges_put(arena, &all, place->offset, end, i);
    }
  }
  return all;
}

static bool cuts(const Ranges *all, int64_t byte) {
  const int at = ranges_find(all, byte);
  return at < all->count && all->at[at].first < byte;
}

static void check_tensors(Check *c) {
  const Ranges all = claim_tensors(c);
  for (int i = 0; i < c->l->buffers.count; i++) {
    const MemoryBuffer *buffer = &c->l->buffers.at[i];
    if (buffer->arena == ARENA_PERSISTENT && buffer->maker &&
        (cuts(&all, buffer->offset) || cuts(&all, buffer->offset + buffer->bytes))) {
      wrong(c, -1, 0, arena_format(c->l->c->arena, "%s is part of a tensor", told_buffer(c, i)));
    }
  }
}

// --- all of it ---

static void prepare(Check *c) {
  Lower *l = c->l;
  Arena *arena = l->c->arena;
  const int buffers = l->buffers.count;
  c->shift = ARENA_ARRAY(arena, Shift, l->terms->count + 1);
  for (int i = 0; i < l->terms->count; i++) {
    c->shift[i] = shift_of(l, &l->terms->at[i]);
  }
  c->read = ARENA_ARRAY(arena, bool, buffers + 1);
  c->uses = ARENA_ARRAY(arena, Uses, l->segments.count + 1);
  c->calls = ARENA_ARRAY(arena, int, l->segments.count + 1);
  for (int s = 0; s < l->segments.count; s++) {
    c->uses[s] = uses_of(c, l->segments.at[s]);
  }
  c->home = ARENA_ARRAY(arena, int, buffers + 1);
  c->taken_by = ARENA_ARRAY(arena, int, buffers + 1);
  c->taken_at = ARENA_ARRAY(arena, int, buffers + 1);
  c->written = ARENA_ARRAY(arena, Ranges, buffers + 1);
  c->copied = ARENA_ARRAY(arena, Ranges *, buffers + 1);
}

void check_memory(Lower *l) {
  Check c = {.l = l, .good = true};
  PlanCall *calls;
  const int count = emit_calls(l, l->c->arena, &calls);
  prepare(&c);
  for (int i = 0; i < count; i++) {
    c.calls[calls[i].segment]++;
  }
  if (l->c->program == PROGRAM_TRAIN) {
    check_tensors(&c);
  }
  find_lasting(&c);
  for (int s = 0; s < l->segments.count && c.good; s++) {
    check_segment(&c, s);
  }
  for (int i = 0; i < count && c.good; i++) {
    run_call(&c, &calls[i]);
  }
  check_outputs(&c);
}
