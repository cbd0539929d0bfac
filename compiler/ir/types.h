// types.h: element types of values and memory.
#ifndef MDL_COMPILER_IR_TYPES_H
#define MDL_COMPILER_IR_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// X(constant, name in text, bytes of one element, is a floating-point type, safetensors dtype)
#define ELEMENT_TYPES(X)                   \
  X(TYPE_REAL, "real", 0, true, NULL)      \
  X(TYPE_F64, "f64", 8, true, "F64")       \
  X(TYPE_F32, "f32", 4, true, "F32")       \
  X(TYPE_F16, "f16", 2, true, "F16")       \
  X(TYPE_BF16, "bf16", 2, true, "BF16")    \
  X(TYPE_E4M3, "e4m3", 1, true, "F8_E4M3") \
  X(TYPE_E5M2, "e5m2", 1, true, "F8_E5M2") \
  X(TYPE_INT, "int", 4, false, "I32")      \
  X(TYPE_INDEX, "index", 4, false, "I32")  \
  X(TYPE_BOOL, "bool", 4, false, "I32")

// Elements along what a product sums over that have one scale, where products in 8 bits have many (`scaling block`).
enum { SCALE_BLOCK = 128 };

// TYPE_REAL is a floating-point value whose format the precision pass has not chosen yet.
// int, index and bool are 32-bit signed integers in memory; bool holds 0 or 1.
typedef enum {
#define ELEMENT_TYPE(constant, name, bytes, floating, dtype) constant,
  ELEMENT_TYPES(ELEMENT_TYPE)
#undef ELEMENT_TYPE
      ELEMENT_TYPE_COUNT
} ElementType;

const char *element_type_name(ElementType type);
int64_t element_type_bytes(ElementType type);
bool element_type_floating(ElementType type);
const char *element_type_dtype(ElementType type);
bool element_type_of(const char *name, ElementType *type);  // false: no such type

#endif
