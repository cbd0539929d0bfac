// layer.h: one directory that weights come from: of Hugging Face, of PEFT, or a checkpoint.
#ifndef MDL_RUNTIME_CONVERT_LAYER_H
#define MDL_RUNTIME_CONVERT_LAYER_H

#include "runtime/convert/config.h"
#include "runtime/frozen.h"

typedef struct {
  const char *path;    // of the directory; of a run that of its newest checkpoint
  HfFiles files;       // of Hugging Face or PEFT
  bool peft;           // of PEFT: adapters alone
  Mapping mapping;     // of these files
  Pairs pairs;         // what each tensor of them holds of the weights
  Safetensors *saved;  // else of a checkpoint
  Frozen *frozen;      // what that leaves out; NULL: nothing
} Layer;

typedef struct {  // what comparing finds
  Unfit *unfit;   // of another shape or type
  Unfit *left;    // that the model does not have
} LayerFindings;

bool layer_open(Arena *arena, const char *path, Layer *layer, Error *error);
void layer_close(Layer *layer);  // also of one that was only zeroed

// Where the parameters are that this directory leaves out. *below NULL: it leaves out none.
bool layer_below(Arena *arena, const Layer *layer, const char **below, Error *error);

// Compares `pairs`, or a checkpoint, with the weights. has[w]: the directory has all of weight w.
bool layer_compare(Arena *arena, const Layer *layer, const ModelNumbers *numbers, const Weights *weights, bool *has,
                   const LayerFindings *findings, Error *error);

// Of a directory of files: the tensor of a pair; none: {0}.
HfTensor layer_tensor(const Layer *layer, const char *name);

// The whole parameter, dense in written order, which the directory has.
bool layer_read(const Layer *layer, const Weight *weight, int w, void *dense, Error *error);

#endif
