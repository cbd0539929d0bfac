// peft_modules.h: which modules adapter_config.json gives adapters to, as the package peft reads it.
#ifndef MDL_RUNTIME_CONVERT_PEFT_MODULES_H
#define MDL_RUNTIME_CONVERT_PEFT_MODULES_H

#include "runtime/convert/layer.h"

// Does the configuration select every module that the directory has tensors for? peft leaves out tensors of others, so
// that these would make another model. What is not understood is an error, too.
bool peft_modules_fit(Arena *arena, const Layer *layer, Error *error);

#endif
