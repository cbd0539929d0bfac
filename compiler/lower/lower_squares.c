// lower_squares.c: the squares of many gradients, summed by one instruction for each buffer and bucket.
//
// A norm of all gradients is a sum of squares for each parameter, whose sums are added in the order of the parameters,
// so that it has the same bits however they are divided among stages. Those of one buffer become one instruction with
// a part for each. Where gradients are summed over ranks in buckets beside arithmetic, each bucket has its own, in the
// order in which the sums begin: squares of the first are made while the others are still on their way. They stand
// where the first of all stood, or behind what makes what they read, and before all that reads what they make.
#include <stdlib.h>
#include <string.h>

#include "compiler/lower/lower.h"

// The elements of a port without gaps, in the order of the dims of its kernel; else 0.
static int64_t dense_elements(const Kernel *kernel, const KernelPort *port) {
  int64_t elements = 1;
  for (int d = kernel->dim_count - 1; d >= 0; d--) {
    if (kernel->size[d] > 1 && port->stride[d] != elements) {
      return 0;
    }
    elements *= kernel->size[d];
  }
  return elements;
}

// The sum of the squares of all elements of something without gaps.
static bool is_squares(const Kernel *kernel) {
  const KernelInstruction *code = kernel->code;
  const KernelPort *from = kernel->port, *to = kernel->port + 1;
  return kernel->code_count == 3 && kernel->port_count == 2 && code[0].op == KERNEL_LOAD && code[1].op == KERNEL_MUL &&
         code[1].a == 0 && code[1].b == 0 && code[2].op == KERNEL_TOTAL_SUM && code[2].a == 1 &&
         from->kind == PORT_INPUT && to->kind == PORT_OUTPUT && !to->accumulate && from->type == kernel->real &&
         to->type == kernel->real && dense_elements(kernel, from) > 0;
}

bool lower_as_squares(Lower *l, const Kernel *kernel, const Place *places) {
  const bool update = graph_value(l->graph, l->node->first_result)->role == ROLE_UPDATE;
  if (!update || l->c->program != PROGRAM_TRAIN || !is_squares(kernel)) {
    return false;
  }
  Instruction *instruction = new_instruction(l, INSTRUCTION_SQUARES);
  PlanRange *part = ARENA_NEW(l->keep, PlanRange);
  *part = (PlanRange){0, dense_elements(kernel, kernel->port)};
  instruction->as.squares =
      (Squares){.type = kernel->real, .part_count = 1, .part = part, .from = places[0], .to = places[1]};
  instruction->bytes = (double)(part->count + 1) * (double)element_type_bytes(kernel->real);
  instruction->flops = 2 * (double)part->count;
  return true;
}

typedef struct {
  Instruction *instruction;
  int at;      // in the list
  int behind;  // the last instruction before it that writes what it reads; -1: none
  int bucket;  // the last sum on a queue of its own that does; -1: none
  int before;  // the first that reads what it makes
  int buffer;  // that it reads
} Member;

typedef struct {
  int64_t offset, bytes;
  int at;
  bool writes, aside;
} Touch;

typedef ARRAY(Touch) Touches;
typedef ARRAY(Member) Members;

typedef struct {
  Lower *l;
  InstructionList *list;
  Touches *of;     // by buffer: touches in this list
  int *renamed;    // by buffer: the one that it is a part of now, or -1
  int64_t *begin;  // of the renamed: bytes in that one
  int buffers;     // that there were
} Merger;

typedef struct {
  Instruction instruction;
  int before, order;  // stands before this one of the list; of those that do in this order
} Standing;

static int buffer_of(const Place *place) {
  return (int)place->slot_stride;  // until memory.c
}

static Touch touch_of(const Merger *m, const Operand *operand, int at) {
  Touch touch = {.at = at, .writes = operand->access & WRITES, .aside = m->list->at[at].aside};
  if (operand->place->term != 0) {  // lies elsewhere on every rank
    touch.bytes = m->l->buffers.at[buffer_of(operand->place)].bytes;
    return touch;
  }
  touch.offset = operand->place->offset + operand->extent.first * operand->bytes;
  touch.bytes = (operand->extent.last - operand->extent.first + 1) * operand->bytes;
  return touch;
}

static void find_touches(Merger *m) {
  m->of = ARENA_ARRAY(m->l->c->arena, Touches, m->l->buffers.count + 1);
  for (int i = 0; i < m->list->count; i++) {
    Operands operands;
    lower_operands(m->l, &m->list->at[i], &operands);
    for (int o = 0; o < operands.count; o++) {
      array_push(m->l->c->arena, &m->of[buffer_of(operands.at[o].place)], touch_of(m, &operands.at[o], i));
    }
  }
}

// A number in a buffer of its own, so that it can as well be a part of another.
static bool is_movable(const Lower *l, const Squares *squares) {
  const MemoryBuffer *to = &l->buffers.at[buffer_of(&squares->to)];
  return to->arena == ARENA_TRANSIENT && !to->message && !to->whole && squares->to.offset == 0 &&
         squares->to.term == 0 && squares->from.term == 0 && to->bytes >= element_type_bytes(squares->type);
}

static Member member_of(const Merger *m, int at) {
  Instruction *instruction = &m->list->at[at];
  const Squares *squares = &instruction->as.squares;
  const int64_t bytes = squares->part[0].count * element_type_bytes(squares->type);
  Member member = {.instruction = instruction, .at = at, .behind = -1, .bucket = -1, .before = m->list->count};
  member.buffer = buffer_of(&squares->from);
  const Touches *read = &m->of[member.buffer], *made = &m->of[buffer_of(&squares->to)];
  for (int i = 0; i < read->count; i++) {
    const Touch *touch = &read->at[i];
    if (touch->at < at && touch->writes && touch->offset < squares->from.offset + bytes &&
        squares->from.offset < touch->offset + touch->bytes) {
      member.behind = touch->at > member.behind ? touch->at : member.behind;
      member.bucket = touch->aside && touch->at > member.bucket ? touch->at : member.bucket;
    }
  }
  for (int i = 0; i < made->count; i++) {
    const bool later = made->at[i].at > at;
    member.before = later && made->at[i].at < member.before ? made->at[i].at : member.before;
  }
  return member;
}

static int by_group(const void *a, const void *b) {
  const Member *x = a, *y = b;
  return x->bucket != y->bucket   ? x->bucket - y->bucket
         : x->buffer != y->buffer ? x->buffer - y->buffer
                                  : x->at - y->at;
}

static int by_place(const void *a, const void *b) {
  const Member *x = a, *y = b;
  const int64_t first = x->instruction->as.squares.from.offset, second = y->instruction->as.squares.from.offset;
  return first != second ? (first < second ? -1 : 1) : x->at - y->at;
}

static int by_standing(const void *a, const void *b) {
  const Standing *x = a, *y = b;
  return x->before != y->before ? x->before - y->before : x->order - y->order;
}

// One instruction for all members; their results become parts of one buffer.
static Instruction merge(Merger *m, Member *members, int count) {
  Lower *l = m->l;
  qsort(members, (size_t)count, sizeof *members, by_place);
  Instruction made = *members[0].instruction;
  Squares *squares = &made.as.squares;
  const int64_t bytes = element_type_bytes(squares->type), first = squares->from.offset;
  const int to = new_buffer(l, ARENA_TRANSIENT, count * bytes);
  PlanRange *parts = ARENA_ARRAY(l->keep, PlanRange, count);
  made.bytes = made.flops = 0;
  made.name = "squares";
  for (int i = 0; i < count; i++) {
    const Squares *one = &members[i].instruction->as.squares;
    parts[i] = (PlanRange){(one->from.offset - first) / bytes, one->part[0].count};
    m->renamed[buffer_of(&one->to)] = to;
    m->begin[buffer_of(&one->to)] = i * bytes;
    made.bytes += members[i].instruction->bytes;
    made.flops += members[i].instruction->flops;
  }
  squares->part = parts;
  squares->part_count = count;
  squares->to = (Place){.arena = squares->to.arena, .slot_stride = to};
  return made;
}

// Where these members, the first so many of them, would stand: behind what makes what they read, from there on.
static int standing_of(const Member *members, int count, int from) {
  for (int i = 0; i < count; i++) {
    from = members[i].behind >= from ? members[i].behind + 1 : from;
  }
  return from;
}

// How many of these members, which are sorted, can be one instruction: at least one, which can stand where it stood.
static int reach_of(const Member *members, int count, int from) {
  int before = members[0].before, reach = 1;
  for (; reach < count; reach++) {
    const Member *at = &members[reach];
    before = at->before < before ? at->before : before;
    if (at->bucket != members[0].bucket || at->buffer != members[0].buffer ||
        standing_of(members, reach + 1, from) > before) {
      break;
    }
  }
  return reach;
}

static void rename_results(const Merger *m, InstructionList *list) {
  for (int i = 0; i < list->count; i++) {
    Operands operands;
    lower_operands(m->l, &list->at[i], &operands);
    for (int o = 0; o < operands.count; o++) {
      Place *place = operands.at[o].place;
      const int buffer = buffer_of(place);
      if (buffer < m->buffers && m->renamed[buffer] >= 0) {
        place->slot_stride = m->renamed[buffer];
        place->offset += m->begin[buffer];
      }
    }
  }
}

static void merge_list(Merger *m) {
  Arena *arena = m->l->c->arena;
  Members members = {0};
  for (int i = 0; i < m->list->count; i++) {
    const Squares *squares = &m->list->at[i].as.squares;
    if (m->list->at[i].kind == INSTRUCTION_SQUARES && is_movable(m->l, squares)) {
      array_push(arena, &members, member_of(m, i));
    }
  }
  if (members.count < 2) {
    return;
  }
  const int from = members.at[0].at;
  Standing *standing = ARENA_ARRAY(arena, Standing, m->list->count + 1);
  bool *gone = ARENA_ARRAY(arena, bool, m->list->count + 1);
  int count = 0;
  qsort(members.at, (size_t)members.count, sizeof *members.at, by_group);
  for (int i = 0, reach; i < members.count; i += reach) {
    reach = reach_of(&members.at[i], members.count - i, from);
    for (int j = i; j < i + reach; j++) {
      gone[members.at[j].at] = true;
    }
    const int before = standing_of(&members.at[i], reach, from);
    standing[count++] = (Standing){merge(m, &members.at[i], reach), before, i - members.count};
  }
  for (int i = 0; i < m->list->count; i++) {
    if (!gone[i]) {
      standing[count++] = (Standing){m->list->at[i], i, i};
    }
  }
  qsort(standing, (size_t)count, sizeof *standing, by_standing);
  InstructionList made = {0};
  for (int i = 0; i < count; i++) {
    array_push(arena, &made, standing[i].instruction);
  }
  *m->list = made;
}

void lower_squares(Lower *l) {
  Merger m = {.l = l, .buffers = l->buffers.count};
  m.renamed = ARENA_ARRAY(l->c->arena, int, m.buffers + 1);
  m.begin = ARENA_ARRAY(l->c->arena, int64_t, m.buffers + 1);
  for (int i = 0; i < m.buffers; i++) {
    m.renamed[i] = -1;
  }
  // Norms stand behind everything else of a step: in the last list.
  m.list = &l->segments.at[l->segments.count - 1]->list;
  find_touches(&m);
  merge_list(&m);
  rename_results(&m, m.list);
}
