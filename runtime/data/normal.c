// normal.c: normal forms by utf8proc, piece by piece between characters that stay as they are.
#include "runtime/data/normal.h"

#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

static const char *const names[] = {"", "NFC", "NFD", "NFKC", "NFKD"};

NormalForm normal_form(const char *name) {
  for (NormalForm form = NORMAL_NFC; form <= NORMAL_NFKD; form++) {
    if (strcmp(names[form], name) == 0) {
      return form;
    }
  }
  return NORMAL_NONE;
}

#ifdef MDL_UTF8PROC
#include <utf8proc.h>

bool normal_available(Error *error) {
  (void)error;
  return true;
}

static bool form_put(NormalForm form, const uint8_t *text, size_t length, Buffer *out) {
  static const utf8proc_option_t options[] = {
      [NORMAL_NFC] = UTF8PROC_COMPOSE,
      [NORMAL_NFD] = UTF8PROC_DECOMPOSE,
      [NORMAL_NFKC] = UTF8PROC_COMPOSE | UTF8PROC_COMPAT,
      [NORMAL_NFKD] = UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT,
  };
  utf8proc_uint8_t *made = NULL;
  const utf8proc_ssize_t size = utf8proc_map(text, (utf8proc_ssize_t)length, &made, UTF8PROC_STABLE | options[form]);
  if (size >= 0) {
    buffer_bytes(out, (const char *)made, (size_t)size);
  }
  free(made);
  return size >= 0 && !out->failed;
}
#else
bool normal_available(Error *error) {
  return error_set(
      error, 1, "mdl was built without utf8proc, which this tokenizer needs; install libutf8proc-dev and build again");
}

static bool form_put(NormalForm form, const uint8_t *text, size_t length, Buffer *out) {
  (void)form;
  buffer_bytes(out, (const char *)text, length);
  return !out->failed;
}
#endif

// Below U+0300, and from U+3000 to U+9FFF but for the marks there, nothing composes with what is ahead of it, and
// composing leaves it alone. Other forms leave ASCII alone.
bool normal_apart(NormalForm form, const uint8_t *text, size_t length, size_t *size) {
  const int bytes = utf8_character(text, length);
  *size = bytes > 0 ? (size_t)bytes : 1;
  if (bytes == 1) {
    return true;
  }
  if (form != NORMAL_NFC) {
    return false;
  }
  if (bytes == 2) {
    return text[0] < 0xcc;
  }
  const int code = bytes == 3 ? (text[0] & 15) << 12 | (text[1] & 63) << 6 | (text[2] & 63) : 0;
  return code >= 0x3000 && code <= 0x9fff && !(code >= 0x302a && code <= 0x302f) && code != 0x3099 && code != 0x309a;
}

// The end of the run that begins here: up to the next character that is apart.
static size_t run_end(NormalForm form, const uint8_t *text, size_t length, size_t at) {
  size_t size;
  normal_apart(form, text + at, length - at, &size);
  for (at += size; at < length && !normal_apart(form, text + at, length - at, &size);) {
    at += size;
  }
  return at;
}

static bool failed(Error *error) {
  return error_set(error, 3, "no memory for the normal form of a text");
}

static bool run_put(NormalForm form, const uint8_t *text, size_t length, Buffer *out, Error *error) {
  size_t size;
  if (normal_apart(form, text, length, &size) && size == length) {
    buffer_bytes(out, (const char *)text, length);
    return !out->failed || failed(error);
  }
  return form_put(form, text, length, out) || failed(error);
}

bool normal_put(NormalForm form, const uint8_t *text, size_t length, Buffer *out, Error *error) {
  size_t end;
  out->length = 0;
  buffer_text(out, "");
  for (size_t at = 0; at < length; at = end) {
    end = run_end(form, text, length, at);
    if (!run_put(form, text + at, end - at, out, error)) {
      return false;
    }
  }
  return true;
}

// Of one run, whose form is all of `work`.
static size_t place_in_run(NormalForm form, const uint8_t *text, size_t length, size_t used, const Buffer *work,
                           Error *error) {
  Buffer parts = {0};
  size_t found = SIZE_MAX;
  for (size_t at = 0; at <= length && found == SIZE_MAX;) {
    parts.length = 0;
    bool same = run_put(form, text, at, &parts, error) && parts.length == used;
    same = same && run_put(form, text + at, length - at, &parts, error) && parts.length == work->length &&
           memcmp(parts.text, work->text, work->length) == 0;
    found = same ? at : SIZE_MAX;
    const int size = at < length ? utf8_character(text + at, length - at) : 1;
    at += size > 0 ? (size_t)size : 1;
  }
  buffer_free(&parts);
  return found;
}

size_t normal_place(NormalForm form, const uint8_t *text, size_t length, size_t used, size_t *run, Buffer *work,
                    Error *error) {
  size_t end;
  for (size_t at = 0; at < length; at = end) {
    end = run_end(form, text, length, at);
    work->length = 0;
    *run = at;
    if (used == 0) {
      return at;
    }
    if (!run_put(form, text + at, end - at, work, error)) {
      return SIZE_MAX;
    }
    if (used < work->length) {
      const size_t inside = place_in_run(form, text + at, end - at, used, work, error);
      return inside == SIZE_MAX ? SIZE_MAX : at + inside;
    }
    used -= work->length;
  }
  return used == 0 ? length : SIZE_MAX;
}
