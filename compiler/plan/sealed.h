// sealed.h: bytes with a head that says what they are, how many they are, and their hash.
//
// Little-endian: 8 bytes of magic; u32 version; u32 0; u64 bytes of payload; u64 XXH3-64 of the payload; payload.
#ifndef MDL_COMPILER_PLAN_SEALED_H
#define MDL_COMPILER_PLAN_SEALED_H

#include "compiler/plan/codec.h"

enum { SEAL_BYTES = 32 };

typedef struct {
  char magic[8];
  uint32_t version;
  const char *noun;   // "plan": for messages
  const char *begin;  // "a .mdlx file": what begins with the magic
  const char *fix;    // "compile it again": what to do about another version
} Seal;

// Around writing the payload to a buffer that is empty before.
void seal_begin(Buffer *out);
bool seal_end(const Seal *seal, Buffer *out);  // false: no memory

// The payload of these bytes, to be read with the codec, checked by its length and hash. On failure returns false and
// sets *why to one sentence in the arena, in which `what` is their name.
bool seal_open(const Seal *seal, Arena *arena, const char *what, const void *bytes, size_t length, Codec *codec,
               const char **why);
// The same of the head alone, SEAL_BYTES of it, for those who have yet to read `payload` bytes more.
bool seal_open_head(const Seal *seal, Arena *arena, const char *what, const void *head, uint64_t *payload,
                    const char **why);

#endif
