// buffer.c: growth by doubling.
#include "base/buffer.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool buffer_reserve(Buffer *buffer, size_t extra) {
  if (buffer->failed) {
    return false;
  }
  if (buffer->capacity - buffer->length > extra) {
    return true;
  }
  size_t capacity = buffer->capacity ? buffer->capacity : 256;
  if (extra >= SIZE_MAX / 2 - buffer->length) {
    buffer->failed = true;
    return false;
  }
  while (capacity - buffer->length <= extra) {
    capacity *= 2;
  }
  char *text = realloc(buffer->text, capacity);
  if (!text) {
    buffer->failed = true;
    return false;
  }
  buffer->text = text;
  buffer->capacity = capacity;
  return true;
}

void buffer_bytes(Buffer *buffer, const void *bytes, size_t length) {
  if (buffer_reserve(buffer, length)) {
    if (length) {
      memcpy(buffer->text + buffer->length, bytes, length);
    }
    buffer->length += length;
    buffer->text[buffer->length] = '\0';
  }
}

void buffer_text(Buffer *buffer, const char *text) {
  buffer_bytes(buffer, text, strlen(text));
}

void buffer_format(Buffer *buffer, const char *format, ...) {
  va_list args, again;
  va_start(args, format);
  va_copy(again, args);
  int length = vsnprintf(NULL, 0, format, args);
  if (length >= 0 && buffer_reserve(buffer, (size_t)length)) {
    vsnprintf(buffer->text + buffer->length, (size_t)length + 1, format, again);
    buffer->length += (size_t)length;
  }
  va_end(again);
  va_end(args);
}

void buffer_repeat(Buffer *buffer, char c, int count) {
  for (int i = 0; i < count; i++) {
    buffer_bytes(buffer, &c, 1);
  }
}

void buffer_xml(Buffer *buffer, const char *text) {
  for (; text && *text; text++) {
    const char *entity = *text == '&' ? "&amp;" : *text == '<' ? "&lt;" : *text == '>' ? "&gt;" : NULL;
    buffer_bytes(buffer, entity ? entity : text, entity ? strlen(entity) : 1);
  }
}

void buffer_shell(Buffer *buffer, const char *word) {
  static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-+,:@%=";
  if (*word == '-') {  // it would be an option
    buffer_text(buffer, "./");
  }
  if (*word && word[strspn(word, plain)] == '\0') {
    buffer_text(buffer, word);
    return;
  }
  buffer_text(buffer, "'");
  for (; *word; word++) {
    if (*word == '\'') {
      buffer_text(buffer, "'\\''");
    } else {
      buffer_bytes(buffer, word, 1);
    }
  }
  buffer_text(buffer, "'");
}

// Moves what was built into `to`; `plain` where it has no room there.
static const char *moved(Buffer *quoted, char *to, size_t size, const char *plain) {
  const bool fits = !quoted->failed && quoted->text && quoted->length < size;
  if (fits) {
    memcpy(to, quoted->text, quoted->length + 1);
  }
  buffer_free(quoted);
  return fits ? to : plain;
}

const char *buffer_word(char *to, size_t size, const char *word) {
  Buffer quoted = {0};
  buffer_shell(&quoted, word);
  return moved(&quoted, to, size, word);
}

const char *buffer_string(char *to, size_t size, const char *text) {
  Buffer quoted = {0};
  buffer_text(&quoted, "\"");
  for (const char *at = text; *at; at++) {
    if (*at == '\n' || *at == '\t') {
      buffer_text(&quoted, *at == '\n' ? "\\n" : "\\t");
    } else {
      buffer_format(&quoted, "%s%c", *at == '"' || *at == '\\' ? "\\" : "", *at);
    }
  }
  buffer_text(&quoted, "\"");
  return moved(&quoted, to, size, text);
}

void buffer_free(Buffer *buffer) {
  free(buffer->text);
  *buffer = (Buffer){0};
}
