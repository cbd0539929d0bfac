// mix.c: several sources: those of a mix, the files of a pattern, and those that are validated with.
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "runtime/data/data_internal.h"
#include "runtime/data/files.h"
#include "runtime/data/find.h"
#include "runtime/data/order.h"
#include "runtime/data/override.h"
#include "runtime/data/source.h"

enum { SOURCES_MOST = 32 };  // of a mix

typedef struct {
  Data *data;
  double *weights;  // of the parts
  int room;         // for so many
  int sources;
  char pattern[PATH_MAX];  // of the first source; empty: it is a file
} Mixing;

// Sums of the parts, and whose each sample is.
static bool mix_finish(Data *data, const double *weights, Error *error) {
  double *windows = malloc(sizeof *windows * (size_t)(data->part_count + 1));
  for (int i = 0; windows && i < data->part_count; i++) {
    const Data *part = data->parts[i];
    windows[i] = (double)part->validation_windows;
    data->bytes += part->bytes;
    data->tokens += part->tokens;
    data->train_tokens += part->train_tokens;
    data->train_windows += part->train_windows;
    data->validation_windows += part->validation_windows;
    data->kinds = part->kinds > data->kinds ? part->kinds : data->kinds;
  }
  const bool done = windows && shares_set(&data->train, weights, data->part_count) &&
                    shares_set(&data->validation, windows, data->part_count);
  free(windows);
  return done || error_set(error, 3, "no memory");
}

static bool mixing_begin(Mixing *m, Error *error) {
  *m = (Mixing){.data = calloc(1, sizeof(Data))};
  if (!m->data) {
    return error_set(error, 3, "no memory");
  }
  m->data->fd = m->data->mask_fd = -1;
  return true;
}

// `path`: what the data is called; NULL: as its first source, and how many more there are.
static bool mixing_end(Mixing *m, bool done, const char *path, Data **data, Error *error) {
  Data *made = m->data;
  if (done && made->part_count == 0) {
    done = error_set(error, 1, "the recipe names no data; write `data text(\"corpus.txt\")` or give --data FILE");
  }
  done = done && mix_finish(made, m->weights, error);
  free(m->weights);
  if (done) {
    const char *first = path ? path : *m->pattern ? m->pattern : made->parts[0]->path;
    const size_t room = strlen(first) + 32;
    made->path = malloc(room);
    done = made->path || error_set(error, 3, "no memory");
    if (done) {
      snprintf(made->path, room, path || m->sources == 1 ? "%s" : "%s and %d more", first, m->sources - 1);
    }
  }
  if (!done) {
    data_close(made);
    return false;
  }
  *data = made;
  return true;
}

static bool source_open(const DataOptions *options, Data **data, Error *error);

static bool set_add(Data *data, const DataOptions *options, const SourceLine *line, Error *error) {
  DataSet *set = &data->sets[data->set_count];
  DataOptions of = *options;
  const bool told = *line->tokenizer && strcmp(line->tokenizer, TOKENIZER_NONE) != 0;
  if (data->set_count == DATA_SETS_MOST) {
    return error_set(error, 1, "the plan names more than %d validation sets", DATA_SETS_MOST);
  }
  if (told && options->tokenizer && strcmp(options->tokenizer, TOKENIZER_NONE) != 0 &&
      !find_same(line->tokenizer, options->tokenizer, options->base)) {
    return error_set(error, 1, "the validation source %s has the tokenizer '%s', but the data '%s'; they need one",
                     line->path, line->tokenizer, options->tokenizer);
  }
  of.tokenizer = told ? line->tokenizer : options->tokenizer;
  of.kind = line->kind;
  of.path = line->path;
  of.options = line->options;
  of.validation_fraction = 1;
  of.held_out = true;
  set->name = strdup(line->name);
  if (!set->name || !source_open(&of, &set->data, error)) {
    const bool memory = set->name != NULL;
    free(set->name);
    return memory ? false : error_set(error, 3, "no memory");
  }
  data->set_count++;
  return set->data->validation_windows > 0 ||
         error_set(error, 1,
                   "the validation source %s has %lld tokens, less than one window of %lld; use more text or a "
                   "shorter seq",
                   set->data->path, (long long)set->data->tokens, (long long)options->sequence + 1);
}

// Room for one part more.
static bool mixing_reserve(Mixing *m, Error *error) {
  if (m->data->part_count < m->room) {
    return true;
  }
  const int room = 2 * m->room + 1;
  Data **parts = realloc(m->data->parts, sizeof *parts * (size_t)room);
  m->data->parts = parts ? parts : m->data->parts;
  double *weights = realloc(m->weights, sizeof *weights * (size_t)room);
  m->weights = weights ? weights : m->weights;
  m->room = parts && weights ? room : m->room;
  return (parts && weights) || error_set(error, 3, "no memory");
}

// One more part; `options` but for its seed. A part that is alone has the seed of the run.
static bool part_open(Mixing *m, const DataOptions *options, bool alone, double weight, Error *error) {
  DataOptions of = *options;
  const int number = m->data->part_count;
  of.seed = alone ? options->seed : order_mix(options->seed + (uint64_t)number);
  if (!mixing_reserve(m, error) || !data_source_open(&of, &m->data->parts[number], error)) {
    return false;
  }
  m->weights[number] = weight;
  m->data->part_count++;
  return true;
}

// Is files.at[index] the index of a file of Megatron that is among them, too? That one reads both.
static bool is_index(const Files *files, int index) {
  static const char end[] = ".idx", tokens[] = ".bin";
  const char *path = files->at[index];
  const size_t stem = strlen(path) < sizeof end ? 0 : strlen(path) - strlen(end);
  bool is = false;
  for (int i = 0; stem > 0 && strcmp(path + stem, end) == 0 && i < files->count && !is; i++) {
    is = strncmp(files->at[i], path, stem) == 0 && strcmp(files->at[i] + stem, tokens) == 0;
  }
  return is;
}

// Does it say which tokens of one of these parts are of answers? One that does not fit would be read as tokens.
static bool mask_find(Data *const *parts, int count, const char *path, bool *is, Error *error) {
  const size_t end = strlen(MASK_ENDING), length = strlen(path), stem = length > end ? length - end : 0;
  struct stat info;
  for (int i = 0; stem > 0 && strcmp(path + stem, MASK_ENDING) == 0 && i < count && !*is; i++) {
    const Data *part = parts[i];
    if (strlen(part->path) != stem || strncmp(part->path, path, stem) != 0) {
      continue;
    }
    if (stat(path, &info) != 0) {
      return find_unreadable("mask", path, error);
    }
    if (info.st_size != part->file.count) {
      return error_set(error, 1,
                       "%s has the name of a mask of %s, but %lld bytes, not one for each of its %lld tokens; remove "
                       "it, give it another name, or write a pattern that it does not fit",
                       path, part->path, (long long)info.st_size, (long long)part->file.count);
    }
    *is = true;
  }
  return true;
}

// Of a pattern of tokens: what lies beside a file that is among them, and is read with it, or is none of its tokens.
static bool is_beside(const Mixing *m, int first, const char *kind, const Files *files, int index, bool *is,
                      Error *error) {
  const bool tokens = strncmp(kind ? kind : "", "tokens", strlen("tokens")) == 0;
  *is = tokens && is_index(files, index);
  return !tokens || *is || mask_find(m->data->parts + first, m->data->part_count - first, files->at[index], is, error);
}

// One of them, all of which is validated with, has at least a window: else it would be left out.
static bool windows_check(const Data *part, const DataOptions *options, Error *error) {
  return options->validation_fraction < 1 || part->validation_windows > 0 ||
         error_set(error, 1,
                   "%s has %lld tokens, less than one window of %lld (seq + 1); use a shorter seq, or make one file "
                   "of tokens of several: `mdl data encode`",
                   part->path, (long long)part->tokens, (long long)part->sequence + 1);
}

// The files of a pattern share its weight as they have windows, so that a pass over them has each window once.
static bool files_add(Mixing *m, const DataOptions *options, bool alone, double weight, Error *error) {
  const char *what = options->held_out ? VALIDATION_FILE : DATA_FILE;
  const int first = m->data->part_count;
  SourceOptions told;
  Files files = {.count = 0};
  double windows = 0;
  bool done = source_options(options->options, &told, error) &&
              (!told.mask || error_set(error, 1,
                                       "the pattern %s: a mask is of one file; name the files one by one, as a "
                                       "mix of sources that each have theirs",
                                       options->path)) &&
              files_find(what, options->path, options->base, &files, error);
  for (int i = 0; done && i < files.count; i++) {
    const int number = m->data->part_count;
    DataOptions of = *options;
    bool beside;
    done = is_beside(m, first, of.kind, &files, i, &beside, error);
    if (!done || beside) {
      continue;
    }
    of.path = files.at[i];
    of.like = number > first ? m->data->parts[first] : NULL;
    done = part_open(m, &of, alone && files.count == 1, 0, error) && windows_check(m->data->parts[number], &of, error);
    if (done) {
      Data *part = m->data->parts[number];
      part->follows = number > first;
      windows += (double)part->train_windows;
    }
  }
  for (int i = first; i < m->data->part_count; i++) {
    m->weights[i] = windows > 0 ? weight * (double)m->data->parts[i]->train_windows / windows : 0;
  }
  m->data->files += m->data->part_count - first;
  if (done && first == 0) {
    snprintf(m->pattern, sizeof m->pattern, "%s", files.placed);
  }
  files_free(&files);
  return done;
}

static bool part_add(Mixing *m, const DataOptions *options, const SourceLine *line, bool alone, double weight,
                     Error *error) {
  DataOptions of = *options;
  if (m->sources++ == SOURCES_MOST || strcmp(line->kind, "mix") == 0) {
    return error_set(error, 1, "the plan names a mix of data that cannot be read");
  }
  of.kind = line->kind;
  of.tokenizer = line->tokenizer;
  of.path = line->path;
  of.options = line->options;
  return files_pattern(of.path, of.base) ? files_add(m, &of, alone, weight, error)
                                         : part_open(m, &of, alone, weight, error);
}

static bool mix_open(const DataOptions *options, Data **data, Error *error) {
  Mixing m;
  SourceLine line;
  const bool alone = source_count(options->path) == 1;
  bool done = mixing_begin(&m, error);
  for (const char *at = options->path; done && *at;) {
    const size_t length = strcspn(at, "\n");
    char *end = NULL;
    double weight = -1;
    done = (source_line(at, length, &line) && (weight = strtod(line.weight, &end)) >= 0 && weight <= 1e12 && !*end) ||
           error_set(error, 1, "the plan names a mix of data that cannot be read");
    if (done && weight > 0) {
      done = part_add(&m, options, &line, alone, weight, error);
    } else if (done && !options->all) {
      done = set_add(m.data, options, &line, error);
    }
    at += length + (at[length] == '\n');
  }
  return m.data && mixing_end(&m, done, NULL, data, error);
}

// A source that is a file, or the files of a pattern.
static bool source_open(const DataOptions *options, Data **data, Error *error) {
  Mixing m;
  if (!files_pattern(options->path, options->base)) {
    return data_source_open(options, data, error);
  }
  if (!mixing_begin(&m, error)) {
    return false;
  }
  m.sources = 1;
  const bool done = files_add(&m, options, true, 1, error);
  return mixing_end(&m, done, m.pattern, data, error);
}

// An absolute path in the place of a name, where the file is there and has none of the characters of `never`.
static void put_placed(Buffer *out, const char *name, size_t length, const char *base, const char *never) {
  char path[PATH_MAX], placed[PATH_MAX];
  snprintf(path, sizeof path, "%.*s", (int)length, name);
  const bool found = length < sizeof path && data_place(path, base, placed);
  if (found && !strpbrk(placed, never)) {
    buffer_text(out, placed);
  } else {
    buffer_bytes(out, name, length);
  }
}

// The same of a source. Whether the files of a pattern are there must be known: else it would stay a name.
static bool put_source(Buffer *out, const char *name, const char *base, Error *error) {
  Files files;
  if (!files_pattern(name, base)) {
    put_placed(out, name, strlen(name), base, "\t\n");
    return true;
  }
  const bool done = files_find(DATA_FILE, name, base, &files, error), none = files.none;
  buffer_text(out, done && !strpbrk(files.placed, "\t\n") ? files.placed : name);
  files_free(&files);
  return done || none;
}

// The same sources, which are found from any directory.
static bool described_placed(const char *table, const char *base, char **described, Error *error) {
  static const char mask[] = SOURCE_MASK "=";
  Buffer text = {0};
  SourceLine line;
  bool done = true;
  for (const char *at = table; done && *at; at += strcspn(at, "\n"), at += *at == '\n') {
    if (!source_line(at, strcspn(at, "\n"), &line)) {
      break;
    }
    buffer_format(&text, "%s\t%s\t%s\t", line.name, line.weight, line.kind);
    if (strcmp(line.tokenizer, TOKENIZER_BYTES) == 0 || strcmp(line.tokenizer, TOKENIZER_NONE) == 0) {
      buffer_text(&text, line.tokenizer);
    } else {
      put_placed(&text, line.tokenizer, strlen(line.tokenizer), base, "\t\n");
    }
    buffer_text(&text, "\t");
    done = put_source(&text, line.path, base, error);
    buffer_text(&text, line.options ? "\t" : "");
    for (const char *option = line.options; option && *option; option += *option == ';') {
      const size_t name = strncmp(option, mask, strlen(mask)) == 0 ? strlen(mask) : 0, all = strcspn(option, ";");
      buffer_bytes(&text, option, name > 0 ? name : all);
      if (name > 0) {
        put_placed(&text, option + name, all - name, base, "\t\n\\;");
      }
      option += all;
      buffer_bytes(&text, option, *option == ';');
    }
    buffer_text(&text, "\n");
  }
  *described = text.text;
  return done && (!text.failed || error_set(error, 3, "no memory"));
}

bool data_open(const DataOptions *options, Data **data, Error *error) {
  DataOptions of = *options;
  const bool mixed = of.kind && strcmp(of.kind, "mix") == 0, table = mixed && of.path && strchr(of.path, '\t');
  of.kind = mixed && !table ? "text" : of.kind;  // a file in its place
  if (!table) {
    of.path = of.file ? of.file : of.path;
    return source_open(&of, data, error);
  }
  char *described = NULL, *placed = NULL;
  bool done = !of.file || override_describe(&of, &described, error);
  of.path = described ? described : of.path;
  done = done && described_placed(of.path, of.base, &placed, error) && mix_open(&of, data, error);
  if (done) {
    (*data)->described = placed;
  } else {
    free(placed);
  }
  free(described);
  return done;
}

int data_set_count(const Data *data) {
  return data->set_count > 0 ? data->set_count : data->validation_windows > 0;
}

const Data *data_set(const Data *data, int set, const char **name) {
  *name = data->set_count > 0 ? data->sets[set].name : "";
  return data->set_count > 0 ? data->sets[set].data : data;
}
