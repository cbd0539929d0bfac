// token_file.h: files of tokens: raw ones, those of llm.c, and those of Megatron with an index beside them.
//
// A TokenFile says where in an open file the tokens lie and how wide they are; it owns nothing. What is read stays on
// disk: files may be larger than memory.
#ifndef MDL_RUNTIME_DATA_TOKEN_FILE_H
#define MDL_RUNTIME_DATA_TOKEN_FILE_H

#include "runtime/device.h"

typedef enum { TOKEN_BYTE, TOKEN_U16, TOKEN_U32 } TokenType;

typedef struct {
  const char *format;  // in words: "raw", "llm.c", "Megatron"
  TokenType type;
  int64_t begin, count;  // the byte of the first token; tokens
  uint64_t tokenizer;    // fingerprint_tokenizer of what made them; 0: not known
} TokenFile;

// The header of llm.c: 256 numbers of 32 bits, of which the first three say what it is, a version and how many tokens.
// The rest is of no meaning there; here the next two are the fingerprint of the tokenizer, or 0.
enum {
  LLMC_U16 = 20240520,
  LLMC_U16_VERSION = 1,
  LLMC_U32 = 20240801,
  LLMC_U32_VERSION = 7,
  LLMC_HEADER = 1024,
  LLMC_WORDS = 5
};

#define TOKEN_INDEX_MAGIC "MMIDIDX\0"  // and the NUL at its end: what an index of Megatron begins with
#define MASK_ENDING ".mask"  // of what says, beside a file of tokens, which of them are of answers: a byte for each

// A path NAME.idx stands for NAME.bin, whose index it is: the path of the tokens is then in `tokens`, of `most` bytes,
// else the same path.
bool token_file_path(const char *path, char *tokens, size_t most, Error *error);

// What an open file of tokens holds. `type`: u16 or u32, as the recipe says; NULL: what its header or index says.
// Truncated and foreign files are errors that name the byte. `tokenizer`: of whose tokens they are to be, for messages,
// as --tokenizer names it; NULL: nobody knows.
bool token_file_read(int fd, const char *path, int64_t bytes, const char *type, const char *tokenizer, TokenFile *file,
                     Error *error);

// Does a file say that it is one of tokens: by a header of llm.c, as an index of Megatron, or as what has one beside
// it? It may be damaged all the same. *nul becomes true if a NUL is among its first bytes: it is no text then.
bool token_file_told(const char *path, bool *told, bool *nul, Error *error);

int64_t token_bytes(TokenType type);
// Tokens as they lie in a file. One that is above INT32_MAX becomes negative.
void token_widen(TokenType type, const void *from, int64_t count, int32_t *tokens);

#endif
