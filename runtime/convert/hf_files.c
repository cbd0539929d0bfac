// hf_files.c: opens directories of Hugging Face; trusts neither the index nor the shards.
#include "runtime/convert/hf_files.h"

#include <stdlib.h>
#include <string.h>

#include "base/json_guard.h"

enum { JSON_MAX = 256 << 20, SHARDS_MAX = 4096 };

bool hf_is(const char *path) {
  char config[IO_PATH_MAX];
  Error ignored;
  return io_path(config, &ignored, "%s/" HF_CONFIG, path) && io_is_file(config);
}

bool hf_json(const char *path, json_t **root, Error *error) {
  char *text;
  size_t size;
  json_error_t why = {0};
  bool starved;
  if (!io_read_file(path, JSON_MAX, &text, &size, error)) {
    return false;
  }
  *root = json_read(text, size, JSON_REJECT_DUPLICATES, &why, &starved);
  free(text);
  if (starved) {
    return error_set(error, 3, "no memory to read %s", path);
  }
  if (!json_is_object(*root)) {
    const bool parsed = *root != NULL;
    json_decref(*root);
    *root = NULL;
    return parsed ? error_set(error, 1, "%s is no JSON object", path)
                  : error_set(error, 1, "%s:%d: is not JSON: %s", path, why.line, why.text);
  }
  return true;
}

static bool shard_add(HfFiles *files, const char *name, Error *error) {
  char path[IO_PATH_MAX];
  if (files->shard_count == SHARDS_MAX) {
    return error_set(error, 1, "%s has more than %d shards", files->path, SHARDS_MAX);
  }
  return io_path(path, error, "%s/%s", files->path, name) &&
         safetensors_open(path, &files->shards[files->shard_count], error) && (files->shard_count++, true);
}

// A tensor that two shards have would be either of them.
static bool shard_apart(const HfFiles *files, Error *error) {
  const Safetensors *newest = files->shards[files->shard_count - 1];
  for (int f = 0; f < files->shard_count - 1; f++) {
    for (int i = 0; i < safetensors_count(newest); i++) {
      const char *name = safetensors_at(newest, i)->name;
      if (safetensors_find(files->shards[f], name)) {
        return error_set(error, 1, "two shards of %s hold '%.100s': one of them is of another model", files->path,
                         name);
      }
    }
  }
  return true;
}

// Each file that the index names, once; all of its tensors must be where it says.
static bool shards_open(HfFiles *files, const char *index, Error *error) {
  const char *tensor;
  json_t *root = NULL, *value;
  if (!hf_json(index, &root, error)) {
    return false;
  }
  json_t *map = json_object_get(root, "weight_map"), *opened = json_object();
  bool done = json_is_object(map) ? opened || error_set(error, 3, "no memory to read %s", index)
                                  : error_set(error, 1, "%s has no weight_map", index);
  json_object_foreach(map, tensor, value) {
    const char *name = json_string_value(value);
    char path[IO_PATH_MAX];
    if (!done) {
      break;
    }
    if (!name || strchr(name, '/') || name[0] == '.' || !name[0]) {
      done = error_set(error, 1, "%s: the file of '%.100s' is no name of a file in this directory", index, tensor);
    } else if (!json_object_get(opened, name)) {
      done = io_path(path, error, "%s/%s", files->path, name) &&
             (!io_absent(path) || error_set(error, 1, "the shard %s is %s, in which %s says '%.100s' is", path,
                                            io_no_file(path) ? io_no_file(path) : "not there", index, tensor)) &&
             shard_add(files, name, error) && shard_apart(files, error) &&
             (json_object_set_new(opened, name, json_integer(files->shard_count - 1)) == 0 ||
              error_set(error, 3, "no memory to read %s", index));
    }
    if (done && !safetensors_find(files->shards[json_integer_value(json_object_get(opened, name))], tensor)) {
      done = error_set(error, 1, "%s says that '%.100s' is in %s, but it is not", index, tensor, name);
    }
  }
  json_decref(opened);
  json_decref(root);
  return done;
}

static bool weights_open(HfFiles *files, Error *error) {
  char single[IO_PATH_MAX], index[IO_PATH_MAX], other[IO_PATH_MAX];
  if (!io_path(single, error, "%s/model.safetensors", files->path) ||
      !io_path(index, error, "%s/model.safetensors.index.json", files->path) ||
      !io_path(other, error, "%s/pytorch_model.bin", files->path)) {
    return false;
  }
  if (!io_absent(single)) {  // also beside an index, which save_pretrained leaves where there were shards
    return shard_add(files, "model.safetensors", error);
  }
  if (!io_absent(index)) {
    return shards_open(files, index, error);
  }
  const char *link = io_no_file(index) ? index : io_no_file(single) ? single : NULL;
  if (link) {
    return error_set(error, 1, "%s is %s", link, io_no_file(link));
  }
  return error_set(error, 1, "%s holds neither model.safetensors nor model.safetensors.index.json%s", files->path,
                   io_is_file(other) ? "; pytorch_model.bin is not read: save_pretrained of the package transformers "
                                       "writes safetensors"
                                     : "");
}

static bool config_open(const char *path, const char *name, HfFiles *files, Error *error) {
  char config[IO_PATH_MAX];
  *files = (HfFiles){.name = name, .shards = calloc(SHARDS_MAX, sizeof(Safetensors *))};
  if (!files->shards) {
    return error_set(error, 3, "no memory");
  }
  return io_path(files->path, error, "%s", path) && io_path(config, error, "%s/%s", path, name) &&
         hf_json(config, &files->config, error);
}

bool hf_open(const char *path, HfFiles *files, Error *error) {
  return config_open(path, "config.json", files, error) && weights_open(files, error);
}

bool hf_open_files(const char *path, const char *config, const char *weights, HfFiles *files, Error *error) {
  return config_open(path, config, files, error) && shard_add(files, weights, error);
}

void hf_close(HfFiles *files) {
  for (int i = 0; i < files->shard_count; i++) {
    safetensors_close(files->shards[i]);
  }
  free(files->shards);
  json_decref(files->config);
  *files = (HfFiles){0};
}

HfTensor hf_find(const HfFiles *files, const char *name) {
  for (int i = 0; i < files->shard_count; i++) {
    const SafetensorsTensor *tensor = safetensors_find(files->shards[i], name);
    if (tensor) {
      return (HfTensor){files->shards[i], tensor};
    }
  }
  return (HfTensor){0};
}

static const json_t *item_of(const json_t *value) {
  const json_t *first = json_array_get(value, 0);
  for (size_t i = 1; i < json_array_size(value); i++) {
    if (!json_equal(first, json_array_get(value, i))) {
      return value;
    }
  }
  return first ? first : value;
}

Value hf_value(Arena *arena, const json_t *object, const char *key) {
  const char *at = key;
  const json_t *value = object;
  for (;;) {
    const size_t length = strcspn(at, ".");
    value = json_object_get(value, arena_format(arena, "%.*s", (int)length, at));
    if (!at[length]) {
      break;
    }
    at += length + 1;
  }
  value = item_of(value);
  if (!value || json_is_null(value)) {
    return (Value){.kind = VALUE_NONE};
  }
  if (json_is_boolean(value)) {
    return (Value){.kind = VALUE_TRUTH, .number = json_is_true(value)};
  }
  if (json_is_number(value)) {
    return (Value){.kind = VALUE_NUMBER, .number = json_number_value(value)};
  }
  if (json_is_string(value)) {
    return (Value){.kind = VALUE_TEXT, .text = arena_format(arena, "%s", json_string_value(value))};
  }
  char *text = json_dumped((json_t *)value, JSON_ENCODE_ANY);
  const char *kept = arena_format(arena, "%.200s", text ? text : "(no memory to write it)");
  json_guard_free(text);
  return (Value){.kind = VALUE_OTHER, .text = kept};
}
