// run_beginning.c: hashes of weights, and the comment of a text that says which a run began with.
#include "runtime/run_beginning.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "runtime/convert/hf_files.h"
#include "runtime/convert/peft.h"
#include "runtime/data/fingerprint.h"
#include "runtime/run.h"

// Files of one directory; numbers of each are added up, so that no order matters.
static bool is_of_weights(const char *name) {
  static const char ending[] = ".safetensors";
  const size_t length = strlen(name), end = sizeof ending - 1;
  return strcmp(name, HF_CONFIG) == 0 || strcmp(name, PEFT_CONFIG) == 0 ||
         (length > end && strcmp(name + length - end, ending) == 0 && strncmp(name, "optimizer", 9) != 0);
}

static bool file_print(const char *path, const char *name, uint64_t *sum, Error *error) {
  uint64_t print = 0;
  const bool done = fingerprint_file(path, &print, error);
  *sum += XXH3_64bits_withSeed(name, strlen(name), print);
  return done;
}

static bool directory_print(const char *path, uint64_t *sum, Error *error) {
  char found[IO_PATH_MAX], file[IO_PATH_MAX];
  if (!source_find(path, found, error)) {
    return false;
  }
  DIR *open = opendir(found);
  bool done = open || io_failed("read", found, error);
  while (done) {
    errno = 0;
    const struct dirent *entry = readdir(open);
    if (!entry) {
      done = errno == 0 || io_failed("read", found, error);
      break;
    }
    done = !is_of_weights(entry->d_name) ||
           (io_path(file, error, "%s/%s", found, entry->d_name) && file_print(file, entry->d_name, sum, error));
  }
  if (open) {
    closedir(open);
  }
  return done;
}

bool weights_print(const SourceOptions *from, uint64_t *print, Error *error) {
  uint64_t sums[3] = {0};
  const bool done = directory_print(from->path, &sums[0], error) &&
                    (!from->adapters || directory_print(from->adapters, &sums[1], error)) &&
                    (!from->mapping || file_print(from->mapping, "", &sums[2], error));
  *print = XXH3_64bits(sums, sizeof sums) | 1;
  return done;
}

// The string that begins at *at, as buffer_string wrote it, and past it. NULL: there is none.
static const char *string_take(Arena *arena, const char **at) {
  const char *from = *at;
  if (*from != '"') {
    return NULL;
  }
  char *text = arena_alloc(arena, strlen(from) + 1), *to = text;
  for (from++; *from && *from != '"'; from++) {
    const bool escaped = *from == '\\' && from[1];
    from += escaped;
    *to++ = escaped && *from == 'n' ? '\n' : escaped && *from == 't' ? '\t' : *from;
  }
  *to = '\0';
  *at = from + (*from == '"');
  return text;
}

static bool option_take(const char **at, const char *option) {
  const size_t length = strlen(option);
  const bool is = strncmp(*at, option, length) == 0 && (!(*at)[length] || (*at)[length] == ' ');
  *at += is ? length + ((*at)[length] == ' ') : 0;
  return is;
}

// The rest of a line.
static bool options_read(Arena *arena, const char *line, RunBeginning *beginning) {
  const struct {
    const char *option, **path;
  } named[] = {{"--from", &beginning->from.path},
               {"--adapters", &beginning->from.adapters},
               {"--mapping", &beginning->from.mapping}};
  const char *at = line;
  while (*at) {
    bool known = *at == ' ';
    at += known;
    for (int i = 0; i < 3 && !known; i++) {
      if (option_take(&at, named[i].option)) {
        *named[i].path = string_take(arena, &at);
        known = *named[i].path != NULL;
      }
    }
    if (!known && option_take(&at, "--partial")) {
      known = beginning->from.partial = true;
    } else if (!known && option_take(&at, "--save-trained")) {
      known = beginning->save_trained = true;
    }
    if (!known) {
      return false;
    }
  }
  return beginning->from.path != NULL;
}

bool run_beginning(Arena *arena, const char *resolved, RunBeginning *beginning, bool *began, Error *error) {
  *beginning = (RunBeginning){0};
  const char *lines = run_weights_before(arena, resolved);
  *began = lines != NULL;
  if (!lines) {
    return true;
  }
  if (strncmp(lines, RUN_WEIGHTS_HASH, strlen(RUN_WEIGHTS_HASH)) == 0) {
    beginning->print = strtoull(lines + strlen(RUN_WEIGHTS_HASH), NULL, 16);
    lines += strcspn(lines, "\n") + 1;
  }
  return options_read(arena, lines + strlen(RUN_BEGUN_WITH), beginning) ||
         error_set(error, 1,
                   "this run began with weights that its text cannot name, `%.300s`, and saved nothing since; begin "
                   "again with --restart --from DIR",
                   lines + 3);
}

bool run_beginning_holds(const RunBeginning *beginning, const char *path, Error *error) {
  char word[IO_PATH_MAX];
  uint64_t print;
  Error why = {0};
  const char *from = beginning->from.path, *adapters = beginning->from.adapters;
  const char *run = buffer_word(word, sizeof word, path);
  if (!weights_print(&beginning->from, &print, &why)) {
    return error_set(
        error, why.status,
        "this run saved nothing since it began with the weights of %.300s, and they cannot be read: %.600s; "
        "`mdl train %s --restart --from DIR` begins with others",
        from, why.text, run);
  }
  return beginning->print == 0 || beginning->print == print ||
         error_set(error, 1,
                   "this run saved nothing since it began with the weights of %.300s%s%.300s, which are others now; "
                   "`mdl train %s --restart --from DIR` begins with these, or with others",
                   from, adapters ? " and the adapters of " : "", adapters ? adapters : "", run);
}
