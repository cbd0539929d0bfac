// export.c: writes a directory of Hugging Face from a checkpoint.
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json_guard.h"
#include "compiler/plan/artefact.h"
#include "runtime/convert/convert.h"
#include "runtime/convert/export_peft.h"
#include "runtime/convert/peft.h"
#include "runtime/data/data.h"
#include "runtime/data/fingerprint.h"
#include "runtime/data/sentence.h"
#include "runtime/element.h"
#include "runtime/run.h"

enum { TEXT_MAX = 64 << 20, PARTS_MAX = 100 };
static const int64_t SHARD_BYTES = 5000000000;

typedef struct {
  Arena *arena;
  const ExportOptions *options;
  Exported *result;
  Saved saved;
  json_t *config;
  json_t *kept;  // what config.json said when the weights came; or NULL
  Mapping mapping;
  Pairs pairs;
  const char *dtype;
  char *loaded[MAPPING_MAX_PARTS];  // the parameters of the newest tensor
  int loaded_weight[MAPPING_MAX_PARTS];
  char out[IO_PATH_MAX], part[IO_PATH_MAX];  // the directory that is made, and its name until it is whole
} Export;

// --- what is written ---

static void export_kept(Export *x) {
  char kept[IO_PATH_MAX], path[IO_PATH_MAX], *text = NULL;
  size_t size;
  Error ignored;
  if (saved_kept(&x->saved, kept) && io_path(path, &ignored, "%s/config.json", kept) && io_is_file(path) &&
      io_read_file(path, TEXT_MAX, &text, &size, &ignored)) {
    x->kept = json_loadb(text, size, 0, NULL);
    if (!json_is_object(x->kept)) {
      json_decref(x->kept);
      x->kept = NULL;
    }
  }
  free(text);
}

// The mapping that is named, else that of the type that the weights came with, else the first that can say this model.
static bool export_mapping(Export *x, Error *error) {
  Mapping *all;
  int count;
  const char *why = NULL, *reasons = "", *type = x->kept ? config_type(x->kept) : "";
  if (x->options->mapping) {
    if (!mapping_open(x->arena, x->options->mapping, &x->mapping, error) ||
        !config_serves(x->arena, &x->mapping, &x->saved.numbers, &why, error)) {
      return false;
    }
    return !why || error_set(error, 1, "%s is for models of which `%s` is true", x->mapping.path, why);
  }
  if (!mapping_all(x->arena, &all, &count, error)) {
    return false;
  }
  bool found = false;
  for (int pass = 0; pass < 2 && !found; pass++) {  // first those of the same type as before
    for (int i = 0; i < count && !found; i++) {
      if (strcmp(all[i].model, x->saved.numbers.model) != 0 || (pass == 0 && strcmp(all[i].type, type) != 0)) {
        continue;
      }
      if (!config_serves(x->arena, &all[i], &x->saved.numbers, &why, error)) {
        return false;
      }
      found = !why;
      x->mapping = all[i];
      reasons = why && pass ? arena_format(x->arena, "%s; %s is for `%s`", reasons, all[i].path, why) : reasons;
    }
  }
  return found || error_set(error, 1, "no mapping built in is for the model '%s'%s; give one with --mapping FILE.hf",
                            x->saved.numbers.model, reasons);
}

// Folds adapters into the weights, if that is asked for: config.json has no word for them.
static bool export_adapters(Export *x, Error *error) {
  const char *adapter = saved_adapter(&x->saved, &x->mapping);
  if (x->options->merge) {
    return saved_merge(&x->saved, &x->mapping, error);
  }
  return !adapter ||
         error_set(error, 1,
                   "the model has adapters, such as '%.100s'; give --merge to add them to the weights, or --to "
                   "peft to write them by themselves",
                   adapter);
}

// --- files ---

// A new directory: one that a program left which was killed, and that had the same number, as in a container, would mix
// its files into this one.
static bool part_make(Export *x, Error *error) {
  char above[IO_PATH_MAX];
  const char *slash = strrchr(x->out, '/');
  if (!io_path(above, error, "%.*s", slash ? (int)(slash - x->out) + 1 : 1, slash ? x->out : ".") ||
      !io_make_path(above, error)) {
    return false;
  }
  for (int n = 0; n < PARTS_MAX; n++) {
    char more[16] = "";
    if (n > 0) {
      snprintf(more, sizeof more, "-%d", n);
    }
    if (!io_path(x->part, error, "%s.part-%ld%s", x->out, (long)getpid(), more)) {
      return false;
    }
    if (mkdir(x->part, 0777) == 0) {
      const bool synced = io_sync_directory(NULL, above, error);
      return synced || (rmdir(x->part), false);
    }
    if (errno != EEXIST) {
      return io_failed("create directory", x->part, error);
    }
  }
  return error_set(error, 1,
                   "there are %d directories %s.part-%ld already, which killed programs have left; remove them",
                   PARTS_MAX, x->out, (long)getpid());
}

// All is written into a directory beside the one that is asked for, which takes its name when it is whole: one that is
// killed leaves NAME.part-N and nothing under the name itself. An empty directory in its place goes first, so that one
// that cannot be replaced, such as a mounted volume, is an error before anything is written.
static bool part_create(Export *x, Error *error) {
  const char *out = x->options->out;
  size_t length = strlen(out);
  while (length > 1 && out[length - 1] == '/') {
    length--;
  }
  if (length == 0) {
    return error_set(error, 1, "the name of the directory is empty");
  }
  if (!io_path(x->out, error, "%.*s", (int)length, out)) {
    return false;
  }
  if (rmdir(x->out) != 0 && errno != ENOENT) {
    return errno == ENOTEMPTY || errno == EEXIST
               ? error_set(error, 1, "the directory %s is not empty; give another one with -o", x->out)
               : error_set(error, errno == ENOMEM ? 3 : 1,
                           "cannot make the directory %s: %s; give one with -o that is not there yet", x->out,
                           strerror(errno));
  }
  return part_make(x, error);
}

// The names of all files are on the disk before that of the directory.
static bool part_finish(Export *x, Error *error) {
  char parent[IO_PATH_MAX];
  return io_sync_directory(NULL, x->part, error) && io_rename(NULL, x->part, x->out, error) &&
         io_path(parent, error, "%s/..", x->out) && io_sync_directory(NULL, parent, error);
}

bool convert_copy_kept(const char *from, const char *to, bool config, bool *tokenizer, Error *error) {
  static const char *const names[] = {CONVERT_TOKENIZER_JSON,
                                      CONVERT_TOKENIZER_MODEL,
                                      "tokenizer_config.json",
                                      "added_tokens.json",
                                      "special_tokens_map.json",
                                      "generation_config.json",
                                      "chat_template.jinja",
                                      "vocab.json",
                                      "merges.txt",
                                      "config.json"};
  const int count = (int)(sizeof names / sizeof *names) - !config;
  *tokenizer = false;
  for (int i = 0; i < count; i++) {
    char source[IO_PATH_MAX], target[IO_PATH_MAX], *text = NULL;
    size_t size;
    if (!io_path(source, error, "%s/%s", from, names[i]) || !io_path(target, error, "%s/%s", to, names[i])) {
      return false;
    }
    if (!io_named(source)) {  // what is there and cannot be read is an error: weights without it would be other ones
      continue;
    }
    const bool done =
        io_read_file(source, (size_t)1 << 30, &text, &size, error) && io_replace_file(NULL, target, text, size, error);
    free(text);
    if (!done) {
      return false;
    }
    *tokenizer |= i < 2;
  }
  return io_sync_directory(NULL, to, error);
}

// By what it holds, as wherever a tokenizer is read. NULL: one that transformers knows by no name, as ranks of
// tiktoken.
static const char *tokenizer_name(const char *text, size_t size) {
  const size_t blank = strspn(text, " \t\r\n");
  return sentence_looks(text, size) ? CONVERT_TOKENIZER_MODEL : text[blank] == '{' ? CONVERT_TOKENIZER_JSON : NULL;
}

// Is the file the one that the run was trained with? Of a mix there may be several.
static bool is_as_trained(const Export *x, const PlanRun *run, bool *same, Error *error) {
  const char *word = json_string_value(json_object_get(x->saved.manifest, "tokenizer_hash"));
  const uint64_t saved = word && run->data_kind && strcmp(run->data_kind, "mix") != 0 ? strtoull(word, NULL, 16) : 0;
  uint64_t print = saved;
  const bool done = saved == 0 || fingerprint_tokenizer(run->tokenizer, &print, error);
  *same = print == saved;
  return done;
}

// What adds tokens to a .model lies beside it.
static bool beside_copy(const Export *x, const char *tokenizer, Error *error) {
  static const char *const names[] = {"tokenizer_config.json", "added_tokens.json", "special_tokens_map.json"};
  const char *slash = strrchr(tokenizer, '/');
  bool done = true;
  for (size_t i = 0; done && i < sizeof names / sizeof *names; i++) {
    char from[IO_PATH_MAX], to[IO_PATH_MAX], *text = NULL;
    size_t size;
    done = io_path(from, error, "%.*s%s", slash ? (int)(slash - tokenizer + 1) : 0, tokenizer, names[i]) &&
           io_path(to, error, "%s/%s", x->part, names[i]);
    if (done && io_named(from)) {
      done = io_read_file(from, (size_t)1 << 30, &text, &size, error) && io_replace_file(NULL, to, text, size, error);
    }
    free(text);
  }
  return done;
}

typedef struct {
  const char *end;  // the token that ends a document
  size_t length;    // of it; 0: there is none
} ClassNames;

static json_t *class_names(void *context) {
  const ClassNames *names = context;
  json_t *config =
      json_pack("{s:s, s:b}", "tokenizer_class", "PreTrainedTokenizerFast", "clean_up_tokenization_spaces", 0);
  if (names->length > 0) {
    json_object_set_new(config, "eos_token", json_stringn(names->end, names->length));
  }
  return config;
}

// Without it transformers takes the class of the architecture, which may cut text in a way of its own.
static bool class_write(const Export *x, const char *text, size_t size, Error *error) {
  char path[IO_PATH_MAX];
  Tokenizer *tokenizer = NULL;
  if (!io_path(path, error, "%s/" CONVERT_TOKENIZER_JSON, x->part) ||
      !tokenizer_read(path, text, size, &tokenizer, error)) {
    return false;
  }
  int32_t length = 0;
  const int32_t end = tokenizer_end(tokenizer);
  const uint8_t *bytes = end >= 0 ? tokenizer_bytes(tokenizer, end, &length) : NULL;
  ClassNames names = {(const char *)bytes, (size_t)length};
  char *written = json_made(class_names, &names, JSON_INDENT(2));
  const bool done = (written || error_set(error, 3, "no memory for tokenizer_config.json")) &&
                    io_path(path, error, "%s/tokenizer_config.json", x->part) &&
                    io_replace_file(NULL, path, written, strlen(written), error);
  json_guard_free(written);
  tokenizer_close(tokenizer);
  return done;
}

static bool data_tokenizer_copy(Export *x, const char *plan, Error *error) {
  char target[IO_PATH_MAX], *text = NULL;
  size_t size;
  const char *why;
  const PlanSet *set = artefact_read(x->arena, plan, &why);
  const char *tokenizer = set ? set->plans[0]->run.tokenizer : NULL;
  const bool named = tokenizer && strcmp(tokenizer, TOKENIZER_BYTES) != 0 && strcmp(tokenizer, TOKENIZER_NONE) != 0;
  bool same = true;
  if (!named || !io_is_file(tokenizer)) {
    return true;
  }
  if (!is_as_trained(x, &set->plans[0]->run, &same, error)) {
    return false;
  }
  if (!same) {
    return error_set(error, 1,
                     "the tokenizer %s is not the one that this run was trained with: the same tokens mean other text; "
                     "put that file back, or move it away to write the weights alone",
                     tokenizer);
  }
  if (!io_read_file(tokenizer, (size_t)1 << 30, &text, &size, error)) {
    return false;
  }
  const char *name = tokenizer_name(text, size);
  const bool done =
      !name || (io_path(target, error, "%s/%s", x->part, name) && io_replace_file(NULL, target, text, size, error) &&
                (strcmp(name, CONVERT_TOKENIZER_MODEL) == 0 ? beside_copy(x, tokenizer, error)
                                                            : class_write(x, text, size, error)));
  x->result->tokenizer = x->result->own_tokenizer = done && name;
  free(text);
  return done;
}

// Those that came with the weights, else the tokenizer of the run's data.
static bool export_tokenizer(Export *x, Error *error) {
  char kept[IO_PATH_MAX], plan[IO_PATH_MAX];
  if (!run_own(x->saved.run, "plan.mdlx", plan, error)) {
    return false;
  }
  if (saved_kept(&x->saved, kept)) {
    return convert_copy_kept(kept, x->part, false, &x->result->tokenizer, error) &&
           (x->result->tokenizer || data_tokenizer_copy(x, plan, error));
  }
  return data_tokenizer_copy(x, plan, error);
}

// transformers has numbers of its own for the tokens that begin and end a text, which are of another tokenizer: where
// no config.json came with the weights, the end is that of the tokenizer that is written, and the others are none.
static bool export_ends(Export *x, Error *error) {
  static const char *const files[] = {CONVERT_TOKENIZER_JSON, CONVERT_TOKENIZER_MODEL};
  static const char end[] = "eos_token_id", *const keys[] = {"bos_token_id", end, "pad_token_id"};
  int32_t token = -1;
  for (size_t i = 0; i < 2 && x->result->tokenizer; i++) {
    char path[IO_PATH_MAX];
    Tokenizer *tokenizer = NULL;
    Error unread = {0};
    if (io_path(path, &unread, "%s/%s", x->part, files[i]) && io_is_file(path) &&
        tokenizer_open(path, &tokenizer, &unread)) {
      token = tokenizer_end(tokenizer);
      tokenizer_close(tokenizer);
    }
  }
  for (size_t k = 0; k < 3 && !x->kept; k++) {
    json_t *value = keys[k] == end && token >= 0 ? json_integer(token) : json_null();
    if (!json_object_get(x->config, keys[k]) && json_object_set(x->config, keys[k], value) != 0) {
      json_decref(value);
      return error_set(error, 3, "no memory for config.json");
    }
    json_decref(value);
  }
  return true;
}

static bool load_part(Export *x, const Pair *pair, int p, Error *error) {
  const Weight *weight = &x->saved.weights.at[pair->part[p]];
  if (x->loaded[p] && x->loaded_weight[p] == pair->part[p]) {
    return true;
  }
  free(x->loaded[p]);
  x->loaded[p] = malloc((size_t)(weight_count(weight) * element_type_bytes(weight->type)) + 1);
  x->loaded_weight[p] = pair->part[p];
  return (x->loaded[p] || error_set(error, 3, "no memory to write '%.100s'", weight->name)) &&
         saved_read(&x->saved, weight, x->loaded[p], error);
}

static int64_t pair_bytes(const Export *x, const Pair *pair) {
  return pair_count(pair) * safetensors_dtype_bits(x->dtype) / 8;
}

static bool is_finite(ElementType type, const char *elements, int64_t count) {
  const int64_t bytes = element_type_bytes(type);
  int64_t at = 0;
  while (at < count && isfinite(element_get(type, elements + at * bytes))) {
    at++;
  }
  return at == count;
}

static bool pair_write(Export *x, const Pair *pair, int fd, const char *path, Error *error) {
  const ElementType type = x->saved.weights.at[pair->part[0]].type;
  const int64_t count = pair_count(pair), bytes = element_type_bytes(type);
  char *whole = malloc((size_t)(count * bytes) + 1), *made = malloc((size_t)pair_bytes(x, pair) + 1);
  bool done = (whole && made) || error_set(error, 3, "no memory to write '%.100s'", pair->name);
  for (int p = 0; done && p < pair->part_count; p++) {
    done = load_part(x, pair, p, error);
    if (done) {
      pair_give(pair, p, bytes, x->loaded[p], whole);
    }
  }
  if (done) {
    double beyond;
    x->result->not_finite += !is_finite(type, whole, count);
    elements_convert(element_type_dtype(type), whole, x->dtype, made, count, &beyond);
    done = (beyond == 0 || error_set(error, 1, "'%.100s' holds %g, more than %s can hold; give another --dtype",
                                     pair->name, beyond, x->dtype)) &&
           io_write(NULL, fd, path, made, (size_t)pair_bytes(x, pair), error);
  }
  free(whole);
  free(made);
  return done;
}

static bool shard_write(Export *x, const char *name, int first, int count, Error *error) {
  char path[IO_PATH_MAX];
  Buffer header = {0};
  int fd = -1;
  SafetensorsTensor *tensors = ARENA_ARRAY(x->arena, SafetensorsTensor, count + 1);
  for (int i = 0; i < count; i++) {
    const Pair *pair = &x->pairs.at[first + i];
    tensors[i] = (SafetensorsTensor){.name = pair->name, .dtype = x->dtype, .axis_count = pair->axis_count};
    memcpy(tensors[i].size, pair->size, sizeof pair->size);
  }
  bool done = safetensors_header(tensors, count, &header) || error_set(error, 3, "no memory to write %s", name);
  done = done && io_path(path, error, "%s/%s", x->part, name) && io_create(NULL, path, &fd, error) &&
         io_write(NULL, fd, path, header.text, header.length, error);
  for (int i = 0; done && i < count; i++) {
    done = pair_write(x, &x->pairs.at[first + i], fd, path, error);
  }
  Error ignored;
  done = done && io_sync(NULL, fd, path, error);
  if (fd >= 0) {
    done &= io_close(fd, path, done ? error : &ignored);
  }
  buffer_free(&header);
  return done;
}

static bool json_write(const char *directory, const char *name, json_t *root, Error *error) {
  char path[IO_PATH_MAX];
  char *text = json_dumped(root, JSON_INDENT(2) | JSON_SORT_KEYS | JSON_REAL_PRECISION(15));
  if (!text) {
    return error_set(error, 3, "no memory for %s", name);
  }
  const bool done =
      io_path(path, error, "%s/%s", directory, name) && io_replace_file(NULL, path, text, strlen(text), error);
  json_guard_free(text);
  return done;
}

// How many tensors from `first` on go into one file.
static int shard_count_from(const Export *x, int first) {
  const int64_t said = x->options->shard_bytes > 0 ? x->options->shard_bytes : SHARD_BYTES;
  const int64_t most = x->options->peft ? INT64_MAX : said;  // PEFT reads one file
  int64_t bytes = 0;
  int count = 0;
  while (first + count < x->pairs.count) {
    bytes += pair_bytes(x, &x->pairs.at[first + count]);
    if (count > 0 && bytes > most) {
      break;
    }
    count++;
  }
  return count;
}

static bool export_tensors(Export *x, Error *error) {
  int files = 0, number = 0;
  for (int at = 0; at < x->pairs.count; at += shard_count_from(x, at)) {
    files++;
  }
  json_t *map = json_object();
  bool done = map || error_set(error, 3, "no memory");
  for (int at = 0; done && at < x->pairs.count;) {
    const int count = shard_count_from(x, at);
    const char *single = x->options->peft ? PEFT_WEIGHTS : "model.safetensors";
    const char *name = files == 1 ? single : arena_format(x->arena, "model-%05d-of-%05d.safetensors", ++number, files);
    for (int i = at; done && i < at + count; i++) {
      done = json_object_set_new(map, x->pairs.at[i].name, json_string(name)) == 0 ||
             error_set(error, 3, "no memory to say where '%.100s' is", x->pairs.at[i].name);
      x->result->bytes += pair_bytes(x, &x->pairs.at[i]);
    }
    done = done && shard_write(x, name, at, count, error);
    at += count;
  }
  x->result->files = files;
  x->result->tensors = x->pairs.count;
  if (done && files > 1) {
    json_t *index =
        json_pack("{s:{s:I}, s:O}", "metadata", "total_size", (json_int_t)x->result->bytes, "weight_map", map);
    done = json_write(x->part, "model.safetensors.index.json", index, error);
    json_decref(index);
  }
  json_decref(map);
  return done;
}

static bool export_dtype(Export *x, const char **said, Error *error) {
  static const struct {
    const char *option, *dtype, *said;
  } types[] = {{"f32", "F32", "float32"}, {"bf16", "BF16", "bfloat16"}, {"f16", "F16", "float16"}};
  const char *wanted = x->options->dtype ? x->options->dtype : "f32";
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
    if (strcmp(wanted, types[i].option) == 0) {
      x->dtype = types[i].dtype;
      *said = types[i].said;
      return true;
    }
  }
  return error_set(error, 2, "weights are written as f32, bf16 or f16, not as '%.40s'", wanted);
}

// What is written, of a model or of its adapters alone.
static bool export_choose(Export *x, const char *said, Error *error) {
  if (!export_mapping(x, error)) {
    return false;
  }
  if (x->options->peft) {
    return export_peft(&x->saved, &x->mapping, &x->pairs, &x->config, &x->result->base, error);
  }
  return export_adapters(x, error) &&
         pairs_make(x->arena, &x->mapping, &x->saved.numbers, &x->saved.weights, &x->pairs, NULL, error) &&
         config_make(x->arena, &x->mapping, &x->saved.numbers, x->kept, said, &x->config, error);
}

bool convert_export(Arena *arena, const ExportOptions *options, Exported *result, Error *error) {
  Export *x = ARENA_NEW(arena, Export);
  const char *said = NULL;
  *result = (Exported){0};
  *x = (Export){.arena = arena, .options = options, .result = result};
  const SavedOptions saved = {.from = options->from, .trunk = options->trunk, .alone = options->peft};
  bool done = export_dtype(x, &said, error) && saved_open(arena, &saved, &x->saved, error);
  if (done) {
    export_kept(x);
    done = export_choose(x, said, error);
  }
  const bool made = done && part_create(x, error);
  done = made && (options->peft || (export_tokenizer(x, error) && export_ends(x, error))) && export_tensors(x, error) &&
         json_write(x->part, options->peft ? PEFT_CONFIG : "config.json", x->config, error) && part_finish(x, error);
  if (made && !done) {
    io_remove_tree(x->part);
  }
  result->type = options->peft ? "adapters" : x->mapping.type;
  result->mapping = x->mapping.path;
  result->step = (int64_t)json_integer_value(json_object_get(x->saved.manifest, "step"));
  for (int p = 0; p < MAPPING_MAX_PARTS; p++) {
    free(x->loaded[p]);
  }
  saved_close(&x->saved);
  json_decref(x->config);
  json_decref(x->kept);
  return done;
}
