// touches.c: see touches.h.
#include "compiler/lower/touches.h"

int touches_buffer(const Place *place) {
  return (int)place->slot_stride;
}

BufferTouch touches_of_operand(const Lower *l, const Operand *operand) {
  if (operand->place->term != 0) {
    return (BufferTouch){.bytes = l->buffers.at[touches_buffer(operand->place)].bytes,
                         .writes = operand->access & WRITES,
                         .elsewhere = true};
  }
  return (BufferTouch){.offset = operand->place->offset + operand->extent.first * operand->bytes,
                       .bytes = (operand->extent.last - operand->extent.first + 1) * operand->bytes,
                       .writes = operand->access & WRITES};
}

bool touches_meet(const BufferTouch *a, const BufferTouch *b) {
  return a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes;
}

BufferTouches *touches_by_buffer(Lower *l) {
  BufferTouches *all = ARENA_ARRAY(l->c->arena, BufferTouches, l->buffers.count + 1);
  for (int s = 0; s < l->segments.count; s++) {
    const InstructionList *list = &l->segments.at[s]->list;
    for (int i = 0; i < list->count; i++) {
      Operands operands;
      lower_operands(l, &list->at[i], &operands);
      for (int o = 0; o < operands.count; o++) {
        BufferTouch touch = touches_of_operand(l, &operands.at[o]);
        touch.segment = s;
        touch.at = i;
        array_push(l->c->arena, &all[touches_buffer(operands.at[o].place)], touch);
      }
    }
  }
  return all;
}

TouchedList touches_of(Lower *l, Instruction *instruction) {
  Operands operands;
  lower_operands(l, instruction, &operands);
  TouchedList list = {0, ARENA_ARRAY(l->c->arena, Touched, operands.count + 1)};
  for (int o = 0; o < operands.count; o++) {
    const int buffer = touches_buffer(operands.at[o].place);
    const MemoryBuffer *at = &l->buffers.at[buffer];
    Touched *touched = &list.at[list.count++];
    *touched = (Touched){at->arena, buffer, touches_of_operand(l, &operands.at[o])};
    if (at->arena == ARENA_PERSISTENT) {
      touched->buffer = -1;
      touched->touch.offset += at->offset;
    }
  }
  return list;
}

bool touches_conflict(const TouchedList *a, const TouchedList *b) {
  for (int i = 0; i < a->count; i++) {
    for (int j = 0; j < b->count; j++) {
      const Touched *x = &a->at[i], *y = &b->at[j];
      if (x->arena == y->arena && x->buffer == y->buffer && (x->touch.writes || y->touch.writes) &&
          touches_meet(&x->touch, &y->touch)) {
        return true;
      }
    }
  }
  return false;
}
