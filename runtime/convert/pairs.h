// pairs.h: which tensor of others holds which parameters, and how elements go from one to the other.
#ifndef MDL_RUNTIME_CONVERT_PAIRS_H
#define MDL_RUNTIME_CONVERT_PAIRS_H

#include "compiler/numbers.h"
#include "runtime/convert/mapping.h"
#include "runtime/safetensors.h"

typedef struct {  // a parameter of ours, dense in written order
  const char *name;
  ElementType type;  // f32 or f64
  int axis_count;
  const char *axis[PLAN_MAX_AXES];
  int64_t size[PLAN_MAX_AXES];
} Weight;

typedef ARRAY(Weight) Weights;

typedef struct {
  const char *name;
  int axis_count;  // of the tensor of others
  int64_t size[SAFETENSORS_MAX_AXES];
  int factor_count, parts_factor;                                         // parts_factor -1: one parameter
  int64_t factor_size[MAPPING_MAX_FACTORS], stride[MAPPING_MAX_FACTORS];  // stride: in the parameter
  bool interleaved[MAPPING_MAX_FACTORS];
  int part_count;
  int part[MAPPING_MAX_PARTS];        // of Weights
  int64_t offset[MAPPING_MAX_PARTS];  // elements of the parameter ahead of it
} Pair;

typedef ARRAY(Pair) Pairs;

enum { UNFIT_NAMED = 8 };

typedef struct {  // everything that does not fit, for one message
  Arena *arena;
  const char *text;
  int count;
  int most;  // that are named; 0: UNFIT_NAMED
} Unfit;

void unfit_add(Unfit *unfit, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool unfit_report(const Unfit *unfit, const char *what, Error *error);  // true: everything fits

// All tensors that the mapping makes of these parameters, each of which must be covered once. An error lists what is
// not; where `unsaid` is not NULL, parameters that the mapping says nothing of are put there, and are no error.
bool pairs_make(Arena *arena, const Mapping *mapping, const ModelNumbers *numbers, const Weights *weights, Pairs *pairs,
                Unfit *unsaid, Error *error);

int64_t weight_count(const Weight *weight);  // elements
int64_t pair_count(const Pair *pair);

// Between a whole tensor of others and the whole parameter `part` of it, elements of `bytes` (4 or 8) both.
void pair_take(const Pair *pair, int part, int64_t bytes, const void *tensor, void *parameter);
void pair_give(const Pair *pair, int part, int64_t bytes, const void *parameter, void *tensor);

// Elements of any type of real numbers to another, one after the other. False: a type that is not converted. *beyond:
// a number that the other type cannot hold and that became infinite; 0: there is none.
bool elements_convert(const char *from_dtype, const void *from, const char *to_dtype, void *to, int64_t count,
                      double *beyond);

// The same of the tensor of this name between the types of a plan; such a number is an error.
bool elements_fit(const char *name, ElementType from_type, const void *from, ElementType to_type, void *to,
                  int64_t count, Error *error);
// Of a tensor of a file.
bool elements_take(const char *name, const char *from_dtype, const void *from, ElementType to_type, void *to,
                   int64_t count, Error *error);

// "[61, 32]"
const char *shape_text(Arena *arena, int count, const int64_t *size);

#endif
