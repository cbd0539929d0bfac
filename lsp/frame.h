// frame.h: messages of JSON-RPC, each behind a header with its length, out of a stream of bytes and into one.
#ifndef MDL_LSP_FRAME_H
#define MDL_LSP_FRAME_H

#include <jansson.h>
#include <stdbool.h>

#include "base/buffer.h"

enum { FRAME_MOST = 64 << 20, FRAME_HEADER_MOST = 8 << 10 };

typedef struct {
  Buffer bytes;      // that have come
  size_t at;         // how many of them were read
  size_t body;       // of the message before: read with the next call
  long long passed;  // bytes of a refused message that are still to come
} FrameReader;

typedef enum { FRAME_WAIT, FRAME_MESSAGE, FRAME_BAD } FrameResult;

void frame_add(FrameReader *reader, const char *bytes, size_t count);

// The next message in what has come: valid until the next call. WAIT: it is not whole. BAD: `why` says what is wrong;
// reading goes on behind it.
FrameResult frame_next(FrameReader *reader, const char **body, size_t *length, const char **why);
void frame_free(FrameReader *reader);

// A message that lacks a part would be another one, and a text that lacks a change too: a server without memory ends
// before it says either, with status 3, and editors start it again.
void frame_exhausted(void);

// Takes the message. False: it could not be written.
bool frame_write(int file, json_t *message);

#endif
