// protobuf.h: the fields of a message of Protocol Buffers, one after the other, in memory that may hold anything.
#ifndef MDL_RUNTIME_DATA_PROTOBUF_H
#define MDL_RUNTIME_DATA_PROTOBUF_H

#include <stddef.h>
#include <stdint.h>

typedef struct {  // what is left of a message
  const uint8_t *at, *end;
} Protobuf;

// What a field holds: a number of variable length, 8 or 4 bytes, or bytes, text or a message.
typedef enum { PROTOBUF_NUMBER = 0, PROTOBUF_EIGHT = 1, PROTOBUF_BYTES = 2, PROTOBUF_FOUR = 5 } ProtobufWire;

typedef struct {
  uint32_t field;  // from 1
  ProtobufWire wire;
  uint64_t number;       // unless it is PROTOBUF_BYTES
  const uint8_t *bytes;  // of those: where they lie in the message, and how many they are
  size_t length;
} ProtobufField;

typedef enum { PROTOBUF_END, PROTOBUF_FIELD, PROTOBUF_DAMAGED } ProtobufNext;

// PROTOBUF_DAMAGED: what stands at message->at is no field, or ends behind the message.
ProtobufNext protobuf_next(Protobuf *message, ProtobufField *field);
float protobuf_float(const ProtobufField *field);  // of a field of four bytes

#endif
