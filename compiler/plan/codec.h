// codec.h: numbers, texts and arrays of a binary file, little-endian, by one description that writes and reads.
//
// Each function writes *value when the codec has `out`, and else reads it. Reading past the end, or a value that does
// not fit, sets `bad` and gives zeros, so that callers look at `bad` only where they would loop. Writing leaves the
// values alone, so that several threads may write one plan.
#ifndef MDL_COMPILER_PLAN_CODEC_H
#define MDL_COMPILER_PLAN_CODEC_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/buffer.h"

typedef struct {
  Arena *arena;       // reading: where texts and arrays go
  Buffer *out;        // writing; NULL: reading
  const uint8_t *in;  // reading: what is left
  size_t left;
  bool bad;  // the bytes do not fit the format
} Codec;

void code_u64(Codec *codec, uint64_t *value);
void code_u32(Codec *codec, uint32_t *value);
void code_i64(Codec *codec, int64_t *value);
void code_int(Codec *codec, int *value);  // 4 bytes
void code_i16(Codec *codec, int16_t *value);
void code_double(Codec *codec, double *value);
void code_bool(Codec *codec, bool *value);
void code_string(Codec *codec, const char **text);                  // may be NULL
void code_name(Codec *codec, const char **text);                    // must be there
void code_data(Codec *codec, const uint8_t **data, size_t *bytes);  // as it is; read ones are aligned to 16 bytes
void code_sizes(Codec *codec, int64_t *sizes, int count);
void code_count(Codec *codec, int *count, int most);  // of an array of fixed length
int code_choice(Codec *codec, int value, int count);  // of an enum of `count` members

// The count of an array whose elements take at least `least` bytes each, so that a false count asks for no memory.
void *code_array(Codec *codec, void *array, int *count, size_t size, size_t least);

#define CODE_SET(codec, variable, value)       \
  do {                                         \
    __typeof__(variable) code_value = (value); \
    if (!(codec)->out) {                       \
      (variable) = code_value;                 \
    }                                          \
  } while (0)

#define CODE_ENUM(codec, value, Type, count) \
  CODE_SET(codec, value, (Type)code_choice((codec), (int)(value), (int)(count)))

#define CODE_ARRAY(codec, array, count, least) \
  CODE_SET(codec, array, code_array((codec), (array), &(count), sizeof *(array), (least)))

#endif
