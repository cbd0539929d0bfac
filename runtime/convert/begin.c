// begin.c: the token that the package transformers puts ahead of each text, by the files of a tokenizer.
#include "runtime/convert/begin.h"

#include <stdio.h>
#include <string.h>

#include "runtime/convert/hf_files.h"

// The object of that file; NULL: there is none that can be read.
static json_t *object_of(const char *directory, const char *name) {
  char path[IO_PATH_MAX];
  json_t *object = NULL;
  Error ignored = {0};
  if (!io_path(path, &ignored, "%s/%s", directory, name) || !io_is_file(path) || !hf_json(path, &object, &ignored)) {
    return NULL;
  }
  return object;
}

static const char *text_at(const json_t *object, const char *key) {
  const char *text = json_string_value(json_object_get(object, key));
  return text ? text : "";
}

// Of a post-processor that is a template, or of one in a sequence of them: the token that a text begins with, or NULL.
static const char *template_begins(const json_t *processor) {
  const json_t *steps = json_object_get(processor, "processors"), *step;
  const json_t *first = json_array_get(json_object_get(processor, "single"), 0);
  const char *token = json_string_value(json_object_get(json_object_get(first, "SpecialToken"), "id"));
  size_t index;
  json_array_foreach(steps, index, step) {
    const json_t *begins = json_array_get(json_object_get(step, "single"), 0);
    const char *other = json_string_value(json_object_get(json_object_get(begins, "SpecialToken"), "id"));
    token = token ? token : other;
  }
  return token;
}

// A class of SentencePiece puts its first token ahead where nothing is said.
static const char *class_begins(const json_t *config) {
  static const char *const classes[][2] = {{"Llama", "<s>"}, {"Gemma", "<bos>"}};
  for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
    if (strncmp(text_at(config, "tokenizer_class"), classes[i][0], strlen(classes[i][0])) == 0) {
      return classes[i][1];
    }
  }
  return NULL;
}

void convert_begin(const char *directory, const char *file, char *text, size_t size) {
  const bool pieces = strcmp(file, CONVERT_TOKENIZER_MODEL) == 0;
  json_t *config = object_of(directory, "tokenizer_config.json");
  json_t *tokenizer = pieces ? NULL : object_of(directory, file);
  const json_t *adds = json_object_get(config, "add_bos_token"), *named = json_object_get(config, "bos_token");
  const char *bos = json_is_object(named) ? text_at(named, "content") : json_string_value(named);
  const char *by_class = pieces ? class_begins(config) : NULL;
  const char *token = template_begins(json_object_get(tokenizer, "post_processor"));
  bos = bos ? bos : by_class;
  if (json_is_false(adds)) {
    token = NULL;
  } else if (!token && (json_is_true(adds) || by_class)) {
    token = bos;
  }
  snprintf(text, size, "%s", token && strlen(token) < size ? token : "");
  json_decref(tokenizer);
  json_decref(config);
}
