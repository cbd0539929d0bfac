// adapters.h: low-rank adapters of a model, as its mapping says, and how they are added to the weights beside them.
#ifndef MDL_RUNTIME_CONVERT_ADAPTERS_H
#define MDL_RUNTIME_CONVERT_ADAPTERS_H

#include "runtime/convert/config.h"

enum { ADAPTER_MAX_AXES = 2 * PLAN_MAX_AXES };

typedef struct {        // into += scale * the sum over the axes that `into` lacks of factor[0] * factor[1]
  int into, factor[2];  // of Weights
  double scale;
  int kept, axis_count;                 // the axes of `into`; and with those behind them that are summed over
  int64_t size[ADAPTER_MAX_AXES];       // of each
  int64_t stride[2][ADAPTER_MAX_AXES];  // in each factor; 0: it lacks the axis
} Adapter;

typedef ARRAY(Adapter) Adapters;

// Does a name have the form of a pattern with one `*`? *stem: what the `*` stands for.
bool pattern_fits(const char *pattern, const char *name, const char **stem, size_t *length);
const char *pattern_name(Arena *arena, const char *pattern, const char *stem, size_t length);

// Is this the name of a factor of an adapter, whether the model has the rest of it or not?
bool adapter_names(const Mapping *mapping, const char *name);

// All of a model. An error: a factor without what it is added to, or with axes that do not fit.
bool adapters_find(Arena *arena, const Mapping *mapping, const ModelNumbers *numbers, const Weights *weights,
                   Adapters *adapters, Error *error);

// The numbers of the model whose adapters are merged.
bool adapters_merged(Arena *arena, const Mapping *mapping, const ModelNumbers *numbers, ModelNumbers *merged,
                     Error *error);

// Adds it to `into`, f32 or f64. Factors are f64. Each element is summed in f64 and rounded once. False:
// finite ones make one that is not.
bool adapter_add(const Adapter *adapter, const double *first, const double *second, ElementType type, void *into,
                 double *row);
int64_t adapter_row(const Adapter *adapter);  // elements of `row`

#endif
