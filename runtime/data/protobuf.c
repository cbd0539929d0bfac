// protobuf.c: a field is a key of variable length, which says its number and its kind, and what that kind takes.
#include "runtime/data/protobuf.h"

#include <stdbool.h>
#include <string.h>

// Seven bits a byte, the lowest first; the last byte is below 128.
static bool variable(Protobuf *message, uint64_t *number) {
  *number = 0;
  for (unsigned shift = 0; shift < 64 && message->at < message->end; shift += 7) {
    const uint8_t byte = *message->at++;
    *number |= (uint64_t)(byte & 127) << shift;
    if (byte < 128) {
      return true;
    }
  }
  return false;
}

static bool fixed(Protobuf *message, size_t size, uint64_t *number) {
  if ((size_t)(message->end - message->at) < size) {
    return false;
  }
  *number = 0;
  for (size_t i = 0; i < size; i++) {
    *number |= (uint64_t)message->at[i] << (8 * i);
  }
  message->at += size;
  return true;
}

static bool value(Protobuf *message, ProtobufField *field) {
  uint64_t size;
  switch (field->wire) {
    case PROTOBUF_NUMBER:
      return variable(message, &field->number);
    case PROTOBUF_EIGHT:
      return fixed(message, 8, &field->number);
    case PROTOBUF_FOUR:
      return fixed(message, 4, &field->number);
    case PROTOBUF_BYTES:
      if (!variable(message, &size) || size > (uint64_t)(message->end - message->at)) {
        return false;
      }
      field->bytes = message->at;
      field->length = (size_t)size;
      message->at += field->length;
      return true;
    default:  // groups, which nobody writes any more, and what is none
      return false;
  }
}

ProtobufNext protobuf_next(Protobuf *message, ProtobufField *field) {
  Protobuf rest = *message;
  uint64_t key;
  *field = (ProtobufField){0};
  if (message->at == message->end) {
    return PROTOBUF_END;
  }
  if (!variable(&rest, &key) || key >> 3 == 0 || key >> 3 > UINT32_MAX) {
    return PROTOBUF_DAMAGED;
  }
  field->field = (uint32_t)(key >> 3);
  field->wire = (ProtobufWire)(key & 7);
  if (!value(&rest, field)) {
    return PROTOBUF_DAMAGED;
  }
  *message = rest;
  return PROTOBUF_FIELD;
}

float protobuf_float(const ProtobufField *field) {
  const uint32_t bits = (uint32_t)field->number;
  float number;
  memcpy(&number, &bits, sizeof number);
  return number;
}
