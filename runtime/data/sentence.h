// sentence.h: models of SentencePiece: what the file says, and how text becomes tokens by it.
//
// Text is written in a normal form first, in which spaces are U+2581; then the form is divided into pieces. All of that
// is as the package sentencepiece does it, to the token, also where it rounds scores.
#ifndef MDL_RUNTIME_DATA_SENTENCE_H
#define MDL_RUNTIME_DATA_SENTENCE_H

#include "base/buffer.h"
#include "runtime/data/merge.h"
#include "runtime/data/slots.h"
#include "runtime/data/tokenizer_internal.h"
#include "runtime/data/trie.h"

#define SENTENCE_SPACE "\xe2\x96\x81"

typedef enum { SENTENCE_UNIGRAM = 1, SENTENCE_BPE, SENTENCE_WORD, SENTENCE_CHAR } SentenceKind;

// What a piece is: NORMAL, USER (found in text before all others) and UNUSED are text; UNUSED is not made.
typedef enum { PIECE_NORMAL = 1, PIECE_UNKNOWN, PIECE_CONTROL, PIECE_USER, PIECE_UNUSED, PIECE_BYTE } PieceKind;

typedef struct {
  const uint8_t *text;
  int32_t length;
  PieceKind kind;
  float score;
} SentencePiece;

static inline bool piece_is_text(const SentencePiece *piece) {
  return piece->kind == PIECE_NORMAL || piece->kind == PIECE_USER || piece->kind == PIECE_UNUSED;
}

typedef struct {  // rules of the normal form: the longest one that matches is taken
  const uint32_t *units;
  size_t count;         // 0: no rules
  const uint8_t *text;  // what is put in the place of what matched, each ending with NUL
} Charsmap;

enum { SENTENCE_LONGEST_PIECE = 1024 };  // bytes
#define SENTENCE_HEAVY 100000.0f         // a larger sum of scores begins anew

// A number for a character, equal for equal ones; that of a space is SPACE_CODE.
enum { SPACE_CODE = 1 };

struct Sentence {
  SentenceKind kind;
  SentencePiece *pieces;
  int32_t count;  // of them; tokens behind these were added
  int32_t unknown;
  bool byte_fallback;
  Charsmap charsmap;
  bool prefix, suffix;  // a space ahead of the text, or instead behind it
  bool collapse;        // spaces at both ends go, and several become one
  bool escape;          // spaces are U+2581
  Trie symbols;         // of PIECE_USER
  bool plain[128];      // characters that are as they are, if ASCII follows
  // Pairs of characters that stand beside each other in a piece, the second one in the bits of ASCII and the others by
  // their hash. Between others every text can be cut.
  uint64_t ascii_joins[128][2];
  uint64_t *joins;
  size_t join_mask;
  // SENTENCE_UNIGRAM:
  Trie trie;      // of all pieces that are text
  float *scores;  // by token
  float unknown_score;
  float widest;  // the largest of them without its sign
  // SENTENCE_BPE and SENTENCE_CHAR: a text is a piece, or behind those a character that only occurs inside of some.
  Trie characters;
  int32_t texts;
  int32_t *token_of;     // by text
  int32_t (*halves)[2];  // by piece; of one that is UNUSED: what it is divided into, or -1
};

typedef struct {  // a part of text, and what it is in the normal form; taken 0: it depends on what follows
  const uint8_t *bytes;
  size_t length, taken;
} SentenceUnit;

typedef struct {
  float score;
  int32_t token, begin;  // begin -1: nothing ends here
} SentenceNode;

typedef struct {     // of one text, piece by piece; zero-initialise
  uint8_t *segment;  // the normal form of what is not encoded yet
  size_t length, capacity;
  bool begun, spaced;   // something stands ahead, which ends with a space
  bool unknown;         // which ends with the unknown token
  float score;          // of all tokens so far
  SentenceNode *nodes;  // for the end of each byte
  size_t node_capacity;
  Merger merger;
  TokenList found;
} SentenceState;

// sentence_model.c
bool sentence_looks(const char *text, size_t length);  // whether a file may be one, by how it begins
bool sentence_model(Tokenizer *tokenizer, const char *text, size_t length, Error *error);
int32_t sentence_piece(const Tokenizer *tokenizer, const char *text);  // the piece of this text, whatever it is, or -1
// The piece that is a symbol of this text, or -1; `control`: also one that text does not become.
int32_t sentence_symbol(const Tokenizer *tokenizer, const char *text, bool control);

// sentence_normal.c
bool charsmap_read(Tokenizer *tokenizer, const uint8_t *bytes, size_t length, Charsmap *charsmap, Error *error);
void sentence_plain(Sentence *sentence);  // sets it: behind charsmap and symbols
SentenceUnit sentence_unit(const Sentence *sentence, const uint8_t *text, size_t length, bool more);
uint32_t sentence_code(const Sentence *sentence, const uint8_t *character, size_t size);
void sentence_joins(Tokenizer *tokenizer);
bool sentence_joined(const Sentence *sentence, uint32_t first, uint32_t second);

// sentence_bpe.c, sentence_unigram.c: tokens of state->segment behind state->found, of unknown characters the unknown
// one for each, or their bytes. False: no memory. `reserved`: pieces that are no text, by what they are called.
bool sentence_bpe_tables(Tokenizer *tokenizer, const Map *reserved);
bool sentence_bpe(const Tokenizer *tokenizer, SentenceState *state);
bool sentence_unigram_tables(Tokenizer *tokenizer);
// Adds to state->score. *margin: by how much the best way was better wherever there were several.
bool sentence_unigram(const Tokenizer *tokenizer, SentenceState *state, float *margin);

// sentence.c
void sentence_state_free(SentenceState *state);
void sentence_state_end(SentenceState *state, bool goes_on);  // of the text, unless it goes on
bool sentence_add(const Tokenizer *tokenizer, SentenceState *state, Slot *slots, const uint8_t *text, size_t length,
                  bool more, bool goes_on, size_t *used, TokenList *tokens, Error *error);

#endif
