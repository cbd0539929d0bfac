// constants.h: are the constants of the run that weights come from those of the model that takes them?
#ifndef MDL_RUNTIME_CONVERT_CONSTANTS_H
#define MDL_RUNTIME_CONVERT_CONSTANTS_H

#include "runtime/convert/layer.h"

typedef struct {
  const ModelNumbers *numbers;  // of the model that takes the weights
  const Mapping *mapping;       // which names its adapters; NULL: none does
  const Weights *weights;       // of the model
  bool adapters;                // some of its adapters are those of this directory
} ConstantsTaker;

// Compares what the text beside a checkpoint says. `scales` gets the scales of adapters that are another, with a way to
// go on; `others` every other constant, and every axis that no weight has and whose size training does not choose.
bool constants_compare(Arena *arena, const Layer *layer, const ConstantsTaker *taker, Unfit *scales, Unfit *others,
                       Error *error);

// Which axes and constants two texts give other values; nothing where one of them cannot be read.
void constants_changed(Arena *arena, const char *before, const char *now, Unfit *changed);

#endif
