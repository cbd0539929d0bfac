// frame.c: messages of JSON-RPC, each behind a header with its length, out of a stream of bytes and into one.
#include "lsp/frame.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/json_guard.h"
#include "base/options.h"

void frame_exhausted(void) {
  fputs("mdlc lsp: out of memory\n", stderr);
  _exit(STATUS_MEMORY);
}

void frame_add(FrameReader *reader, const char *bytes, size_t count) {
  const size_t passed = reader->passed < (long long)count ? (size_t)reader->passed : count;
  reader->passed -= (long long)passed;
  if (count > passed) {
    buffer_bytes(&reader->bytes, bytes + passed, count - passed);
  }
}

static void forget(FrameReader *reader, size_t count) {
  reader->at += count;
  if (reader->at == reader->bytes.length) {
    reader->bytes.length = reader->at = 0;
  } else if (reader->at > (1 << 16) && reader->at > reader->bytes.length / 2) {
    reader->bytes.length -= reader->at;
    memmove(reader->bytes.text, reader->bytes.text + reader->at, reader->bytes.length);
    reader->at = 0;
  }
}

// The number behind `Content-Length:` in a header; -1: there is none, -2: it is no number.
static long long content_length(const char *header, size_t length) {
  static const char name[] = "Content-Length:";
  for (size_t i = 0; i + sizeof name - 1 <= length; i++) {
    if (strncasecmp(header + i, name, sizeof name - 1) != 0) {
      continue;
    }
    const char *at = header + i + sizeof name - 1;
    while (*at == ' ' || *at == '\t') {
      at++;
    }
    char *end;
    errno = 0;
    const long long number = isdigit((unsigned char)*at) ? strtoll(at, &end, 10) : -2;
    return number < 0 || errno != 0 || (*end != '\r' && *end != '\n' && *end != ' ') ? -2 : number;
  }
  return -1;
}

// Behind the blank line that ends a header; 0: it has not come.
static size_t header_end(const char *text, size_t length) {
  for (size_t i = 0; i + 1 < length; i++) {
    if (text[i] == '\n' && text[i + 1] == '\n') {
      return i + 2;
    }
    if (text[i] == '\n' && i + 2 < length && text[i + 1] == '\r' && text[i + 2] == '\n') {
      return i + 3;
    }
  }
  return 0;
}

// Passes over a message that is not wanted, as far as it has come.
static void pass_over(FrameReader *reader, long long length) {
  const size_t here = reader->bytes.length - reader->at;
  const size_t now = length < (long long)here ? (size_t)length : here;
  reader->passed = length - (long long)now;
  forget(reader, now);
}

FrameResult frame_next(FrameReader *reader, const char **body, size_t *length, const char **why) {
  forget(reader, reader->body);
  reader->body = 0;
  const char *text = reader->bytes.text + reader->at;
  const size_t here = reader->bytes.length - reader->at, header = here > 0 ? header_end(text, here) : 0;
  if (header == 0 || header > FRAME_HEADER_MOST) {
    if (here <= FRAME_HEADER_MOST) {
      return FRAME_WAIT;
    }
    forget(reader, header > 0 ? header : here);
    *why = "a header has more than 8 KiB";
    return FRAME_BAD;
  }
  const long long content = content_length(text, header);
  if (content < 0) {
    forget(reader, header);
    *why = content == -1 ? "a header has no Content-Length" : "the Content-Length of a header is no length";
    return FRAME_BAD;
  }
  if (content > FRAME_MOST) {
    forget(reader, header);
    pass_over(reader, content);
    *why = "a message has more than 64 MiB";
    return FRAME_BAD;
  }
  if (here - header < (size_t)content) {
    return FRAME_WAIT;
  }
  *body = text + header;
  *length = (size_t)content;
  reader->body = header + (size_t)content;
  return FRAME_MESSAGE;
}

void frame_free(FrameReader *reader) {
  buffer_free(&reader->bytes);
}

static bool write_all(int file, const char *bytes, size_t length) {
  while (length > 0) {
    const ssize_t written = write(file, bytes, length);
    if (written < 0 && errno == EINTR) {
      continue;
    }
    if (written <= 0) {
      return false;
    }
    bytes += written;
    length -= (size_t)written;
  }
  return true;
}

bool frame_write(int file, json_t *message) {
  if (!message) {
    return false;  // a text in it was no UTF-8
  }
  char *text = json_dumped(message, JSON_COMPACT);
  json_decref(message);
  if (!text) {
    frame_exhausted();
  }
  Buffer frame = {0};
  buffer_format(&frame, "Content-Length: %zu\r\n\r\n%s", strlen(text), text);
  json_guard_free(text);
  if (frame.failed) {
    frame_exhausted();
  }
  const bool good = write_all(file, frame.text, frame.length);
  buffer_free(&frame);
  return good;
}
