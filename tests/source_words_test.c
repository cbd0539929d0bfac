// source_words_test.c: what is said of each wrong source of data: templates and lines of conversations, separators,
// mixes and their options; and what odd ones that are right are read as.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka.h wants the four above first.
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/data/chat.h"
#include "runtime/data/data.h"
#include "runtime/data/documents.h"
#include "tests/place.h"

// Tokens of one letter each, and these added ones from 200 on; NULL ends them.
static Tokenizer *letters(const char *const *added) {
  Buffer text = {0};
  Tokenizer *tokenizer = NULL;
  Error error = {0};
  buffer_text(&text,
              "{\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false},"
              "\"model\":{\"vocab\":{\"\xc4\x8a\":10,\"\xc4\x8a\xc4\x8a\":0,\"a\xc4\x8a\":1,\"\xc4\x8a"
              "a\":2,\"\xc4\xa0\":32");
  for (int c = '!'; c <= '~'; c++) {
    buffer_format(&text, ",\"%s%c\":%d", c == '"' || c == '\\' ? "\\" : "", c, c);
  }
  buffer_text(&text, "},\"merges\":[\"\xc4\x8a \xc4\x8a\",\"a \xc4\x8a\",\"\xc4\x8a a\"]},\"added_tokens\":[");
  for (int i = 0; added && added[i]; i++) {
    buffer_format(&text, "%s{\"id\":%d,\"content\":\"%s\"}", i ? "," : "", 200 + i, added[i]);
  }
  buffer_text(&text, "]}");
  if (!tokenizer_read("letters", text.text, text.length, &tokenizer, &error)) {
    fail_msg("%s", error.text);
  }
  buffer_free(&text);
  return tokenizer;
}

static SourceOptions *options_of(const char *text) {
  static SourceOptions options;
  Error error = {0};
  if (!source_options(text, &options, &error)) {
    fail_msg("%s", error.text);
  }
  return &options;
}

static void expect_error(bool done, const Error *error, const char *what, const char *words) {
  if (done || error->status != 1 || !strstr(error->text, words)) {
    fail_msg("%s: expected '%s' in: %s", what, words, done ? "nothing" : error->text);
  }
}

// --- conversations ---

static void test_templates(void **state) {
  (void)state;
  static const struct {
    const char *options, *words;
  } wrong[] = {
      {"template={role};", "has no {content}"},
      {"template={content}{content};", "goes on with {role} or {content}"},
      {"template={content}{role};", "goes on with {role} or {content}"},
      {"template={content}{end}{end};", "has {end} twice"},
      {"template={end}{content};", "has {end} before {content}"},
  };
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    Chat *chat = NULL;
    Error error = {0};
    const bool done = chat_create(NULL, options_of(wrong[i].options), &chat, &error);
    expect_error(done, &error, wrong[i].options, wrong[i].words);
  }
}

// What a model was taught is known by the tokens that it has.
static void test_styles(void **state) {
  (void)state;
  static const struct {
    const char *added[4], *options, *system, *said;
  } all[] = {
      {{NULL}, NULL, NULL, "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"},
      {{"<|im_start|>", "<|im_end|>"}, NULL, "", "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"},
      {{"<|start_header_id|>"}, NULL, NULL, "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"},
      {{"<|start_header_id|>", "<|eot_id|>"},
       NULL,
       NULL,
       "<|start_header_id|>user<|end_header_id|>\n\nhi<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"},
      {{"<|start_header_id|>", "<|eot_id|>", "<|begin_of_text|>"},
       NULL,
       NULL,
       "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nhi<|eot_id|><|start_header_id|>assistant<|end_"
       "header_id|>\n\n"},
      {{"<start_of_turn>", "<end_of_turn>", "<bos>"},
       NULL,
       "ho",
       "<bos><start_of_turn>system\nho<end_of_turn>\n<start_of_turn>user\nhi<end_of_turn>\n<start_of_turn>model\n"},
      {{"<start_of_turn>", "<end_of_turn>", "<bos>"},
       "begin=B;",
       NULL,
       "B<start_of_turn>user\nhi<end_of_turn>\n<start_of_turn>model\n"},
      {{"<start_of_turn>", "<end_of_turn>", "<bos>"}, "template=[{role}>{content}];", NULL, "[user>hi][assistant>"},
      {{NULL}, "template=[{content}{end}];", "ho", "[ho][hi]["},
  };
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    Tokenizer *tokenizer = all[i].added[0] ? letters(all[i].added) : NULL;
    Chat *chat = NULL;
    Error error = {0};
    Buffer text = {0};
    if (!chat_create(tokenizer, options_of(all[i].options), &chat, &error) ||
        !chat_question(chat, all[i].system, "hi", &text, &error)) {
      fail_msg("%s", error.text);
    }
    assert_string_equal(text.text, all[i].said);
    buffer_free(&text);
    chat_destroy(chat);
    if (tokenizer) {
      tokenizer_close(tokenizer);
    }
  }
}

static void test_wrong_conversations(void **state) {
  (void)state;
  static const struct {
    const char *line, *words;
  } wrong[] = {
      {"{", "talks:7: the line is no JSON, at byte"},
      {"[]", "the line is no object {...}"},
      {"{\"messages\":1,\"messages\":2}", "the line is no JSON"},
      {"{}", "the line has no \"messages\""},
      {"{\"messages\":{}}", "\"messages\" is no list of messages"},
      {"{\"messages\":[]}", "\"messages\" is an empty list"},
      {"{\"prompt\":\"a\"}", "only one is there"},
      {"{\"completion\":\"a\"}", "only one is there"},
      {"{\"prompt\":1,\"completion\":\"a\"}", "the prompt or the completion is no text"},
      {"{\"prompt\":\"a\",\"completion\":[]}", "the prompt or the completion is no text"},
      {"{\"messages\":[{\"content\":\"a\"}]}", "message 1 has no \"role\" that is text"},
      {"{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"user\"}]}", "message 2 has no \"content\""},
      {"{\"messages\":[{\"role\":\"a\\u0000b\",\"content\":\"a\"}]}", "the \"role\" of message 1 has a zero byte"},
  };
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    Chat *chat = NULL;
    Error error = {0};
    TokenList tokens = {0};
    Buffer flags = {0};
    assert_true(chat_create(NULL, options_of(NULL), &chat, &error));
    const bool done = chat_add(chat, "talks", 7, wrong[i].line, strlen(wrong[i].line), &tokens, &flags, &error);
    expect_error(done, &error, wrong[i].line, wrong[i].words);
    chat_destroy(chat);
    tokens_free(&tokens);
    buffer_free(&flags);
  }
}

// Tokens as letters, and below each whether it is of an answer.
static void test_conversations(void **state) {
  (void)state;
  static const struct {
    const char *options, *line, *tokens, *answers;
    bool letters;  // with a tokenizer, whose token 200 ends documents
  } all[] = {
      {"template={role}:{content}\\s{end}|;begin=B;separator=--;",
       "{\"messages\":[{\"role\":\"u\",\"content\":\"q\"},{\"role\":\"assistant\",\"content\":\"no\"}]}",
       "Bu:q;|assistant:no;|--", "                111 11", false},
      {"template={role}:{content}\\n;separator-;", "{\"prompt\":\"q\",\"completion\":\"no\"}", "user:q\nassistant:no\n",
       "                 111", false},
      {"template={role}:{content}|;", "{\"messages\":[{\"role\":\"model\",\"content\":\"\"}]}", "assistant:|E",
       "          11", true},
      {"template={content}|;", "{\"messages\":[{\"role\":\"u\",\"content\":\"q\"}]}", "q|E", "   ", true},
      {"template={content};separator-;", "{\"messages\":[{\"role\":\"u\",\"content\":\"\"}]}", "", "", true},
  };
  static const char *const added[] = {"<|endoftext|>", NULL};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    Tokenizer *tokenizer = all[i].letters ? letters(added) : NULL;
    Chat *chat = NULL;
    Error error = {0};
    TokenList tokens = {0};
    Buffer flags = {0};
    if (!chat_create(tokenizer, options_of(all[i].options), &chat, &error) ||
        !chat_add(chat, "talks", 1, all[i].line, strlen(all[i].line), &tokens, &flags, &error)) {
      fail_msg("%s: %s", all[i].line, error.text);
    }
    assert_int_equal(tokens.count, strlen(all[i].tokens));
    assert_int_equal(flags.length, tokens.count);
    for (int64_t t = 0; t < tokens.count; t++) {
      assert_int_equal(tokens.at[t], all[i].tokens[t] == 'E' ? 200 : all[i].tokens[t]);
      assert_int_equal(flags.text[t] & TOKEN_ANSWER, all[i].answers[t] == '1');
      assert_int_equal(flags.text[t] & TOKEN_BEGINS, t == 0 ? TOKEN_BEGINS : 0);
    }
    chat_destroy(chat);
    tokens_free(&tokens);
    buffer_free(&flags);
    if (tokenizer) {
      tokenizer_close(tokenizer);
    }
  }
}

// --- where documents end ---

enum { LINES = 0, A_LINE = 1, LINE_A = 2, END = 200 };  // "\n\n", "a\n", "\na"

static void test_separators(void **state) {
  (void)state;
  static const struct {
    bool letters, text, bytes;  // with a tokenizer
    const char *options;
    int32_t tokens[4];
    int64_t at;
    bool begins;
  } all[] = {
      {false, true, true, NULL, {'a', 'b'}, 0, false},
      {false, true, true, NULL, {'a', 'b'}, 1, false},
      {false, true, true, NULL, {'\0', 'b'}, 1, true},
      {false, true, false, NULL, {'\0', 'b'}, 1, false},
      {false, true, true, NULL, {'\n', '\n', 'b'}, 2, true},
      {false, false, true, NULL, {'\n', '\n', 'b'}, 2, false},
      {false, true, true, NULL, {'\n', '\n', '\n'}, 2, false},
      {false, true, true, NULL, {'x', '\n', 'b'}, 2, false},
      {false, true, true, NULL, {'\n', 'b'}, 1, false},
      {false, true, true, "separator-;", {'\0', 'b'}, 1, false},
      {false, true, true, "separator#7;", {7, 'b'}, 1, true},
      {false, true, true, "separator#7;", {8, 'b'}, 1, false},
      {false, true, true, "separator=ab;", {'a', 'b', 'c'}, 2, true},
      {false, true, true, "separator=ab;", {'a', 'c', 'c'}, 2, false},
      {false, true, true, "separator=ab;", {'b', 'c'}, 1, false},
      {true, true, false, NULL, {END, 'a'}, 1, true},
      {true, false, false, NULL, {END, 'a'}, 1, true},
      {true, true, false, NULL, {LINES, 'a'}, 1, true},
      {true, false, false, NULL, {LINES, 'a'}, 1, false},
      {true, true, false, NULL, {LINES, '\n'}, 1, false},
      {true, true, false, NULL, {LINES, LINE_A}, 1, false},
      {true, true, false, NULL, {A_LINE, '\n', 'a'}, 2, true},
      {true, true, false, NULL, {'a', '\n', 'a'}, 2, false},
      {true, true, false, NULL, {A_LINE, A_LINE, 'a'}, 2, false},
      {true, true, false, NULL, {'\n', 'a'}, 1, false},
      {true, true, false, NULL, {-1, 'a'}, 1, false},
      {true, true, false, NULL, {1000, 'a'}, 1, false},
      {true, true, false, "separator=a;", {'a', 'b'}, 1, true},
      {true, true, false, "separator=<|endoftext|>;", {END, 'b'}, 1, true},
      {true, true, false, "separator=<|endoftext|>;", {LINES, 'b'}, 1, false},
  };
  static const char *const added[] = {"<|endoftext|>", NULL};
  Tokenizer *tokenizer = letters(added);
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    Documents documents;
    Error error = {0};
    if (!documents_set(&documents, all[i].letters ? tokenizer : NULL, all[i].text, all[i].bytes,
                       options_of(all[i].options), "input", &error)) {
      fail_msg("case %zu: %s", i, error.text);
    }
    assert_true(documents_known(&documents));
    if (documents_begin(&documents, all[i].tokens, all[i].at) != all[i].begins) {
      fail_msg("case %zu: a document %s there", i, all[i].begins ? "begins" : "begins not");
    }
    documents_free(&documents);
  }
  tokenizer_close(tokenizer);
}

static void test_wrong_separators(void **state) {
  (void)state;
  Tokenizer *tokenizer = letters(NULL);
  Documents documents;
  Error error = {0};
  bool done = documents_set(&documents, NULL, false, false, options_of("separator=a;"), "input", &error);
  expect_error(done, &error, "text", "nothing says which text its tokens are");
  documents_free(&documents);
  done = documents_set(&documents, tokenizer, true, false, options_of("separator=ab;"), "input", &error);
  expect_error(done, &error, "two tokens", "the separator 'ab' of input is 2 tokens of letters");
  documents_free(&documents);
  done = documents_set(&documents, tokenizer, true, false, options_of("separator=\xc3\xa9;"), "input", &error);
  expect_error(done, &error, "no token", "has no token for the byte 0xc3");
  documents_free(&documents);
  assert_true(documents_set(&documents, NULL, false, false, options_of(NULL), "input", &error));
  assert_false(documents_known(&documents));
  documents_free(&documents);
  assert_true(documents_set(&documents, tokenizer, false, false, options_of(NULL), "input", &error));
  assert_false(documents_known(&documents));  // it has no token that ends one
  documents_free(&documents);
  tokenizer_close(tokenizer);
}

// --- sources ---

#define LINE "\t1\ttext\tbytes\ttext\n"
#define HELD "h\t0\ttext\tbytes\ttext\n"
#define EIGHT(line) line line line line line line line line

static const struct {
  const char *what, *words;
  DataOptions options;
} sources[] = {
    {"no path", "the recipe names no data", {.kind = "text", .path = ""}},
    {"no table", "the recipe names no data", {.kind = "mix", .path = ""}},
    {"of held alone", "the recipe names no data", {.kind = "mix", .path = HELD}},
    {"not there", "is neither in the working directory nor beside the text", {.kind = "text", .path = "none"}},
    {"a directory", "is a directory; a pattern names the files in it", {.kind = "text", .path = "/"}},
    {"a tokenizer", "a tokenizer is a file", {.kind = "text", .path = "text", .tokenizer = "none.json"}},
    {"no weight", "a mix of data that cannot be read", {.kind = "mix", .path = "a\tx\ttext\tbytes\ttext\n"}},
    {"less than none", "a mix of data that cannot be read", {.kind = "mix", .path = "a\t-1\ttext\tbytes\ttext\n"}},
    {"too much", "a mix of data that cannot be read", {.kind = "mix", .path = "a\t1e13\ttext\tbytes\ttext\n"}},
    {"more than it", "a mix of data that cannot be read", {.kind = "mix", .path = "a\t1 2\ttext\tbytes\ttext\n"}},
    {"three fields", "a mix of data that cannot be read", {.kind = "mix", .path = "a\t1\ttext\n"}},
    {"a mix in it", "a mix of data that cannot be read", {.kind = "mix", .path = "a\t1\tmix\tbytes\ttext\n"}},
    {"33 sources",
     "a mix of data that cannot be read",
     {.kind = "mix", .path = EIGHT(LINE) EIGHT(LINE) EIGHT(LINE) EIGHT(LINE) LINE}},
    {"nine that are held", "more than 8 validation sets", {.kind = "mix", .path = LINE EIGHT(HELD) HELD}},
    {"two tokenizers",
     "has the tokenizer 'bytes', but the data 'other.json'",
     {.kind = "mix", .path = LINE HELD, .tokenizer = "other.json"}},
    {"a held one too short", "less than one window of", {.kind = "mix", .path = LINE "h\t0\ttext\tbytes\tshort\n"}},
    {"a held one not there", "none", {.kind = "mix", .path = LINE "h\t0\ttext\tbytes\tnone\n"}},
    {"an option", "an option of data that cannot be read", {.kind = "text", .path = "text", .options = "x=1;"}},
    {"no mask", "the mask none is neither", {.kind = "tokens_u16", .path = "tokens", .options = "mask=none;"}},
    {"a mask that is none", "is not a regular file", {.kind = "tokens_u16", .path = "tokens", .options = "mask=/;"}},
    {"a mask too short", "has 2 bytes, but", {.kind = "tokens_u16", .path = "tokens", .options = "mask=short;"}},
    {"a mask without answers", "has no answers", {.kind = "tokens_u16", .path = "tokens", .options = "mask=zeros;"}},
    {"talks", "the line is no JSON", {.kind = "chat", .path = "short"}},
    {"no answers", "has no answers", {.kind = "chat", .path = "users.jsonl"}},
    {"a kind", "kind", {.kind = "words", .path = "text"}},
    {"more than is encoded", "mdl data encode", {.kind = "text", .path = "huge", .tokenizer = "huge.json"}},
    {"talks of so much", "--tokenizer bytes --chat -o tokens.bin", {.kind = "chat", .path = "huge"}},
    {"numpy, narrow", "astype(numpy.uint16)", {.kind = "tokens_u16", .path = "array"}},
    {"numpy, wide", "astype(numpy.uint32)", {.kind = "tokens_u32", .path = "array"}},
    {"half a token", "in the middle of a token of u16", {.kind = "tokens_u16", .path = "half"}},
    {"wider tokens", "every second token at its beginning is 0", {.kind = "tokens_u16", .path = "wide"}},
    {"text for bytes", "tokenizer = bytes);", {.kind = "tokens_u16", .path = "text"}},
    {"text for a tokenizer", "huge.json\");`", {.kind = "tokens", .path = "text", .tokenizer = "huge.json"}},
    {"text for nobody",
     "or have the recipe read text: `data text(",
     {.kind = "tokens_u32", .path = "text", .tokenizer = TOKENIZER_NONE}},
    {"an index as tokens", "is an index of Megatron, not its tokens", {.kind = "tokens", .path = "index"}},
    {"JSON", ".json is JSON, not text", {.kind = "text", .path = "list.json"}},
    {"more JSON", ".ndjson is JSON, not text", {.kind = "text", .path = "lines.ndjson"}},
    {"JSON lines as text", ".jsonl", {.kind = "text", .path = "lines.jsonl"}},
    {"no windows", "shorter seq", {.kind = "text", .path = "short"}},
};

static void test_wrong_sources(void **state) {
  const World *world = *state;
  static const uint8_t zeros[100];
  put_in(world, "short", "ab", 2);
  put_in(world, "tokens", zeros, 100);
  put_in(world, "zeros", zeros, 50);
  put_in(world, "lines.jsonl", "\n {\"text\":\"a\"}\n", 15);
  static const char users[] = "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}\n";
  put_in(world, "users.jsonl", users, sizeof users - 1);
  put_in(world, "huge", "a", 1);
  static const char array[48] = "\x93NUMPY\1\0 and more of it, so that it is long";
  put_in(world, "array", array, sizeof array);
  put_in(world, "half", "\1\2\3", 3);
  put_in(world, "wide", "\1\0\0\0\2\0\0\0\1\0\0\0\2\0\0\0\1\0\0\0\2\0\0\0\1\0\0\0\2\0\0\0\1\0\0\0", 36);
  put_in(world, "index", "MMIDIDX\0\0and more of it, so that it is long", 40);
  put_in(world, "list.json", "[{\"text\":\"a\"}]", 14);
  put_in(world, "lines.ndjson", "{\"text\":\"a\"}", 12);
  char path[IO_PATH_MAX];
  path_in(world, path, "huge");
  assert_int_equal(truncate(path, (off_t)3 << 30), 0);  // with nothing in it
  static const char json[] =
      "{\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false},"
      "\"model\":{\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},\"merges\":[\"a b\"]}}";
  put_in(world, "huge.json", json, sizeof json - 1);
  for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
    DataOptions options = sources[i].options;
    Data *data = NULL;
    Error error = {0};
    options.base = world->directory;
    options.sequence = 8;
    options.tokenizer = options.tokenizer ? options.tokenizer : TOKENIZER_BYTES;
    expect_error(data_open(&options, &data, &error), &error, sources[i].what, sources[i].words);
  }
}

// A file in the place of what is trained on: read as the one source was, or as text beside those that are held.
static void test_files_in_place(void **state) {
  const World *world = *state;
  static const struct {
    const char *path;
    int sets;
  } all[] = {{"a\t1\ttext\tbytes\tnone\n", 1},
             {"a\t1\ttext\tbytes\tnone\tseparator#7;\n" HELD, 1},
             {"a\t1\ttext\tbytes\tnone\nb\t2\tchat\tbytes\tnone\n" HELD "i\t0\ttext\tbytes\ttext", 2},
             {"other.mdl", 1}};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    Data *data = NULL;
    Error error = {0};
    const DataOptions options = {.kind = "mix",
                                 .path = all[i].path,
                                 .file = world->text,
                                 .base = world->directory,
                                 .tokenizer = TOKENIZER_BYTES,
                                 .validation_fraction = 0.1,
                                 .sequence = 8};
    if (!data_open(&options, &data, &error)) {
      fail_msg("%s: %s", all[i].path, error.text);
    }
    assert_int_equal(data_facts(data).bytes, 20000);
    assert_int_equal(data_set_count(data), all[i].sets);
    data_close(data);
  }
}

// A text that is one piece for the tokenizer, longer than what is read at once; and parts of it that are no parts.
static void test_one_long_piece(void **state) {
  const World *world = *state;
  enum { LONG = (1 << 20) + 77 };
  static char text[LONG];
  static const char json[] =
      "{\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false},"
      "\"model\":{\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},\"merges\":[\"a b\"]}}";
  static const struct {
    double fraction;
    int64_t train;
  } parts[] = {{-1, LONG}, {NAN, LONG}, {0.5, LONG - LONG / 2}, {1, 0}, {7, 0}};
  memset(text, 'a', sizeof text);
  put_in(world, "long", text, sizeof text);
  put_in(world, "a.json", json, sizeof json - 1);
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    Data *data = NULL;
    Error error = {0};
    const DataOptions options = {.kind = "text",
                                 .path = "long",
                                 .base = world->directory,
                                 .tokenizer = "a.json",
                                 .validation_fraction = parts[i].fraction,
                                 .sequence = 8};
    if (!data_open(&options, &data, &error)) {
      fail_msg("%s", error.text);
    }
    assert_int_equal(data_facts(data).tokens, LONG);
    assert_int_equal(data_facts(data).train_tokens, parts[i].train);
    data_close(data);
  }
}

// A mask is looked at where it is read; and what a sequence may not be.
static void test_masks(void **state) {
  const World *world = *state;
  static const uint8_t tokens[200], mask[100] = {1, 2, 3, 0, 1, 1, 1, 1, 1, 4};
  DataOptions options = {
      .kind = "tokens_u16", .path = "tokens", .base = world->directory, .options = "mask=mask;", .sequence = 8};
  Data *data = NULL;
  Error error = {0};
  int32_t window[9];
  uint8_t flags[9];
  put_in(world, "tokens", tokens, sizeof tokens);
  put_in(world, "mask", mask, sizeof mask);
  options.validation_fraction = 1;
  assert_true(data_open(&options, &data, &error));
  assert_true(data_validation_window(data, 0, window, &error));
  assert_true(data_validation_flags(data, 0, window, flags, &error));
  assert_memory_equal(flags, mask, sizeof flags);
  expect_error(data_validation_flags(data, 1, window, flags, &error), &error, "mask",
               "has the value 4 for token 9; values are from 0 to 3");
  data_close(data);
  options.sequence = 0;
  expect_error(data_open(&options, &data, &error), &error, "sequence", "at least one token, not 0");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_templates),
      cmocka_unit_test(test_styles),
      cmocka_unit_test(test_wrong_conversations),
      cmocka_unit_test(test_conversations),
      cmocka_unit_test(test_separators),
      cmocka_unit_test(test_wrong_separators),
      cmocka_unit_test_setup_teardown(test_wrong_sources, world_open, world_close),
      cmocka_unit_test_setup_teardown(test_files_in_place, world_open, world_close),
      cmocka_unit_test_setup_teardown(test_one_long_piece, world_open, world_close),
      cmocka_unit_test_setup_teardown(test_masks, world_open, world_close),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
