// updates.h: how parameters are put together for updates; for lang/packs.c and lang/updates.c only.
#ifndef MDL_LANG_UPDATES_H
#define MDL_LANG_UPDATES_H

#include "compiler/pipeline/stages.h"
#include "compiler/shard/mapping.h"
#include "lang/elaborate.h"

typedef struct {
  ValueId p, g;
  int rule;
  int count;
  const int *members;  // indices of persistents
  AxisId axis;         // of the pack; -1 for a single parameter
  bool flat;           // ranks have pieces of the pack, not parameters
} UpdateUnit;

enum { UPDATE_READ_WIDE = 1, UPDATE_READ_NARROW = 2, UPDATE_READ_EIGHT = 4 };  // bits

struct UpdateContext {
  ARRAY(UpdateUnit) units;
  const ValueId *gradient;
  Map totals;                 // AST of a total() to its value
  ValueList targets, values;  // of assignments
  const Ast *update;
  Mapping *mapping;
  Stages *stages;  // NULL: no pipeline
  uint8_t *reads;  // by persistent: in which formats it is read, as bits; NULL: all that is read has one
};

// packs.c
bool update_takes_axes(const Ast *update);  // does it work on matrices?
ValueId update_pack(Elaborator *e, const ValueId *values, int count, AxisId axis);
void update_make_units(Elaborator *e);

#endif
