// source.h: weights for a model, from a directory of Hugging Face, a run or a checkpoint.
#ifndef MDL_RUNTIME_CONVERT_SOURCE_H
#define MDL_RUNTIME_CONVERT_SOURCE_H

#include "runtime/convert/config.h"
#include "runtime/states.h"

typedef struct SourceOptions {
  const char *path;      // of adapters alone, what they were trained beside is found by what these say
  const char *adapters;  // a directory of PEFT or a checkpoint of what was trained alone, put over `path`; or NULL
  const char *mapping;   // a file; NULL: the one in the binary that fits
  const Mapping *known;  // in place of both; or NULL
  const char *text;      // the model's, for its numbers where those are wanted and not given; or NULL
  bool partial;          // what is missing or left over is no error
  bool fresh;            // nor are adapters that are missing, of a model that has them
} SourceOptions;

typedef struct WeightSource WeightSource;

// The numbers of the model of a text, as resolved.mdl is.
bool numbers_of_text(Arena *arena, const char *text, ModelNumbers *numbers, Error *error);

// Parameters of a set of plans.
bool weights_of_states(Arena *arena, const States *states, Weights *weights);

// The mapping for a directory that has this model_type; `model` NULL: any.
bool source_mapping(Arena *arena, const char *file, const char *type, const char *model, Mapping *mapping,
                    Error *error);

// Compares everything before anything is read: what is missing, left over or of another shape is listed.
bool source_open(Arena *arena, const SourceOptions *options, const ModelNumbers *numbers, const Weights *weights,
                 WeightSource **source, Error *error);
void source_close(WeightSource *source);  // also NULL
const char *source_notes(
    const WeightSource *source);  // which adapters are fresh, and what --partial leaves out, in words; or NULL

// The whole parameter, dense in written order. *found false: the source does not have it.
bool source_read(WeightSource *source, int weight, void *dense, bool *found, Error *error);
const char *source_place(const WeightSource *source, int weight);  // the directory that has it; NULL: none

typedef struct {  // a parameter as it was read, dense in written order: f32, or f64 where the session has that
  const void *elements;
  ElementType type;
  int64_t count;
  const char *place;    // the directory of Hugging Face or the checkpoint that has it
  const char *mapping;  // the file that its names are read by, if one was named; or NULL
} SourceValues;

typedef struct {  // is shown every parameter; `values` NULL: the source does not have it
  void *context;
  bool (*read)(void *context, const PlanState *state, const SourceValues *values, Error *error);
} SourceWatch;

// Puts the weights of a directory over the parameters of a session that was initialised. `notes` gets source_notes.
// watch NULL: nobody looks.
bool source_start(Session *session, const SourceOptions *options, const SourceWatch *watch, Buffer *notes,
                  Error *error);

// The directory itself, if it is one of Hugging Face or a checkpoint; of a run its newest checkpoint.
bool source_find(const char *path, char found[IO_PATH_MAX], Error *error);

#endif
