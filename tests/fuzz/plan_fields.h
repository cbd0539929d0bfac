// plan_fields.h: where the numbers of a plan stand in its bytes, and other plans made by changing some of them.
//
// The fields are found by reading the plan: whatever the format has (compiler/plan/format.c, instructions.def) is
// found, and a field that is added to it is too.
#ifndef MDL_TESTS_FUZZ_PLAN_FIELDS_H
#define MDL_TESTS_FUZZ_PLAN_FIELDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum {
  FIELD_SIZE,    // int64_t: sizes, offsets, strides, counts
  FIELD_NUMBER,  // int: terms, indices, channels
  FIELD_CHOICE,  // of an enum
  FIELD_SHORT,   // int16_t: operands of a kernel's code
  FIELD_FLAG,
  FIELD_REAL,
  FIELD_WORD,   // uint32_t, uint64_t: sets of mesh axes, hashes
  FIELD_COUNT,  // of a table
  FIELD_TEXT,
  FIELD_KIND_COUNT
} FieldKind;

typedef struct {
  uint32_t at, bytes;
} Field;

typedef struct {
  int count[FIELD_KIND_COUNT];
  Field *of[FIELD_KIND_COUNT];
} Fields;

// Of a whole artefact, head included. The tables are this module's until the next call.
Fields fields_find(const uint8_t *plan, size_t length);

// Changes one field, now and then some bytes, and gives the artefact its right length and hash again. Returns the new
// length, at most `most`; *moved: fields may stand elsewhere now.
size_t fields_change(const Fields *fields, uint64_t seed, uint8_t *plan, size_t length, size_t most, bool *moved);

#endif
