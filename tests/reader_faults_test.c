// reader_faults_test.c: each allocation and each call of the system that a reader makes fails once: that is told, with
// status 3 where memory is missing, and what is read without faults is right.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka.h wants the four above first.
#include <cmocka.h>
#include <stdio.h>

#include "compiler/compile.h"
#include "runtime/convert/config.h"
#include "runtime/convert/hf_files.h"
#include "runtime/convert/mapping.h"
#include "runtime/data/chat.h"
#include "runtime/data/data.h"
#include "runtime/data/fingerprint.h"
#include "runtime/data/reader.h"
#include "runtime/metrics.h"
#include "runtime/safetensors.h"
#include "tests/faults.h"

static void put_text(const World *world, const char *name, const char *text) {
  put_in(world, name, text, strlen(text));
}

// --- tokenizers ---

static const char bytes_json[] =
    "{\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"String\":\" \"}},"
    "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false}]},"
    "\"added_tokens\":[{\"id\":3,\"content\":\"<|endoftext|>\"},{\"id\":4,\"content\":\"<|im_start|>\"},"
    "{\"id\":5,\"content\":\"<|im_end|>\"}],"
    "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},\"merges\":[\"a b\"]}}";
static bool tokenizer_works(const World *world, const char *name, int tokens, Error *error) {
  char path[IO_PATH_MAX];
  Tokenizer *tokenizer = NULL;
  Encoder *encoder = NULL;
  TokenList list = {0};
  size_t used;
  path_in(world, path, name);
  if (!tokenizer_open(path, &tokenizer, error)) {
    return false;
  }
  const bool done =
      encoder_create(tokenizer, &encoder, error) && encoder_add(encoder, "abba", 4, false, &used, &list, error);
  if (done) {
    assert_int_equal(list.count, tokens);
    assert_int_equal(list.at[0], 2);
  }
  encoder_destroy(encoder);
  tokens_free(&list);
  tokenizer_close(tokenizer);
  return done;
}

static bool bytes_work(const World *world, Error *error) {
  return tokenizer_works(world, "bytes.json", 3, error);
}

static bool characters_work(const World *world, Error *error) {
  return tokenizer_works(world, "characters.json", 3, error);
}

// --- data ---

static bool data_works(const World *world, DataOptions options, int64_t windows, Error *error) {
  Data *data = NULL;
  int32_t window[9];
  uint8_t flags[9];
  DataPrint print = {0};
  options.base = world->directory;
  options.sequence = 8;
  options.seed = 1;
  if (!data_open(&options, &data, error)) {
    return false;
  }
  int64_t sample = 0;
  const Data *part = data_train_part(data, &sample);
  bool done = data_train_window(part, sample, window, error) && data_train_flags(part, sample, window, flags, error) &&
              data_check_train(part, sample, window, 300, error) && data_check_begin(data, 300, error);
  for (int set = 0; done && set < data_set_count(data); set++) {
    const char *name;
    sample = 0;
    part = data_validation_part(data_set(data, set, &name), &sample);
    done = data_validation_window(part, sample, window, error) &&
           data_validation_flags(part, sample, window, flags, error) &&
           data_check_validation(part, sample, window, 300, error);
  }
  done = done && data_fingerprint(data, &print, error);
  if (done) {
    assert_int_equal(data_facts(data).train_windows, windows);
    assert_true(print.data != 0);
  }
  data_close(data);
  return done;
}

static bool text_works(const World *world, Error *error) {
  return data_works(world, (DataOptions){.kind = "text", .path = "text", .tokenizer = TOKENIZER_BYTES}, 2499, error);
}

static bool encoded_works(const World *world, Error *error) {
  return data_works(
      world, (DataOptions){.kind = "text", .path = "ab.txt", .tokenizer = "bytes.json", .validation_fraction = 0.5}, 5,
      error);
}

static bool tokens_work(const World *world, Error *error) {
  return data_works(world,
                    (DataOptions){.kind = "tokens_u16",
                                  .path = "tokens.bin",
                                  .tokenizer = TOKENIZER_NONE,
                                  .options = "mask=mask.bin;separator#7;"},
                    11, error);
}

static bool index_works(const World *world, Error *error) {
  return data_works(world, (DataOptions){.kind = "tokens", .path = "index.bin", .tokenizer = TOKENIZER_NONE}, 11,
                    error);
}

static bool chat_works(const World *world, Error *error) {
  return data_works(
      world,
      (DataOptions){
          .kind = "chat", .path = "talks.jsonl", .tokenizer = TOKENIZER_BYTES, .options = "begin=B;separator=--;"},
      18, error);
}

static bool mix_works(const World *world, Error *error) {
  return data_works(world,
                    (DataOptions){.kind = "mix",
                                  .path = "one\t3\ttext\tbytes\tab.txt\nheld\t0\ttext\tbytes\tab.txt\n"
                                          "two\t1\ttokens_u16\tnone\ttokens.bin\tseparator#7;\n",
                                  .tokenizer = TOKENIZER_BYTES},
                    35, error);
}

static bool mix_with_works(const World *world, Error *error) {
  char path[IO_PATH_MAX];
  path_in(world, path, "ab.txt");
  return data_works(world,
                    (DataOptions){.kind = "mix",
                                  .file = path,
                                  .path = "one\t3\ttext\tbytes\tnone.txt\nheld\t0\ttext\tbytes\tab.txt\n"
                                          "two\t1\ttokens_u16\tnone\tnone.bin\n",
                                  .tokenizer = TOKENIZER_BYTES},
                    24, error);
}

// --- lines ---

static bool take(void *context, const char *text, size_t length, bool more, size_t *used, Error *error) {
  (void)text;
  (void)more;
  (void)error;
  *(size_t *)context += length;
  *used = length;
  return true;
}

static bool lines_work(const World *world, Error *error) {
  char path[IO_PATH_MAX];
  path_in(world, path, "lines.jsonl");
  const char *const file = path;
  const ReaderOptions options = {.files = &file, .file_count = 1, .field = "text", .what = "read"};
  ReaderFacts facts;
  size_t sum = 0;
  const bool done = reader_run(&options, take, &sum, &facts, error);
  assert_true(!done || (sum == 3 && facts.documents == 2));
  return done;
}

// --- tensors, and directories of Hugging Face ---

static bool tensors_work(const World *world, Error *error) {
  char path[IO_PATH_MAX];
  Safetensors *file = NULL;
  float values[2] = {0};
  path_in(world, path, "model.safetensors");
  if (!safetensors_open(path, &file, error)) {
    return false;
  }
  const bool done = safetensors_read(file, safetensors_at(file, 0), values, error);
  assert_true(!done || (values[0] == 1 && values[1] == 2 && safetensors_count(file) == 1));
  safetensors_close(file);
  return done;
}

static bool directory_works(const World *world, Error *error) {
  HfFiles files;
  const bool done = hf_open(world->directory, &files, error);
  if (done) {
    assert_string_equal(config_type(files.config), "llama");
  }
  hf_close(&files);
  return done;
}

static bool mapping_works(const World *world, Error *error) {
  Arena *arena = arena_create();
  Mapping mapping;
  HfFiles files = {0};
  ConfigSettings settings = {0};
  if (!arena) {
    return error_set(error, 3, "no memory");
  }
  const bool done = mapping_open(arena, MDL_SOURCE_DIR "/models/llama.hf", &mapping, error) &&
                    hf_open(world->directory, &files, error) &&
                    config_settings(arena, &mapping, &files, &settings, error);
  assert_true(!done || settings.count > 3);
  hf_close(&files);
  arena_destroy(arena);
  return done;
}

// --- texts of models ---

static bool text_of_a_model_works(const World *world, Error *error) {
  char path[IO_PATH_MAX];
  Arena *arena = arena_create();
  if (!arena) {
    return error_set(error, 3, "no memory");
  }
  PlanSet *set = NULL;
  Diag *diag = diag_create(arena);
  path_in(world, path, "model.mdl");
  const CompileOptions options = {.file = path};
  const bool done = compile_plans(arena, diag, &options, &set);
  if (!done) {
    error_set(error, diag->all.at[0].code == E090 ? 3 : 1, "%s", diag->all.at[0].message);
  }
  assert_true(!done || set->count == 1);
  arena_destroy(arena);
  return done;
}

// --- metrics ---

static bool metrics_work(const World *world, Error *error) {
  char path[IO_PATH_MAX];
  Metrics metrics;
  const MetricsLine line = {.step = 7, .loss = 1};
  const int kinds = faults.kinds;
  faults.kinds = 0;
  put_text(world, "metrics.jsonl", "{\"step\":1,\"loss\":5.5}\nno line\n{\"step\":9,\"loss\":5}\n{\"st");
  path_in(world, path, "metrics.jsonl");
  faults.kinds = kinds;
  bool done = metrics_open(&metrics, path, 5, error);
  if (done) {
    assert_true(metrics.count == 1 && metrics.bad_lines > 0);
    done = metrics_write(&metrics, &line, error) && metrics_sync(&metrics, error);
    assert_true(!done || metrics.count == 2);
  }
  metrics_close(&metrics);
  return done;
}

static bool metrics_read_works(const World *world, Error *error) {
  char path[IO_PATH_MAX];
  MetricsPoint *points = NULL;
  int64_t count = 0, bad = 0;
  path_in(world, path, "points.jsonl");
  const bool done = metrics_read_counting(path, &points, &count, &bad, error);
  assert_true(!done || (count == 2 && bad == 1 && points[1].step == 2));
  free(points);
  return done;
}

static void files_put(const World *world) {
  static const char message[] =
      "{\"messages\":[{\"role\":\"user\",\"content\":\"why?\"},{\"role\":\"assistant\",\"content\":\"it is so\"}]}\n";
  static const char tensor[] =
      "\x38\0\0\0\0\0\0\0{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}"
      "  \0\0\x80\x3f\0\0\0\x40";
  char text[1024] = "";
  Buffer characters = {0};  // with a token for each byte
  buffer_text(
      &characters,
      "{\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"\xe2\x96\x81\"},"
      "\"model\":{\"type\":\"BPE\",\"byte_fallback\":true,\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,\"\xe2\x96\x81\":3");
  for (int i = 0; i < 256; i++) {
    buffer_format(&characters, ",\"<0x%02X>\":%d", (unsigned)i, i + 4);
  }
  buffer_text(&characters, "},\"merges\":[[\"a\",\"b\"]]}}");
  uint16_t tokens[100];
  uint8_t mask[100] = {0, 1, 3}, index[34 + 4 + 8 + 16] = "MMIDIDX\0\0\1\0\0\0\0\0\0\0\x08\1\0\0\0\0\0\0\0\2";
  for (int i = 0; i < 100; i++) {
    tokens[i] = (uint16_t)(i % 8);
    strcat(text, "ab");
  }
  index[34] = 100;
  index[34 + 4 + 8 + 8] = 1;
  put_text(world, "bytes.json", bytes_json);
  put_text(world, "characters.json", characters.text);
  buffer_free(&characters);
  put_text(world, "ab.txt", text);
  put_in(world, "tokens.bin", tokens, sizeof tokens);
  put_in(world, "mask.bin", mask, sizeof mask);
  put_in(world, "index.bin", tokens, sizeof tokens);
  put_in(world, "index.idx", index, sizeof index);
  text[0] = '\0';
  strcat(strcat(text, message), message);
  put_text(world, "talks.jsonl", text);
  put_text(world, "lines.jsonl", "{\"text\":\"a\"}\n\n{\"id\":[1,2],\"text\":\"bc\"}\n");
  put_text(world, "config.json",
           "{\"model_type\":\"llama\",\"architectures\":[\"LlamaForCausalLM\"],\"vocab_size\":16,\"hidden_size\":4,"
           "\"num_hidden_layers\":2,\"num_attention_heads\":2,\"num_key_value_heads\":1,\"intermediate_size\":8,"
           "\"rms_norm_eps\":1e-5,\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":8.0},\"hidden_act\":\"silu\"}");
  put_in(world, "model.safetensors", tensor, sizeof tensor - 1);
  put_text(
      world, "model.mdl",
      "model m {\n  axis batch, a = 4;\n  input x: real[batch, a];\n  param w: [a];\n  loss = mean(square(x * w));\n}\n"
      "recipe r {\n  model m();\n  batch = 2;\n  optimizer sgd(lr = 0.1);\n}\n");
  put_text(world, "points.jsonl", "{\"step\":1,\"loss\":5.5}\nno\n{\"step\":2,\"loss\":5.5}\n");
}

static const struct {
  const char *name;
  FaultWork *work;
  bool unseen;  // what nobody could look for may be said not to be there
} works[] = {
    {"tokens of bytes", bytes_work, false},
    {"tokens of characters", characters_work, false},
    {"text", text_works, false},
    {"text with a tokenizer", encoded_works, false},
    {"tokens", tokens_work, true},
    {"tokens with an index", index_works, false},
    {"conversations", chat_works, false},
    {"a mix", mix_works, true},
    {"a file in the place of a mix", mix_with_works, false},
    {"lines", lines_work, false},
    {"tensors", tensors_work, false},
    {"a directory of Hugging Face", directory_works, true},
    {"a mapping", mapping_works, true},
    {"the text of a model", text_of_a_model_works, true},
    {"metrics that go on", metrics_work, false},
    {"metrics", metrics_read_works, false},
};
enum { WORKS = sizeof works / sizeof *works };

static void test_missing_memory(void **state) {
  files_put(*state);
  for (int i = 0; i < WORKS; i++) {
    assert_true(faults_sweep(works[i].name, works[i].work, *state, FAULT_MEMORY, ENOMEM, 1, NULL) > 0);
  }
}

static void test_failing_calls(void **state) {
  static const int reasons[] = {EIO, ENOMEM};
  static const char *const unseen[] = {"No such file", NULL};
  files_put(*state);
  for (int i = 0; i < WORKS; i++) {
    for (int r = 0; r < 2; r++) {
      faults_sweep(works[i].name, works[i].work, *state, FAULT_LOOK | FAULT_TRANSFER, reasons[r], 1,
                   works[i].unseen ? unseen : NULL);
    }
  }
}

int main(void) {
  faults_of_json();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_missing_memory, faults_open, world_close),
      cmocka_unit_test_setup_teardown(test_failing_calls, faults_open, world_close),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
