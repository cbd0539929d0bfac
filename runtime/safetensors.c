// safetensors.c: the header, checked.
#include "runtime/safetensors.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json_guard.h"
#include "runtime/io.h"

struct Safetensors {
  char *path;
  int fd;
  int64_t data, data_bytes;
  json_t *root;  // owns all names
  int count;
  SafetensorsTensor *tensors;
  const SafetensorsTensor **named;  // the same, by name
  Safetensors *next;                // joined with it, or NULL
  bool damaged;                     // it is no safetensors file
};

static const struct {
  const char *name;
  int64_t bits;
} dtypes[] = {
    {"BOOL", 8},  {"U8", 8},   {"I8", 8},   {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"I16", 16}, {"U16", 16}, {"F16", 16},
    {"BF16", 16}, {"I32", 32}, {"U32", 32}, {"F32", 32},    {"F64", 64},    {"I64", 64}, {"U64", 64},
};

int64_t safetensors_dtype_bits(const char *dtype) {
  for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
    if (strcmp(dtypes[i].name, dtype) == 0) {
      return dtypes[i].bits;
    }
  }
  return 0;
}

bool safetensors_name_holds(const char *name) {
  return *name && strcmp(name, "__metadata__") != 0;
}

static bool whole_number(const json_t *value, int64_t *number) {
  *number = json_is_integer(value) ? (int64_t)json_integer_value(value) : -1;
  return *number >= 0;
}

// One entry of the header. On failure returns what is wrong with it.
static const char *tensor_parse(const json_t *entry, SafetensorsTensor *tensor, int64_t data_bytes) {
  const json_t *dtype = json_object_get(entry, "dtype"), *shape = json_object_get(entry, "shape");
  const json_t *offsets = json_object_get(entry, "data_offsets");
  if (!json_is_string(dtype) || !json_is_array(shape) || !json_is_array(offsets) || json_object_size(entry) != 3) {
    return "does not have exactly dtype, shape and data_offsets";
  }
  tensor->dtype = json_string_value(dtype);
  int64_t bits = safetensors_dtype_bits(tensor->dtype);
  if (bits == 0) {
    return "has an unknown dtype";
  }
  if (json_array_size(shape) > SAFETENSORS_MAX_AXES) {
    return "has more than 16 axes";
  }
  tensor->axis_count = (int)json_array_size(shape);
  int64_t bytes = bits / 8;
  for (int i = 0; i < tensor->axis_count; i++) {
    if (!whole_number(json_array_get(shape, (size_t)i), &tensor->size[i])) {
      return "has a size that is not a whole number";
    }
    if (__builtin_mul_overflow(bytes, tensor->size[i], &bytes)) {
      return "has a shape that is too large";
    }
  }
  if (json_array_size(offsets) != 2 || !whole_number(json_array_get(offsets, 0), &tensor->begin) ||
      !whole_number(json_array_get(offsets, 1), &tensor->end)) {
    return "has data_offsets that are not two whole numbers";
  }
  if (tensor->begin > tensor->end || tensor->end > data_bytes) {
    return "has data_offsets outside the file";
  }
  if (tensor->end - tensor->begin != bytes) {
    return "has data_offsets that do not fit its shape and dtype";
  }
  return NULL;
}

static int tensor_order(const void *a, const void *b) {
  const SafetensorsTensor *x = a, *y = b;
  if (x->begin != y->begin) {
    return x->begin < y->begin ? -1 : 1;
  }
  return x->end < y->end ? -1 : x->end > y->end;
}

static int name_order(const void *a, const void *b) {
  const SafetensorsTensor *const *x = a, *const *y = b;
  return strcmp((*x)->name, (*y)->name);
}

static const char *metadata_check(const json_t *metadata) {
  const char *key;
  json_t *value;
  if (!json_is_object(metadata)) {
    return "is not an object";
  }
  json_object_foreach((json_t *)metadata, key, value) {
    if (!json_is_string(value)) {
      return "holds something that is not a string";
    }
  }
  return NULL;
}

static bool __attribute__((format(printf, 3, 4))) broken(Safetensors *file, Error *error, const char *format, ...) {
  char why[ERROR_MAX];
  va_list args;
  va_start(args, format);
  vsnprintf(why, sizeof why, format, args);
  va_end(args);
  file->damaged = true;
  return error_set(error, 1, "%s", why);
}

static bool header_check(Safetensors *file, Error *error) {
  const char *name;
  json_t *entry;
  file->tensors = calloc(json_object_size(file->root) + 1, sizeof *file->tensors);
  file->named = calloc(json_object_size(file->root) + 1, sizeof *file->named);
  if (!file->tensors || !file->named) {
    return error_set(error, 3, "no memory for the header of %s", file->path);
  }
  json_object_foreach(file->root, name, entry) {
    SafetensorsTensor *tensor = &file->tensors[file->count];
    bool metadata = strcmp(name, "__metadata__") == 0;
    const char *why = metadata                ? metadata_check(entry)
                      : json_is_object(entry) ? tensor_parse(entry, tensor, file->data_bytes)
                                              : "is not an object";
    if (why) {
      return broken(file, error, "%s is damaged: '%.200s' %s", file->path, name, why);
    }
    tensor->name = name;
    file->count += !metadata;
  }
  qsort(file->tensors, (size_t)file->count, sizeof *file->tensors, tensor_order);
  for (int i = 0; i < file->count; i++) {
    file->named[i] = &file->tensors[i];
  }
  qsort(file->named, (size_t)file->count, sizeof *file->named, name_order);
  int64_t covered = 0;
  for (int i = 0; i < file->count; i++) {
    if (file->tensors[i].begin != covered) {
      return broken(file, error,
                    "%s is damaged: '%.200s' begins at byte %lld of the data, but what comes before it %s %lld",
                    file->path, file->tensors[i].name, (long long)file->tensors[i].begin,
                    file->tensors[i].begin > covered ? "ends at" : "reaches to", (long long)covered);
    }
    covered = file->tensors[i].end;
  }
  if (covered != file->data_bytes) {
    return broken(file, error, "%s is damaged: its tensors cover %lld bytes of %lld", file->path, (long long)covered,
                  (long long)file->data_bytes);
  }
  return true;
}

static bool header_read(Safetensors *file, int64_t bytes, Error *error) {
  uint8_t prefix[8];
  if (bytes < 10) {
    return broken(file, error, "%s is no safetensors file: it has only %lld bytes", file->path, (long long)bytes);
  }
  if (!io_read(file->fd, file->path, 0, prefix, sizeof prefix, error)) {
    return false;
  }
  if (memcmp(prefix, "version ", sizeof prefix) == 0) {
    return broken(file, error, "%s is no safetensors file but a pointer of Git LFS; fetch the file: `git lfs pull`",
                  file->path);
  }
  uint64_t length = 0;
  for (int i = 7; i >= 0; i--) {
    length = length << 8 | prefix[i];
  }
  if (length > SAFETENSORS_MAX_HEADER || length > (uint64_t)bytes - 8 || length < 2) {
    return broken(file, error, "%s is no safetensors file: its header would have %llu bytes", file->path,
                  (unsigned long long)length);
  }
  char *text = malloc((size_t)length);
  if (!text) {
    return error_set(error, 3, "no memory for the header of %s, %llu bytes", file->path, (unsigned long long)length);
  }
  json_error_t why = {0};
  bool done = io_read(file->fd, file->path, 8, text, (size_t)length, error);
  if (done && text[0] != '{') {
    done = broken(file, error, "%s is no safetensors file: its header does not begin with {", file->path);
  }
  if (done) {
    bool starved;
    file->root = json_read(text, (size_t)length, JSON_REJECT_DUPLICATES, &why, &starved);
    done =
        (!starved ||
         error_set(error, 3, "no memory for the header of %s, %llu bytes", file->path, (unsigned long long)length)) &&
        (file->root != NULL || broken(file, error, "%s is damaged: its header is not JSON: %s", file->path, why.text));
  }
  free(text);
  file->data = 8 + (int64_t)length;
  file->data_bytes = bytes - file->data;
  return done && header_check(file, error);
}

bool safetensors_open(const char *path, Safetensors **file, Error *error) {
  bool ignored;
  return safetensors_open_judging(path, file, &ignored, error);
}

bool safetensors_open_judging(const char *path, Safetensors **file, bool *damaged, Error *error) {
  *damaged = false;
  Safetensors *made = calloc(1, sizeof *made);
  int64_t bytes;
  if (!made || !(made->path = strdup(path))) {
    free(made);
    return error_set(error, 3, "no memory");
  }
  if (!io_open_sized(path, &made->fd, &bytes, error) || !header_read(made, bytes, error)) {
    *damaged = made->damaged;
    safetensors_close(made);
    return false;
  }
  *file = made;
  return true;
}

static void close_one(Safetensors *file) {
  if (file->fd >= 0) {
    close(file->fd);
  }
  json_decref(file->root);
  free(file->tensors);
  free(file->named);
  free(file->path);
  free(file);
}

void safetensors_close(Safetensors *file) {
  while (file) {
    Safetensors *next = file->next;
    close_one(file);
    file = next;
  }
}

static const SafetensorsTensor *find_in(const Safetensors *file, const char *name) {
  const SafetensorsTensor wanted = {.name = name}, *key = &wanted;
  const SafetensorsTensor **found = bsearch(&key, file->named, (size_t)file->count, sizeof *file->named, name_order);
  return found ? *found : NULL;
}

bool safetensors_join(Safetensors *file, Safetensors *more, Error *error) {
  Safetensors *last = file;
  const char *twice = NULL;
  for (const Safetensors *part = file; part; part = part->next) {
    for (int i = 0; i < more->count && !twice; i++) {
      twice = find_in(part, more->tensors[i].name) ? more->tensors[i].name : NULL;
    }
  }
  while (last->next) {
    last = last->next;
  }
  last->next = more;
  return !twice || error_set(error, 1, "%s is damaged: '%.200s' is in another file too", more->path, twice);
}

int safetensors_count(const Safetensors *file) {
  int count = 0;
  for (; file; file = file->next) {
    count += file->count;
  }
  return count;
}

const SafetensorsTensor *safetensors_at(const Safetensors *file, int index) {
  while (index >= file->count) {
    index -= file->count;
    file = file->next;
  }
  return &file->tensors[index];
}

const SafetensorsTensor *safetensors_find(const Safetensors *file, const char *name) {
  const SafetensorsTensor *found = NULL;
  for (; file && !found; file = file->next) {
    found = find_in(file, name);
  }
  return found;
}

const char *safetensors_metadata(const Safetensors *file, const char *key) {
  return json_string_value(json_object_get(json_object_get(file->root, "__metadata__"), key));
}

bool safetensors_read(const Safetensors *file, const SafetensorsTensor *tensor, void *data, Error *error) {
  while (tensor < file->tensors || tensor >= file->tensors + file->count) {
    file = file->next;
  }
  return io_read(file->fd, file->path, file->data + tensor->begin, data, (size_t)(tensor->end - tensor->begin), error);
}

static json_t *name_json(void *name) {
  return json_string(name);
}

bool safetensors_header(SafetensorsTensor *tensors, int count, Buffer *out) {
  static const char zeros[8] = {0};
  size_t start = out->length;
  int64_t at = 0;
  buffer_bytes(out, zeros, 8);
  buffer_text(out, "{\"__metadata__\":{\"format\":\"pt\"}");
  for (int i = 0; i < count; i++) {
    SafetensorsTensor *tensor = &tensors[i];
    char *quoted = json_made(name_json, (void *)tensor->name, JSON_ENCODE_ANY);
    if (!quoted) {
      return false;
    }
    buffer_format(out, ",%s:{\"dtype\":\"%s\",\"shape\":[", quoted, tensor->dtype);
    json_guard_free(quoted);
    int64_t bytes = safetensors_dtype_bits(tensor->dtype) / 8;
    for (int a = 0; a < tensor->axis_count; a++) {
      buffer_format(out, "%s%lld", a ? "," : "", (long long)tensor->size[a]);
      bytes *= tensor->size[a];
    }
    tensor->begin = at;
    tensor->end = at += bytes;
    buffer_format(out, "],\"data_offsets\":[%lld,%lld]}", (long long)tensor->begin, (long long)tensor->end);
  }
  buffer_text(out, "}");
  buffer_repeat(out, ' ', (int)((8 - (out->length - start) % 8) % 8));
  if (out->failed) {
    return false;
  }
  uint64_t length = out->length - start - 8;
  for (int i = 0; i < 8; i++) {
    out->text[start + (size_t)i] = (char)(length >> (8 * i) & 255);
  }
  return true;
}
