// tokenizer_internal.h: what a tokenizer is made of, for those that read one and the encoder.
#ifndef MDL_RUNTIME_DATA_TOKENIZER_INTERNAL_H
#define MDL_RUNTIME_DATA_TOKENIZER_INTERNAL_H

#include "base/arena.h"
#include "base/map.h"
#include "runtime/data/normal.h"
#include "runtime/data/pattern.h"
#include "runtime/data/scan.h"
#include "runtime/data/tokenizer.h"

enum { TOKENIZER_MOST_KINDS = 1 << 22, TOKENIZER_MOST_CUTS = 8 };

typedef struct {
  const uint8_t *bytes;  // NULL: no such token
  int32_t length;
} TokenText;

typedef struct {  // which tokens two neighbours become: the pair with the lowest rank first
  uint64_t pair;  // first << 32 | second, plus 1; 0: free
  int32_t rank, token;
} Merge;

typedef struct {  // text that is a token wherever it stands, such as <|endoftext|>
  const char *text;
  int32_t length, token;
  bool left, right;  // spaces beside it go with it
  bool bare;         // of a model of SentencePiece: where a text begins with it, no space is put ahead
  // Looked for in the form of the text between other added tokens (normalized): what it is there. With a prefix that
  // the form puts ahead of each text, what follows that prefix. NULL: looked for as it is.
  const char *form;
  int32_t form_length;
} Added;

typedef struct {  // a cut of text into matches of a pattern and what lies between them
  Pattern *pattern;
  Scan *scan;             // the same for ASCII, or NULL
  bool matches, between;  // which of the two stay
} Cut;

typedef struct Sentence Sentence;

struct Tokenizer {
  Arena *arena;
  int sharers;         // who opened it is none
  Sentence *sentence;  // of a model of SentencePiece, which says all but the texts of tokens; NULL: it is none
  const char *path;
  int32_t kinds, longest, end;
  TokenText *texts;
  int32_t byte_token[256];  // -1: none
  Merge *merges;            // open addressing, a power of two
  size_t merge_capacity, merge_count;
  Merge *byte_pairs;  // of two bytes: [first << 8 | second], rank -1: none
  // Not of bytes but of characters, as SentencePiece: spaces are U+2581, and what is no token is its bytes, <0x00> to
  // <0xFF>, which byte_token has.
  bool characters;
  NormalForm normal;  // of Unicode, in which text is cut; not for `characters`
  bool severable;     // no token goes on with a space behind something else: text can be cut there
  enum { PREFIX_NONE, PREFIX_FIRST, PREFIX_EACH } prefix;  // a space ahead of the text, or also behind each added token
  bool prefix_once;                                        // only where there is none
  bool whole;                                              // a piece that is a token is that token, whatever merges say
  Map words;  // bytes of tokens, for `whole`; for `characters` those of one character
  Cut cuts[TOKENIZER_MOST_CUTS];
  int cut_count;
  Added *added;
  int added_count;
  int32_t added_longest, form_longest;  // form_longest: 0: there is none
  bool added_left;                      // one of them takes spaces ahead of it
  bool added_first[256], form_first[256];
};

// All false with `error` set on failure. Texts of tokens are set first, then merges, then tokenizer_finish.
bool tokenizer_json(Tokenizer *tokenizer, const char *text, size_t length, Error *error);
bool tokenizer_ranks(Tokenizer *tokenizer, const char *text, size_t length, Error *error);

bool tokenizer_cut(Tokenizer *tokenizer, const char *pattern, size_t length, bool matches, bool between, Error *error);
void tokenizer_merges_reserve(Tokenizer *tokenizer, size_t count);
void tokenizer_merge(Tokenizer *tokenizer, int32_t first, int32_t second, int32_t rank, int32_t token);
const Merge *tokenizer_merge_find(const Tokenizer *tokenizer, int32_t first, int32_t second);  // or NULL

#endif
