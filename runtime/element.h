// element.h: one element in memory as a number, and back.
#ifndef MDL_RUNTIME_ELEMENT_H
#define MDL_RUNTIME_ELEMENT_H

#include "compiler/ir/types.h"

// Of any alignment. Formats smaller than f32 are rounded to the nearest even; integers are cut. NaN, and false with
// nothing written: an element type whose bytes are not known.
double element_get(ElementType type, const void *at);
bool element_put(ElementType type, void *at, double value);

#endif
