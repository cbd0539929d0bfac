// hub.c: OWNER/NAME, NAME, hf://OWNER/NAME and https://huggingface.co/OWNER/NAME.
#include "runtime/hub.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { NAME_MOST = 96 };

// Behind the beginning of an address, if it is one.
static const char *behind_address(const char *path, bool *address) {
  static const char *const begins[] = {"https://huggingface.co/", "http://huggingface.co/", "huggingface.co/",
                                       "https://hf.co/",          "hf://models/",           "hf://"};
  for (size_t i = 0; i < sizeof begins / sizeof *begins; i++) {
    if (strncmp(path, begins[i], strlen(begins[i])) == 0) {
      *address = true;
      return path + strlen(begins[i]);
    }
  }
  *address = false;
  return path;
}

// Letters, digits, `-`, `_` and `.`, which it does not begin with; returns where it ends, or NULL.
static const char *name_end(const char *text) {
  const char *at = text;
  while (isalnum((unsigned char)*at) || *at == '_' || ((*at == '-' || *at == '.') && at > text)) {
    at++;
  }
  return at == text || at - text > NAME_MOST || strstr(text, "..") ? NULL : at;
}

// Is there a directory of the owner's name? Then the path is one of files here, and mistyped.
static bool owner_is_here(const char *text, size_t length) {
  char owner[NAME_MOST + 1];
  struct stat info;
  snprintf(owner, sizeof owner, "%.*s", (int)length, text);
  return stat(owner, &info) == 0;
}

const char *hub_hint(const char *path, const char *before, const char *behind, const char *file,
                     char hint[HUB_HINT_MAX]) {
  static const char *const files[] = {".mdl", ".mdlx", ".json", ".safetensors", ".bin", ".txt", ".jsonl", ".model"};
  bool address;
  const char *name = behind_address(path, &address), *end = name_end(name), *last = name;
  *hint = '\0';
  if (end && *end == '/' && end[1]) {
    last = end + 1;
    if (!address && owner_is_here(name, (size_t)(end - name))) {
      return hint;
    }
    end = name_end(last);
  }
  const char *rest = end && *end == '/' ? end + 1 : end;
  if (!end || (*rest && !address)) {
    return hint;
  }
  for (size_t i = 0; i < sizeof files / sizeof *files && !address; i++) {
    const size_t length = strlen(files[i]);
    if ((size_t)(end - last) > length && strncmp(end - length, files[i], length) == 0) {
      return hint;
    }
  }
  const int whole = (int)(end - name), short_name = (int)(end - last);
  snprintf(
      hint, HUB_HINT_MAX,
      "; nothing is downloaded: %s`huggingface-cli download %.*s%s%s --local-dir %.*s` makes a directory of it, then "
      "%s%.*s%s",
      address ? "" : "if that is a name on the Hugging Face hub, ", whole, name, file ? " " : "", file ? file : "",
      short_name, last, before, short_name, last, behind);
  return hint;
}
