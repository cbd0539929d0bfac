// readers_convert.c: readers of directories of Hugging Face, and of the mappings that say what they hold.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/convert/adapters.h"
#include "tests/fuzz/readers.h"
#include "tests/fuzz/scratch.h"

enum { WEIGHTS = 12 };

static const char config_text[] =
    "{\"model_type\": \"llama\", \"architectures\": [\"LlamaForCausalLM\"], \"vocab_size\": 16, \"hidden_size\": 4, "
    "\"num_hidden_layers\": 2, \"num_attention_heads\": 2, \"num_key_value_heads\": 1, \"intermediate_size\": 8, "
    "\"rms_norm_eps\": 1e-5, \"rope_theta\": 10000.0, \"hidden_act\": \"silu\", \"max_position_embeddings\": 32, "
    "\"tie_word_embeddings\": false, \"attention_bias\": false, \"mlp_bias\": false}";

// A directory with these texts; what is NULL is as it was.
static const char *directory_with(const char *config, size_t config_length, const char *index, size_t index_length) {
  static const char tensors[] = "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}     ";
  static char file[8 + sizeof tensors - 1 + 4];
  const uint64_t header = sizeof tensors - 1;
  static bool there;
  if (!there) {
    there = true;
    memcpy(file, &header, sizeof header);
    memcpy(file + 8, tensors, sizeof tensors - 1);
    scratch_file("hf/model.safetensors", file, sizeof file);
    scratch_file("hf/other.safetensors", file, sizeof file);
  }
  scratch_file("hf/config.json", config, config_length);
  if (index) {
    scratch_file("hf/model.safetensors.index.json", index, index_length);
  } else {
    scratch_remove("hf/model.safetensors.index.json");
  }
  return scratch_path("hf");
}

static const ModelNumbers *model_numbers(void) {
  static ModelNumber at[] = {{"vocab", 16, true, false},   {"embed", 4, true, false}, {"layers", 2, true, false},
                             {"kv_heads", 1, true, false}, {"group", 2, true, false}, {"hd", 2, true, false},
                             {"ffn", 8, true, false},      {"seq", 32, true, false},  {"theta", 1e4, false, false},
                             {"eps", 1e-5, false, false},  {"tied", 0, false, true},  {"factor", 1, false, false},
                             {"experts", 4, true, false},  {"heads", 2, true, false}};
  static const ModelNumbers numbers = {"llama", sizeof at / sizeof *at, at};
  return &numbers;
}

// Parameters of a small Llama, as far as they have different forms.
static void weights_fill(Arena *arena, Weights *weights) {
  static const struct {
    const char *name, *axis[3];
    int64_t size[3];
  } all[] = {{"table", {"vocab", "embed"}, {16, 4}},
             {"layers.0.attn_norm.scale", {"embed"}, {4}},
             {"layers.1.attn_norm.scale", {"embed"}, {4}},
             {"layers.0.q.w", {"embed", "kv_heads", "group"}, {4, 1, 2}},
             {"layers.1.q.w", {"embed", "kv_heads", "group"}, {4, 1, 2}},
             {"layers.0.ffn.gate.w", {"embed", "ffn"}, {4, 8}},
             {"layers.0.ffn.up.w", {"embed", "ffn"}, {4, 8}},
             {"head.w", {"embed", "vocab"}, {4, 16}}};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    Weight weight = {.name = all[i].name, .type = TYPE_F32};
    for (; weight.axis_count < 3 && all[i].axis[weight.axis_count]; weight.axis_count++) {
      weight.axis[weight.axis_count] = all[i].axis[weight.axis_count];
      weight.size[weight.axis_count] = all[i].size[weight.axis_count];
    }
    array_push(arena, weights, weight);
  }
}

// What a mapping makes of a config.json, and of axes and parameters.
static bool mapping_used(Arena *arena, const Mapping *mapping, const HfFiles *files) {
  const ModelNumbers *numbers = model_numbers();
  ConfigSettings settings = {0};
  Weights weights = {0};
  Pairs pairs = {0};
  Adapters adapters = {0};
  Unfit unsaid = {.arena = arena};
  json_t *config = NULL;
  const char *why = NULL;
  Error error = {0};
  bool good = config_settings(arena, mapping, files, &settings, &error);
  scratch_answered(good, &error);
  error = (Error){0};
  scratch_answered(config_fits(arena, mapping, numbers, files, &error) || error.status, &error);
  config_serves(arena, mapping, numbers, &why, &error);
  if (config_make(arena, mapping, numbers, files->config, "f32", &config, &error)) {
    json_decref(config);
  }
  weights_fill(arena, &weights);
  error = (Error){0};
  const bool paired = pairs_make(arena, mapping, numbers, &weights, &pairs, &unsaid, &error);
  scratch_answered(paired, &error);
  for (int i = 0; paired && i < pairs.count; i++) {
    const Pair *pair = &pairs.at[i];
    for (int part = 0; part < pair->part_count; part++) {
      float *tensor = calloc((size_t)pair_count(pair) + 1, sizeof *tensor);
      float *parameter = calloc((size_t)weight_count(&weights.at[pair->part[part]]) + 1, sizeof *parameter);
      if (!tensor || !parameter) {
        abort();
      }
      pair_take(pair, part, sizeof *tensor, tensor, parameter);
      pair_give(pair, part, sizeof *tensor, parameter, tensor);
      free(tensor);
      free(parameter);
    }
  }
  adapters_find(arena, mapping, numbers, &weights, &adapters, &error);
  ModelNumbers merged;
  error = (Error){0};
  scratch_answered(adapters_merged(arena, mapping, numbers, &merged, &error), &error);
  return good || paired;
}

bool read_mapping(const uint8_t *bytes, size_t length) {
  static HfFiles files;
  Arena *arena = arena_create();
  Mapping mapping;
  Error error = {0};
  if (!files.config && !hf_open(directory_with(config_text, sizeof config_text - 1, NULL, 0), &files, &error)) {
    fprintf(stderr, "%s\n", error.text);
    abort();
  }
  const char *path = scratch_file("input.hf", bytes, length);
  const bool parsed = mapping_open(arena, path, &mapping, &error);
  scratch_answered(parsed, &error);
  const bool good = parsed && mapping_used(arena, &mapping, &files);
  arena_destroy(arena);
  return good;
}

// Opens the directory, and asks each mapping of the program for the type of model that it says.
static bool directory_read(const char *path) {
  static Arena *forever;
  static Mapping *mappings;
  static int count;
  HfFiles files;
  Error error = {0};
  if (!forever) {
    forever = arena_create();
    if (!mapping_all(forever, &mappings, &count, &error)) {
      abort();
    }
  }
  Arena *arena = arena_create();
  bool good = hf_open(path, &files, &error);
  scratch_answered(good, &error);
  for (int i = 0; good && i < count; i++) {
    if (strcmp(mappings[i].type, config_type(files.config)) == 0) {
      ConfigSettings settings = {0};
      good = config_settings(arena, &mappings[i], &files, &settings, &error);
      scratch_answered(good, &error);
      error = (Error){0};
      scratch_answered(config_fits(arena, &mappings[i], model_numbers(), &files, &error) || error.status, &error);
    }
  }
  hf_close(&files);
  arena_destroy(arena);
  return good;
}

bool read_config(const uint8_t *bytes, size_t length) {
  return directory_read(directory_with((const char *)bytes, length, NULL, 0));
}

bool read_shards(const uint8_t *bytes, size_t length) {
  return directory_read(directory_with(config_text, sizeof config_text - 1, (const char *)bytes, length));
}
