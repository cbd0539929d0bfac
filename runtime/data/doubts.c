// doubts.c: looks at the bytes of texts, and whether two sources are one file.
#include "runtime/data/doubts.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/units.h"
#include "base/utf8.h"
#include "runtime/data/data_internal.h"
#include "runtime/data/fingerprint.h"
#include "runtime/data/overlap.h"
#include "runtime/data/separator.h"
#include "runtime/io.h"

enum { LOOK = 1 << 16, MOST_ODD = 50 };  // of so many bytes one may be no text

// How many bytes are NUL, or in no character of UTF-8. One at the end may be cut.
static size_t odd_bytes(const uint8_t *text, size_t length) {
  size_t odd = 0;
  for (size_t at = 0; at < length;) {
    const int size = utf8_character(text + at, length - at);
    if (size < 0) {
      break;
    }
    odd += size == 0 || text[at] == 0;
    at += size > 0 ? (size_t)size : 1;
  }
  return odd;
}

// Does it begin with an object of JSON in a line? One that is longer than what is looked at counts.
static bool begins_with_object(const char *text, size_t length) {
  size_t at = 0;
  while (at < length && strchr(" \t\r\n", text[at]) && text[at]) {
    at++;
  }
  const char *line = text + at, *end = memchr(line, '\n', length - at);
  size_t size = end ? (size_t)(end - line) : length - at, name = 1;
  while (size > 0 && (line[size - 1] == '\r' || line[size - 1] == ' ')) {
    size--;
  }
  while (name < size && line[name] == ' ') {
    name++;
  }
  return size > name && line[0] == '{' && line[name] == '"' && (line[size - 1] == '}' || (!end && length >= LOOK));
}

void doubts_text(const char *path, const char *text, size_t all, Buffer *lines) {
  const size_t length = all < LOOK ? all : LOOK, odd = odd_bytes((const uint8_t *)text, length);
  char size[32];
  if (length >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) {
    buffer_format(
        lines, "%s begins with a byte order mark, U+FEFF, which is read as text: `tail -c +4` leaves it out\n", path);
  }
  if (begins_with_object(text, length)) {
    buffer_format(
        lines,
        "%s begins as JSON lines do, and is read as text, with its braces and names: `mdl data encode --field "
        "NAME` takes a field of each line\n",
        path);
  }
  if (odd * MOST_ODD > length) {
    buffer_format(lines,
                  "%s is hardly text in UTF-8: of its first %s %.0f%% are NUL or in no character; files of tokens are "
                  "read by `data tokens(...)`, other encodings turned into UTF-8 by `iconv`\n",
                  path, units_bytes(size, (double)length), 100 * (double)odd / (double)length);
  }
}

static bool text_doubt(const Data *data, Buffer *lines, Error *error) {
  if (!data->text) {
    return true;
  }
  const size_t length = data->bytes < LOOK ? (size_t)data->bytes : LOOK;
  char *text = malloc(length + 1);
  const bool done = (text || error_set(error, 3, "no memory to look at %s", data->path)) &&
                    io_read(data->fd, data->path, 0, text, length, error);
  if (done) {
    doubts_text(data->path, text, length, lines);
  }
  free(text);
  return done;
}

// Does the source say which text its tokens are? Text without a tokenizer is bytes.
static bool names_tokenizer(const Data *data) {
  return data->tokenizer || data->byte_tokens || data->text || data->chat;
}

// Who says it for a source that does not: another one of the mix, since all of them have one tokenizer. NULL: nobody.
static const Data *namer_of(const Data *data, const Data *part) {
  for (int p = 0; p < data->part_count && !names_tokenizer(part); p++) {
    part = names_tokenizer(data->parts[p]) ? data->parts[p] : part;
  }
  return names_tokenizer(part) ? part : NULL;
}

// Tokens that another tokenizer has made mean other text.
static bool tokens_doubt(const Data *data, const Data *part, Buffer *lines, Error *error) {
  const Data *namer = namer_of(data, part);
  const char *path = namer && namer->tokenizer ? tokenizer_path(namer->tokenizer) : NULL;
  uint64_t print;
  if (part->text || part->chat || part->file.tokenizer == 0) {
    return true;
  }
  if (namer && !fingerprint_tokenizer(path, &print, error)) {
    return false;
  }
  if (namer && print != part->file.tokenizer) {
    buffer_format(lines,
                  "the tokens of %s were made by another tokenizer than %s, or by another state of that file: if they "
                  "mean other text, make them anew with `mdl data encode`\n",
                  part->path, path ? path : TOKENIZER_BYTES);
  }
  for (int p = 0; !namer && p < data->part_count && data->parts[p] != part; p++) {
    const uint64_t other = data->parts[p]->file.tokenizer;
    if (other != 0 && other != part->file.tokenizer) {
      buffer_format(lines,
                    "the tokens of %s and of %s were made by two tokenizers, or by two states of one: if they mean "
                    "other text, make them anew with `mdl data encode`\n",
                    data->parts[p]->path, part->path);
      break;
    }
  }
  return true;
}

static int files_of(const Data *data) {
  return data->part_count > 0 ? data->part_count : 1;
}

static const Data *file_of(const Data *data, int index) {
  return data->part_count > 0 ? data->parts[index] : data;
}

bool doubts_sets(const Data *data, bool are[DATA_SETS_MOST], Buffer *lines, Error *error) {
  Overlap trained = {0};
  bool done = true;
  for (int p = 0; done && data->set_count > 0 && p < files_of(data); p++) {
    done = overlap_add(&trained, file_of(data, p)->path, error);
  }
  for (int s = 0; done && s < data->set_count; s++) {
    const char *first;
    int count;
    done = overlap_count(&trained, data->sets[s].data, &count, &first, error);
    are[s] = done && count > 0;
    if (are[s]) {
      overlap_said(data->sets[s].data, "the validation source ", count, first, lines);
      buffer_format(lines, " %s trained on too: its loss is none of text that was held out\n",
                    count > 1 && count < files_of(data->sets[s].data) ? "are" : "is");
    }
  }
  overlap_free(&trained);
  return done;
}

// Data that names no tokenizer, and a validation source whose tokens may mean other text than those of the data.
static bool set_tokens_doubt(const Data *data, const Data *part, const Data *set, Buffer *lines, Error *error) {
  const char *path = set->tokenizer ? tokenizer_path(set->tokenizer) : NULL;
  uint64_t print;
  if (namer_of(data, part) || !names_tokenizer(set)) {
    return true;
  }
  if (!fingerprint_tokenizer(path, &print, error)) {
    return false;
  }
  if (part->file.tokenizer != 0 && print != part->file.tokenizer) {
    buffer_format(lines,
                  "the tokens of %s and of the validation source %s are of two tokenizers, or of two states of one: if "
                  "they mean other text, its loss says nothing; name one tokenizer in both\n",
                  part->path, set->path);
  } else if (part->file.tokenizer == 0) {
    buffer_format(lines,
                  "nothing says of which tokenizer the tokens of %s are, and the validation source %s is read in those "
                  "of %s: if they are others, its loss says nothing; name the tokenizer in both\n",
                  part->path, set->path, path ? path : TOKENIZER_BYTES);
  }
  return true;
}

void doubts_chat(const char *path, const ChatOdd *odd, Buffer *lines) {
  const int64_t messages = odd->messages;
  if (odd->both > 0) {
    buffer_format(
        lines,
        "%s has %lld line%s with \"messages\" and also a \"prompt\" or a \"completion\": the messages alone are "
        "read\n",
        path, (long long)odd->both, odd->both > 1 ? "s" : "");
  }
  if (messages > 0) {
    buffer_format(lines,
                  "%s has %lld message%s of the role '%s', which are no answers: nothing is learned of how to write "
                  "them; answers have the role assistant\n",
                  path, (long long)messages, messages > 1 ? "s" : "", odd->role);
  }
}

// Which tokens are of answers, in a file that `mdl data encode --chat` wrote and the recipe does not name.
// True: it says so.
static bool mask_doubt(const Data *part, Buffer *lines) {
  Buffer mask = {0};
  struct stat info;
  if (part->text || part->chat || part->mask_fd >= 0) {
    return false;
  }
  buffer_format(&mask, "%s" MASK_ENDING, part->path);
  const bool there = !mask.failed && stat(mask.text, &info) == 0 && info.st_size == part->file.count;
  if (there) {
    buffer_format(
        lines,
        "%s says which tokens of %s are of answers, but the recipe does not name it: all of them count; a model "
        "with an input `mask` or `share` reads it by `mask = \"...\"` behind the name of one file, not of a "
        "pattern\n",
        mask.text, part->path);
  }
  buffer_free(&mask);
  return there;
}

// Files in the place of one that has a mask: those that have one beside them, and those that have none.
static void own_masks_said(const Data *data, int first, Buffer *lines) {
  const Data *with = NULL, *without = NULL;
  int masks = 0, count = 0;
  for (int p = first; p < files_of(data) && (p == first || file_of(data, p)->follows); p++, count++) {
    const Data *part = file_of(data, p);
    const bool has = part->mask_fd >= 0;
    masks += has;
    with = has && !with ? part : with;
    without = !has && !without ? part : without;
  }
  if (with) {
    buffer_format(lines, "%s says which tokens of %s are of answers, in the place of the mask that the recipe names",
                  with->mask_path, with->path);
    buffer_format(lines, masks > 1 ? ", and so do the masks of %d more files\n" : "\n", masks - 1);
  }
  if (without) {
    buffer_format(lines, "the mask that the recipe names is not of %s, and no " MASK_ENDING " lies beside it",
                  without->path);
    buffer_format(
        lines,
        count - masks > 1 ? ", nor beside %d more files: all of their tokens count\n" : ": all of its tokens count\n",
        count - masks - 1);
  }
}

// Once for each source.
static void masks_doubt(const Data *data, Buffer *lines) {
  bool said = false;
  for (int p = 0; p < files_of(data); p++) {
    const Data *part = file_of(data, p);
    if (part->own_mask && !part->follows) {
      own_masks_said(data, p, lines);
    }
    said = (said && part->follows) || (!part->own_mask && mask_doubt(part, lines));
  }
}

// Of one source, or a file of a pattern: of the files behind the first only what is other than there.
static bool part_doubts(const Data *data, const Data *whole, int number, Buffer *lines, Error *error) {
  const Data *part = file_of(whole, number);
  const bool alike = part->follows && part->file.tokenizer == file_of(whole, number - 1)->file.tokenizer;
  if (!text_doubt(part, lines, error) || (!alike && !tokens_doubt(data, part, lines, error))) {
    return false;
  }
  doubts_chat(part->path, &part->odd, lines);
  return true;
}

bool data_doubts(const Data *data, Buffer *lines, Error *error) {
  for (int p = 0; p < files_of(data); p++) {
    const Data *part = file_of(data, p);
    if (!part_doubts(data, data, p, lines, error)) {
      return false;
    }
    for (int s = 0; s < data->set_count && !part->follows; s++) {
      if (!set_tokens_doubt(data, part, file_of(data->sets[s].data, 0), lines, error)) {
        return false;
      }
    }
  }
  for (int s = 0; s < data->set_count; s++) {
    for (int p = 0; p < files_of(data->sets[s].data); p++) {
      if (!part_doubts(data, data->sets[s].data, p, lines, error)) {
        return false;
      }
    }
  }
  masks_doubt(data, lines);
  bool done = separator_doubt(data, lines, error);
  for (int s = 0; s < data->set_count; s++) {
    masks_doubt(data->sets[s].data, lines);
    done = done && separator_doubt(data->sets[s].data, lines, error);
  }
  bool ignored[DATA_SETS_MOST];
  return done && doubts_sets(data, ignored, lines, error);
}

const char *doubts_answers(const Data *data, bool masks) {
  return masks || !data_facts(data).answers
             ? NULL
             : "the data says which tokens are of answers, but the model has no input `mask` or `share`: it learns the "
               "questions too";
}

void doubts_trained(const Data *data, const DataOptions *trained, Buffer *lines) {
  Data *other = NULL;
  Error ignored;
  if (namer_of(data, file_of(data, 0)) || !data_source_open(trained, &other, &ignored)) {
    return;
  }
  for (int p = 0; p < files_of(data); p++) {
    const Data *part = file_of(data, p);
    if (part->file.tokenizer != 0 && other->file.tokenizer != 0 && part->file.tokenizer != other->file.tokenizer) {
      buffer_format(lines,
                    "the tokens of %s, and those of %s that the run was trained on, were made by two tokenizers, or by "
                    "two states of one: if they mean other text, its loss says nothing\n",
                    part->path, other->path);
      break;
    }
  }
  data_close(other);
}
