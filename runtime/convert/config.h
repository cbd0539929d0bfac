// config.h: between config.json and the axes and constants of a model, as a mapping says.
#ifndef MDL_RUNTIME_CONVERT_CONFIG_H
#define MDL_RUNTIME_CONVERT_CONFIG_H

#include "runtime/convert/hf_files.h"
#include "runtime/convert/pairs.h"

typedef struct {
  const char *name, *value;  // as the language writes it
  double number;
} ConfigSetting;

typedef ARRAY(ConfigSetting) ConfigSettings;

const char *config_type(const json_t *config);  // its model_type; "" if there is none

// What config.json says of the model, as settings of a recipe. Refuses what the mapping does not know.
bool config_settings(Arena *arena, const Mapping *mapping, const HfFiles *files, ConfigSettings *settings,
                     Error *error);

// Does the model compute what config.json says? An error lists what not.
bool config_fits(Arena *arena, const Mapping *mapping, const ModelNumbers *numbers, const HfFiles *files, Error *error);

// Can models of these numbers be written by this mapping? *why: the condition that does not hold.
bool config_serves(Arena *arena, const Mapping *mapping, const ModelNumbers *numbers, const char **why, Error *error);

// A condition on axes and constants.
bool config_holds(Arena *arena, const char *condition, const ModelNumbers *numbers, bool *holds, Error *error);

// The value of a formula of axes and constants.
bool config_number(Arena *arena, const Mapping *mapping, const char *formula, const ModelNumbers *numbers, Value *value,
                   Error *error);

// A config.json for such a model; `kept` (or NULL) has what it said before; `dtype` NULL: it has no word for that. To
// be freed with json_decref.
bool config_make(Arena *arena, const Mapping *mapping, const ModelNumbers *numbers, const json_t *kept,
                 const char *dtype, json_t **config, Error *error);

#endif
