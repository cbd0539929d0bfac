// mapping.h: the text beside a model that says how others name and store its weights; docs/convert.md has the format.
//
//   model llama                                             of llama.mdl
//   type "llama"                                            model_type of config.json
//   class "LlamaForCausalLM"                                its architectures
//   prefix model.                                           names may lack it
//   read NAME = FORMULA of config.json                      an axis, a constant or an entry of the recipe
//   write KEY = FORMULA of axes and constants               config.json says so, and must when it is read
//   must KEY = FORMULA                                      it must when it is read, if it is there
//   also KEY = FORMULA                                      another value that says the same when it is read
//   add KEY = FORMULA                                       said in a config.json that is made anew
//   need KEY                                                config.json has it, if only as null
//   only FORMULA                                            what models can be written so
//   ignore KEY ...                                          of config.json, what changes nothing
//   tensor NAME [DIMENSION, ...] = PARAMETER, ...           where each stands
//   skip NAME [like NAME] [if FORMULA of axes and constants]  a tensor that is not read; it must hold what another does
//   adapter PARAMETER = FACTOR, FACTOR [by FORMULA]         `*` in all three is the same text: what is added to it,
//   merged merged NAME = FORMULA                                   a constant of the model whose adapters are merged
#ifndef MDL_RUNTIME_CONVERT_MAPPING_H
#define MDL_RUNTIME_CONVERT_MAPPING_H

#include "base/array.h"
#include "runtime/convert/formula.h"

enum { MAPPING_MAX_PARTS = 8, MAPPING_MAX_FACTORS = 16, MAPPING_MAX_INDEXES = 4, MAPPING_MAX_DOTS = 16 };

typedef enum {
  MAPPING_READ,
  MAPPING_WRITE,
  MAPPING_MUST,
  MAPPING_ALSO,
  MAPPING_ADD,
  MAPPING_ONLY,
  MAPPING_MERGED,
  MAPPING_NEED
} MappingKind;

typedef struct {
  MappingKind kind;
  const char *name;     // NULL: only
  const char *formula;  // NULL: need
} MappingLine;

// One of the axes that a dimension is made of, the first being the outermost.
typedef struct {
  const char *axis;  // `parts`: which of the parameters on the right
  int dimension;
  bool interleaved;  // positions i and i + half stand beside each other
} MappingFactor;

typedef struct {
  const char *name;  // with {axis} for each position along that axis
  int dimension_count, factor_count;
  MappingFactor factor[MAPPING_MAX_FACTORS];
  int part_count;
  const char *part[MAPPING_MAX_PARTS];
  int line;
} MappingTensor;

typedef struct {
  const char *name, *condition;  // condition NULL: always
  const char *like;              // a tensor that holds the same; or NULL
} MappingSkip;

typedef struct {  // PARAMETER + scale * FACTOR FACTOR is what the two compute; `*` in each stands for the same text
  const char *into, *factor[2];
  const char *scale;  // NULL: 1
  int line;
} MappingAdapter;

typedef struct {
  const char *path;  // for messages
  const char *model, *type, *architecture, *prefix;
  ARRAY(MappingLine) lines;
  ARRAY(const char *) ignored;
  ARRAY(MappingTensor) tensors;
  ARRAY(MappingSkip) skips;
  ARRAY(MappingAdapter) adapters;
  ARRAY(MappingLine) merged;
} Mapping;

typedef struct {  // in the binary: models/*.mdl, models/*.hf and models/*.peft
  const char *name, *text;
  size_t length;
} ModelFile;

extern const ModelFile model_files[];  // ends with a NULL name

const ModelFile *model_file(const char *name);  // NULL: there is none

// Does a name with {axis} in it stand for this one, with numbers in their place?
bool mapping_stands_for(const char *pattern, const char *name);

// Lines alone, which need not be of a model.
bool mapping_parse_lines(Arena *arena, const char *path, const char *text, Mapping *mapping, Error *error);
bool mapping_parse(Arena *arena, const char *path, const char *text, Mapping *mapping, Error *error);
bool mapping_open(Arena *arena, const char *path, Mapping *mapping, Error *error);

// All that the binary has.
bool mapping_all(Arena *arena, Mapping **mappings, int *count, Error *error);

#endif
