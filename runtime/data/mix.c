// mix.c: several sources: those of a mix, those that are validated with, and a file in the place of them.
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/data/data_internal.h"
#include "runtime/data/order.h"
#include "runtime/data/source.h"

// Sums of the parts, and whose each sample is.
static void mix_finish(Data *data, const double *weights) {
  double windows[SHARES_MOST];
  shares_set(&data->train, weights, data->part_count);
  data->bytes_per_token = 0;
  int64_t weighed = 0;
  for (int i = 0; i < data->part_count; i++) {
    const Data *part = data->parts[i];
    const int64_t weight = part->tokens - part->train_tokens > 0 ? part->tokens - part->train_tokens : 1;
    windows[i] = (double)part->validation_windows;
    data->bytes += part->bytes;
    data->tokens += part->tokens;
    data->train_tokens += part->train_tokens;
    data->train_windows += part->train_windows;
    data->validation_windows += part->validation_windows;
    data->kinds = part->kinds > data->kinds ? part->kinds : data->kinds;
    data->bytes_per_token += part->bytes_per_token * (double)weight;
    weighed += weight;
  }
  data->bytes_per_token /= (double)weighed;
  shares_set(&data->validation, windows, data->part_count);
}

// Do two names stand for the same tokenizer? A run knows its own by an absolute path.
static bool tokenizers_same(const char *a, const char *b, const char *base) {
  char first[PATH_MAX], second[PATH_MAX];
  return strcmp(a, b) == 0 || (data_place(a, base, first) && data_place(b, base, second) && strcmp(first, second) == 0);
}

static bool set_add(Data *data, const DataOptions *options, const SourceLine *line, Error *error) {
  DataSet *set = &data->sets[data->set_count];
  DataOptions of = *options;
  const bool told = *line->tokenizer && strcmp(line->tokenizer, TOKENIZER_NONE) != 0;
  if (data->set_count == DATA_SETS_MOST) {
    return error_set(error, 1, "the plan names more than %d validation sets", DATA_SETS_MOST);
  }
  if (told && options->tokenizer && strcmp(options->tokenizer, TOKENIZER_NONE) != 0 &&
      !tokenizers_same(line->tokenizer, options->tokenizer, options->base)) {
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
  if (!set->name || !data_source_open(&of, &set->data, error)) {
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

static bool part_add(Data *data, const DataOptions *options, const SourceLine *line, bool alone, Error *error) {
  DataOptions of = *options;
  if (data->part_count == SHARES_MOST || strcmp(line->kind, "mix") == 0) {
    return error_set(error, 1, "the plan names a mix of data that cannot be read");
  }
  of.kind = line->kind;
  of.tokenizer = line->tokenizer;
  of.path = line->path;
  of.options = line->options;
  of.seed = alone ? options->seed : order_mix(options->seed + (uint64_t)data->part_count);
  return data_source_open(&of, &data->parts[data->part_count], error) && ++data->part_count > 0;
}

static int training_lines(const char *table) {
  SourceLine line;
  int count = 0;
  for (const char *at = table; *at; at += strcspn(at, "\n"), at += *at == '\n') {
    count += source_line(at, strcspn(at, "\n"), &line) && strtod(line.weight, NULL) > 0;
  }
  return count;
}

static bool mix_open(const DataOptions *options, Data **data, Error *error) {
  Data *made = calloc(1, sizeof *made);
  double weights[SHARES_MOST] = {0};
  SourceLine line;
  const bool alone = training_lines(options->path) == 1;
  bool done = made || error_set(error, 3, "no memory");
  if (made) {
    made->fd = made->mask_fd = -1;
  }
  for (const char *at = options->path; done && *at;) {
    const size_t length = strcspn(at, "\n");
    char *end = NULL;
    double weight = -1;
    done = (source_line(at, length, &line) && (weight = strtod(line.weight, &end)) >= 0 && weight <= 1e12 && !*end) ||
           error_set(error, 1, "the plan names a mix of data that cannot be read");
    if (done && weight > 0) {
      weights[made->part_count % SHARES_MOST] = weight;
      done = part_add(made, options, &line, alone, error);
    } else if (done && !options->all) {
      done = set_add(made, options, &line, error);
    }
    at += length + (at[length] == '\n');
  }
  if (done) {
    done = made->part_count > 0 ||
           error_set(error, 1, "the recipe names no data; write `data text(\"corpus.txt\")` or give --data FILE");
  }
  if (done) {
    mix_finish(made, weights);
    const size_t room = strlen(made->parts[0]->path) + 32;
    made->path = malloc(room);
    done = made->path || error_set(error, 3, "no memory");
    if (done) {
      snprintf(made->path, room, alone ? "%s" : "%s and %d more", made->parts[0]->path, made->part_count - 1);
    }
  }
  if (!done) {
    data_close(made);
    return false;
  }
  *data = made;
  return true;
}

// The sources with a file in the place of those to train on: read as they were where there was one, else as text.
static bool described_with(const DataOptions *options, char **described, Error *error) {
  char found[PATH_MAX];
  const char *const file = realpath(options->file, found) ? found : options->file;
  const bool alone = training_lines(options->path) == 1;
  Buffer text = {0};
  SourceLine line;
  if (!alone) {
    buffer_format(&text, "data\t1\ttext\t%s\t%s\n", options->tokenizer ? options->tokenizer : TOKENIZER_BYTES, file);
  }
  for (const char *at = options->path; *at; at += strcspn(at, "\n"), at += *at == '\n') {
    const size_t length = strcspn(at, "\n");
    if (!source_line(at, length, &line)) {
      break;
    }
    if (!(strtod(line.weight, NULL) > 0)) {
      buffer_bytes(&text, at, length);
      buffer_text(&text, "\n");
    } else if (alone) {
      buffer_format(&text, "%s\t%s\t%s\t%s\t%s%s%s\n", line.name, line.weight, line.kind, line.tokenizer, file,
                    line.options ? "\t" : "", line.options ? line.options : "");
    }
  }
  *described = text.text;
  return !text.failed || error_set(error, 3, "no memory");
}

// An absolute path in the place of a name, where the file is there and a line can hold the path as it is.
static void put_placed(Buffer *out, const char *name, size_t length, const char *base) {
  char path[PATH_MAX], placed[PATH_MAX];
  snprintf(path, sizeof path, "%.*s", (int)length, name);
  const bool found = length < sizeof path && data_place(path, base, placed);
  if (found && !strpbrk(placed, "\t\n\\;")) {
    buffer_text(out, placed);
  } else {
    buffer_bytes(out, name, length);
  }
}

// The same sources, which are found from any directory.
static bool described_placed(const char *table, const char *base, char **described, Error *error) {
  static const char mask[] = "mask=";
  Buffer text = {0};
  SourceLine line;
  for (const char *at = table; *at; at += strcspn(at, "\n"), at += *at == '\n') {
    if (!source_line(at, strcspn(at, "\n"), &line)) {
      break;
    }
    buffer_format(&text, "%s\t%s\t%s\t", line.name, line.weight, line.kind);
    if (strcmp(line.tokenizer, TOKENIZER_BYTES) == 0 || strcmp(line.tokenizer, TOKENIZER_NONE) == 0) {
      buffer_text(&text, line.tokenizer);
    } else {
      put_placed(&text, line.tokenizer, strlen(line.tokenizer), base);
    }
    buffer_text(&text, "\t");
    put_placed(&text, line.path, strlen(line.path), base);
    buffer_text(&text, line.options ? "\t" : "");
    for (const char *option = line.options; option && *option; option += *option == ';') {
      const size_t name = strncmp(option, mask, strlen(mask)) == 0 ? strlen(mask) : 0, all = strcspn(option, ";");
      buffer_bytes(&text, option, name > 0 ? name : all);
      if (name > 0) {
        put_placed(&text, option + name, all - name, base);
      }
      option += all;
      buffer_bytes(&text, option, *option == ';');
    }
    buffer_text(&text, "\n");
  }
  *described = text.text;
  return !text.failed || error_set(error, 3, "no memory");
}

bool data_open(const DataOptions *options, Data **data, Error *error) {
  DataOptions of = *options;
  const bool mixed = of.kind && strcmp(of.kind, "mix") == 0, table = mixed && of.path && strchr(of.path, '\t');
  of.kind = mixed && !table ? "text" : of.kind;  // a file in its place
  if (!table) {
    of.path = of.file ? of.file : of.path;
    return data_source_open(&of, data, error);
  }
  char *described = NULL, *placed = NULL;
  bool done = !of.file || described_with(&of, &described, error);
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
