// codec.c: see codec.h.
#include "compiler/plan/codec.h"

#include <string.h>

#define NO_STRING UINT32_MAX

static void code_bytes(Codec *codec, void *value, size_t size) {
  if (codec->out) {
    buffer_bytes(codec->out, value, size);
  } else if (codec->bad || codec->left < size) {
    codec->bad = true;
    memset(value, 0, size);
  } else {
    memcpy(value, codec->in, size);
    codec->in += size;
    codec->left -= size;
  }
}

static uint64_t code_word(Codec *codec, uint64_t value, int size) {
  uint8_t bytes[8] = {0};
  for (int i = 0; codec->out && i < size; i++) {
    bytes[i] = (uint8_t)(value >> (8 * i));
  }
  code_bytes(codec, bytes, (size_t)size);
  value = 0;
  for (int i = size - 1; i >= 0; i--) {
    value = value << 8 | bytes[i];
  }
  return value;
}

void code_u64(Codec *codec, uint64_t *value) {
  CODE_SET(codec, *value, code_word(codec, *value, 8));
}

void code_u32(Codec *codec, uint32_t *value) {
  CODE_SET(codec, *value, (uint32_t)code_word(codec, *value, 4));
}

void code_i64(Codec *codec, int64_t *value) {
  CODE_SET(codec, *value, (int64_t)code_word(codec, (uint64_t)*value, 8));
}

void code_int(Codec *codec, int *value) {
  CODE_SET(codec, *value, (int)(uint32_t)code_word(codec, (uint32_t)*value, 4));
}

void code_i16(Codec *codec, int16_t *value) {
  CODE_SET(codec, *value, (int16_t)(uint16_t)code_word(codec, (uint16_t)*value, 2));
}

void code_double(Codec *codec, double *value) {
  uint64_t word;
  memcpy(&word, value, sizeof word);
  code_u64(codec, &word);
  if (!codec->out) {
    memcpy(value, &word, sizeof word);
  }
}

void code_bool(Codec *codec, bool *value) {
  uint64_t byte = code_word(codec, *value, 1);
  codec->bad |= byte > 1;
  CODE_SET(codec, *value, byte == 1);
}

int code_choice(Codec *codec, int value, int count) {
  int choice = (int)(uint32_t)code_word(codec, (uint32_t)value, 4);
  if (choice < 0 || choice >= count) {
    codec->bad = true;
    choice = 0;
  }
  return choice;
}

void code_string(Codec *codec, const char **text) {
  uint32_t length = codec->out ? (*text ? (uint32_t)strlen(*text) : NO_STRING) : 0;
  code_u32(codec, &length);
  if (codec->out) {
    buffer_bytes(codec->out, *text ? *text : "", *text ? length : 0);
    return;
  }
  *text = NULL;
  if (length == NO_STRING || codec->bad) {
    return;
  }
  if (length > codec->left || memchr(codec->in, '\0', length)) {
    codec->bad = true;
    return;
  }
  char *copy = arena_alloc(codec->arena, (size_t)length + 1);
  memcpy(copy, codec->in, length);
  codec->in += length;
  codec->left -= length;
  *text = copy;
}

void code_name(Codec *codec, const char **text) {
  code_string(codec, text);
  if (!*text) {
    codec->bad = true;
    *text = "";
  }
}

void code_data(Codec *codec, const uint8_t **data, size_t *bytes) {
  uint64_t length = *bytes;
  code_u64(codec, &length);
  if (codec->out) {
    buffer_bytes(codec->out, *data, *bytes);
    return;
  }
  *bytes = 0;
  *data = NULL;
  if (codec->bad || length > codec->left) {
    codec->bad = true;
    return;
  }
  *data = arena_copy(codec->arena, codec->in, (size_t)length);
  *bytes = (size_t)length;
  codec->in += length;
  codec->left -= (size_t)length;
}

void *code_array(Codec *codec, void *array, int *count, size_t size, size_t least) {
  code_int(codec, count);
  if (codec->out) {
    return array;
  }
  if (codec->bad || *count < 0 || (uint64_t)*count * least > codec->left) {
    codec->bad = true;
    *count = 0;
  }
  return arena_alloc(codec->arena, size * (size_t)(*count ? *count : 1));
}

void code_sizes(Codec *codec, int64_t *sizes, int count) {
  for (int i = 0; i < count; i++) {
    code_i64(codec, &sizes[i]);
  }
}

void code_count(Codec *codec, int *count, int most) {
  code_int(codec, count);
  if (*count < 0 || *count > most) {
    codec->bad = true;
    *count = 0;
  }
}
