// peft.h: adapters in the form of the package peft: adapter_config.json and adapter_model.safetensors.
//
// models/lora.peft says what its configuration means and how tensors are called; which of them are of which parameters
// follows from the lines `tensor` and `adapter` of the model's mapping.
#ifndef MDL_RUNTIME_CONVERT_PEFT_H
#define MDL_RUNTIME_CONVERT_PEFT_H

#include "runtime/convert/layer.h"

#define PEFT_CONFIG "adapter_config.json"
#define PEFT_WEIGHTS "adapter_model.safetensors"

bool peft_is(const char *path);  // is there an adapter_config.json in this directory?
bool peft_open(const char *path, HfFiles *files, Error *error);

// The directory of the model that the adapters are for, if it is on this machine; else an error.
bool peft_base(Arena *arena, const HfFiles *files, const char **base, Error *error);

// What the configuration says of the model: its constants of adapters.
bool peft_settings(Arena *arena, const HfFiles *files, ConfigSettings *settings, Error *error);

// The mapping of the adapters of a model, of which `weights` are all parameters.
bool peft_mapping(Arena *arena, const Mapping *model, const Weights *weights, Mapping *mapping, Error *error);

// The tensors of the adapters among `weights`. `unsaid` gets adapters that this form has no tensors for.
bool peft_pairs(Arena *arena, const Mapping *mapping, const Mapping *model, const ModelNumbers *numbers,
                const Weights *weights, Pairs *pairs, Unfit *unsaid, Error *error);

// Of a directory that was opened: its mapping and pairs; the model must be the one that its configuration says.
bool peft_prepare(Arena *arena, Layer *layer, const Mapping *model, const ModelNumbers *numbers, const Weights *weights,
                  Error *error);

// A factor without the other one.
void peft_halves(const Layer *layer, Unfit *unfit);

// The name of the module that a tensor is a factor of, "model.layers.0.self_attn.q_proj"; NULL: of none. *second: it is
// the factor that makes what comes out.
const char *peft_module(Arena *arena, const Mapping *mapping, const char *tensor, bool *second);

#endif
