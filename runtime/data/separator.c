// separator.c: looks whether the separator that a recipe names occurs in its data: else all of that is one document.
#include "runtime/data/separator.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/data/data_internal.h"

enum { PIECE = 1 << 14, MOST = 1 << 24 };  // tokens: that are read at once; of a source that are looked at

static const Data *file_of(const Data *data, int index) {
  return data->part_count > 0 ? data->parts[index] : data;
}

// Does it stand among the first `most` tokens? `room` has a piece, and ahead of it the end of the one before.
static bool occurs(const Data *part, int64_t most, int32_t *room, bool *found, Error *error) {
  const TokenList *separator = &part->documents.separator;
  const int64_t length = separator->count;
  int64_t kept = 0;
  for (int64_t at = 0; at < most && !*found;) {
    const int64_t count = most - at < PIECE ? most - at : PIECE;
    if (!data_tokens(part, at, count, room + kept, error)) {
      return false;
    }
    const int64_t all = kept + count;
    for (int64_t i = 0; i + length <= all && !*found; i++) {
      *found = room[i] == separator->at[0] && memcmp(room + i, separator->at, sizeof *room * (size_t)length) == 0;
    }
    kept = all < length ? all : length - 1;
    memmove(room, room + all - kept, sizeof *room * (size_t)kept);
    at += count;
  }
  return true;
}

// Of text its string; of a file of tokens the number of the one that it is.
static void said(const Data *part, Buffer *text) {
  const TokenList *separator = &part->documents.separator;
  char bytes[SOURCE_OPTIONS_MOST + 1] = "", quoted[2 * sizeof bytes];
  if (!part->text && separator->count == 1) {
    buffer_format(text, "the separator, token %d,", separator->at[0]);
    return;
  }
  int32_t length = 0;
  if (part->tokenizer) {
    const uint8_t *of = tokenizer_bytes(part->tokenizer, separator->at[0], &length);
    length = of && length < SOURCE_OPTIONS_MOST ? length : 0;
    if (length > 0) {
      memcpy(bytes, of, (size_t)length);
    }
  }
  for (int64_t i = 0; !part->tokenizer && i < separator->count && length < SOURCE_OPTIONS_MOST; i++) {
    bytes[length++] = (char)separator->at[i];
  }
  bytes[length] = '\0';
  buffer_format(text, "the separator %s", *bytes ? buffer_string(quoted, sizeof quoted, bytes) : "");
}

// Of a source, from its file number `first` on; *count: how many files it has.
static bool source_doubt(const Data *data, int first, int *count, Buffer *lines, Error *error) {
  const Data *part = file_of(data, first);
  const int files = data->part_count > 0 ? data->part_count : 1;
  const int64_t length = part->documents.separator.count;
  int64_t left = MOST, all = 0;
  int32_t *room = length > 0 ? malloc(sizeof *room * (size_t)(PIECE + length)) : NULL;
  bool found = false, done = length == 0 || room || error_set(error, 3, "no memory to look at %s", part->path);
  *count = 0;
  for (int p = first; p < files && (p == first || data->parts[p]->follows); p++, ++*count) {
    const Data *file = file_of(data, p);
    const int64_t most = file->tokens < left ? file->tokens : left;
    done = done && (length == 0 || found || occurs(file, most, room, &found, error));
    left -= most;
    all += file->tokens;
  }
  free(room);
  if (done && length > 0 && !found) {
    said(part, lines);
    buffer_format(lines, " occurs nowhere in ");
    if (all > MOST) {
      buffer_format(lines, "the first %d tokens of ", MOST);
    }
    buffer_text(lines, part->path);
    if (*count > 1) {
      buffer_format(lines, " and %d more of its pattern", *count - 1);
    }
    buffer_text(lines, all > MOST   ? ", so that no document ends there\n"
                       : *count > 1 ? ", so that each of them is one document\n"
                                    : ", so that all of it is one document\n");
  }
  return done;
}

bool separator_doubt(const Data *data, Buffer *lines, Error *error) {
  const int files = data->part_count > 0 ? data->part_count : 1;
  for (int p = 0, count; p < files; p += count) {
    if (!source_doubt(data, p, &count, lines, error)) {
      return false;
    }
  }
  return true;
}
