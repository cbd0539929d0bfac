// touches.h: which bytes the instructions of a list touch before memory is planned.
#ifndef MDL_COMPILER_LOWER_TOUCHES_H
#define MDL_COMPILER_LOWER_TOUCHES_H

#include "compiler/lower/lower.h"

typedef struct {  // of a buffer, by one instruction
  int segment, at;
  int64_t offset, bytes;   // in the buffer
  bool writes, elsewhere;  // on every rank at another place
} BufferTouch;

typedef ARRAY(BufferTouch) BufferTouches;

int touches_buffer(const Place *place);  // of a place, until memory.c

// The bytes that an operand touches; of one that lies elsewhere on every rank, all of its buffer.
BufferTouch touches_of_operand(const Lower *l, const Operand *operand);

bool touches_meet(const BufferTouch *a, const BufferTouch *b);

// By buffer, in the order of the lists.
BufferTouches *touches_by_buffer(Lower *l);

typedef struct {
  ArenaClass arena;
  int buffer;  // -1: persistent memory, where several buffers may have the same bytes
  BufferTouch touch;
} Touched;

typedef struct {
  int count;
  Touched *at;
} TouchedList;

TouchedList touches_of(Lower *l, Instruction *instruction);

// Do they touch the same bytes, and one of them writes?
bool touches_conflict(const TouchedList *a, const TouchedList *b);

#endif
