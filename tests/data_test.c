// data_test.c: the order of samples, the split, the inputs that are fed, and evaluation.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka.h wants the four above first.
#include <cmocka.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "runtime/data/shares.h"
#include "runtime/evaluate.h"
#include "runtime/io.h"
#include "tests/toy.h"

static char directory[64];

static const char *text_file(const char *name, const char *bytes, size_t size) {
  static char path[128];
  snprintf(path, sizeof path, "%s/%s", directory, name);
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  assert_int_equal(fwrite(bytes, 1, size, file), size);
  fclose(file);
  return path;
}

// A file whose byte at p tells something of p.
static const char *counted_file(size_t size) {
  char *bytes = malloc(size);
  for (size_t i = 0; i < size; i++) {
    bytes[i] = (char)(i * 131 >> 3);
  }
  const char *path = text_file("counted", bytes, size);
  free(bytes);
  return path;
}

static Data *data_of(const char *path, double fraction, int64_t sequence, uint64_t seed) {
  DataOptions options = {.path = path, .validation_fraction = fraction, .sequence = sequence, .seed = seed};
  Data *data = NULL;
  Error error = {0};
  if (!data_open(&options, &data, &error)) {
    fail_msg("%s", error.text);
  }
  return data;
}

static void test_permutation(void **state) {
  (void)state;
  static const int64_t counts[] = {1, 2, 3, 4, 5, 7, 16, 17, 63, 64, 65, 1000, 4096, 4097, 65537};
  for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
    for (uint64_t key = 0; key < 3; key++) {
      char *seen = calloc(1, (size_t)counts[c]);
      int64_t fixed = 0;
      for (int64_t i = 0; i < counts[c]; i++) {
        int64_t to = data_permute(key, counts[c], i);
        assert_true(to >= 0 && to < counts[c] && !seen[to]);
        seen[to] = 1;
        fixed += to == i;
      }
      assert_true(counts[c] < 1000 || fixed < 10);  // a random permutation has about one fixed point
      free(seen);
    }
  }
  assert_int_not_equal(data_permute(1, INT64_C(1) << 40, 5), data_permute(2, INT64_C(1) << 40, 5));
}

static void test_epochs(void **state) {
  (void)state;
  enum { SEQUENCE = 10, SIZE = 1003 };
  Data *data = data_of(counted_file(SIZE), 0.1, SEQUENCE, 5);
  DataFacts facts = data_facts(data);
  assert_int_equal(facts.validation_tokens, 100);
  assert_int_equal(facts.train_tokens, 903);
  assert_int_equal(facts.train_windows, 89);
  assert_int_equal(facts.validation_windows, 9);
  int64_t shifts[6];
  for (int64_t epoch = 0; epoch < 6; epoch++) {
    char seen[SIZE] = {0};
    for (int64_t k = 0; k < facts.train_windows; k++) {
      int64_t begin = data_train_begin(data, epoch * facts.train_windows + k);
      assert_true(begin >= 0 && begin + SEQUENCE + 1 <= facts.train_tokens);  // never in the validation part
      shifts[epoch] = begin % SEQUENCE;
      assert_true(!seen[begin]);
      seen[begin] = 1;
    }
  }
  int distinct = 0;
  for (int i = 1; i < 6; i++) {
    distinct += shifts[i] != shifts[0];
  }
  assert_true(distinct > 0);
  int32_t window[SEQUENCE + 1];
  Error error;
  for (int64_t sample = 0; sample < 300; sample++) {
    int64_t begin = data_train_begin(data, sample);
    assert_true(data_train_window(data, sample, window, &error));
    for (int64_t i = 0; i <= SEQUENCE; i++) {
      assert_int_equal(window[i], (uint8_t)((begin + i) * 131 >> 3));
    }
  }
  for (int64_t i = 0; i < facts.validation_windows; i++) {
    assert_true(data_validation_window(data, i, window, &error));
    assert_int_equal(window[0], (uint8_t)((903 + i * SEQUENCE) * 131 >> 3));
  }
  data_close(data);
}

static void test_every_window_size(void **state) {
  (void)state;
  for (size_t size = 9; size < 60; size++) {
    Data *data = data_of(counted_file(size), 0, 8, 1);
    DataFacts facts = data_facts(data);
    assert_true(facts.train_windows >= 1);
    for (int64_t sample = 0; sample < 100; sample++) {
      int64_t begin = data_train_begin(data, sample);
      assert_true(begin >= 0 && begin + 9 <= (int64_t)size);
    }
    data_close(data);
  }
}

static void expect_open_error(DataOptions options, const char *words) {
  Data *data = NULL;
  Error error = {0};
  assert_false(data_open(&options, &data, &error));
  assert_int_equal(error.status, 1);
  if (!strstr(error.text, words)) {
    fail_msg("expected '%s' in: %s", words, error.text);
  }
}

static void test_errors(void **state) {
  (void)state;
  expect_open_error((DataOptions){.path = "no-such-file", .base = directory, .sequence = 8},
                    "no-such-file is neither in the working directory nor beside the text (/tmp/");
  expect_open_error((DataOptions){.path = "/no-such-file", .sequence = 8},
                    "cannot read the data file /no-such-file: No such file or directory; --data FILE names another");
  expect_open_error((DataOptions){.path = directory, .sequence = 8}, "is a directory; a pattern names the files in it");
  expect_open_error((DataOptions){.path = "/dev/null", .sequence = 8}, "is not a regular file");
  expect_open_error((DataOptions){.path = NULL, .sequence = 8}, "the recipe names no data");
  expect_open_error((DataOptions){.path = text_file("empty", "", 0), .sequence = 8}, "is empty");
  expect_open_error((DataOptions){.path = text_file("short", "12345678", 8), .sequence = 8},
                    "has 8 tokens to train on, but one sample takes 9");
  expect_open_error((DataOptions){.path = "x", .kind = "pictures", .sequence = 8},
                    "data of kind pictures; this version reads text, chats and tokens");
  static const char lines[] = "{\"text\": \"a line\"}\n{\"text\": \"another\"}\n";
  expect_open_error((DataOptions){.path = text_file("chat.jsonl", lines, sizeof lines - 1), .sequence = 8},
                    "chat.jsonl is JSON, not text: a model would learn its braces and names. `data chat(\"");
  expect_open_error(
      (DataOptions){.path = text_file("chat", lines, 30), .tokenizer = "no.json", .base = directory, .sequence = 8},
      "the tokenizer no.json is neither in the working directory nor beside the text (");
  text_file("found", "0123456789", 10);
  Data *data = NULL;
  Error error;
  DataOptions options = {.path = "found", .base = directory, .sequence = 8};
  assert_true(data_open(&options, &data, &error));
  data_close(data);
}

typedef struct {
  Arena *arena;
  Plan *plan;
  Session session;
  Data *data;
  Feed *feed;
} World;

static World world_of(const char *path, int64_t batch, int64_t sequence, int slots, bool mask, ProgramKind program,
                      double fraction) {
  World world = {.arena = arena_create()};
  Error error = {0};
  world.plan = toy_plan(world.arena, path, batch, sequence, slots, mask);
  world.data = data_of(path, fraction, sequence, 3);
  if (!session_open(&world.session, world.plan, &toy_backend, 1, &error) ||
      !feed_create(&(PlanSet){1, &world.plan}, program, world.data, &world.feed, &error)) {
    fail_msg("%s", error.text);
  }
  return world;
}

static void world_close(World *world) {
  feed_destroy(world->feed);
  data_close(world->data);
  session_close(&world->session);
  arena_destroy(world->arena);
}

static const int32_t *fed(const World *world, int input) {
  Place place = world->plan->programs[PROGRAM_TRAIN].inputs[input].place;
  return (const int32_t *)(void *)(world->session.device->arena[place.arena] + place.offset);
}

static void test_microbatches_change_nothing(void **state) {
  (void)state;
  enum { BATCH = 8, SEQUENCE = 16 };
  const char *path = counted_file(5000);
  Error error = {0};
  World whole = world_of(path, BATCH, SEQUENCE, 1, false, PROGRAM_TRAIN, 0.1);
  for (int slots = 2; slots <= 8; slots *= 2) {
    World parts = world_of(path, BATCH, SEQUENCE, slots, false, PROGRAM_TRAIN, 0.1);
    for (int64_t step = 1; step < 100; step += 7) {
      assert_true(feed_train(whole.feed, &whole.session, step, &error));
      assert_true(feed_train(parts.feed, &parts.session, step, &error));
      for (int input = 0; input < 2; input++) {
        assert_memory_equal(fed(&whole, input), fed(&parts, input), BATCH * SEQUENCE * 4);
      }
    }
    const int32_t *tokens = fed(&whole, 0), *targets = fed(&whole, 1);
    for (int i = 0; i < BATCH * SEQUENCE; i++) {
      assert_true(i % SEQUENCE == SEQUENCE - 1 || targets[i] == tokens[i + 1]);
    }
    world_close(&parts);
  }
  world_close(&whole);
}

static void test_turned_inputs(void **state) {
  (void)state;
  World world = world_of(counted_file(5000), 4, 8, 1, false, PROGRAM_TRAIN, 0.1);
  Error error = {0};
  assert_true(feed_train(world.feed, &world.session, 1, &error));
  int32_t rows[32];
  memcpy(rows, fed(&world, 0), sizeof rows);
  PlanInput *tokens = &world.plan->programs[PROGRAM_TRAIN].inputs[0];
  tokens->axis[0] = "seq";
  tokens->axis[1] = "batch";
  tokens->size[0] = 8;
  tokens->size[1] = 4;
  feed_destroy(world.feed);
  assert_true(feed_create(&(PlanSet){1, &world.plan}, PROGRAM_TRAIN, world.data, &world.feed, &error));
  assert_true(feed_train(world.feed, &world.session, 1, &error));
  for (int row = 0; row < 4; row++) {
    for (int i = 0; i < 8; i++) {
      assert_int_equal(fed(&world, 0)[i * 4 + row], rows[row * 8 + i]);
    }
  }
  world_close(&world);
}

static void expect_documents(const char *text, size_t length, const int32_t *expected) {
  const int count = (int)length - 1;  // one window
  World world = world_of(text_file("documents", text, length), 1, count, 1, true, PROGRAM_TRAIN, 0);
  Error error = {0};
  assert_true(feed_masks(world.feed));
  assert_true(feed_train(world.feed, &world.session, 1, &error));
  for (int i = 0; i < count; i++) {
    assert_int_equal(fed(&world, 2)[i], 1);
    assert_int_equal(fed(&world, 3)[i], expected[i]);
  }
  world_close(&world);
}

static void test_documents_and_mask(void **state) {
  (void)state;
  static const char text[] = "ab\n\ncd\n\n\ne\0fgh";
  expect_documents(text, sizeof text - 1, (int32_t[]){0, 0, 0, 0, 1, 1, 1, 1, 1, 2, 2, 3, 3});
  static const char other[] = "a\r\n\r\nb\r\n\r\n\r\nc\r\nd\rex";  // lines end so elsewhere
  expect_documents(other, sizeof other - 1, (int32_t[]){0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2});
}

static void expect_feed_error(World *world, const char *words) {
  Feed *feed = NULL;
  Error error = {0};
  assert_false(feed_create(&(PlanSet){1, &world->plan}, PROGRAM_TRAIN, world->data, &feed, &error));
  if (!strstr(error.text, words)) {
    fail_msg("expected '%s' in: %s", words, error.text);
  }
}

static void test_inputs_that_do_not_fit(void **state) {
  (void)state;
  World world = world_of(counted_file(5000), 4, 8, 1, true, PROGRAM_TRAIN, 0.1);
  PlanInput *inputs = world.plan->programs[PROGRAM_TRAIN].inputs;
  inputs[0].bound = 100;
  expect_feed_error(&world, "the input 'tokens' indexes an axis of size 100, but the tokens of /tmp/");
  expect_feed_error(&world, "make that axis at least 256, for example with --set vocab=256");
  inputs[0].bound = 300;
  inputs[1].size[1] = 4;
  expect_feed_error(&world, "the input 'targets' is 4 by 4, but 'tokens' is 4 by 8");
  inputs[1].size[1] = 8;
  inputs[2].name = "image";
  expect_feed_error(&world,
                    "cannot feed the input 'image'; it feeds: tokens (the text), targets (the token after each)");
  inputs[2].name = "mask";
  inputs[2].type = TYPE_E4M3;
  expect_feed_error(&world, "has type e4m3, which the data cannot write");
  static const struct {
    const char *name;
    ElementType type;
    const char *says;
  } held[] = {{"share", TYPE_BOOL, "has type bool, which cannot hold what the data feeds it (mask divided by its sum"},
              {"share", TYPE_INT, "declare it as `real`"},
              {"share", TYPE_INDEX, "declare it as `real`"},
              {"doc", TYPE_BOOL, "declare it as `int`"}};
  for (size_t i = 0; i < sizeof held / sizeof *held; i++) {
    inputs[2].name = held[i].name;
    inputs[2].type = held[i].type;
    expect_feed_error(&world, held[i].says);
  }
  inputs[2].type = TYPE_INDEX;
  inputs[2].bound = 7;
  expect_feed_error(&world, "the input 'doc' indexes an axis of size 7; it needs at least 8");
  inputs[2].name = "mask";
  inputs[2].bound = 1;
  expect_feed_error(&world, "the input 'mask' indexes an axis of size 1; it needs at least 2");
  inputs[2].bound = 0;
  inputs[1].type = TYPE_BOOL;
  expect_feed_error(&world, "the input 'targets' has type bool");
  inputs[1].type = TYPE_INDEX;
  inputs[2].type = TYPE_F32;
  inputs[0].name = "source";
  expect_feed_error(&world, "the model has no input 'tokens'");
  world_close(&world);
}

// The loss of each window by itself, by a plan with a batch of one.
static double window_losses(const char *path, int64_t sequence, int64_t count, double *each) {
  World one = world_of(path, 1, sequence, 1, true, PROGRAM_EVALUATE, 0.5);
  Error error = {0};
  double sum = 0;
  assert_true(session_run(&one.session, PROGRAM_INITIALISE, 0, &error));
  for (int64_t i = 0; i < count; i++) {
    assert_true(feed_validation(one.feed, &one.session, i, 1, false, &error));
    assert_true(session_run(&one.session, PROGRAM_EVALUATE, 1, &error));
    assert_true(session_scalar(&one.session, PROGRAM_EVALUATE, "loss", &each[i], &error));
    sum += each[i];
  }
  world_close(&one);
  return sum / (double)count;
}

static void test_evaluation(void **state) {
  (void)state;
  enum { SEQUENCE = 16, WINDOWS = 11, BATCH = 4 };
  const char *path = counted_file(2 * (SEQUENCE * WINDOWS + 3));
  double each[WINDOWS];
  const double all = window_losses(path, SEQUENCE, WINDOWS, each);
  for (int mask = 0; mask < 2; mask++) {
    World world = world_of(path, BATCH, SEQUENCE, 2, mask, PROGRAM_EVALUATE, 0.5);
    Evaluation result;
    Error error = {0};
    assert_int_equal(data_facts(world.data).validation_windows, WINDOWS);
    assert_true(session_run(&world.session, PROGRAM_INITIALISE, 0, &error));
    assert_true(evaluate_run(&world.session, world.feed, world.data, 0, NULL, &result, &error));
    // With a mask the last batch counts its three windows, without one two batches repeat two of them and one.
    assert_int_equal(result.windows, WINDOWS);
    assert_int_equal(result.batches, mask ? 3 : 4);
    assert_int_equal(result.tokens, result.windows * SEQUENCE);
    assert_true(fabs(result.loss - all) < 1e-6);
    assert_true(evaluate_run(&world.session, world.feed, world.data, 1, NULL, &result, &error));
    assert_int_equal(result.windows, BATCH);
    assert_true(evaluate_run(&world.session, world.feed, world.data, 3, NULL, &result, &error));
    assert_int_equal(result.windows, WINDOWS);
    world_close(&world);
  }
  // Fewer windows than a batch count once each, too, and so does what any size of batch leaves.
  for (int i = 0; i < 10; i++) {
    static const int sizes[] = {16, 6, 10, 14, 22};
    World large = world_of(path, sizes[i / 2], SEQUENCE, 2, i % 2, PROGRAM_EVALUATE, 0.5);
    Evaluation result;
    Error error = {0};
    assert_true(session_run(&large.session, PROGRAM_INITIALISE, 0, &error));
    assert_true(evaluate_run(&large.session, large.feed, large.data, 0, NULL, &result, &error));
    assert_int_equal(result.windows, WINDOWS);
    assert_true(fabs(result.loss - all) < 1e-6);
    world_close(&large);
  }
}

// Of any number of samples each source has had its share, and every one of its own samples once.
static void test_shares(void **state) {
  (void)state;
  static const double weights[][5] = {{0.7, 0.3}, {1, 1, 1}, {5, 0, 3, 1e-6, 2}, {1e9, 1}, {0.1, 0.2, 0.3, 0.4}};
  for (size_t w = 0; w < sizeof weights / sizeof *weights; w++) {
    Shares shares;
    int64_t had[5] = {0};
    double sum = 0;
    for (int i = 0; i < 5; i++) {
      sum += weights[w][i];
    }
    assert_true(shares_set(&shares, weights[w], 5));
    for (int64_t n = 0; n < 20000; n++) {
      int64_t own;
      const int source = shares_find(&shares, n, &own);
      assert_int_equal(own, had[source]);
      had[source]++;
      for (int i = 0; i < 5; i++) {
        assert_true(fabs((double)had[i] - (double)(n + 1) * weights[w][i] / sum) < 5);
      }
    }
    int64_t own;
    shares_find(&shares, INT64_C(1) << 50, &own);
    assert_true(own >= 0 && own <= INT64_C(1) << 50);
    shares_free(&shares);
  }
}

static void test_mix(void **state) {
  (void)state;
  enum { SEQUENCE = 10 };
  char one[128], spec[512];
  snprintf(one, sizeof one, "%s",
           text_file("one", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", 72));
  snprintf(spec, sizeof spec, "one\t3\ttext\tbytes\t%s\nmany\t1\ttext\tbytes\t%s\n", one, counted_file(3000));
  DataOptions options = {.path = spec, .kind = "mix", .validation_fraction = 0.5, .sequence = SEQUENCE, .seed = 5};
  Data *data = NULL;
  Error error = {0};
  if (!data_open(&options, &data, &error)) {
    fail_msg("%s", error.text);
  }
  const DataFacts facts = data_facts(data);
  assert_int_equal(facts.tokens, 3072);
  assert_int_equal(facts.validation_windows, 3 + 149);
  assert_true(facts.documents && !facts.unchecked && facts.token_kinds == 256);
  assert_int_equal(data_token_bytes(data_train_part(data, &(int64_t){0}), 65), 1);
  assert_non_null(strstr(facts.path, "/one and 1 more"));
  int64_t first = 0;
  for (int64_t sample = 0; sample < 4000; sample++) {
    int64_t own = sample;
    int32_t window[SEQUENCE + 1];
    const Data *part = data_train_part(data, &own);
    const bool is_first = data_facts(part).bytes == 72;
    first += is_first;
    assert_true(first * 4 >= 3 * sample - 8 && first * 4 <= 3 * sample + 8);
    assert_int_equal(own, is_first ? first - 1 : sample - first);
    assert_true(data_train_window(part, own, window, &error));
    assert_true(!is_first || window[3] == 'a');
  }
  int seen[2][149] = {0};
  for (int64_t window = 0; window < facts.validation_windows; window++) {
    int64_t own = window;
    const bool is_first = data_facts(data_validation_part(data, &own)).bytes == 72;
    assert_true(own >= 0 && own < (is_first ? 3 : 149) && !seen[is_first][own]);
    seen[is_first][own] = 1;
  }
  data_close(data);
  options.path = one;  // --data FILE
  options.sequence = 5;
  assert_true(data_open(&options, &data, &error));
  assert_int_equal(data_facts(data).tokens, 72);
  data_close(data);
  static const char *const bad[] = {"a\tb", "a\t-1\ttext\tbytes\tx\n", "a\t1\tmix\tbytes\tx\n", "a\t1x\ttext\tbytes\tx",
                                    "a\t1\ttext\tbytes\tx\ty\tz"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    expect_open_error((DataOptions){.path = bad[i], .kind = "mix", .sequence = 8}, "a mix of data that cannot be read");
  }
  expect_open_error((DataOptions){.path = "a\t1\ttext\tbytes\tno-file\n", .kind = "mix", .sequence = 8}, "no-file");
}

// The index of `count` tokens of this type, in one sequence, cut to `size` bytes.
static void index_file(const char *name, int64_t count, char type, size_t size) {
  const int64_t one = 1, numbers[] = {1, 2}, marks[] = {0, 0, 1};
  const int32_t length = (int32_t)count;
  char bytes[62] = "MMIDIDX\0";
  memcpy(bytes + 9, &one, 8);
  bytes[17] = type;
  memcpy(bytes + 18, numbers, 16);
  memcpy(bytes + 34, &length, 4);
  memcpy(bytes + 38, marks, 24);
  text_file(name, bytes, size);
}

// Opens data while so many files more can be open at a time.
static void expect_limit_error(DataOptions options, int more, const char *words) {
  const int next = dup(0);
  close(next);
  struct rlimit kept, few;
  assert_int_equal(getrlimit(RLIMIT_NOFILE, &kept), 0);
  few = kept;
  few.rlim_cur = (rlim_t)(next + more);
  Data *data = NULL;
  Error error = {0};
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
  const bool opened = data_open(&options, &data, &error);
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &kept), 0);
  assert_false(opened);
  if (!strstr(error.text, words)) {
    fail_msg("expected '%s' in: %s", words, error.text);
  }
}

// What takes the place of a mix is text only where it certainly is no file of tokens.
static void test_in_place_of_a_mix(void **state) {
  (void)state;
  char mix[512], tokens[128], index[128], bytes[200];
  const char *one = counted_file(3000);
  snprintf(mix, sizeof mix, "one\t3\ttext\tbytes\t%s\nmany\t1\ttext\tbytes\t%s.too\n", one, one);
  snprintf(index, sizeof index, "%s/pair.idx", directory);
  memset(bytes, 'a', sizeof bytes);
  snprintf(tokens, sizeof tokens, "%s", text_file("pair.bin", bytes, sizeof bytes));
  DataOptions options = {.path = mix, .kind = "mix", .tokenizer = "bytes", .file = tokens, .sequence = 8};
  Error error = {0};
  Data *data = NULL;
  assert_true(data_open(&options, &data, &error));  // no index: text
  assert_false(data_facts(data).unchecked);
  data_close(data);
  index_file("pair.idx", 100, 8, 62);
  for (int i = 0; i < 2; i++) {
    options.file = i ? index : tokens;
    assert_true(data_open(&options, &data, &error));
    assert_true(data_facts(data).unchecked);
    assert_int_equal(data_facts(data).tokens, 100);
    data_close(data);
  }
  expect_limit_error(options, 1, "Too many open files");  // the index beside it cannot be read
  for (int i = 0; i < 2; i++) {
    options.file = i ? index : tokens;
    index_file("pair.idx", 100, 8, 55);
    expect_open_error(options, "pair.idx says at byte 18 that it has 1 sequences");
    index_file("pair.idx", 100, 5, 62);
    expect_open_error(options, "pair.idx says at byte 17 that tokens have type 5");
    text_file("pair.idx", "", 0);
    expect_open_error(options, "pair.idx");
  }
  const int32_t header[] = {20240520, 2};
  options.file = text_file("cut.tokens", (const char *)header, sizeof header);
  expect_open_error(options, "cut.tokens begins like a token file of llm.c, but has version 2");
}

// A pass over the files of a pattern has each window of each file once, and the last part of each is validated with.
static void test_pattern(void **state) {
  (void)state;
  enum { SEQUENCE = 10, FILES = 3 };
  static const size_t sizes[FILES] = {400, 1200, 90};
  char bytes[1200], pattern[128];
  for (int i = 0; i < FILES; i++) {
    char name[16];
    snprintf(name, sizeof name, "part-%d.of", i);
    memset(bytes, 'a' + i, sizeof bytes);
    text_file(name, bytes, sizes[i]);
  }
  snprintf(pattern, sizeof pattern, "%s/part-*.of", directory);
  Data *data = data_of(pattern, 0.25, SEQUENCE, 3);
  const DataFacts facts = data_facts(data);
  assert_int_equal(data_parts(data), FILES);
  assert_int_equal(facts.tokens, 400 + 1200 + 90);
  assert_non_null(strstr(facts.path, "/part-*.of"));
  int64_t had[FILES] = {0};
  for (int64_t sample = 0; sample < facts.train_windows; sample++) {
    int64_t own = sample;
    int32_t window[SEQUENCE + 1];
    Error error = {0};
    assert_true(data_train_window(data_train_part(data, &own), own, window, &error));
    const int file = window[0] - 'a';
    assert_true(file >= 0 && file < FILES && window[SEQUENCE] == window[0] && own == had[file]);
    had[file]++;
  }
  for (int i = 0; i < FILES; i++) {
    const int64_t windows = data_facts(data_part(data, i)).train_windows;
    assert_true(had[i] >= windows - 1 && had[i] <= windows + 1 && windows > 0);
  }
  data_close(data);
  expect_limit_error((DataOptions){.path = pattern, .sequence = 8}, 0, "Too many open files; `ulimit -n` allows more");
  snprintf(pattern, sizeof pattern, "%s/part-?.none", directory);
  expect_open_error((DataOptions){.path = pattern, .sequence = 8}, "no file fits this pattern");
  expect_open_error((DataOptions){.path = "/*/*/*", .sequence = 8}, "at most 2 names of a path");
  text_file("part-3.of", "short", 5);
  snprintf(pattern, sizeof pattern, "%s/part-*.of", directory);
  expect_open_error((DataOptions){.path = pattern, .sequence = 8}, "part-3.of has");
  expect_open_error((DataOptions){.path = pattern, .validation_fraction = 1, .sequence = 8},
                    "part-3.of has 5 tokens, less than one window of 9");
}

static void test_text_that_shrinks(void **state) {
  (void)state;
  const char *path = counted_file(5000);
  Data *data = data_of(path, 0, 100, 1);
  int32_t window[101];
  Error error = {0};
  assert_int_equal(truncate(path, 10), 0);
  assert_false(data_train_window(data, 0, window, &error));
  assert_non_null(strstr(error.text, "another program shortened it"));
  data_close(data);
}

int main(void) {
  snprintf(directory, sizeof directory, "/tmp/mdl-data-XXXXXX");
  if (!mkdtemp(directory)) {
    return 1;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_permutation),
      cmocka_unit_test(test_epochs),
      cmocka_unit_test(test_every_window_size),
      cmocka_unit_test(test_errors),
      cmocka_unit_test(test_microbatches_change_nothing),
      cmocka_unit_test(test_turned_inputs),
      cmocka_unit_test(test_documents_and_mask),
      cmocka_unit_test(test_inputs_that_do_not_fit),
      cmocka_unit_test(test_evaluation),
      cmocka_unit_test(test_shares),
      cmocka_unit_test(test_mix),
      cmocka_unit_test(test_in_place_of_a_mix),
      cmocka_unit_test(test_pattern),
      cmocka_unit_test(test_text_that_shrinks),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  io_remove_tree(directory);
  return failed;
}
