// tokenizer_words_test.c: what is said of each wrong tokenizer.json and rank file, and odd ones that are read right.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka.h wants the four above first.
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/data/normal.h"
#include "runtime/data/tokenizer.h"
#include "tests/place.h"

// In the texts below ' stands for ", and ~ for U+2581, as which spaces are written.
static char *written(const char *text) {
  char *out = calloc(3, strlen(text) + 1), *to = out;
  for (const char *at = text; *at; at++) {
    const char one[] = {*at == '\'' ? '"' : *at, '\0'}, *put = *at == '~' ? "\xe2\x96\x81" : one;
    to = stpcpy(to, put);
  }
  return out;
}

// NULL: it is read; else what is said, with status 1.
static void expect_read(const char *given, const char *words) {
  char *text = written(given);
  Tokenizer *tokenizer = NULL;
  Error error = {0};
  const bool done = tokenizer_read("input", text, strlen(text), &tokenizer, &error);
  if (done != !words || (words && (!strstr(error.text, words) || error.status != 1))) {
    fail_msg("%s\nexpected '%s' in: %s", text, words ? words : "", error.text);
  }
  if (done) {
    tokenizer_close(tokenizer);
  }
  free(text);
}

#define LEVEL "{'type':'ByteLevel','add_prefix_space':false,'use_regex':false}"
#define VOCAB "'vocab':{'a':0,'b':1,'ab':2}"
#define MODEL "'model':{" VOCAB ",'merges':['a b']}"
#define CUTS(list) "{'pre_tokenizer':{'type':'Sequence','pretokenizers':[" list "]}," MODEL "}"
#define SPLIT(rest) CUTS("{'type':'Split'," rest "}," LEVEL)
#define BYTES(model) "{'pre_tokenizer':" LEVEL "," model "}"

static const struct {
  const char *text, *words;
} of_bytes[] = {
    {BYTES(MODEL), NULL},
    {"{", "is no JSON: line 1"},
    {BYTES("'x':1"), "it has no \"model\""},
    {BYTES("'model':[]"), "it has no \"model\""},
    {BYTES("'model':{'type':'WordPiece'}"), "has no model WordPiece"},
    {BYTES("'model':{'dropout':0.1}"), "has no model with dropout"},
    {BYTES("'model':{'continuing_subword_prefix':'##'}"), "model with continuing_subword_prefix"},
    {BYTES("'model':{'merges':[]}"), "has no \"vocab\""},
    {BYTES("'model':{'vocab':{}}"), "has no tokens"},
    {BYTES("'model':{'vocab':{'a':'x'}}"), "the token 'a' has no number from 0"},
    {BYTES("'model':{'vocab':{'a':-1}}"), "the token 'a' has no number from 0"},
    {BYTES("'model':{'vocab':{'a':99999999}}"), "the token 'a' has no number from 0"},
    {BYTES("'model':{'vocab':{'a':0,'b':0}}"), "gives two tokens the number 0"},
    {BYTES("'model':{" VOCAB "}"), "has no merges"},
    {BYTES("'model':{" VOCAB ",'merges':[7]}"), "merge 0 is no pair of tokens"},
    {BYTES("'model':{" VOCAB ",'merges':['ab']}"), "merge 0 is no pair of tokens"},
    {BYTES("'model':{" VOCAB ",'merges':['a b c']}"), "merge 0 is no pair of tokens"},
    {BYTES("'model':{" VOCAB ",'merges':[['a',7]]}"), "merge 0 is no pair of tokens"},
    {BYTES("'model':{" VOCAB ",'merges':[[7,'a']]}"), "merge 0 is no pair of tokens"},
    {BYTES("'model':{" VOCAB ",'merges':[['a','b']]}"), NULL},
    {BYTES("'model':{" VOCAB ",'merges':['a b','x b']}"), "merge 1 names 'x', which is no token"},
    {BYTES("'model':{" VOCAB ",'merges':['a y']}"), "merge 0 names 'y', which is no token"},
    {BYTES("'model':{" VOCAB ",'merges':['b a']}"), "merge 0 names 'ba', which is no token"},
    {BYTES("'added_tokens':[{'id':3,'content':'<e>'}]," MODEL), NULL},
    {BYTES("'added_tokens':[{'id':3}]," MODEL), "the added token 3 has no text"},
    {BYTES("'added_tokens':[{'content':'<e>'}]," MODEL), "the token '<e>' has no number from 0"},
    {BYTES("'added_tokens':[{'id':3,'content':'<e>','single_word':true}]," MODEL), "with single_word: <e>"},
    {"{" MODEL "}", "tokenizer without ByteLevel"},
    {"{'pre_tokenizer':null," MODEL "}", "tokenizer without ByteLevel"},
    {"{'pre_tokenizer':{'type':'Split','pattern':{'String':'x'}}," MODEL "}", "tokenizer without ByteLevel"},
    {"{'pre_tokenizer':{'type':'Digits'}," MODEL "}", "tokenizer without ByteLevel"},
    {"{'pre_tokenizer':{}," MODEL "}", "pre-tokenizer without a type"},
    {CUTS(""), "tokenizer without ByteLevel"},
    {CUTS("{'type':'Digits'}"), "tokenizer without ByteLevel"},
    {CUTS("{'type':'Digits'}," LEVEL), NULL},
    {CUTS("{'type':'Digits','individual_digits':true}," LEVEL), NULL},
    {CUTS("{'type':'Digits','individual_digits':'yes'}," LEVEL), NULL},
    {CUTS(LEVEL ",{'type':'Digits'}"), "'Digits' follows on ByteLevel"},
    {CUTS("{'type':'ByteLevel','add_prefix_space':false}"), NULL},
    {CUTS("{'type':'ByteLevel','add_prefix_space':true}"), "ByteLevel with add_prefix_space"},
    {CUTS("{'type':'Whitespace'}," LEVEL), "pre-tokenizer Whitespace"},
    {SPLIT("'pattern':{}"), "a Split has no pattern"},
    {SPLIT("'pattern':{'String':''}"), "a Split has no pattern"},
    {SPLIT("'pattern':{'String':'09azAZ.\xc3\xa9 {/:@[`'}"), NULL},
    {SPLIT("'pattern':{'Regex':'a+'},'behavior':'Removed'"), NULL},
    {SPLIT("'pattern':{'Regex':'a+'},'behavior':'Removed','invert':true"), NULL},
    {SPLIT("'pattern':{'Regex':'a+'},'behavior':'MergedWithNext'"), "Split of behaviour MergedWithNext"},
    {"{'normalizer':{'type':'Lowercase'},'pre_tokenizer':" LEVEL "," MODEL "}", "has no normalizer Lowercase"},
    {"{'normalizer':{},'pre_tokenizer':" LEVEL "," MODEL "}", "has no normalizer without a type"},
    {"{'normalizer':null,'pre_tokenizer':" LEVEL "," MODEL "}", NULL},
    {"{'normalizer':{'normalizers':[]},'pre_tokenizer':" LEVEL "," MODEL "}", NULL},
    {"{'normalizer':{'normalizers':[{'type':'NFC'},{'type':'NFC'}]},'pre_tokenizer':" LEVEL "," MODEL "}",
     "has no normalizer without a type"},
    {"{'normalizer':{'normalizers':[{'type':'Strip'}]},'pre_tokenizer':" LEVEL "," MODEL "}", "normalizer Strip"},
};

static void test_words_of_bytes(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof of_bytes / sizeof *of_bytes; i++) {
    expect_read(of_bytes[i].text, of_bytes[i].words);
  }
}

// An added token that is looked for in the normal form, with the spaces beside it.
static void test_words_of_normal_forms(void **state) {
  (void)state;
  Error error = {0};
  if (!normal_available(&error)) {
    skip();
  }
#define NORMAL(token) \
  "{'normalizer':{'type':'NFC'},'pre_tokenizer':" LEVEL ",'added_tokens':[{'id':3," token "}]," MODEL "}"
  expect_read(NORMAL("'content':'\xc3\xa9','normalized':true,'lstrip':true"),
              "added token with normalized and lstrip or rstrip: \xc3\xa9");
  expect_read(NORMAL("'content':'\xc3\xa9','normalized':true"), NULL);
  expect_read(NORMAL("'content':'\xc3\xa9','normalized':false"), NULL);
  expect_read(NORMAL("'content':'<e>'"), NULL);
}

#define CHARACTERS(parts, vocab) \
  "{" parts "'model':{'byte_fallback':true,'vocab':{'a':0,'b':1,'ab':2,'~':3" vocab "},'merges':['a b']}}"
#define REPLACE "{'type':'Replace','pattern':{'String':' '},'content':'~'}"
#define NORMALIZER "'normalizer':" REPLACE ","
#define METASPACE(rest) "'pre_tokenizer':{'type':'Metaspace','split':false,'replacement':'~'" rest "},"

static const struct {
  const char *text, *words;
} of_characters[] = {
    {CHARACTERS(NORMALIZER, ""), NULL},
    {CHARACTERS(NORMALIZER "'pre_tokenizer':null,", ",'':4,'~~':5,'a~':6,'<0x4Z>':7,'<0xZ4>':8,'<0x41]':9"), NULL},
    {CHARACTERS("'normalizer':{'normalizers':[{'type':'Prepend','prepend':'~'}," REPLACE "]},", ""), NULL},
    {CHARACTERS("'normalizer':{'normalizers':[" REPLACE ",{'type':'Prepend','prepend':'~'}]},", ""),
     "has no normalizer Prepend"},
    {CHARACTERS("'normalizer':{'type':'Prepend','prepend':'x'},", ""), "has no normalizer Prepend"},
    {CHARACTERS("'normalizer':{'type':'Replace','pattern':{'String':'x'},'content':'~'},", ""), "normalizer Replace"},
    {CHARACTERS("'normalizer':{'type':'Replace','pattern':{'String':' '},'content':'x'},", ""), "normalizer Replace"},
    {CHARACTERS("'normalizer':{'normalizers':[{}]},", ""), "has no normalizer without a type"},
    {CHARACTERS("", ""), "without U+2581 for spaces"},
    {CHARACTERS("'normalizer':null,'pre_tokenizer':null,", ""), "without U+2581 for spaces"},
    {CHARACTERS("'normalizer':{'type':'Prepend','prepend':'~'},", ""), "without U+2581 for spaces"},
    {CHARACTERS(NORMALIZER "'pre_tokenizer':{'type':'Split','pattern':{'String':' '}},", ""), NULL},
    {CHARACTERS("'pre_tokenizer':{'type':'Split','pattern':{'String':' '}},", ""), "of characters Split"},
    {CHARACTERS(NORMALIZER "'pre_tokenizer':{'type':'Split','pattern':{'String':'x'}},", ""), "of characters Split"},
    {CHARACTERS(METASPACE(""), ""), NULL},
    {CHARACTERS(METASPACE(",'prepend_scheme':'first'"), ""), NULL},
    {CHARACTERS(METASPACE(",'prepend_scheme':'never'"), ""), NULL},
    {CHARACTERS(NORMALIZER METASPACE(""), ""), "pre-tokenizer of characters Metaspace"},
    {CHARACTERS("'pre_tokenizer':{'type':'Metaspace','replacement':'~'},", ""), "of characters Metaspace"},
    {CHARACTERS("'pre_tokenizer':{'type':'Metaspace','split':false,'replacement':'x'},", ""),
     "of characters Metaspace"},
    {CHARACTERS("'pre_tokenizer':{},", ""), "of characters without a type"},
    {"{" NORMALIZER "'model':{'byte_fallback':true,'ignore_merges':true," VOCAB "}}", "with ignore_merges"},
};

static void test_words_of_characters(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof of_characters / sizeof *of_characters; i++) {
    expect_read(of_characters[i].text, of_characters[i].words);
  }
}

static void test_words_of_ranks(void **state) {
  (void)state;
  static const struct {
    const char *text, *words;
  } all[] = {
      {"YQ== 0\nYg== 1\r\n\nYWI= 2", NULL},
      {"YWI 0\nYQ 1\nYg 2\n", NULL},  // without what fills up fours
      {"+/+/ 0\n", NULL},
      {"\n\n", "holds no tokens"},
      {"YQ==\n", "line 1, at byte 0, is no token in base64"},
      {"YQ== 0\n 1\n", "line 2, at byte 7, is no token in base64"},
      {"YQ== \n", "line 1, at byte 0"},
      {"YQ== 123456789\n", "line 1, at byte 0"},
      {"YQ== 99999999\n", "line 1, at byte 0"},
      {"YQ== 1x\n", "line 1, at byte 0"},
      {"YQ== -\n", "line 1, at byte 0"},
      {"Y 0\n", "line 1, at byte 0"},
      {"Y*== 0\n", "line 1, at byte 0"},
      {"==== 0\n", "line 1, at byte 0"},
      {"YQ== 0\nYg== 0\n", "gives rank 0 twice"},
  };
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    expect_read(all[i].text, all[i].words);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_words_of_bytes),
      cmocka_unit_test(test_words_of_normal_forms),
      cmocka_unit_test(test_words_of_characters),
      cmocka_unit_test(test_words_of_ranks),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
