// hf_files.h: a directory in the form of Hugging Face: config.json, and model.safetensors or its shards.
#ifndef MDL_RUNTIME_CONVERT_HF_FILES_H
#define MDL_RUNTIME_CONVERT_HF_FILES_H

#include <jansson.h>

#include "runtime/convert/formula.h"
#include "runtime/io.h"
#include "runtime/safetensors.h"

typedef struct {
  char path[IO_PATH_MAX];
  const char *name;  // of the file that `config` is
  json_t *config;
  int shard_count;
  Safetensors **shards;
} HfFiles;

typedef struct {
  const Safetensors *file;
  const SafetensorsTensor *tensor;
} HfTensor;

bool hf_json(const char *path, json_t **object, Error *error);  // of a file; to be dropped by json_decref
#define HF_CONFIG "config.json"
bool hf_is(const char *path);  // is there a config.json in this directory?

bool hf_open(const char *path, HfFiles *files, Error *error);
// A directory of one file of settings and one of tensors, by their names.
bool hf_open_files(const char *path, const char *config, const char *weights, HfFiles *files, Error *error);
void hf_close(HfFiles *files);  // also of one that was only zeroed
HfTensor hf_find(const HfFiles *files, const char *name);

// A value of a JSON object by a path of names with dots; `none` for null and what is not there. A list whose items are
// all alike is as one of them.
Value hf_value(Arena *arena, const json_t *object, const char *key);

#endif
