// formula.h: the small formulas of mapping texts: `head_dim or hidden_size / num_attention_heads`.
//
//   x if c else y    x or y    == != < >    + -    * /    - not    name  12  1e-5  "text"  true false none inf  (x)
//
// What is not there is `none`: arithmetic with it gives none, `x or y` gives y.
#ifndef MDL_RUNTIME_CONVERT_FORMULA_H
#define MDL_RUNTIME_CONVERT_FORMULA_H

#include "runtime/device.h"

typedef enum { VALUE_NONE, VALUE_TRUTH, VALUE_NUMBER, VALUE_TEXT, VALUE_OTHER } ValueKind;

typedef struct {
  ValueKind kind;
  double number;     // of a truth 0 or 1
  const char *text;  // VALUE_TEXT; of VALUE_OTHER how it is written
} Value;

typedef struct {
  void *context;
  bool (*find)(void *context, const char *name, Value *value, Error *error);
  Arena *arena;  // of texts
} FormulaNames;

bool formula_evaluate(const char *formula, const FormulaNames *names, Value *value, Error *error);

// Calls back with each name in it.
void formula_names(Arena *arena, const char *formula, void (*name)(void *context, const char *name), void *context);

bool value_true(const Value *value);
bool value_equal(const Value *a, const Value *b);  // numbers: but for rounding of the last digits
const char *value_text(Arena *arena, const Value *value);

#endif
