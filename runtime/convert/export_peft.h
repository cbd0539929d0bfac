// export_peft.h: writes the adapters of a checkpoint in the form of PEFT.
#ifndef MDL_RUNTIME_CONVERT_EXPORT_PEFT_H
#define MDL_RUNTIME_CONVERT_EXPORT_PEFT_H

#include "runtime/convert/saved.h"

// Which tensors are written, and adapter_config.json (to be freed with json_decref). An adapter whose second factor is
// 0 adds nothing and is left out, unless all are such. What is trained and is no adapter is an error. *base: the
// configuration names the directory of the model.
bool export_peft(Saved *saved, const Mapping *model, Pairs *pairs, json_t **config, bool *base, Error *error);

#endif
